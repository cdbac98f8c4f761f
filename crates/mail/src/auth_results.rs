//! What a mail server in front of this node found (`Authentication-Results`, RFC 8601), where the
//! site says that its word counts.
//!
//! Anybody can write such a field. One counts only if it bears the name of a server that the site
//! trusts and stands where that server puts it: above all but [`RECEIVED_ABOVE_MAX`] `Received`
//! fields, and with no `Received` between it and the first such field. The server must take out
//! fields that claim to be its own (RFC 8601 section 5).

use crate::address::ascii_domain;
use crate::facts::{AuthResult, DkimSignature, DmarcPolicy, Facts};
use crate::fields::{fields, is_named};
use crate::header::unfold;

/// `Received` fields above the field: some servers write their own, and that of a filter beside
/// them, above their results.
const RECEIVED_ABOVE_MAX: usize = 2;
/// Results read of a message.
const RESULTS_MAX: usize = 50;
/// Bytes read of one field.
const FIELD_BYTES_MAX: usize = 16 << 10;

/// The result of one method.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MethodResult {
    /// In lower case: `spf`, `dkim`, `dmarc`.
    pub method: String,
    /// What it came to.
    pub result: AuthResult,
    /// Properties with their values, in their order: `header.from`, `example.org`.
    pub properties: Vec<(String, String)>,
    /// The policy of the domain, if a comment says it: `(p=REJECT sp=NONE)`.
    pub policy: DmarcPolicy,
}

impl MethodResult {
    /// The value of a property; none if it is there twice.
    pub fn property(&self, name: &str) -> Option<&str> {
        let mut found = self.properties.iter().filter(|(n, _)| n.eq_ignore_ascii_case(name));
        let first = found.next()?;
        found.next().is_none().then_some(&first.1)
    }

    /// The domain of a property's value, which may be an address; in A-labels.
    pub fn domain(&self, name: &str) -> Option<String> {
        let value = self.property(name)?;
        ascii_domain(value.rsplit_once('@').map_or(value, |(_, domain)| domain))
    }
}

/// The results of a field's value: `host; spf=pass smtp.mailfrom=a@b.example; dmarc=fail ...`.
/// Results stand between semicolons; those within comments and quoted strings separate nothing.
pub fn results(value: &str) -> Vec<MethodResult> {
    parts(value).iter().skip(1).filter_map(result).take(RESULTS_MAX).collect()
}

/// The results of the servers that are trusted, and the name by which the first goes.
pub fn of_trusted(raw: &[u8], trusted: &[String]) -> Option<(String, Vec<MethodResult>)> {
    let (mut received, mut found) = (0, None::<(String, Vec<MethodResult>)>);
    for field in fields(raw) {
        if is_named(field, b"received") {
            received += 1;
            if found.is_some() || received > RECEIVED_ABOVE_MAX {
                break;
            }
        }
        if !is_named(field, b"authentication-results") || field.len() > FIELD_BYTES_MAX {
            continue;
        }
        let Some(colon) = memchr::memchr(b':', field) else { continue };
        let value = unfold(field.get(colon + 1..).unwrap_or_default());
        let value = String::from_utf8_lossy(&value);
        let Some(server) = parts(&value).first().and_then(|part| part.words.first().cloned())
        else {
            continue;
        };
        let server = server.trim_matches('"').trim_end_matches('.').to_ascii_lowercase();
        if trusted.iter().any(|id| id.trim_end_matches('.').eq_ignore_ascii_case(&server)) {
            found.get_or_insert((server, Vec::new())).1.extend(results(&value));
        }
    }
    found
}

