//! Comparisons of whole numbers, as the keywords of most protocols write them.

/// What a number is compared to (`>5`, `2-8`, `!3`, `&0x0f`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compare {
    /// Equal.
    Equal(u64),
    /// Not equal.
    NotEqual(u64),
    /// Less.
    Less(u64),
    /// At most.
    AtMost(u64),
    /// More.
    More(u64),
    /// At least.
    AtLeast(u64),
    /// Between, both ends excluded.
    Between(u64, u64),
    /// Not between: at most the first or at least the second.
    Outside(u64, u64),
    /// Bits of the mask have this value.
    Mask {
        /// Which bits.
        mask: u64,
        /// Their value.
        value: u64,
        /// The comparison must fail.
        negated: bool,
    },
}

impl Compare {
    /// Whether the number is as wanted.
    pub fn holds(&self, number: u64) -> bool {
        match *self {
            Compare::Equal(value) => number == value,
            Compare::NotEqual(value) => number != value,
            Compare::Less(value) => number < value,
            Compare::AtMost(value) => number <= value,
            Compare::More(value) => number > value,
            Compare::AtLeast(value) => number >= value,
            Compare::Between(low, high) => low < number && number < high,
            Compare::Outside(low, high) => number <= low || number >= high,
            Compare::Mask { mask, value, negated } => (number & mask == value) != negated,
        }
    }
}

/// Reads a comparison of numbers up to `max`, with the syntax of Suricata's generic integers:
/// `5`, `=5`, `>5`, `>=5`, `<5`, `!5`, `2-8`, `2<>8`, `!2-8`, `&0xc0=0x80`, units `kb`, `mib`.
pub fn compare(text: &str, max: u64) -> Result<Compare, String> {
    let bad = || format!("{text:?} is not a number or comparison up to {max}");
    let trimmed = text.trim_start_matches(' ').trim_end_matches(' ');
    let mask = mask(trimmed, max);
    mask.or_else(|| interval(trimmed, max)).or_else(|| single(trimmed, max)).ok_or_else(bad)
}

/// The same with ranges whose ends are included (`2-8` has 2 and 8).
pub fn compare_inclusive(text: &str, max: u64) -> Result<Compare, String> {
    match compare(text, max) {
        Ok(Compare::Between(low, high)) if low > 0 && high < max => {
            Ok(Compare::Between(low - 1, high + 1))
        }
        Ok(Compare::Outside(low, high)) if low > 0 && high < max => {
            Ok(Compare::Outside(low - 1, high + 1))
        }
        Ok(Compare::Mask { .. } | Compare::Between(..) | Compare::Outside(..)) => {
            Err(format!("{text:?} is not a range within 1 and {max}"))
        }
        Err(error) => adjacent(text, max).ok_or(error),
        other => other,
    }
}

/// Two neighbours are a range if the ends count.
fn adjacent(text: &str, max: u64) -> Option<Compare> {
    let (low, high, negated) = ends(text.trim_matches(' '), max)?;
    let valid = low > 0 && high > low && high < max;
    valid.then(|| match negated {
        true => Compare::Outside(low - 1, high + 1),
        false => Compare::Between(low - 1, high + 1),
    })
}

/// Reads a number with an optional unit, and what follows it.
pub(crate) fn value(text: &str, max: u64) -> Option<(u64, &str)> {
    if let Some(hex) = text.strip_prefix("0x") {
        let end = hex.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(hex.len());
        let (digits, rest) = hex.split_at(end);
        return Some((u64::from_str_radix(digits, 16).ok().filter(|&n| n <= max)?, rest));
    }
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    let number: u64 = digits.parse().ok().filter(|&n| n <= max)?;
    let units = [
        ("kib", 1_u64 << 10),
        ("kb", 1 << 10),
        ("mib", 1 << 20),
        ("mb", 1 << 20),
        ("gib", 1 << 30),
        ("gb", 1 << 30),
    ];
    for (name, factor) in units {
        if rest.get(..name.len()).is_some_and(|unit| unit.eq_ignore_ascii_case(name)) {
            let number = number.checked_mul(factor).filter(|&n| n <= max)?;
            return Some((number, rest.get(name.len()..)?));
        }
    }
    Some((number, rest))
}

