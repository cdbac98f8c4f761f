//! The bytes of a capture file, unpacked on the way.

use std::io::{self, BufRead, BufReader, Cursor, ErrorKind, Read};
use std::sync::Arc;

use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::StreamingDecoder;

/// Files are read in pieces of this many bytes.
const BUFFER_BYTES: usize = 256 << 10;
/// Frames of zstd are read one after the other, at most this many of a file.
const ZSTD_FRAMES_MAX: usize = 1 << 20;

type Source = Box<dyn Read + Send>;

/// A reader that knows how to read whole records.
pub(super) struct Input {
    reader: BufReader<Source>,
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
        let unpacked: Source = match magic {
            [0x1f, 0x8b, ..] => Box::new(MultiGzDecoder::new(buffered)),
            [0x28, 0xb5, 0x2f, 0xfd] => {
                Box::new(Zstd { source: Some(State::Between(buffered)), frames: 0 })
            }
            _ => return Ok(Self { reader: buffered, compressed: false }),
        };
        let reader = BufReader::with_capacity(BUFFER_BYTES, unpacked);
        Ok(Self { reader, compressed: true })
    }

    pub(super) fn is_compressed(&self) -> bool {
        self.compressed
    }

    /// Reads until the buffer is full or the file ends; how much was read.
    pub(super) fn fill(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        fill(&mut self.reader, buffer)
    }

    /// Reads so many bytes, which are at most [`super::FRAME_BYTES_MAX`]; none if the file ends
    /// before. `room` is working memory.
    pub(super) fn take(&mut self, len: usize, room: &mut Vec<u8>) -> io::Result<Option<Arc<[u8]>>> {
        // As a rule all are in the reader's buffer, and copied once.
        if let Some(bytes) = self.reader.buffer().get(..len) {
            let bytes = Arc::from(bytes);
            self.reader.consume(len);
            return Ok(Some(bytes));
        }
        if room.len() < len {
            room.resize(len, 0);
        }
        let bytes = room.get_mut(..len).unwrap_or_default();
        Ok(if self.fill(bytes)? < len { None } else { Some(Arc::from(&*bytes)) })
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
