//! Numbers in texts: layout first, check digits next, context last.

use std::collections::{BTreeMap, BTreeSet};

use crate::detector::Detector;
use crate::detectors::Iban;
use crate::layout::{Groups, line_break, run_end, run_start, separator, separator_before};
use crate::words::is_unspaced;

/// Longest group or undivided number, in bytes.
const GROUP_BYTES_MAX: usize = 34;
/// Digits in so many bytes from the first on that any divided number has: six of `AB 12 34 56 C`,
/// also with separators of three bytes.
const NEAR_DIGITS_MIN: u8 = 6;
const NEAR_BYTES: usize = 24;
/// The shortest undivided number.
const ALONE_BYTES_MIN: usize = 8;
/// How far from a number a word of its context may stand, in bytes.
const CONTEXT_BYTES_BEFORE: usize = 160;
const CONTEXT_BYTES_AFTER: usize = 80;
/// How far the ends of the address that a number may be part of are looked for, in bytes.
const ADDRESS_BYTES_MAX: usize = 512;
/// Windows of context that are looked at before the whole text is.
const WINDOWS_MAX: usize = 16;
/// Values of one detector that are a column of a table, whose heading is their context.
const COLUMN_VALUES_MIN: usize = 5;

/// A number that was found: the detector's place in the list, and bytes of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Match {
    pub(crate) detector: usize,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

/// One layout, and the detectors that have it.
#[derive(Debug)]
struct Form {
    groups: Groups,
    letter_groups: usize,
    detectors: Vec<Candidate>,
}

#[derive(Debug, Clone, Copy)]
struct Candidate {
    detector: usize,
    needs_context: bool,
}

/// The layouts that begin with a group of one length.
#[derive(Debug, Default)]
struct Forms {
    undivided: Option<Form>,
    divided: Vec<Form>,
    /// A bit for each separator and length of a second group: most groups are followed by another.
    seconds: u64,
}

/// The layouts of all detectors that are on.
#[derive(Debug)]
pub(crate) struct Numbers {
    detectors: Vec<&'static Detector>,
    by_first: Vec<Forms>,
    lettered: Vec<Form>,
    /// A bit for each length of a group behind letters.
    behind_letters: u64,
    iban: Option<usize>,
}

/// What is known of a text while it is read.
#[derive(Debug, Default)]
struct Reading {
    found: Vec<Match>,
    /// Values without context, and how many had the layout alone, by detector.
    pending: Vec<Match>,
    tried: BTreeMap<usize, usize>,
    /// How often context was looked for.
    lookups: usize,
    /// The text in lower case, once it is requested, and which detectors have a word anywhere in
    /// it.
    lower: Option<String>,
    anywhere: BTreeMap<usize, bool>,
}

impl Reading {
    /// Whether a word of the detector's context is anywhere in the text.
    fn is_anywhere(&mut self, text: &str, detector: usize, words: &[&str]) -> bool {
        let lower = self.lower.get_or_insert_with(|| text.to_lowercase());
        *self.anywhere.entry(detector).or_insert_with(|| has_context(text, lower, words))
    }
}

/// Letters and digits in upper case, as detectors check them.
pub(crate) fn canonical(text: &str) -> String {
    text.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_uppercase()).collect()
}

