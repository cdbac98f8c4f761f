//! The records of a pack by columns: what is alike lies side by side, and takes a twentieth less
//! once it is compressed than record after record does.
//!
//! A record is MessagePack. Each place in it (a field, or the elements of a list) has a column of
//! what its values are, and another one of heads: what MessagePack has before that, its type and
//! its length. Where the first value is a string, heads go to one column for all such places: the
//! lengths of a record's strings come in the same order in the next one.
//!
//! The fields of a place are numbered from 1 as they are first seen there. After the head of a map
//! there is, in the same column, the number of each of its fields, or 0 for the one after the field
//! before it (at the beginning: the first). The name of a field with a new number, as MessagePack,
//! is next in the column of names. Places are numbered as they are first seen, too, so that who
//! reads the records in their order numbers them alike.
//!
//! The whole is, in LEB128: number of places, bytes of the column of names, of that of common
//! heads, then for each place those of its values and of its heads, 1 more, 0 if they are in the
//! common column; then names; heads of places; common heads; values of places with heads of their
//! own; values of the others. Nothing here knows what a record means: what newer programs write
//! comes back byte for byte.

use std::ops::Range;

use super::{push_number, take_number};

/// Most places: records have about a hundred.
const PLACES_MAX: usize = 4096;
/// Most values within each other.
const DEPTH_MAX: usize = 32;

/// What MessagePack has before the bytes of a value.
struct Head {
    /// Its own bytes.
    bytes: usize,
    holds: Holds,
}

/// What follows a head.
enum Holds {
    /// So many bytes.
    Bytes(usize),
    /// So many values.
    List(usize),
    /// So many fields, each a name and a value.
    Map(usize),
}

/// In [`SHORT`]: something else.
const LONGER: u8 = u8::MAX;
/// By the first byte of a head that has one byte and is followed by bytes alone, how many.
const SHORT: [u8; 256] = {
    let mut short = [LONGER; 256];
    let mut kind = 0;
    while kind < short.len() {
        short[kind] = match kind {
            0x00..=0x7f | 0xe0..=0xff | 0xc0 | 0xc2 | 0xc3 => 0,
            0xa0..=0xbf => kind as u8 & 0x1f,
            0xcc | 0xd0 => 1,
            0xcd | 0xd1 => 2,
            0xca | 0xce | 0xd2 => 4,
            0xcb | 0xcf | 0xd3 => 8,
            _ => LONGER,
        };
        kind += 1;
    }
    short
};

/// The head at the start; none if it is cut, or of no type that records have.
fn head(at: &[u8]) -> Option<Head> {
    let (&kind, rest) = at.split_first()?;
    let short = *SHORT.get(usize::from(kind))?;
    if short != LONGER {
        return Some(Head { bytes: 1, holds: Holds::Bytes(usize::from(short)) });
    }
    let low = |mask: u8| usize::from(kind & mask);
    let number = |bytes: usize| {
        let bytes = rest.get(..bytes)?;
        let next = |number: usize, byte: &u8| number << 8 | usize::from(*byte);
        Some((1 + bytes.len(), bytes.iter().fold(0, next)))
    };
    let (bytes, holds) = match kind {
        0x80..=0x8f => (1, Holds::Map(low(0x0f))),
        0x90..=0x9f => (1, Holds::List(low(0x0f))),
        0xc4 | 0xd9 => number(1).map(|(bytes, n)| (bytes, Holds::Bytes(n)))?,
        0xc5 | 0xda => number(2).map(|(bytes, n)| (bytes, Holds::Bytes(n)))?,
        0xc6 | 0xdb => number(4).map(|(bytes, n)| (bytes, Holds::Bytes(n)))?,
        0xdc => number(2).map(|(bytes, n)| (bytes, Holds::List(n)))?,
        0xdd => number(4).map(|(bytes, n)| (bytes, Holds::List(n)))?,
        0xde => number(2).map(|(bytes, n)| (bytes, Holds::Map(n)))?,
        0xdf => number(4).map(|(bytes, n)| (bytes, Holds::Map(n)))?,
        // Extensions, and what MessagePack leaves open.
        _ => return None,
    };
    Some(Head { bytes, holds })
}

