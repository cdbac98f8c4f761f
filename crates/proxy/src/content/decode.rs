//! Content codings (RFC 9110 section 8.4) undone while bytes come, within limits.
//!
//! The client gets the bytes as they came; what is undone here is for judging alone.

use std::io::{self, Write};

use brotli_decompressor::{BrotliDecompressStream, BrotliResult, BrotliState, StandardAlloc};
use flate2::write::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};
use zstd_safe::{DCtx, DParameter, InBuffer, OutBuffer};

/// Codings on top of each other.
const CODINGS_MAX: usize = 4;
/// Bytes that are fed at a time: what deflate makes of them is a megabyte at most.
const STEP_BYTES: usize = 1024;
/// Bytes that brotli and zstd give at a time.
const OUT_BYTES: usize = 16 << 10;
/// Content up to this size is no bomb, whatever its ratio.
pub(super) const BOMB_BYTES_MIN: u64 = 1 << 20;
/// Logarithm of zstd's window: as large as browsers take (RFC 9659).
const ZSTD_WINDOW_LOG_MAX: u32 = 23;

/// Why decoding ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum DecodeError {
    /// A coding that is not known here.
    Unknown(String),
    /// More codings than [`CODINGS_MAX`].
    TooMany,
    /// Not what the coding says.
    Broken(&'static str),
    /// Far more than came.
    Bomb,
}

/// What takes what was decoded; false ends decoding.
pub(super) type Sink<'a> = &'a mut dyn FnMut(&[u8]) -> bool;

/// Undoes codings.
pub(super) struct Decoder {
    stages: Vec<Stage>,
    ratio_max: u64,
    bomb_bytes_min: u64,
    bytes_in: u64,
    /// Bytes that each stage gave.
    bytes_out: Vec<u64>,
}

enum Stage {
    Gzip(MultiGzDecoder<Vec<u8>>),
    /// Not yet known whether with zlib's header.
    Deflate(Vec<u8>),
    Zlib(ZlibDecoder<Vec<u8>>),
    Raw(DeflateDecoder<Vec<u8>>),
    Brotli(Box<Brotli>),
    Zstd(DCtx<'static>),
}

struct Brotli {
    state: BrotliState<StandardAlloc, StandardAlloc, StandardAlloc>,
    has_ended: bool,
}

impl Decoder {
    /// `codings` in the order in which they were applied; none passes bytes as they are. What is
    /// larger than `bomb_bytes_min`, and more than `ratio_max` times what came, is a bomb.
    pub(super) fn new(
        codings: &[String],
        ratio_max: u64,
        bomb_bytes_min: u64,
    ) -> Result<Self, DecodeError> {
        if codings.len() > CODINGS_MAX {
            return Err(DecodeError::TooMany);
        }
        let stages: Vec<Stage> =
            codings.iter().rev().map(|c| Stage::new(c)).collect::<Result<_, _>>()?;
        let bytes_out = vec![0; stages.len()];
        Ok(Decoder { stages, ratio_max, bomb_bytes_min, bytes_in: 0, bytes_out })
    }

    /// Decodes the next bytes. False if the sink wanted no more.
    pub(super) fn feed(&mut self, bytes: &[u8], sink: Sink<'_>) -> Result<bool, DecodeError> {
        self.through(0, bytes, sink)
    }

    fn through(&mut self, at: usize, bytes: &[u8], sink: Sink<'_>) -> Result<bool, DecodeError> {
        if at >= self.stages.len() {
            return Ok(sink(bytes));
        }
        for step in bytes.chunks(STEP_BYTES) {
            // What is not yet decoded does not make up for what is.
            let came = if at == 0 { step.len() as u64 } else { 0 };
            self.bytes_in = self.bytes_in.saturating_add(came);
            let mut rest = step;
            loop {
                let Some(stage) = self.stages.get_mut(at) else { return Ok(true) };
                let (out, used) = stage.decode(rest)?;
                if used == 0 && out.is_empty() && !rest.is_empty() {
                    return Err(DecodeError::Broken("a coding that makes no progress"));
                }
                rest = rest.get(used..).unwrap_or_default();
                let is_done = rest.is_empty() && out.len() < OUT_BYTES;
                self.count(at, out.len() as u64)?;
                if !out.is_empty() && !self.through(at + 1, &out, sink)? {
                    return Ok(false);
                }
                if is_done {
                    break;
                }
            }
        }
        Ok(true)
    }

    fn count(&mut self, at: usize, more: u64) -> Result<(), DecodeError> {
        let Some(all) = self.bytes_out.get_mut(at) else { return Ok(()) };
        *all = all.saturating_add(more);
        let is_large = *all > self.bomb_bytes_min;
        match is_large && *all / self.bytes_in.max(1) > self.ratio_max {
            true => Err(DecodeError::Bomb),
            false => Ok(()),
        }
    }

