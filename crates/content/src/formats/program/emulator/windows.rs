//! The few functions of Windows that code calls which unpacks: modules and their functions by name,
//! memory, and nothing else. Whatever else is called ends the emulation: the program itself runs.

use super::exceptions::HANDLER_RETURNS;
use super::machine::{EAX, ESP, Machine};
use super::trap::Trap;

/// Where the functions stand that programs get the addresses of.
const FUNCTIONS_START: u32 = 0x7c80_1000;
/// Bytes between two of them.
const FUNCTION_BYTES: u32 = 16;
const FUNCTIONS_MAX: usize = 8_192;
/// What a function begins with on Windows: some code looks before it calls.
const PROLOGUE: [u8; 5] = [0x8b, 0xff, 0x55, 0x8b, 0xec];
/// Handles of modules; that of the kernel stands where its functions do.
const KERNEL: u32 = 0x7c80_0000;
const MODULES_START: u32 = 0x7100_0000;
const MODULE_BYTES: u32 = 0x1_0000;
const MODULES_MAX: usize = 256;

/// What a function does; the number is that of its arguments on the stack.
#[derive(Clone, Copy)]
enum Effect {
    Module(u32),
    Function,
    /// Size and address among the arguments.
    Allocate(u32, u32),
    Protect,
    /// Nothing; this is the result.
    Answer(u32, u32),
}

/// Functions by name.
const EFFECTS: [(&str, Effect); 32] = [
    ("LoadLibraryA", Effect::Module(1)),
    ("LoadLibraryExA", Effect::Module(3)),
    ("GetModuleHandleA", Effect::Module(1)),
    ("GetProcAddress", Effect::Function),
    ("VirtualAlloc", Effect::Allocate(4, 1)),
    ("GlobalAlloc", Effect::Allocate(2, 1)),
    ("LocalAlloc", Effect::Allocate(2, 1)),
    ("HeapAlloc", Effect::Allocate(3, 2)),
    ("RtlAllocateHeap", Effect::Allocate(3, 2)),
    ("VirtualProtect", Effect::Protect),
    ("VirtualFree", Effect::Answer(3, 1)),
    ("GlobalFree", Effect::Answer(1, 0)),
    ("LocalFree", Effect::Answer(1, 0)),
    ("HeapFree", Effect::Answer(3, 1)),
    ("HeapCreate", Effect::Answer(3, 0x0014_0000)),
    ("GetProcessHeap", Effect::Answer(0, 0x0014_0000)),
    ("FreeLibrary", Effect::Answer(1, 1)),
    ("GetTickCount", Effect::Answer(0, 0x0012_3456)),
    ("GetVersion", Effect::Answer(0, 0x0a28_0105)),
    ("GetCurrentProcess", Effect::Answer(0, u32::MAX)),
    ("GetCurrentThread", Effect::Answer(0, 0xffff_fffe)),
    ("GetCurrentProcessId", Effect::Answer(0, 0x0000_0abc)),
    ("GetCurrentThreadId", Effect::Answer(0, 0x0000_0abd)),
    ("IsDebuggerPresent", Effect::Answer(0, 0)),
    ("SetUnhandledExceptionFilter", Effect::Answer(1, 0)),
    ("SetErrorMode", Effect::Answer(1, 0)),
    ("GetLastError", Effect::Answer(0, 0)),
    ("SetLastError", Effect::Answer(1, 0)),
    ("CloseHandle", Effect::Answer(1, 1)),
    ("CreateFileA", Effect::Answer(7, u32::MAX)),
    ("Sleep", Effect::Answer(1, 0)),
    ("FlushInstructionCache", Effect::Answer(3, 1)),
];

/// Modules that were loaded and functions that were asked for, by their numbers.
#[derive(Debug, Default)]
pub(super) struct Windows {
    modules: Vec<String>,
    functions: Vec<String>,
}

