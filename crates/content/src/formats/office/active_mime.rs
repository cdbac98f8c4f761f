//! ActiveMime (`editdata.mso`): the VBA project of a document that was saved as one file of XML or
//! as a page, compressed behind a header.

use flate2::read::ZlibDecoder;

use crate::formats::numbers::u16_at;
use crate::host::Child;
use crate::object::DefectKind;
use crate::unpack::Unpacker;

/// Bytes behind the beginning in which the compressed stream begins.
const HEADER_BYTES_MAX: usize = 4_096;

/// Whether a file is one.
pub(super) fn is_match(bytes: &[u8]) -> bool {
    bytes.starts_with(b"ActiveMime")
}

/// Adds what is compressed in it.
pub(super) fn decode(bytes: &[u8], unpacker: &mut Unpacker<'_>) {
    // The header says its length; where it lies, the first stream that could be one is read.
    let told = u16_at(bytes, 0x1e).map(|length| usize::from(length) + 46);
    let places = told.into_iter().chain(10..HEADER_BYTES_MAX.min(bytes.len()));
    let Some(packed) = places.filter_map(|at| bytes.get(at..)).find(|b| is_stream(b)) else {
        return unpacker.defect(DefectKind::Corrupt, "no compressed stream");
    };
    let plain = unpacker.read_made(|| ZlibDecoder::new(packed), packed.len() as u64, "");
    if !plain.is_empty() {
        unpacker.child(Child::named("project.ole"), &plain);
    }
}

/// The two bytes of a ZLIB stream (RFC 1950 section 2.2): deflate, and a sum that fits.
fn is_stream(bytes: &[u8]) -> bool {
    matches!(bytes, [method, flags, ..]
        if method & 0xf == 8 && method >> 4 <= 7 && flags & 0x20 == 0
            && u16::from_be_bytes([*method, *flags]).is_multiple_of(31))
}
