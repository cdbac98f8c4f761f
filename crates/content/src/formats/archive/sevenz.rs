//! 7z (7zFormat.txt of the LZMA SDK), by the crate `sevenz-rust2`.

use std::io::{self, Cursor, ErrorKind, Read};

use sevenz_rust2::{Archive, Block, BlockDecoder, EncoderMethod, Error, Password};

use crate::formats::numbers::{u32_at, u64_at};
use crate::host::Child;
use crate::object::{DefectKind, PropertyKind};
use crate::salvage::{self, Salvage};
use crate::unpack::Unpacker;

/// How the first file of an archive in several ends its name.
const FIRST_VOLUME: &str = ".001";

/// Adds every file of the archive. One with encrypted headers has no names without its password.
pub(super) fn decode(bytes: &[u8], unpacker: &mut Unpacker<'_>) {
    // Headers stand at the end, which the start names: in another file of several, or cut off.
    if end(bytes, 0).is_some_and(|end| end > bytes.len()) {
        let is_first = |name: &str| name.ends_with(FIRST_VOLUME);
        if unpacker.current().is_some_and(|object| is_first(&object.name)) {
            unpacker.property(PropertyKind::Volume, "");
            return unpacker.defect(DefectKind::MissingVolume, "");
        }
        return unpacker.defect(DefectKind::Truncated, "no headers at the end");
    }
    match Archive::read(&mut Cursor::new(bytes), &Password::empty()) {
        Ok(archive) => match archive.blocks.iter().position(is_encrypted) {
            None => extract(bytes, &archive, Some(&Password::empty()), unpacker),
            Some(closed) => {
                let password = unpacker.with_password(|text| {
                    let password = Password::from(text);
                    works(bytes, &archive, closed, &password).then_some(password)
                });
                extract(bytes, &archive, password.as_ref(), unpacker);
            }
        },
        Err(Error::PasswordRequired | Error::MaybeBadPassword(_)) => open(bytes, unpacker),
        Err(error) => failed(&error, unpacker),
    }
}

/// Where an archive ends that begins at this place: its start header says so, and by its checksum
/// that it is one (7zFormat.txt).
pub(in crate::formats) fn end(bytes: &[u8], at: usize) -> Option<usize> {
    let header = bytes.get(at + 12..at + 32)?;
    if crc32fast::hash(header) != u32_at(bytes, at + 8)? {
        return None;
    }
    let (offset, size) = (u64_at(header, 0)?, u64_at(header, 8)?);
    let end = offset.checked_add(size)?.checked_add(32 + at as u64)?;
    Some(usize::try_from(end).unwrap_or(usize::MAX))
}

/// What is wrong, in words.
fn why(error: &Error) -> String {
    match error {
        Error::ChecksumVerificationFailed => "a checksum is wrong".to_owned(),
        Error::NextHeaderCrcMismatch => "the checksum of the headers is wrong".to_owned(),
        Error::Io(error, _) | Error::MaybeBadPassword(error) => error.to_string(),
        Error::Other(why) | Error::Unsupported(why) => why.to_string(),
        Error::UnsupportedCompressionMethod(method) => format!("method {method}"),
        Error::MaxMemLimited { .. } => "a dictionary over the limit".to_owned(),
        _ => "the headers".to_owned(),
    }
}

/// Notes why an archive, or the rest of it, is not read.
fn failed(error: &Error, unpacker: &mut Unpacker<'_>) {
    let memory = ErrorKind::OutOfMemory;
    let kind = match error {
        Error::UnsupportedCompressionMethod(_) => DefectKind::Unsupported,
        Error::MaxMemLimited { .. } => DefectKind::TooMuchMemory,
        Error::Io(error, _) if error.kind() == memory => DefectKind::TooMuchMemory,
        // One of several blocks, whose files are not the first.
        Error::PasswordRequired | Error::MaybeBadPassword(_) => DefectKind::Encrypted,
        Error::Io(error, _) if error.kind() == ErrorKind::UnexpectedEof => DefectKind::Truncated,
        _ => DefectKind::Corrupt,
    };
    unpacker.defect(kind, &why(error));
}

/// The block cannot be read without a password. Each has its own coders, so that others of the
/// archive may be clear.
fn is_encrypted(block: &Block) -> bool {
    block.coders.iter().any(|c| c.encoder_method_id() == EncoderMethod::ID_AES256_SHA256)
}

/// Reads a little of the first file of a block that has bytes.
fn works(bytes: &[u8], archive: &Archive, block: usize, password: &Password) -> bool {
    let mut source = Cursor::new(bytes);
    let decoder = BlockDecoder::new(1, block, archive, password, &mut source);
    let read = decoder.for_each_entries(&mut |entry, file| {
        // Small files are read whole: their checksum tells a wrong password.
        let mut some = Vec::new();
        file.take(entry.size().min(1 << 16) + 1).read_to_end(&mut some)?;
        Ok(some.is_empty())
    });
    read.is_ok()
}

