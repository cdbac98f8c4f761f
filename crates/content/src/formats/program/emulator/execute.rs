//! Instructions of one byte (Software Developer's Manual, volume 2, appendix A, table A-2).

use super::machine::{
    CARRY, DIRECTION, EAX, EBP, ECX, ESP, Machine, OVERFLOW, Place, Prefixes, STEP, ZERO, mask,
    signed,
};
use super::trap::{
    BREAKPOINT, ILLEGAL_INSTRUCTION, INTEGER_OVERFLOW, PRIVILEGED, SINGLE_STEP, Trap,
    access_violation, exception,
};

/// What a selector of a program on Windows is.
const DATA_SELECTOR: u32 = 0x23;

impl Machine {
    /// Does the next instruction.
    pub(super) fn step(&mut self) -> Result<(), Trap> {
        let (prefixes, opcode) = self.prefixes()?;
        let p = &prefixes;
        // Opcodes whose lowest bit says whether the operand is a byte.
        let bits = if opcode & 1 == 0 { 8 } else { p.bits };
        match opcode {
            0x0f => self.extended(p),
            0x27 | 0x2f | 0x37 | 0x3f => {
                self.decimal(opcode);
                Ok(())
            }
            0x06 | 0x0e | 0x16 | 0x1e => self.push(DATA_SELECTOR, p.bits),
            0x07 | 0x17 | 0x1f => self.pop(p.bits).map(drop),
            0x00..=0x3f => self.two_operands(p, opcode, bits),
            0x40..=0x4f => {
                let place = Place::Register(opcode as usize & 7);
                self.step_by_one(place, p.bits, opcode & 8 != 0)
            }
            0x50..=0x57 => self.push(self.register(opcode as usize & 7, p.bits), p.bits),
            0x58..=0x5f => {
                let value = self.pop(p.bits)?;
                self.set_register(opcode as usize & 7, p.bits, value);
                Ok(())
            }
            0x60 | 0x61 | 0x9c | 0x9d | 0xc8 | 0xc9 => self.stack(p, opcode),
            0x68 => self.fetch(p.bits).and_then(|value| self.push(value, p.bits)),
            0x6a => self.fetch_signed8().and_then(|value| self.push(value, p.bits)),
            0x69 | 0x6b => self.product_with_number(p, opcode),
            0x70..=0x7f => {
                let offset = self.fetch_signed8()?;
                self.jump_if(self.condition(opcode), offset, p.bits)
            }
            0x80..=0x83 => self.with_number(p, opcode, bits),
            0x84..=0x8f => self.moves(p, opcode, bits),
            0x90..=0x97 => self.exchange(Place::Register(opcode as usize & 7), EAX, p.bits),
            0xa4..=0xa7 | 0xaa..=0xaf => self.string(p, opcode, bits),
            0xa0..=0xa3 => self.accumulator_and_memory(p, opcode, bits),
            0xa8 | 0xa9 => {
                let value = self.fetch(bits)?;
                self.logic(self.register(EAX, bits) & value, bits);
                Ok(())
            }
            0xb0..=0xb7 => {
                let value = self.fetch(8)?;
                self.set_register(opcode as usize & 7, 8, value);
                Ok(())
            }
            0xb8..=0xbf => {
                let value = self.fetch(p.bits)?;
                self.set_register(opcode as usize & 7, p.bits, value);
                Ok(())
            }
            0xc0 | 0xc1 | 0xd0..=0xd3 => self.shifts(p, opcode, bits),
            0xc6 | 0xc7 => {
                let (_, place) = self.operands(p)?;
                let value = self.fetch(bits)?;
                self.set(place, bits, value)
            }
            0xf6 | 0xf7 => self.one_operand(p, bits),
            0xfe | 0xff => self.steps_and_jumps(p, bits),
            _ => self.others(p, opcode),
        }
    }