/// Adds what a trusted server found to what this node found: its SPF where there is none, its
/// signatures that were right, and DMARC where this node has no pass. `from` are the domains of the
/// From field: with more than one, DMARC of somebody else says nothing.
pub fn apply(results: &[MethodResult], from: &[String], facts: &mut Facts) {
    for result in results.iter().filter(|r| r.method == "spf") {
        let is_helo =
            result.property("smtp.mailfrom").is_none() && result.property("smtp.helo").is_some();
        let spf = if is_helo { &mut facts.spf_helo } else { &mut facts.spf };
        if spf.is_unknown() {
            *spf = result.result;
        }
    }
    for result in results.iter().filter(|r| r.method == "dkim") {
        let Some(domain) = result.domain("header.d").or_else(|| result.domain("header.i")) else {
            continue;
        };
        let passes = result.result == AuthResult::Pass;
        let known = facts.dkim.iter().any(|s| s.result == AuthResult::Pass && s.domain == domain);
        if passes && !known {
            let selector = result.property("header.s").unwrap_or_default().to_owned();
            let result = result.result;
            facts.dkim.push(DkimSignature { domain, selector, result, ..Default::default() });
        }
    }
    let [from] = from else { return };
    let mut judged = results.iter().filter(|r| r.method == "dmarc");
    let (Some(dmarc), None) = (judged.next(), judged.next()) else { return };
    if facts.dmarc != AuthResult::Pass && dmarc.domain("header.from").as_ref() == Some(from) {
        facts.dmarc = dmarc.result;
        facts.dmarc_policy = dmarc.policy;
        facts.dmarc_domain = Some(from.clone());
        facts.dmarc_from = Some(from.clone());
    }
}

/// What stands between two semicolons.
#[derive(Debug, Default)]
struct Part {
    /// Words; quoted strings keep their quotes, so that none is taken for a method.
    words: Vec<String>,
    comments: String,
}

fn parts(value: &str) -> Vec<Part> {
    let mut all = vec![Part::default()];
    let (mut depth, mut quoted, mut word) = (0_u32, false, String::new());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        let Some(part) = all.last_mut() else { break };
        match c {
            '\\' if depth > 0 || quoted => {
                let next = chars.next();
                let text = if depth > 0 { &mut part.comments } else { &mut word };
                text.extend(next);
            }
            '"' if depth == 0 => {
                quoted = !quoted;
                word.push('"');
            }
            _ if quoted => word.push(c),
            '(' => {
                depth += 1;
                part.comments.push(' ');
            }
            ')' => depth = depth.saturating_sub(1),
            _ if depth > 0 => part.comments.push(c),
            ';' => {
                part.words.extend(Some(std::mem::take(&mut word)).filter(|w| !w.is_empty()));
                all.push(Part::default());
            }
            c if c.is_whitespace() => {
                part.words.extend(Some(std::mem::take(&mut word)).filter(|w| !w.is_empty()));
            }
            c => word.push(c),
        }
    }
    if let Some(part) = all.last_mut() {
        part.words.extend(Some(word).filter(|w| !w.is_empty()));
    }
    all
}

fn result(part: &Part) -> Option<MethodResult> {
    let (method, result) = part.words.first()?.split_once('=')?;
    let method = method.split('/').next().unwrap_or_default().to_ascii_lowercase();
    let properties = part.words.iter().skip(1).filter_map(|word| {
        let (name, value) = word.split_once('=')?;
        Some((name.to_ascii_lowercase(), value.trim_matches('"').to_owned()))
    });
    let policy = part.comments.split_ascii_whitespace().find_map(policy_of);
    Some(MethodResult {
        method,
        result: result_of(result),
        properties: properties.collect(),
        policy: policy.unwrap_or_default(),
    })
}

fn policy_of(word: &str) -> Option<DmarcPolicy> {
    let (name, policy) = word.split_once('=')?;
    let policy = policy.trim_end_matches([',', ';']).to_ascii_lowercase();
    if !name.eq_ignore_ascii_case("p") {
        return None;
    }
    match &*policy {
        "reject" => Some(DmarcPolicy::Reject),
        "quarantine" => Some(DmarcPolicy::Quarantine),
        "none" => Some(DmarcPolicy::None),
        _ => None,
    }
}

