//! Reading packs, as far as it is needed: of many a search needs the directory alone, of others one
//! message.

use std::fmt;
use std::ops::Range;

use gauntlet_store::log::{Cursor, LoggedMessage};
use gauntlet_store::record::{Event, LogRecord};
use serde::Deserialize;
use zstd_safe::{DCtx, InBuffer, OutBuffer, ResetDirective};

use super::{COLUMNS, RECORDS, columns, newer, take_number};
use crate::error::ArrayError;

/// Most bytes that a pack may unfold to: more is damage.
const UNPACKED_BYTES_MAX: usize = 256 << 20;
/// So much is unfolded for a directory that is no block by itself: a block of Zstandard is no
/// longer.
const DIRECTORY_BYTES: usize = 128 << 10;
/// So much is unfolded in one step, at least.
const STEP_BYTES: usize = 64 << 10;
/// And at most so many times what is left to read: records are pressed to a tenth or so.
const RATIO_MAX: usize = 32;

#[derive(Deserialize)]
struct Stored {
    record: LogRecord,
    #[serde(default)]
    events: Vec<Event>,
}

/// What unfolds packs, one after the other: to make one takes longer than to unfold a directory.
pub struct Decoder {
    context: DCtx<'static>,
    /// Where the pack before was unfolded: the kernel clears what is allocated anew.
    room: Vec<u8>,
}

impl Default for Decoder {
    fn default() -> Self {
        Decoder { context: DCtx::create(), room: Vec::new() }
    }
}

impl Decoder {
    /// Makes it ready for another frame.
    fn reset(&mut self) -> Result<(), ArrayError> {
        let reset = self.context.reset(ResetDirective::SessionOnly);
        reset.map(drop).map_err(|code| damaged(zstd_safe::get_error_name(code)))
    }
}

impl fmt::Debug for Decoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decoder").finish_non_exhaustive()
    }
}

/// A pack, unfolded as far as it is read.
pub struct Unpacked<'b> {
    format: u8,
    frame: &'b [u8],
    /// Bytes that the frame unfolds to.
    bytes: usize,
    /// Bytes of the frame that are unfolded.
    read: usize,
    decoder: Decoder,
    /// What is unfolded; of columns, once two messages were read: directory and records.
    plain: Vec<u8>,
    /// A message of columns was read.
    is_asked: bool,
    is_joined: bool,
    messages: Vec<Packed>,
}

impl fmt::Debug for Unpacked<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (messages, unfolded) = (self.messages.len(), self.plain.len());
        f.debug_struct("Unpacked")
            .field("messages", &messages)
            .field("unfolded", &unfolded)
            .finish_non_exhaustive()
    }
}

/// One message of a pack.
#[derive(Debug)]
struct Packed {
    cursor: i64,
    /// Bytes of the places of its terms in the pack's list.
    terms: Range<usize>,
    /// Bytes of its record.
    record: Range<usize>,
}

impl<'b> Unpacked<'b> {
    /// Opens the body of a pack and reads its directory.
    ///
    /// # Errors
    /// If it is damaged, or of a format that a newer program made.
    pub fn new(body: &'b [u8]) -> Result<Self, ArrayError> {
        Self::with(body, Decoder::default())
    }

    /// The same with a decoder of an earlier pack.
    ///
    /// # Errors
    /// As [`Unpacked::new`].
    pub fn with(body: &'b [u8], decoder: Decoder) -> Result<Self, ArrayError> {
        let mut unpacked = Self::begin(body, decoder)?;
        if unpacked.read_directory() {
            return Ok(unpacked);
        }
        let (mut wanted, bytes) = (DIRECTORY_BYTES, unpacked.bytes);
        loop {
            unpacked.unfold(wanted.min(bytes))?;
            match unpacked.read_directory() {
                true => return Ok(unpacked),
                false if wanted < bytes => wanted = wanted.saturating_mul(2),
                false => return Err(damaged("its directory is cut short")),
            }
        }
    }

