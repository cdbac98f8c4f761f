//! 7z (7zFormat.txt of the LZMA SDK), by the crate `sevenz-rust2`.

use std::io::{Cursor, Read};

use sevenz_rust2::{Archive, ArchiveReader, Error, Password};

use crate::host::Child;
use crate::object::DefectKind;
use crate::unpack::Unpacker;

/// Adds every file of the archive. One with encrypted headers has no names without its password.
pub(super) fn decode(bytes: &[u8], unpacker: &mut Unpacker<'_>) {
    match Archive::read(&mut Cursor::new(bytes), &Password::empty()) {
        Ok(archive) => {
            if is_encrypted(bytes, &archive) {
                open(bytes, Some(&archive), unpacker);
            } else {
                extract(bytes, archive, Password::empty(), unpacker);
            }
        }
        Err(Error::PasswordRequired | Error::MaybeBadPassword(_)) => open(bytes, None, unpacker),
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

/// Whether the first file needs a password: an archive is encrypted as a whole.
fn is_encrypted(bytes: &[u8], archive: &Archive) -> bool {
    works(bytes, archive, Password::empty())
        .is_err_and(|error| matches!(error, Error::PasswordRequired | Error::MaybeBadPassword(_)))
}

/// Reads a little of the first file that has bytes.
fn works(bytes: &[u8], archive: &Archive, password: Password) -> Result<(), Error> {
    let source = Cursor::new(bytes);
    let mut reader = ArchiveReader::from_archive(archive.clone(), source, password);
    reader.set_thread_count(1);
    reader.for_each_entries(|entry, file| {
        // Small files are read whole: their checksum tells a wrong password.
        let mut some = Vec::new();
        file.take(entry.size().min(1 << 16) + 1).read_to_end(&mut some)?;
        Ok(some.is_empty())
    })
}

/// Tries the passwords; what stays closed is a defect, its names objects without bytes.
fn open(bytes: &[u8], known: Option<&Archive>, unpacker: &mut Unpacker<'_>) {
    let opened = unpacker.with_password(|text| {
        let archive = Archive::read(&mut Cursor::new(bytes), &Password::from(text)).ok()?;
        works(bytes, &archive, Password::from(text)).ok()?;
        Some((archive, Password::from(text)))
    });
    match opened {
        Some((archive, password)) => extract(bytes, archive, password, unpacker),
        None => {
            unpacker.defect(DefectKind::Encrypted, "");
            for file in known.into_iter().flat_map(|archive| &archive.files) {
                if unpacker.is_over() {
                    return;
                }
                if file.has_stream() {
                    unpacker.child(Child::named(file.name()), b"");
                }
            }
        }
    }
}

fn extract(bytes: &[u8], archive: Archive, password: Password, unpacker: &mut Unpacker<'_>) {
    let packed = bytes.len() as u64;
    let mut reader = ArchiveReader::from_archive(archive, Cursor::new(bytes), password);
    reader.set_thread_count(1);
    let ended = reader.for_each_entries(|entry, file| {
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
    if let Err(error) = ended {
        failed(&error, unpacker);
    }
}
