//! Addresses of hyperlinks (MS-OSHARED section 2.3.7.1): records of Excel, data of Word's fields.

use memchr::memmem;

use crate::formats::numbers::{slice, u32_at};
use crate::object::UrlSource;
use crate::text;
use crate::unpack::Unpacker;

/// Class of a moniker that is a URL (section 2.3.7.6), as it stands.
const URL: [u8; 16] =
    [0xe0, 0xc9, 0xea, 0x79, 0xf9, 0xba, 0xce, 0x11, 0x8c, 0x82, 0, 0xaa, 0, 0x4b, 0xa9, 0x0b];
/// Class of a moniker that is a file (section 2.3.7.8).
const FILE: [u8; 16] = [3, 3, 0, 0, 0, 0, 0, 0, 0xc0, 0, 0, 0, 0, 0, 0, 0x46];

/// Adds where a hyperlink leads: a URL, or a file of another computer. Monikers are looked for by
/// their classes, since what stands before them is optional.
pub(super) fn read(bytes: &[u8], unpacker: &mut Unpacker<'_>) {
    if let Some(at) = memmem::find(bytes, &URL) {
        let size = u32_at(bytes, at + 16).unwrap_or(0) as usize;
        let url = text::utf16_le(slice(bytes, at + 20, size));
        unpacker.url(url.split('\0').next().unwrap_or_default(), UrlSource::Link);
    } else if let Some(at) = memmem::find(bytes, &FILE) {
        // A number of folders to go up, then length and path.
        let size = u32_at(bytes, at + 18).unwrap_or(0) as usize;
        let path = text::decode(slice(bytes, at + 22, size));
        let path = path.split('\0').next().unwrap_or_default();
        if path.starts_with("\\\\") || path.contains("://") {
            unpacker.url(path, UrlSource::Link);
        }
    }
}
