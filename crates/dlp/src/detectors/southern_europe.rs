//! Identity numbers of Spain, Portugal, Italy, Greece, Turkey.

use super::SHOWN;
use crate::check::{day_month, digits, luhn, remainder, weighted};
use crate::detector::{Detector, Family};
use crate::layout::{alone, lettered, near};

pub(super) const DETECTORS: &[Detector] = &[
    Detector {
        name: "es_dni",
        family: Family::Identity,
        title: "Spain: DNI, NIE",
        source: "Real Decreto 1553/2005; Orden INT/2058/2008; modulus 23",
        layouts: &[near("9"), alone("8-1"), lettered(1, alone("1-7-1")), alone("2.3.3-1")],
        context: &["dni", "d.n.i", "NIE", "nif", "n.i.f", "documento nacional", "identidad"],
        check: is_dni,
        shown: SHOWN,
    },
    Detector {
        name: "pt_nif",
        family: Family::Identity,
        title: "Portugal: taxpayer number of a person (NIF)",
        source: "Decreto-Lei 14/2013; modulus 11",
        layouts: &[near("9"), near("3 3 3")],
        context: &["nif", "contribuinte", "número fiscal", "numero fiscal"],
        check: is_nif,
        shown: SHOWN,
    },
    Detector {
        name: "it_codice_fiscale",
        family: Family::Identity,
        title: "Italy: codice fiscale of a person",
        source: "Decreto ministeriale 23 dicembre 1976",
        layouts: &[alone("16"), lettered(2, alone("3 3 5 5"))],
        context: &[],
        check: is_codice_fiscale,
        shown: SHOWN,
    },
    Detector {
        name: "gr_amka",
        family: Family::Identity,
        title: "Greece: social security number (AMKA)",
        source: "Νόμος 3655/2008; Luhn",
        layouts: &[near("11")],
        context: &["αμκα", "amka", "α.μ.κ.α"],
        check: |value| {
            let fits = |d: Vec<u8>| d.len() == 11 && day_month(&d, &[0], &[0]) && luhn(&d);
            digits(value).is_some_and(fits)
        },
        shown: SHOWN,
    },
    Detector {
        name: "tr_kimlik",
        family: Family::Identity,
        title: "Turkey: identification number",
        source: "Nüfus Hizmetleri Kanunu; two check digits",
        layouts: &[near("11")],
        context: &["kimlik", "t.c", "tc no", "tckn", "vatandaşlık"],
        check: is_kimlik,
        shown: SHOWN,
    },
];

fn is_dni(value: &[u8]) -> bool {
    const LETTERS: &[u8; 23] = b"TRWAGMYFPDXBNJZSQVHLCKE";
    let [first, middle @ .., last] = value else { return false };
    let first = match first {
        b'X' | b'Y' | b'Z' => first - b'X' + b'0',
        other => *other,
    };
    let number = std::iter::once(first).chain(middle.iter().copied());
    middle.len() == 7
        && first.is_ascii_digit()
        && digits(middle).is_some_and(|d| d.iter().any(|&d| d != 0))
        && *last == LETTERS[remainder(number, 23) as usize]
}

fn is_nif(value: &[u8]) -> bool {
    let Some(digits) = digits(value).filter(|d| d.len() == 9) else { return false };
    let rest = weighted(&digits, &[9, 8, 7, 6, 5, 4, 3, 2]) % 11;
    matches!(digits[0], 1..=3) && u32::from(digits[8]) == if rest < 2 { 0 } else { 11 - rest }
}

/// What a character at an odd place counts (the first is odd), by its place in the alphabet; a
/// digit counts as the letter of its value.
const ODD: [u32; 26] =
    [1, 0, 5, 7, 9, 13, 15, 17, 19, 21, 2, 4, 18, 20, 11, 3, 6, 8, 12, 14, 16, 10, 22, 25, 24, 23];

fn is_codice_fiscale(value: &[u8]) -> bool {
    /// Letters that stand for 0 to 9 where two persons would have the same code.
    const REPLACING: &[u8; 10] = b"LMNPQRSTUV";
    const MONTHS: &[u8; 12] = b"ABCDEHLMPRST";
    let Some((last, first)) = value.split_last().filter(|_| value.len() == 16) else {
        return false;
    };
    let is_letter = |i: usize| first[i].is_ascii_uppercase();
    let digit = |i: usize| match first[i] {
        b @ b'0'..=b'9' => Some(u32::from(b - b'0')),
        b => REPLACING.iter().position(|&r| r == b).and_then(|i| u32::try_from(i).ok()),
    };
    let formed = (0..6).all(is_letter)
        && is_letter(11)
        && [6, 7, 9, 10, 12, 13, 14].into_iter().all(|i| digit(i).is_some())
        && MONTHS.contains(&first[8]);
    let day = digit(9).zip(digit(10)).map_or(0, |(a, b)| a * 10 + b);
    let index = |b: u8| if b.is_ascii_digit() { b - b'0' } else { b.wrapping_sub(b'A') };
    let count = |(i, &b): (usize, &u8)| match i % 2 {
        0 => ODD[usize::from(index(b)) % 26],
        _ => u32::from(index(b)),
    };
    // Women have 40 added to the day.
    formed
        && matches!(day, 1..=31 | 41..=71)
        && u32::from(last.wrapping_sub(b'A'))
            == first.iter().enumerate().map(count).sum::<u32>() % 26
}

fn is_kimlik(value: &[u8]) -> bool {
    let Some(digits) = digits(value).filter(|d| d.len() == 11 && d[0] != 0) else { return false };
    let tenth = weighted(&digits, &[7, 9, 7, 9, 7, 9, 7, 9, 7]) % 10;
    let last = digits[..10].iter().map(|&d| u32::from(d)).sum::<u32>() % 10;
    tenth == u32::from(digits[9]) && last == u32::from(digits[10])
}

#[cfg(test)]
mod tests {
    use super::super::testing::{one_of, passes};

    #[test]
    fn one_check_digit_of_ten_passes() {
        for (name, good) in
            [("pt_nif", "123456789"), ("gr_amka", "01013099997"), ("tr_kimlik", "10000000146")]
        {
            one_of(name, good);
        }
    }

    #[test]
    fn one_letter_passes() {
        let letters = |name: &str, start: &str| {
            let last = |c: &char| passes(name, &format!("{start}{c}"));
            ('A'..='Z').filter(last).collect::<String>()
        };
        assert_eq!(letters("es_dni", "12345678"), "Z");
        assert_eq!(letters("es_dni", "X1234567"), "L");
        assert_eq!(letters("it_codice_fiscale", "RSSMRA85T10A562"), "S");
    }

    #[test]
    fn near_misses_fail() {
        for (name, bad) in [
            ("es_dni", "00000000T"),
            ("es_dni", "W1234567L"),
            ("pt_nif", "523456789"),
            ("it_codice_fiscale", "RSSMRA85F10A562S"),
            ("it_codice_fiscale", "RSSMRA85T10A562"),
            ("gr_amka", "32013099997"),
            ("tr_kimlik", "00000000000"),
        ] {
            assert!(!passes(name, bad), "{name} {bad}");
        }
    }
}
