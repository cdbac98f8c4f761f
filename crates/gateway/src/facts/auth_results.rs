//! `Authentication-Results` (RFC 8601): ours is added, those that others forged in our name are taken
//! out.

use gauntlet_mail::facts::{AuthResult, DmarcPolicy, Facts};
use gauntlet_mail::{Envelope, Message};
use gauntlet_smtp::text::breaks_line;

/// Signatures named in the field.
const SIGNATURES_MAX: usize = 5;

/// The message with our field at its top, and without fields that claim to be ours. None if there is
/// nothing to say and nothing to take out.
pub fn stamp(raw: &[u8], host: &str, facts: &Facts, envelope: &Envelope) -> Option<Vec<u8>> {
    let ours = field(raw, host, facts, envelope);
    let forged = |field: &&[u8]| may_name_host(field, host);
    if ours.is_none() && !super::fields(raw).any(|f| forged(&f)) {
        return None;
    }
    let ours = ours.unwrap_or_default();
    let mut out = Vec::with_capacity(raw.len() + ours.len());
    let mut at = 0;
    // An mbox line stays first.
    let (first, mut second) = match raw.starts_with(b"From ") {
        true => (String::new(), Some(ours)),
        false => (ours, None),
    };
    out.extend_from_slice(first.as_bytes());
    for field in super::fields(raw) {
        at += field.len();
        if !forged(&field) {
            out.extend_from_slice(field);
        }
        out.extend_from_slice(second.take().unwrap_or_default().as_bytes());
    }
    out.extend_from_slice(raw.get(at..).unwrap_or_default());
    Some(out)
}

/// The field is the result of this host (RFC 8601 section 2.2).
fn names_host(field: &[u8], host: &str) -> bool {
    super::is_named(field, b"authentication-results")
        && server_of(field).is_some_and(|s| s.eq_ignore_ascii_case(host.trim_end_matches('.')))
}

/// The field claims to be the result of this host, as a strict reader understands it or a lenient one: a
/// name in an encoded word, or behind what looks like a comment, would do for some.
fn may_name_host(field: &[u8], host: &str) -> bool {
    if names_host(field, host) {
        return true;
    }
    if !super::is_named(field, b"authentication-results") {
        return false;
    }
    let host = host.trim_end_matches('.');
    let colon = memchr::memchr(b':', field).map_or(field.len(), |at| at + 1);
    let value = gauntlet_mail::header::unfold(field.get(colon..).unwrap_or_default());
    let text = gauntlet_mail::header::decode_words(&value).0;
    let is_apart = |c: char| !(c.is_alphanumeric() || matches!(c, '.' | '-' | '_'));
    let words = text.split(';').next().unwrap_or_default().split(is_apart);
    words.map(|word| word.trim_end_matches('.')).any(|word| word.eq_ignore_ascii_case(host))
}

/// The message without its Return-Path fields; none if it has none. Who delivers writes that field, and a
/// message that comes with one says something else than its envelope (RFC 5321 section 4.4).
pub(crate) fn without_return_path(raw: &[u8]) -> Option<Vec<u8>> {
    let foreign = |field: &&[u8]| super::is_named(field, b"return-path");
    super::fields(raw).find(foreign)?;
    let mut out = Vec::with_capacity(raw.len());
    let mut at = 0;
    for field in super::fields(raw) {
        at += field.len();
        out.extend_from_slice(if foreign(&field) { b"" } else { field });
    }
    out.extend_from_slice(raw.get(at..).unwrap_or_default());
    Some(out)
}

/// How many fields claim to be the results of this host.
pub(crate) fn claims(raw: &[u8], host: &str) -> usize {
    super::fields(raw).filter(|field| may_name_host(field, host)).count()
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
            '\\' => drop(chars.next()),
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
        let from = Message::parse(raw).from().map_or(String::new(), |m| m.domain().to_owned());
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
        for foreign in ["mx.gw.example; x=gw.example", "gw.example.org; dkim=pass"] {
            let raw = format!("Authentication-Results: {foreign}\r\n\r\n");
            assert_eq!(stamp(raw.as_bytes(), "gw.example", &facts, &envelope), None, "{foreign}");
        }
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
