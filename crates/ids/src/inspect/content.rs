//! Contents, patterns and numbers in the order of the rule, with backtracking: a match of a content
//! or pattern that what follows depends on is given up for the next one if that does not match.

use memchr::memmem;
use pcre2::bytes::CaptureLocations;

use super::numbers::{self, Values};
use super::{Buffer, Context};
use crate::bytes::base64::{self, Base64Mode};
use crate::bytes::pattern::{Capture, Pattern};
use crate::rule::matches::{Amount, Base64Decode, Content, Entropy, FloatCompare, IsDataAt, Match};
use crate::rule::number::Compare;

/// Steps of one inspection, unless `detect.inspection-recursion-limit` says otherwise.
const STEPS_MAX: u32 = 3_000;
/// Bytes of a group that are kept.
const CAPTURE_BYTES_MAX: usize = 0xffff;
/// Values of an `isdataat` variable beyond this are no place.
const PLACE_MAX: u64 = 100_000_000;

/// How an inspection goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    /// All that follows matches, too.
    Match,
    /// It does not; an earlier match may be tried elsewhere.
    Retry,
    /// It never will on this buffer.
    Never,
}

/// Working memory of inspections; one a thread. Variables of `byte_extract` live from
/// [`Inspector::begin`] to the next, so that buffers of one rule share them.
#[derive(Debug)]
pub struct Inspector {
    values: Values,
    /// Behind the last match.
    place: usize,
    /// Where a pattern is tried again: one behind the beginning of its last match.
    pattern_start: usize,
    steps: u32,
    steps_max: u32,
}

impl Default for Inspector {
    fn default() -> Self {
        let values = Values::default();
        Self { values, place: 0, pattern_start: 0, steps: 0, steps_max: STEPS_MAX }
    }
}

/// What all steps of one inspection share.
struct Turn<'a, 'c> {
    buffer: &'a Buffer<'a>,
    /// Matches on what `base64_decode` makes.
    nested: &'a [Match],
    context: &'c mut dyn Context,
}

impl Inspector {
    /// One with another limit of steps (`detect.inspection-recursion-limit`); 0 is none.
    pub fn with_limit(steps: u32) -> Self {
        let steps_max = if steps == 0 { u32::MAX } else { steps };
        Self { steps_max, ..Self::default() }
    }

    /// A new rule is evaluated.
    pub fn begin(&mut self) {
        self.values.clear();
    }

    /// Whether all matches hold on the buffer, in order. `nested` are those on the bytes that a
    /// `base64_decode` among them makes ([`crate::rule::Rule::base64`]).
    pub fn inspect(
        &mut self,
        matches: &[Match],
        nested: &[Match],
        buffer: &Buffer<'_>,
        context: &mut dyn Context,
    ) -> bool {
        self.place = 0;
        self.pattern_start = 0;
        self.steps = 0;
        if matches.is_empty() {
            return false;
        }
        let mut turn = Turn { buffer, nested, context };
        self.step(matches, &mut turn) == Answer::Match
    }

