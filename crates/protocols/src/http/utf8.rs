//! UTF-8 in paths becomes single bytes that look alike. Longer forms than necessary are accepted,
//! as some servers do.

use super::bestfit::lookalike;

/// Which continuation bytes may follow.
#[derive(Clone, Copy)]
enum Next {
    Low,
    LowMiddle,
    Any,
}

impl Next {
    fn takes(self, byte: u8) -> bool {
        let (low, middle) = ((0x80..=0x8f).contains(&byte), (0x90..=0x9f).contains(&byte));
        let high = (0xa0..=0xbf).contains(&byte);
        match self {
            Next::Low => low,
            Next::LowMiddle => low || middle,
            Next::Any => low || middle || high,
        }
    }
}

/// How a character begins: bits of its first byte, what may follow, how many bytes follow.
fn begin(byte: u8) -> Option<(u32, Next, usize)> {
    let bits = u32::from(byte);
    match byte {
        0xc0..=0xdf => Some((bits & 0x1f, Next::Any, 1)),
        0xed => Some((bits & 0x0f, Next::LowMiddle, 2)),
        0xe0..=0xef => Some((bits & 0x0f, Next::Any, 2)),
        0xf0..=0xf3 => Some((bits & 0x07, Next::Any, 3)),
        0xf4 => Some((bits & 0x07, Next::Low, 3)),
        _ => None,
    }
}

/// Flattens; what is no UTF-8 and what has no look-alike becomes the replacement.
pub(super) fn flatten(bytes: &[u8], replacement: u8) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    let mut place = 0;
    while let Some(&byte) = bytes.get(place) {
        if byte < 0x80 {
            out.push(byte);
            place += 1;
            continue;
        }
        let Some((mut character, mut next, len)) = begin(byte) else {
            out.push(replacement);
            place += 1;
            continue;
        };
        let mut taken = 1;
        while taken <= len {
            match bytes.get(place + taken) {
                Some(&byte) if next.takes(byte) => {
                    character = character << 6 | u32::from(byte & 0x3f);
                    next = Next::Any;
                    taken += 1;
                }
                _ => break,
            }
        }
        if taken > len {
            out.push(single(character, replacement));
        } else if place + taken < bytes.len() {
            out.push(replacement);
        } else {
            // Cut off at the end: one for each byte but the first.
            out.extend(std::iter::repeat_n(replacement, taken - 1));
        }
        place += taken;
    }
    out
}

fn single(character: u32, replacement: u8) -> u8 {
    match u8::try_from(character) {
        Ok(byte) => byte,
        Err(_) => lookalike(character).unwrap_or(replacement),
    }
}
