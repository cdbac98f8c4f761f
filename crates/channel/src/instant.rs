//! Points in time as The Update Framework writes them: `2026-11-27T04:30:00Z`, seconds, UTC.

use gauntlet_mail::date::{civil, days_from_civil, days_in_month};

const DAY_S: i64 = 86_400;

/// Seconds from 1970 as text.
pub fn format(unix_s: i64) -> String {
    let (year, month, day) = civil(unix_s.div_euclid(DAY_S));
    let second = unix_s.rem_euclid(DAY_S);
    let (hours, minutes, seconds) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hours:02}:{minutes:02}:{seconds:02}Z")
}

/// Reads such a text; none if it is of another form.
pub fn parse(text: &str) -> Option<i64> {
    let bytes: &[u8; 20] = text.as_bytes().try_into().ok()?;
    let number = |from: usize, to: usize| {
        let digits = bytes.get(from..to)?;
        let value = |all: i64, b: &u8| b.is_ascii_digit().then(|| all * 10 + i64::from(b - b'0'));
        digits.iter().try_fold(0, value)
    };
    let signs = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':'), (19, b'Z')];
    if signs.iter().any(|(at, sign)| bytes[*at] != *sign) {
        return None;
    }
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    let is_day = (1..=12).contains(&month) && (1..=days_in_month(month, year)).contains(&day);
    let is_time = hour < 24 && minute < 60 && second < 60;
    let days = (is_day && is_time).then(|| days_from_civil(year, month, day))?;
    Some(days * DAY_S + hour * 3600 + minute * 60 + second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_read_as_they_are_written() {
        for unix_s in [0, 1, 951_782_400, 1_795_000_000, 4_102_444_799] {
            assert_eq!(parse(&format(unix_s)), Some(unix_s));
        }
        assert_eq!(format(1_795_753_800), "2026-11-27T04:30:00Z");
        for bad in ["", "2026-11-27T04:30:00", "2026-02-30T00:00:00Z", "2026-11-27 04:30:00Z"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
        for bad in ["2026-11-27T24:00:00Z", "2026-13-01T00:00:00Z", "20é6-11-27T04:30:0Z"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