    /// Gives what is still held back when the bytes have ended. What is not whole is no error: the
    /// client gets no more of it, either.
    pub(super) fn finish(&mut self, sink: Sink<'_>) -> Result<(), DecodeError> {
        for at in 0..self.stages.len() {
            let Some(stage) = self.stages.get_mut(at) else { continue };
            let out = stage.rest();
            self.count(at, out.len() as u64)?;
            if !out.is_empty() && !self.through(at + 1, &out, sink)? {
                return Ok(());
            }
        }
        Ok(())
    }
}

impl Stage {
    fn new(coding: &str) -> Result<Self, DecodeError> {
        match coding {
            "gzip" | "x-gzip" => Ok(Stage::Gzip(MultiGzDecoder::new(Vec::new()))),
            "deflate" => Ok(Stage::Deflate(Vec::new())),
            "br" => {
                let alloc = StandardAlloc::default;
                let state = BrotliState::new(alloc(), alloc(), alloc());
                Ok(Stage::Brotli(Box::new(Brotli { state, has_ended: false })))
            }
            "zstd" => {
                let mut context = DCtx::try_create().ok_or(DecodeError::Broken("zstd"))?;
                let set = context.set_parameter(DParameter::WindowLogMax(ZSTD_WINDOW_LOG_MAX));
                set.map_err(|_| DecodeError::Broken("zstd"))?;
                Ok(Stage::Zstd(context))
            }
            other => Err(DecodeError::Unknown(other.to_owned())),
        }
    }

    /// What the first bytes give, and how many of them were used.
    fn decode(&mut self, bytes: &[u8]) -> Result<(Vec<u8>, usize), DecodeError> {
        let all = bytes.len();
        match self {
            Stage::Gzip(decoder) => {
                written(decoder.write_all(bytes), "gzip")?;
                written(decoder.flush(), "gzip")?;
                Ok((std::mem::take(decoder.get_mut()), all))
            }
            Stage::Zlib(decoder) => {
                ended_or(decoder.write_all(bytes), "deflate")?;
                written(decoder.flush(), "deflate")?;
                Ok((std::mem::take(decoder.get_mut()), all))
            }
            Stage::Raw(decoder) => {
                ended_or(decoder.write_all(bytes), "deflate")?;
                written(decoder.flush(), "deflate")?;
                Ok((std::mem::take(decoder.get_mut()), all))
            }
            Stage::Deflate(begin) => {
                begin.extend_from_slice(bytes);
                let [cmf, flg, ..] = begin.as_slice() else { return Ok((Vec::new(), all)) };
                // RFC 1950: many servers leave zlib's header out, and browsers take both.
                let check = u16::from_be_bytes([*cmf, *flg]);
                let is_zlib = cmf & 15 == 8 && check.is_multiple_of(31);
                let begin = std::mem::take(begin);
                *self = match is_zlib {
                    true => Stage::Zlib(ZlibDecoder::new(Vec::new())),
                    false => Stage::Raw(DeflateDecoder::new(Vec::new())),
                };
                Ok((self.decode(&begin)?.0, all))
            }
            Stage::Brotli(brotli) => brotli.decode(bytes),
            Stage::Zstd(context) => zstd(context, bytes),
        }
    }

    /// What was written so far and not yet given.
    fn rest(&mut self) -> Vec<u8> {
        match self {
            Stage::Gzip(decoder) => {
                // An end that is missing is the client's to see, too.
                let _ = decoder.try_finish();
                std::mem::take(decoder.get_mut())
            }
            Stage::Zlib(decoder) => {
                let _ = decoder.try_finish();
                std::mem::take(decoder.get_mut())
            }
            Stage::Raw(decoder) => {
                let _ = decoder.try_finish();
                std::mem::take(decoder.get_mut())
            }
            Stage::Deflate(_) | Stage::Brotli(_) | Stage::Zstd(_) => Vec::new(),
        }
    }
}

fn written(result: io::Result<()>, coding: &'static str) -> Result<(), DecodeError> {
    result.map_err(|_| DecodeError::Broken(coding))
}

/// Bytes after the end of the stream are ignored, as browsers do.
fn ended_or(result: io::Result<()>, coding: &'static str) -> Result<(), DecodeError> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::WriteZero => Ok(()),
        result => written(result, coding),
    }
}

impl Brotli {
    fn decode(&mut self, bytes: &[u8]) -> Result<(Vec<u8>, usize), DecodeError> {
        if self.has_ended {
            return Ok((Vec::new(), bytes.len()));
        }
        let mut out = vec![0; OUT_BYTES];
        let (mut in_left, mut in_at) = (bytes.len(), 0);
        let (mut out_left, mut out_at, mut total) = (OUT_BYTES, 0, 0);
        let result = BrotliDecompressStream(
            &mut in_left,
            &mut in_at,
            bytes,
            &mut out_left,
            &mut out_at,
            &mut out,
            &mut total,
            &mut self.state,
        );
        out.truncate(out_at);
        match result {
            BrotliResult::ResultFailure => Err(DecodeError::Broken("br")),
            BrotliResult::ResultSuccess => {
                self.has_ended = true;
                Ok((out, bytes.len()))
            }
            BrotliResult::NeedsMoreInput | BrotliResult::NeedsMoreOutput => Ok((out, in_at)),
        }
    }
}

