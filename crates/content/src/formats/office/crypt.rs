//! Encrypted documents of Office (MS-OFFCRYPTO): packages of OOXML by "agile" (section 2.3.4.10)
//! and "standard" encryption (section 2.3.4.5), and the RC4 of the older formats (section 2.3.6 and
//! 2.3.5).

mod agile;
mod cipher;
mod rc4;
mod standard;

use crate::object::{DefectKind, PropertyKind};
use crate::unpack::Unpacker;

pub(super) use self::rc4::{Rc4Info, xor_array};

use crate::formats::numbers::{u16_at, u64_at};

/// Passwords with which Excel and PowerPoint open a document without asking.
const DEFAULTS: [&str; 2] = ["VelvetSweatshop", "/01Hannes Ruescher/01"];
/// How the verdict calls the source of a password that the program itself has.
const DEFAULT_SOURCE: &str = "default of Office";

/// How a package is encrypted.
enum Scheme {
    Agile(agile::Agile),
    Standard(standard::Standard),
}

/// The package of an encrypted OOXML document, if a password opens it; else a defect.
pub(super) fn package(info: &[u8], package: &[u8], unpacker: &mut Unpacker<'_>) -> Option<Vec<u8>> {
    let scheme = match (u16_at(info, 0), u16_at(info, 2)) {
        (Some(4), Some(4)) => agile::Agile::read(info.get(8..)?).map(Scheme::Agile),
        (Some(2..=4), Some(2)) => standard::Standard::read(info).map(Scheme::Standard),
        _ => None,
    };
    let Some(scheme) = scheme else {
        unpacker.property(PropertyKind::Encrypted, "");
        unpacker.defect(DefectKind::Encrypted, "a scheme of encryption that is not known");
        return None;
    };
    let key = with_password(unpacker, |word| match &scheme {
        Scheme::Agile(agile) => agile.key(word),
        Scheme::Standard(standard) => standard.key(word),
    })?;
    let data = package.get(8..).unwrap_or_default();
    let mut plain = match &scheme {
        Scheme::Agile(agile) => agile.decrypt(&key, data),
        Scheme::Standard(_) => cipher::ecb(&key, data),
    };
    // The package was filled up to whole blocks.
    let size = u64_at(package, 0).and_then(|size| usize::try_from(size).ok());
    plain.truncate(size.unwrap_or(usize::MAX));
    let packed = plain.len() as u64;
    Some(unpacker.read(&mut plain.as_slice(), packed, "package"))
}

/// Tries the passwords that the programs try themselves, then those of the request.
pub(super) fn with_password<T>(
    unpacker: &mut Unpacker<'_>,
    mut open: impl FnMut(&str) -> Option<T>,
) -> Option<T> {
    for word in DEFAULTS {
        if let Some(opened) = open(word) {
            unpacker.property(PropertyKind::Encrypted, "");
            unpacker.property(PropertyKind::PasswordFound, DEFAULT_SOURCE);
            return Some(opened);
        }
    }
    let opened = unpacker.with_password(open);
    if opened.is_none() {
        unpacker.defect(DefectKind::Encrypted, "");
    }
    opened
}

/// A password as its hashes take it.
fn utf16(word: &str) -> Vec<u8> {
    word.encode_utf16().flat_map(u16::to_le_bytes).collect()
}

#[cfg(test)]
mod tests;
