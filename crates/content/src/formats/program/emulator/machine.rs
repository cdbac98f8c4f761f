//! The state of an x86 processor of 32 bits, and how instructions name their operands
//! (Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, chapter 2).

use super::memory::Memory;
use super::trap::Trap;

pub(super) const CARRY: u32 = 1;
pub(super) const PARITY: u32 = 1 << 2;
pub(super) const ADJUST: u32 = 1 << 4;
pub(super) const ZERO: u32 = 1 << 6;
pub(super) const SIGN: u32 = 1 << 7;
pub(super) const STEP: u32 = 1 << 8;
pub(super) const DIRECTION: u32 = 1 << 10;
pub(super) const OVERFLOW: u32 = 1 << 11;
/// Flags that a program may set.
const SETTABLE: u32 = 0x0024_4dd5;

pub(super) const EAX: usize = 0;
pub(super) const ECX: usize = 1;
pub(super) const EDX: usize = 2;
pub(super) const EBX: usize = 3;
pub(super) const ESP: usize = 4;
pub(super) const EBP: usize = 5;
pub(super) const ESI: usize = 6;
pub(super) const EDI: usize = 7;

/// Where an operand is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// A register by its number.
    Register(usize),
    Memory(u32),
}

/// How often a string instruction is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Repeat {
    Once,
    /// `rep`, `repe`.
    WhileEqual,
    /// `repne`.
    WhileUnequal,
}

/// What stands before an opcode.
#[derive(Debug, Clone, Copy)]
pub(super) struct Prefixes {
    /// Bits of an operand that is no byte.
    pub(super) bits: u32,
    pub(super) has_short_addresses: bool,
    /// Base of the segment, added to addresses.
    pub(super) segment: u32,
    pub(super) repeat: Repeat,
}

/// A processor and its memory.
#[derive(Debug)]
pub(super) struct Machine {
    pub(super) regs: [u32; 8],
    pub(super) ip: u32,
    pub(super) flags: u32,
    pub(super) memory: Memory,
    /// Instructions that were done, each repetition counted.
    pub(super) steps: u64,
    pub(super) steps_max: u64,
    /// Where the last instruction of the floating-point unit stands.
    pub(super) float_at: u32,
    /// What `fs` begins at.
    pub(super) thread_block: u32,
}

impl Machine {
    pub(super) fn flag(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }

    pub(super) fn set_flag(&mut self, flag: u32, on: bool) {
        self.flags = if on { self.flags | flag } else { self.flags & !flag };
    }

    /// All flags at once, as a program may.
    pub(super) fn set_flags(&mut self, value: u32) {
        self.flags = value & SETTABLE | 0x202;
    }

    /// Counts a repetition as an instruction, so that a long one reaches the limit, too.
    pub(super) fn count(&mut self) -> Result<(), Trap> {
        self.steps += 1;
        if self.steps > self.steps_max { Err(Trap::Over) } else { Ok(()) }
    }

    pub(super) fn register(&self, number: usize, bits: u32) -> u32 {
        match bits {
            8 if number >= 4 => self.regs[number & 3] >> 8 & 0xff,
            8 => self.regs[number] & 0xff,
            16 => self.regs[number] & 0xffff,
            _ => self.regs[number],
        }
    }

    pub(super) fn set_register(&mut self, number: usize, bits: u32, value: u32) {
        match bits {
            8 if number >= 4 => {
                let register = &mut self.regs[number & 3];
                *register = *register & !0xff00 | (value & 0xff) << 8;
            }
            8 => self.regs[number] = self.regs[number] & !0xff | value & 0xff,
            16 => self.regs[number] = self.regs[number] & !0xffff | value & 0xffff,
            _ => self.regs[number] = value,
        }
    }

    pub(super) fn get(&mut self, place: Place, bits: u32) -> Result<u32, Trap> {
        match place {
            Place::Register(number) => Ok(self.register(number, bits)),
            Place::Memory(at) => self.memory.read(at, bits),
        }
    }

    pub(super) fn set(&mut self, place: Place, bits: u32, value: u32) -> Result<(), Trap> {
        match place {
            Place::Register(number) => {
                self.set_register(number, bits, value);
                Ok(())
            }
            Place::Memory(at) => self.memory.write(at, bits, value),
        }
    }

    pub(super) fn push(&mut self, value: u32, bits: u32) -> Result<(), Trap> {
        let top = self.regs[ESP].wrapping_sub(bits / 8);
        self.memory.write(top, bits, value)?;
        self.regs[ESP] = top;
        Ok(())
    }