    fn step(&mut self, matches: &[Match], turn: &mut Turn<'_, '_>) -> Answer {
        self.steps += 1;
        if self.steps >= self.steps_max {
            return Answer::Never;
        }
        let Some((first, rest)) = matches.split_first() else { return Answer::Match };
        let bytes = turn.buffer.bytes;
        let dce = |turn: &Turn<'_, '_>| turn.context.dce_little_endian();
        let holds = match first {
            Match::Content(content) => return self.content(content, rest, turn),
            Match::Pcre(pattern) => return self.pattern(pattern, rest, turn),
            Match::IsDataAt(check) => match self.data_at(check, bytes.len()) {
                Answer::Match => true,
                answer => return answer,
            },
            Match::ByteTest(test) => {
                numbers::test(test, bytes, self.place, &self.values, dce(turn))
            }
            Match::ByteJump(jump) => {
                let to = numbers::jump(jump, bytes, self.place, &self.values, dce(turn));
                self.place = to.unwrap_or(self.place);
                to.is_some()
            }
            Match::ByteExtract(extract) => {
                let end = numbers::extract(extract, bytes, self.place, &mut self.values, dce(turn));
                self.place = end.unwrap_or(self.place);
                end.is_some()
            }
            Match::ByteMath(math) => {
                let end = numbers::math(math, bytes, self.place, &mut self.values, dce(turn));
                self.place = end.unwrap_or(self.place);
                end.is_some()
            }
            Match::BufferSize(size) => match buffer_size(size, turn.buffer) {
                Answer::Match => true,
                answer => return answer,
            },
            Match::UriLength(size) => {
                if !size.holds(bytes.len().min(0xffff) as u64) {
                    return Answer::Never;
                }
                true
            }
            Match::Absent { or_else } => *or_else,
            Match::Dataset(check) => {
                if !turn.context.dataset(check, bytes) {
                    return Answer::Never;
                }
                true
            }
            Match::DataReputation(check) => {
                if !turn.context.reputation(check, bytes) {
                    return Answer::Never;
                }
                true
            }
            Match::Entropy(entropy) => entropy_holds(entropy, bytes, self.place),
            Match::Base64Decode(decode) => return self.base64(decode, turn),
            Match::Asn1(check) => numbers::asn1(check, bytes, self.place),
            _ => false,
        };
        if holds { self.step(rest, turn) } else { Answer::Retry }
    }

    /// Tries one place of a content after the other.
    fn content(&mut self, content: &Content, rest: &[Match], turn: &mut Turn<'_, '_>) -> Answer {
        let bytes = turn.buffer.bytes;
        let before = self.place;
        let no_match = if content.is_relative() { Answer::Retry } else { Answer::Never };
        let mut again = None;
        loop {
            let Some((from, to)) = self.window(content, before, turn.buffer) else {
                return Answer::Retry;
            };
            let from = again.unwrap_or(from);
            let to = to.min(bytes.len());
            if from > to || to == 0 {
                if content.negated {
                    return self.step(rest, turn);
                }
                return Answer::Retry;
            }
            let found = if content.ends_with && to < bytes.len() {
                None
            } else {
                find(content, bytes.get(from..to).unwrap_or_default()).map(|at| from + at)
            };
            let Some(start) = found else {
                return if content.negated { self.step(rest, turn) } else { no_match };
            };
            let end = start + content.bytes.len();
            if content.negated {
                // Found, but not where it must not be.
                if content.ends_with && to - from != end {
                    return self.step(rest, turn);
                }
                return if content.is_single() { Answer::Never } else { Answer::Retry };
            }
            self.place = end;
            if !content.ends_with || end == bytes.len() {
                if rest.is_empty() {
                    return Answer::Match;
                }
                match self.step(rest, turn) {
                    Answer::Retry if content.can_retry => {}
                    Answer::Match => return Answer::Match,
                    Answer::Retry | Answer::Never => return Answer::Never,
                }
            }
            again = Some(start + 1);
        }
    }

    /// Where a content is searched: from, to. `None`: nowhere in this part of the buffer. The
    /// arithmetic is that of 32-bit numbers, as rules have come to rely on it.
    fn window(
        &self,
        content: &Content,
        before: usize,
        buffer: &Buffer<'_>,
    ) -> Option<(usize, usize)> {
        let len = buffer.bytes.len();
        let value = |amount: Amount| self.values.get(amount);
        let mut from;
        let mut to = len as u64;
        let is_variable = |amount: Option<Amount>| matches!(amount, Some(Amount::Variable(_)));
        if content.is_relative() {
            let place = before as i64;
            let distance = content.distance.map_or(0, |d| i64::from(value(d) as i32));
            from = u64::try_from(place + distance).unwrap_or(0);
            if let Some(within) = content.within {
                let end = place.wrapping_add(value(within)).wrapping_add(distance) as i32;
                if (to as i32) > end {
                    to = u64::from(end as u32);
                }
                if buffer.offset != 0 && before == 0 {
                    to = shift(to, buffer)?;
                }
            }
            if let Some(depth) = content.depth {
                let end = (before as u64).saturating_add(value(depth) as u64);
                if value(depth) != 0 || is_variable(Some(depth)) {
                    to = to.min(end);
                }
            }
            if let Some(offset) = content.offset {
                from = from.max(value(offset) as u64);
            }
        } else {
            if let Some(depth) = content.depth
                && (value(depth) != 0 || is_variable(Some(depth)))
            {
                to = value(depth) as u64;
            } else if content.starts_with {
                to = content.bytes.len() as u64;
            }
            if buffer.offset != 0 && (content.depth.is_some() || content.starts_with) {
                to = shift(to, buffer)?;
            }
            from = content.offset.map_or(0, |offset| value(offset) as u64);
        }
        if is_variable(content.offset) || is_variable(content.depth) {
            to = to.saturating_add(from);
        }
        let clamp = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        Some((clamp(from), clamp(to)))
    }

