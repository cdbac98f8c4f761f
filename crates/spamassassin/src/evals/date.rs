//! Dates as SpamAssassin parses them: tolerant, in pieces, never out of range.
//!
//! This is not an RFC 5322 parser. Rules compare the result with other dates parsed the same way,
//! so invalid dates must give SpamAssassin's result: a day too high is the first of the next month,
//! hours over 23 are 23, years are limited to 1970 to 2037.

use std::sync::LazyLock;

use gauntlet_mail::date::{DAY_SECONDS, MONTHS, days_from_civil, days_in_month};
use regex::bytes::Regex;

/// Zone names with their offset as `hhmm`, signed.
const ZONES: [(&str, i64); 49] = [
    ("UT", 0),
    ("UTC", 0),
    ("NDT", -230),
    ("AST", -400),
    ("ADT", -300),
    ("NST", -330),
    ("EST", -500),
    ("EDT", -400),
    ("CST", -600),
    ("CDT", -500),
    ("MST", -700),
    ("MDT", -600),
    ("PST", -800),
    ("PDT", -700),
    ("HST", -1000),
    ("AKST", -900),
    ("AKDT", -800),
    ("HADT", -900),
    ("HAST", -1000),
    ("GMT", 0),
    ("BST", 100),
    ("IST", 100),
    ("WET", 0),
    ("WEST", 100),
    ("CET", 100),
    ("CEST", 200),
    ("EET", 200),
    ("EEST", 300),
    ("MSK", 300),
    ("MSD", 400),
    ("MET", 100),
    ("MEZ", 100),
    ("MEST", 200),
    ("MESZ", 200),
    ("BRST", -200),
    ("BRT", -300),
    ("AEST", 1000),
    ("AEDT", 1100),
    ("ACST", 930),
    ("ACDT", 1030),
    ("AWST", 800),
    ("NZST", 1200),
    ("NZDT", 1300),
    ("JST", 900),
    ("KST", 900),
    ("HKT", 800),
    ("SGT", 800),
    ("PHT", 800),
    ("IDT", 300),
];

static CTIME: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"(?i) (jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec) +(\d+) \d+:\d+:\d+ (\d{4}) ")
});
static SHORT_YEAR: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"(?i) (\d+) (jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec) (\d{2,3}) ")
});
static ZONE: LazyLock<Regex> = LazyLock::new(|| pattern(r"\b([A-Z]{2,4}(?:-DST)?)\b"));

fn pattern(text: &str) -> Regex {
    Regex::new(&format!("(?-u){text}")).expect("a constant pattern")
}

/// The date in a header value, in Unix seconds; `None` without a day, month and year.
pub(super) fn parse(text: &[u8]) -> Option<i64> {
    let (date, seconds, offset) = usual(text).or_else(|| pieces(text))?;
    let (day, month, year) = date;
    let days = days_in_range(day, month, year)?;
    let local = days * DAY_SECONDS + seconds;
    // East of Greenwich the first hours of 1970 would be negative; they count as zero.
    Some(if offset > 0 && local < offset { 0 } else { local - offset })
}

/// Day, month from 1 and year; seconds since midnight; seconds east of Greenwich.
type Pieces = ((i64, i64, i64), i64, i64);

/// A date with its pieces in any order.
fn pieces(text: &[u8]) -> Option<Pieces> {
    let mut rest = spaced(text);
    let date = take_date(&mut rest)?;
    let seconds = take_time(&mut rest);
    Some((date, seconds, offset(&rest)))
}

/// The same for the usual form, without copying: perhaps a weekday, then day, month, year, time and
/// `+hhmm`.
fn usual(text: &[u8]) -> Option<Pieces> {
    let mut words = text.split(|b| is_separator(*b)).filter(|word| !word.is_empty());
    let mut day = words.next()?;
    if day.iter().all(u8::is_ascii_alphabetic) {
        day = words.next()?;
    }
    let (month, year, time, zone) = (words.next()?, words.next()?, words.next()?, words.next()?);
    let all_digits = |word: &[u8]| word.iter().all(u8::is_ascii_digit);
    if !all_digits(day) || !all_digits(year) || year.len() != 4 || !is_month(month) {
        return None;
    }
    let (seconds, []) = clock(time)? else { return None };
    let (hhmm, []) = signed(zone)? else { return None };
    Some(((number(day), month_number(month), number(year)), seconds, in_seconds(hhmm)))
}

/// White space or a comma.
fn is_separator(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == 0x0b || byte == b','
}