    /// Jumps, flags, the accumulator, and what only Windows answers.
    fn others(&mut self, p: &Prefixes, opcode: u32) -> Result<(), Trap> {
        match opcode {
            0xc2 | 0xc3 | 0xe0..=0xe3 | 0xe8 | 0xe9 | 0xeb => return self.jumps(p, opcode),
            0xf5 => self.set_flag(CARRY, !self.flag(CARRY)),
            0xf8 | 0xf9 => self.set_flag(CARRY, opcode & 1 != 0),
            0xfc | 0xfd => self.set_flag(DIRECTION, opcode & 1 != 0),
            0x98 => {
                let value = signed(self.register(EAX, p.bits / 2), p.bits / 2);
                self.set_register(EAX, p.bits, value);
            }
            0x99 => {
                let is_negative = self.register(EAX, p.bits) >> (p.bits - 1) != 0;
                let value = if is_negative { u32::MAX } else { 0 };
                self.set_register(super::machine::EDX, p.bits, value);
            }
            0x9e => {
                let low = self.register(4, 8);
                self.set_flags(self.flags & !0xff | low);
            }
            0x9f => self.set_register(4, 8, self.flags & 0xff),
            0xd4 => {
                let (value, base) = (self.register(EAX, 8), self.fetch(8)?);
                let high = value.checked_div(base);
                let high = high.ok_or(exception(super::trap::DIVIDE_BY_ZERO))?;
                self.set_register(EAX, 16, (high << 8) | (value % base));
                self.logic(value % base, 8);
            }
            0xd5 => {
                let (low, high, base) =
                    (self.register(EAX, 8), self.register(4, 8), self.fetch(8)?);
                let value = low.wrapping_add(high.wrapping_mul(base)) & 0xff;
                self.set_register(EAX, 16, value);
                self.logic(value, 8);
            }
            0xd6 => self.set_register(EAX, 8, if self.flag(CARRY) { 0xff } else { 0 }),
            0xd7 => {
                let at = self.regs[super::machine::EBX].wrapping_add(self.register(EAX, 8));
                let value = self.memory.read(at.wrapping_add(p.segment), 8)?;
                self.set_register(EAX, 8, value);
            }
            0x9b => {}
            0xd8..=0xdf => return self.float(p, opcode),
            // Windows says that the breakpoint is where the instruction begins.
            0xcc => return Err(exception(BREAKPOINT)),
            0xcd => return self.interrupt(),
            0xce if self.flag(OVERFLOW) => return Err(exception(INTEGER_OVERFLOW)),
            0xce => {}
            0xf1 => return Err(exception(SINGLE_STEP)),
            0x6c..=0x6f | 0xe4..=0xe7 | 0xec..=0xef | 0xf4 | 0xfa | 0xfb => {
                return Err(exception(PRIVILEGED));
            }
            _ => return Err(Trap::Unknown),
        }
        Ok(())
    }

    fn interrupt(&mut self) -> Result<(), Trap> {
        match self.fetch8()? {
            3 | 0x2d => Err(exception(BREAKPOINT)),
            0x2e => Err(Trap::Unknown),
            _ => Err(access_violation(u32::MAX)),
        }
    }

    fn two_operands(&mut self, p: &Prefixes, opcode: u32, bits: u32) -> Result<(), Trap> {
        let number = opcode as usize >> 3;
        if opcode & 7 >= 4 {
            let value = self.fetch(bits)?;
            if let Some(result) = self.operation(number, self.register(EAX, bits), value, bits) {
                self.set_register(EAX, bits, result);
            }
            return Ok(());
        }
        let (register, place) = self.operands(p)?;
        let (to, from) = match opcode & 2 {
            0 => (place, Place::Register(register)),
            _ => (Place::Register(register), place),
        };
        let (a, b) = (self.get(to, bits)?, self.get(from, bits)?);
        self.operate(to, number, (a, b), bits)
    }

    fn operate(
        &mut self,
        to: Place,
        number: usize,
        (a, b): (u32, u32),
        bits: u32,
    ) -> Result<(), Trap> {
        match self.operation(number, a, b, bits) {
            Some(result) => self.set(to, bits, result),
            None => Ok(()),
        }
    }

