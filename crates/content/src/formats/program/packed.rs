//! Programs that unpack themselves: the emulator lets them do it.

use memchr::memmem;

use super::emulator;
use super::image::Headers;
use crate::formats::carve::program_end;
use crate::host::Child;
use crate::object::PropertyKind;
use crate::unpack::Unpacker;

/// The name of what a program has made of itself.
const NAME: &str = "unpacked.exe";
/// Bytes that a program must have written into its image: fewer are variables.
const WRITTEN_MIN: u64 = 256;
/// Allocations that are looked at.
const ALLOCATIONS_MAX: usize = 8;

/// Whether the current object is what a program has made of itself: once is enough.
pub(super) fn is_unpacked(unpacker: &Unpacker<'_>) -> bool {
    use gauntlet_sniff::FileKind::WindowsProgram;
    unpacker.container().is_some_and(|object| object.kind == WindowsProgram)
        && unpacker.current().is_some_and(|object| object.name == NAME)
}

/// Adds the program as it stands in memory when it has unpacked itself.
pub(super) fn decode(bytes: &[u8], unpacker: &mut Unpacker<'_>) {
    if unpacker.instructions_left() == 0 {
        return;
    }
    let Some(headers) = Headers::of(bytes).filter(|headers| headers.is_packed(bytes)) else {
        return;
    };
    let Some(image) = headers.load(bytes) else { return };
    let mut unpacked =
        emulator::run(image, unpacker.instructions_left(), &mut || unpacker.is_over());
    unpacker.emulated(unpacked.steps);
    if unpacked.written < WRITTEN_MIN {
        return;
    }
    unpacker.property(PropertyKind::PackedProgram, "");
    headers.unload(&mut unpacked.image);
    // Most of an image may be room without bytes in the file: that is no decompression bomb.
    let size = unpacked.image.len() as u64;
    let body = unpacker.read(&mut &unpacked.image[..], size, NAME);
    drop(std::mem::take(&mut unpacked.image));
    unpacker.child(Child::named(NAME), &body);
    let programs = unpacked.allocations.iter().filter_map(|bytes| {
        let at = memmem::find_iter(bytes, b"MZ").find(|at| program_end(bytes, *at).is_some())?;
        Some(&bytes[at..program_end(bytes, at)?])
    });
    for program in programs.take(ALLOCATIONS_MAX) {
        if unpacker.is_over() {
            return;
        }
        let body = unpacker.read(&mut &program[..], program.len() as u64, NAME);
        unpacker.child(Child::named(NAME), &body);
    }
}
