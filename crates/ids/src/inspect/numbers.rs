//! Numbers in bytes: `byte_test`, `byte_jump`, `byte_extract`, `byte_math`.

use crate::rule::matches::{
    Amount, Asn1, ByteExtract, ByteJump, ByteMath, ByteOperator, ByteTest, Encoding, Endian,
    MathOperator,
};

/// The most digits that are read: an octal number of 64 bits and its prefix.
const DIGITS_MAX: usize = 23;

/// Variables of `byte_extract` and `byte_math`.
#[derive(Debug, Clone, Default)]
pub(super) struct Values(Vec<u64>);

impl Values {
    /// Forgets all.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// What an amount is now.
    pub(super) fn get(&self, amount: Amount) -> i64 {
        match amount {
            Amount::Fixed(number) => number,
            Amount::Variable(i) => self.0.get(usize::from(i)).copied().unwrap_or(0) as i64,
        }
    }

    fn set(&mut self, i: u8, value: u64) {
        let i = usize::from(i);
        if self.0.len() <= i {
            self.0.resize(i + 1, 0);
        }
        if let Some(slot) = self.0.get_mut(i) {
            *slot = value;
        }
    }
}

/// Reads a number at a place; the bytes that it took.
fn read(
    bytes: &[u8],
    at: i64,
    count: i64,
    encoding: Encoding,
    dce: Option<bool>,
) -> Option<(u64, usize)> {
    let at = usize::try_from(at).ok()?;
    let count = usize::try_from(count).ok()?;
    let rest = bytes.get(at..)?;
    match encoding {
        Encoding::Digits(base) => {
            // Without a count all that follows is read.
            let text = if count == 0 { rest } else { rest.get(..count)? };
            if count > DIGITS_MAX { None } else { digits(text, base) }
        }
        Encoding::Binary(endian) => {
            let bytes = rest.get(..count).filter(|_| count <= 8)?;
            let little = match endian {
                Endian::Big => false,
                Endian::Little => true,
                Endian::Dce => dce.unwrap_or(false),
            };
            let push = |value: u64, byte: &u8| value << 8 | u64::from(*byte);
            let value =
                if little { bytes.iter().rev().fold(0, push) } else { bytes.iter().fold(0, push) };
            Some((value, count))
        }
    }
}

/// A number as `strtoull` reads it: blanks, a sign, a prefix, digits.
fn digits(text: &[u8], base: u8) -> Option<(u64, usize)> {
    let is_blank = |b: &u8| b.is_ascii_whitespace() || *b == 0x0b;
    let mut at = text.iter().take_while(|b| is_blank(b)).count();
    let negative = text.get(at) == Some(&b'-');
    if matches!(text.get(at), Some(b'-' | b'+')) {
        at += 1;
    }
    let hex = text.get(at) == Some(&b'0')
        && matches!(text.get(at + 1), Some(b'x' | b'X'))
        && text.get(at + 2).is_some_and(u8::is_ascii_hexdigit);
    let base = match base {
        0 if hex => 16,
        0 if text.get(at) == Some(&b'0') => 8,
        0 => 10,
        base => u32::from(base),
    };
    if base == 16 && hex {
        at += 2;
    }
    let start = at;
    let mut value = 0_u64;
    while let Some(digit) = text.get(at).and_then(|b| char::from(*b).to_digit(base)) {
        value = value.checked_mul(base.into())?.checked_add(digit.into())?;
        at += 1;
    }
    let value = if negative { value.wrapping_neg() } else { value };
    (at > start).then_some((value, at))
}

fn masked(value: u64, mask: Option<u32>) -> u64 {
    match mask {
        Some(mask) if mask != 0 => (value & u64::from(mask)) >> mask.trailing_zeros(),
        _ => value,
    }
}

/// Whether there is something to be read: relative places behind the end are none.
fn is_inside(bytes: &[u8], at: i64, relative: bool) -> bool {
    !bytes.is_empty() && (!relative || at < bytes.len() as i64)
}

/// `byte_test`.
pub(super) fn test(
    test: &ByteTest,
    bytes: &[u8],
    place: usize,
    values: &Values,
    dce: Option<bool>,
) -> bool {
    let base = if test.relative { place as i64 } else { 0 };
    let at = base + i64::from(values.get(test.offset) as i32);
    if !is_inside(bytes, at, test.relative) {
        return false;
    }
    let count = values.get(test.count);
    let Some((found, _)) = read(bytes, at, count, test.encoding, dce) else { return false };
    let found = masked(found, test.mask);
    let value = values.get(test.value) as u64;
    let holds = match test.operator {
        ByteOperator::Less => found < value,
        ByteOperator::AtMost => found <= value,
        ByteOperator::Equal => found == value,
        ByteOperator::AtLeast => found >= value,
        ByteOperator::More => found > value,
        ByteOperator::And => found & value != 0,
        ByteOperator::Xor => found ^ value != 0,
    };
    holds != test.negated
}

