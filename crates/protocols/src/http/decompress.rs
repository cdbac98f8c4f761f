//! Content encodings, undone in layers as bytes come. Browsers are lenient, so is this: what fails
//! is tried as another encoding, and in the end taken as it is; sums are not checked.

use brotli_decompressor::{BrotliDecompressStream, BrotliResult, BrotliState, StandardAlloc};
use flate2::{Decompress, FlushDecompress, Status};

/// Decoded bytes are handed on in pieces of this size.
const PIECE: usize = 8192;
/// So many decoded bytes wait for the end of the bytes at hand.
const PENDING_MAX: usize = 4 * PIECE;
/// How often another encoding is tried.
const RESTARTS_MAX: u8 = 3;
/// Compressed bytes of LZMA that are gathered.
const LZMA_INPUT_MAX: usize = 1024 * 1024;

/// An encoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encoding {
    Gzip,
    Deflate,
    Zlib,
    Brotli,
    Lzma,
}

/// The consumer does not want more (a bomb).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Enough;

/// Takes decoded bytes.
pub(crate) type Sink<'a> = dyn FnMut(&[u8]) -> Result<(), Enough> + 'a;

/// Layers, the outermost first.
pub(crate) struct Chain {
    layers: Vec<Layer>,
}

impl Chain {
    /// Of encodings in the order of the header field: the last was applied last.
    pub(crate) fn new(encodings: &[Encoding], lzma_bytes_max: u64) -> Self {
        let layers = encodings.iter().rev();
        Self { layers: layers.map(|encoding| Layer::new(*encoding, lzma_bytes_max)).collect() }
    }

    /// Decodes bytes.
    pub(crate) fn push(&mut self, bytes: &[u8], sink: &mut Sink<'_>) {
        let _ = push(&mut self.layers, bytes, sink);
    }

    /// No more bytes come.
    pub(crate) fn finish(&mut self, sink: &mut Sink<'_>) {
        let mut layers = self.layers.as_mut_slice();
        while let Some((layer, rest)) = layers.split_first_mut() {
            let mut out = Vec::new();
            layer.finish(&mut |bytes| {
                out.extend_from_slice(bytes);
                Ok(())
            });
            if !out.is_empty() && push(rest, &out, sink).is_err() {
                return;
            }
            layers = rest;
        }
    }
}

fn push(layers: &mut [Layer], bytes: &[u8], sink: &mut Sink<'_>) -> Result<(), Enough> {
    let Some((layer, rest)) = layers.split_first_mut() else { return sink(bytes) };
    if matches!(layer.decoder, Decoder::Plain) {
        return push(rest, bytes, sink);
    }
    let Some(plain) = layer.push(bytes, &mut |bytes| push(rest, bytes, sink))? else {
        return Ok(());
    };
    // Where one layer is none, the others are not looked for any more.
    for layer in rest.iter_mut() {
        layer.decoder = Decoder::Plain;
    }
    push(rest, plain, sink)
}

type Brotli = Box<BrotliState<StandardAlloc, StandardAlloc, StandardAlloc>>;

enum Decoder {
    Gzip(GzipHeader),
    Flate(Decompress),
    Brotli(Brotli),
    Lzma(Vec<u8>),
    /// The data is over, or broken for good: what follows is dropped.
    Over,
    /// Bytes are handed on as they are.
    Plain,
}

struct Layer {
    encoding: Encoding,
    decoder: Decoder,
    restarts: u8,
    lzma_bytes_max: u64,
}

/// What became of a piece.
enum Fate<'a> {
    Fine,
    /// The header is over, and this comes behind it.
    Header(&'a [u8]),
    Broken,
}

/// Decoded bytes that are not handed on yet.
#[derive(Default)]
struct Pending(Vec<u8>);

impl Pending {
    fn take(&mut self, bytes: &[u8], sink: &mut Sink<'_>) -> Result<(), Enough> {
        self.0.extend_from_slice(bytes);
        if self.0.len() > PENDING_MAX { self.flush(sink) } else { Ok(()) }
    }

