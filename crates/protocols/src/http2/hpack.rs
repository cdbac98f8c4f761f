//! Compressed header fields (HPACK, RFC 7541), with a bounded table.

use std::collections::VecDeque;
use std::sync::Arc;

use super::huffman;

/// What each entry of a table costs besides its bytes (section 4.1).
const ENTRY_BYTES: usize = 32;
/// Size of a table until the peer says otherwise.
const SIZE_DEFAULT: usize = 4096;

/// A header field, or what stood in its place.
#[derive(Debug, Clone)]
pub(super) enum Field {
    /// Name and value.
    Pair(Arc<[u8]>, Arc<[u8]>),
    /// The table gets another size.
    SizeUpdate(u64),
    /// An index of nothing.
    NotIndexed,
    /// Index 0.
    IndexZero,
    /// A number that is too long.
    Overflow,
}

impl Field {
    /// Name and value; empty of what is none.
    pub(super) fn pair(&self) -> (&[u8], &[u8]) {
        match self {
            Field::Pair(name, value) => (name, value),
            _ => (&[], &[]),
        }
    }
}

/// Name and value.
type Pair = (Arc<[u8]>, Arc<[u8]>);

/// Why a block cannot be read to its end.
enum Stop {
    /// It is cut off.
    Short,
    /// A number that is too long.
    Overflow,
}

/// The table of one direction.
#[derive(Debug)]
pub(super) struct Table {
    entries: VecDeque<Pair>,
    size: usize,
    /// What the peer allows.
    pub size_max: usize,
    /// More than is kept here was allowed: the first entries are kept.
    overflow: Overflow,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Overflow {
    No,
    Possible,
    Happened,
}

impl Default for Table {
    fn default() -> Self {
        Self { entries: VecDeque::new(), size: 0, size_max: SIZE_DEFAULT, overflow: Overflow::No }
    }
}

impl Table {
    /// The other end allows this size; more than `kept_max` is not kept.
    pub(super) fn allow(&mut self, size: usize, kept_max: usize) {
        self.size_max = size;
        self.overflow = if size > kept_max { Overflow::Possible } else { Overflow::No };
    }

    /// Reads a block of fields. `None`: it is cut off, nothing counts.
    pub(super) fn read(&mut self, bytes: &[u8], kept_max: usize) -> Option<Vec<Field>> {
        let (mut fields, mut rest) = (Vec::new(), bytes);
        while !rest.is_empty() {
            match self.field(rest, kept_max) {
                Ok((field, after)) => {
                    fields.push(field);
                    rest = after;
                }
                Err(Stop::Short) => return None,
                Err(Stop::Overflow) => {
                    fields.push(Field::Overflow);
                    break;
                }
            }
        }
        Some(fields)
    }

    fn field<'a>(&mut self, bytes: &'a [u8], kept_max: usize) -> Result<(Field, &'a [u8]), Stop> {
        let (&first, rest) = bytes.split_first().ok_or(Stop::Short)?;
        if first & 0x80 != 0 {
            let (index, rest) = number(rest, first, 0x7f)?;
            return Ok((self.indexed(index), rest));
        }
        if first & 0x40 != 0 {
            let (index, rest) = number(rest, first, 0x3f)?;
            let ((name, value), rest) = self.literal(index, rest)?;
            self.add(name.clone(), value.clone(), kept_max);
            return Ok((Field::Pair(name, value), rest));
        }
        if first & 0x20 != 0 {
            let (size, rest) = number(rest, first, 0x1f)?;
            self.shrink(usize::try_from(size).unwrap_or(usize::MAX));
            return Ok((Field::SizeUpdate(size), rest));
        }
        let (index, rest) = number(rest, first, 0x0f)?;
        let ((name, value), rest) = self.literal(index, rest)?;
        Ok((Field::Pair(name, value), rest))
    }

    fn literal<'a>(&self, index: u64, bytes: &'a [u8]) -> Result<(Pair, &'a [u8]), Stop> {
        let (name, rest) = if index == 0 {
            let (name, rest) = string(bytes)?;
            (name.into(), rest)
        } else {
            let name = match self.indexed(index) {
                Field::Pair(name, _) => name,
                _ => Vec::new().into(),
            };
            (name, bytes)
        };
        let (value, rest) = string(rest)?;
        Ok(((name, value.into()), rest))
    }

    fn indexed(&self, index: u64) -> Field {
        let Ok(index) = usize::try_from(index) else { return Field::NotIndexed };
        let Some(place) = index.checked_sub(1) else { return Field::IndexZero };
        if let Some((name, value)) = STATIC.get(place) {
            return Field::Pair(name.as_bytes().into(), value.as_bytes().into());
        }
        // The newest entry comes first.
        let back = self.entries.len().checked_sub(place - STATIC.len() + 1);
        match back.and_then(|place| self.entries.get(place)) {
            Some((name, value)) => Field::Pair(name.clone(), value.clone()),
            None => Field::NotIndexed,
        }
    }

    fn add(&mut self, name: Arc<[u8]>, value: Arc<[u8]>, kept_max: usize) {
        self.size += ENTRY_BYTES + name.len() + value.len();
        match self.overflow {
            Overflow::No => self.entries.push_back((name, value)),
            Overflow::Possible if self.size <= kept_max => self.entries.push_back((name, value)),
            Overflow::Possible if self.size > self.size_max => self.overflow = Overflow::Happened,
            Overflow::Possible | Overflow::Happened => {}
        }
        self.evict(self.size_max);
    }

    fn shrink(&mut self, size: usize) {
        if size < self.size_max {
            self.evict(size);
        }
    }

    fn evict(&mut self, size: usize) {
        while self.size > size {
            let Some((name, value)) = self.entries.pop_front() else { break };
            self.size = self.size.saturating_sub(ENTRY_BYTES + name.len() + value.len());
        }
    }
}