/// Tries the passwords on an archive whose headers are encrypted.
fn open(bytes: &[u8], unpacker: &mut Unpacker<'_>) {
    let opened = unpacker.with_password(|text| {
        let password = Password::from(text);
        let archive = Archive::read(&mut Cursor::new(bytes), &password).ok()?;
        let closed = archive.blocks.iter().position(is_encrypted);
        closed.is_none_or(|block| works(bytes, &archive, block, &password)).then_some(())?;
        Some((archive, password))
    });
    match opened {
        Some((archive, password)) => extract(bytes, &archive, Some(&password), unpacker),
        None => unpacker.defect(DefectKind::Encrypted, ""),
    }
}

/// Adds the files of every block. Without a password what is encrypted is a defect, its names
/// objects without bytes.
fn extract(
    bytes: &[u8],
    archive: &Archive,
    password: Option<&Password>,
    unpacker: &mut Unpacker<'_>,
) {
    if password.is_none() {
        unpacker.defect(DefectKind::Encrypted, "");
    }
    let (none, mut source) = (Password::empty(), Cursor::new(bytes));
    for (index, block) in archive.blocks.iter().enumerate() {
        let known = password.unwrap_or(&none);
        let decoder = BlockDecoder::new(1, index, archive, known, &mut source);
        if password.is_none() && is_encrypted(block) {
            let first = archive.stream_map.block_first_file_index.get(index).copied();
            let files = archive.files.iter().skip(first.unwrap_or(usize::MAX));
            for file in files.take(decoder.entry_count()) {
                if unpacker.is_over() {
                    return;
                }
                unpacker.child(Child::named(file.name()), b"");
            }
        } else if let Err(error) = extract_block(bytes, (archive, index), known, unpacker) {
            failed(&error, unpacker);
        }
        if unpacker.is_over() {
            return;
        }
    }
    for file in archive.files.iter().filter(|file| !file.has_stream() && !file.is_directory()) {
        if unpacker.is_over() {
            return;
        }
        if !file.is_anti_item() {
            unpacker.child(Child::named(file.name()), b"");
        }
    }
}

/// Adds the files of a block. Of the one at which its stream is damaged, what stands before the
/// fault is added; those behind it cannot be read.
fn extract_block(
    bytes: &[u8],
    (archive, index): (&Archive, usize),
    password: &Password,
    unpacker: &mut Unpacker<'_>,
) -> Result<(), Error> {
    let packed = bytes.len() as u64;
    let mut source = Cursor::new(bytes);
    let decoder = BlockDecoder::new(1, index, archive, password, &mut source);
    let (mut place, mut damaged) = (0, None);
    let read = decoder.for_each_entries(&mut |entry, file| {
        if unpacker.is_over() {
            return Ok(false);
        }
        place += 1;
        if entry.is_directory() || entry.is_anti_item() {
            return Ok(true);
        }
        let mut file = Watched { file, left: entry.size(), fault: None };
        let body = unpacker.read(&mut file, packed, entry.name());
        let whole = file.left == 0;
        match file.fault {
            // Its checksum alone is wrong.
            Some(fault) if whole => {
                unpacker.defect(DefectKind::Corrupt, &format!("{}: {fault}", entry.name()));
            }
            Some(_) => {
                damaged = Some((place, body));
                return Ok(false);
            }
            None => {}
        }
        unpacker.child(Child::named(entry.name()), &body);
        // The next file of a solid block lies behind what was not read.
        Ok(whole)
    });
    let Some((damaged, mut body)) = damaged else { return read.map(drop) };
    // What the decoder had written when it failed was lost with its error.
    let mut source = Cursor::new(bytes);
    let decoder = BlockDecoder::new(1, index, archive, password, &mut source);
    let mut place = 0;
    let again = decoder.for_each_entries(&mut |entry, file| {
        place += 1;
        if place < damaged {
            // A wrong checksum was noted.
            let _ = salvage::pass(file, entry.size());
            return Ok(true);
        }
        salvage::pass(file, body.len() as u64)?;
        let mut rest = Salvage::careful(Watched { file, left: 0, fault: None }, || None);
        body.extend(unpacker.read(&mut rest, packed, entry.name()));
        unpacker.child(Child::named(entry.name()), &body);
        Ok(false)
    });
    again.map(drop)
}

/// A file of a block.
struct Watched<'r> {
    file: &'r mut dyn Read,
    /// Bytes that are still to come; none if a fault is to be told at once.
    left: u64,
    /// Why no more can be read.
    fault: Option<io::Error>,
}

impl Read for Watched<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.fault.is_some() {
            return Ok(0);
        }
        let error = match self.file.read(out) {
            Ok(read) => {
                self.left = self.left.saturating_sub(read as u64);
                return Ok(read);
            }
            Err(error) => error,
        };
        if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::OutOfMemory) {
            return Err(error);
        }
        let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
        let is_checksum = matches!(inner, Some(Error::ChecksumVerificationFailed));
        let why = inner.map_or_else(|| error.to_string(), why);
        let fault = io::Error::new(error.kind(), why);
        if self.left == 0 {
            return Err(fault);
        }
        self.fault = Some(fault);
        // The checksum is looked at when the last bytes are in the buffer.
        let last = usize::try_from(self.left).unwrap_or(usize::MAX);
        if !is_checksum || last > out.len() {
            return Ok(0);
        }
        self.left = 0;
        Ok(last)
    }
}
