//! Numbers in the data: `byte_test`, `byte_jump`, `byte_extract`, `byte_math`, and `base64_decode`.

use super::content::{Next, is_anchor, is_variable, mark_next, place_of};
use super::draft::{Draft, List, Outcome, VariableMaker};
use super::keyword::{Keyword, keyword};
use crate::rule::matches::{
    Amount, Base64Decode, ByteExtract, ByteJump, ByteMath, ByteOperator, ByteTest, Encoding,
    Endian, Match, MathOperator,
};

pub(super) const KEYWORDS: &[Keyword] = &[
    keyword("byte_test", byte_test),
    keyword("byte_jump", byte_jump),
    keyword("byte_extract", byte_extract),
    keyword("byte_math", byte_math),
    keyword("base64_decode", base64_decode).optional_value(),
    keyword("base64_data", base64_data).without_value(),
    keyword("pkt_data", |draft, _| draft.reset_active()).without_value(),
];

/// Most digits of a number that is written in text.
const DIGITS_MAX: i64 = 23;
/// Most bytes of a binary number.
const BYTES_MAX: i64 = 8;
/// Largest offset, either way.
const OFFSET_MAX: i64 = 65535;
/// Bytes that `base64_decode` decodes unless it says.
const BASE64_BYTES_MAX: u32 = 65535;
/// Most byte variables of one kind in a list.
const VARIABLES_MAX: u8 = 64;

/// What the modifiers of all of them say.
#[derive(Default)]
struct Modifiers {
    relative: bool,
    text: bool,
    base: Option<u8>,
    little: bool,
    has_endian: bool,
    dce: bool,
    mask: Option<u32>,
}

impl Modifiers {
    /// Takes a modifier; `false` if it is none of these.
    fn take(&mut self, word: &str) -> bool {
        match word {
            "relative" => self.relative = true,
            "string" => self.text = true,
            "dec" => self.base = Some(10),
            "hex" => self.base = Some(16),
            "oct" => self.base = Some(8),
            "big" => (self.little, self.has_endian) = (false, true),
            "little" => (self.little, self.has_endian) = (true, true),
            "dce" => self.dce = true,
            _ => return false,
        }
        true
    }

    fn encoding(&self) -> Encoding {
        if self.text {
            return Encoding::Digits(self.base.unwrap_or(0));
        }
        Encoding::Binary(match (self.dce, self.little) {
            (true, _) => Endian::Dce,
            (false, true) => Endian::Little,
            (false, false) => Endian::Big,
        })
    }

    /// What a number of bytes may be.
    fn check_count(&self, count: Amount) -> Outcome {
        if self.base.is_some() && !self.text {
            return Err("a base needs \"string\"".into());
        }
        let most = if self.text { DIGITS_MAX } else { BYTES_MAX };
        match count {
            Amount::Fixed(count) if count > most => {
                Err(format!("{count} bytes are more than {most}").into())
            }
            _ => Ok(()),
        }
    }

    fn check_dce(&self) -> Outcome {
        let others = self.text || self.has_endian || self.base.is_some();
        if self.dce && others { Err("dce excludes other forms".into()) } else { Ok(()) }
    }
}

fn parts(value: &str) -> Vec<&str> {
    value.split(',').map(str::trim).collect()
}

/// A word that is there twice, if one may be there once only.
fn check_once(parts: &[&str]) -> Outcome {
    let name = |part: &str| part.split([' ', '\t']).next().unwrap_or_default().to_owned();
    let same = |name: &str| match name {
        "big" | "little" | "dce" => "endian".to_owned(),
        "oct" | "dec" | "hex" => "base".to_owned(),
        other => other.to_owned(),
    };
    let mut names: Vec<String> = parts.iter().map(|part| same(&name(part))).collect();
    names.sort_unstable();
    match names.windows(2).find(|pair| pair.first() == pair.last()) {
        Some([name, ..]) => Err(format!("{name} is there twice").into()),
        _ => Ok(()),
    }
}

