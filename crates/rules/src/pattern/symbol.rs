//! Kinds of bytes whose frequencies are counted.

/// Number of kinds of bytes: letters in any case, digits, some punctuation, the rest.
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

/// How many bytes a kind has that are about as frequent as each other.
pub(super) fn bytes_of_kind(symbol: usize) -> f64 {
    match symbol {
        DIGIT => 10.0,
        PARENTHESIS | END => 2.0,
        OTHER => 12.0,
        HIGH => 40.0,
        _ => 1.0,
    }
}
