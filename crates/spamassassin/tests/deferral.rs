//! Deferring changes nothing: with all sub-rules evaluated or only those that are needed, score,
//! hits and evidence are the same. The stock rules are read from the installed package, the
//! messages from the folder that `GAUNTLET_CORPUS` names; without either, from what there is.

use std::path::{Path, PathBuf};

use gauntlet_mail::{Envelope, Facts, Message};
use gauntlet_rules::LoadOptions;
use gauntlet_spamassassin::{RulesScratch, Ruleset};

/// Where Debian's package puts the rules.
const STOCK_RULES: &str = "/usr/share/spamassassin";
/// Most messages, evenly spread over the folder.
const MESSAGES_MAX: usize = 300;
/// Messages to use without a corpus.
const MESSAGE: &[u8] = b"From: A <a@example.org>\nSubject: Dear winner\n\nYou won $1,000,000 USD, \
    send your full name, address, age and bank account to http://example.com/claim\n";
/// Unix time of the scans, seconds.
const NOW: i64 = 1_700_000_000;

fn compare(load: impl Fn(&LoadOptions) -> Ruleset, messages: &[Vec<u8>]) {
    let [all, needed] =
        [true, false].map(|subtests| load(&LoadOptions { subtests, ..LoadOptions::default() }));
    let (envelope, facts) = (Envelope::default(), Facts::default());
    let (mut scratch, mut other) = (RulesScratch::default(), RulesScratch::default());
    for raw in messages {
        let message = Message::parse(raw);
        let all = all.scan(&message, &envelope, &facts, NOW, &mut scratch);
        let needed = needed.scan(&message, &envelope, &facts, NOW, &mut other);
        let start = String::from_utf8_lossy(raw.get(..300).unwrap_or(raw)).into_owned();
        assert!(needed.sub.is_empty());
        assert_eq!(all.score, needed.score, "{start}");
        assert_eq!(all.hits, needed.hits, "{start}");
    }
}

#[test]
fn stock_rules_find_the_same() {
    if !Path::new(STOCK_RULES).is_dir() {
        assert!(std::env::var_os("CI").is_none(), "SpamAssassin is not installed");
        return eprintln!("skipped: {STOCK_RULES} is not there (Debian: apt install spamassassin)");
    }
    let mut messages = vec![MESSAGE.to_vec()];
    messages.extend(crate::mail::of_the_corpus(MESSAGES_MAX));
    let sources = [PathBuf::from(STOCK_RULES)];
    compare(|options| Ruleset::load(&sources, options).expect("readable").0, &messages);
}

#[test]
fn metas_of_every_kind_find_the_same() {
    let rules = b"body __A /alpha/\nbody __B /beta/\ntflags __B multiple\nheader __C Subject =~ /gamma/\n\
        header __D Subject !~ /delta/\nrawbody __E /epsilon/\nuri __F /zeta/\nbody __G /eta\\b/\n\
        meta __M (__A && __B) || __E\nmeta __N __B - __C\nmeta __O __M + __N\n\
        meta S1 __A && __B > 1\nmeta S2 __M && !__C\nmeta S3 __O >= 2\nmeta S4 __N\n\
        meta S5 !__A && __D\nmeta S6 __B / __C > 1\nmeta S7 __F && __G && __O\n\
        meta S8 !__M || __F\nmeta S9 __B == 2\nmeta S10 __C ? __A : __B\nbody S11 /alpha/\n\
        meta S12 S1 + S2 + S11 >= 2\nheader __H eval:check_for_missing_to_header()\nmeta S13 __H && __A\n";
    let words = ["alpha", "beta beta", "gamma", "delta", "epsilon", "http://zeta.com/ eta"];
    let messages: Vec<Vec<u8>> = (0..1u32 << (2 * words.len()))
        .map(|bits| {
            let pick = |shift: usize| -> Vec<&str> {
                let chosen = (0..words.len()).filter(|i| bits >> (shift + i) & 1 == 1);
                chosen.map(|i| words[i]).collect()
            };
            format!("Subject: {}\n\n{}\n", pick(0).join(" "), pick(words.len()).join("\n\n"))
        })
        .map(String::into_bytes)
        .collect();
    compare(|options| Ruleset::from_bytes(rules, options).expect("lenient").0, &messages);
}
