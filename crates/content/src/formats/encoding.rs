//! Files written as text or inside messages: uuencode, yEnc, BinHex, TNEF, mbox, S/MIME,
//! OpenPGP.

mod binhex;
mod cms;
mod mbox;
mod openpgp;
mod tnef;
mod uuencode;
mod yenc;

use gauntlet_sniff::FileKind as K;

use crate::unpack::Unpacker;

/// Bytes of a text that is searched for files.
const TEXT_BYTES_MAX: usize = 64 << 20;

/// Reads an object of one of these kinds.
pub(crate) fn decode(kind: K, bytes: &[u8], unpacker: &mut Unpacker<'_>) {
    let text = &bytes[..bytes.len().min(TEXT_BYTES_MAX)];
    match kind {
        K::Tnef => tnef::decode(bytes, unpacker),
        K::BinHex => binhex::decode(text, unpacker),
        K::Cms => cms::decode(bytes, unpacker),
        K::Mbox => mbox::decode(bytes, unpacker),
        K::Text | K::Unknown => {
            uuencode::decode(text, unpacker);
            yenc::decode(text, unpacker);
            openpgp::note(text, unpacker);
        }
        _ => {}
    }
}

/// The lines of a text, without their ends.
fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|&b| b == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line))
}
