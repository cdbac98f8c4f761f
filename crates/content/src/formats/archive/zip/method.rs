//! Methods of compression (APPNOTE section 4.4.5).

use std::io::{BufReader, Read};

use bzip2::bufread::BzDecoder;
use deflate64::Deflate64Decoder;
use flate2::bufread::DeflateDecoder;
use lzma_rust2::{LzmaReader, XzReader};

use super::super::compressed::{DICTIONARY_KIB_MAX, zstd_reader};
use super::directory::Entry;
use super::old;
use crate::object::DefectKind;
use crate::salvage::Salvage;
use crate::text;
use crate::unpack::Unpacker;

/// The file of these compressed bytes, as far as the limits let it be read.
pub(super) fn unpack(
    method: u16,
    data: &[u8],
    entry: &Entry,
    unpacker: &mut Unpacker<'_>,
) -> Vec<u8> {
    let name = text::file_name(&entry.name);
    let make = || reader(method, data, entry.size, entry.flags);
    match make() {
        Ok(reader) => {
            let mut reader = Salvage::new(reader, || make().ok());
            unpacker.read(&mut reader, data.len() as u64, &name)
        }
        Err(why) => {
            unpacker.defect(DefectKind::Unsupported, &format!("{name}: {why}"));
            Vec::new()
        }
    }
}

/// The same without the limits of an object, for a try of a password: at most `size_max` bytes.
pub(super) fn try_unpack(
    method: u16,
    data: &[u8],
    (size, flags): (u64, u16),
    size_max: u64,
) -> Option<Vec<u8>> {
    let mut file = Vec::new();
    reader(method, data, size, flags).ok()?.take(size_max).read_to_end(&mut file).ok()?;
    Some(file)
}

fn reader(method: u16, data: &[u8], size: u64, flags: u16) -> Result<Box<dyn Read + '_>, String> {
    Ok(match method {
        0 => Box::new(data),
        1 => Box::new(old::shrunk(data, size)),
        6 => Box::new(old::imploded(data, size, flags).map_err(|_| "codes of imploding")?),
        8 => Box::new(DeflateDecoder::new(data)),
        9 => Box::new(Deflate64Decoder::new(BufReader::new(data))),
        12 => Box::new(BzDecoder::new(data)),
        14 => lzma(data, size)?,
        93 => zstd_reader(data).ok_or("no frame of Zstandard")?,
        95 => Box::new(XzReader::new(data, false)),
        other => return Err(format!("method {other}")),
    })
}

/// Version and size of the properties, then those of LZMA (APPNOTE section 5.8.8).
fn lzma(data: &[u8], size: u64) -> Result<Box<dyn Read + '_>, String> {
    let [_, _, 5, 0, properties, d0, d1, d2, d3, stream @ ..] = data else {
        return Err("no properties of LZMA".to_owned());
    };
    let dictionary = u32::from_le_bytes([*d0, *d1, *d2, *d3]);
    if dictionary / 1024 > DICTIONARY_KIB_MAX {
        return Err(format!("a dictionary of {dictionary} bytes"));
    }
    let reader = LzmaReader::new_with_props(stream, size, *properties, dictionary, None);
    reader.map(|reader| Box::new(reader) as Box<dyn Read>).map_err(|error| error.to_string())
}
