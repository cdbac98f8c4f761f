//! The bytes of a capture file, unpacked on the way.

use std::io::{self, BufReader, Cursor, ErrorKind, Read};

use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::StreamingDecoder;

/// Files are read in pieces of this many bytes.
const BUFFER_BYTES: usize = 256 << 10;
/// Frames of zstd are read one after the other, at most this many of a file.
const ZSTD_FRAMES_MAX: usize = 1 << 20;

type Source = Box<dyn Read + Send>;

/// A reader that knows how to read whole records.
pub(super) struct Input {
    reader: Source,
    compressed: bool,
}

impl Input {
    /// Looks at the first bytes to see whether the file is compressed.
    pub(super) fn open(mut reader: impl Read + Send + 'static) -> io::Result<Self> {
        let mut magic = [0; 4];
        let read = fill(&mut reader, &mut magic)?;
        let head = Cursor::new(magic.get(..read).unwrap_or_default().to_vec());
        let whole: Source = Box::new(head.chain(reader));
        let buffered = BufReader::with_capacity(BUFFER_BYTES, whole);
        Ok(match magic {
            [0x1f, 0x8b, ..] => {
                let unpacked = MultiGzDecoder::new(buffered);
                Self {
                    reader: Box::new(BufReader::with_capacity(BUFFER_BYTES, unpacked)),
                    compressed: true,
                }
            }
            [0x28, 0xb5, 0x2f, 0xfd] => {
                let unpacked = Zstd { source: Some(State::Between(buffered)), frames: 0 };
                Self {
                    reader: Box::new(BufReader::with_capacity(BUFFER_BYTES, unpacked)),
                    compressed: true,
                }
            }
            _ => Self { reader: Box::new(buffered), compressed: false },
        })
    }

    pub(super) fn is_compressed(&self) -> bool {
        self.compressed
    }

    /// Reads until the buffer is full or the file ends; how much was read.
    pub(super) fn fill(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        fill(&mut self.reader, buffer)
    }

    /// Reads and forgets so many bytes; whether there were as many.
    pub(super) fn skip(&mut self, bytes: u64) -> io::Result<bool> {
        if bytes == 0 {
            return Ok(true);
        }
        let mut part = (&mut self.reader).take(bytes);
        Ok(io::copy(&mut part, &mut io::sink())? == bytes)
    }
}

fn fill(reader: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut at = 0;
    while let Some(rest) = buffer.get_mut(at..).filter(|rest| !rest.is_empty()) {
        match reader.read(rest) {
            Ok(0) => break,
            Ok(read) => at += read,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(at)
}

type Buffered = BufReader<Source>;
type Decoder = StreamingDecoder<Buffered, ruzstd::decoding::FrameDecoder>;

enum State {
    Between(Buffered),
    Within(Box<Decoder>),
}

/// All frames of a zstd file, one after the other.
struct Zstd {
    source: Option<State>,
    frames: usize,
}

impl Read for Zstd {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.source.take() {
                None => return Ok(0),
                Some(State::Between(mut source)) => {
                    if io::BufRead::fill_buf(&mut source)?.is_empty()
                        || self.frames >= ZSTD_FRAMES_MAX
                    {
                        return Ok(0);
                    }
                    self.frames += 1;
                    let decoder = StreamingDecoder::new(source).map_err(io::Error::other)?;
                    self.source = Some(State::Within(Box::new(decoder)));
                }
                Some(State::Within(mut decoder)) => {
                    let read = decoder.read(buffer)?;
                    self.source = Some(if read == 0 && !buffer.is_empty() {
                        State::Between(decoder.into_inner())
                    } else {
                        State::Within(decoder)
                    });
                    if read > 0 || buffer.is_empty() {
                        return Ok(read);
                    }
                }
            }
        }
    }
}
