//! Dates of header fields (RFC 5322 section 3.3, obsolete forms of section 4.3 included), read
//! tolerantly: the day's name, comments and seconds may be missing, and a year may have two digits.

/// Days from 1970-01-01 to the first of the month, by the proleptic Gregorian calendar (the
/// algorithm `days_from_civil` of Howard Hinnant).
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

const MONTHS: [&[u8]; 12] = [
    b"jan", b"feb", b"mar", b"apr", b"may", b"jun", b"jul", b"aug", b"sep", b"oct", b"nov", b"dec",
];

/// Zones that have names (RFC 5322 section 4.3), in minutes east of Greenwich. Any other name is
/// taken as Greenwich, as the RFC says.
const ZONES: [(&[u8], i64); 10] = [
    (b"est", -300),
    (b"edt", -240),
    (b"cst", -360),
    (b"cdt", -300),
    (b"mst", -420),
    (b"mdt", -360),
    (b"pst", -480),
    (b"pdt", -420),
    (b"cet", 60),
    (b"cest", 120),
];

/// Unix seconds of an unfolded value such as `Sat, 21 Nov 2026 03:52:31 +0100 (CET)`; none if day,
/// month, year and time of day are not there or out of range.
pub fn parse(value: &[u8]) -> Option<i64> {
    let separator = |b: &u8| b.is_ascii_whitespace() || *b == b',';
    let mut words = value.split(separator).filter(|w| !w.is_empty()).peekable();
    // The day's name, which says nothing that the date does not.
    words.next_if(|w| w[0].is_ascii_alphabetic());
    let day = number(words.next()?, 2)?;
    let name = words.next()?.get(..3)?;
    let month = 1 + MONTHS.iter().position(|m| m.eq_ignore_ascii_case(name))? as i64;
    let written = words.next()?;
    let year = match (number(written, 4)?, written.len()) {
        (year, 2) if year < 50 => year + 2000,
        (year, 2 | 3) => year + 1900,
        (year, _) => year,
    };
    let mut time = words.next()?.split(|&b| b == b':');
    let (hour, minute) = (number(time.next()?, 2)?, number(time.next()?, 2)?);
    let second = time.next().map_or(Some(0), |s| number(s, 2))?;
    let zone = words.next().map_or(Some(0), zone_minutes)?;
    let in_range =
        (1..=31).contains(&day) && year >= 1900 && hour < 24 && minute < 60 && second <= 60;
    let days = days_from_civil(year, month, day);
    in_range.then_some(days * 86_400 + hour * 3600 + minute * 60 + second - zone * 60)
}

fn number(digits: &[u8], length_max: usize) -> Option<i64> {
    let fits = !digits.is_empty() && digits.len() <= length_max;
    let digit = |n: i64, b: &u8| b.is_ascii_digit().then(|| n * 10 + i64::from(b - b'0'));
    if fits { digits.iter().try_fold(0, digit) } else { None }
}

/// `+hhmm`, `-hhmm`, or a name.
fn zone_minutes(zone: &[u8]) -> Option<i64> {
    let sign = match zone.first()? {
        b'+' => 1,
        b'-' => -1,
        _ => {
            let named = ZONES.iter().find(|(name, _)| name.eq_ignore_ascii_case(zone));
            return Some(named.map_or(0, |z| z.1));
        }
    };
    let (hours, minutes) = zone.get(1..5)?.split_at(2);
    Some(sign * (number(hours, 2)? * 60 + number(minutes, 2)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_of_many_forms() {
        let same = 1_795_231_951; // 2026-11-21 03:32:31 UTC
        let read = |s: &str| parse(s.as_bytes());
        assert_eq!(read("Sat, 21 Nov 2026 03:32:31 +0000"), Some(same));
        assert_eq!(read("Sat, 21 Nov 2026 04:32:31 +0100 (CET)"), Some(same));
        assert_eq!(read("20 Nov 26 22:32:31 EST"), Some(same));
        assert_eq!(read("Sat,21 nov 2026 03:32:31"), Some(same));
        assert_eq!(read("1 Jan 1970 00:00 GMT"), Some(0));
        assert_eq!(read("29 Feb 2000 12:00:00 -0000"), Some(951_825_600));
        for broken in ["", "yesterday", "32 Jan 2020 00:00 GMT", "1 Foo 2020 00:00", "1 Jan 2020"] {
            assert_eq!(read(broken), None, "{broken}");
        }
    }
}