    /// Opens the start of a body, whose directory can be asked then, though its messages are not
    /// there. None if the directory goes on behind this start ([`start_bytes`]).
    ///
    /// # Errors
    /// As [`Unpacked::new`].
    pub fn of_start(start: &'b [u8], decoder: Decoder) -> Result<Option<Self>, ArrayError> {
        let mut unpacked = Self::begin(start, decoder)?;
        Ok(unpacked.read_directory().then_some(unpacked))
    }

    /// Unfolds the first block, which is the directory, and in packs of older programs some records
    /// more.
    fn begin(body: &'b [u8], mut decoder: Decoder) -> Result<Self, ArrayError> {
        let (format, frame, bytes) = frame_of(body)?;
        decoder.reset()?;
        let mut plain = std::mem::take(&mut decoder.room);
        plain.clear();
        let mut unpacked = Unpacked {
            format,
            frame,
            bytes,
            read: 0,
            decoder,
            plain,
            is_asked: false,
            is_joined: false,
            messages: Vec::new(),
        };
        let end = first_block_end(frame).unwrap_or(frame.len()).min(frame.len());
        unpacked.unfold_until(bytes.min(DIRECTORY_BYTES), end)?;
        Ok(unpacked)
    }

    /// Reads the directory from what is unfolded; false if that has not all of it.
    fn read_directory(&mut self) -> bool {
        let most = if self.format == COLUMNS { UNPACKED_BYTES_MAX } else { self.bytes };
        let read = directory(&self.plain, most);
        let is_read = read.is_some();
        self.messages = read.unwrap_or_default();
        is_read
    }

    /// Bytes of all records once they are joined.
    fn records(&self) -> Range<usize> {
        let start = self.messages.first().map_or(0, |message| message.record.start);
        start..self.messages.last().map_or(start, |message| message.record.end)
    }

    /// Makes one record of the columns.
    fn join_one(&mut self, record: &Range<usize>) -> Result<Vec<u8>, ArrayError> {
        self.unfold(self.bytes)?;
        let start = self.records().start;
        let columns = self.plain.get(start..).unwrap_or_default();
        let record = record.start.saturating_sub(start)..record.end.saturating_sub(start);
        columns::join_one(columns, record).ok_or_else(no_fit)
    }

    /// Makes records of the columns.
    fn join(&mut self) -> Result<(), ArrayError> {
        self.unfold(self.bytes)?;
        let (start, bytes) = (self.records().start, self.records().len());
        let columns = self.plain.get(start..).unwrap_or_default();
        let records = columns::join(columns, bytes).ok_or_else(no_fit)?;
        self.plain.truncate(start);
        self.plain.extend_from_slice(&records);
        self.is_joined = true;
        Ok(())
    }

    /// Unfolds the first `wanted` bytes, if they are not there yet.
    fn unfold(&mut self, wanted: usize) -> Result<(), ArrayError> {
        if wanted == self.bytes && self.read * 2 < self.frame.len() {
            // What has room for the whole frame from its start is unfolded there, and not in a
            // buffer first that is copied.
            self.decoder.reset()?;
            self.plain.clear();
            self.read = 0;
        }
        self.unfold_until(wanted, self.frame.len())?;
        match self.plain.len() < wanted {
            true => Err(damaged("it ends too early")),
            false => Ok(()),
        }
    }

    /// Unfolds `wanted` bytes, or a few more, from the first `end` bytes of the frame.
    fn unfold_until(&mut self, wanted: usize, end: usize) -> Result<(), ArrayError> {
        loop {
            let filled = self.plain.len();
            if filled >= wanted {
                return Ok(());
            }
            // A damaged pack may claim more than it has. It is not zeroed before, which was a sixth
            // of a search.
            let likely = RATIO_MAX * self.frame.len().saturating_sub(self.read);
            self.plain.reserve((wanted - filled).min(likely.max(STEP_BYTES)));
            let mut output = OutBuffer::around_pos(&mut self.plain, filled);
            let mut input = InBuffer::around(self.frame.get(self.read..end).unwrap_or_default());
            let done = self.decoder.context.decompress_stream(&mut output, &mut input);
            let (made, taken) = (output.pos() - filled, input.pos());
            self.read += taken;
            match done {
                Err(code) => return Err(damaged(zstd_safe::get_error_name(code))),
                Ok(_) if made == 0 && taken == 0 => return Ok(()),
                Ok(_) => {}
            }
        }
    }

