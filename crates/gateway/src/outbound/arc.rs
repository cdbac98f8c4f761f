//! ARC sets for mail that goes on through us (RFC 8617): who comes after us sees what we saw before
//! we changed it.
//!
//! A set is three fields: what `Authentication-Results` of ours say, a signature over the message,
//! a seal over all sets. Fields are made with tags in alphabetical order; what is signed is their
//! relaxed canonical form (RFC 6376 section 3.4), so that folding does not matter but within
//! values.

use std::collections::BTreeMap;

use crate::canonical::{folded, relaxed, signed_fields, without_end};
use crate::facts::auth_results::results_of;
use crate::facts::{fields, is_named};
use crate::message::OutgoingMessage;

/// Sets of one message (RFC 8617 section 4.2.1).
const SETS_MAX: u32 = 50;
/// Fields of one name that are signed.
const SAME_MAX: usize = 10;
/// Fields that are signed, where a message has them; never those that hops add or take out.
const FIELDS: [&str; 20] = [
    "from",
    "sender",
    "reply-to",
    "to",
    "cc",
    "subject",
    "date",
    "message-id",
    "in-reply-to",
    "references",
    "mime-version",
    "content-type",
    "content-transfer-encoding",
    "list-id",
    "list-post",
    "list-unsubscribe",
    "list-unsubscribe-post",
    "resent-from",
    "feedback-id",
    "dkim-signature",
];

/// What is known of the chain so far (`cv=`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Chain {
    /// The message has no ARC set.
    None,
    /// Every seal is good.
    Pass,
    /// A seal is not good, or a set is incomplete (RFC 8617 section 5.2).
    Fail,
}

impl Chain {
    fn name(self) -> &'static str {
        match self {
            Chain::None => "none",
            Chain::Pass => "pass",
            Chain::Fail => "fail",
        }
    }
}

/// Who seals, and how.
#[derive(Debug, Clone, Copy)]
pub struct Sealing<'s> {
    /// Our name in `Authentication-Results`.
    pub host: &'s str,
    /// Domain that seals (`d=`).
    pub domain: &'s str,
    /// Selector of its key (`s=`).
    pub selector: &'s str,
    /// `rsa-sha256` or `ed25519-sha256` (`a=`).
    pub algorithm: &'s str,
    /// The chain so far.
    pub chain: Chain,
    /// What it is reported as, where no `Authentication-Results` of ours are in the message.
    pub otherwise: &'s str,
    /// Unix time in seconds.
    pub now: i64,
}

/// The fields of a new set, to be put on top of the message (with CRLF line ends); none if the
/// chain is over: it failed before, or is as long as it may be. `sign` makes a signature over these
/// bytes.
///
/// # Errors
/// Those of `sign`.
pub fn seal(
    message: &OutgoingMessage,
    sealing: &Sealing<'_>,
    sign: impl Fn(&[u8]) -> anyhow::Result<Vec<u8>>,
) -> anyhow::Result<Option<String>> {
    let present = |name: &&&str| fields(message.header()).any(|f| is_named(f, name.as_bytes()));
    let mut signed: Vec<&str> = Vec::new();
    for name in FIELDS.iter().filter(present) {
        let count = fields(message.header()).filter(|f| is_named(f, name.as_bytes())).count();
        signed.extend(std::iter::repeat_n(*name, count.min(SAME_MAX)));
    }
    // Once more than it is there, so that no other author can be added.
    signed.push("from");
    seal_fields(message, sealing, &signed, sign)
}

