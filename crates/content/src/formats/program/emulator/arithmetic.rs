//! Arithmetic with its flags.

use super::machine::{
    ADJUST, CARRY, EAX, EDX, Machine, OVERFLOW, PARITY, Place, SIGN, ZERO, mask, signed,
};
use super::trap::{DIVIDE_BY_ZERO, INTEGER_OVERFLOW, Trap, exception};

impl Machine {
    /// Zero, sign and parity of a result.
    fn result_flags(&mut self, result: u32, bits: u32) {
        self.set_flag(ZERO, result & mask(bits) == 0);
        self.set_flag(SIGN, result >> (bits - 1) & 1 != 0);
        self.set_flag(PARITY, (result as u8).count_ones().is_multiple_of(2));
    }

    pub(super) fn add(&mut self, a: u32, b: u32, carry: bool, bits: u32) -> u32 {
        let wide = u64::from(a & mask(bits)) + u64::from(b & mask(bits)) + u64::from(carry);
        let result = wide as u32 & mask(bits);
        self.set_flag(CARRY, wide >> bits & 1 != 0);
        self.set_flag(OVERFLOW, ((a ^ result) & (b ^ result)) >> (bits - 1) & 1 != 0);
        self.set_flag(ADJUST, (a ^ b ^ result) & 0x10 != 0);
        self.result_flags(result, bits);
        result
    }

    pub(super) fn subtract(&mut self, a: u32, b: u32, borrow: bool, bits: u32) -> u32 {
        let (wide_a, wide_b) = (u64::from(a & mask(bits)), u64::from(b & mask(bits)));
        let result = a.wrapping_sub(b).wrapping_sub(u32::from(borrow)) & mask(bits);
        self.set_flag(CARRY, wide_a < wide_b + u64::from(borrow));
        self.set_flag(OVERFLOW, ((a ^ b) & (a ^ result)) >> (bits - 1) & 1 != 0);
        self.set_flag(ADJUST, (a ^ b ^ result) & 0x10 != 0);
        self.result_flags(result, bits);
        result
    }

    pub(super) fn logic(&mut self, result: u32, bits: u32) -> u32 {
        self.set_flag(CARRY | OVERFLOW | ADJUST, false);
        self.result_flags(result, bits);
        result & mask(bits)
    }

    /// One of the eight operations that share their encodings; none for `cmp`.
    pub(super) fn operation(&mut self, number: usize, a: u32, b: u32, bits: u32) -> Option<u32> {
        let carry = self.flag(CARRY);
        Some(match number {
            0 => self.add(a, b, false, bits),
            1 => self.logic(a | b, bits),
            2 => self.add(a, b, carry, bits),
            3 => self.subtract(a, b, carry, bits),
            4 => self.logic(a & b, bits),
            5 => self.subtract(a, b, false, bits),
            6 => self.logic(a ^ b, bits),
            _ => {
                self.subtract(a, b, false, bits);
                return None;
            }
        })
    }

    /// `inc` and `dec` leave the carry as it is.
    pub(super) fn step_by_one(&mut self, place: Place, bits: u32, down: bool) -> Result<(), Trap> {
        let value = self.get(place, bits)?;
        let carry = self.flag(CARRY);
        let result = match down {
            true => self.subtract(value, 1, false, bits),
            false => self.add(value, 1, false, bits),
        };
        self.set_flag(CARRY, carry);
        self.set(place, bits, result)
    }

    /// Rotations and shifts, by the number in ModR/M.
    pub(super) fn shift(&mut self, number: usize, value: u32, count: u32, bits: u32) -> u32 {
        let count = count & 31;
        let value = value & mask(bits);
        if count == 0 {
            return value;
        }
        match number {
            0..=3 => self.rotate(number, value, count, bits),
            4 | 6 => {
                let wide = u64::from(value) << count;
                let result = wide as u32 & mask(bits);
                self.result_flags(result, bits);
                self.set_flag(CARRY, wide >> bits & 1 != 0);
                let carry = wide >> bits & 1 != 0;
                self.set_flag(OVERFLOW, (result >> (bits - 1) & 1 != 0) != carry);
                result
            }
            5 => {
                let result = value >> count;
                self.result_flags(result, bits);
                self.set_flag(CARRY, value >> (count - 1) & 1 != 0);
                self.set_flag(OVERFLOW, value >> (bits - 1) & 1 != 0);
                result
            }
            _ => {
                let wide = signed(value, bits).cast_signed();
                let result = (wide >> count).cast_unsigned() & mask(bits);
                self.result_flags(result, bits);
                self.set_flag(CARRY, wide >> (count - 1) & 1 != 0);
                self.set_flag(OVERFLOW, false);
                result
            }
        }
    }

    fn rotate(&mut self, number: usize, value: u32, count: u32, bits: u32) -> u32 {
        let mut result = value;
        let mut carry = self.flag(CARRY);
        for _ in 0..count {
            let (top, low) = (result >> (bits - 1) & 1, result & 1);
            result = match number {
                0 => result << 1 | top,
                1 => result >> 1 | low << (bits - 1),
                2 => result << 1 | u32::from(carry),
                _ => result >> 1 | u32::from(carry) << (bits - 1),
            } & mask(bits);
            carry = if number.is_multiple_of(2) { top != 0 } else { low != 0 };
        }
        self.set_flag(CARRY, carry);
        let (top, next) = (result >> (bits - 1) & 1, result >> (bits - 2) & 1);
        let overflow = if number.is_multiple_of(2) { top ^ u32::from(carry) } else { top ^ next };
        self.set_flag(OVERFLOW, overflow != 0);
        result
    }

