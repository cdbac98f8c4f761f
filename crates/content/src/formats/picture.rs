//! Pictures: their size from the header, and QR codes in their pixels.
//!
//! A picture is decoded to grey only, within [`gray::PIXELS_MAX`], and only after its header
//! said how large it is. TIFF files and icons are measured, not decoded.

pub(super) mod bitmap;
pub(super) mod bits;
pub(super) mod finder;
pub(super) mod gray;
pub(super) mod header;
pub(super) mod pixels;
pub(super) mod qr;

use gauntlet_sniff::FileKind;

use crate::object::{DefectKind, PropertyKind, UrlSource};
use crate::unpack::Unpacker;

pub(super) use gray::Gray;

pub(crate) fn decode(_kind: FileKind, bytes: &[u8], unpacker: &mut Unpacker<'_>) {
    let Some(header) = header::read(bytes) else {
        unpacker.defect(DefectKind::Corrupt, "the header of a picture");
        return;
    };
    unpacker.property(PropertyKind::Dimensions, &format!("{}x{}", header.width, header.height));
    if !header.may_hold_code() || unpacker.is_over() {
        return;
    }
    match pixels::decode(&header, bytes) {
        Ok(frames) => {
            for gray in &frames {
                if unpacker.is_over() {
                    return;
                }
                search(gray, unpacker);
            }
        }
        Err((kind, detail)) => unpacker.defect(kind, &detail),
    }
}

/// Looks for QR codes and notes what they say.
pub(super) fn search(gray: &Gray, unpacker: &mut Unpacker<'_>) {
    let found = qr::search(gray);
    if found.crowded {
        unpacker.defect(DefectKind::Unsupported, "more patterns than a search for codes allows");
    }
    for code in &found.codes {
        note(code, unpacker);
    }
}

/// Notes what a QR code says: a property, text, and a URL if it is one.
pub(super) fn note(code: &str, unpacker: &mut Unpacker<'_>) {
    unpacker.property(PropertyKind::QrCode, code);
    unpacker.text(code);
    if let Some(url) = qr::url(code) {
        unpacker.url(url, UrlSource::QrCode);
    }
}

#[cfg(test)]
pub(super) mod tests;
