//! The few functions of Windows that code calls which unpacks: modules and their functions by name,
//! memory, and nothing else. Whatever else is called ends the emulation: the program itself runs.

use super::exceptions::HANDLER_RETURNS;
use super::machine::{EAX, EBP, ESP, Machine};
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
/// The kernel's headers, where they stand and where its table of functions does.
const HEADER_BYTES: usize = 0x1000;
const PE_AT: u32 = 0x80;
const EXPORTS_AT: u32 = 0x200;
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
    /// The program itself runs.
    End,
}

/// Functions by name, as the kernel exports them: in the order of their bytes.
const EFFECTS: [(&str, Effect); 49] = [
    ("CloseHandle", Effect::Answer(1, 1)),
    ("CreateFileA", Effect::Answer(7, u32::MAX)),
    ("CreateProcessA", Effect::End),
    ("CreateThread", Effect::End),
    ("CreateToolhelp32Snapshot", Effect::Answer(2, u32::MAX)),
    ("ExitProcess", Effect::End),
    ("FlushInstructionCache", Effect::Answer(3, 1)),
    ("FreeLibrary", Effect::Answer(1, 1)),
    ("GetCommandLineA", Effect::End),
    ("GetCurrentProcess", Effect::Answer(0, u32::MAX)),
    ("GetCurrentProcessId", Effect::Answer(0, 0x0000_0abc)),
    ("GetCurrentThread", Effect::Answer(0, 0xffff_fffe)),
    ("GetCurrentThreadId", Effect::Answer(0, 0x0000_0abd)),
    ("GetLastError", Effect::Answer(0, 0)),
    ("GetModuleFileNameA", Effect::Answer(3, 0)),
    ("GetModuleHandleA", Effect::Module(1)),
    ("GetProcAddress", Effect::Function),
    ("GetProcessHeap", Effect::Answer(0, 0x0014_0000)),
    ("GetStartupInfoA", Effect::End),
    ("GetTickCount", Effect::Answer(0, 0x0012_3456)),
    ("GetVersion", Effect::Answer(0, 0x0a28_0105)),
    ("GetVersionExA", Effect::End),
    ("GlobalAlloc", Effect::Allocate(2, 1)),
    ("GlobalFree", Effect::Answer(1, 0)),
    ("HeapAlloc", Effect::Allocate(3, 2)),
    ("HeapCreate", Effect::Answer(3, 0x0014_0000)),
    ("HeapFree", Effect::Answer(3, 1)),
    ("IsDebuggerPresent", Effect::Answer(0, 0)),
    ("LoadLibraryA", Effect::Module(1)),
    ("LoadLibraryExA", Effect::Module(3)),
    ("LocalAlloc", Effect::Allocate(2, 1)),
    ("LocalFree", Effect::Answer(1, 0)),
    ("OpenProcess", Effect::Answer(3, 0)),
    ("OutputDebugStringA", Effect::Answer(1, 0)),
    ("Process32First", Effect::Answer(2, 0)),
    ("Process32Next", Effect::Answer(2, 0)),
    ("ReadFile", Effect::End),
    ("RtlAllocateHeap", Effect::Allocate(3, 2)),
    ("SetErrorMode", Effect::Answer(1, 0)),
    ("SetFilePointer", Effect::End),
    ("SetLastError", Effect::Answer(1, 0)),
    ("SetUnhandledExceptionFilter", Effect::Answer(1, 0)),
    ("Sleep", Effect::Answer(1, 0)),
    ("TerminateProcess", Effect::End),
    ("UnhandledExceptionFilter", Effect::End),
    ("VirtualAlloc", Effect::Allocate(4, 1)),
    ("VirtualFree", Effect::Answer(3, 1)),
    ("VirtualProtect", Effect::Protect),
    ("WriteFile", Effect::End),
];

/// Modules that were loaded and functions that were looked up, by their numbers.
#[derive(Debug)]
pub(super) struct Windows {
    modules: Vec<String>,
    functions: Vec<String>,
}

impl Windows {
    /// The kernel with its functions.
    pub(super) fn new() -> Self {
        let functions = EFFECTS.iter().map(|(name, _)| (*name).to_owned()).collect();
        Windows { modules: Vec::new(), functions }
    }

