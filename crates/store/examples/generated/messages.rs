//! Messages as a node logs them, generated from a seed, and searches among them: for the examples
//! that measure message logs.

use gauntlet_mail::facts::{AuthResult, DkimSignature};
use gauntlet_mail::{Envelope, Evidence, Facts, Hit, View};
use gauntlet_store::Query;
use gauntlet_store::record::{Delivery, LogRecord, Outcome, Stage};
use gauntlet_verdict::{Class, Disposition, FilterCost, Final, Verdict};

/// 2026-01-01, as Unix milliseconds.
pub(crate) const START_MS: i64 = 20_454 * 86_400_000;

/// Searches by two fields each: frequent with frequent, frequent with rare, and none to be found.
pub(crate) fn searches(messages: u64, days: u64) -> Vec<(&'static str, Query)> {
    let step_ms = days as f64 * 86_400_000.0 / messages as f64;
    let middle = messages / 2;
    let middle = record(middle, START_MS + (middle as f64 * step_ms) as i64);
    let q = Query::default;
    let sender = middle.envelope.mail_from.clone();
    let recipient = middle.dispositions[0].recipient.clone();
    let domain = sender.split('@').nth(1).unwrap_or_default().to_owned();
    let s = |text: &str| text.to_owned();
    let mut all = vec![
        ("newest", q()),
        (
            "sender and recipient",
            Query { sender: sender.clone(), recipient: recipient.clone(), ..q() },
        ),
        (
            "sender's domain and class",
            Query { domain: domain.clone(), classes: vec![Class::Spam], ..q() },
        ),
        ("sender and a word", Query { sender: sender.clone(), subject: s("w3"), ..q() }),
        ("two frequent words", Query { subject: s("w1 w2"), ..q() }),
        ("a frequent and a rare word", Query { subject: s("w1 w4321"), ..q() }),
        (
            "beginning of a word, and class",
            Query { subject: s("w43*"), classes: vec![Class::Ham], ..q() },
        ),
        (
            "class and disposition",
            Query { classes: vec![Class::Spam], action: s("quarantine"), ..q() },
        ),
        (
            "class and disposition that exclude",
            Query { classes: vec![Class::Ham], action: s("quarantine"), ..q() },
        ),
        (
            "two rules' worth: rule and class",
            Query { rule: s("RULE_0"), classes: vec![Class::Ham], ..q() },
        ),
        ("rare rule and class", Query { rule: s("RULE_399"), classes: vec![Class::Ham], ..q() }),
        (
            "frequent word and disposition that exclude",
            Query { subject: s("w1"), action: s("reject"), ..q() },
        ),
        ("Message-ID", Query { message_id: middle.message_id.clone(), ..q() }),
        ("reference code", Query { id: middle.id.clone(), ..q() }),
        ("reference code of nobody", Query { id: s("none"), ..q() }),
        (
            "sender of nobody and class",
            Query { sender: s("x@y.z"), classes: vec![Class::Ham], ..q() },
        ),
        (
            "class and least score",
            Query { classes: vec![Class::Spam], score_min: Some(8.0), ..q() },
        ),
    ];
    all.extend(searches_in_time(recipient, days));
    all
}

/// Searches of a part of the time.
fn searches_in_time(recipient: String, days: u64) -> Vec<(&'static str, Query)> {
    let q = Query::default;
    let day_ms = 86_400_000;
    let half = START_MS + days as i64 * day_ms / 2;
    let s = |text: &str| text.to_owned();
    vec![
        (
            "rule and date range",
            Query { rule: s("RULE_5"), since_ms: Some(half), until_ms: Some(half + day_ms), ..q() },
        ),
        (
            "recipient and date range",
            Query { recipient, since_ms: Some(START_MS), until_ms: Some(half), ..q() },
        ),
    ]
}

/// A sequence of numbers that a seed determines (SplitMix64, Steele and others 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// 0 most often, `n - 1` least: about as 1/rank.
    fn zipf(&mut self, n: u64) -> u64 {
        let unit = (self.next() >> 11) as f64 / (1u64 << 53) as f64;
        ((n as f64).powf(unit) as u64).saturating_sub(1).min(n - 1)
    }
}