impl Numbers {
    pub(crate) fn new(detectors: &[&'static Detector]) -> Self {
        let mut numbers = Numbers {
            detectors: detectors.to_vec(),
            by_first: Vec::new(),
            lettered: Vec::new(),
            behind_letters: 0,
            iban: detectors.iter().position(|d| d.name == "iban"),
        };
        numbers.by_first.resize_with(GROUP_BYTES_MAX + 1, Forms::default);
        for (detector, known) in detectors.iter().enumerate() {
            for layout in known.layouts {
                let candidate = Candidate { detector, needs_context: layout.needs_context };
                numbers.add(layout.groups(), layout.letter_groups, candidate);
            }
        }
        numbers
    }

    fn add(&mut self, groups: Groups, letter_groups: usize, candidate: Candidate) {
        let Some(forms) = self.by_first.get_mut(groups.first) else { return };
        let divided = match letter_groups {
            0 => &mut forms.divided,
            _ => &mut self.lettered,
        };
        let same = match groups.rest.is_empty() {
            true => forms.undivided.as_mut(),
            false => divided.iter_mut().find(|form| form.groups == groups),
        };
        if let Some(form) = same {
            form.detectors.push(candidate);
            return;
        }
        if letter_groups > 0 {
            self.behind_letters |= 1 << (groups.rest[letter_groups - 1].1 % 64);
        } else if let Some(&second) = groups.rest.first() {
            forms.seconds |= second_bit(second);
        }
        let form = Form { groups, letter_groups, detectors: vec![candidate] };
        match form.groups.rest.is_empty() {
            true => forms.undivided = Some(form),
            false => divided.push(form),
        }
    }

    /// Every number of a text that some detector takes, in order.
    pub(crate) fn find(&self, text: &str) -> Vec<Match> {
        let bytes = text.as_bytes();
        let mut reading = Reading::default();
        let mut at = 0;
        while let Some(digit) = next_digit(bytes, at) {
            let (start, end) = (run_start(bytes, digit).max(at), run_end(bytes, digit));
            at = match may_begin(bytes, digit, end - start) {
                true => self.read(text, start, end, &mut reading).unwrap_or(end),
                false => end,
            };
        }
        self.columns(text, &mut reading);
        reading.found.sort_by_key(|m| (m.start, m.detector));
        reading.found
    }

    /// Tries what begins with this group; where the longest number ends that was found.
    fn read(&self, text: &str, start: usize, end: usize, reading: &mut Reading) -> Option<usize> {
        if end - start > GROUP_BYTES_MAX {
            return None;
        }
        let bytes = text.as_bytes();
        let mut found = self.iban(text, start).map(|found| {
            reading.found.push(found);
            found.end
        });
        let forms = &self.by_first[end - start];
        if let Some(form) = &forms.undivided {
            found = found.max(self.try_form(text, (start, end), form, reading));
        }
        let second = if forms.seconds == 0 { None } else { next_group(bytes, end) };
        if second.is_some_and(|second| forms.seconds & second_bit(second) != 0) {
            for form in
                forms.divided.iter().filter(|form| form.groups.rest.first().copied() == second)
            {
                found = found.max(self.try_form(text, (start, end), form, reading));
            }
        }
        if self.behind_letters >> (end - start) & 1 == 1 && is_behind_letters(bytes, start) {
            for form in &self.lettered {
                if let Some(first) = form.groups.begin(bytes, start, form.letter_groups) {
                    found = found.max(self.try_form(text, first, form, reading));
                }
            }
        }
        found
    }

    /// Where the number ends, if it counts.
    fn try_form(
        &self,
        text: &str,
        (start, first_end): (usize, usize),
        form: &Form,
        reading: &mut Reading,
    ) -> Option<usize> {
        let bytes = text.as_bytes();
        let end = form.groups.end(bytes, start, first_end)?;
        if !stands_alone(bytes, start, end, &form.groups) || is_in_address(bytes, start, end) {
            return None;
        }
        let (value, mut counts) = (canonical(&text[start..end]), false);
        for &Candidate { detector, needs_context } in &form.detectors {
            let Detector { check, context, .. } = self.detectors[detector];
            if needs_context {
                *reading.tried.entry(detector).or_default() += 1;
            }
            if !check(value.as_bytes()) {
                continue;
            }
            let found = Match { detector, start, end };
            if needs_context && !is_near(text, found, context, reading) {
                reading.pending.push(found);
                continue;
            }
            reading.found.push(found);
            counts = true;
        }
        counts.then_some(end)
    }

    fn iban(&self, text: &str, start: usize) -> Option<Match> {
        let (bytes, detector) = (text.as_bytes(), self.iban?);
        let mut left = Iban::length(&bytes[start..])?;
        let mut end = start;
        loop {
            let group = run_end(bytes, end) - end;
            (left, end) = (left.checked_sub(group).filter(|_| group > 0)?, end + group);
            if left == 0 {
                break;
            }
            // Country, length and check digits are proof enough for a number over two lines.
            let divided =
                || separator(bytes, end).filter(|(byte, _)| matches!(byte, b' ' | b'-' | b'.'));
            end += line_break(bytes, end).or_else(|| divided().map(|(_, width)| width))?;
        }
        let is_free = start == 0 || !matches!(bytes[start - 1], b'_' | b'-' | b'.' | b'/');
        let valid = is_free
            && !is_in_address(bytes, start, end)
            && Iban::is_valid(canonical(&text[start..end]).as_bytes());
        valid.then_some(Match { detector, start, end })
    }

    /// Numbers below each other have their context in the heading: they count where the text has a
    /// word of it anywhere, and most of what has their layout passes its check.
    fn columns(&self, text: &str, reading: &mut Reading) {
        let detectors: BTreeSet<usize> = reading.pending.iter().map(|m| m.detector).collect();
        for detector in detectors {
            let of_it = || reading.pending.iter().filter(|m| m.detector == detector).copied();
            let values: BTreeSet<String> =
                of_it().map(|m| canonical(&text[m.start..m.end])).collect();
            let is_column = values.len() >= COLUMN_VALUES_MIN
                && of_it().count() * 2 > reading.tried.get(&detector).copied().unwrap_or(0);
            let all: Vec<Match> = if is_column { of_it().collect() } else { Vec::new() };
            if is_column && reading.is_anywhere(text, detector, self.detectors[detector].context) {
                reading.found.extend(all);
            }
        }
    }
}

/// The bit of a separator and a length in [`Forms::seconds`]; two may share one.
fn second_bit((separator, length): (u8, usize)) -> u64 {
    1 << ((usize::from(separator) * 12 + length) % 64)
}

/// Separator and length of the group behind one that ends at `end`.
fn next_group(bytes: &[u8], end: usize) -> Option<(u8, usize)> {
    let (separator, width) = separator(bytes, end)?;
    let next = end + width;
    // A longer one is no group of any layout.
    let limit = bytes.len().min(next + GROUP_BYTES_MAX + 1);
    Some((separator, run_end(&bytes[..limit], next) - next))
}

/// Whether a word of the context stands near the number. In a text with many numbers it is seen
/// first whether there is one at all.
fn is_near(text: &str, found: Match, words: &[&str], reading: &mut Reading) -> bool {
    reading.lookups += 1;
    if reading.lookups > WINDOWS_MAX && !reading.is_anywhere(text, found.detector, words) {
        return false;
    }
    let near = window(text, found.start, found.end);
    has_context(near, &near.to_lowercase(), words)
}

/// Where the next digit stands. Text without digits is passed over by blocks.
fn next_digit(bytes: &[u8], at: usize) -> Option<usize> {
    const BLOCK: usize = 32;
    let rest = bytes.get(at..)?;
    let blocks = rest.chunks(BLOCK);
    // Without a branch inside, the compiler looks at a whole block at once.
    let has_digit = |block: &&[u8]| block.iter().fold(false, |any, b| any | b.is_ascii_digit());
    let (index, block) = blocks.enumerate().find(|(_, block)| has_digit(block))?;
    block.iter().position(u8::is_ascii_digit).map(|i| at + index * BLOCK + i)
}

/// Whether enough digits follow for any layout, or the group is long enough by itself: dates and
/// times of day mostly have neither.
fn may_begin(bytes: &[u8], digit: usize, length: usize) -> bool {
    let near = &bytes[digit..bytes.len().min(digit + NEAR_BYTES)];
    let digits = near.iter().fold(0_u8, |count, b| count + u8::from(b.is_ascii_digit()));
    digits >= NEAR_DIGITS_MIN || length >= ALONE_BYTES_MIN
}

/// Whether a letter and a separator stand before the group.
fn is_behind_letters(bytes: &[u8], start: usize) -> bool {
    let separator = separator_before(bytes, start).filter(|(byte, _)| matches!(byte, b' ' | b'-'));
    let letter = separator.and_then(|(_, width)| bytes.get((start - width).checked_sub(1)?));
    letter.is_some_and(u8::is_ascii_alphabetic)
}

/// Whether the number is not a piece of a longer one, or of a name.
fn stands_alone(bytes: &[u8], start: usize, end: usize, groups: &Groups) -> bool {
    let joins = |byte: u8| matches!(byte, b'-' | b'.' | b'+' | b'/' | b'\\' | b'@' | b'%' | b'~');
    let is_word = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_alphanumeric);
    if let Some(&before) = start.checked_sub(1).and_then(|i| bytes.get(i))
        && (before == b'_' || joins(before) && start > 1 && is_word(start - 2))
    {
        return false;
    }
    if let Some(&after) = bytes.get(end)
        && (after == b'_' || joins(after) && is_word(end + 1) && !is_extension(bytes, end))
    {
        return false;
    }
    // A row of groups of one length is a table, not a number with more before and behind.
    let digits = |from: usize, to: usize| bytes[from..to].iter().all(u8::is_ascii_digit);
    let (Some(&(first, _)), Some(&(last, length))) = (groups.rest.first(), groups.rest.last())
    else {
        return true;
    };
    if let Some((_, width)) = separator_before(bytes, start).filter(|s| s.0 == first) {
        let from = run_start(bytes, start - width);
        if start - width - from == groups.first && digits(from, start - width) {
            return false;
        }
    }
    if let Some((_, width)) = separator(bytes, end).filter(|s| s.0 == last) {
        let to = run_end(bytes, end + width);
        if to - end - width == length && digits(end + width, to) {
            return false;
        }
    }
    true
}

