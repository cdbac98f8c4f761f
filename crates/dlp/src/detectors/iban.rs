//! IBANs: the country's length, then MOD 97-10 (ISO 13616-1, ISO 7064).

use crate::check::remainder;

/// Country and length, as SWIFT's IBAN registry has them, ordered by country.
const LENGTHS: &[(&[u8; 2], usize)] = &[
    (b"AD", 24),
    (b"AE", 23),
    (b"AL", 28),
    (b"AT", 20),
    (b"AZ", 28),
    (b"BA", 20),
    (b"BE", 16),
    (b"BG", 22),
    (b"BH", 22),
    (b"BI", 27),
    (b"BR", 29),
    (b"BY", 28),
    (b"CH", 21),
    (b"CR", 22),
    (b"CY", 28),
    (b"CZ", 24),
    (b"DE", 22),
    (b"DJ", 27),
    (b"DK", 18),
    (b"DO", 28),
    (b"EE", 20),
    (b"EG", 29),
    (b"ES", 24),
    (b"FI", 18),
    (b"FK", 18),
    (b"FO", 18),
    (b"FR", 27),
    (b"GB", 22),
    (b"GE", 22),
    (b"GI", 23),
    (b"GL", 18),
    (b"GR", 27),
    (b"GT", 28),
    (b"HR", 21),
    (b"HU", 28),
    (b"IE", 22),
    (b"IL", 23),
    (b"IQ", 23),
    (b"IS", 26),
    (b"IT", 27),
    (b"JO", 30),
    (b"KW", 30),
    (b"KZ", 20),
    (b"LB", 28),
    (b"LC", 32),
    (b"LI", 21),
    (b"LT", 20),
    (b"LU", 20),
    (b"LV", 21),
    (b"LY", 25),
    (b"MC", 27),
    (b"MD", 24),
    (b"ME", 22),
    (b"MK", 19),
    (b"MN", 20),
    (b"MR", 27),
    (b"MT", 31),
    (b"MU", 30),
    (b"NI", 28),
    (b"NL", 18),
    (b"NO", 15),
    (b"OM", 23),
    (b"PK", 24),
    (b"PL", 28),
    (b"PS", 29),
    (b"PT", 25),
    (b"QA", 29),
    (b"RO", 24),
    (b"RS", 22),
    (b"RU", 33),
    (b"SA", 24),
    (b"SC", 31),
    (b"SD", 18),
    (b"SE", 24),
    (b"SI", 19),
    (b"SK", 24),
    (b"SM", 27),
    (b"SO", 23),
    (b"ST", 25),
    (b"SV", 28),
    (b"TL", 23),
    (b"TN", 24),
    (b"TR", 26),
    (b"UA", 29),
    (b"VA", 22),
    (b"VG", 24),
    (b"XK", 20),
    (b"YE", 30),
];

/// What is known of IBANs.
pub(crate) struct Iban;

impl Iban {
    /// Letters and digits of an IBAN that begins with these, which may be in lower case.
    pub(crate) fn length(start: &[u8]) -> Option<usize> {
        let [a, b, c, d, ..] = *start else { return None };
        if !(c.is_ascii_digit() && d.is_ascii_digit()) {
            return None;
        }
        let country = [a.to_ascii_uppercase(), b.to_ascii_uppercase()];
        let found = LENGTHS.binary_search_by(|(known, _)| known.as_slice().cmp(&country)).ok()?;
        Some(LENGTHS[found].1)
    }

    /// Whether length and check digits are right.
    pub(crate) fn is_valid(value: &[u8]) -> bool {
        let (Some(length), Some((start, account))) =
            (Self::length(value), value.split_at_checked(4))
        else {
            return false;
        };
        // Check digits are 02 to 98.
        let check = (start[2] - b'0') * 10 + (start[3] - b'0');
        value.len() == length
            && (2..=98).contains(&check)
            && account.iter().any(|b| *b != b'0')
            && remainder(account.iter().chain(start).copied(), 97) == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_registry_is_in_order_and_its_examples_pass() {
        assert!(LENGTHS.is_sorted_by(|a, b| a.0 < b.0));
        for good in [
            "DE89370400440532013000",
            "GB29NWBK60161331926819",
            "FR1420041010050500013M02606",
            "NO9386011117947",
            "MT84MALT011000012345MTLCAST001S",
            "CH9300762011623852957",
            "NL91ABNA0417164300",
            "BE68539007547034",
            "SA0380000000608010167519",
        ] {
            assert!(Iban::is_valid(good.as_bytes()), "{good}");
        }
    }

    #[test]
    fn another_digit_length_or_country_fails() {
        for bad in [
            "DE88370400440532013000",
            "DE8937040044053201300",
            "DE893704004405320130000",
            "ZZ89370400440532013000",
            "DE00000000000000000000",
            "DE",
            "",
        ] {
            assert!(!Iban::is_valid(bad.as_bytes()), "{bad}");
        }
    }
}