/// Hours, minutes and perhaps seconds at the start, in seconds, and what follows them.
fn clock(text: &[u8]) -> Option<(i64, &[u8])> {
    let (hour, after) = digits(text, 1, 2)?;
    let (minute, mut after) = digits(after.strip_prefix(b":")?, 2, 2)?;
    let mut second: &[u8] = b"";
    if let Some(more) = after.strip_prefix(b":") {
        (second, after) = digits(more, 2, 2)?;
    }
    let [hour, minute, second] = [hour, minute, second].map(number);
    Some((hour.min(23) * 3600 + minute.min(59) * 60 + second.min(59), after))
}

/// `+hhmm` or `-hhmm` at the start, and what follows.
fn signed(text: &[u8]) -> Option<(i64, &[u8])> {
    let (sign, text) = text.split_first().filter(|(sign, _)| matches!(**sign, b'-' | b'+'))?;
    let (hhmm, after) = digits(text, 4, 4)?;
    let hhmm = number(hhmm);
    Some((if *sign == b'-' { -hhmm } else { hhmm }, after))
}

/// The seconds of an offset in hours and minutes.
fn in_seconds(hhmm: i64) -> i64 {
    (hhmm / 100 * 60 + hhmm % 100) * 60
}

fn is_month(name: &[u8]) -> bool {
    MONTHS.iter().any(|month| name.eq_ignore_ascii_case(month.as_bytes()))
}

/// The text between two spaces, with one space for every run of commas and white space.
fn spaced(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() + 2);
    out.push(b' ');
    for &byte in text.iter().chain(b" ") {
        if !is_separator(byte) {
            out.push(byte);
        } else if out.last() != Some(&b' ') {
            out.push(b' ');
        }
    }
    out
}

fn number(digits: &[u8]) -> i64 {
    // Four digits hold every value that is compared; longer ones are too big anyway.
    digits.iter().fold(0, |n: i64, d| (n * 10 + i64::from(d - b'0')).min(1_000_000))
}

fn month_number(name: &[u8]) -> i64 {
    let found = (1..).zip(MONTHS).find(|(_, m)| name.eq_ignore_ascii_case(m.as_bytes()));
    found.map_or(1, |(n, _)| n)
}

/// Finds the first match, replaces it by a space, and gives its groups.
fn take<const N: usize>(rest: &mut Vec<u8>, pattern: &Regex) -> Option<[Vec<u8>; N]> {
    let found = pattern.captures(rest)?;
    let groups = std::array::from_fn(|i| {
        found.get(i + 1).map(|m| m.as_bytes().to_vec()).unwrap_or_default()
    });
    let whole = found.get(0)?.range();
    rest.splice(whole, *b" ");
    Some(groups)
}

/// Sequences of words in a text that begins with a space: each position where a space begins one,
/// with what follows it.
fn after_spaces(text: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    memchr::memchr_iter(b' ', text).filter_map(|at| Some((at, text.get(at + 1..)?)))
}

/// So many digits at the start, and what follows them.
fn digits(text: &[u8], least: usize, most: usize) -> Option<(&[u8], &[u8])> {
    let count = text.iter().take(most).take_while(|b| b.is_ascii_digit()).count();
    (count >= least).then(|| text.split_at(count))
}

/// Takes ` day month year ` out of the text, as `(?i) (\d+) (jan|...|dec) (\d{4}) ` finds it: the
/// usual form.
fn take_day_month_year(rest: &mut Vec<u8>) -> Option<(i64, i64, i64)> {
    let read = |text| -> Option<(i64, i64, i64, usize)> {
        let (day, after) = digits(text, 1, usize::MAX)?;
        let (month, after) = after.strip_prefix(b" ")?.split_at_checked(3)?;
        if !is_month(month) {
            return None;
        }
        let (year, after) = digits(after.strip_prefix(b" ")?, 4, 4)?;
        let after = after.strip_prefix(b" ")?;
        Some((number(day), month_number(month), number(year), after.len()))
    };
    let found = after_spaces(rest).find_map(|(at, text)| Some((at, read(text)?)));
    let (at, (day, month, year, left)) = found?;
    rest.splice(at..rest.len() - left, *b" ");
    Some((day, month, year))
}

/// Day, month from 1, year of four digits.
fn take_date(rest: &mut Vec<u8>) -> Option<(i64, i64, i64)> {
    if let Some(found) = take_day_month_year(rest) {
        return Some(found);
    }
    if let Some([month, day, year]) = take(rest, &CTIME) {
        return Some((number(&day), month_number(&month), number(&year)));
    }
    let [day, month, year] = take(rest, &SHORT_YEAR)?;
    let century = if year.len() == 2 && number(&year) < 50 { 2000 } else { 1900 };
    Some((number(&day), month_number(&month), century + number(&year)))
}

