//! What stands where in a compiled file. All numbers are little-endian; every read is bounded.

use crate::entry::{Case, DomainReach, Entry, Party, Pattern, Prefix, PrefixEnd, PrefixHosts};

/// First bytes of a file.
pub(super) const MAGIC: [u8; 8] = *b"GNTURLS\n";
/// Version of the format.
pub(super) const VERSION: u32 = 1;
/// Bytes of the header.
pub(super) const HEADER_BYTES: usize = 256;
/// Places of records count in so many bytes.
pub(super) const UNIT: usize = 4;
/// Bytes of a record before its host.
pub(super) const RECORD_BYTES: usize = 16;
/// Longest beginning of a path that is hashed; the rest of a longer one is compared alone.
pub(crate) const PATH_HASHED_MAX: usize = 255;

/// Numbers of the header, in their order behind magic and version.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Header {
    /// Entries, without those that say lengths.
    pub(super) entries: u64,
    /// End of the records, which begin behind the header.
    pub(super) records_end: u64,
    /// End of the strings, which begin behind the records.
    pub(super) strings_end: u64,
    /// Where the slots begin; they end with the file.
    pub(super) slots_start: u64,
    /// Slots that are somebody's home; more follow for those that find theirs taken.
    pub(super) homes: u64,
    /// Key of the hash.
    pub(super) seed: u64,
    /// Numbers of labels that hosts of the list have: bit `n` for `n`, bit 63 for 63 and more.
    pub(super) labels: u64,
    /// Bytes of the file.
    pub(super) file_bytes: u64,
    /// BLAKE3 of the sources, in their order.
    pub(super) sources: [u8; 32],
    /// BLAKE3 of everything behind the header.
    pub(super) body: [u8; 32],
}

const NUMBERS: usize = 8;

impl Header {
    pub(super) fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = Vec::with_capacity(HEADER_BYTES);
        bytes.extend(MAGIC);
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend([0; 4]);
        let numbers = [
            self.entries,
            self.records_end,
            self.strings_end,
            self.slots_start,
            self.homes,
            self.seed,
            self.labels,
            self.file_bytes,
        ];
        numbers.iter().for_each(|number| bytes.extend(number.to_le_bytes()));
        bytes.extend(self.sources);
        bytes.extend(self.body);
        bytes.resize(HEADER_BYTES - 32, 0);
        let hash = blake3::hash(&bytes);
        bytes.extend(hash.as_bytes());
        let mut header = [0; HEADER_BYTES];
        header.copy_from_slice(&bytes);
        header
    }

    /// Reads a header whose magic and version were looked at; none if its checksum is not right.
    pub(super) fn decode(bytes: &[u8]) -> Option<Header> {
        let (fields, sum) = bytes.get(..HEADER_BYTES)?.split_at(HEADER_BYTES - 32);
        if blake3::hash(fields).as_bytes() != sum {
            return None;
        }
        let number = |n: usize| u64_at(fields, 16 + n * 8);
        let hash = |n: usize| fields.get(16 + NUMBERS * 8 + n * 32..)?.first_chunk::<32>().copied();
        Some(Header {
            entries: number(0)?,
            records_end: number(1)?,
            strings_end: number(2)?,
            slots_start: number(3)?,
            homes: number(4)?,
            seed: number(5)?,
            labels: number(6)?,
            file_bytes: number(7)?,
            sources: hash(0)?,
            body: hash(1)?,
        })
    }
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

pub(super) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// The bit of a number of labels in [`Header::labels`].
pub(crate) fn label_bit(labels: usize) -> u64 {
    1 << labels.min(63)
}

/// Whether a prefix that ends here, followed by `next`, ends where something of the URL does.
pub(crate) fn is_boundary(prefix: &[u8], next: Option<&u8>) -> bool {
    let ends = |byte: Option<&u8>| matches!(byte, Some(b'/' | b'?' | b'&' | b'=' | b';'));
    next.is_none() || ends(prefix.last()) || ends(next)
}

/// What a record is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    ExactHost,
    Domain,
    Prefix,
    /// Says which lengths the prefixes of its host have.
    Lengths,
}

/// Options of an entry in 16 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Options(u16);

impl Options {
    const EXCEPTION: u16 = 1;
    const IMPORTANT: u16 = 2;
    const THIRD: u16 = 4;
    const FIRST: u16 = 8;
    const BELOW_ONLY: u16 = 16;
    const SERVER_NAMES: u16 = 32;
    const BELOW: u16 = 64;
    const BOUNDARY: u16 = 128;
    const FOLDED: u16 = 256;