/// A number, or a variable of the list.
fn amount(
    draft: &Draft<'_>,
    text: &str,
    list: List,
    parse: impl Fn(&str) -> Option<i64>,
) -> Outcome<Amount> {
    if is_variable(text) {
        let number = draft.variable(text, Some(list));
        return number
            .map(Amount::Variable)
            .ok_or_else(|| format!("no byte variable {text:?}").into());
    }
    parse(text).map(Amount::Fixed).ok_or_else(|| format!("{text:?} is not a number here").into())
}

fn count(text: &str) -> Option<i64> {
    text.parse::<u32>().ok().map(i64::from)
}

/// As `strtoull` with base 0 reads the number at the beginning: `-1` is the largest one, and `0x`
/// without digits is 0.
fn any_base(text: &str) -> Option<u64> {
    let negative = text.starts_with('-');
    let text = text.strip_prefix(['+', '-']).unwrap_or(text);
    let hex = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let hex = hex.filter(|hex| hex.starts_with(|c: char| c.is_ascii_hexdigit()));
    let (digits, base) = match hex {
        Some(hex) => (hex, 16),
        None if text.len() > 1 && text.starts_with('0') => (text, 8),
        None => (text, 10),
    };
    let end = digits.find(|c: char| !c.is_digit(base)).unwrap_or(digits.len());
    let number = u64::from_str_radix(digits.get(..end)?, base).ok()?;
    Some(if negative { number.wrapping_neg() } else { number })
}

fn offset(text: &str) -> Option<i64> {
    super::content::integer(text).filter(|offset| offset.abs() <= i64::from(i32::MAX))
}

/// `bitmask VALUE`.
fn bitmask(word: &str) -> Option<Outcome<u32>> {
    let head = word.get(..7).filter(|head| head.eq_ignore_ascii_case("bitmask"))?;
    let value = word.get(head.len()..).unwrap_or_default().trim_start();
    let mask = any_base(value).and_then(|mask| u32::try_from(mask).ok());
    Some(mask.ok_or_else(|| format!("{value:?} is not a bitmask").into()))
}

/// List of a check: with `dce` the rule is for DCERPC.
fn place(
    draft: &mut Draft<'_>,
    modifiers: &Modifiers,
) -> Outcome<(List, Option<super::draft::Spot>)> {
    let has_buffer = draft.active().is_some();
    let place = place_of(draft, modifiers.relative)?;
    if modifiers.dce && !has_buffer {
        draft.set_protocol("dcerpc")?;
    }
    Ok(place)
}

fn byte_test(draft: &mut Draft<'_>, value: &str) -> Outcome {
    let parts = parts(value);
    let [count_text, operator, value, offset_text, rest @ ..] = parts.as_slice() else {
        return Err("it needs BYTES, OPERATOR, VALUE, OFFSET".into());
    };
    let mut modifiers = Modifiers::default();
    for word in rest {
        match bitmask(word) {
            Some(mask) => modifiers.mask = Some(mask?),
            None if modifiers.take(word) => {}
            None => return Err(format!("{word:?} is not known").into()),
        }
    }
    if value.contains(char::is_whitespace) {
        return Err(format!("{value:?} is not one number").into());
    }
    let (operator, negated) = test_operator(operator)?;
    modifiers.check_dce()?;
    let (list, before) = place(draft, &modifiers)?;
    let count = amount(draft, count_text, list, count)?;
    modifiers.check_count(count)?;
    let test = ByteTest {
        count,
        operator,
        negated,
        value: amount(draft, value, list, |text| any_base(text).map(|n| n as i64))?,
        offset: amount(draft, offset_text, list, offset)?,
        relative: modifiers.relative,
        encoding: modifiers.encoding(),
        mask: modifiers.mask,
    };
    draft.append(list, Match::ByteTest(test))?;
    if let Some(before) = before {
        mark_next(draft, before, Next::Both);
    }
    Ok(())
}

