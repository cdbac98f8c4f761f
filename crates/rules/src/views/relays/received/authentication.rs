//! How a client authenticated, by what programs write into their Received fields.

use std::sync::LazyLock;

use regex::bytes::Regex;

use super::super::ip;
use super::contains;
use crate::views::perl::find_no_case;

/// How the client authenticated, if the line says so.
pub(super) fn authentication(line: &[u8]) -> Vec<u8> {
    let by = contains(line, " by ");
    let capture = |regex: Option<&Regex>, slot: usize| {
        let found = regex?.captures(line)?;
        Some(found.get(slot)?.as_bytes().to_vec())
    };
    if by && let Some(word) = authenticated_protocol(line) {
        return word.to_vec();
    }
    if contains(line, " by mx.google.com with ESMTPS id ")
        && regex!(r"(?-u) by mx\.google\.com with ESMTPS id [a-z0-9]{1,4}sm[0-9]{2,9}[a-z]{3}\.[0-9]{1,3}\.[0-9]{4}\.(?:[0-6][0-9]\.){4}[0-6][0-9]")
            .is_some_and(|r| r.is_match(line))
        && let Some(found) =
            regex!(r"(?-u)\(version=([^ ]+) cipher=([^)]+)\)").and_then(|r| r.captures(line))
    {
        return [b"GMail - transport=", &found[1], b" cipher=", &found[2]].concat();
    }
    if contains(line, "(AUTH: ")
        && let Some(word) = capture(
            regex!(
                r"(?-u)^from .*?(?:\]\)|\)\]) \(AUTH: (LOGIN|PLAIN|DIGEST-MD5|CRAM-MD5) \S+(?:, .*?)?\) by "
            ),
            1,
        )
    {
        return word;
    }
    if contains(line, "authenticated")
        && regex!(r"(?-u)^from .*?(?:\](?: \([^)]*\))?\)|\)\]) .*?\(.*?authenticated.*?\).*? by")
            .is_some_and(|r| r.is_match(line))
    {
        return b"Sendmail".to_vec();
    }
    if contains(line, "mail.gmx.")
        && let Some(found) = regex!(
            r"(?-u)from \S* \((?:HELO|EHLO) (?:\S*)\) \[([0-9A-Fa-fIPv.:]+)\] by (mail\.gmx\.(?:net|com)) \([^)]+\) with (ESMTP|SMTP)"
        )
        .and_then(|r| r.captures(line))
        && ip::address_at(&found[1], 0) == Some(found[1].len())
    {
        return [b"GMX (", &found[3], b" / ", &found[2], b")"].concat();
    }
    if contains(line, " (authenticated as ")
        && regex!(r"(?-u)\) by .+ \(\d{1,2}\.\d\.\d{3}(?:\.\d{1,3})?\) \(authenticated as .+\) id ")
            .is_some_and(|r| r.is_match(line))
    {
        return b"CriticalPath".to_vec();
    }
    if contains(line, ") (Authenticated sender: ")
        && let Some(name) =
            capture(regex!(r"(?-u)\) \(Authenticated sender: \S+\) by \S+ \(([^)]+)\) with "), 1)
    {
        return if name == b"Postfix" { name } else { [b"Postfix (", &*name, b")"].concat() };
    }
    let pro = ["HTTP", "SMTP", "XIMSS", "IMAP"];
    if contains(line, " (account ")
        && pro.iter().any(|p| contains(line, &format!("CommuniGate Pro {p}")))
    {
        return b"Communigate".to_vec();
    }
    if contains(line, " with Microsoft Exchange Server HTTP-DAV") {
        return b"HTTP-DAV".to_vec();
    }
    if by && let Some(word) = capture(regex!(r"(?i-u) \(via (HTTP.?)\)(?: |;|$)"), 1) {
        return word;
    }
    Vec::new()
}

/// The first ` with PROTOCOL` whose protocol says that the client authenticated (RFC 3848).
fn authenticated_protocol(line: &[u8]) -> Option<&[u8]> {
    let known: [&[u8]; 12] = [
        b"ESMTPA",
        b"ESMTPSA",
        b"LMTPA",
        b"LMTPSA",
        b"UTF8SMTPA",
        b"UTF8SMTPSA",
        b"UTF8LMTPA",
        b"UTF8LMTPSA",
        b"ASMTP",
        b"HTTP",
        b"HTTPS",
        b"HTTPU",
    ];
    let mut at = 0;
    while let Some(i) = find_no_case(&line[at..], b" with ").map(|i| at + i) {
        let rest = &line[i + 6..];
        let word =
            &rest[..rest.iter().position(|b| matches!(b, b' ' | b';')).unwrap_or(rest.len())];
        if known.iter().any(|k| k.eq_ignore_ascii_case(word)) {
            return Some(word);
        }
        at = i + 1;
    }
    None
}
