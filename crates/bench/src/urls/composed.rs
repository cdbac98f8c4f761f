//! Lists and URLs that are made of numbers: the same in every run, like real ones in lengths and
//! shapes.

use std::fmt::Write as _;
use std::io::{BufWriter, Write as _};
use std::path::Path;

use crate::urls::SEED;

/// What most names end in.
const ENDS: [&str; 10] =
    ["com", "com", "com", "net", "org", "top", "xyz", "co.uk", "shop", "vercel.app"];
/// What names and paths are made of.
const SYLLABLES: [&str; 16] = [
    "ba", "co", "da", "fen", "gi", "ho", "lu", "mar", "no", "per", "qua", "ra", "sti", "ter", "vo",
    "zen",
];
/// Numbers from here on are in no list.
const NOWHERE: u64 = 1 << 40;

/// splitmix64: spreads a number over 64 bits.
fn spread(number: u64) -> u64 {
    let z = number.wrapping_add(SEED).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn word(mut bits: u64, syllables: u64, out: &mut String) {
    for _ in 0..syllables {
        out.push_str(SYLLABLES[(bits & 15) as usize]);
        bits >>= 4;
    }
}

/// A name that belongs to this number alone.
fn name(number: u64, out: &mut String) {
    let bits = spread(number);
    word(bits, 2 + bits % 3, out);
    // Writing to a string cannot fail, here and below.
    let _ = write!(out, "{number:x}.{}", ENDS[(bits >> 32) as usize % ENDS.len()]);
}

/// The domain of this number: what a composed list of domains has on its line.
pub(crate) fn domain(number: u64) -> String {
    let mut out = String::new();
    name(number, &mut out);
    out
}

fn path(bits: u64, out: &mut String) {
    for piece in 0..1 + bits % 3 {
        out.push('/');
        word(bits >> (8 + piece * 8), 3, out);
    }
}

/// The line of this number: of ten, five domains, two hosts, three URLs.
fn line(number: u64, out: &mut String) {
    out.clear();
    match number % 10 {
        0..=4 => name(number, out),
        5 | 6 => {
            out.push_str("=www.");
            name(number, out);
        }
        _ => {
            out.push_str("http://");
            name(number, out);
            path(spread(!number), out);
        }
    }
}

/// Writes a list of so many lines.
pub(super) fn write(file: &Path, entries: u64) -> std::io::Result<()> {
    let mut out = BufWriter::with_capacity(1 << 20, std::fs::File::create(file)?);
    let mut text = String::new();
    for number in 0..entries {
        line(number, &mut text);
        text.push('\n');
        out.write_all(text.as_bytes())?;
    }
    out.flush()
}

/// So many lines.
pub(crate) fn lines(entries: u64) -> Vec<String> {
    let one = |number| {
        let mut text = String::new();
        line(number, &mut text);
        text
    };
    (0..entries).map(one).collect()
}

/// `count` URLs that a list of so many lines has, from everywhere in it.
pub(super) fn hits(entries: u64, count: usize) -> Vec<String> {
    let numbers = (0..count as u64).map(|n| spread(n ^ SEED.rotate_left(32)) % entries.max(1));
    numbers.map(hit).collect()
}

/// A URL that the line of this number is about.
pub(crate) fn hit(number: u64) -> String {
    let mut url = String::from("http://");
    match number % 10 {
        0..=4 => {
            url.push_str("img.");
            name(number, &mut url);
            path(spread(number + 1), &mut url);
        }
        5 | 6 => {
            url.push_str("www.");
            name(number, &mut url);
            path(spread(number + 1), &mut url);
        }
        _ => {
            name(number, &mut url);
            path(spread(!number), &mut url);
            url.push_str("?id=1");
        }
    }
    url
}

/// `count` URLs that no list has.
pub(super) fn misses(count: usize) -> Vec<String> {
    let numbers = (0..count as u64).map(|n| NOWHERE + spread(n) % NOWHERE);
    numbers
        .map(|number| {
            let mut url = String::from("https://www.");
            name(number, &mut url);
            path(spread(number), &mut url);
            url
        })
        .collect()
}
