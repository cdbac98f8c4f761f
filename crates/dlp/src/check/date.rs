//! Dates of birth inside numbers. A year of two digits may be of any century.

fn number(digits: &[u8]) -> u32 {
    digits.iter().fold(0, |n, &d| n * 10 + u32::from(d))
}

fn is_day(month: u32, day: u32) -> bool {
    let last = match month {
        2 => 29,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => 0,
    };
    (1..=last).contains(&day)
}

/// `MMDD`, where months may be written above 12: `offsets` are what may be added to a month
/// (Poland's centuries, Czech women), `day_offsets` to a day (Sweden's coordination numbers).
pub fn month_day(digits: &[u8], offsets: &[u32], day_offsets: &[u32]) -> bool {
    let (Some(month), Some(day)) = (digits.get(..2), digits.get(2..4)) else { return false };
    fits(number(month), offsets, number(day), day_offsets)
}

/// As above, with the day first: `DDMM`.
pub fn day_month(digits: &[u8], offsets: &[u32], day_offsets: &[u32]) -> bool {
    let (Some(day), Some(month)) = (digits.get(..2), digits.get(2..4)) else { return false };
    fits(number(month), offsets, number(day), day_offsets)
}

fn fits(month: u32, offsets: &[u32], day: u32, day_offsets: &[u32]) -> bool {
    let without = |value: u32, offset: &u32| value.checked_sub(*offset);
    offsets.iter().filter_map(|o| without(month, o)).any(|month| {
        day_offsets.iter().filter_map(|o| without(day, o)).any(|day| is_day(month, day))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_those_of_their_month() {
        assert!(month_day(&[0, 2, 2, 9], &[0], &[0]) && !month_day(&[0, 2, 3, 0], &[0], &[0]));
        assert!(month_day(&[2, 4, 3, 0], &[0, 20], &[0]) && !month_day(&[2, 4, 3, 0], &[0], &[0]));
        assert!(day_month(&[3, 1, 1, 2], &[0], &[0]) && !day_month(&[3, 1, 0, 4], &[0], &[0]));
        assert!(day_month(&[7, 1, 1, 2], &[0], &[0, 40]) && !month_day(&[0, 1], &[0], &[0]));
    }
}