    fn with_number(&mut self, p: &Prefixes, opcode: u32, bits: u32) -> Result<(), Trap> {
        let (number, place) = self.operands(p)?;
        let b = if opcode == 0x81 { self.fetch(bits)? } else { self.fetch_signed8()? };
        let a = self.get(place, bits)?;
        self.operate(place, number, (a, b & mask(bits)), bits)
    }

    fn product_with_number(&mut self, p: &Prefixes, opcode: u32) -> Result<(), Trap> {
        let (register, place) = self.operands(p)?;
        let b = if opcode == 0x69 { self.fetch(p.bits)? } else { self.fetch_signed8()? };
        let a = self.get(place, p.bits)?;
        let result = self.product(a, b, p.bits);
        self.set_register(register, p.bits, result);
        Ok(())
    }

    fn exchange(&mut self, place: Place, register: usize, bits: u32) -> Result<(), Trap> {
        let (a, b) = (self.get(place, bits)?, self.register(register, bits));
        self.set(place, bits, b)?;
        self.set_register(register, bits, a);
        Ok(())
    }

    fn moves(&mut self, p: &Prefixes, opcode: u32, bits: u32) -> Result<(), Trap> {
        if opcode == 0x8f {
            // The address is that behind the pop.
            let value = self.pop(p.bits)?;
            let place = self.operands(p).map(|(_, place)| place);
            let done = place.and_then(|place| self.set(place, p.bits, value));
            if done.is_err() {
                self.regs[ESP] = self.regs[ESP].wrapping_sub(p.bits / 8);
            }
            return done;
        }
        let (register, place) = self.operands(p)?;
        match opcode {
            0x84 | 0x85 => {
                let value = self.get(place, bits)?;
                self.logic(value & self.register(register, bits), bits);
                Ok(())
            }
            0x86 | 0x87 => self.exchange(place, register, bits),
            0x88 | 0x89 => self.set(place, bits, self.register(register, bits)),
            0x8a | 0x8b => {
                let value = self.get(place, bits)?;
                self.set_register(register, bits, value);
                Ok(())
            }
            0x8c => self.set(place, 16, DATA_SELECTOR),
            0x8e => self.get(place, 16).map(drop),
            _ => match place {
                Place::Memory(at) => {
                    self.set_register(register, p.bits, at.wrapping_sub(p.segment));
                    Ok(())
                }
                Place::Register(_) => Err(exception(ILLEGAL_INSTRUCTION)),
            },
        }
    }

    fn accumulator_and_memory(&mut self, p: &Prefixes, opcode: u32, bits: u32) -> Result<(), Trap> {
        let at = self.fetch(if p.has_short_addresses { 16 } else { 32 })?;
        let place = Place::Memory(at.wrapping_add(p.segment));
        if opcode & 2 != 0 {
            return self.set(place, bits, self.register(EAX, bits));
        }
        let value = self.get(place, bits)?;
        self.set_register(EAX, bits, value);
        Ok(())
    }

    fn shifts(&mut self, p: &Prefixes, opcode: u32, bits: u32) -> Result<(), Trap> {
        let (number, place) = self.operands(p)?;
        let count = match opcode {
            0xc0 | 0xc1 => self.fetch8()?,
            0xd0 | 0xd1 => 1,
            _ => self.register(ECX, 8),
        };
        let value = self.get(place, bits)?;
        let result = self.shift(number, value, count, bits);
        self.set(place, bits, result)
    }

    fn one_operand(&mut self, p: &Prefixes, bits: u32) -> Result<(), Trap> {
        let (number, place) = self.operands(p)?;
        let value = self.get(place, bits)?;
        match number {
            0 | 1 => {
                let with = self.fetch(bits)?;
                self.logic(value & with, bits);
                Ok(())
            }
            2 => self.set(place, bits, !value),
            3 => {
                let result = self.subtract(0, value, false, bits);
                self.set(place, bits, result)
            }
            _ => self.accumulate(number, value, bits),
        }
    }

