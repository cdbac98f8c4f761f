//! Dates: the calendar of UTC days, and the date-time of header fields (RFC 5322 section 3.3).
//!
//! The only calendar of this repository: days are counted from 1970-01-01 by the proleptic
//! Gregorian calendar (Howard Hinnant, *chrono-Compatible Low-Level Date Algorithms*). Header
//! fields are read tolerantly, obsolete forms (section 4.3) included: the day's name, comments and
//! seconds may be missing, and a year may have two digits.

/// Seconds of a day.
pub const DAY_SECONDS: i64 = 86_400;
/// Milliseconds of a day.
pub const DAY_MS: i64 = 1_000 * DAY_SECONDS;
/// Milliseconds of an hour.
pub const HOUR_MS: i64 = 3_600_000;

/// Days of an era of 400 years, after which the calendar repeats.
const ERA_DAYS: i64 = 146_097;
/// Days from the 1st of March of the year 0 to 1970-01-01.
const DAYS_TO_1970: i64 = 719_468;

/// Names of the months as header fields write them, January first.
pub const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Names of the days of a week, from that of 1970-01-01 on.
const WEEKDAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];

/// The day number of a date: days since 1970-01-01. The month is from 1 to 12; a day past the end
/// of its month counts into the next.
pub fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    // Count years from March, so that the leap day is a year's last.
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * ERA_DAYS + day_of_era - DAYS_TO_1970
}

/// Year, month from 1 and day of month of a day number.
pub fn civil(day: i64) -> (i64, i64, i64) {
    let shifted = day + DAYS_TO_1970;
    let era = shifted.div_euclid(ERA_DAYS);
    let day_of_era = shifted.rem_euclid(ERA_DAYS);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day_of_month = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day_of_month)
}

/// Days of a month from 1 to 12; 31 for any other number.
pub fn days_in_month(month: i64, year: i64) -> i64 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        _ => 31,
    }
}

/// The name of a day number, `2026-11-21`.
pub fn day_name(day: i64) -> String {
    let (year, month, day) = civil(day);
    format!("{year:04}-{month:02}-{day:02}")
}

/// The day number of a name `YYYY-MM-DD`; none if there is no such day.
pub fn day_number(name: &str) -> Option<i64> {
    let mut fields = name.split('-');
    let mut field = |digits: usize| {
        let text = fields.next().filter(|f| f.len() == digits)?;
        text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse::<i64>().ok()).flatten()
    };
    let (year, month, day) = (field(4)?, field(2)?, field(2)?);
    if fields.next().is_some() {
        return None;
    }
    let days = days_from_civil(year, month, day);
    (day_name(days) == name).then_some(days)
}

/// The name of the weekday of a day number, `Sat`.
pub fn weekday_name(day: i64) -> &'static str {
    WEEKDAYS[day.rem_euclid(7) as usize]
}

/// The time of day of a Unix time in milliseconds, `04:23:05`.
pub fn time_of_day(unix_ms: i64) -> String {
    let seconds = unix_ms.rem_euclid(DAY_MS) / 1_000;
    format!("{:02}:{:02}:{:02}", seconds / 3_600, seconds / 60 % 60, seconds % 60)
}

/// A Unix time in milliseconds as header fields write it, in UTC: `Sun, 1 Nov 2026 04:05:06 +0000`.
pub fn rfc5322(unix_ms: i64) -> String {
    let days = unix_ms.div_euclid(DAY_MS);
    let (year, month, day) = civil(days);
    let month = MONTHS[(month - 1) as usize];
    format!("{}, {day} {month} {year} {} +0000", weekday_name(days), time_of_day(unix_ms))
}

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
    let month = 1 + MONTHS.iter().position(|m| m.as_bytes().eq_ignore_ascii_case(name))? as i64;
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
    in_range.then_some(days * DAY_SECONDS + hour * 3600 + minute * 60 + second - zone * 60)
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
    fn names_and_numbers_of_days_agree() {
        assert_eq!(day_name(0), "1970-01-01");
        assert_eq!(day_name(20_778), "2026-11-21");
        for day in -1000..60_000 {
            assert_eq!(day_number(&day_name(day)), Some(day));
            let (year, month, of_month) = civil(day);
            assert!((1..=days_in_month(month, year)).contains(&of_month), "{day}");
        }
        for wrong in ["2026-02-29", "2026-13-01", "2026-1-1", "2026-11-21x", "", "2026-11-21-1"] {
            assert_eq!(day_number(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn dates_are_written_as_header_fields_write_them() {
        assert_eq!(rfc5322(0), "Thu, 1 Jan 1970 00:00:00 +0000");
        assert_eq!(rfc5322(951_782_400_000), "Tue, 29 Feb 2000 00:00:00 +0000");
        assert_eq!(rfc5322(1_795_234_751_000), "Sat, 21 Nov 2026 04:19:11 +0000");
        assert_eq!(rfc5322(-1), "Wed, 31 Dec 1969 23:59:59 +0000");
    }

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