    /// `shld` and `shrd`.
    pub(super) fn double_shift(
        &mut self,
        (value, other): (u32, u32),
        count: u32,
        bits: u32,
        is_left: bool,
    ) -> u32 {
        let count = count & 31;
        if count == 0 || count > bits {
            return value;
        }
        let (high, low) = if is_left { (value, other) } else { (other, value) };
        let wide = u64::from(high & mask(bits)) << bits | u64::from(low & mask(bits));
        let (result, carry) = match is_left {
            true => ((wide << count >> bits) as u32 & mask(bits), value >> (bits - count) & 1),
            false => ((wide >> count) as u32 & mask(bits), value >> (count - 1) & 1),
        };
        self.result_flags(result, bits);
        self.set_flag(CARRY, carry != 0);
        self.set_flag(OVERFLOW, (value ^ result) >> (bits - 1) & 1 != 0);
        result
    }

    /// The product of two numbers with signs, as `imul` with two or three operands has it.
    pub(super) fn product(&mut self, a: u32, b: u32, bits: u32) -> u32 {
        let wide =
            i64::from(signed(a, bits).cast_signed()) * i64::from(signed(b, bits).cast_signed());
        let result = wide as u32 & mask(bits);
        let is_cut = i64::from(signed(result, bits).cast_signed()) != wide;
        self.set_flag(CARRY | OVERFLOW, is_cut);
        result
    }

    /// `mul`, `imul`, `div` and `idiv` of the accumulator (4 to 7).
    pub(super) fn accumulate(&mut self, number: usize, value: u32, bits: u32) -> Result<(), Trap> {
        let low = self.register(EAX, bits);
        let high = if bits == 8 { self.register(4, 8) } else { self.register(EDX, bits) };
        let wide = u64::from(high) << bits | u64::from(low);
        let sign = |value: u32| i64::from(signed(value, bits).cast_signed());
        let signed_wide = (wide << (64 - 2 * bits)).cast_signed() >> (64 - 2 * bits);
        let (low, high) = match number {
            4 => {
                let product = u64::from(low) * u64::from(value);
                self.set_flag(CARRY | OVERFLOW, product >> bits != 0);
                (product as u32, (product >> bits) as u32)
            }
            5 => {
                let product = sign(low) * sign(value);
                self.set_flag(CARRY | OVERFLOW, sign(product as u32) != product);
                (product as u32, (product >> bits) as u32)
            }
            6 | 7 if value == 0 => return Err(exception(DIVIDE_BY_ZERO)),
            6 => {
                let quotient = wide / u64::from(value);
                if quotient >> bits != 0 {
                    return Err(exception(INTEGER_OVERFLOW));
                }
                (quotient as u32, (wide % u64::from(value)) as u32)
            }
            _ => {
                let quotient = signed_wide.checked_div(sign(value));
                let quotient = quotient.filter(|quotient| sign(*quotient as u32) == *quotient);
                let Some(quotient) = quotient else { return Err(exception(INTEGER_OVERFLOW)) };
                (quotient as u32, (signed_wide % sign(value)) as u32)
            }
        };
        self.set_register(EAX, bits, low);
        self.set_register(if bits == 8 { 4 } else { EDX }, bits, high);
        Ok(())
    }

    /// `daa`, `das`, `aaa` and `aas`.
    pub(super) fn decimal(&mut self, opcode: u32) {
        let low = self.register(EAX, 8);
        let carry = self.flag(CARRY);
        let adjusts = low & 15 > 9 || self.flag(ADJUST);
        let down = opcode & 8 != 0;
        let moved = |value: u32, by: u32| match down {
            true => value.wrapping_sub(by),
            false => value.wrapping_add(by),
        };
        if opcode < 0x30 {
            let high = low > 0x99 || carry;
            let by = if adjusts { 6 } else { 0 } + if high { 0x60 } else { 0 };
            let result = moved(low, by) & 0xff;
            self.set_register(EAX, 8, result);
            self.result_flags(result, 8);
            self.set_flag(CARRY, high);
        } else {
            let word = self.register(EAX, 16);
            let word = if adjusts { moved(word, 0x106) } else { word };
            self.set_register(EAX, 16, word & 0xff0f);
            self.set_flag(CARRY, adjusts);
        }
        self.set_flag(ADJUST, adjusts);
    }

    /// The sixteen conditions of jumps, moves and `set`.
    pub(super) fn condition(&self, number: u32) -> bool {
        let less = self.flag(SIGN) != self.flag(OVERFLOW);
        let holds = match number >> 1 & 7 {
            0 => self.flag(OVERFLOW),
            1 => self.flag(CARRY),
            2 => self.flag(ZERO),
            3 => self.flag(CARRY | ZERO),
            4 => self.flag(SIGN),
            5 => self.flag(PARITY),
            6 => less,
            _ => less || self.flag(ZERO),
        };
        holds != (number & 1 != 0)
    }
}
