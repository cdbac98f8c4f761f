//! A file as the difference to another one: Zstandard (RFC 8878) with the other file as what was
//! said before, as `zstd --patch-from` makes it. Without another file it is the file, packed.
//!
//! A delta is read only after its own hash was found in signed metadata; still, whatever it holds,
//! it makes no more bytes than it should, in no more memory than [`WINDOW_LOG_MAX`] says.

use std::io::{self, Read, Write};

use ring::digest::{Context, SHA256};
use zstd_safe::{CCtx, CParameter, DCtx, DParameter, InBuffer, OutBuffer};

use crate::error::Error;
use crate::hex;
use crate::limits::{DELTA_FILE_BYTES_MAX, WHOLE_WINDOW_LOG_MAX};

/// Largest window that a delta may ask for, as a power of two: the largest file with a delta.
const WINDOW_LOG_MAX: u32 = DELTA_FILE_BYTES_MAX.ilog2();
/// How hard the publisher tries.
const LEVEL: i32 = 12;
/// Bytes read and written at once.
const CHUNK_BYTES: usize = 1 << 17;

fn failed(code: usize) -> io::Error {
    io::Error::other(zstd_safe::get_error_name(code))
}

/// Makes the delta from `from` (empty: none) to `to`.
///
/// # Errors
/// Zstandard's, which only wants for memory.
pub fn make(from: &[u8], to: &[u8]) -> io::Result<Vec<u8>> {
    let mut context = CCtx::create();
    // Both files within reach of every match.
    let reach = (from.len() + to.len()).max(1 << 10).next_power_of_two().ilog2();
    let most = if from.is_empty() { WHOLE_WINDOW_LOG_MAX } else { WINDOW_LOG_MAX };
    for parameter in [
        CParameter::CompressionLevel(LEVEL),
        CParameter::WindowLog(reach.min(most)),
        CParameter::EnableLongDistanceMatching(!from.is_empty()),
        CParameter::ChecksumFlag(false),
    ] {
        context.set_parameter(parameter).map_err(failed)?;
    }
    if !from.is_empty() {
        context.ref_prefix(from).map_err(failed)?;
    }
    let mut out = Vec::with_capacity(zstd_safe::compress_bound(to.len()));
    context.compress2(&mut out, to).map_err(failed)?;
    Ok(out)
}

/// What a delta made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Made {
    /// Bytes written.
    pub length: u64,
    /// Their SHA-256 in digits.
    pub sha256: String,
}

/// Reads a delta, and writes the file that it makes of `from` (empty: none).
///
/// # Errors
/// If it makes more than `length` bytes, is none, or needs more memory than a delta may; and the
/// system's.
pub fn apply(
    from: &[u8],
    delta: &mut dyn Read,
    out: &mut dyn Write,
    length: u64,
) -> Result<Made, Error> {
    let bad = |why: String| Error::malformed("delta", why);
    let code = |code| bad(zstd_safe::get_error_name(code).to_owned());
    let most = if from.is_empty() { WHOLE_WINDOW_LOG_MAX } else { WINDOW_LOG_MAX };
    let mut context = DCtx::create();
    context.set_parameter(DParameter::WindowLogMax(most)).map_err(code)?;
    if !from.is_empty() {
        context.ref_prefix(from).map_err(code)?;
    }
    let (mut read, mut room) = (vec![0; CHUNK_BYTES], vec![0; CHUNK_BYTES]);
    let (mut written, mut hash) = (0u64, Context::new(&SHA256));
    let mut is_whole = false;
    loop {
        let count = delta.read(&mut read).map_err(|e| bad(e.to_string()))?;
        if count == 0 {
            break;
        }
        if is_whole {
            return Err(bad("more than one frame".to_owned()));
        }
        let mut input = InBuffer::around(&read[..count]);
        // A full buffer may leave more behind, even when all input was read.
        let mut is_full = false;
        while input.pos() < count || is_full {
            if is_whole {
                return Err(bad("more than one frame".to_owned()));
            }
            let mut output = OutBuffer::around(&mut room[..]);
            let left = context.decompress_stream(&mut output, &mut input).map_err(code)?;
            let count = output.pos();
            let made = &room[..count];
            written += made.len() as u64;
            if written > length {
                return Err(bad(format!("it makes more than the {length} bytes that are signed")));
            }
            hash.update(made);
            is_whole = left == 0;
            is_full = made.len() == CHUNK_BYTES && !is_whole;
            out.write_all(made).map_err(|e| bad(e.to_string()))?;
        }
    }
    match is_whole {
        true => Ok(Made { length: written, sha256: hex::encode(hash.finish().as_ref()) }),
        false => Err(bad("it ends too soon".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(lines: u32, change: u32) -> Vec<u8> {
        let word = |n: u32| n.wrapping_mul(2_654_435_761) ^ (u32::from(n % 1000 == change) * 77);
        (0..lines).flat_map(|n| format!("{:08x}\n", word(n)).into_bytes()).collect()
    }

    fn applied(from: &[u8], delta: &[u8], length: usize) -> Result<Vec<u8>, Error> {
        let mut out = Vec::new();
        let made = apply(from, &mut &*delta, &mut out, length as u64)?;
        assert_eq!((made.length, made.sha256), (out.len() as u64, hex::sha256(&out)));
        Ok(out)
    }

    #[test]
    fn a_delta_is_small_and_makes_the_file() {
        let (old, new) = (text(200_000, 1), text(200_000, 2));
        let delta = make(&old, &new).unwrap();
        assert!(delta.len() < new.len() / 200, "{} bytes", delta.len());
        assert_eq!(applied(&old, &delta, new.len()).unwrap(), new);
        let whole = make(&[], &new).unwrap();
        assert_eq!(applied(&[], &whole, new.len()).unwrap(), new);
        assert_eq!(applied(b"", &make(b"", b"").unwrap(), 0).unwrap(), b"");
    }

    #[test]
    fn damaged_deltas_make_nothing_that_passes() {
        let (old, new) = (text(3_000, 1), text(3_000, 2));
        let delta = make(&old, &new).unwrap();
        for cut in 0..delta.len() {
            assert!(applied(&old, &delta[..cut], new.len()).is_err(), "cut at {cut}");
        }
        for at in 0..delta.len() {
            let mut broken = delta.clone();
            broken[at] ^= 0x55;
            // The hash of the file tells those that are still deltas.
            if let Ok(made) = applied(&old, &broken, new.len()) {
                assert!(made.len() <= new.len());
            }
        }
        assert!(applied(&old, &delta, new.len() - 1).is_err(), "more than is signed");
        assert!(applied(&old, &[delta.clone(), delta.clone()].concat(), 2 * new.len()).is_err());
        assert!(applied(b"another", &delta, new.len()).map_or(true, |made| made != new));
    }

    #[test]
    fn a_bomb_ends_at_the_signed_length() {
        let bomb = make(&[], &vec![0; 64 << 20]).unwrap();
        assert!(bomb.len() < 16 << 10);
        let error = applied(&[], &bomb, 1_000).unwrap_err().to_string();
        assert!(error.contains("more than the 1000 bytes"), "{error}");
    }
}
