//! Instructions of two bytes (table A-3), as far as code uses them that unpacks.

use super::machine::{CARRY, EAX, EBX, ECX, EDX, Machine, Place, Prefixes, ZERO, mask, signed};
use super::trap::{ILLEGAL_INSTRUCTION, Trap, exception};

impl Machine {
    pub(super) fn extended(&mut self, p: &Prefixes) -> Result<(), Trap> {
        let opcode = self.fetch8()?;
        match opcode {
            0x0b | 0xb9 | 0xff => Err(exception(ILLEGAL_INSTRUCTION)),
            0x0d | 0x18..=0x1f => self.operands(p).map(drop),
            0x31 => {
                self.regs[EAX] = self.steps as u32;
                self.regs[EDX] = (self.steps >> 32) as u32;
                Ok(())
            }
            0x40..=0x4f => {
                let (register, place) = self.operands(p)?;
                let value = self.get(place, p.bits)?;
                if self.condition(opcode) {
                    self.set_register(register, p.bits, value);
                }
                Ok(())
            }
            0x77 => Ok(()),
            0x80..=0x8f => {
                let offset = signed(self.fetch(p.bits)?, p.bits);
                self.jump_if(self.condition(opcode), offset, p.bits)
            }
            0x90..=0x9f => {
                let (_, place) = self.operands(p)?;
                self.set(place, 8, u32::from(self.condition(opcode)))
            }
            0xa0 | 0xa8 => self.push(0x3b, p.bits),
            0xa1 | 0xa9 => self.pop(p.bits).map(drop),
            0xa2 => {
                self.identify();
                Ok(())
            }
            0xb0 | 0xb1 | 0xc0 | 0xc1 => self.exchanges(p, opcode),
            0xb6 | 0xb7 | 0xbe | 0xbf => {
                let (register, place) = self.operands(p)?;
                let bits = if opcode & 1 == 0 { 8 } else { 16 };
                let value = self.get(place, bits)?;
                let value = if opcode >= 0xbe { signed(value, bits) } else { value };
                self.set_register(register, p.bits, value);
                Ok(())
            }
            0xbc | 0xbd => self.scan(p, opcode),
            0xc8..=0xcf => {
                let register = &mut self.regs[opcode as usize & 7];
                *register = register.swap_bytes();
                Ok(())
            }
            _ => self.bits_and_products(p, opcode),
        }
    }

    /// Single bits, shifts of two operands, and `imul`.
    fn bits_and_products(&mut self, p: &Prefixes, opcode: u32) -> Result<(), Trap> {
        match opcode {
            0xa3 | 0xab | 0xb3 | 0xbb => {
                let (register, place) = self.operands(p)?;
                let number = self.register(register, p.bits);
                self.bit(place, opcode as usize >> 3 & 3, number, p.bits)
            }
            0xba => {
                let (number, place) = self.operands(p)?;
                let bit = self.fetch8()? & (p.bits - 1);
                self.bit(place, number & 3, bit, p.bits)
            }
            0xa4 | 0xa5 | 0xac | 0xad => {
                let (register, place) = self.operands(p)?;
                let count = if opcode & 1 == 0 { self.fetch8()? } else { self.register(ECX, 8) };
                let values = (self.get(place, p.bits)?, self.register(register, p.bits));
                let result = self.double_shift(values, count, p.bits, opcode < 0xa8);
                self.set(place, p.bits, result)
            }
            0xaf => {
                let (register, place) = self.operands(p)?;
                let value = self.get(place, p.bits)?;
                let result = self.product(self.register(register, p.bits), value, p.bits);
                self.set_register(register, p.bits, result);
                Ok(())
            }
            _ => Err(Trap::Unknown),
        }
    }

    /// `cpuid`: an old processor of Intel without extensions.
    fn identify(&mut self) {
        let [eax, ebx, ecx, edx] = match self.regs[EAX] {
            0 => [1, 0x756e_6547, 0x6c65_746e, 0x4965_6e69],
            1 => [0x0000_0650, 0, 0, 0x0000_8111],
            _ => [0; 4],
        };
        (self.regs[EAX], self.regs[EBX], self.regs[ECX], self.regs[EDX]) = (eax, ebx, ecx, edx);
    }

    /// `bt`, `bts`, `btr` and `btc`.
    fn bit(&mut self, place: Place, number: usize, bit: u32, bits: u32) -> Result<(), Trap> {
        // In memory the number reaches beyond the operand.
        let place = match place {
            Place::Memory(at) => {
                let words = signed(bit, bits).cast_signed() >> bits.trailing_zeros();
                Place::Memory(at.wrapping_add((words * (bits / 8) as i32).cast_unsigned()))
            }
            register @ Place::Register(_) => register,
        };
        let one = 1 << (bit & (bits - 1));
        let value = self.get(place, bits)?;
        self.set_flag(CARRY, value & one != 0);
        match number {
            0 => Ok(()),
            1 => self.set(place, bits, value | one),
            2 => self.set(place, bits, value & !one),
            _ => self.set(place, bits, value ^ one),
        }
    }

    /// `cmpxchg` and `xadd`.
    fn exchanges(&mut self, p: &Prefixes, opcode: u32) -> Result<(), Trap> {
        let bits = if opcode & 1 == 0 { 8 } else { p.bits };
        let (register, place) = self.operands(p)?;
        let (value, other) = (self.get(place, bits)?, self.register(register, bits));
        if opcode >= 0xc0 {
            let sum = self.add(value, other, false, bits);
            self.set_register(register, bits, value);
            return self.set(place, bits, sum);
        }
        self.subtract(self.register(EAX, bits), value, false, bits);
        if self.flag(ZERO) {
            return self.set(place, bits, other);
        }
        self.set_register(EAX, bits, value);
        Ok(())
    }

    /// `bsf` and `bsr`.
    fn scan(&mut self, p: &Prefixes, opcode: u32) -> Result<(), Trap> {
        let (register, place) = self.operands(p)?;
        let value = self.get(place, p.bits)? & mask(p.bits);
        self.set_flag(ZERO, value == 0);
        if value != 0 {
            let found = if opcode == 0xbc { value.trailing_zeros() } else { value.ilog2() };
            self.set_register(register, p.bits, found);
        }
        Ok(())
    }
}