/// A number with a prefix (section 5.1).
fn number(bytes: &[u8], first: u8, mask: u8) -> Result<(u64, &[u8]), Stop> {
    let start = u64::from(first & mask);
    if start < u64::from(mask) {
        return Ok((start, bytes));
    }
    let more = bytes.iter().position(|byte| byte & 0x80 == 0).ok_or(Stop::Short)?;
    let (digits, rest) = bytes.split_at_checked(more + 1).ok_or(Stop::Short)?;
    let last = digits.last().copied().unwrap_or_default();
    if more > 9 || (more == 9 && last > 1) {
        return Ok((0, rest));
    }
    let mut value = start;
    for (place, byte) in digits.iter().enumerate() {
        let part = u64::from(byte & 0x7f) << (7 * place);
        value = value.checked_add(part).ok_or(Stop::Overflow)?;
    }
    Ok((value, rest))
}

/// A string (section 5.2).
fn string(bytes: &[u8]) -> Result<(Vec<u8>, &[u8]), Stop> {
    let (&first, rest) = bytes.split_first().ok_or(Stop::Short)?;
    let (len, rest) = number(rest, first, 0x7f)?;
    let len = usize::try_from(len).map_err(|_| Stop::Short)?;
    let (text, rest) = rest.split_at_checked(len).ok_or(Stop::Short)?;
    let text = if first & 0x80 == 0 { text.to_vec() } else { huffman::decode(text) };
    Ok((text, rest))
}

/// Fields that both sides know (appendix A).
const STATIC: &[(&str, &str)] = &[
    (":authority", ""),
    (":method", "GET"),
    (":method", "POST"),
    (":path", "/"),
    (":path", "/index.html"),
    (":scheme", "http"),
    (":scheme", "https"),
    (":status", "200"),
    (":status", "204"),
    (":status", "206"),
    (":status", "304"),
    (":status", "400"),
    (":status", "404"),
    (":status", "500"),
    ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"),
    ("accept-language", ""),
    ("accept-ranges", ""),
    ("accept", ""),
    ("access-control-allow-origin", ""),
    ("age", ""),
    ("allow", ""),
    ("authorization", ""),
    ("cache-control", ""),
    ("content-disposition", ""),
    ("content-encoding", ""),
    ("content-language", ""),
    ("content-length", ""),
    ("content-location", ""),
    ("content-range", ""),
    ("content-type", ""),
    ("cookie", ""),
    ("date", ""),
    ("etag", ""),
    ("expect", ""),
    ("expires", ""),
    ("from", ""),
    ("host", ""),
    ("if-match", ""),
    ("if-modified-since", ""),
    ("if-none-match", ""),
    ("if-range", ""),
    ("if-unmodified-since", ""),
    ("last-modified", ""),
    ("link", ""),
    ("location", ""),
    ("max-forwards", ""),
    ("proxy-authenticate", ""),
    ("proxy-authorization", ""),
    ("range", ""),
    ("referer", ""),
    ("refresh", ""),
    ("retry-after", ""),
    ("server", ""),
    ("set-cookie", ""),
    ("strict-transport-security", ""),
    ("transfer-encoding", ""),
    ("user-agent", ""),
    ("vary", ""),
    ("via", ""),
    ("www-authenticate", ""),
];

#[cfg(test)]
mod tests {
    use super::Table;

    #[test]
    fn what_is_kept_is_bounded_whatever_a_peer_allows() {
        let mut field = b"\x40\x01x\x7f\x80\x07".to_vec();
        field.extend([b'y'; 1023]);
        let block = field.repeat(200);
        for allowed in [4096, 65_536, usize::MAX] {
            let mut table = Table::default();
            table.allow(allowed, 65_536);
            let fields = table.read(&block, 65_536).map(|fields| fields.len());
            assert_eq!(fields, Some(200), "all fields are read");
            let kept: usize =
                table.entries.iter().map(|(name, value)| name.len() + value.len()).sum();
            assert!((1..=65_536).contains(&kept), "{kept} bytes of {allowed}");
        }
    }
}
