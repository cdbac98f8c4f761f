//! Roughly how often a string occurs in the texts that rules see, by how often each character
//! follows the one before it (a Markov chain of order one).
//!
//! Patterns are searched by their rarest strings. With frequencies of single characters `tion`
//! would pass for as rare as `ntio`, and `http` for rarer than either in a list of URIs.

use super::boundary::{BOUNDARY, bytes_of};
use super::frequencies;
use super::symbol::{SYMBOLS, bytes_of_kind, symbol};

/// Kinds of searched texts, each with a table of frequencies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum TextKind {
    /// Rendered text, as a user reads it.
    #[default]
    Mail,
    /// Decoded parts with their HTML.
    Raw,
    /// The pseudo headers `X-Spam-Relays-*`.
    Relays,
    /// Names and values of all header fields.
    Fields,
    /// URIs of the message, one a text.
    Uris,
}

/// Names of the tables in `frequencies.rs`, in the order of [`TextKind`].
pub const KINDS: [&str; 5] = ["MAIL", "RAW", "RELAYS", "FIELDS", "URIS"];

/// Digits of a frequency in `frequencies.rs`: each digit is a quarter of a bit less.
const CODES: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const STEPS_PER_BIT: f64 = 4.0;

/// The digit of a frequency.
pub fn code_of(frequency: f64) -> u8 {
    let steps = (-frequency.log2() * STEPS_PER_BIT).round().clamp(0.0, 63.0);
    CODES[steps as usize]
}

/// Frequencies by their digits.
static FREQUENCIES: std::sync::LazyLock<[f64; 256]> = std::sync::LazyLock::new(|| {
    let mut frequencies = [0.0; 256];
    for (steps, code) in CODES.iter().enumerate() {
        frequencies[usize::from(*code)] = (-(steps as f64) / STEPS_PER_BIT).exp2();
    }
    frequencies
});

/// A word boundary hardly makes a string rarer, for searching it costs the same; but of equally
/// rare strings one with a boundary is reported less often for nothing.
const BOUNDARY_FREQUENCY: f64 = 0.99;

/// The frequency assumed for a string that is in every text.
const COMMON_FREQUENCY: f64 = 0.01;

impl TextKind {
    /// What every such text contains, in lower case: strings in it say nothing.
    fn common(self) -> &'static [u8] {
        match self {
            TextKind::Mail | TextKind::Raw => b"",
            TextKind::Relays => {
                b"[ ip= rdns= helo= by= ident= envfrom= intl=0 id= auth= msa=0 ] [ ip= helo=! by=! \
                  envfrom=! rdns=! intl=1 id=! msa=1"
            }
            TextKind::Fields => {
                b"\nreceived: from \nmessage-id: <\nfrom: \nto: \nsubject: \ndate: \ncc: \
                  \nreply-to: \nreturn-path: <\ncontent-type: \nmime-version: 1.0\n"
            }
            TextKind::Uris => b"http://www. https://www. .com/",
        }
    }

    fn table(self) -> &'static [[u8; SYMBOLS]; SYMBOLS + 1] {
        match self {
            TextKind::Mail => &frequencies::MAIL,
            TextKind::Raw => &frequencies::RAW,
            TextKind::Relays => &frequencies::RELAYS,
            TextKind::Fields => &frequencies::FIELDS,
            TextKind::Uris => &frequencies::URIS,
        }
    }
}

/// Roughly the probability that a string in lower case, with [`BOUNDARY`] for word boundaries,
/// begins at a byte of such a text.
pub(crate) fn string_frequency(string: &[u8], texts: TextKind) -> f64 {
    let is_common = || memchr::memmem::find(texts.common(), &bytes_of(string)).is_some();
    if !texts.common().is_empty() && is_common() {
        return COMMON_FREQUENCY;
    }
    let (table, frequencies) = (texts.table(), &*FREQUENCIES);
    let (mut frequency, mut row) = (1.0, SYMBOLS);
    for byte in string {
        if *byte == BOUNDARY {
            frequency *= BOUNDARY_FREQUENCY;
            continue;
        }
        let now = symbol(*byte);
        frequency *= frequencies[usize::from(table[row][now])] / bytes_of_kind(now);
        row = now;
    }
    frequency
}

/// [`byte_frequency`] of every byte.
pub(super) static BYTE_FREQUENCIES: [f64; 256] = {
    let mut table = [0.0; 256];
    let mut byte = 0;
    while byte < table.len() {
        table[byte] = byte_frequency(byte as u8);
        byte += 1;
    }
    table
};

/// The probability that a byte of text is this one.
const fn byte_frequency(byte: u8) -> f64 {
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
    fn frequent_strings_are_distinguished_from_rare_ones() {
        let frequency = |text: &str| string_frequency(text.as_bytes(), TextKind::Mail);
        assert!(frequency("tion") > 10.0 * frequency("ntio").min(frequency("iotn")));
        assert!(frequency("th") > 30.0 * frequency("tq"));
        assert!(frequency("ing ") > 100.0 * frequency("gnvi"));
        assert!((frequency("BtheB") / frequency("the") - BOUNDARY_FREQUENCY.powi(2)).abs() < 1e-9);
        let of_uri = |text: &str| string_frequency(text.as_bytes(), TextKind::Uris);
        assert_eq!(of_uri("p://"), COMMON_FREQUENCY);
        assert!(of_uri("p://") > 10.0 * of_uri("x.tk"));
    }

    #[test]
    fn every_table_says_how_the_next_letter_is_shared_out() {
        for texts in
            [TextKind::Mail, TextKind::Raw, TextKind::Relays, TextKind::Fields, TextKind::Uris]
        {
            for row in texts.table() {
                let sum: f64 = row.iter().map(|code| FREQUENCIES[usize::from(*code)]).sum();
                assert!((0.8..1.25).contains(&sum), "{texts:?}: {sum}");
            }
        }
    }
}
