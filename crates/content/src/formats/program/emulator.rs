//! An emulator of 32-bit Windows programs, for those that unpack themselves: UPX, ASPack, FSG, MEW,
//! Petite, Upack, WWPack32 and whatever else decompresses or decrypts itself into its own memory.
//! What stands there at the end is what an engine wants to see.
//!
//! ```text
//! headers ─▶ image in memory ─▶ instructions, some functions of Windows ─▶ image ─▶ object
//! ```
//!
//! It interprets: nothing of the program ever runs. The program ends with the first function that
//! code which unpacks does not call (by then it is unpacked), with an instruction that is not known
//! here, or with the limits: of instructions, of memory, and of the time of the request.

mod arithmetic;
mod exceptions;
mod execute;
mod extended;
mod machine;
mod memory;
mod strings;
mod trap;
mod windows;

use self::exceptions::{Exceptions, HANDLER_RETURNS};
use self::machine::{EBX, ESP, Machine, STEP};
use self::memory::{Memory, Region};
use self::trap::{SINGLE_STEP, Trap};
use self::windows::Windows;
use super::image::{IMAGES_END, Image};

/// Instructions between two looks at the time.
const STEPS_AT_ONCE: u64 = 1 << 16;
/// Memory that a program may allocate beside its image.
const HEAP_BYTES_MAX: usize = 16 << 20;
/// The stack begins above every image.
const STACK_START: u32 = IMAGES_END;
const STACK_BYTES: usize = 0x10_0000;
/// The thread's block and the process's, which follows it.
const THREAD_BLOCK: u32 = 0x7ffd_e000;
const PROCESS_BLOCK: u32 = 0x7ffd_f000;
/// Where a program returns to that is through.
const PROGRAM_RETURNS: u32 = 0x7c80_0800;
/// Bytes of an allocation that are worth looking at.
const ALLOCATION_BYTES_MIN: u64 = 512;

/// What a program has made of itself.
pub(super) struct Unpacked {
    /// Its image, as it is in memory.
    pub(super) image: Vec<u8>,
    /// Bytes of the image that it has written.
    pub(super) written: u64,
    /// Instructions that it took.
    pub(super) steps: u64,
    /// Other memory that it has written to.
    pub(super) allocations: Vec<Vec<u8>>,
}

/// Runs a program until it is unpacked or a limit ends it: that of instructions, or `is_over`.
pub(super) fn run(image: Image, steps_max: u64, is_over: &mut dyn FnMut() -> bool) -> Unpacked {
    let base = image.base;
    let mut windows = Windows::new();
    let mut machine = machine(image, steps_max, &mut windows);
    let mut exceptions = Exceptions::default();
    let mut looked_at = 0;
    while machine.steps < steps_max {
        if machine.steps >= looked_at {
            looked_at = machine.steps + STEPS_AT_ONCE;
            if is_over() {
                break;
            }
        }
        if next(&mut machine, &mut windows, &mut exceptions, base).is_err() {
            break;
        }
    }
    let steps = machine.steps;
    let regions = machine.memory.into_regions();
    let (mut out, mut written, mut allocations) = (Vec::new(), 0, Vec::new());
    for Region { start, bytes, written: count } in regions {
        if start == base {
            (out, written) = (bytes, count);
        } else if count >= ALLOCATION_BYTES_MIN && !is_system(start) {
            allocations.push(bytes);
        }
    }
    Unpacked { image: out, written, steps, allocations }
}

fn is_system(start: u32) -> bool {
    start == STACK_START || start == THREAD_BLOCK || start == Windows::library().0
}

/// One instruction, or one function of Windows.
fn next(
    machine: &mut Machine,
    windows: &mut Windows,
    exceptions: &mut Exceptions,
    base: u32,
) -> Result<(), Trap> {
    machine.count()?;
    if Windows::is_here(machine.ip) {
        return match machine.ip {
            HANDLER_RETURNS => exceptions.returned(machine),
            _ => windows.call(machine, base),
        };
    }
    let start = machine.ip;
    let is_single = machine.flag(STEP);
    match machine.step() {
        Ok(()) if is_single => {
            machine.set_flag(STEP, false);
            exceptions.raise(machine, SINGLE_STEP, 0)
        }
        Ok(()) => Ok(()),
        Err(Trap::Exception { code, address }) => {
            // An instruction for debuggers is done when it says so.
            if code != SINGLE_STEP {
                machine.ip = start;
            }
            exceptions.raise(machine, code, address)
        }
        Err(trap) => Err(trap),
    }
}

/// A program that is about to start.
fn machine(image: Image, steps_max: u64, windows: &mut Windows) -> Machine {
    let Image { base, entry, mut bytes, imports } = image;
    for import in &imports {
        let Some(place) = bytes.get_mut(import.at..import.at + 4) else { continue };
        let address = windows.function(&import.name).unwrap_or(0);
        place.copy_from_slice(&address.to_le_bytes());
    }
    let mut memory = Memory::new(HEAP_BYTES_MAX);
    memory.map(base, bytes);
    memory.map(STACK_START, vec![0; STACK_BYTES]);
    memory.map(THREAD_BLOCK, vec![0; 0x2000]);
    let (library, code) = Windows::library();
    memory.map(library, code);
    let stack_end = STACK_START + STACK_BYTES as u32;
    let stack = stack_end - 0x100;
    let mut machine = Machine {
        regs: [0; 8],
        ip: base.wrapping_add(entry),
        flags: 0x202,
        memory,
        steps: 0,
        steps_max,
        float_at: 0,
        thread_block: THREAD_BLOCK,
    };
    machine.regs[ESP] = stack;
    machine.regs[EBX] = PROCESS_BLOCK;
    machine.regs[machine::EBP] = stack + 0x2c;
    // The last handler, the bounds of the stack, the blocks themselves, the image.
    let last = stack + 0x40;
    for (at, value) in [
        (stack, PROGRAM_RETURNS),
        (last, u32::MAX),
        (last + 4, PROGRAM_RETURNS),
        (THREAD_BLOCK, last),
        (THREAD_BLOCK + 4, stack_end),
        (THREAD_BLOCK + 8, STACK_START),
        (THREAD_BLOCK + 0x18, THREAD_BLOCK),
        (THREAD_BLOCK + 0x30, PROCESS_BLOCK),
        (PROCESS_BLOCK + 8, base),
    ] {
        // All of them were mapped.
        let _ = machine.memory.write(at, 32, value);
    }
    machine
}

#[cfg(test)]
mod tests;