/// `byte_jump`: the place that it jumps to.
pub(super) fn jump(
    jump: &ByteJump,
    bytes: &[u8],
    place: usize,
    values: &Values,
    dce: Option<bool>,
) -> Option<usize> {
    if bytes.is_empty() {
        return None;
    }
    let base = if jump.relative { place as i64 } else { 0 };
    let at = base + i64::from(values.get(jump.offset) as i32);
    let count = values.get(jump.count);
    if at < 0 || at + count > bytes.len() as i64 {
        return None;
    }
    let (mut value, taken) = if count == 0 && !matches!(jump.encoding, Encoding::Digits(_)) {
        (0, 0)
    } else {
        read(bytes, at, count, jump.encoding, dce)?
    };
    value = value.wrapping_mul(jump.multiplier.into());
    if jump.align {
        value = value.checked_next_multiple_of(4)?;
    }
    let value = (value as i64).wrapping_add(jump.post_offset.into());
    let to = if jump.from_beginning {
        value
    } else if jump.from_end {
        (bytes.len() as i64).wrapping_add(value)
    } else {
        (at + taken as i64).wrapping_add(value)
    };
    let to = usize::try_from(to.max(0)).ok()?;
    (to <= bytes.len()).then_some(to)
}

/// `byte_extract`: the place behind it.
pub(super) fn extract(
    extract: &ByteExtract,
    bytes: &[u8],
    place: usize,
    values: &mut Values,
    dce: Option<bool>,
) -> Option<usize> {
    let base = if extract.relative { place as i64 } else { 0 };
    let at = base + i64::from(extract.offset);
    if !is_inside(bytes, at, extract.relative) {
        return None;
    }
    let (mut value, taken) = read(bytes, at, extract.count.into(), extract.encoding, dce)?;
    value = value.wrapping_mul(extract.multiplier.into());
    if let Some(align) = extract.align.filter(|align| *align > 0) {
        value = value.checked_next_multiple_of(align.into())?;
    }
    values.set(extract.variable, value);
    usize::try_from(at + taken as i64).ok()
}

/// `byte_math`: the place behind it.
pub(super) fn math(
    math: &ByteMath,
    bytes: &[u8],
    place: usize,
    values: &mut Values,
    dce: Option<bool>,
) -> Option<usize> {
    let base = if math.relative { place as i64 } else { 0 };
    let at = base + i64::from(math.offset);
    if !is_inside(bytes, at, math.relative) {
        return None;
    }
    let count = values.get(math.count);
    let most = if matches!(math.encoding, Encoding::Digits(_)) { 10 } else { 4 };
    if !(1..=most).contains(&count) {
        return None;
    }
    let (found, taken) = read(bytes, at, count, math.encoding, dce)?;
    let right = values.get(math.right) as u64;
    let value = match math.operator {
        MathOperator::Add => found.wrapping_add(right),
        MathOperator::Subtract => found.wrapping_sub(right),
        MathOperator::Multiply => found.wrapping_mul(right),
        MathOperator::Divide => found.checked_div(right)?,
        MathOperator::ShiftLeft => shifted(right).map_or(0, |n| found << n),
        // As processors shift: by the lowest six bits.
        MathOperator::ShiftRight => found >> (right & 63),
    };
    values.set(math.variable, masked(value, math.mask));
    usize::try_from(at + taken as i64).ok()
}

/// A shift by more than a number has bits leaves nothing.
fn shifted(by: u64) -> Option<u32> {
    u32::try_from(by).ok().filter(|by| *by < 64)
}

/// `asn1`: whether the value at the place has one of the oddities asked for (ITU-T X.690): a bit
/// string with more unused bits than a byte has, a real number with too long a text, a length that
/// is too large.
pub(super) fn asn1(check: &Asn1, bytes: &[u8], place: usize) -> bool {
    let at = match (check.absolute_offset, check.relative_offset) {
        (Some(at), _) => i64::from(at),
        (None, Some(by)) => place as i64 + i64::from(by),
        (None, None) => 0,
    };
    let Some(bytes) = usize::try_from(at).ok().and_then(|at| bytes.get(at..)) else {
        return false;
    };
    odd(check, bytes, 0)
}

/// Values within values that are looked into.
const ASN1_DEPTH_MAX: u32 = 30;

fn odd(check: &Asn1, mut bytes: &[u8], depth: u32) -> bool {
    while let Some((tag, length, content, rest)) = value(bytes) {
        if check.oversize_length.is_some_and(|most| length > u64::from(most)) {
            return true;
        }
        let number = tag & 0x1f;
        let universal = tag & 0xc0 == 0;
        let first = content.first().copied().unwrap_or(0);
        if check.bitstring_overflow && universal && number == 3 && first > 7 {
            return true;
        }
        let is_text = first & 0xc0 == 0;
        if check.double_overflow && universal && number == 9 && is_text && content.len() > 256 {
            return true;
        }
        if tag & 0x20 != 0 && depth < ASN1_DEPTH_MAX && odd(check, content, depth + 1) {
            return true;
        }
        bytes = rest;
    }
    false
}

/// Tag, stated length, what is there of the content, what follows.
fn value(bytes: &[u8]) -> Option<(u8, u64, &[u8], &[u8])> {
    let (tag, rest) = bytes.split_first()?;
    let (first, mut rest) = rest.split_first()?;
    let mut length = u64::from(*first);
    if *first & 0x80 != 0 {
        let count = usize::from(*first & 0x7f);
        let digits = rest.get(..count).filter(|_| count <= 8)?;
        length = digits.iter().fold(0, |n, byte| n << 8 | u64::from(*byte));
        rest = rest.get(count..)?;
    }
    let end = usize::try_from(length).unwrap_or(usize::MAX).min(rest.len());
    let (content, rest) = rest.split_at(end);
    Some((*tag, length, content, rest))
}