    fn flush(&mut self, sink: &mut Sink<'_>) -> Result<(), Enough> {
        let all = std::mem::take(&mut self.0);
        all.chunks(PIECE).try_for_each(sink)
    }
}

impl Layer {
    fn new(encoding: Encoding, lzma_bytes_max: u64) -> Self {
        Self { encoding, decoder: Decoder::of(encoding), restarts: 0, lzma_bytes_max }
    }

    /// Decodes bytes; what it returns is in no encoding, and to be taken as it is.
    fn push<'a>(
        &mut self,
        bytes: &'a [u8],
        sink: &mut Sink<'_>,
    ) -> Result<Option<&'a [u8]>, Enough> {
        let mut out = Pending::default();
        let mut bytes = bytes;
        loop {
            let fate = self.decoder.push(bytes, &mut out, sink);
            let broken = match fate {
                Ok(Fate::Fine) => false,
                Ok(Fate::Header(rest)) => {
                    // What is tried next does not see the header again.
                    bytes = rest;
                    continue;
                }
                Ok(Fate::Broken) => true,
                Err(enough) => {
                    self.decoder = Decoder::Over;
                    return Err(enough);
                }
            };
            if !broken {
                return out.flush(sink).map(|()| None);
            }
            if self.restarts == 0 && !out.0.is_empty() {
                self.decoder = Decoder::Over;
                return out.flush(sink).map(|()| None);
            }
            // What another encoding made of the bytes does not count.
            out.0.clear();
            self.restart();
            if matches!(self.decoder, Decoder::Plain) {
                return Ok(Some(bytes));
            }
        }
    }

    fn restart(&mut self) {
        if self.restarts >= RESTARTS_MAX {
            self.decoder = Decoder::Plain;
            return;
        }
        self.restarts += 1;
        self.encoding = match self.encoding {
            Encoding::Gzip | Encoding::Lzma | Encoding::Brotli => Encoding::Deflate,
            Encoding::Deflate => Encoding::Zlib,
            Encoding::Zlib => Encoding::Gzip,
        };
        self.decoder = Decoder::of(self.encoding);
    }

    fn finish(&mut self, sink: &mut Sink<'_>) {
        if let Decoder::Lzma(bytes) = &self.decoder
            && let Some(bytes) = unlzma(bytes, self.lzma_bytes_max)
        {
            let _ = sink(&bytes);
        }
        self.decoder = Decoder::Over;
    }
}

impl Decoder {
    fn of(encoding: Encoding) -> Self {
        match encoding {
            Encoding::Gzip => Decoder::Gzip(GzipHeader::default()),
            Encoding::Deflate => Decoder::Flate(Decompress::new(false)),
            Encoding::Zlib => Decoder::Flate(Decompress::new(true)),
            Encoding::Brotli => Decoder::Brotli(Box::new(BrotliState::new(
                StandardAlloc::default(),
                StandardAlloc::default(),
                StandardAlloc::default(),
            ))),
            Encoding::Lzma => Decoder::Lzma(Vec::new()),
        }
    }

    fn push<'a>(
        &mut self,
        bytes: &'a [u8],
        out: &mut Pending,
        sink: &mut Sink<'_>,
    ) -> Result<Fate<'a>, Enough> {
        match self {
            Decoder::Plain => sink(bytes).map(|()| Fate::Fine),
            Decoder::Over => Ok(Fate::Fine),
            Decoder::Gzip(header) => match header.push(bytes) {
                Header::More => Ok(Fate::Fine),
                Header::Invalid => Ok(Fate::Broken),
                Header::Over(rest) => {
                    *self = Decoder::Flate(Decompress::new(false));
                    Ok(Fate::Header(rest))
                }
            },
            Decoder::Flate(inflate) => {
                let (fate, over) = inflate_piece(inflate, bytes, out, sink)?;
                if over {
                    *self = Decoder::Over;
                }
                Ok(fate)
            }
            Decoder::Brotli(state) => brotli_piece(state, bytes, out, sink),
            Decoder::Lzma(gathered) => {
                let room = LZMA_INPUT_MAX.saturating_sub(gathered.len());
                gathered.extend_from_slice(bytes.get(..room).unwrap_or(bytes));
                Ok(Fate::Fine)
            }
        }
    }
}