    fn data_at(&self, check: &IsDataAt, len: usize) -> Answer {
        let is_variable = matches!(check.at, Amount::Variable(_));
        let value = self.values.get(check.at) as u64;
        if is_variable && value >= PLACE_MAX {
            return if check.negated { Answer::Match } else { Answer::Retry };
        }
        let failure = if is_variable { Answer::Retry } else { Answer::Never };
        if check.relative {
            let is_there = self.place as u64 + value <= len as u64;
            return match (is_there, check.negated) {
                (true, false) | (false, true) => Answer::Match,
                (true, true) => Answer::Retry,
                (false, false) => failure,
            };
        }
        if (value < len as u64) == check.negated { failure } else { Answer::Match }
    }

    /// Tries one match of a pattern after the other.
    fn pattern(&mut self, pattern: &Pattern, rest: &[Match], turn: &mut Turn<'_, '_>) -> Answer {
        let before = self.place;
        self.pattern_start = 0;
        let has_captures = !pattern.captures.is_empty();
        let mut locations = has_captures.then(|| pattern.locations());
        loop {
            let Some(start) = self.find_pattern(pattern, &mut locations, turn) else {
                return Answer::Retry;
            };
            if !pattern.has_next {
                return self.step(rest, turn);
            }
            match self.step(rest, turn) {
                Answer::Retry => {}
                answer => return answer,
            }
            // A pattern that must not match is not tried elsewhere.
            if start == 0 {
                return Answer::Retry;
            }
            self.place = before;
            self.pattern_start = start;
        }
    }

    /// Whether the pattern holds; where it would be tried again, 0 if it would not.
    fn find_pattern(
        &mut self,
        pattern: &Pattern,
        locations: &mut Option<CaptureLocations>,
        turn: &mut Turn<'_, '_>,
    ) -> Option<usize> {
        let base = if pattern.relative { self.place } else { 0 };
        let bytes = turn.buffer.bytes.get(base..)?;
        let from = self.pattern_start.saturating_sub(base);
        let found = pattern.find(bytes, from, locations.as_mut()).ok()?;
        if pattern.negated {
            return found.is_none().then_some(self.pattern_start);
        }
        let found = found?;
        for (group, capture) in (1..).zip(&pattern.captures) {
            let groups = locations.as_ref();
            let Some((start, end)) = groups.and_then(|all| all.get(group)) else { continue };
            let end = end.min(start + CAPTURE_BYTES_MAX);
            turn.context.capture(*capture, bytes.get(start..end).unwrap_or_default());
            if *capture == Capture::PacketKey
                && let Some((start, end)) = groups.and_then(|all| all.get(group + 1))
            {
                let value = bytes.get(start..end).unwrap_or_default();
                turn.context.capture(Capture::PacketValue, value);
            }
        }
        self.place = base + found.end;
        self.pattern_start = base + found.start + 1;
        Some(self.pattern_start)
    }

