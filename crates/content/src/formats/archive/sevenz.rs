//! 7z (7zFormat.txt of the LZMA SDK), by the crate `sevenz-rust2`.

use std::io::{Cursor, Read};

use sevenz_rust2::{Archive, Block, BlockDecoder, EncoderMethod, Error, Password};

use crate::host::Child;
use crate::object::DefectKind;
use crate::unpack::Unpacker;

/// Adds every file of the archive. One with encrypted headers has no names without its password.
pub(super) fn decode(bytes: &[u8], unpacker: &mut Unpacker<'_>) {
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

/// Notes why an archive, or the rest of it, is not read.
fn failed(error: &Error, unpacker: &mut Unpacker<'_>) {
    let memory = std::io::ErrorKind::OutOfMemory;
    let kind = match error {
        Error::UnsupportedCompressionMethod(_) => DefectKind::Unsupported,
        Error::MaxMemLimited { .. } => DefectKind::TooMuchMemory,
        Error::Io(error, _) if error.kind() == memory => DefectKind::TooMuchMemory,
        // One of several blocks, whose files are not the first.
        Error::PasswordRequired | Error::MaybeBadPassword(_) => DefectKind::Encrypted,
        _ => DefectKind::Corrupt,
    };
    unpacker.defect(kind, &error.to_string());
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
        } else if let Err(error) = extract_block(decoder, bytes.len() as u64, unpacker) {
            return failed(&error, unpacker);
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

fn extract_block(
    decoder: BlockDecoder<'_, Cursor<&[u8]>>,
    packed: u64,
    unpacker: &mut Unpacker<'_>,
) -> Result<(), Error> {
    let read = decoder.for_each_entries(&mut |entry, file| {
        if unpacker.is_over() {
            return Ok(false);
        }
        if entry.is_directory() || entry.is_anti_item() {
            return Ok(true);
        }
        let body = unpacker.read(file, packed, entry.name());
        let whole = body.len() as u64 >= entry.size();
        unpacker.child(Child::named(entry.name()), &body);
        // The next file of a solid block lies behind what was not read.
        Ok(whole)
    });
    read.map(drop)
}
