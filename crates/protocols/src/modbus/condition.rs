//! What rules ask of Modbus: `modbus: unit 10, access write coils, address 5, value 1`.

use std::ops::RangeInclusive;

use super::message::{self, Data, Message, Way, access, category};

/// A condition of the keyword `modbus`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Condition {
    unit: Option<Range>,
    category: Option<u8>,
    function: Option<u8>,
    subfunction: Option<u16>,
    access: Option<u8>,
    address: Option<Range>,
    value: Option<Range>,
}

/// `5`, `<5`, `>5`, `5<>9` (between, both excluded).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Range {
    start: u16,
    end: u16,
}

impl Range {
    fn read(text: &str) -> Option<Self> {
        let number = |text: &str| text.trim().parse().ok();
        let text = text.trim();
        if let Some((start, end)) = text.split_once("<>") {
            return Some(Self { start: number(start)?, end: number(end)? });
        }
        if let Some(end) = text.strip_prefix('<') {
            return Some(Self { start: 0, end: number(end)? });
        }
        if let Some(start) = text.strip_prefix('>') {
            return Some(Self { start: number(start)?, end: u16::MAX });
        }
        let number = number(text)?;
        Some(Self { start: number, end: number })
    }

    /// Whether one of these is in it.
    fn meets(self, values: &RangeInclusive<u16>) -> bool {
        let (first, last) = (*values.start(), *values.end());
        match self {
            Self { start, end } if start == end => values.contains(&start),
            Self { start: 0, end } => end > first,
            Self { start, end: u16::MAX } => start < last,
            Self { start, end } => start < last && first < end,
        }
    }

    fn has(self, value: u16) -> bool {
        match self {
            Self { start, end } if start == end => start == value,
            Self { start: 0, end } => end > value,
            Self { start, end: u16::MAX } => start < value,
            Self { start, end } => start < value && value < end,
        }
    }
}

impl Condition {
    /// Of what is behind the keyword. `None`: it cannot be read.
    pub fn of_text(text: &str) -> Option<Self> {
        let text = text.trim().trim_matches('"').trim();
        let mut made = Self::default();
        for (place, part) in text.split(',').map(str::trim).enumerate() {
            let (word, rest) = part.split_once(char::is_whitespace)?;
            let rest = rest.trim();
            let has_kind = made.access.is_some() || made.function.or(made.category).is_some();
            match word {
                "unit" if place == 0 => made.unit = Some(Range::read(rest)?),
                "function" if !has_kind => made.read_function(rest)?,
                "subfunction" if made.function.is_some() => {
                    made.subfunction = Some(rest.parse().ok()?);
                }
                "access" if !has_kind => made.access = Some(read_access(rest)?),
                "address" if made.access.is_some() && made.address.is_none() => {
                    made.address = Some(Range::read(rest)?);
                }
                "value" if made.value.is_none() => {
                    made.address.filter(|address| address.start == address.end)?;
                    made.access.filter(|bits| *bits != access::READ)?;
                    made.value = Some(Range::read(rest)?);
                }
                _ => return None,
            }
        }
        Some(made)
    }

    fn read_function(&mut self, text: &str) -> Option<()> {
        if let Ok(number) = text.parse::<u8>() {
            self.function = Some(number).filter(|number| *number != 0);
            return self.function.map(|_| ());
        }
        let name = text.strip_prefix('!').unwrap_or(text);
        let public = category::ASSIGNED | category::UNASSIGNED;
        let bits = match name {
            "assigned" => category::ASSIGNED,
            "unassigned" => category::UNASSIGNED,
            "public" => public,
            "user" => category::USER,
            "reserved" => category::RESERVED,
            "all" => public | category::USER | category::RESERVED,
            _ => return None,
        };
        self.category = Some(if name.len() < text.len() { !bits } else { bits });
        Some(())
    }

    /// Whether it holds for a transaction, by its buffer `modbus.message`.
    pub fn holds(&self, buffer: &[u8]) -> bool {
        let Some((way, bytes)) = buffer.split_first() else { return false };
        let way = if *way == 0 { Way::Request } else { Way::Response };
        message::read(bytes, way).is_ok_and(|(message, _)| self.fits(&message))
    }

    fn fits(&self, message: &Message) -> bool {
        if self.unit.is_some_and(|unit| !unit.has(message.unit.into())) {
            return false;
        }
        if let Some(wanted) = self.access {
            let ways = wanted & (access::READ | access::WRITE);
            let tables = wanted & access::TABLES;
            return message.access & ways != 0
                && (tables == 0 || message.access & tables != 0)
                && self.fits_data(message);
        }
        if let Some(category) = self.category {
            return message.category & category != 0;
        }
        let Some(function) = self.function else { return true };
        // Functions without a name are all alike.
        let is_same = |one: u8, two: u8| one == two || !(is_known(one) || is_known(two));
        is_same(function, message.function & 0x7f)
            && self.subfunction.is_none_or(|wanted| message.data == Data::Diagnostic(wanted))
    }

    fn fits_data(&self, message: &Message) -> bool {
        let Some(address) = self.address else { return true };
        if !message.places().is_some_and(|places| address.meets(&places)) {
            return false;
        }
        let Some(value) = self.value else { return true };
        message.written(address.start).is_some_and(|written| value.has(written))
    }
}

fn is_known(function: u8) -> bool {
    matches!(function, 1..=24 | 43)
}

fn read_access(text: &str) -> Option<u8> {
    let mut words = text.split_whitespace();
    let way = match words.next()? {
        "read" => access::READ,
        "write" => access::WRITE,
        _ => return None,
    };
    let table = match (words.next(), way) {
        (None, _) => 0,
        (Some("coils"), _) => access::COILS,
        (Some("holding"), _) => access::HOLDING,
        (Some("discretes"), access::READ) => access::DISCRETES,
        (Some("input"), access::READ) => access::INPUT,
        _ => return None,
    };
    words.next().is_none().then_some(way | table)
}
