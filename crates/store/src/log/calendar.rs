//! Day numbers since 1970-01-01 and their names, `2026-11-21` (proleptic Gregorian calendar, UTC).

/// The name of a day number.
pub fn day_name(day: i64) -> String {
    let (year, month, day) = civil(day);
    format!("{year:04}-{month:02}-{day:02}")
}

/// Year, month and day of month of a day number.
pub fn civil(day: i64) -> (i64, i64, i64) {
    // Count years from March, so that the leap day is a year's last; an era is 400 years.
    let shifted = day + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day_of_month = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day_of_month)
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
    let shifted_year = year - i64::from(month <= 2);
    let shifted_month = (month + 9) % 12;
    let day_of_year = (153 * shifted_month + 2) / 5 + day - 1;
    let days = 365 * shifted_year + shifted_year.div_euclid(4) - shifted_year.div_euclid(100)
        + shifted_year.div_euclid(400)
        + day_of_year
        - 719_468;
    (day_name(days) == name).then_some(days)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_agree() {
        assert_eq!(day_name(0), "1970-01-01");
        assert_eq!(day_name(20_778), "2026-11-21");
        for day in -1000..60_000 {
            assert_eq!(day_number(&day_name(day)), Some(day));
        }
        for wrong in ["2026-02-29", "2026-13-01", "2026-1-1", "2026-11-21x", "", "2026-11-21-1"] {
            assert_eq!(day_number(wrong), None, "{wrong}");
        }
    }
}
