//! VBA (MS-OVBA): modules decompressed to text, the strings that they make, and what is suspicious
//! in them.

mod fold;
mod token;
mod triggers;

use memchr::memmem;

use crate::object::{PropertyKind, UrlSource};
use crate::unpack::Unpacker;

/// Bytes of one module.
const MODULE_BYTES_MAX: usize = 4 << 20;

/// Decompresses a container (section 2.4.1); none if it is none.
pub(super) fn decompress(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut rest = bytes.strip_prefix(&[1])?;
    let mut out = Vec::new();
    while let [low, high, behind @ ..] = rest {
        let header = u16::from_le_bytes([*low, *high]);
        if header >> 12 & 7 != 3 {
            break;
        }
        let size = usize::from(header & 0x0fff) + 1;
        let chunk = &behind[..size.min(behind.len())];
        if header & 0x8000 == 0 {
            out.extend_from_slice(chunk);
        } else {
            tokens(chunk, &mut out);
        }
        if out.len() > MODULE_BYTES_MAX {
            break;
        }
        rest = behind.get(size..).unwrap_or_default();
    }
    (!out.is_empty()).then_some(out)
}

/// One compressed chunk: flags of eight tokens, each a byte or a copy of what came before.
fn tokens(mut chunk: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    while let Some((&flags, rest)) = chunk.split_first() {
        chunk = rest;
        for bit in 0..8 {
            if flags >> bit & 1 == 0 {
                let Some((&byte, rest)) = chunk.split_first() else { return };
                out.push(byte);
                chunk = rest;
                continue;
            }
            let [low, high, rest @ ..] = chunk else { return };
            chunk = rest;
            let token = u16::from_le_bytes([*low, *high]);
            let done = out.len() - start;
            if done == 0 || done > 4_096 {
                return;
            }
            // As many bits for the offset as the place in the chunk needs, at least four.
            let bits = (usize::BITS - (done - 1).leading_zeros()).max(4);
            let length = usize::from(token & (0xffff >> bits)) + 3;
            let offset = usize::from(token >> (16 - bits)) + 1;
            if offset > done {
                return;
            }
            for _ in 0..length {
                out.push(out[out.len() - offset]);
            }
        }
    }
}

/// The source in a module's stream: behind its compiled code, where a container begins with the
/// attributes that every module has. Found by its beginning, since the offset in the `dir` stream
/// may lie.
pub(super) fn source(stream: &[u8]) -> Option<Vec<u8>> {
    memmem::find_iter(stream, b"\0Attribut").find_map(|at| {
        // Flags before the text's first eight characters, header, signature.
        let start = at.checked_sub(3)?;
        decompress(stream.get(start..)?)
    })
}

/// Adds the source of a module as text, with the strings that it makes, and notes what is
/// suspicious in both.
pub(super) fn inspect(code: &str, unpacker: &mut Unpacker<'_>) {
    unpacker.property(PropertyKind::VbaMacros, "");
    let made = fold::strings(code);
    for text in &made {
        if let Some(address) = address(text) {
            unpacker.url(address, UrlSource::Action);
        }
    }
    for name in triggers::automatic(code) {
        unpacker.property(PropertyKind::AutoExec, &name);
    }
    let made = made.join("\n");
    for word in triggers::suspicious(code).chain(triggers::suspicious(&made)) {
        unpacker.property(PropertyKind::SuspiciousCall, word);
    }
    // What was hidden comes first: a long source must not push it out of the text that is kept.
    unpacker.text(&made);
    unpacker.text(code);
}

/// The address in a string that code makes.
fn address(text: &str) -> Option<&str> {
    let schemes = ["http://", "https://", "ftp://", "file://"];
    let lower = text.to_ascii_lowercase();
    let at = schemes.iter().filter_map(|scheme| lower.find(scheme)).min()?;
    text[at..]
        .split(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '<' | '>' | ')'))
        .next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_of_the_specification() {
        // MS-OVBA section 3.2.1 to 3.2.3.
        let plain = b"\x01\x19\xb0\x00abcdefgh\x00ijklmnop\x00qrstuv.";
        assert_eq!(decompress(plain).unwrap(), b"abcdefghijklmnopqrstuv.");
        let usual = b"\x01\x2f\xb0\x00#aaabcde\x82f\x00pagh\x02\x48\x2cijkl\x06\x28\x2c\x2cmnop\x06\x08\x10\x00";
        assert!(decompress(usual).is_some());
        let most = b"\x01\x03\xb0\x02aE\x00";
        assert_eq!(decompress(most).unwrap(), vec![b'a'; 73]);
        for end in 0..most.len() {
            decompress(&most[..end]);
        }
    }

    #[test]
    fn addresses_that_code_makes() {
        assert_eq!(address("(New X).Get('HTTP://e.example/a')"), Some("HTTP://e.example/a"));
        assert_eq!(address("no address"), None);
    }
}
