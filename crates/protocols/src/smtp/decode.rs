//! Transfer encodings (RFC 2045 section 6), line by line.

/// Base64 over lines; what is no letter of it is skipped.
#[derive(Debug, Clone, Default)]
pub(super) struct Base64 {
    group: [u8; 4],
    filled: usize,
}

/// A group that cannot be decoded.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Invalid;

impl Base64 {
    /// Whether a group has begun.
    pub(super) fn is_open(&self) -> bool {
        self.filled > 0
    }

    /// Decodes a line to the end of `output`. Where a group is invalid nothing of the line counts.
    pub(super) fn line(&mut self, line: &[u8], output: &mut Vec<u8>) -> Result<(), Invalid> {
        output.reserve(line.len() / 4 * 3 + 3);
        let mut rest = line;
        loop {
            if self.filled == 0 {
                rest = groups(rest, output);
            }
            let Some((&byte, behind)) = rest.split_first() else { return Ok(()) };
            rest = behind;
            if value(byte).is_none() && byte != b'=' {
                continue;
            }
            if let Some(place) = self.group.get_mut(self.filled) {
                *place = byte;
            }
            self.filled += 1;
            if self.filled == self.group.len() {
                self.decode_group(output)?;
            }
        }
    }

    /// Decodes what is left, as if padding followed.
    pub(super) fn finish(&mut self, output: &mut Vec<u8>) -> Result<(), Invalid> {
        let missing = self.group.len() - self.filled;
        let padding = *b"====";
        self.line(padding.get(..missing).unwrap_or_default(), output)
    }

    fn decode_group(&mut self, output: &mut Vec<u8>) -> Result<(), Invalid> {
        let [a, b, c, d] = self.group;
        let (first, second) = value(a).zip(value(b)).ok_or(Invalid)?;
        let third = match c {
            b'=' => None,
            _ => Some(value(c).ok_or(Invalid)?),
        };
        let fourth = match (third, d) {
            (None, _) | (_, b'=') => None,
            _ => Some(value(d).ok_or(Invalid)?),
        };
        self.filled = 0;
        output.push(first << 2 | second >> 4);
        if let Some(third) = third {
            output.push(second << 4 | third >> 2);
            if let Some(fourth) = fourth {
                output.push(third << 6 | fourth);
            }
        }
        Ok(())
    }
}

/// Decodes groups as long as they have four letters each; what is left.
fn groups<'a>(mut bytes: &'a [u8], output: &mut Vec<u8>) -> &'a [u8] {
    // Most lines are letters alone; of others nothing is decoded so.
    if let Some((letters, rest)) = bytes.split_at_checked(bytes.len() / 4 * 4)
        && base64_simd::STANDARD_NO_PAD.decode_append(letters, output).is_ok()
    {
        return rest;
    }
    while let Some((group, behind)) = bytes.split_first_chunk::<4>() {
        let [a, b, c, d] = group.map(|byte| VALUES.get(usize::from(byte)).copied().unwrap_or(NONE));
        if (a | b | c | d) & NONE != 0 {
            break;
        }
        output.extend_from_slice(&[a << 2 | b >> 4, b << 4 | c >> 2, c << 6 | d]);
        bytes = behind;
    }
    bytes
}

/// No letter has this bit.
const NONE: u8 = 0x80;

/// Values of letters.
const VALUES: [u8; 256] = {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut values = [NONE; 256];
    let mut value = 0;
    while value < LETTERS.len() {
        values[LETTERS[value] as usize] = value as u8;
        value += 1;
    }
    values
};

fn value(byte: u8) -> Option<u8> {
    VALUES.get(usize::from(byte)).copied().filter(|value| *value != NONE)
}

/// Quoted-printable over lines and parts of lines.
#[derive(Debug, Clone, Default)]
pub(super) struct QuotedPrintable {
    /// An escape, or the end of a line, of which the next part decides.
    kept: Vec<u8>,
}

impl QuotedPrintable {
    /// Decodes a line (`text` without its end, `full` with it) to the end of `output`. Says whether
    /// all escapes were right.
    pub(super) fn line(&mut self, text: &[u8], full: &[u8], output: &mut Vec<u8>) -> bool {
        let end = full.get(text.len()..).unwrap_or_default();
        let mut valid = true;
        let mut place = 0;
        let kept = std::mem::take(&mut self.kept);
        if kept.first() == Some(&b'=') {
            place = 3 - kept.len().min(2);
            let digits = match (kept.get(1), text) {
                (None, [high, low, ..]) | (Some(high), [low, _, ..]) => escape(*high, *low),
                _ => None,
            };
            valid = digits.is_some();
            output.extend(digits);
        } else {
            output.extend(kept);
        }
        let mut is_soft_break = false;
        while let Some(&byte) = text.get(place) {
            if byte != b'=' {
                output.push(byte);
                place += 1;
                continue;
            }
            let rest = text.get(place + 1..).unwrap_or_default();
            match rest {
                [] if !end.is_empty() => {
                    is_soft_break = true;
                    break;
                }
                [] | [_] => {
                    if end.is_empty() {
                        self.kept = text.get(place..).unwrap_or_default().to_vec();
                    } else {
                        valid = false;
                    }
                    break;
                }
                [high, low, ..] => {
                    let digits = escape(*high, *low);
                    valid &= digits.is_some();
                    output.extend(digits);
                    place += 3;
                }
            }
        }
        if text.is_empty() {
            // The empty line before a boundary belongs to the boundary.
            self.kept = end.to_vec();
        } else if !is_soft_break {
            output.extend_from_slice(end);
        }
        valid
    }
}

fn escape(high: u8, low: u8) -> Option<u8> {
    Some(digit(high)? << 4 | digit(low)?)
}

/// Upper-case digits alone (RFC 2045 section 6.7).
fn digit(byte: u8) -> Option<u8> {
    Some(match byte {
        b'0'..=b'9' => byte - b'0',
        b'A'..=b'F' => byte - b'A' + 10,
        _ => return None,
    })
}