fn test_operator(text: &str) -> Outcome<(ByteOperator, bool)> {
    let negated = text.starts_with('!');
    let operator = match text.trim_start_matches('!').trim_start() {
        "=" => ByteOperator::Equal,
        "" if negated => ByteOperator::Equal,
        "<" => ByteOperator::Less,
        ">" => ByteOperator::More,
        "&" => ByteOperator::And,
        "^" => ByteOperator::Xor,
        ">=" => ByteOperator::AtLeast,
        "<=" => ByteOperator::AtMost,
        _ => return Err(format!("{text:?} is no operator").into()),
    };
    Ok((operator, negated))
}

fn byte_jump(draft: &mut Draft<'_>, value: &str) -> Outcome {
    let parts = parts(value);
    let [count_text, offset_text, rest @ ..] = parts.as_slice() else {
        return Err("it needs BYTES, OFFSET".into());
    };
    let mut modifiers = Modifiers::default();
    let (mut multiplier, mut align, mut begin, mut end, mut post) = (1, false, false, false, 0);
    for word in rest {
        let (name, argument) = word.split_once([' ', '\t']).unwrap_or((word, ""));
        match name.to_ascii_lowercase().as_str() {
            "from_beginning" => begin = true,
            "from_end" => end = true,
            "align" if argument.is_empty() => align = true,
            "multiplier" => {
                let factor = argument.trim().parse::<u16>().ok().filter(|&factor| factor > 0);
                multiplier = factor.ok_or("the multiplier is 1 to 65535")?;
            }
            "post_offset" => {
                let limit = |number: &i32| i64::from(number.abs()) <= OFFSET_MAX;
                let number = argument.trim().parse::<i32>().ok().filter(limit);
                post = number.ok_or("the post_offset is -65535 to 65535")?;
            }
            _ if modifiers.take(word) => {}
            _ => return Err(format!("{word:?} is not known").into()),
        }
    }
    if begin && end {
        return Err("from_beginning and from_end exclude each other".into());
    }
    if modifiers.dce && begin {
        return Err("dce excludes from_beginning".into());
    }
    modifiers.check_dce()?;
    let (list, before) = place(draft, &modifiers)?;
    let count = amount(draft, count_text, list, count)?;
    modifiers.check_count(count)?;
    let limit = |text: &str| text.parse::<i64>().ok().filter(|n| n.abs() <= OFFSET_MAX);
    let jump = ByteJump {
        count,
        offset: amount(draft, offset_text, list, limit)?,
        relative: modifiers.relative,
        encoding: modifiers.encoding(),
        multiplier,
        align,
        from_beginning: begin,
        from_end: end,
        post_offset: post,
    };
    draft.append(list, Match::ByteJump(jump))?;
    if let Some(before) = before {
        mark_next(draft, before, Next::Both);
    }
    Ok(())
}

/// A number for a new variable: each maker counts for itself in each list, as Suricata does.
fn new_variable(
    draft: &mut Draft<'_>,
    name: &str,
    list: List,
    maker: VariableMaker,
) -> Outcome<u8> {
    let same = draft.variables.iter().filter(|(_, _, of, by)| (*of, *by) == (list, maker));
    let number = same.count() as u8;
    if number >= VARIABLES_MAX {
        return Err(format!("more than {VARIABLES_MAX} byte variables").into());
    }
    draft.variables.push((name.to_owned(), number, list, maker));
    Ok(number)
}

