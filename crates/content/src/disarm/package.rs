//! A ZIP package with parts left out or changed: what stays keeps its compressed bytes.

use std::io::Write;

use flate2::Compression;
use flate2::write::DeflateEncoder;

use crate::formats::archive::zip::{PackedFile, packed_files};
use crate::limits::Limits;

const LOCAL: &[u8] = b"PK\x03\x04";
const CENTRAL: &[u8] = b"PK\x01\x02";
const END: &[u8] = b"PK\x05\x06";
/// Version needed to extract: 2.0, for deflate (APPNOTE section 4.4.3).
const VERSION: u16 = 20;
/// General purpose bit 11: names are UTF-8.
const UTF8_FLAG: u16 = 1 << 11;
/// Compression method 8, deflate (APPNOTE section 4.4.5).
const DEFLATED: u16 = 8;
/// 1 January 1980 in the form of MS-DOS.
const DATE: u16 = 0x21;

/// The parts of a package.
pub(super) struct Package<'b> {
    files: Vec<PackedFile<'b>>,
    limits: &'b Limits,
    out: Vec<u8>,
    directory: Vec<u8>,
    count: u16,
}

impl<'b> Package<'b> {
    /// # Errors
    /// If programs may read different files of it, or some are encrypted.
    pub(super) fn open(bytes: &'b [u8], limits: &'b Limits) -> Result<Self, String> {
        let files = packed_files(bytes)?;
        Ok(Package { files, limits, out: Vec::new(), directory: Vec::new(), count: 0 })
    }

    /// The names, in the order of the package.
    pub(super) fn names(&self) -> Vec<String> {
        self.files.iter().map(PackedFile::text_name).collect()
    }

    /// The bytes of a part.
    ///
    /// # Errors
    /// If it cannot be decompressed within the limits.
    pub(super) fn read(&self, index: usize) -> Result<Vec<u8>, String> {
        let file = self.files.get(index).ok_or("no such part")?;
        let read = file.unpack(self.limits.object_bytes_max);
        read.ok_or_else(|| format!("{} cannot be decompressed", file.text_name()))
    }

    /// Takes a part over as it is.
    ///
    /// # Errors
    /// If the package grows over what its format can say.
    pub(super) fn keep(&mut self, index: usize) -> Result<(), String> {
        let Some(file) = self.files.get(index) else { return Ok(()) };
        let PackedFile { name, flags, method, time, crc, data, size } = file.clone();
        self.add(&name, flags & UTF8_FLAG, (method, time), crc, data, size)
    }

    /// Takes a part over with these bytes.
    ///
    /// # Errors
    /// As [`Package::keep`].
    pub(super) fn put(&mut self, index: usize, bytes: &[u8]) -> Result<(), String> {
        let Some(file) = self.files.get(index) else { return Ok(()) };
        let (name, flags, time) = (file.name.clone(), file.flags & UTF8_FLAG, file.time);
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
        let packed = encoder.write_all(bytes).and_then(|()| encoder.finish());
        let packed = packed.map_err(|error| error.to_string())?;
        let crc = crc32fast::hash(bytes);
        self.add(&name, flags, (DEFLATED, time), crc, &packed, bytes.len() as u64)
    }

    fn add(
        &mut self,
        name: &[u8],
        flags: u16,
        (method, time): (u16, u16),
        crc: u32,
        data: &[u8],
        size: u64,
    ) -> Result<(), String> {
        let too_large = |_| "the package is too large".to_owned();
        let offset = u32::try_from(self.out.len()).map_err(too_large)?;
        let packed = u32::try_from(data.len()).map_err(too_large)?;
        let size = u32::try_from(size).map_err(too_large)?;
        let length = u16::try_from(name.len()).map_err(too_large)?;
        let mut common = Vec::new();
        for field in [VERSION, flags, method, time, DATE] {
            common.extend_from_slice(&field.to_le_bytes());
        }
        for field in [crc, packed, size] {
            common.extend_from_slice(&field.to_le_bytes());
        }
        common.extend_from_slice(&length.to_le_bytes());
        // No extra field.
        common.extend_from_slice(&[0, 0]);
        self.out.extend_from_slice(&[LOCAL, &common, name, data].concat());
        let version_made_by = VERSION.to_le_bytes();
        // No comment, first disk, no attributes.
        let rest = [&[0; 10][..], &offset.to_le_bytes()].concat();
        let entry = [CENTRAL, &version_made_by, &common, &rest, name].concat();
        self.directory.extend_from_slice(&entry);
        self.count = self.count.checked_add(1).ok_or("the package has too many parts")?;
        Ok(())
    }

    /// The package.
    ///
    /// # Errors
    /// As [`Package::keep`].
    pub(super) fn finish(self) -> Result<Vec<u8>, String> {
        let Package { mut out, directory, count, .. } = self;
        let too_large = |_| "the package is too large".to_owned();
        let at = u32::try_from(out.len()).map_err(too_large)?.to_le_bytes();
        let length = u32::try_from(directory.len()).map_err(too_large)?.to_le_bytes();
        let count = count.to_le_bytes();
        out.extend_from_slice(&directory);
        out.extend_from_slice(&[END, &[0; 4], &count, &count, &length, &at, &[0, 0]].concat());
        Ok(out)
    }
}