    /// Places of messages that have, for each of these lists, at least one of the keys, newest
    /// first. `terms` are those of the pack's row.
    pub fn find(&self, terms: &[i32], required: &[Vec<i32>]) -> Vec<usize> {
        let place = |key: &i32| terms.binary_search(key).ok();
        let lists: Vec<Vec<usize>> =
            required.iter().map(|any| any.iter().filter_map(place).collect()).collect();
        self.find_at(&lists)
    }

    /// The same by the places of the keys in the pack's list of terms.
    pub fn find_at(&self, lists: &[Vec<usize>]) -> Vec<usize> {
        let mut wanted: Vec<(usize, u64)> = Vec::new();
        // More lists than bits are not told apart: who asks compares what is found.
        for (list, bit) in lists.iter().zip((0..64).map(|n| 1_u64 << n)) {
            wanted.extend(list.iter().map(|place| (*place, bit)));
        }
        wanted.sort_unstable();
        let all = u64::MAX.checked_shr(64_u32.saturating_sub(lists.len() as u32)).unwrap_or(0);
        let mut found: Vec<usize> = Vec::new();
        for (at, message) in self.messages.iter().enumerate() {
            let terms = self.plain.get(message.terms.clone()).unwrap_or_default();
            if has_all(terms, &wanted, all) {
                found.push(at);
            }
        }
        found.sort_by_key(|&at| std::cmp::Reverse(self.messages.get(at).map(|m| m.cursor)));
        found
    }

    /// The cursor of the message at this place.
    pub fn cursor(&self, place: usize) -> Option<i64> {
        self.messages.get(place).map(|m| m.cursor)
    }

    /// The decoder, for the next pack.
    pub fn into_decoder(self) -> Decoder {
        Decoder { room: self.plain, ..self.decoder }
    }

    /// The message at this place; what a newer program wrote as far as it is understood.
    ///
    /// # Errors
    /// If it is damaged, or only the start of the pack is there.
    pub fn message(&mut self, place: usize) -> Result<LoggedMessage, ArrayError> {
        let packed = self.messages.get(place).ok_or_else(|| damaged("a message is missing"))?;
        let (cursor, record) = (Cursor(packed.cursor), packed.record.clone());
        match self.format {
            // Most searches want one message of a pack: the others are passed over, not made.
            COLUMNS if !self.is_asked => {
                self.is_asked = true;
                return decoded(cursor, &self.join_one(&record)?);
            }
            COLUMNS if !self.is_joined => self.join()?,
            COLUMNS => {}
            _ => self.unfold(record.end)?,
        }
        decoded(cursor, self.plain.get(record).unwrap_or_default())
    }
}

fn decoded(cursor: Cursor, record: &[u8]) -> Result<LoggedMessage, ArrayError> {
    let (record, events) = match rmp_serde::from_slice(record) {
        Ok(Stored { record, events }) => (record, events),
        Err(error) => newer::read(record).ok_or_else(|| damaged(&error.to_string()))?,
    };
    Ok(LoggedMessage { cursor, record, events, node: String::new() })
}

fn no_fit() -> ArrayError {
    damaged("its columns do not fit its directory")
}

fn damaged(cause: &str) -> ArrayError {
    ArrayError::Damaged { what: "a pack of the array's log".to_owned(), cause: cause.to_owned() }
}