/// Whether a dot and a letter follow, as in `4111111111111111.txt`.
fn is_extension(bytes: &[u8], end: usize) -> bool {
    bytes[end] == b'.' && bytes.get(end + 1).is_some_and(u8::is_ascii_alphabetic)
}

/// Whether it is part of a URL, a mail address or a message id.
fn is_in_address(bytes: &[u8], start: usize, end: usize) -> bool {
    let ends = |b: &u8| b.is_ascii_whitespace() || matches!(b, b'<' | b'>' | b'"' | b'(' | b')');
    let from = start.saturating_sub(ADDRESS_BYTES_MAX);
    let before = &bytes[from..start];
    let before = &before[before.iter().rposition(ends).map_or(0, |i| i + 1)..];
    let after = &bytes[end..bytes.len().min(end + ADDRESS_BYTES_MAX)];
    let after = &after[..after.iter().position(ends).unwrap_or(after.len())];
    let has = |part: &[u8], what: &[u8]| memchr::memmem::find(part, what).is_some();
    has(before, b"://") || has(before, b"www.") || has(before, b"@") || has(after, b"@")
}

/// The text around a number.
fn window(text: &str, start: usize, end: usize) -> &str {
    let from = start.saturating_sub(CONTEXT_BYTES_BEFORE);
    let to = text.len().min(end + CONTEXT_BYTES_AFTER);
    let from = (from..=start).find(|&i| text.is_char_boundary(i)).unwrap_or(start);
    let to = (end..=to).rev().find(|&i| text.is_char_boundary(i)).unwrap_or(end);
    &text[from..to]
}