    pub(super) fn pop(&mut self, bits: u32) -> Result<u32, Trap> {
        let value = self.memory.read(self.regs[ESP], bits)?;
        self.regs[ESP] = self.regs[ESP].wrapping_add(bits / 8);
        Ok(value)
    }

    pub(super) fn fetch8(&mut self) -> Result<u32, Trap> {
        let byte = self.memory.code(self.ip)?;
        self.ip = self.ip.wrapping_add(1);
        Ok(u32::from(byte))
    }

    /// A number in the code.
    pub(super) fn fetch(&mut self, bits: u32) -> Result<u32, Trap> {
        let mut value = 0;
        for shift in (0..bits).step_by(8) {
            value |= self.fetch8()? << shift;
        }
        Ok(value)
    }

    /// A byte in the code with its sign.
    pub(super) fn fetch_signed8(&mut self) -> Result<u32, Trap> {
        Ok(signed(self.fetch8()?, 8))
    }

    /// Prefixes, and the opcode behind them.
    pub(super) fn prefixes(&mut self) -> Result<(Prefixes, u32), Trap> {
        const PREFIXES_MAX: u32 = 14;
        let mut prefixes =
            Prefixes { bits: 32, has_short_addresses: false, segment: 0, repeat: Repeat::Once };
        for _ in 0..=PREFIXES_MAX {
            match self.fetch8()? {
                0x66 => prefixes.bits = 16,
                0x67 => prefixes.has_short_addresses = true,
                0x64 => prefixes.segment = self.thread_block,
                0x26 | 0x2e | 0x36 | 0x3e | 0x65 => prefixes.segment = 0,
                0xf0 => {}
                0xf2 => prefixes.repeat = Repeat::WhileUnequal,
                0xf3 => prefixes.repeat = Repeat::WhileEqual,
                opcode => return Ok((prefixes, opcode)),
            }
        }
        Err(super::trap::exception(super::trap::ILLEGAL_INSTRUCTION))
    }

    /// The byte ModR/M and what belongs to it: the number in its middle, and its operand.
    pub(super) fn operands(&mut self, prefixes: &Prefixes) -> Result<(usize, Place), Trap> {
        let byte = self.fetch8()? as usize;
        let (mode, middle, low) = (byte >> 6, byte >> 3 & 7, byte & 7);
        if mode == 3 {
            return Ok((middle, Place::Register(low)));
        }
        let at = if prefixes.has_short_addresses {
            self.short_address(mode, low)?
        } else {
            self.address(mode, low)?
        };
        Ok((middle, Place::Memory(at.wrapping_add(prefixes.segment))))
    }

    fn address(&mut self, mode: usize, low: usize) -> Result<u32, Trap> {
        let base = match (low, mode) {
            (4, _) => {
                let byte = self.fetch8()? as usize;
                let (scale, index, base) = (byte >> 6, byte >> 3 & 7, byte & 7);
                let index = if index == 4 { 0 } else { self.regs[index] << scale };
                let base = if base == 5 && mode == 0 { self.fetch(32)? } else { self.regs[base] };
                base.wrapping_add(index)
            }
            (5, 0) => self.fetch(32)?,
            _ => self.regs[low],
        };
        let offset = match mode {
            1 => self.fetch_signed8()?,
            2 => self.fetch(32)?,
            _ => 0,
        };
        Ok(base.wrapping_add(offset))
    }

    /// Addresses of 16 bits (table 2-1).
    fn short_address(&mut self, mode: usize, low: usize) -> Result<u32, Trap> {
        let [_, _, _, bx, _, bp, si, di] = self.regs;
        let base = match low {
            0 => bx.wrapping_add(si),
            1 => bx.wrapping_add(di),
            2 => bp.wrapping_add(si),
            3 => bp.wrapping_add(di),
            4 => si,
            5 => di,
            6 if mode == 0 => self.fetch(16)?,
            6 => bp,
            _ => bx,
        };
        let offset = match mode {
            1 => self.fetch_signed8()?,
            2 => self.fetch(16)?,
            _ => 0,
        };
        Ok(base.wrapping_add(offset) & 0xffff)
    }
}

/// A number of fewer bits with its sign in 32.
pub(super) fn signed(value: u32, bits: u32) -> u32 {
    let shift = 32 - bits;
    ((value << shift).cast_signed() >> shift).cast_unsigned()
}

/// The bits that a number of this width has.
pub(super) fn mask(bits: u32) -> u32 {
    u32::MAX >> (32 - bits)
}