/// Inflates; also says whether the data is over.
fn inflate_piece(
    inflate: &mut Decompress,
    bytes: &[u8],
    out: &mut Pending,
    sink: &mut Sink<'_>,
) -> Result<(Fate<'static>, bool), Enough> {
    let (mut piece, mut rest) = ([0_u8; PIECE], bytes);
    loop {
        let (before_in, before_out) = (inflate.total_in(), inflate.total_out());
        let result = inflate.decompress(rest, &mut piece, FlushDecompress::None);
        let len = |now: u64, before: u64| usize::try_from(now - before).unwrap_or(0);
        let used = len(inflate.total_in(), before_in);
        let made = len(inflate.total_out(), before_out);
        rest = rest.get(used..).unwrap_or_default();
        out.take(piece.get(..made).unwrap_or_default(), sink)?;
        match result {
            Ok(Status::StreamEnd) => return Ok((Fate::Fine, true)),
            Ok(_) if made == 0 && (rest.is_empty() || used == 0) => return Ok((Fate::Fine, false)),
            Ok(_) => {}
            Err(_) => return Ok((Fate::Broken, false)),
        }
    }
}

fn brotli_piece(
    state: &mut Brotli,
    bytes: &[u8],
    out: &mut Pending,
    sink: &mut Sink<'_>,
) -> Result<Fate<'static>, Enough> {
    let (mut available_in, mut offset, mut total) = (bytes.len(), 0, 0);
    loop {
        let mut piece = [0_u8; PIECE];
        let (mut available_out, mut made) = (piece.len(), 0);
        let result = BrotliDecompressStream(
            &mut available_in,
            &mut offset,
            bytes,
            &mut available_out,
            &mut made,
            &mut piece,
            &mut total,
            state,
        );
        out.take(piece.get(..made).unwrap_or_default(), sink)?;
        match result {
            BrotliResult::NeedsMoreOutput => {}
            BrotliResult::ResultSuccess | BrotliResult::NeedsMoreInput => return Ok(Fate::Fine),
            BrotliResult::ResultFailure => return Ok(Fate::Broken),
        }
    }
}

/// Undoes LZMA ("alone" format), up to so many bytes.
fn unlzma(bytes: &[u8], max: u64) -> Option<Vec<u8>> {
    use std::io::Read;
    let memory = u32::try_from(max / 1024).unwrap_or(u32::MAX).saturating_add(64 * 1024);
    let reader = lzma_rust2::LzmaReader::new_mem_limit(bytes, memory, None).ok()?;
    let mut out = Vec::new();
    // What was read before an error counts.
    let _ = reader.take(max.saturating_mul(8)).read_to_end(&mut out);
    Some(out)
}

/// Why a body cannot be decoded on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failure {
    /// It is broken.
    Broken,
    /// It is larger than allowed.
    Bomb,
}

/// One layer that is not lenient: of what is broken nothing counts.
pub(crate) struct Single(Decoder);

impl Single {
    pub(crate) fn new(encoding: Encoding) -> Self {
        Self(Decoder::of(encoding))
    }