/// Message number `n`.
pub(crate) fn record(n: u64, received_ms: i64) -> LogRecord {
    let mut random = Random(n);
    let class = Class::ALL[[0, 0, 0, 0, 1, 1, 2, 3, 3, 4][(random.next() % 10) as usize]];
    let bad = class >= Class::Spam;
    let domain = format!("d{}.example", random.zipf(200_000));
    let sender = format!("s{}@{domain}", random.zipf(1_000));
    let recipient = format!("user{}@corp{}.example", random.next() % 20_000, random.next() % 3);
    let words: Vec<String> =
        (0..4 + random.next() % 6).map(|_| format!("w{}", random.zipf(50_000))).collect();
    let hits = (0..4 + random.next() % 10).map(|_| hit(&mut random)).collect::<Vec<_>>();
    let score = hits.iter().map(|h: &Hit| h.score).sum();
    let folder = || "suspect".to_owned();
    let end = if bad { Final::Quarantine { folder: folder() } } else { Final::Deliver };
    LogRecord {
        id: format!("{received_ms:012x}{n:08x}"),
        received_ms,
        envelope: Envelope {
            client_ip: Some(
                std::net::Ipv4Addr::from(random.zipf(1 << 24) as u32 | 0x0a00_0000).into(),
            ),
            helo: format!("mail.{domain}"),
            mail_from: sender.clone(),
            rcpt_to: vec![recipient.clone()],
            received_at: received_ms / 1000,
            ..Envelope::default()
        },
        size: 1000 + random.zipf(3_000_000),
        from: format!("Some Body <{sender}>"),
        subject: words.join(" "),
        message_id: format!("{:016x}.{n}@{domain}", random.next()),
        facts: facts(&domain, bad),
        verdict: Verdict { class, score, hits, costs: costs(&mut random), ..Verdict::default() },
        dispositions: vec![Disposition {
            recipient: recipient.clone(),
            end,
            changes: Vec::new(),
            rules: vec![if bad { "spam to suspect" } else { "deliver the rest" }.to_owned()],
            release: None,
        }],
        deliveries: vec![Delivery {
            address: recipient,
            outcome: if bad { Outcome::Quarantined } else { Outcome::Delivered },
            at_ms: received_ms + 35,
            attempts: 1,
            next_hop: "10.0.0.5:25".to_owned(),
            reply: "250 2.0.0 Ok: queued as 4XyZ12345".to_owned(),
        }],
        latency_ms: 20 + (random.next() % 50) as u32,
        stages: stages(&mut random),
    }
}

fn hit(random: &mut Random) -> Hit {
    let rule = format!("RULE_{}", random.zipf(400));
    let at = (random.next() % 2000) as usize;
    let quoted = format!("some words {} of the text", random.next() % 10_000);
    Hit {
        rule: rule.into(),
        score: (random.next() % 30) as f64 / 10.0 - 0.5,
        count: 1,
        description: "Says what the rule looks for".into(),
        evidence: vec![Evidence::new(View::Text, 1, at, quoted.as_bytes())],
    }
}

fn facts(domain: &str, bad: bool) -> Facts {
    let result = if bad { AuthResult::Fail } else { AuthResult::Pass };
    let signature = DkimSignature {
        domain: domain.to_owned(),
        selector: "s1".to_owned(),
        result,
        key_bits: 2048,
        partial_body: false,
    };
    Facts {
        spf: result,
        dkim: vec![signature],
        dmarc: result,
        reverse_name: Some(format!("out.{domain}")),
        reverse_confirmed: Some(true),
        ..Facts::default()
    }
}

fn costs(random: &mut Random) -> Vec<FilterCost> {
    let names =
        ["header_form", "sender", "urls", "words", "lists", "attachments", "classifier", "rules"];
    let cost = |name: &&str| FilterCost {
        filter: (*name).into(),
        micros: (random.next() % 4000) as f32 / 10.0,
    };
    names.iter().map(cost).collect()
}

fn stages(random: &mut Random) -> Vec<Stage> {
    let mut at_us = 0;
    let stage = |name: &&str| {
        at_us += random.next() % 9000;
        Stage { name: (*name).to_owned(), at_us, detail: String::new() }
    };
    ["received", "waited", "scanned", "decided", "spooled"].iter().map(stage).collect()
}
