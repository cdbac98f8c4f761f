//! `Authentication-Results` (RFC 8601): ours is added, those that others forged in our name are
//! taken out.

use gauntlet_mail::facts::{AuthResult, DmarcPolicy, Facts};
use gauntlet_mail::{Envelope, Message};
use gauntlet_smtp::text::breaks_line;

use crate::message::ReceivedMessage;

/// Longest spelling of a host name that is compared, in bytes: 253 of a name, each sign as one of
/// up to four bytes of UTF-8 and as many again that UTS 46 ignores.
const NAME_BYTES_MAX: usize = 2_048;
/// Signatures named in the field.
const SIGNATURES_MAX: usize = 5;

/// The message with our field at its top, and without fields that claim to be ours. None if there
/// is nothing to say and nothing to take out.
pub fn stamp(raw: &[u8], host: &str, facts: &Facts, envelope: &Envelope) -> Option<Vec<u8>> {
    let mut message = ReceivedMessage::copy_of(raw);
    stamp_in(&mut message, host, facts, envelope).then(|| message.bytes().to_vec())
}

/// Puts our field on top of a message, and takes out fields that claim to be ours, where they lie.
/// False if there was nothing to say and nothing to take out.
pub(crate) fn stamp_in(
    message: &mut ReceivedMessage,
    host: &str,
    facts: &Facts,
    envelope: &Envelope,
) -> bool {
    let ours = field(message.bytes(), host, facts, envelope);
    let removed = message.remove_fields(|field| may_name_host(field, host, facts.arc));
    if let Some(ours) = &ours {
        message.put_first(ours.as_bytes());
    }
    ours.is_some() || removed > 0
}

/// The field is the result of this host (RFC 8601 section 2.2).
fn names_host(field: &[u8], host: &str) -> bool {
    super::is_named(field, b"authentication-results")
        && server_of(field).is_some_and(|s| s.eq_ignore_ascii_case(host.trim_end_matches('.')))
}

/// The field may be read as the result of this host, by a strict reader or by any lenient one. Such
/// a field is removed: a wrong removal costs a result of somebody else's, a missed one a forged
/// `pass`.
fn may_name_host(field: &[u8], host: &str, chain: AuthResult) -> bool {
    let colon = memchr::memchr(b':', field).unwrap_or(field.len());
    let (name, value) = field.split_at(colon);
    // Most fields: every name below has one of these words.
    let has = |word: &[u8]| name.windows(word.len()).any(|w| w.eq_ignore_ascii_case(word));
    if !has(b"results") && !has(b"spf") {
        return false;
    }
    let name = String::from_utf8_lossy(name).to_ascii_lowercase().replace('_', "-");
    let name = name.trim_matches(|c: char| c.is_whitespace() || c.is_control());
    let value = value.get(1..).unwrap_or_default();
    if super::is_named(field, b"arc-authentication-results") {
        // Sets that we sealed come back over mailing lists: RFC 8617 section 5.1 forbids to alter a
        // chain that holds. One that does not hold is nobody's word.
        let is_void = matches!(
            chain,
            AuthResult::None | AuthResult::Fail | AuthResult::PermError | AuthResult::Policy
        );
        let after_instance = memchr::memchr(b';', value).map_or(0, |at| at + 1);
        return is_void && begins_with_host(value.get(after_instance..).unwrap_or_default(), host);
    }
    if name.ends_with("authentication-results") {
        return begins_with_host(value, host);
    }
    // RFC 7208 section 9.1 names the host in a comment and in `receiver=`; we never write this
    // field.
    name == "received-spf" && {
        let text = readings(value).concat();
        names_in(&text, &ascii_name(host))
    }
}

/// The value, unfolded, and with its encoded words decoded.
fn readings(value: &[u8]) -> [String; 2] {
    let value = gauntlet_mail::header::unfold(value);
    let plain = String::from_utf8_lossy(&value).into_owned();
    [format!("{plain} "), gauntlet_mail::header::decode_words(&value).0.into_owned()]
}