/// The format of a body, its frame, and the number of bytes that this unfolds to.
fn frame_of(body: &[u8]) -> Result<(u8, &[u8], usize), ArrayError> {
    let (&format, frame) = body.split_first().ok_or_else(|| damaged("it is empty"))?;
    if ![RECORDS, COLUMNS].contains(&format) {
        return Err(damaged(&format!("format {format} is of a newer program")));
    }
    let length = zstd_safe::get_frame_content_size(frame).map_err(|_| damaged("no frame"))?;
    let length = length.and_then(|n| usize::try_from(n).ok()).unwrap_or(usize::MAX);
    match length > UNPACKED_BYTES_MAX {
        true => Err(damaged(&format!("it claims {length} bytes"))),
        false => Ok((format, frame, length)),
    }
}

/// So many of a body's first bytes have its first block, and with it the directory, unless that is
/// longer than a block. None if this start does not tell yet, or is none of a pack.
pub fn start_bytes(start: &[u8]) -> Option<usize> {
    Some(first_block_end(start.get(1..)?)? + 1)
}

/// Where the first block of a frame ends (RFC 8878, 3.1.1).
fn first_block_end(frame: &[u8]) -> Option<usize> {
    const RUN: u32 = 1;
    let descriptor = *frame.get(4)?;
    let is_single = descriptor & 0x20 != 0;
    let size_bytes = match descriptor >> 6 {
        0 => usize::from(is_single),
        code => 1 << code,
    };
    let dictionary_bytes = [0, 1, 2, 4].get(usize::from(descriptor & 3))?;
    let header = 5 + usize::from(!is_single) + dictionary_bytes + size_bytes;
    let [a, b, c] = *frame.get(header..)?.first_chunk::<3>()?;
    let block = u32::from_le_bytes([a, b, c, 0]);
    let bytes = if (block >> 1) & 3 == RUN { 1 } else { usize::try_from(block >> 3).ok()? };
    Some(header + 3 + bytes)
}

/// Whether these terms (ascending places in the pack's list, each as the distance from the one
/// before) have a place of each list: `wanted` has the places, ascending, with the bits of their
/// lists. One loop over bytes, since a search does this to a hundred thousand messages.
fn has_all(terms: &[u8], wanted: &[(usize, u64)], all: u64) -> bool {
    let (mut seen, mut next, mut place) = (0, 0, 0_usize);
    let (mut number, mut shift) = (0_usize, 0);
    if all == 0 {
        return true;
    }
    for &byte in terms {
        number |= usize::from(byte & 0x7f) << shift;
        if byte >= 0x80 {
            shift += 7;
            if shift > 56 {
                return false;
            }
            continue;
        }
        place = place.saturating_add(number);
        (number, shift) = (0, 0);
        while let Some(&(at, list)) = wanted.get(next)
            && at <= place
        {
            if at == place {
                seen |= list;
            }
            next += 1;
        }
        if seen == all || next >= wanted.len() {
            break;
        }
    }
    seen == all
}

/// What follows so many numbers.
fn skip_numbers(bytes: &[u8], mut count: usize) -> Option<&[u8]> {
    let mut rest = bytes;
    while count > 0 {
        let (&byte, after) = rest.split_first()?;
        rest = after;
        count -= usize::from(byte < 0x80);
    }
    Some(rest)
}

/// The messages of a pack of `bytes` bytes, of which the first are known; none if the directory is
/// longer than those, or wrong.
fn directory(known: &[u8], bytes: usize) -> Option<Vec<Packed>> {
    let mut rest = known;
    let at = |rest: &[u8]| known.len() - rest.len();
    let mut lengths = Vec::new();
    let mut messages = Vec::new();
    for _ in 0..take_number(&mut rest)? {
        let (cursor, after) = rest.split_first_chunk::<8>()?;
        rest = after;
        let terms = take_number(&mut rest)?;
        let start = at(rest);
        rest = skip_numbers(rest, terms)?;
        let terms = start..at(rest);
        lengths.push(take_number(&mut rest)?);
        messages.push(Packed { cursor: i64::from_le_bytes(*cursor), terms, record: 0..0 });
    }
    let mut start = at(rest);
    for (message, length) in messages.iter_mut().zip(lengths) {
        let end = start.checked_add(length).filter(|end| *end <= bytes)?;
        message.record = start..end;
        start = end;
    }
    Some(messages)
}