fn zstd(context: &mut DCtx<'static>, bytes: &[u8]) -> Result<(Vec<u8>, usize), DecodeError> {
    let mut out = vec![0; OUT_BYTES];
    let mut input = InBuffer::around(bytes);
    let mut output = OutBuffer::around(out.as_mut_slice());
    let result = context.decompress_stream(&mut output, &mut input);
    result.map_err(|_| DecodeError::Broken("zstd"))?;
    let (used, given) = (input.pos(), output.pos());
    out.truncate(given);
    Ok((out, used))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(codings: &[&str], bytes: &[u8], step: usize) -> Result<Vec<u8>, DecodeError> {
        let codings: Vec<String> = codings.iter().map(|c| (*c).to_owned()).collect();
        let mut decoder = Decoder::new(&codings, 200, BOMB_BYTES_MIN)?;
        let mut out = Vec::new();
        let mut sink = |piece: &[u8]| {
            out.extend_from_slice(piece);
            true
        };
        for piece in bytes.chunks(step) {
            decoder.feed(piece, &mut sink)?;
        }
        decoder.finish(&mut sink)?;
        Ok(out)
    }

    fn text() -> Vec<u8> {
        (0..20_000).flat_map(|n| format!("line {n}\n").into_bytes()).collect()
    }

    pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn zlib(bytes: &[u8]) -> Vec<u8> {
        let level = flate2::Compression::default();
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), level);
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn zstd(bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(zstd_safe::compress_bound(bytes.len()));
        zstd_safe::compress(&mut out, bytes, 3).unwrap();
        out
    }

    #[test]
    fn codings_alone_and_on_top_of_each_other() {
        let text = text();
        let raw = {
            let zlib = zlib(&text);
            zlib[2..zlib.len() - 4].to_vec()
        };
        for step in [1, 7, 1000, 1 << 20] {
            assert_eq!(decode(&[], &text, step).unwrap(), text);
            assert_eq!(decode(&["gzip"], &gzip(&text), step).unwrap(), text, "gzip {step}");
            assert_eq!(decode(&["deflate"], &zlib(&text), step).unwrap(), text, "zlib {step}");
            assert_eq!(decode(&["deflate"], &raw, step).unwrap(), text, "raw {step}");
            assert_eq!(decode(&["zstd"], &zstd(&text), step).unwrap(), text, "zstd {step}");
            let nested = gzip(&zstd(&zlib(&text)));
            let codings = ["deflate", "zstd", "gzip"];
            assert_eq!(decode(&codings, &nested, step).unwrap(), text, "nested {step}");
        }
        // Several members (RFC 1952 section 2.2).
        let members = [gzip(b"one "), gzip(b"two")].concat();
        assert_eq!(decode(&["gzip"], &members, 5).unwrap(), b"one two");
    }

    #[test]
    fn brotli() {
        // RFC 7932: a stream of uncompressed meta-blocks, and an empty last one.
        let stream = b"\x0b\x02\x80hello\x03";
        assert_eq!(decode(&["br"], stream, 1).unwrap(), b"hello");
        assert_eq!(decode(&["br"], b"\xff\xff\xff", 8), Err(DecodeError::Broken("br")));
    }

    #[test]
    fn what_is_cut_gives_what_there_is() {
        let text = text();
        for (coding, bytes) in [("gzip", gzip(&text)), ("deflate", zlib(&text))] {
            let half = decode(&[coding], &bytes[..bytes.len() / 2], 100).unwrap();
            assert!(half.len() > 10_000 && text.starts_with(&half), "{coding}: {}", half.len());
        }
    }

    #[test]
    fn bombs_are_named() {
        let zeros = vec![0; 4 << 20];
        for (codings, bytes) in [
            (&["gzip"][..], gzip(&zeros)),
            (&["deflate"], zlib(&zeros)),
            (&["zstd"], zstd(&zeros)),
            (&["gzip", "gzip"], gzip(&gzip(&zeros))),
            (&["gzip", "zstd"], zstd(&gzip(&zeros))),
        ] {
            assert_eq!(decode(codings, &bytes, 100), Err(DecodeError::Bomb), "{codings:?}");
        }
    }

    #[test]
    fn what_is_not_known_or_broken_is_named() {
        let unknown = DecodeError::Unknown("compress".to_owned());
        assert_eq!(decode(&["compress"], b"x", 1), Err(unknown));
        assert_eq!(decode(&["gzip"; 5], b"x", 1), Err(DecodeError::TooMany));
        for coding in ["gzip", "deflate", "zstd"] {
            let broken = decode(&[coding], b"<html>this is no coding at all, is it", 9);
            assert_eq!(broken, Err(DecodeError::Broken(coding)), "{coding}");
        }
    }
}