/// What some reader takes for the name before the first `;` is this host's.
fn begins_with_host(value: &[u8], host: &str) -> bool {
    let host = ascii_name(host);
    readings(value).iter().any(|text| {
        // Readers differ in whether they know comments, quoted strings and quoted pairs.
        (0..8_u8).any(|known| {
            let head = head_of(text, known & 1 > 0, known & 2 > 0, known & 4 > 0);
            let decoded = gauntlet_mail::header::decode_words(head.as_bytes()).0.into_owned();
            names_in(&head, &host) || (decoded != head && names_in(&decoded, &host))
        })
    })
}

/// The text before the first `;`, as a reader sees it that knows comments (leaves them out), quoted
/// strings and quoted pairs, or does not.
fn head_of(text: &str, comments: bool, quotes: bool, pairs: bool) -> String {
    let (mut depth, mut quoted, mut head) = (0_u32, false, String::new());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' if pairs => match chars.next() {
                Some(c) if depth == 0 => head.push(c),
                _ => {}
            },
            '"' if quotes && depth == 0 => {
                quoted = !quoted;
                head.push(c);
            }
            '(' if comments && !quoted => depth += 1,
            ')' if comments && !quoted => depth = depth.saturating_sub(1),
            _ if depth > 0 => {}
            ';' if !quoted => break,
            c => head.push(c),
        }
    }
    head
}

/// A word of the text is this host (in ASCII): cut at every sign that is in no name, or with
/// spaces, quotes, backslashes and brackets left out.
fn names_in(text: &str, host: &str) -> bool {
    let is_dropped = |c: char| {
        c.is_whitespace()
            || c.is_control()
            || matches!(c, '"' | '\'' | '\\' | '(' | ')' | '<' | '>')
    };
    let in_name = |c: char| {
        c.is_ascii_alphanumeric()
            || matches!(c, '.' | '-' | '_')
            || !c.is_ascii() && !c.is_whitespace()
    };
    let is_host = |word: &str| {
        // A word far longer than any name in any spelling is none.
        word.len() <= NAME_BYTES_MAX && (word.len() >= host.len() / 2) && ascii_name(word) == host
    };
    let joined: String = text.chars().filter(|c| !is_dropped(*c)).collect();
    let bare: String = text.chars().filter(|c| *c != '\\' && !c.is_control()).collect();
    [text, &joined, &bare].into_iter().any(|t| {
        t.split(|c| !in_name(c)).any(is_host)
            || t.split(|c: char| !(c.is_alphanumeric() || matches!(c, '.' | '-' | '_')))
                .any(is_host)
    })
}

/// A host name as it is compared: A-labels, lower case, nothing that UTS 46 ignores, no dots around
/// it.
fn ascii_name(name: &str) -> String {
    let dots = |c: char| matches!(c, '.' | '\u{3002}' | '\u{ff0e}' | '\u{ff61}');
    let name = name.trim_matches(dots);
    let ascii = gauntlet_mail::address::ascii_domain(name);
    let ascii = ascii.unwrap_or_else(|| name.to_lowercase());
    ascii.trim_matches('.').to_owned()
}

/// The message without its Return-Path fields; none if it has none. Who delivers writes that field,
/// and a message that comes with one says something else than its envelope (RFC 5321 section 4.4).
pub(crate) fn without_return_path(raw: &[u8]) -> Option<Vec<u8>> {
    let mut message = ReceivedMessage::copy_of(raw);
    (without_return_path_in(&mut message) > 0).then(|| message.bytes().to_vec())
}

/// Takes out the Return-Path fields of a message that was received, see [`without_return_path`].
/// Says how many there were.
pub(crate) fn without_return_path_in(message: &mut ReceivedMessage) -> usize {
    message.remove_fields(|field| super::is_named(field, b"return-path"))
}

/// How many fields claim to be the results of this host.
pub(crate) fn claims(raw: &[u8], host: &str) -> usize {
    super::fields(raw).filter(|field| may_name_host(field, host, AuthResult::Unknown)).count()
}

