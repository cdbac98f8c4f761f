//! How a client authenticated, by what mail programs write into their Received fields.

use std::sync::LazyLock;

use regex::bytes::Regex;

use super::super::ip;
use super::super::words::{Line, has, may_have};
use crate::views::perl::find;

/// How the client authenticated, if the line says so.
pub(super) fn authentication(line: &Line<'_>) -> Vec<u8> {
    let by = has!(line, " by ");
    let capture = |regex: Option<&Regex>, slot: usize| {
        let found = regex?.captures(line)?;
        Some(found.get(slot)?.as_bytes().to_vec())
    };
    if by && let Some(word) = authenticated_protocol(line) {
        return word.to_vec();
    }
    if has!(line, " by mx.google.com with ESMTPS id ")
        && regex!(r"(?-u) by mx\.google\.com with ESMTPS id [a-z0-9]{1,4}sm[0-9]{2,9}[a-z]{3}\.[0-9]{1,3}\.[0-9]{4}\.(?:[0-6][0-9]\.){4}[0-6][0-9]")
            .is_some_and(|r| r.is_match(line))
        && let Some(found) =
            regex!(r"(?-u)\(version=([^ ]+) cipher=([^)]+)\)").and_then(|r| r.captures(line))
    {
        return [b"GMail - transport=", &found[1], b" cipher=", &found[2]].concat();
    }
    if has!(line, "(AUTH: ")
        && let Some(word) = capture(
            regex!(
                r"(?-u)^from .*?(?:\]\)|\)\]) \(AUTH: (LOGIN|PLAIN|DIGEST-MD5|CRAM-MD5) \S+(?:, .*?)?\) by "
            ),
            1,
        )
    {
        return word;
    }
    if has!(line, "authenticated")
        && regex!(r"(?-u)^from .*?(?:\](?: \([^)]*\))?\)|\)\]) .*?\(.*?authenticated.*?\).*? by")
            .is_some_and(|r| r.is_match(line))
    {
        return b"Sendmail".to_vec();
    }
    if has!(line, "mail.gmx.")
        && let Some(found) = regex!(
            r"(?-u)from \S* \((?:HELO|EHLO) (?:\S*)\) \[([0-9A-Fa-fIPv.:]+)\] by (mail\.gmx\.(?:net|com)) \([^)]+\) with (ESMTP|SMTP)"
        )
        .and_then(|r| r.captures(line))
        && ip::address_at(&found[1], 0) == Some(found[1].len())
    {
        return [b"GMX (", &found[3], b" / ", &found[2], b")"].concat();
    }
    if has!(line, " (authenticated as ")
        && regex!(r"(?-u)\) by .+ \(\d{1,2}\.\d\.\d{3}(?:\.\d{1,3})?\) \(authenticated as .+\) id ")
            .is_some_and(|r| r.is_match(line))
    {
        return b"CriticalPath".to_vec();
    }
    if has!(line, ") (Authenticated sender: ")
        && let Some(name) =
            capture(regex!(r"(?-u)\) \(Authenticated sender: \S+\) by \S+ \(([^)]+)\) with "), 1)
    {
        return if name == b"Postfix" { name } else { [b"Postfix (", &*name, b")"].concat() };
    }
    let is_pro = |name: &&str| find(line, format!("CommuniGate Pro {name}").as_bytes()).is_some();
    if has!(line, " (account ") && ["HTTP", "SMTP", "XIMSS", "IMAP"].iter().any(is_pro) {
        return b"Communigate".to_vec();
    }
    if has!(line, " with Microsoft Exchange Server HTTP-DAV") {
        return b"HTTP-DAV".to_vec();
    }
    if by
        && may_have!(line, b" (via HTTP")
        && let Some(word) = capture(regex!(r"(?i-u) \(via (HTTP.?)\)(?: |;|$)"), 1)
    {
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
    let withs = memchr::memchr2_iter(b'w', b'W', line).filter(|&w| {
        let word = w.checked_sub(1).and_then(|space| line.get(space..w + 5));
        word.is_some_and(|word| word.eq_ignore_ascii_case(b" with "))
    });
    withs.into_iter().find_map(|w| {
        let rest = &line[w + 5..];
        let end = rest.iter().position(|b| matches!(b, b' ' | b';')).unwrap_or(rest.len());
        known.iter().any(|k| k.eq_ignore_ascii_case(&rest[..end])).then(|| &rest[..end])
    })
}