fn spaces(text: &str) -> &str {
    text.trim_start_matches(' ')
}

fn mask(text: &str, max: u64) -> Option<Compare> {
    let rest = spaces(text.strip_prefix('&')?);
    let (mask, rest) = value(rest, max)?;
    let rest = spaces(rest);
    let negated = rest.starts_with('!');
    let rest = rest.strip_prefix('!').unwrap_or(rest).strip_prefix('=')?;
    let (value, rest) = value(spaces(rest), max)?;
    (rest.is_empty() && value & mask == value).then_some(Compare::Mask { mask, value, negated })
}

fn ends(text: &str, max: u64) -> Option<(u64, u64, bool)> {
    let rest = text.strip_prefix('!');
    let negated = rest.is_some();
    let (low, rest) = value(rest.unwrap_or(text), max)?;
    let rest = spaces(rest);
    let rest = rest.strip_prefix('-').or_else(|| rest.strip_prefix("<>"))?;
    let (high, rest) = value(spaces(rest), max)?;
    rest.is_empty().then_some((low, high, negated))
}

fn interval(text: &str, max: u64) -> Option<Compare> {
    let (low, high, negated) = ends(text, max)?;
    let valid = high > low && high - low > 1;
    valid.then_some(if negated { Compare::Outside(low, high) } else { Compare::Between(low, high) })
}

/// Makes a comparison with a number.
type Make = fn(u64) -> Compare;

fn single(text: &str, max: u64) -> Option<Compare> {
    let operators: [(&str, Make); 7] = [
        (">=", Compare::AtLeast),
        ("<=", Compare::AtMost),
        (">", Compare::More),
        ("<", Compare::Less),
        ("!=", Compare::NotEqual),
        ("!", Compare::NotEqual),
        ("=", Compare::Equal),
    ];
    let found = operators.iter().find_map(|(sign, make)| Some((text.strip_prefix(sign)?, make)));
    let (rest, make) = found.unwrap_or((text, &(Compare::Equal as Make)));
    let (number, rest) = value(spaces(rest), max)?;
    let compare = make(number);
    // Comparisons that always or never hold are mistakes.
    let is_idle = match compare {
        Compare::Less(_) | Compare::AtLeast(_) => number == 0,
        Compare::AtMost(_) | Compare::More(_) => number == max,
        _ => false,
    };
    (rest.is_empty() && !is_idle).then_some(compare)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comparisons_are_read_as_suricata_reads_them() {
        let max = u64::from(u16::MAX);
        let table = [
            ("5", Compare::Equal(5)),
            (" = 5 ", Compare::Equal(5)),
            ("> 5", Compare::More(5)),
            (">=5", Compare::AtLeast(5)),
            ("<5", Compare::Less(5)),
            ("<=5", Compare::AtMost(5)),
            ("!5", Compare::NotEqual(5)),
            ("!=5", Compare::NotEqual(5)),
            ("2-8", Compare::Between(2, 8)),
            ("2 <> 8", Compare::Between(2, 8)),
            ("!2-8", Compare::Outside(2, 8)),
            ("0x10", Compare::Equal(16)),
            ("1kb", Compare::Equal(1024)),
            ("&0xc0=0x80", Compare::Mask { mask: 0xc0, value: 0x80, negated: false }),
            ("& 0x40 != 0", Compare::Mask { mask: 0x40, value: 0, negated: true }),
        ];
        for (text, expected) in table {
            assert_eq!(compare(text, max), Ok(expected), "{text}");
        }
        for bad in ["", "x", "70000", "<0", ">65535", ">=0", "8-2", "2-3", "5 x", "1-", "&1=2"] {
            assert!(compare(bad, max).is_err(), "{bad}");
        }
        assert_eq!(compare_inclusive("2-8", max), Ok(Compare::Between(1, 9)));
        assert_eq!(compare_inclusive("2-3", max), Ok(Compare::Between(1, 4)));
    }

    #[test]
    fn comparisons_hold() {
        assert!(Compare::Between(2, 8).holds(3) && !Compare::Between(2, 8).holds(2));
        assert!(Compare::Outside(2, 8).holds(8) && !Compare::Outside(2, 8).holds(5));
        assert!(Compare::Mask { mask: 0xf0, value: 0x10, negated: false }.holds(0x1f));
    }
}