/// What all fields of this host say, each result by itself, unfolded, in their order.
pub(crate) fn results_of(raw: &[u8], host: &str) -> Vec<String> {
    let mut results = Vec::new();
    for field in super::fields(raw).filter(|field| names_host(field, host)) {
        let text = String::from_utf8_lossy(field);
        let said = text.split_once(':').and_then(|(_, value)| value.split_once(';'));
        for result in said.map_or("", |(_, said)| said).split(';') {
            let words: Vec<&str> = result.split_ascii_whitespace().collect();
            if !words.is_empty() && words != ["none"] {
                results.push(words.join(" "));
            }
        }
    }
    results
}

/// The host that a field names: its first word, comments left out (RFC 8601 section 2.2).
fn server_of(field: &[u8]) -> Option<String> {
    let colon = memchr::memchr(b':', field)?;
    let text = String::from_utf8_lossy(field.get(colon + 1..)?).into_owned();
    let (mut depth, mut word) = (0_u32, String::new());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(c) if depth == 0 => word.push(c),
                _ => {}
            },
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ if depth > 0 => {}
            ';' => break,
            c if c.is_whitespace() && word.is_empty() => {}
            c if c.is_whitespace() => break,
            '"' => {}
            c => word.push(c),
        }
    }
    Some(word.trim_end_matches('.').to_owned())
}

/// Our field with its line ends; none if nothing is known.
fn field(raw: &[u8], host: &str, facts: &Facts, envelope: &Envelope) -> Option<String> {
    let mut results = Vec::new();
    let known = |result: AuthResult| result != AuthResult::Unknown;
    if known(facts.spf) {
        let (property, value) = match envelope.mail_from.as_str() {
            "" => ("smtp.helo", envelope.helo.as_str()),
            sender => ("smtp.mailfrom", sender),
        };
        results.push(format!("spf={} {property}={}", word(facts.spf), value_of(value)));
    }
    for signature in facts.dkim.iter().filter(|s| known(s.result)).take(SIGNATURES_MAX) {
        let partial = if signature.partial_body { " (part of the body)" } else { "" };
        results.push(format!(
            "dkim={}{partial} header.d={} header.s={}",
            word(signature.result),
            value_of(&signature.domain),
            value_of(&signature.selector)
        ));
    }
    if known(facts.dmarc) {
        let policy = match facts.dmarc_policy {
            DmarcPolicy::Unknown => "",
            DmarcPolicy::None => " (p=none)",
            DmarcPolicy::Quarantine => " (p=quarantine)",
            DmarcPolicy::Reject => " (p=reject)",
        };
        // The domain that was judged; of several the worst.
        let first = || Message::parse(raw).from().map_or(String::new(), |m| m.domain().to_owned());
        let from = facts.dmarc_from.clone().unwrap_or_else(first);
        results.push(format!(
            "dmarc={}{policy} header.from={}",
            word(facts.dmarc),
            value_of(&from)
        ));
    }
    if known(facts.arc) && facts.arc != AuthResult::None {
        results.push(format!("arc={}", word(facts.arc)));
    }
    if let (Some(confirmed), Some(client)) = (facts.reverse_confirmed, envelope.client_ip) {
        let result = if confirmed { "pass" } else { "fail" };
        results.push(format!("iprev={result} policy.iprev={}", value_of(&client.to_string())));
    }
    if results.is_empty() {
        return None;
    }
    Some(format!(
        "Authentication-Results: {};\r\n\t{}\r\n",
        value_of(host),
        results.join(";\r\n\t")
    ))
}

fn word(result: AuthResult) -> &'static str {
    match result {
        AuthResult::Unknown | AuthResult::None => "none",
        AuthResult::Pass => "pass",
        AuthResult::Fail => "fail",
        AuthResult::SoftFail => "softfail",
        AuthResult::Neutral => "neutral",
        AuthResult::TempError => "temperror",
        AuthResult::PermError => "permerror",
        AuthResult::Policy => "policy",
    }
}