    /// Decodes bytes, to at most `max`.
    pub(crate) fn decode(&mut self, bytes: &[u8], max: u64) -> Result<Vec<u8>, Failure> {
        let mut all: Vec<u8> = Vec::new();
        let mut out = Pending::default();
        let mut sink = |piece: &[u8]| {
            all.extend_from_slice(piece);
            if all.len() as u64 > max { Err(Enough) } else { Ok(()) }
        };
        let mut bytes = bytes;
        let fate = loop {
            match self.0.push(bytes, &mut out, &mut sink) {
                Ok(Fate::Header(rest)) => bytes = rest,
                fate => break fate,
            }
        };
        let flushed = out.flush(&mut sink);
        match (fate, flushed) {
            (Ok(Fate::Fine | Fate::Header(_)), Ok(())) => Ok(all),
            (Ok(Fate::Broken), _) => Err(Failure::Broken),
            (Err(Enough), _) | (_, Err(Enough)) => Err(Failure::Bomb),
        }
    }
}

/// What a gzip header's bytes say.
enum Header<'a> {
    More,
    Invalid,
    /// The compressed data begins here.
    Over(&'a [u8]),
}

/// Reads the header of gzip (RFC 1952) without checking more than its first bytes.
#[derive(Default)]
struct GzipHeader {
    at: GzipAt,
    start: Vec<u8>,
    flags: u8,
    left: usize,
}

#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum GzipAt {
    #[default]
    Start,
    ExtraLen,
    Extra,
    Name,
    Comment,
    Sum,
}

impl GzipHeader {
    const FIXED: usize = 10;
    const SUM: u8 = 2;
    const EXTRA: u8 = 4;
    const NAME: u8 = 8;
    const COMMENT: u8 = 16;

    fn push<'a>(&mut self, bytes: &'a [u8]) -> Header<'a> {
        let mut rest = bytes;
        while let Some((&byte, after)) = rest.split_first() {
            // A number of two bytes is not put together of two pieces: Suricata loses the first.
            let is_number = matches!(self.at, GzipAt::ExtraLen | GzipAt::Sum);
            if is_number && self.left == 2 && after.is_empty() {
                return Header::More;
            }
            match self.at {
                GzipAt::Start => {
                    self.start.push(byte);
                    if !b"\x1f\x8b\x08".starts_with(self.start.get(..3).unwrap_or(&self.start)) {
                        return Header::Invalid;
                    }
                    if self.start.len() == Self::FIXED {
                        self.flags = self.start.get(3).copied().unwrap_or_default();
                        self.left = 2;
                        self.next(GzipAt::ExtraLen);
                    }
                }
                GzipAt::ExtraLen => {
                    self.left -= 1;
                    self.start.push(byte);
                    if self.left == 0 {
                        let len = self.start.get(Self::FIXED..).unwrap_or_default();
                        self.left = match len {
                            [low, high] => usize::from(u16::from_le_bytes([*low, *high])),
                            _ => 0,
                        };
                        let next = if self.left == 0 { GzipAt::Name } else { GzipAt::Extra };
                        self.next(next);
                    }
                }
                GzipAt::Extra => {
                    self.left -= 1;
                    if self.left == 0 {
                        self.next(GzipAt::Name);
                    }
                }
                GzipAt::Name if byte == 0 => self.next(GzipAt::Comment),
                GzipAt::Comment if byte == 0 => self.next(GzipAt::Sum),
                GzipAt::Name | GzipAt::Comment => {}
                GzipAt::Sum => self.left -= 1,
            }
            rest = after;
            if self.at == GzipAt::Sum && self.left == 0 {
                return Header::Over(rest);
            }
        }
        Header::More
    }

    /// Goes on with this part, or the next one that is there.
    fn next(&mut self, at: GzipAt) {
        self.at = at;
        if self.at == GzipAt::ExtraLen && self.flags & Self::EXTRA == 0 {
            self.at = GzipAt::Name;
        }
        if self.at == GzipAt::Name && self.flags & Self::NAME == 0 {
            self.at = GzipAt::Comment;
        }
        if self.at == GzipAt::Comment && self.flags & Self::COMMENT == 0 {
            self.at = GzipAt::Sum;
        }
        if self.at == GzipAt::Sum {
            self.left = if self.flags & Self::SUM == 0 { 0 } else { 2 };
        }
    }
}