/// Whether one of the words stands in the text as a word of its own.
fn has_context(text: &str, lower: &str, words: &[&str]) -> bool {
    let splits = |inner: Option<char>, outer: Option<char>| {
        let (Some(inner), Some(outer)) = (inner, outer) else { return true };
        !inner.is_alphanumeric()
            || !outer.is_alphabetic()
            || is_unspaced(inner)
            || is_unspaced(outer)
            || is_hangul(inner)
    };
    words.iter().any(|word| {
        let is_abbreviation = word.chars().all(|c| c.is_ascii_uppercase());
        let text = if is_abbreviation { text } else { lower };
        text.match_indices(word).any(|(at, found)| {
            let (before, after) = (&text[..at], &text[at + found.len()..]);
            splits(word.chars().next(), before.chars().next_back())
                && splits(word.chars().next_back(), after.chars().next())
        })
    })
}

/// Korean words have endings.
fn is_hangul(c: char) -> bool {
    matches!(c, '\u{AC00}'..='\u{D7A3}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::detectors;

    fn found(text: &str) -> Vec<(&'static str, &str)> {
        let all: Vec<&'static Detector> = detectors::all().collect();
        let matches = Numbers::new(&all).find(text);
        matches.iter().map(|m| (all[m.detector].name, &text[m.start..m.end])).collect()
    }

    #[test]
    fn cards_are_found_as_they_are_written() {
        for text in [
            "pay with 4111 1111 1111 1111, please",
            "4111-1111-1111-1111",
            "4111111111111111",
            "card:4111111111111111;12/27",
            "a\u{a0}4111\u{a0}1111\u{a0}1111\u{a0}1111.",
            "4111 1111 1111 1111 123",
            "3530\u{200b}1113\u{200b}3330\u{200b}0000",
            "3530\u{ad}1113\u{ad}3330\u{ad}0000",
            "3530\u{2009}1113\u{2009}3330\u{2009}0000",
            "3782 822463 10005",
        ] {
            let found = found(text);
            assert!(matches!(found[..], [("payment_card", _)]), "{text}: {found:?}");
        }
    }

    #[test]
    fn what_only_looks_like_a_card_is_none() {
        for text in [
            "4111 1111 1111 1112",
            "4111 1111 11111111",
            "4111-1111 1111 1111",
            "https://shop.example/o/4111111111111111?x=1",
            "<20260101.4111111111111111@mail.example>",
            "id_4111111111111111",
            "4111111111111111-77",
            "0000 4111 1111 1111 1111",
            "4111 1111 1111 1111 2222",
            "x4111111111111111",
            "41111111111111111",
            "378282246310005 is the parcel",
        ] {
            assert_eq!(found(text), [], "{text}");
        }
        assert_eq!(found("Amex 378282246310005").len(), 1, "15 digits want a word");
    }

    #[test]
    fn ibans_are_found_in_groups_and_in_small_letters() {
        let text = "to DE89 3704 0044 0532 0130 00 or gb29nwbk60161331926819 (GB29 NWBK 6016 1331 9268 19)";
        let all = found(text);
        assert_eq!(all.len(), 3, "{all:?}");
        for broken in ["DE89 3704 0044\r\n0532 0130 00", "DE89 3704 0044 \n0532 0130 00"] {
            assert_eq!(found(broken), [("iban", broken)]);
        }
        assert_eq!(found("DE89 3704 0044\n\n0532 0130 00"), []);
        assert_eq!(found("DE88 3704 0044 0532 0130 00"), []);
        assert_eq!(found("DE89 3704 0044 0532 0130 0"), []);
        assert_eq!(found("https://x.example/DE89370400440532013000"), []);
    }

    #[test]
    fn weak_numbers_want_a_word_near() {
        assert_eq!(found("call 111222333"), []);
        assert_eq!(found("BSN: 111222333"), [("nl_bsn", "111222333")]);
        assert_eq!(found("aBSNormal 111222333"), []);
        let far = format!("bsn {} 111222333", "word ".repeat(60));
        assert_eq!(found(&far), []);
        assert_eq!(found("sin problemas 130 692 544"), [], "Spanish, and no abbreviation");
        assert_eq!(found("my SIN 130 692 544"), [("ca_sin", "130 692 544")]);
        assert_eq!(found("マイナンバーは123456789018です"), [("jp_my_number", "123456789018")]);
    }

    #[test]
    fn strong_numbers_stand_alone() {
        for (name, text) in [
            ("us_ssn", "078-05-1120"),
            ("fi_hetu", "131052-308T"),
            ("it_codice_fiscale", "RSSMRA85T10A562S"),
            ("it_codice_fiscale", "RSS MRA 85T10 A562S"),
            ("uk_nino", "AB 12 34 56 C"),
            ("be_nn", "93.05.18-223.61"),
            ("ch_ahv", "756.9217.0769.85"),
            ("fr_nir", "2 55 08 14 168 025 38"),
            ("br_cpf", "111.444.777-35"),
            ("cn_id", "身份证11010519491231002X号"),
            ("cz_rodne_cislo", "710319/2745"),
        ] {
            let found = found(text);
            assert!(found.iter().any(|f| f.0 == name), "{name} in {text}: {found:?}");
        }
    }

    #[test]
    fn a_column_has_its_context_in_its_heading() {
        let padding = "name of the person and the rest of the line ".repeat(8);
        let numbers = ["111222333", "123456782", "999999990", "100000009", "010464554"];
        let table = |heading: &str| {
            let rows = numbers.map(|n| format!("{n};{padding}\n")).join("");
            found(&format!("{heading};{padding}\n{rows}"))
                .iter()
                .filter(|f| f.0 == "nl_bsn")
                .count()
        };
        assert_eq!(table("BSN"), numbers.len());
        assert_eq!(table("order"), 0);
    }

    #[test]
    fn no_text_panics() {
        let text = "AB 12 34 56 C é\u{a0}4111\u{202f}1111\u{2011}756.DE89";
        for (start, _) in text.char_indices() {
            for end in (start..=text.len()).filter(|&end| text.is_char_boundary(end)) {
                let _ = found(&text[start..end]);
            }
        }
    }
}