    pub(super) fn of(entry: &Entry) -> Options {
        let mut bits = 0;
        let mut set = |bit: u16, is_set: bool| bits |= if is_set { bit } else { 0 };
        set(Self::EXCEPTION, entry.is_exception);
        set(Self::IMPORTANT, entry.is_important);
        set(Self::THIRD, entry.party == Party::Third);
        set(Self::FIRST, entry.party == Party::First);
        match &entry.pattern {
            Pattern::Domain { reach, .. } => {
                set(Self::BELOW_ONLY, *reach == DomainReach::BelowOnly);
            }
            Pattern::Prefix(prefix) => {
                set(Self::SERVER_NAMES, prefix.hosts == PrefixHosts::ServerNames);
                set(Self::BELOW, prefix.hosts == PrefixHosts::Below);
                set(Self::BOUNDARY, prefix.end == PrefixEnd::Boundary);
                set(Self::FOLDED, prefix.case == Case::Folded);
            }
            Pattern::ExactHost(_) | Pattern::Regex(_) => {}
        }
        Options(bits)
    }

    fn has(self, bit: u16) -> bool {
        self.0 & bit != 0
    }

    pub(crate) fn is_exception(self) -> bool {
        self.has(Self::EXCEPTION)
    }

    pub(crate) fn is_important(self) -> bool {
        self.has(Self::IMPORTANT)
    }

    pub(crate) fn party(self) -> Party {
        match (self.has(Self::THIRD), self.has(Self::FIRST)) {
            (true, _) => Party::Third,
            (false, true) => Party::First,
            (false, false) => Party::Any,
        }
    }

    pub(crate) fn reach(self) -> DomainReach {
        if self.has(Self::BELOW_ONLY) { DomainReach::BelowOnly } else { DomainReach::WithItself }
    }

    pub(crate) fn hosts(self) -> PrefixHosts {
        match (self.has(Self::BELOW), self.has(Self::SERVER_NAMES)) {
            (true, _) => PrefixHosts::Below,
            (false, true) => PrefixHosts::ServerNames,
            (false, false) => PrefixHosts::Exact,
        }
    }

    pub(crate) fn end(self) -> PrefixEnd {
        if self.has(Self::BOUNDARY) { PrefixEnd::Boundary } else { PrefixEnd::Anywhere }
    }

    pub(crate) fn case(self) -> Case {
        if self.has(Self::FOLDED) { Case::Folded } else { Case::Sensitive }
    }
}

/// A record of a mapped file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Record<'a> {
    pub(crate) kind: Kind,
    pub(crate) options: Options,
    /// Line in its source.
    pub(crate) line: u32,
    pub(crate) source: u16,
    pub(crate) category: u16,
    /// Port that a URL must have; 0 stands for all.
    pub(crate) port: u16,
    pub(crate) host: &'a [u8],
    /// Path; of [`Kind::Lengths`] the lengths.
    pub(crate) path: &'a [u8],
}