    /// What stands for the kernel in the program's memory: headers and a table of its functions,
    /// which some code reads itself, and beginnings of functions.
    pub(super) fn library() -> (u32, Vec<u8>) {
        let mut bytes = vec![0xcc; FUNCTIONS_MAX * FUNCTION_BYTES as usize + HEADER_BYTES];
        bytes[..HEADER_BYTES].fill(0);
        for function in bytes[HEADER_BYTES..].chunks_mut(FUNCTION_BYTES as usize) {
            function[..PROLOGUE.len()].copy_from_slice(&PROLOGUE);
        }
        let size = bytes.len() as u32;
        let count = EFFECTS.len() as u32;
        let mut put = |at: u32, value: &[u8]| {
            bytes[at as usize..at as usize + value.len()].copy_from_slice(value);
        };
        let number = |value: u32| value.to_le_bytes();
        put(0, b"MZ");
        put(0x3c, &number(PE_AT));
        // An Intel program of 32 bits that is a library, with one section.
        put(PE_AT, b"PE\0\0\x4c\x01\x01\0");
        put(PE_AT + 20, &[0xe0, 0, 0x0e, 0x21, 0x0b, 0x01]);
        for (at, value) in [
            (28, size),
            (44, 0x1000),
            (52, KERNEL),
            (56, 0x1000),
            (60, 0x200),
            (80, size),
            (84, HEADER_BYTES as u32),
            (116, 16),
            (120, EXPORTS_AT),
            (124, HEADER_BYTES as u32 - EXPORTS_AT),
        ] {
            put(PE_AT + at, &number(value));
        }
        let addresses = EXPORTS_AT + 40;
        let (names, ordinals) = (addresses + 4 * count, addresses + 8 * count);
        let mut text = addresses + 10 * count;
        for (at, value) in [
            (12, text),
            (16, 1),
            (20, count),
            (24, count),
            (28, addresses),
            (32, names),
            (36, ordinals),
        ] {
            put(EXPORTS_AT + at, &number(value));
        }
        put(text, b"KERNEL32.dll");
        text += 13;
        for (index, (name, _)) in EFFECTS.iter().enumerate() {
            let index = index as u32;
            put(addresses + 4 * index, &number(HEADER_BYTES as u32 + FUNCTION_BYTES * index));
            put(names + 4 * index, &number(text));
            put(ordinals + 2 * index, &number(index)[..2]);
            put(text, name.as_bytes());
            text += name.len() as u32 + 1;
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
        let name = self.functions.get((place / FUNCTION_BYTES) as usize).ok_or(Trap::Over)?;
        match (place % FUNCTION_BYTES) as usize {
            0 => {}
            // The program has done the beginning itself, in a copy.
            behind if behind == PROLOGUE.len() => machine.regs[EBP] = machine.pop(32)?,
            _ => return Err(Trap::Over),
        }
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
            Effect::End => return Err(Trap::Over),
        };
        machine.ip = machine.pop(32)?;
        machine.regs[ESP] = machine.regs[ESP].wrapping_add(4 * arguments);
        machine.regs[EAX] = answer;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_says_where_its_functions_are() {
        let (start, bytes) = Windows::library();
        let number = |at: u32| {
            let at = at as usize;
            u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
        };
        assert!(EFFECTS.is_sorted_by_key(|(name, _)| *name));
        let exports = number(number(0x3c) + 120);
        let (count, names) = (number(exports + 24), number(exports + 32));
        for index in 0..count {
            let at = number(names + 4 * index) as usize;
            let name = bytes[at..].split(|b| *b == 0).next().unwrap();
            let name = std::str::from_utf8(name).unwrap();
            let address = start + number(number(exports + 28) + 4 * index);
            assert_eq!(Windows::new().function(name), Some(address), "{name}");
        }
        assert!(exports as usize + 40 < HEADER_BYTES);
    }

    #[test]
    fn modules_and_functions_are_bounded() {
        let mut windows = Windows::new();
        let first = windows.function("First");
        assert_eq!(windows.function("First"), first);
        let all = (0..2 * FUNCTIONS_MAX).filter_map(|n| windows.function(&n.to_string())).count();
        assert_eq!(all, FUNCTIONS_MAX - EFFECTS.len() - 1);
        let modules = (0..2 * MODULES_MAX).filter_map(|n| windows.module(&n.to_string())).count();
        assert_eq!(modules, MODULES_MAX);
        assert_eq!(windows.module("KERNEL32.DLL"), Some(KERNEL));
    }
}
