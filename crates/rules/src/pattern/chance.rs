//! Roughly how often a string stands in the texts that rules see: by how often each of its letters follows
//! the one before it (a Markov chain of order one).
//!
//! Rules are looked for by their rarest strings. Letters taken alone would hold `tion` for as rare as
//! `ntio`, and `http` for rarer than either in a list of URIs.

use super::chances;
use super::literal::{BOUNDARY, bytes_of};

/// What is searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Texts {
    /// What people read.
    #[default]
    Mail,
    /// What stands in the parts: HTML, too.
    Raw,
    /// The relays of a message as rules see them.
    Relays,
    /// All fields of a message.
    Fields,
    /// The URIs of a message.
    Uris,
}

/// Names of the tables in `chances.rs`, in the order of [`Texts`].
pub const KINDS: [&str; 5] = ["MAIL", "RAW", "RELAYS", "FIELDS", "URIS"];

/// Kinds of bytes that are told apart: letters in any case, digits, some signs, the rest.
pub const SYMBOLS: usize = 47;
const DIGIT: usize = 26;
const SIGNS: &[u8] = b" \n.,-/:=\"<>@&;_'";
const PARENTHESIS: usize = DIGIT + 1 + SIGNS.len();
const END: usize = PARENTHESIS + 1;
const OTHER: usize = PARENTHESIS + 2;
const HIGH: usize = PARENTHESIS + 3;

/// The kind of a byte.
pub const fn symbol(byte: u8) -> usize {
    match byte {
        b'a'..=b'z' => (byte - b'a') as usize,
        b'A'..=b'Z' => (byte - b'A') as usize,
        b'0'..=b'9' => DIGIT,
        b'(' | b')' => PARENTHESIS,
        b'!' | b'?' => END,
        0x80.. => HIGH,
        _ => {
            let mut at = 0;
            while at < SIGNS.len() {
                if SIGNS[at] == byte {
                    return DIGIT + 1 + at;
                }
                at += 1;
            }
            OTHER
        }
    }
}

/// How many bytes of a kind are about as frequent as each other.
fn bytes_of_kind(symbol: usize) -> f64 {
    match symbol {
        DIGIT => 10.0,
        PARENTHESIS | END => 2.0,
        OTHER => 12.0,
        HIGH => 40.0,
        _ => 1.0,
    }
}

/// Digits of a chance in `chances.rs`: a digit more is a quarter of a bit less.
const CODES: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const STEPS_PER_BIT: f64 = 4.0;

/// The digit of a chance.
pub fn code_of(chance: f64) -> u8 {
    let steps = (-chance.log2() * STEPS_PER_BIT).round().clamp(0.0, 63.0);
    CODES[steps as usize]
}

/// Powers of two by the digits that stand for them.
static CHANCES: std::sync::LazyLock<[f64; 256]> = std::sync::LazyLock::new(|| {
    let mut chances = [0.0; 256];
    for (steps, code) in CODES.iter().enumerate() {
        chances[usize::from(*code)] = (-(steps as f64) / STEPS_PER_BIT).exp2();
    }
    chances
});

/// Looking for a string costs the same with a word boundary, so that it is hardly rarer; but it is told less in
/// vain.
const BOUNDARY_CHANCE: f64 = 0.99;

/// The chance of a string that is in every text.
const COMMON_CHANCE: f64 = 0.01;

impl Texts {
    /// What every such text holds, in lower case: strings in it tell nothing.
    fn common(self) -> &'static [u8] {
        match self {
            Texts::Mail | Texts::Raw => b"",
            Texts::Relays => {
                b"[ ip= rdns= helo= by= ident= envfrom= intl=0 id= auth= msa=0 ] [ ip= helo=! by=! \
                  envfrom=! rdns=! intl=1 id=! msa=1"
            }
            Texts::Fields => {
                b"\nreceived: from \nmessage-id: <\nfrom: \nto: \nsubject: \ndate: \ncc: \
                  \nreply-to: \nreturn-path: <\ncontent-type: \nmime-version: 1.0\n"
            }
            Texts::Uris => b"http://www. https://www. .com/",
        }
    }

    fn table(self) -> &'static [[u8; SYMBOLS]; SYMBOLS + 1] {
        match self {
            Texts::Mail => &chances::MAIL,
            Texts::Raw => &chances::RAW,
            Texts::Relays => &chances::RELAYS,
            Texts::Fields => &chances::FIELDS,
            Texts::Uris => &chances::URIS,
        }
    }
}

/// Roughly how likely a string in lower case, with [`BOUNDARY`] for word boundaries, begins at a byte of such a
/// text.
pub(crate) fn string_chance(string: &[u8], texts: Texts) -> f64 {
    let is_common = || memchr::memmem::find(texts.common(), &bytes_of(string)).is_some();
    if !texts.common().is_empty() && is_common() {
        return COMMON_CHANCE;
    }
    let (table, chances) = (texts.table(), &*CHANCES);
    let (mut chance, mut row) = (1.0, SYMBOLS);
    for byte in string {
        if *byte == BOUNDARY {
            chance *= BOUNDARY_CHANCE;
            continue;
        }
        let now = symbol(*byte);
        chance *= chances[usize::from(table[row][now])] / bytes_of_kind(now);
        row = now;
    }
    chance
}

/// [`byte_chance`] of every byte.
pub(super) static BYTE_CHANCES: [f64; 256] = {
    let mut table = [0.0; 256];
    let mut byte = 0;
    while byte < table.len() {
        table[byte] = byte_chance(byte as u8);
        byte += 1;
    }
    table
};

/// How likely a byte of text is this one.
const fn byte_chance(byte: u8) -> f64 {
    match byte {
        b' ' => 0.14,
        b'e' | b't' | b'a' | b'o' => 0.06,
        b'i' | b'n' | b's' | b'r' => 0.045,
        b'h' | b'l' | b'd' | b'c' | b'u' | b'm' => 0.024,
        b'f' | b'p' | b'g' | b'w' | b'y' | b'b' | b'.' => 0.012,
        b'v' | b'k' | b'\n' | b'-' | b',' | b'/' => 0.008,
        b'0'..=b'9' => 0.005,
        b'A'..=b'Z' => 0.004,
        b'!'..=b'~' => 0.002,
        0x80..=0xff => 0.0005,
        _ => 0.0001,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frequent_strings_are_told_from_rare_ones() {
        let chance = |text: &str| string_chance(text.as_bytes(), Texts::Mail);
        assert!(chance("tion") > 10.0 * chance("ntio").min(chance("iotn")));
        assert!(chance("th") > 30.0 * chance("tq"));
        assert!(chance("ing ") > 100.0 * chance("gnvi"));
        assert!((chance("BtheB") / chance("the") - BOUNDARY_CHANCE.powi(2)).abs() < 1e-9);
        let of_uri = |text: &str| string_chance(text.as_bytes(), Texts::Uris);
        assert_eq!(of_uri("p://"), COMMON_CHANCE);
        assert!(of_uri("p://") > 10.0 * of_uri("x.tk"));
    }

    #[test]
    fn every_table_says_how_the_next_letter_is_shared_out() {
        for texts in [Texts::Mail, Texts::Raw, Texts::Relays, Texts::Fields, Texts::Uris] {
            for row in texts.table() {
                let sum: f64 = row.iter().map(|code| CHANCES[usize::from(*code)]).sum();
                assert!((0.8..1.25).contains(&sum), "{texts:?}: {sum}");
            }
        }
    }
}