impl Windows {
    /// What stands for the kernel's code in the program's memory.
    pub(super) fn library() -> (u32, Vec<u8>) {
        let mut bytes = vec![0xcc; FUNCTIONS_MAX * FUNCTION_BYTES as usize + 0x1000];
        bytes[..0x1000].fill(0);
        for function in bytes[0x1000..].chunks_mut(FUNCTION_BYTES as usize) {
            function[..PROLOGUE.len()].copy_from_slice(&PROLOGUE);
        }
        (KERNEL, bytes)
    }

    /// The address of a function; the same name has one.
    pub(super) fn function(&mut self, name: &str) -> Option<u32> {
        let place = self.functions.iter().position(|known| known == name);
        let place = place.or_else(|| {
            let has_room = self.functions.len() < FUNCTIONS_MAX;
            has_room.then(|| self.functions.push(name.to_owned()))?;
            Some(self.functions.len() - 1)
        })?;
        Some(FUNCTIONS_START + FUNCTION_BYTES * u32::try_from(place).ok()?)
    }

    fn module(&mut self, name: &str) -> Option<u32> {
        let name = name.to_ascii_lowercase();
        if name.starts_with("kernel32") {
            return Some(KERNEL);
        }
        let place = self.modules.iter().position(|known| *known == name);
        let place = place.or_else(|| {
            let has_room = self.modules.len() < MODULES_MAX;
            has_room.then(|| self.modules.push(name))?;
            Some(self.modules.len() - 1)
        })?;
        Some(MODULES_START + MODULE_BYTES * u32::try_from(place).ok()?)
    }

    /// Whether code of Windows stands at an address.
    pub(super) fn is_here(at: u32) -> bool {
        let end = FUNCTIONS_START + FUNCTION_BYTES * FUNCTIONS_MAX as u32;
        (KERNEL..end).contains(&at) || at == HANDLER_RETURNS
    }

    /// Does what the function at `machine.ip` does, and returns from it.
    pub(super) fn call(&mut self, machine: &mut Machine, image: u32) -> Result<(), Trap> {
        let place = machine.ip.wrapping_sub(FUNCTIONS_START);
        // Behind its beginning it is a copy of that which runs, and the program itself.
        let name = self.functions.get((place / FUNCTION_BYTES) as usize);
        let name = name.filter(|_| place % FUNCTION_BYTES == 0).ok_or(Trap::Over)?;
        let effect = EFFECTS.iter().find(|(known, _)| known == name).ok_or(Trap::Over)?.1;
        let stack = machine.regs[ESP];
        let argument = |machine: &mut Machine, number: u32| {
            machine.memory.read(stack.wrapping_add(4 + 4 * number), 32)
        };
        let (arguments, answer) = match effect {
            Effect::Module(arguments) => {
                let name = argument(machine, 0)?;
                let handle = match name {
                    0 => Some(image),
                    at => self.module(&machine.memory.name(at)?),
                };
                (arguments, handle.unwrap_or(0))
            }
            Effect::Function => {
                let module = argument(machine, 0)?;
                let name = match argument(machine, 1)? {
                    number @ ..=0xffff => format!("{module:x}#{number}"),
                    at => machine.memory.name(at)?,
                };
                (2, self.function(&name).unwrap_or(0))
            }
            Effect::Allocate(arguments, size) => {
                let bytes = argument(machine, size)?;
                (arguments, machine.memory.allocate(bytes.max(1)).unwrap_or(0))
            }
            Effect::Protect => {
                let before = argument(machine, 3)?;
                // Read, write and execute.
                machine.memory.write(before, 32, 0x40)?;
                (4, 1)
            }
            Effect::Answer(arguments, answer) => (arguments, answer),
        };
        machine.ip = machine.pop(32)?;
        machine.regs[ESP] = machine.regs[ESP].wrapping_add(4 * arguments);
        machine.regs[EAX] = answer;
        Ok(())
    }
}