impl<'a> Record<'a> {
    /// The record at this place of a file; none if it is not all there.
    pub(crate) fn at(file: &'a [u8], place: usize) -> Option<Record<'a>> {
        let bytes = file.get(place..)?;
        let head = bytes.first_chunk::<RECORD_BYTES>()?;
        let lengths = u16_at(head, 10)?;
        let kind = match lengths >> 14 {
            0 => Kind::ExactHost,
            1 => Kind::Domain,
            2 => Kind::Prefix,
            _ => Kind::Lengths,
        };
        let host_end = RECORD_BYTES + usize::from(lengths & 0xff);
        let path_end = host_end + usize::from(u16_at(head, 14)?);
        Some(Record {
            kind,
            options: Options(u16_at(head, 12)?),
            line: u32_at(head, 0)?,
            source: u16_at(head, 4)?,
            category: u16_at(head, 6)?,
            port: u16_at(head, 8)?,
            host: bytes.get(RECORD_BYTES..host_end)?,
            path: bytes.get(host_end..path_end)?,
        })
    }

    /// Appends the record, filled up to whole units.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let kind: u16 = match self.kind {
            Kind::ExactHost => 0,
            Kind::Domain => 1,
            Kind::Prefix => 2,
            Kind::Lengths => 3,
        };
        out.extend(self.line.to_le_bytes());
        out.extend(self.source.to_le_bytes());
        out.extend(self.category.to_le_bytes());
        out.extend(self.port.to_le_bytes());
        out.extend((kind << 14 | self.host.len().min(255) as u16).to_le_bytes());
        out.extend(self.options.0.to_le_bytes());
        out.extend((self.path.len().min(usize::from(u16::MAX)) as u16).to_le_bytes());
        out.extend(self.host);
        out.extend(self.path);
        out.resize(out.len().next_multiple_of(UNIT), 0);
    }

    /// Whether both say the same, wherever they stand.
    pub(super) fn says_the_same(&self, other: &Record<'_>) -> bool {
        let of = |r: &Record<'_>| (r.kind, r.options, r.category, r.port);
        of(self) == of(other) && self.host == other.host && self.path == other.path
    }

    /// The record that says the lengths of prefixes under a host.
    pub(super) fn of_lengths(lengths: &'a [u8; 32]) -> Record<'a> {
        Record {
            kind: Kind::Lengths,
            options: Options(0),
            line: 0,
            source: 0,
            category: 0,
            port: 0,
            host: b"",
            path: lengths,
        }
    }

    /// The record of an entry; none for an expression, which is kept apart.
    pub(super) fn of_entry(entry: &'a Entry, source: u16, category: u16) -> Option<Record<'a>> {
        let (kind, host, path, port) = match &entry.pattern {
            Pattern::ExactHost(host) => (Kind::ExactHost, host, "", None),
            Pattern::Domain { domain, .. } => (Kind::Domain, domain, "", None),
            Pattern::Prefix(Prefix { host, path, port, .. }) => {
                (Kind::Prefix, host, path.as_str(), *port)
            }
            Pattern::Regex(_) => return None,
        };
        Some(Record {
            kind,
            options: Options::of(entry),
            line: u32::try_from(entry.line).unwrap_or(u32::MAX),
            source,
            category,
            port: port.unwrap_or(0),
            host: host.as_bytes(),
            path: path.as_bytes(),
        })
    }
}

/// The part of a path that its key has.
pub(crate) fn hashed(path: &[u8]) -> &[u8] {
    path.get(..PATH_HASHED_MAX).unwrap_or(path)
}

/// Lengths that prefixes of a host have, 1 to [`PATH_HASHED_MAX`]: one bit each.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Lengths([u64; 4]);

impl Lengths {
    pub(super) fn set(&mut self, length: u8) {
        self.0[usize::from(length >> 6)] |= 1 << (length & 63);
    }

    pub(super) fn encode(&self) -> [u8; 32] {
        let mut bytes = [0; 32];
        for (chunk, word) in bytes.chunks_exact_mut(8).zip(self.0) {
            chunk.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// From the path of a record.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Lengths> {
        let word = |n: usize| u64_at(bytes, n * 8);
        Some(Lengths([word(0)?, word(1)?, word(2)?, word(3)?]))
    }

    /// The lengths, shortest first.
    pub(crate) fn iter(self) -> impl Iterator<Item = usize> {
        self.0.into_iter().enumerate().flat_map(|(at, mut word)| {
            std::iter::from_fn(move || {
                let bit = word.trailing_zeros() as usize;
                word &= word.wrapping_sub(1);
                (bit < 64).then_some(at * 64 + bit)
            })
        })
    }
}

/// A regular expression and where it comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RegexRow {
    pub(crate) text: String,
    pub(crate) options: Options,
    pub(crate) line: u32,
    pub(crate) source: u16,
    pub(crate) category: u16,
}

impl RegexRow {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.extend(self.line.to_le_bytes());
        out.extend(self.source.to_le_bytes());
        out.extend(self.category.to_le_bytes());
        out.extend(self.options.0.to_le_bytes());
        put_string(&self.text, out);
    }
}

pub(super) fn put_string(text: &str, out: &mut Vec<u8>) {
    out.extend((text.len() as u32).to_le_bytes());
    out.extend(text.as_bytes());
}

/// Reads strings and numbers one after the other.
pub(super) struct Cursor<'a>(pub(super) &'a [u8]);

impl<'a> Cursor<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        u32_at(self.take(4)?, 0)
    }

    fn u16(&mut self) -> Option<u16> {
        u16_at(self.take(2)?, 0)
    }

    pub(super) fn string(&mut self) -> Option<String> {
        let count = self.u32()? as usize;
        String::from_utf8(self.take(count)?.to_vec()).ok()
    }

    pub(super) fn regex(&mut self) -> Option<RegexRow> {
        Some(RegexRow {
            line: self.u32()?,
            source: self.u16()?,
            category: self.u16()?,
            options: Options(self.u16()?),
            text: self.string()?,
        })
    }
}
