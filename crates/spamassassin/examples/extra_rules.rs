//! Prints a rule file of the size and make-up of a large extra channel: 3,600 rules (a third body,
//! a third header, a quarter metas, the rest uri, rawbody, mimeheader), of made-up words.
//!
//! usage: extra_rules > DIR/90_extra.cf

use std::io::Write;
use std::process::ExitCode;

const SYLLABLES: [&str; 24] = [
    "ba", "cor", "del", "fen", "gro", "hal", "in", "jun", "kel", "lo", "mar", "ne", "or", "pel",
    "qua", "rin", "so", "ter", "ul", "ven", "wi", "xan", "yor", "zel",
];
const COMMON: [&str; 12] = [
    "your", "account", "please", "offer", "click", "here", "order", "money", "free", "service",
    "payment", "today",
];
const FIELDS: [&str; 8] =
    ["Subject", "From", "From:name", "Reply-To:addr", "X-Mailer", "Received", "To", "Message-ID"];

/// The word of this number: two or three syllables.
fn word(number: usize) -> String {
    let at = |n: usize| SYLLABLES[n % SYLLABLES.len()];
    let third = if number.is_multiple_of(3) { at(number / 7) } else { "" };
    format!("{}{}{third}", at(number), at(number / SYLLABLES.len() + number))
}

/// A pattern as rule writers make them: phrases, choices, gaps, counts, look-ahead.
fn pattern(number: usize) -> String {
    let (a, b, common) = (word(number), word(number * 5 + 1), COMMON[number % COMMON.len()]);
    match number % 8 {
        0 => format!("/\\b{a} {b}\\b/i"),
        1 => format!("/\\b(?:{a}|{b}|{common}ly)\\b/i"),
        2 => format!("/{common}.{{0,20}}{a}/i"),
        3 => format!("/{a}[\\s_.-]{{0,3}}{b}/i"),
        4 => format!("/^(?!re:).{{0,40}}{a}/i"),
        5 => format!("/\\b{a}s? (?:of|for|to) (?:the )?{common}/i"),
        6 => format!("/[A-Z]{{2}}{a}\\d{{2,4}}/"),
        _ => format!("/(?:{common}|{b}) {a}/i"),
    }
}

/// The line of the rule of this number.
fn rule(number: usize) -> String {
    let name = |number: usize| format!("__EXTRA_{number}");
    let (word, own) = (word(number * 3 + 2), name(number));
    match number % 36 {
        0..=11 => format!("body {own} {}", pattern(number)),
        12..=22 => format!("header {own} {} =~ {}", FIELDS[number % FIELDS.len()], pattern(number)),
        23..=31 => {
            let (a, b, c) = (name(number - 12), name(number - 20), name(number - 22));
            match number % 3 {
                0 => format!("meta EXTRA_{number} {a} && ({b} || {c})"),
                1 => format!("meta EXTRA_{number} ({a} + {b} + {c} >= 2)"),
                _ => format!("meta EXTRA_{number} {a} && !{b}"),
            }
        }
        32 | 33 => format!("uri {own} /^https?:\\/\\/[^\\/]{{0,60}}{word}\\.(?:com|net|xyz)\\b/i"),
        34 => format!("rawbody {own} /<(?:a|img)\\b[^>]{{0,200}}{word}/i"),
        _ => format!("mimeheader {own} Content-Type =~ /name=.{{0,80}}{word}\\.(?:exe|zip|js)/i"),
    }
}

fn main() -> ExitCode {
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let written = (0..3_600).try_for_each(|number| writeln!(out, "{}", rule(number)));
    if written.and_then(|()| out.flush()).is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