/// A value as it may stand in the field: as it is, or quoted, without anything that ends a line.
fn value_of(text: &str) -> String {
    let clean: String = text.chars().filter(|c| !breaks_line(*c)).take(300).collect();
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-._@+=/:!#$%&*'?^`{|}~[]".contains(&b);
    if !clean.is_empty() && clean.bytes().all(plain) {
        return clean;
    }
    format!("\"{}\"", clean.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use gauntlet_mail::facts::DkimSignature;

    const MAIL: &[u8] =
        b"Received: from x\r\n\tby y\r\nAuthentication-Results: gw.example;\r\n\tspf=pass\r\n\
        authentication-RESULTS : (hi (there)) GW.example. 1; dkim=pass\r\n\
        Authentication-Results: other.example; spf=fail\r\nFrom: a@b.example\r\n\r\n\
        Authentication-Results: gw.example; in the body\r\n";

    #[test]
    fn forged_fields_go_and_ours_comes() {
        let facts = Facts {
            spf: AuthResult::Fail,
            dkim: vec![DkimSignature {
                domain: "b.example".into(),
                selector: "s; dmarc=pass".into(),
                result: AuthResult::Pass,
                ..DkimSignature::default()
            }],
            ..Facts::default()
        };
        let envelope = Envelope { mail_from: "a b\r\nX: y@c".into(), ..Envelope::default() };
        let out = stamp(MAIL, "gw.example", &facts, &envelope).unwrap();
        let expected = "Authentication-Results: gw.example;\r\n\tspf=fail smtp.mailfrom=\"a bX: y@c\";\r\n\t\
            dkim=pass header.d=b.example header.s=\"s; dmarc=pass\"\r\nReceived: from x\r\n\tby y\r\n\
            Authentication-Results: other.example; spf=fail\r\nFrom: a@b.example\r\n\r\n\
            Authentication-Results: gw.example; in the body\r\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn claims_are_taken_out_however_they_are_written() {
        let (facts, envelope) = (Facts::default(), Envelope::default());
        for forged in [
            "Authentication-Results: gw.example; dkim=pass\r\n",
            "Authentication-Results\t : gw.example; dkim=pass\r\n",
            "Authentication-Results\r\n : gw.example; dkim=pass\r\n",
            "Authentication-Results\u{b}: gw.example; dkim=pass\r\n",
            "Authentication-Results:\r\n\tgw.example.\r\n\t; dkim=pass\r\n",
            "Authentication-Results: \"gw.example\"; dkim=pass\r\n",
            "Authentication-Results: (\\) x) gw.example; dkim=pass\r\n",
            "Authentication-Results: (;) gw.example; dkim=pass\r\n",
            "Authentication-Results: (open gw.example; dkim=pass\r\n",
            "Authentication-Results: =?utf-8?q?gw.example?=; dkim=pass\r\n",
            "Authentication-Results: x gw.example; dkim=pass\r\n",
        ] {
            for before in ["", "Subject: x\r\n", "broken\r\nbroken\r\n"] {
                let raw = format!("From: a@b.example\r\n{before}{forged}\r\n{forged}");
                let out = stamp(raw.as_bytes(), "gw.example", &facts, &envelope);
                let text = String::from_utf8(out.unwrap_or_default()).unwrap();
                let expected = format!("From: a@b.example\r\n{before}\r\n{forged}");
                assert_eq!(text, expected, "{before:?} {forged:?}");
            }
        }
        for foreign in [
            "gw.example1; dkim=pass",
            "x.example; dkim=pass\r\n\tgw.example",
            "mx.gw.example; x=gw.example",
            "gw.example.org; dkim=pass",
        ] {
            let raw = format!("Authentication-Results: {foreign}\r\n\r\n");
            assert_eq!(stamp(raw.as_bytes(), "gw.example", &facts, &envelope), None, "{foreign}");
        }
    }

    /// The spellings of an attack from outside; each was believed by some reader.
    #[test]
    fn every_spelling_of_our_name_is_taken_out() {
        let (facts, envelope) = (Facts::default(), Envelope::default());
        let check = |host: &str, field: &str, arc: AuthResult| {
            let raw = format!("From: a@b.example\r\n{field}\r\n\r\nbody\r\n");
            let facts = Facts { arc, ..facts.clone() };
            let out = stamp(raw.as_bytes(), host, &facts, &envelope).unwrap_or(raw.into_bytes());
            let text = String::from_utf8_lossy(&out).into_owned();
            !text.contains("dkim=pass")
                && text.contains("From:")
                && text.ends_with("\r\n\r\nbody\r\n")
        };
        for name in [
            "mx.example.org",
            "MX.example.org.",
            "\"mx.example.org\"",
            "\"mx\\.example.org\"",
            "\"m\\x.example.org\"",
            "m\\x.example.org",
            "(a;b) mx.example.org",
            "(;) \"mx\\.example.org\"",
            "(\\)) mx.example.org",
            "(;) =?utf-8?q?mx.example.org?=",
            "=?utf-8?b?bXguZXhhbXBsZS5vcmc=?=",
            "=?utf-8?q?mx=3B?= mx.example.org",
            "mx.example.org/1",
            "mx.example.org 1",
            "mx.example.org\t1",
            "mx .example.org",
            "mx.(x)example.org",
            "mx.\r\n example.org",
            "mx.(;)example.org",
            "\r\n mx.example.org",
            "(\")mx.example.org",
            "\"(mx.example.org",
            "\"mx.example.org(\" ",
            "\";\" mx.example.org",
            "mx.ex\u{ad}ample.org",
            "\u{ff4d}x.example.org",
            "mx\u{3002}example.org",
            "\u{200b}mx.example.org",
            "\u{a0}mx.example.org",
            "\"\" mx.example.org",
            "\u{b}mx.example.org",
            "mx.example.org\u{ff0e}",
        ] {
            for head in ["Authentication-Results:", "authentication-RESULTS \t:"] {
                let field = format!("{head} {name};\r\n dkim=pass header.d=bank.example");
                assert!(check("mx.example.org", &field, AuthResult::Unknown), "{field:?}");
                assert!(check("MX.Example.org.", &field, AuthResult::Unknown), "{field:?}");
            }
        }
        for field in [
            "Authentication-Results\r\n : mx.example.org; dkim=pass",
            "X-Original-Authentication-Results: mx.example.org; dkim=pass",
            "Authentication_Results: mx.example.org; dkim=pass",
            "Received-SPF: pass (mx.example.org: domain of a@b) client-ip=192.0.2.1; dkim=pass",
            "Received-SPF: pass receiver=\"m\\x.example.org\"; x=dkim=pass",
        ] {
            assert!(check("mx.example.org", field, AuthResult::Unknown), "{field:?}");
        }
        for name in ["b\u{fc}cher.example", "BU\u{308}CHER.example", "xn--bcher-kva.example."] {
            let field = format!("Authentication-Results: {name}; dkim=pass");
            assert!(check("xn--bcher-kva.example", &field, AuthResult::Unknown), "{name}");
            assert!(check("b\u{fc}cher.example", &field, AuthResult::Unknown), "{name}");
        }
        let field = "ARC-Authentication-Results: i=1; (;) mx.example.org; dkim=pass";
        assert!(check("mx.example.org", field, AuthResult::Fail));
        assert!(check("mx.example.org", field, AuthResult::None));
        // A chain that holds is not altered, even where we are in it.
        assert!(!check("mx.example.org", field, AuthResult::Pass));
    }

    #[test]
    fn a_return_path_that_comes_with_a_message_goes() {
        let raw =
            b"Return-Path: <x@y>\r\nA: 1\r\nreturn-path\t:\r\n <z@y>\r\n\r\nReturn-Path: b\r\n";
        let out = without_return_path(raw).unwrap();
        assert_eq!(out, b"A: 1\r\n\r\nReturn-Path: b\r\n");
        assert_eq!(without_return_path(&out), None);
    }

    #[test]
    fn nothing_known_and_nothing_forged() {
        let (facts, envelope) = (Facts::default(), Envelope::default());
        assert_eq!(stamp(MAIL, "mine.example", &facts, &envelope), None);
        let out = stamp(MAIL, "gw.example", &facts, &envelope).unwrap();
        assert!(out.starts_with(b"Received: from x\r\n\tby y\r\nAuthentication-Results: other"));
        assert_eq!(stamp(b"", "x", &facts, &envelope), None);
    }
}