    /// Decodes, and inspects what comes out; this ends the list.
    fn base64(&mut self, decode: &Base64Decode, turn: &mut Turn<'_, '_>) -> Answer {
        let mut bytes = turn.buffer.bytes;
        if decode.relative {
            bytes = bytes.get(self.place..).unwrap_or_default();
        }
        bytes = bytes.get(decode.offset as usize..).unwrap_or_default();
        if let Some(most) = decode.bytes {
            bytes = bytes.get(..most as usize).unwrap_or(bytes);
        }
        let mut decoded = Vec::new();
        base64::decode(bytes, Base64Mode::Rfc4648, &mut decoded);
        let nested = turn.nested;
        if decoded.is_empty() || nested.is_empty() {
            return Answer::Retry;
        }
        self.place = 0;
        let part = Buffer::whole(&decoded);
        let mut turn = Turn { buffer: &part, nested: &[], context: turn.context };
        match self.step(nested, &mut turn) {
            Answer::Match => Answer::Match,
            _ => Answer::Retry,
        }
    }
}

/// A place counted from the beginning of the whole, in this part of it.
fn shift(to: u64, buffer: &Buffer<'_>) -> Option<u64> {
    if to <= buffer.offset {
        return None;
    }
    let end = buffer.offset + buffer.bytes.len() as u64;
    Some(if to >= end { to } else { to - buffer.offset })
}

fn find(content: &Content, bytes: &[u8]) -> Option<usize> {
    let wanted = content.bytes.as_slice();
    if wanted.len() > bytes.len() {
        return None;
    }
    if !content.nocase {
        return memmem::find(bytes, wanted);
    }
    let (first, rest) = wanted.split_first()?;
    let upper = first.to_ascii_uppercase();
    let mut from = 0;
    loop {
        let window = bytes.get(from..bytes.len() - rest.len())?;
        let at = from + memchr::memchr2(*first, upper, window)?;
        let behind = bytes.get(at + 1..at + wanted.len())?;
        if behind.eq_ignore_ascii_case(rest) {
            return Some(at);
        }
        from = at + 1;
    }
}

fn buffer_size(size: &Compare, buffer: &Buffer<'_>) -> Answer {
    let found = buffer.offset + buffer.bytes.len() as u64;
    if size.holds(found) {
        return Answer::Match;
    }
    let may_grow = match *size {
        Compare::More(_) | Compare::AtLeast(_) => true,
        Compare::Equal(wanted) => found <= wanted,
        Compare::Between(low, _) => found <= low,
        Compare::Less(_) | Compare::AtMost(_) => return Answer::Never,
        _ => return Answer::Retry,
    };
    if may_grow && !buffer.is_end { Answer::Retry } else { Answer::Never }
}

/// Shannon's entropy of the bytes, in bits.
fn entropy_holds(entropy: &Entropy, bytes: &[u8], place: usize) -> bool {
    let base = if entropy.relative { place as i64 } else { 0 };
    let from = usize::try_from(base + i64::from(entropy.offset)).ok();
    let Some(mut bytes) = from.and_then(|from| bytes.get(from..)) else { return false };
    if entropy.bytes > 0 {
        let Some(part) = bytes.get(..usize::try_from(entropy.bytes).unwrap_or(0)) else {
            return false;
        };
        bytes = part;
    }
    let mut counts = [0_u32; 256];
    for byte in bytes {
        if let Some(count) = counts.get_mut(usize::from(*byte)) {
            *count += 1;
        }
    }
    let total = bytes.len() as f64;
    let found = counts.iter().filter(|count| **count > 0).fold(0.0, |sum, count| {
        let share = f64::from(*count) / total;
        sum - share * share.log2()
    });
    match entropy.compare {
        FloatCompare::Equal(value) => found == value,
        FloatCompare::NotEqual(value) => found != value,
        FloatCompare::Less(value) => found < value,
        FloatCompare::AtMost(value) => found <= value,
        FloatCompare::More(value) => found > value,
        FloatCompare::AtLeast(value) => found >= value,
        FloatCompare::Between(low, high) => low < found && found < high,
        FloatCompare::Outside(low, high) => found <= low || found >= high,
    }
}
