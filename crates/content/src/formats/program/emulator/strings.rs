//! String instructions, repeated or not.

use super::machine::{DIRECTION, EAX, ECX, EDI, ESI, Machine, Prefixes, Repeat, ZERO};
use super::trap::Trap;

impl Machine {
    /// `movs`, `cmps`, `stos`, `lods` and `scas`.
    pub(super) fn string(&mut self, p: &Prefixes, opcode: u32, bits: u32) -> Result<(), Trap> {
        if p.repeat == Repeat::Once {
            return self.string_once(p, opcode, bits);
        }
        let compares = matches!(opcode & !1, 0xa6 | 0xae);
        let counter = if p.has_short_addresses { 16 } else { 32 };
        while self.register(ECX, counter) != 0 {
            self.count()?;
            self.string_once(p, opcode, bits)?;
            let left = self.register(ECX, counter).wrapping_sub(1);
            self.set_register(ECX, counter, left);
            if compares && self.flag(ZERO) != (p.repeat == Repeat::WhileEqual) {
                break;
            }
        }
        Ok(())
    }

    fn string_once(&mut self, p: &Prefixes, opcode: u32, bits: u32) -> Result<(), Trap> {
        let by = if self.flag(DIRECTION) { (bits / 8).wrapping_neg() } else { bits / 8 };
        let (from, to) = (self.regs[ESI].wrapping_add(p.segment), self.regs[EDI]);
        let (mut reads, mut writes) = (false, false);
        match opcode & !1 {
            0xa4 => {
                let value = self.memory.read(from, bits)?;
                self.memory.write(to, bits, value)?;
                (reads, writes) = (true, true);
            }
            0xa6 => {
                let (a, b) = (self.memory.read(from, bits)?, self.memory.read(to, bits)?);
                self.subtract(a, b, false, bits);
                (reads, writes) = (true, true);
            }
            0xaa => {
                self.memory.write(to, bits, self.register(EAX, bits))?;
                writes = true;
            }
            0xac => {
                let value = self.memory.read(from, bits)?;
                self.set_register(EAX, bits, value);
                reads = true;
            }
            _ => {
                let value = self.memory.read(to, bits)?;
                self.subtract(self.register(EAX, bits), value, false, bits);
                writes = true;
            }
        }
        if reads {
            self.regs[ESI] = self.regs[ESI].wrapping_add(by);
        }
        if writes {
            self.regs[EDI] = self.regs[EDI].wrapping_add(by);
        }
        Ok(())
    }
}