/// Takes so many bytes off the front.
fn take<'b>(rest: &mut &'b [u8], bytes: usize) -> Option<&'b [u8]> {
    let (taken, after) = rest.split_at_checked(bytes)?;
    *rest = after;
    Some(taken)
}

/// Where values are: a field, or the elements of a list.
struct Place<'n> {
    /// Names, as MessagePack, and places of the fields that were seen here, in that order.
    fields: Vec<(&'n [u8], usize)>,
    /// The place of the elements.
    elements: Option<usize>,
}

/// All places that were seen, by their numbers.
struct Places<'n>(Vec<Place<'n>>);

impl<'n> Places<'n> {
    fn new() -> Self {
        Places(vec![Place { fields: Vec::new(), elements: None }])
    }

    fn add(&mut self) -> Option<usize> {
        let number = self.0.len();
        self.0.push(Place { fields: Vec::new(), elements: None });
        (number < PLACES_MAX).then_some(number)
    }

    fn elements(&mut self, of: usize) -> Option<usize> {
        if let Some(known) = self.0.get(of)?.elements {
            return Some(known);
        }
        let number = self.add()?;
        self.0.get_mut(of)?.elements = Some(number);
        Some(number)
    }

    fn field(&self, of: usize, nth: usize) -> Option<(&'n [u8], usize)> {
        self.0.get(of)?.fields.get(nth).copied()
    }

    fn add_field(&mut self, of: usize, name: &'n [u8]) -> Option<usize> {
        let number = self.add()?;
        self.0.get_mut(of)?.fields.push((name, number));
        Some(number)
    }
}

/// The records, which follow one another, by columns. None if one is not what is expected: then
/// they stay as they are.
pub(super) fn split(records: &[u8]) -> Option<Vec<u8>> {
    let mut splitter = Splitter {
        places: Places::new(),
        columns: vec![Column::default()],
        common: Vec::new(),
        names: Vec::new(),
    };
    let mut rest = records;
    while !rest.is_empty() {
        splitter.value(&mut rest, 0, DEPTH_MAX)?;
    }
    Some(splitter.finish(records.len()))
}

/// What the values of a place are.
#[derive(Default)]
struct Column {
    heads: Vec<u8>,
    values: Vec<u8>,
    /// Heads are in the common column; none before the first value.
    is_common: Option<bool>,
}

struct Splitter<'r> {
    places: Places<'r>,
    columns: Vec<Column>,
    common: Vec<u8>,
    names: Vec<u8>,
}

impl<'r> Splitter<'r> {
    /// Where heads of this place go.
    fn heads(&mut self, place: usize) -> Option<&mut Vec<u8>> {
        let column = self.columns.get_mut(place)?;
        let is_common = column.is_common == Some(true);
        Some(if is_common { &mut self.common } else { &mut column.heads })
    }

    fn value(&mut self, rest: &mut &'r [u8], place: usize, depth: usize) -> Option<()> {
        let depth = depth.checked_sub(1)?;
        let is_string = matches!(rest.first(), Some(0xa0..=0xbf | 0xd9..=0xdb));
        self.columns.get_mut(place)?.is_common.get_or_insert(is_string);
        let head = head(rest)?;
        let taken = take(rest, head.bytes)?;
        self.heads(place)?.extend_from_slice(taken);
        match head.holds {
            Holds::Bytes(bytes) => {
                self.columns.get_mut(place)?.values.extend_from_slice(take(rest, bytes)?);
            }
            Holds::List(count) => {
                let elements = self.places.elements(place)?;
                self.make_columns();
                for _ in 0..count {
                    self.value(rest, elements, depth)?;
                }
            }
            Holds::Map(count) => {
                let mut next = 0;
                for _ in 0..count {
                    let nth = self.name(rest, place, next)?;
                    let (_, field) = self.places.field(place, nth)?;
                    self.value(rest, field, depth)?;
                    next = nth + 1;
                }
            }
        }
        Some(())
    }

