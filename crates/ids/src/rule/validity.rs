//! When a certificate begins or ends to be valid: `tls_cert_notafter:<2026-01-01`.

/// A condition on a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Validity {
    /// Just then, in seconds of the epoch (as all of these).
    At(i64),
    /// Then or before.
    Before(i64),
    /// Then or after.
    After(i64),
    /// Both included.
    Between(i64, i64),
}

impl Validity {
    /// Of what is behind the keyword. `None`: it cannot be read.
    pub fn read(text: &str) -> Option<Self> {
        let text = text.trim();
        if let Some((first, last)) = text.split_once("<>") {
            let (first, last) = (seconds(first)?, seconds(last)?);
            return (first < last).then_some(Self::Between(first, last));
        }
        if let Some(text) = text.strip_prefix('<') {
            return Some(Self::Before(seconds(text)?));
        }
        match text.strip_prefix('>') {
            Some(text) => Some(Self::After(seconds(text)?)),
            None => Some(Self::At(seconds(text)?)),
        }
    }

    /// Whether it holds for a certificate's time; 0 is none.
    pub fn holds(self, time: i64) -> bool {
        time != 0
            && match self {
                Self::At(wanted) => time == wanted,
                Self::Before(wanted) => time <= wanted,
                Self::After(wanted) => time >= wanted,
                Self::Between(first, last) => (first..=last).contains(&time),
            }
    }
}

/// Seconds of the epoch: as such, or as `YEAR-MONTH[-DAY[ HOUR[:MINUTE[:SECOND]]]]` (UTC), with `T`
/// instead of the blank if one likes.
fn seconds(text: &str) -> Option<i64> {
    let text = text.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return text.parse().ok();
    }
    let (date, time) = text.split_once(['T', ' ']).map_or((text, None), |(d, t)| (d, Some(t)));
    let mut parts = date.split('-');
    let (year, month) = (number(parts.next()?, 9999)?, number(parts.next()?, 12)?);
    let day = parts.next().map(|day| number(day, 31));
    if parts.next().is_some() || (time.is_some() && day.is_none()) || month == 0 {
        return None;
    }
    let day = day.unwrap_or(Some(1))?.max(1);
    let mut parts = time.into_iter().flat_map(|time| time.split(':'));
    let mut next = |max| parts.next().map_or(Some(0), |part| number(part, max));
    let (hour, minute, second) = (next(23)?, next(59)?, next(60)?);
    if parts.next().is_some() {
        return None;
    }
    Some(((days(year, month, day) * 24 + hour) * 60 + minute) * 60 + second)
}

fn number(text: &str, max: i64) -> Option<i64> {
    text.parse().ok().filter(|number| (0..=max).contains(number))
}

/// Days since 1970 in the Gregorian calendar.
fn days(year: i64, month: i64, day: i64) -> i64 {
    // Years that begin in March end with the day that leap years have more.
    let year = if month <= 2 { year - 1 } else { year };
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    year * 365 + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + of_year
        - 719_468
}

#[cfg(test)]
mod tests {
    use super::Validity::{self, After, At, Before, Between};

    #[test]
    fn dates_are_read() {
        for (text, wanted) in [
            ("1444000000", At(1_444_000_000)),
            ("1970-01", At(0)),
            ("<2015-10-22", Before(1_445_472_000)),
            (">2015-10-22 23:59:59", After(1_445_558_399)),
            ("2000-02-29T12", At(951_825_600)),
            ("2012-01-01<>2025", Between(1_325_376_000, 2025)),
        ] {
            let found = Validity::read(text);
            if matches!(wanted, Between(first, last) if first >= last) {
                assert_eq!(found, None, "{text}");
            } else {
                assert_eq!(found, Some(wanted), "{text}");
            }
        }
        for wrong in
            ["", "2015", "<", "2015-13", "2015-1-1-1", "2015-01 12", "x", "2015-01-01 1:2:3:4"]
        {
            assert!(Validity::read(wrong).is_none_or(|read| wrong == "2015" && read == At(2015)));
        }
    }

    #[test]
    fn bounds_are_included() {
        assert!(Before(5).holds(5) && After(5).holds(5) && Between(5, 6).holds(6));
        assert!(!Before(5).holds(0) && !Before(5).holds(6) && !At(5).holds(4));
    }
}