fn byte_extract(draft: &mut Draft<'_>, value: &str) -> Outcome {
    let parts = parts(value);
    let [count_text, offset_text, name, rest @ ..] = parts.as_slice() else {
        return Err("it needs BYTES, OFFSET, NAME".into());
    };
    if name.is_empty() || name.contains(char::is_whitespace) {
        return Err("the name is missing or has spaces".into());
    }
    if offset_text.starts_with('+') {
        return Err("the offset has no sign but -".into());
    }
    check_once(rest)?;
    let mut modifiers = Modifiers::default();
    let (mut multiplier, mut align) = (1, None);
    for word in rest {
        let (keyword, argument) = word.split_once([' ', '\t']).unwrap_or((word, ""));
        match keyword {
            "align" => {
                let bytes = argument.trim().parse::<u8>().ok().filter(|n| matches!(n, 2 | 4));
                align = Some(bytes.ok_or("align is 2 or 4")?);
            }
            "multiplier" => {
                let factor = argument.trim().parse::<u16>().ok().filter(|&factor| factor > 0);
                multiplier = factor.ok_or("the multiplier is 1 to 65535")?;
            }
            "slice" => return Err("slice is not supported, nor is it in Suricata".into()),
            "oct" | "dec" | "hex" if !modifiers.text => {
                return Err("\"string\" must be before its base".into());
            }
            _ if modifiers.take(word) => {}
            _ => return Err(format!("{word:?} is not known").into()),
        }
    }
    if modifiers.text && (modifiers.has_endian || modifiers.dce) {
        return Err("string excludes an order of bytes".into());
    }
    let count = count_text.parse::<u8>().map_err(|_| "the number of bytes is 0 to 255")?;
    let most = match (modifiers.text, modifiers.base) {
        (false, _) => 8,
        (true, Some(10)) => 20,
        (true, Some(16)) => 14,
        (true, _) => 23,
    };
    if count > most {
        return Err(format!("{count} bytes are more than {most}").into());
    }
    let (list, before) = place(draft, &modifiers)?;
    let offset = offset_text.parse::<i16>().map_err(|_| "the offset is -32768 to 32767")?;
    let extract = ByteExtract {
        count,
        offset: i32::from(offset),
        relative: modifiers.relative,
        encoding: modifiers.encoding(),
        multiplier,
        align,
        variable: new_variable(draft, name, list, VariableMaker::Extract)?,
    };
    draft.append(list, Match::ByteExtract(extract))?;
    if let Some(before) = before {
        mark_next(draft, before, Next::Both);
    }
    Ok(())
}

/// The parts of `byte_math` as they are written.
#[derive(Default)]
struct MathParts<'v> {
    count: Option<&'v str>,
    offset: Option<&'v str>,
    operator: Option<&'v str>,
    right: Option<&'v str>,
    result: Option<&'v str>,
    modifiers: Modifiers,
}

impl<'v> MathParts<'v> {
    fn read(value: &'v str) -> Outcome<Self> {
        let mut out = MathParts::default();
        let parts = parts(value);
        let endian = |part: &&&str| part.starts_with("endian") || **part == "dce";
        if parts.iter().filter(endian).count() > 1 {
            return Err("the order of bytes is there twice".into());
        }
        check_once(&parts)?;
        for word in parts {
            let (name, argument) = word.split_once([' ', '\t']).unwrap_or((word, ""));
            let argument = argument.trim();
            let slot = match name {
                "bytes" => &mut out.count,
                "offset" => &mut out.offset,
                "oper" => &mut out.operator,
                "rvalue" => &mut out.right,
                "result" => &mut out.result,
                _ => {
                    out.modifier(name, argument)?;
                    continue;
                }
            };
            if slot.replace(argument).is_some() {
                return Err(format!("{name} is there twice").into());
            }
        }
        Ok(out)
    }

    fn modifier(&mut self, name: &str, argument: &str) -> Outcome {
        let modifiers = &mut self.modifiers;
        match name {
            "relative" => modifiers.relative = true,
            "dce" => modifiers.dce = true,
            "endian" if argument == "dce" => modifiers.dce = true,
            "endian" if matches!(argument, "big" | "little") => {
                modifiers.take(argument);
            }
            "string" if matches!(argument, "hex" | "dec" | "oct") => {
                modifiers.text = true;
                modifiers.take(argument);
            }
            "bitmask" => {
                let hex = argument.trim_start_matches("0x").trim_start_matches("0X");
                let mask = u32::from_str_radix(hex, 16).map_err(|_| "the bitmask is hex")?;
                modifiers.mask = Some(mask);
            }
            _ => return Err(format!("{name} {argument} is not known").into()),
        }
        Ok(())
    }
}