    /// Takes the name of a field; where it is among those of the place.
    fn name(&mut self, rest: &mut &'r [u8], place: usize, next: usize) -> Option<usize> {
        let head = head(rest)?;
        let Holds::Bytes(bytes @ 1..) = head.holds else { return None };
        let name = take(rest, head.bytes + bytes)?;
        let known = &self.places.0.get(place)?.fields;
        let is_it = |(other, _): &(&[u8], usize)| *other == name;
        let (nth, seen) = match known.get(next).is_some_and(is_it) {
            true => (next, true),
            false => known.iter().position(is_it).map_or((known.len(), false), |nth| (nth, true)),
        };
        let number = if seen && nth == next { 0 } else { nth + 1 };
        push_number(self.heads(place)?, number);
        if !seen {
            self.names.extend_from_slice(name);
            self.places.add_field(place, name)?;
            self.make_columns();
        }
        Some(nth)
    }

    fn make_columns(&mut self) {
        self.columns.resize_with(self.places.0.len(), Column::default);
    }

    fn finish(self, bytes: usize) -> Vec<u8> {
        let mut out = Vec::with_capacity(bytes);
        push_number(&mut out, self.columns.len());
        push_number(&mut out, self.names.len());
        push_number(&mut out, self.common.len());
        let is_common = |column: &Column| column.is_common == Some(true);
        for column in &self.columns {
            push_number(&mut out, column.values.len());
            push_number(&mut out, if is_common(column) { 0 } else { column.heads.len() + 1 });
        }
        out.extend_from_slice(&self.names);
        self.columns.iter().for_each(|column| out.extend_from_slice(&column.heads));
        out.extend_from_slice(&self.common);
        for common in [false, true] {
            for column in self.columns.iter().filter(|column| is_common(column) == common) {
                out.extend_from_slice(&column.values);
            }
        }
        out
    }
}

/// The records that were split, which have so many bytes together. None if the columns are damaged.
pub(super) fn join(columns: &[u8], bytes: usize) -> Option<Vec<u8>> {
    let mut joiner = Joiner::of(columns, bytes)?;
    joiner.reserve(bytes, columns.len());
    while joiner.made < bytes {
        joiner.value::<true>(0, DEPTH_MAX)?;
    }
    (joiner.made == bytes && joiner.is_through()).then_some(joiner.out)
}

/// The one record that has these bytes of all records: those before it are passed over without
/// being made, what comes after it is not looked at. None if the columns are damaged.
pub(super) fn join_one(columns: &[u8], record: Range<usize>) -> Option<Vec<u8>> {
    let mut joiner = Joiner::of(columns, record.end)?;
    while joiner.made < record.start {
        joiner.value::<false>(0, DEPTH_MAX)?;
    }
    if joiner.made > record.start {
        return None;
    }
    joiner.reserve(record.len(), columns.len());
    joiner.value::<true>(0, DEPTH_MAX)?;
    (joiner.made == record.end).then_some(joiner.out)
}

struct Joiner<'c> {
    places: Places<'c>,
    /// Heads of each place, if they are its own, and its values, as far as they were not read yet.
    columns: Vec<(Option<&'c [u8]>, &'c [u8])>,
    common: &'c [u8],
    names: &'c [u8],
    /// Bytes of the records so far.
    made: usize,
    /// Of those, the ones that are kept.
    out: Vec<u8>,
    /// Bytes that there may be.
    most: usize,
}

impl<'c> Joiner<'c> {
    fn of(all: &'c [u8], most: usize) -> Option<Self> {
        let mut rest = all;
        let places = take_number(&mut rest).filter(|places| (1..=PLACES_MAX).contains(places))?;
        let (names, common) = (take_number(&mut rest)?, take_number(&mut rest)?);
        let mut lengths = Vec::with_capacity(places);
        for _ in 0..places {
            let (values, heads) = (take_number(&mut rest)?, take_number(&mut rest)?);
            lengths.push((heads.checked_sub(1), values));
        }
        let names = take(&mut rest, names)?;
        let mut columns: Vec<(Option<&[u8]>, &[u8])> = Vec::with_capacity(places);
        for (heads, _) in &lengths {
            let heads = heads.map(|heads| take(&mut rest, heads));
            columns.push((heads.map_or(Some(None), |heads| heads.map(Some))?, &[]));
        }
        let common = take(&mut rest, common)?;
        for is_common in [false, true] {
            for (column, (_, length)) in columns.iter_mut().zip(&lengths) {
                if column.0.is_none() == is_common {
                    column.1 = take(&mut rest, *length)?;
                }
            }
        }
        let (places, out) = (Places::new(), Vec::new());
        Some(Joiner { places, columns, common, names, made: 0, out, most })
    }