/// Seconds since midnight, taken out of the text as ` (\d?\d):(\d\d)(?::(\d\d))? ` finds them; zero
/// if there is no time.
fn take_time(rest: &mut Vec<u8>) -> i64 {
    let read = |text| -> Option<(i64, usize)> {
        let (seconds, after) = clock(text)?;
        Some((seconds, after.strip_prefix(b" ")?.len()))
    };
    let found = after_spaces(rest).find_map(|(at, text)| Some((at, read(text)?)));
    let Some((at, (seconds, left))) = found else { return 0 };
    rest.splice(at..rest.len() - left, *b" ");
    seconds
}

/// The first ` +hhmm ` or ` -hhmm `, signed.
fn hours_and_minutes(text: &[u8]) -> Option<i64> {
    after_spaces(text).find_map(|(_, text)| {
        let (hhmm, after) = signed(text)?;
        after.starts_with(b" ").then_some(hhmm)
    })
}

/// Seconds east of Greenwich; zero if there is no zone or an unknown one.
fn offset(rest: &[u8]) -> i64 {
    if let Some(hhmm) = hours_and_minutes(rest) {
        return in_seconds(hhmm);
    }
    let Some(found) = ZONE.find(rest) else { return 0 };
    let zone = ZONES.iter().find(|(name, _)| name.as_bytes() == found.as_bytes());
    zone.map_or(0, |&(_, hhmm)| in_seconds(hhmm))
}

/// Days since 1970; `None` if the day is 0, or does not exist in the year after it was moved into
/// range.
fn days_in_range(mut day: i64, mut month: i64, mut year: i64) -> Option<i64> {
    if day > days_in_month(month, year) {
        day = 1;
        month += 1;
        if month > 12 {
            month = 1;
            year += 1;
        }
    }
    year = year.clamp(1970, 2037);
    if day == 0 || day > days_in_month(month, year) {
        return None;
    }
    Some(days_from_civil(year, month, day))
}

#[cfg(test)]
mod tests {
    use super::{parse, pieces, usual};

    #[test]
    fn usual_dates_are_read_as_all_others_are() {
        let words = [
            "Tue,",
            "tue",
            "14",
            "4",
            "0",
            "Nov",
            "nov",
            "2023",
            "23",
            "22:13:20",
            "2:13",
            "22:1:2",
            "22:13:20:",
            "+0000",
            "-0530",
            "+000",
            "(UTC)",
            "GMT",
            "\t,",
            "",
        ];
        let (mut seed, mut common) = (1u32, 0);
        let mut next = |bound: usize| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (seed >> 16) as usize % bound
        };
        for _ in 0..50_000 {
            let mut text = ["Tue,", "14", "Nov", "2023", "22:13:20", "+0000", "(UTC)"].to_vec();
            for _ in 0..next(4) {
                let (at, word) = (next(text.len()), words[next(words.len())]);
                text[at] = word;
            }
            let text = text.join(" ");
            if let Some(found) = usual(text.as_bytes()) {
                common += 1;
                assert_eq!(pieces(text.as_bytes()), Some(found), "{text}");
            }
        }
        assert!(common > 10_000);
    }

    #[test]
    fn dates_as_they_come() {
        for (text, time) in [
            ("Tue, 14 Nov 2023 22:13:20 +0000", Some(1_700_000_000)),
            ("Tue,14 Nov 2023 17:13:20 -0500 (EST)", Some(1_700_000_000)),
            ("14 nov 23 22:13:20 GMT", Some(1_700_000_000)),
            ("Tue Nov 14 22:13:20 2023", Some(1_699_920_000)),
            ("Tue, 14 Nov 2023 23:13:20 CET", Some(1_700_000_000)),
            ("Tue, 14 Nov 2023 22:13:20 EST-DST", Some(1_700_000_000)),
            ("14 Nov 2023", Some(1_699_920_000)),
            ("14 Nov 123 22:13:20 +0000", Some(1_700_000_000)),
            ("31 Apr 2023 00:00:00 +0000", Some(1_682_899_200)),
            ("31 Dec 1969 00:00:00 +0000", Some(31_449_600)),
            ("1 Jan 1970 00:00:00 +0100", Some(0)),
            ("1 Jan 2099 99:99:99 +0000", Some(2_114_467_199)),
            ("29 Feb 2040 00:00:00 +0000", None),
            ("0 Jan 2020 00:00:00 +0000", None),
            ("yesterday", None),
            ("", None),
        ] {
            assert_eq!(parse(text.as_bytes()), time, "{text}");
        }
    }
}