/// RFC 8601 section 2.7; `hardfail` is an older word for a failure.
fn result_of(word: &str) -> AuthResult {
    match &*word.to_ascii_lowercase() {
        "pass" => AuthResult::Pass,
        "fail" | "hardfail" => AuthResult::Fail,
        "softfail" => AuthResult::SoftFail,
        "neutral" => AuthResult::Neutral,
        "none" => AuthResult::None,
        "temperror" => AuthResult::TempError,
        "permerror" => AuthResult::PermError,
        "policy" => AuthResult::Policy,
        _ => AuthResult::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(raw: &str) -> Facts {
        let mut facts = Facts::default();
        let trusted = ["mx.front.example".to_owned()];
        if let Some((_, results)) = of_trusted(raw.as_bytes(), &trusted) {
            apply(&results, &["bank.example".to_owned()], &mut facts);
        }
        facts
    }

    const GOOD: &str = "Authentication-Results: MX.front.example;\r\n\
        \tdkim=pass header.i=@Bank.example header.s=s1 header.b=abc;\r\n\
        \tspf=softfail (google.com: domain of x does not; say) smtp.mailfrom=x@other.example;\r\n\
        \tdmarc=fail (p=REJECT sp=NONE dis=NONE) header.from=bank.example\r\n";

    #[test]
    fn a_trusted_server_is_believed() {
        let found = facts(&format!("Received: by mx\r\n{GOOD}Received: from x\r\n\r\n"));
        assert_eq!((found.spf, found.spf_helo), (AuthResult::SoftFail, AuthResult::Unknown));
        assert_eq!((&*found.dkim[0].domain, &*found.dkim[0].selector), ("bank.example", "s1"));
        assert_eq!((found.dmarc, found.dmarc_policy), (AuthResult::Fail, DmarcPolicy::Reject));
        assert_eq!(found.dmarc_from.as_deref(), Some("bank.example"));
    }

    #[test]
    fn what_this_node_proved_stays() {
        let trusted = ["mx.front.example".to_owned()];
        let (_, results) = of_trusted(GOOD.as_bytes(), &trusted).unwrap();
        let signed = DkimSignature {
            domain: "bank.example".into(),
            result: AuthResult::Pass,
            key_bits: 2048,
            ..DkimSignature::default()
        };
        let mut ours = Facts {
            spf: AuthResult::Pass,
            dmarc: AuthResult::Pass,
            dkim: vec![signed],
            ..Facts::default()
        };
        let before = ours.clone();
        apply(&results, &["bank.example".to_owned()], &mut ours);
        assert_eq!(ours, before);
    }

    #[test]
    fn nobody_else_is_believed() {
        let nothing = Facts::default();
        let field = "Authentication-Results: mx.front.example; dmarc=pass header.from=bank.example";
        for raw in [
            // Another server, and names that only look like it.
            field.replace("mx.front", "mx.evil"),
            field.replace("mx.front.example", "(mx.front.example) evil.example"),
            field.replace("mx.front.example", "mx.front.example.evil.example"),
            field.replace("mx.front.example", "evil.example mx.front.example"),
            // Below the server's own trace, and in the body.
            format!("Received: a\r\nReceived: b\r\nReceived: c\r\n{field}"),
            format!("From: x\r\n\r\n{field}"),
            // Another author, several, none.
            field.replace("from=bank", "from=evil"),
            format!("{field} header.from=evil.example"),
            field.replace(" header.from=bank.example", ""),
            // Two answers.
            format!("{field}; dmarc=fail header.from=bank.example"),
            // Inside a comment, a quoted string or another word.
            "Authentication-Results: mx.front.example; x=y (; dmarc=pass header.from=bank.example)"
                .to_owned(),
            "Authentication-Results: mx.front.example; x=\"; dmarc=pass header.from=bank.example\""
                .to_owned(),
            "Authentication-Results: mx.front.example; x=y dmarc=pass header.from=bank.example"
                .to_owned(),
        ] {
            assert_eq!(facts(&format!("{raw}\r\n\r\n")), nothing, "{raw}");
        }
        // A forged field below the true one, and what the server says of it stays.
        let forged = format!("{GOOD}Received: from x\r\n{field}\r\n\r\n");
        assert_eq!(facts(&forged).dmarc, AuthResult::Fail);
    }

    #[test]
    fn anything_is_read_without_harm() {
        for value in ["", ";;;", "(((((", "\"", "\\", "a; =;=; b=", "a; spf=\"x", "a; spf/1=pass"] {
            let _ = results(value);
        }
        assert_eq!(results("a; spf/1=pass")[0].method, "spf");
        assert_eq!(results("a; spf=hardfail")[0].result, AuthResult::Fail);
        let many = format!("a{}", "; spf=pass".repeat(5_000));
        assert_eq!(results(&many).len(), RESULTS_MAX);
    }
}
