//! gzip (RFC 1952): one file, compressed, possibly in several members that follow each other.

use std::io::{BufRead, BufReader};

use flate2::bufread::GzDecoder;

use crate::host::Child;
use crate::object::{DefectKind, PropertyKind};
use crate::salvage::Salvage;
use crate::text;
use crate::unpack::Unpacker;

/// Members that are read as one file.
const MEMBERS_MAX: usize = 4_096;

/// Adds the file inside; its name is the one in the header, else the container's without `.gz`.
pub(crate) fn decode(bytes: &[u8], unpacker: &mut Unpacker<'_>) {
    let mut rest = bytes;
    let mut all = Vec::new();
    let mut name = None;
    for count in 0.. {
        if count == MEMBERS_MAX {
            unpacker.defect(DefectKind::Unsupported, "more members than are read");
            break;
        }
        let make = || GzDecoder::new(BufReader::new(rest));
        let mut member = Salvage::new(make(), || Some(make()));
        let file = unpacker.read(&mut member, rest.len() as u64, "");
        if name.is_none() {
            name = member.inner().header().and_then(|h| h.filename()).map(text::file_name);
        }
        all.extend_from_slice(&file);
        let mut reader = member.into_inner().into_inner();
        let behind = reader.fill_buf().map_or(0, <[u8]>::len) + reader.get_ref().len();
        rest = &bytes[bytes.len() - behind.min(bytes.len())..];
        if !rest.starts_with(b"\x1f\x8b") || unpacker.is_over() {
            break;
        }
    }
    if !rest.is_empty() && rest.iter().any(|&b| b != 0) {
        unpacker.property(PropertyKind::DataBehind, "");
    }
    let name = name.unwrap_or_else(|| crate::formats::inner_name(unpacker, &[".gz", ".tgz", ".z"]));
    unpacker.child(Child::named(name), &all);
}