    /// Makes room for what is kept, which is said to have so many bytes.
    fn reserve(&mut self, bytes: usize, columns: usize) {
        // What is claimed may be wrong; the columns are there.
        self.out.reserve(bytes.min(16 * columns.max(4096)));
    }

    fn put<const KEEP: bool>(&mut self, bytes: &[u8]) {
        self.made += bytes.len();
        if KEEP {
            self.out.extend_from_slice(bytes);
        }
    }

    fn is_through(&self) -> bool {
        let rest = |(heads, values): &(Option<&[u8]>, &[u8])| {
            heads.is_none_or(<[u8]>::is_empty) && values.is_empty()
        };
        self.names.is_empty() && self.common.is_empty() && self.columns.iter().all(rest)
    }

    /// The heads that this place has next.
    fn heads(&mut self, place: usize) -> Option<&mut &'c [u8]> {
        let (heads, _) = self.columns.get_mut(place)?;
        Some(heads.as_mut().unwrap_or(&mut self.common))
    }

    /// Takes the next value of this place, and keeps it or not.
    fn value<const KEEP: bool>(&mut self, place: usize, depth: usize) -> Option<()> {
        let (heads, values) = self.columns.get_mut(place)?;
        let heads = heads.as_mut().unwrap_or(&mut self.common);
        // Nearly all values are of these, and a search passes over tens of thousands.
        let short = *SHORT.get(usize::from(*heads.first()?))?;
        if short != LONGER {
            let (taken, value) = (take(heads, 1)?, take(values, usize::from(short))?);
            self.put::<KEEP>(taken);
            self.put::<KEEP>(value);
            return Some(());
        }
        let depth = depth.checked_sub(1)?;
        let head = head(heads)?;
        let taken = take(heads, head.bytes)?;
        match head.holds {
            Holds::Bytes(count) => {
                let value = take(values, count)?;
                self.put::<KEEP>(taken);
                self.put::<KEEP>(value);
            }
            Holds::List(count) => {
                self.put::<KEEP>(taken);
                let elements = self.places.elements(place)?;
                for _ in 0..count {
                    self.value::<KEEP>(elements, depth)?;
                }
            }
            Holds::Map(count) => {
                self.put::<KEEP>(taken);
                if self.are_in_turn(place, count) {
                    for nth in 0..count {
                        let (name, field) = self.places.field(place, nth)?;
                        self.put::<KEEP>(name);
                        self.value::<KEEP>(field, depth)?;
                    }
                } else {
                    self.fields::<KEEP>(place, count, depth)?;
                }
            }
        }
        // A name takes a byte of a column, and is longer.
        (self.made <= self.most).then_some(())
    }

    /// Whether so many fields of this place are its first ones in their order, as those of most
    /// maps are. Takes their numbers then.
    fn are_in_turn(&mut self, place: usize, count: usize) -> bool {
        let Some((Some(heads), _)) = self.columns.get_mut(place) else { return false };
        let Some((numbers, after)) = heads.split_at_checked(count) else { return false };
        if numbers.iter().any(|number| *number != 0) {
            return false;
        }
        *heads = after;
        true
    }

    /// Takes so many fields of this place.
    fn fields<const KEEP: bool>(&mut self, place: usize, count: usize, depth: usize) -> Option<()> {
        let mut next = 0;
        for _ in 0..count {
            let (nth, name, field) = self.name(place, next)?;
            self.put::<KEEP>(name);
            self.value::<KEEP>(field, depth)?;
            next = nth + 1;
        }
        Some(())
    }

    /// The next field of this place: which one, its name and its place.
    fn name(&mut self, place: usize, next: usize) -> Option<(usize, &'c [u8], usize)> {
        let nth = take_number(self.heads(place)?)?.checked_sub(1).unwrap_or(next);
        if let Some((name, field)) = self.places.field(place, nth) {
            return Some((nth, name, field));
        }
        let head = head(self.names)?;
        let Holds::Bytes(bytes @ 1..) = head.holds else { return None };
        let name = take(&mut self.names, head.bytes.checked_add(bytes)?)?;
        let is_next = self.places.0.get(place)?.fields.len() == nth;
        let field = self.places.add_field(place, name).filter(|_| is_next)?;
        Some((nth, name, field))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packed(json: &str) -> Vec<u8> {
        rmp_serde::to_vec_named(&serde_json::from_str::<serde_json::Value>(json).unwrap()).unwrap()
    }

    #[test]
    fn records_come_back_byte_for_byte() {
        let long = format!(r#"{{"text": "{}", "list": {:?}}}"#, "é".repeat(40_000), [7; 70_000]);
        let records = [
            r#"{"id": "one", "size": 7, "hits": [{"rule": "A", "score": 1.5}, {"rule": "B"}]}"#,
            r#"{"id": "two", "size": -70000, "hits": []}"#,
            r#"{"size": 7, "id": "out of order", "new": {"deep": [[1, [2, "x"]], null, true]}}"#,
            r#"{"hits": [{"score": 0.25, "other": 5000000000, "rule": "C"}], "id": ""}"#,
            r#"{}"#,
            r#"[1, 2, 3]"#,
            r#""text""#,
            &long,
        ];
        for count in 0..=records.len() {
            let plain: Vec<u8> = records[..count].iter().flat_map(|json| packed(json)).collect();
            let columns = split(&plain).unwrap();
            assert_eq!(join(&columns, plain.len()).unwrap(), plain, "the first {count}");
            assert!(count == 0 || join(&columns, plain.len() - 1).is_none());
            assert!(join(&columns, plain.len() + 1).is_none());
            let mut start = 0;
            for json in &records[..count] {
                let record = start..start + packed(json).len();
                start = record.end;
                assert_eq!(join_one(&columns, record.clone()).unwrap(), packed(json));
                assert!(join_one(&columns, record.start..record.end - 1).is_none());
                assert!(join_one(&columns, record.start + 1..record.end).is_none());
            }
            assert!(join_one(&columns, start..start + 1).is_none());
        }
    }

    #[test]
    fn what_is_not_expected_stays_as_it_is() {
        let deep = format!("{}{}", "[".repeat(40), "]".repeat(40));
        let fields: Vec<String> = (0..5000).map(|n| format!("\"{n}\": 1")).collect();
        let many = format!("{{{}}}", fields.join(","));
        for odd in [
            packed(&deep),
            packed(&many),
            vec![0xc1],
            vec![0xd4, 1, 2],
            vec![0x81, 1, 2],
            vec![0xa5, b'x'],
            vec![0xd9],
        ] {
            assert_eq!(split(&odd), None, "{:?}", &odd[..odd.len().min(8)]);
        }
    }

    #[test]
    fn damage_is_told_and_bounded() {
        let record = r#"{"id": "one", "hits": [{"rule": "A", "score": 1.5}, {"rule": "B"}]}"#;
        let plain: Vec<u8> = (0..5).flat_map(|_| packed(record)).collect();
        let columns = split(&plain).unwrap();
        for end in 0..columns.len() {
            assert_eq!(join(&columns[..end], plain.len()), None, "cut at {end}");
            let record = plain.len() * 4 / 5..plain.len();
            assert_eq!(join_one(&columns[..end], record), None, "cut at {end}");
        }
        for at in 0..columns.len() {
            for bit in 0..8 {
                let mut wrong = columns.clone();
                wrong[at] ^= 1 << bit;
                let joined = join(&wrong, plain.len());
                assert!(joined.is_none_or(|joined| joined.len() == plain.len()));
            }
        }
        // A list that claims four billion elements.
        assert_eq!(join(&[1, 0, 0, 0, 6, 0xdd, 0xff, 0xff, 0xff, 0xff], 1 << 20), None);
    }
}
