//! What a decoder has decoded before a fault. Decoders fill a buffer and, where the stream is
//! damaged, answer with an error alone: what they have written by then is lost, up to a buffer, and
//! of a small file all of it. Programs that write as they decode show it to a recipient.
//!
//! A decoder that fails is made anew, passes over what was given, and goes on in single bytes to
//! the fault. That costs a second decoding of the stream, and only of a stream that is damaged.

use std::io::{self, ErrorKind, Read};

/// Bytes of one reading of what was given before.
const CHUNK_BYTES: usize = 64 * 1024;

/// A decoder of a stream that may be damaged.
pub(crate) struct Salvage<R, F> {
    reader: R,
    /// Makes the decoder anew, at the beginning of the stream.
    again: F,
    /// Bytes given so far.
    given: u64,
    /// The decoder was made anew.
    is_careful: bool,
    /// The fault, when all before it was given.
    fault: Option<io::Error>,
}

impl<R: Read, F: Fn() -> Option<R>> Salvage<R, F> {
    /// `reader` at the beginning of its stream; `again` makes another one like it.
    pub(crate) fn new(reader: R, again: F) -> Self {
        Salvage { reader, again, given: 0, is_careful: false, fault: None }
    }

    /// A decoder that is known to fail somewhere: it is read in single bytes from here on.
    pub(crate) fn careful(reader: R, again: F) -> Self {
        Salvage { is_careful: true, ..Salvage::new(reader, again) }
    }

    /// The decoder as it stands.
    pub(crate) fn into_inner(self) -> R {
        self.reader
    }

    /// The decoder as it stands.
    pub(crate) fn inner(&self) -> &R {
        &self.reader
    }

    /// A new decoder behind what was given; false if it does not come so far.
    fn begin_again(&mut self) -> bool {
        let Some(mut reader) = (self.again)() else { return false };
        if pass(&mut reader, self.given).is_err() {
            return false;
        }
        (self.reader, self.is_careful) = (reader, true);
        true
    }

    /// Single bytes, until the decoder fails.
    fn bytes(&mut self, out: &mut [u8]) -> usize {
        let mut count = 0;
        while let Some(place) = out.get_mut(count) {
            let mut byte = [0];
            match self.reader.read(&mut byte) {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => {
                    self.fault = Some(error);
                    // Checks behind a block fail when its last byte is written already.
                    if byte == [0] {
                        break;
                    }
                }
            }
            *place = byte[0];
            count += 1;
            if self.fault.is_some() {
                break;
            }
        }
        count
    }
}

/// Reads so many bytes and drops them.
pub(crate) fn pass(reader: &mut dyn Read, bytes: u64) -> io::Result<()> {
    let mut left = bytes;
    let mut chunk = vec![0; CHUNK_BYTES.min(usize::try_from(bytes).unwrap_or(CHUNK_BYTES))];
    while left > 0 {
        let wanted = usize::try_from(left).unwrap_or(usize::MAX).min(chunk.len());
        match reader.read(&mut chunk[..wanted]) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(read) => left = left.saturating_sub(read as u64),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

impl<R: Read, F: Fn() -> Option<R>> Read for Salvage<R, F> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if let Some(fault) = self.fault.take() {
            return Err(fault);
        }
        if !self.is_careful {
            match self.reader.read(out) {
                Ok(read) => {
                    self.given += read as u64;
                    return Ok(read);
                }
                // Neither is a fault of the stream.
                Err(error)
                    if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::OutOfMemory) =>
                {
                    return Err(error);
                }
                Err(error) => {
                    if !self.begin_again() {
                        return Err(error);
                    }
                }
            }
        }
        let count = self.bytes(out);
        match self.fault.take() {
            Some(fault) if count == 0 => Err(fault),
            fault => {
                self.fault = fault;
                Ok(count)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives bytes as they are asked for; a buffer that reaches the fault is lost.
    struct Greedy<'b> {
        bytes: &'b [u8],
    }

    impl Read for Greedy<'_> {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            let Some((some, rest)) = self.bytes.split_at_checked(out.len()) else {
                return Err(io::Error::other("damaged"));
            };
            out.copy_from_slice(some);
            self.bytes = rest;
            Ok(some.len())
        }
    }

    #[test]
    fn what_stands_before_a_fault_is_given_and_then_the_fault() {
        let bytes: Vec<u8> = (1..=255).cycle().take(1_000).collect();
        for size in [1, 7, 300, 999, 1_000, 1_001, 5_000] {
            let make = || Greedy { bytes: &bytes };
            let mut reader = Salvage::new(make(), || Some(make()));
            let (mut all, mut chunk) = (Vec::new(), vec![0; size]);
            let error = loop {
                match reader.read(&mut chunk) {
                    Ok(read) => all.extend_from_slice(&chunk[..read]),
                    Err(error) => break error,
                }
            };
            assert!(all == bytes && error.to_string() == "damaged", "{size}");
        }
    }

    #[test]
    fn a_decoder_that_cannot_be_made_anew_fails_as_it_did() {
        let mut reader = Salvage::new(Greedy { bytes: b"abc" }, || None);
        assert!(reader.read(&mut [0; 8]).is_err());
        assert_eq!(reader.into_inner().bytes, b"abc");
    }
}
