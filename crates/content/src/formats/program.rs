//! Windows programs: those that install others, and those that unpack themselves.

mod autoit;
mod emulator;
mod image;
mod installshield;
mod nsis;
mod nsis_bzip2;
mod packed;
#[cfg(test)]
mod testing;

use crate::formats::carve::program_end;
use crate::unpack::Unpacker;

/// Adds what a program carries.
pub(super) fn decode(bytes: &[u8], unpacker: &mut Unpacker<'_>) {
    if packed::is_unpacked(unpacker) {
        return;
    }
    let end = program_end(bytes, 0).unwrap_or(bytes.len());
    let is_installer = nsis::decode(bytes, end, unpacker)
        || autoit::decode(bytes, unpacker)
        || installshield::decode(bytes, end, unpacker);
    // What starts an installer is the same in all of its kind.
    if !is_installer {
        packed::decode(bytes, unpacker);
    }
}

/// Whether a file is a script of AutoIt that was compiled without its program.
pub(super) fn is_script(bytes: &[u8]) -> bool {
    autoit::is_script(bytes)
}

/// Adds what is in such a script.
pub(super) fn decode_script(bytes: &[u8], unpacker: &mut Unpacker<'_>) {
    autoit::decode(bytes, unpacker);
}
