//! Computes every view of a message, and everything of a rule file; for the smoke tests and the
//! fuzz targets.

#![allow(dead_code, reason = "each user asks one of the questions")]

use gauntlet_mail::{Envelope, Facts, Message};
use gauntlet_rules::{HeaderSelector, LoadOptions};
use gauntlet_spamassassin::{RulesScratch, Ruleset, ViewSettings, Views};

/// Selectors with every modifier that there is.
const SELECTORS: [&str; 14] = [
    "Subject",
    "Subject:raw",
    "From:addr",
    "From:name",
    "To:addr:host",
    "Received:ip",
    "From:addr:domain",
    "X-Spam-Relays-Untrusted",
    "ALL",
    "ALL:raw",
    "EnvelopeFrom:first:addr",
    "MESSAGEID",
    "ToCc",
    "Received:revip",
];

/// Views of any bytes; LF and CR LF give the same body.
pub(crate) fn views(raw: &[u8]) {
    let message = Message::parse(raw);
    let (envelope, facts) = (Envelope::default(), Facts::default());
    let settings = ViewSettings::default();
    let views = Views::new(&message, &envelope, &facts, &settings);
    let tree = views.mime();
    assert!(tree.in_order().len() <= tree.nodes.len(), "a part is reached once");
    for node in tree.leaves() {
        let _ = (node.decoded(), node.lines().count());
    }
    let _ = (views.body().len(), views.rawbody().len(), views.full().len());
    let uris = views.uris();
    assert!(
        uris.is_sorted() && uris.windows(2).all(|w| w[0] != w[1]),
        "URIs are sorted, each once"
    );
    let _ = (views.relays(), views.envelope_from(), views.rendered().len());
    for selector in SELECTORS {
        let selector = HeaderSelector::parse(selector);
        let _ = (views.header(&selector), views.mime_headers(&selector));
    }
}

/// A message that the rules are run on.
const MAIL: &[u8] =
    b"Received: from a.example ([192.0.2.1]) by b.example; Sat, 21 Nov 2026 04:05:06 +0000\n\
    From: \"Ann\" <ann@example.org>\nTo: bob@example.net\nSubject: free money\n\
    Content-Type: text/html\n\n<a href=\"http://www.example.com/x\">click</a> here now\n";

/// Any bytes as a rule file: every problem has a message, and what was read can be run.
pub(crate) fn reader(text: &[u8]) {
    let Ok((ruleset, report)) = Ruleset::from_bytes(text, &LoadOptions::default()) else { return };
    assert!(report.problems.iter().all(|p| !p.message.is_empty()));
    let message = Message::parse(MAIL);
    let mut scratch = RulesScratch::default();
    let (envelope, facts) = (Envelope::default(), Facts::default());
    let _ = ruleset.scan(&message, &envelope, &facts, 1_700_000_000, &mut scratch);
}