fn byte_math(draft: &mut Draft<'_>, value: &str) -> Outcome {
    let parts = MathParts::read(value)?;
    if parts.modifiers.dce {
        return Err("dce cannot be used here, nor can it in Suricata".into());
    }
    let needed = "it needs bytes, offset, oper, rvalue and result";
    let operator = match parts.operator.ok_or(needed)? {
        "+" => MathOperator::Add,
        "-" => MathOperator::Subtract,
        "*" => MathOperator::Multiply,
        "/" => MathOperator::Divide,
        "<<" => MathOperator::ShiftLeft,
        ">>" => MathOperator::ShiftRight,
        other => return Err(format!("{other:?} is no operator").into()),
    };
    let has_buffer = draft.active().is_some();
    let (list, before) = place(draft, &parts.modifiers)?;
    if has_buffer && parts.modifiers.relative && before.is_none() {
        return Err("nothing is before it that it could be relative to".into());
    }
    let limit = |text: &str| text.parse::<i64>().ok().filter(|n| (1..=10).contains(n));
    let count = amount(draft, parts.count.ok_or(needed)?, list, limit)?;
    let is_shift = matches!(operator, MathOperator::ShiftLeft | MathOperator::ShiftRight);
    if is_shift && matches!(count, Amount::Fixed(count) if count > 4) {
        return Err("at most 4 bytes are shifted".into());
    }
    let offset = parts.offset.ok_or(needed)?.parse::<i32>().ok();
    let offset = offset.filter(|&offset| i64::from(offset).abs() <= OFFSET_MAX);
    let math = ByteMath {
        count,
        offset: offset.ok_or("the offset is -65535 to 65535")?,
        relative: parts.modifiers.relative,
        encoding: parts.modifiers.encoding(),
        operator,
        right: amount(draft, parts.right.ok_or(needed)?, list, |text| {
            text.parse::<u32>().ok().map(i64::from)
        })?,
        mask: parts.modifiers.mask,
        variable: new_variable(draft, parts.result.ok_or(needed)?, list, VariableMaker::Math)?,
    };
    draft.append(list, Match::ByteMath(math))?;
    if let Some(before) = before {
        mark_next(draft, before, Next::Both);
    }
    Ok(())
}

/// `NAME NUMBER`, with a comma behind it or not, at the beginning of what is left.
fn take_number(rest: &mut &str, name: &str) -> Outcome<Option<u32>> {
    let Some(behind) = rest.trim_start().strip_prefix(name) else { return Ok(None) };
    let text = behind.trim_start();
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, behind) = text.split_at(end);
    *rest = behind.strip_prefix(',').unwrap_or(behind);
    digits.parse().map(Some).map_err(|_| format!("{name} is no number").into())
}

fn base64_decode(draft: &mut Draft<'_>, value: &str) -> Outcome {
    let mut decode = Base64Decode { bytes: Some(BASE64_BYTES_MAX), offset: 0, relative: false };
    let mut rest = value;
    if let Some(bytes) = take_number(&mut rest, "bytes")? {
        let bytes = u16::try_from(bytes).map_err(|_| "bytes is 0 to 65535")?;
        decode.bytes = Some(if bytes == 0 { BASE64_BYTES_MAX } else { bytes.into() });
    }
    if let Some(offset) = take_number(&mut rest, "offset")? {
        decode.offset = offset;
    }
    // One word may follow; what comes behind it is not looked at, as in Suricata.
    let rest = rest.trim_start();
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
    decode.relative = match rest.get(..end) {
        Some("relative") => true,
        Some("") | None => false,
        Some(word) => return Err(format!("{word:?} is not known here").into()),
    };
    let list = match draft.settle()? {
        Some(list) => list,
        None => {
            let before = draft.last(is_anchor).and_then(|before| draft.list_of(before));
            before.unwrap_or(List::Payload)
        }
    };
    draft.append(list, Match::Base64Decode(decode)).map(|_| ())
}

fn base64_data(draft: &mut Draft<'_>, _: &str) -> Outcome {
    let decode = draft.last(|item| matches!(item, Match::Base64Decode(_)));
    decode.ok_or("base64_decode must be before it")?;
    draft.activate_base64();
    Ok(())
}