    fn steps_and_jumps(&mut self, p: &Prefixes, bits: u32) -> Result<(), Trap> {
        let (number, place) = self.operands(p)?;
        match number {
            0 | 1 => self.step_by_one(place, bits, number == 1),
            2 | 4 | 6 if bits > 8 => {
                let value = self.get(place, p.bits)?;
                match number {
                    2 => {
                        self.push(self.ip, p.bits)?;
                        self.ip = value;
                    }
                    4 => self.ip = value,
                    _ => self.push(value, p.bits)?,
                }
                Ok(())
            }
            _ => Err(Trap::Unknown),
        }
    }

    fn stack(&mut self, p: &Prefixes, opcode: u32) -> Result<(), Trap> {
        match opcode {
            0x60 => {
                let before = self.regs;
                for register in before {
                    self.push(register, p.bits)?;
                }
            }
            0x61 => {
                for register in (0..8).rev() {
                    let value = self.pop(p.bits)?;
                    if register != ESP {
                        self.set_register(register, p.bits, value);
                    }
                }
            }
            0x9c => self.push(self.flags & !STEP, p.bits)?,
            0x9d => {
                let value = self.pop(p.bits)?;
                self.set_flags(value);
            }
            0xc8 => {
                let (room, level) = (self.fetch(16)?, self.fetch8()?);
                if level & 31 != 0 {
                    return Err(Trap::Unknown);
                }
                self.push(self.regs[EBP], p.bits)?;
                self.regs[EBP] = self.regs[ESP];
                self.regs[ESP] = self.regs[ESP].wrapping_sub(room);
            }
            _ => {
                let value = self.memory.read(self.regs[EBP], p.bits)?;
                self.regs[ESP] = self.regs[EBP].wrapping_add(p.bits / 8);
                self.set_register(EBP, p.bits, value);
            }
        }
        Ok(())
    }

    pub(super) fn jump_if(&mut self, holds: bool, offset: u32, bits: u32) -> Result<(), Trap> {
        if holds {
            self.ip = self.ip.wrapping_add(offset) & mask(bits);
        }
        Ok(())
    }

    fn jumps(&mut self, p: &Prefixes, opcode: u32) -> Result<(), Trap> {
        match opcode {
            0xc2 | 0xc3 => {
                let more = if opcode == 0xc2 { self.fetch(16)? } else { 0 };
                self.ip = self.pop(p.bits)?;
                self.regs[ESP] = self.regs[ESP].wrapping_add(more);
                Ok(())
            }
            0xe0..=0xe3 => {
                let offset = self.fetch_signed8()?;
                let bits = if p.has_short_addresses { 16 } else { 32 };
                if opcode == 0xe3 {
                    return self.jump_if(self.register(ECX, bits) == 0, offset, 32);
                }
                let left = self.register(ECX, bits).wrapping_sub(1);
                self.set_register(ECX, bits, left);
                let goes_on = match opcode {
                    0xe0 => !self.flag(ZERO),
                    0xe1 => self.flag(ZERO),
                    _ => true,
                };
                self.jump_if(goes_on && left & mask(bits) != 0, offset, 32)
            }
            0xeb => {
                let offset = self.fetch_signed8()?;
                self.jump_if(true, offset, p.bits)
            }
            _ => {
                let offset = signed(self.fetch(p.bits)?, p.bits);
                if opcode == 0xe8 {
                    self.push(self.ip, p.bits)?;
                }
                self.jump_if(true, offset, p.bits)
            }
        }
    }

    /// Numbers with a point are not computed: what unpacks does not need them. Only the environment
    /// is stored, by which code finds out where it is.
    fn float(&mut self, p: &Prefixes, opcode: u32) -> Result<(), Trap> {
        let (number, place) = self.operands(p)?;
        let Place::Memory(at) = place else {
            self.float_at = self.ip.wrapping_sub(2);
            return Ok(());
        };
        if opcode == 0xd9 && number == 6 {
            for (offset, value) in [(0, 0x037f), (4, 0), (8, 0xffff), (12, self.float_at)] {
                self.memory.write(at.wrapping_add(offset), 32, value)?;
            }
        } else if opcode == 0xd9 && number == 7 {
            self.memory.write(at, 16, 0x037f)?;
        }
        Ok(())
    }
}
