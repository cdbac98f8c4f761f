//! How often each character follows another in the texts that rules see: prints
//! `src/pattern/frequencies.rs`.
//!
//! usage: pair_frequencies MESSAGE...

use std::io::Write;

use gauntlet_mail::{Envelope, Facts, Message};
use gauntlet_rules::HeaderSelector;
use gauntlet_rules::pattern::frequency::{KINDS, code_of};
use gauntlet_rules::pattern::symbol::{SYMBOLS, symbol};
use gauntlet_spamassassin::ViewSettings;
use gauntlet_spamassassin::views::Views;

/// Symbols by the one before them; the last row is for the first of a string.
type Counts = Vec<[u64; SYMBOLS]>;

fn count(counts: &mut Counts, text: &[u8]) {
    let mut before = None;
    for byte in text {
        let now = symbol(*byte);
        if let Some(before) = before.replace(now) {
            counts[before][now] += 1;
        }
        counts[SYMBOLS][now] += 1;
    }
}

fn main() -> std::io::Result<()> {
    let mut kinds = vec![vec![[0; SYMBOLS]; SYMBOLS + 1]; KINDS.len()];
    let settings = ViewSettings::default();
    let (envelope, facts) = (Envelope::default(), Facts::default());
    let mut messages = 0;
    for raw in std::env::args().skip(1).filter_map(|file| std::fs::read(file).ok()) {
        messages += 1;
        let message = Message::parse(&raw);
        let views = Views::new(&message, &envelope, &facts, &settings);
        let header = |name: &str| views.header(&HeaderSelector::parse(name)).unwrap_or_default();
        views.body().iter().for_each(|text| count(&mut kinds[0], text));
        views.rawbody().iter().for_each(|text| count(&mut kinds[1], text));
        count(&mut kinds[2], &header("X-Spam-Relays-Untrusted"));
        count(&mut kinds[2], &header("X-Spam-Relays-Trusted"));
        count(&mut kinds[3], &header("ALL"));
        views.uris().iter().for_each(|uri| count(&mut kinds[4], &uri.text));
    }
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "//! Printed by `cargo run --release -p gauntlet-spamassassin --example pair_frequencies MESSAGE...`\n\
         //! over {messages} messages; see [`super::frequency`].\n\nuse super::symbol::SYMBOLS;"
    )?;
    for (name, counts) in KINDS.iter().zip(&kinds) {
        writeln!(
            out,
            "\n#[rustfmt::skip]\npub(super) static {name}: [[u8; SYMBOLS]; SYMBOLS + 1] = ["
        )?;
        for row in counts {
            let all = row.iter().sum::<u64>() as f64 + SYMBOLS as f64;
            let code = |n: &u64| char::from(code_of((*n as f64 + 1.0) / all));
            writeln!(out, "    *b\"{}\",", row.iter().map(code).collect::<String>())?;
        }
        writeln!(out, "];")?;
    }
    Ok(())
}