/// The same, signing these fields: names in lower case, as often as they are signed, the last
/// first.
///
/// # Errors
/// Those of `sign`.
pub fn seal_fields(
    message: &OutgoingMessage,
    sealing: &Sealing<'_>,
    signed: &[&str],
    sign: impl Fn(&[u8]) -> anyhow::Result<Vec<u8>>,
) -> anyhow::Result<Option<String>> {
    let chain = Sets::of(message.header());
    if chain.has_failed || chain.last() >= SETS_MAX {
        return Ok(None);
    }
    let instance = chain.last() + 1;
    let Sealing { host, domain, selector, algorithm, now, .. } = sealing;
    let results = match results_of(message.header(), host) {
        results if results.is_empty() => sealing.otherwise.to_owned(),
        results => results.join(";\r\n\t"),
    };
    let about = format!("ARC-Authentication-Results: i={instance}; {host};\r\n\t{results}\r\n");

    let tail = format!(
        "bh={};\r\n\tc=relaxed/relaxed; d={domain};\r\n\th={};\r\n\ti={instance}; s={selector}; t={now}\r\n",
        base64(message.body_hash()),
        folded(signed, 70),
    );
    let head = format!("ARC-Message-Signature: a={algorithm};\r\n\tb=");
    let mut covered = signed_fields(message.header(), signed);
    covered.extend(without_end(relaxed(format!("{head};\r\n\t{tail}").as_bytes())));
    let signature = format!("{head}{};\r\n\t{tail}", base64(&sign(&covered)?));

    let head = format!("ARC-Seal: a={algorithm};\r\n\tb=");
    let tail = format!(
        "cv={}; d={domain}; i={instance}; s={selector};\r\n\tt={now}\r\n",
        sealing.chain.name()
    );
    // A chain that failed is not sealed again: only our own set is (RFC 8617 section 5.1.2).
    let mut covered = match sealing.chain {
        Chain::Fail => Vec::new(),
        _ => chain.canonical(),
    };
    covered.extend(relaxed(about.as_bytes()));
    covered.extend(relaxed(signature.as_bytes()));
    covered.extend(without_end(relaxed(format!("{head};\r\n\t{tail}").as_bytes())));
    let seal = format!("{head}{};\r\n\t{tail}", base64(&sign(&covered)?));
    Ok(Some(seal + &signature + &about))
}

/// The sets of a message: results, signature and seal by instance, in canonical form.
struct Sets {
    sets: BTreeMap<u32, [Vec<u8>; 3]>,
    /// The last seal says that the chain failed.
    has_failed: bool,
}

/// Names of the three fields, in the order in which they are sealed.
const NAMES: [&str; 3] = ["arc-authentication-results", "arc-message-signature", "arc-seal"];

impl Sets {
    fn of(header: &[u8]) -> Self {
        let mut sets: BTreeMap<u32, [Vec<u8>; 3]> = BTreeMap::new();
        for field in fields(header) {
            let index = NAMES.iter().position(|name| is_named(field, name.as_bytes()));
            let Some(index) = index else { continue };
            let line = relaxed(field);
            let instance = tag(&line, "i").and_then(|i| i.parse().ok());
            let Some(instance) = instance.filter(|i| (1..=SETS_MAX).contains(i)) else { continue };
            if let Some(own) = sets.entry(instance).or_default().get_mut(index) {
                *own = line;
            }
        }
        let last = sets.values().next_back();
        let has_failed = last.is_some_and(|[_, _, seal]| tag(seal, "cv") == Some("fail"));
        Sets { sets, has_failed }
    }

    fn last(&self) -> u32 {
        self.sets.keys().next_back().copied().unwrap_or(0)
    }

    fn canonical(&self) -> Vec<u8> {
        self.sets.values().flatten().flatten().copied().collect()
    }
}

/// The value of a tag in a canonical field.
fn tag<'f>(field: &'f [u8], name: &str) -> Option<&'f str> {
    let text = std::str::from_utf8(field).ok()?;
    crate::facts::tags::get(text.split_once(':')?.1, name)
}

/// In one piece: white space within the value of an earlier field would be sealed with it.
fn base64(bytes: &[u8]) -> String {
    base64_simd::STANDARD.encode_to_string(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strange_chains_end() {
        let sealing = Sealing {
            host: "gw.example",
            domain: "gw.example",
            selector: "s",
            algorithm: "rsa-sha256",
            chain: Chain::Fail,
            otherwise: "arc=fail",
            now: 1,
        };
        let sign = |_: &[u8]| Ok(vec![1, 2, 3]);
        let sealed = |mail: &str| seal(&mail.as_bytes().into(), &sealing, sign).unwrap();
        assert!(sealed("From: a@b.c\r\n\r\nx").unwrap().contains("i=1; gw.example;\r\n\tarc=fail"));
        assert_eq!(sealed("ARC-Seal: i=3; cv=fail\r\n\r\n"), None);
        assert_eq!(sealed("ARC-Seal: i=50; cv=pass\r\n\r\n"), None);
        for anomaly in
            ["ARC-Seal: i=51; cv=fail\r\n\r\n", "ARC-Seal: \u{1}\r\n\r\n", "", "ARC-Seal"]
        {
            assert!(sealed(anomaly).unwrap().contains("i=1;"), "{anomaly:?}");
        }
    }
}
