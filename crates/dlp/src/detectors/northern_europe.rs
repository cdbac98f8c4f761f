//! Identity numbers of Sweden, Norway, Denmark, Finland, Iceland, Estonia, Lithuania.

use super::SHOWN;
use crate::check::{day_month, digits, luhn, month_day, remainder, weighted};
use crate::detector::{Detector, Family};
use crate::layout::{alone, near};

pub(super) const DETECTORS: &[Detector] = &[
    Detector {
        name: "se_personnummer",
        family: Family::Identity,
        title: "Sweden: personal identity number",
        source: "Folkbokföringslagen 18 §; Luhn",
        layouts: &[alone("6-4"), alone("6+4"), alone("8-4"), near("10"), near("12")],
        context: &[
            "personnummer",
            "personnr",
            "pnr",
            "samordningsnummer",
            "personal identity number",
        ],
        check: is_personnummer,
        shown: SHOWN,
    },
    Detector {
        name: "no_fodselsnummer",
        family: Family::Identity,
        title: "Norway: national identity number",
        source: "Folkeregisterloven; two check digits modulo 11",
        layouts: &[near("11"), alone("6 5")],
        context: &[
            "fødselsnummer",
            "fodselsnummer",
            "personnummer",
            "fnr",
            "d-nummer",
            "fødselsnr",
        ],
        check: is_fodselsnummer,
        shown: SHOWN,
    },
    Detector {
        name: "dk_cpr",
        family: Family::Identity,
        title: "Denmark: CPR number (no check digit since 2007)",
        source: "CPR-kontoret, Personnummeret i CPR",
        layouts: &[near("6-4"), near("10")],
        context: &["cpr", "cpr-nr", "cpr-nummer", "cpr nr", "personnummer"],
        check: |value| {
            digits(value).is_some_and(|d| d.len() == 10 && day_month(&d, &[0], &[0, 60]))
        },
        shown: SHOWN,
    },
    Detector {
        name: "fi_hetu",
        family: Family::Identity,
        title: "Finland: personal identity code",
        source: "Laki väestötietojärjestelmästä 11 §; modulus 31",
        layouts: &[alone("6-4"), alone("6+4"), alone("11")],
        context: &[],
        check: is_hetu,
        shown: SHOWN,
    },
    Detector {
        name: "is_kennitala",
        family: Family::Identity,
        title: "Iceland: kennitala",
        source: "Þjóðskrá, uppbygging kennitölu",
        layouts: &[near("6-4"), near("10")],
        context: &["kennitala", "kennitölu", "kt", "kt."],
        check: is_kennitala,
        shown: SHOWN,
    },
    Detector {
        name: "ee_isikukood",
        family: Family::Identity,
        title: "Estonia, Lithuania: personal code",
        source: "EVS 585:2007; Lietuvos Respublikos gyventojų registro įstatymas",
        layouts: &[near("11")],
        context: &[
            "isikukood",
            "isikukoodi",
            "asmens kodas",
            "asmens kodo",
            "personal code",
            "a.k",
        ],
        check: is_isikukood,
        shown: SHOWN,
    },
];

fn is_personnummer(value: &[u8]) -> bool {
    let short = match value {
        [b'1', b'8' | b'9', short @ ..] | [b'2', b'0', short @ ..] if value.len() == 12 => short,
        short => short,
    };
    // Coordination numbers have 60 added to the day.
    let fits = |d: Vec<u8>| d.len() == 10 && month_day(&d[2..6], &[0], &[0, 60]) && luhn(&d);
    digits(short).is_some_and(fits)
}

fn is_fodselsnummer(value: &[u8]) -> bool {
    let Some(digits) = digits(value).filter(|d| d.len() == 11) else { return false };
    // D-numbers have 40 added to the day, H-numbers 40 to the month, test persons 80.
    day_month(&digits, &[0, 40, 80], &[0, 40])
        && weighted(&digits, &[3, 7, 6, 1, 8, 9, 4, 5, 2, 1]).is_multiple_of(11)
        && weighted(&digits, &[5, 4, 3, 2, 7, 6, 5, 4, 3, 2, 1]).is_multiple_of(11)
}

fn is_hetu(value: &[u8]) -> bool {
    const CHECKS: &[u8; 31] = b"0123456789ABCDEFHJKLMNPRSTUVWXY";
    // The sign of the century is a separator (18xx, 19xx), or a letter.
    let (born, rest) = match value.len() {
        10 => value.split_at(6),
        11 if matches!(value[6], b'A'..=b'F' | b'U'..=b'Y') => (&value[..6], &value[7..]),
        _ => return false,
    };
    let (Some(date), Some(_)) = (digits(born), digits(&rest[..3])) else { return false };
    let number = remainder(born.iter().chain(&rest[..3]).copied(), 31);
    day_month(&date, &[0], &[0]) && rest[3] == CHECKS[number as usize]
}

fn is_kennitala(value: &[u8]) -> bool {
    let Some(digits) = digits(value).filter(|d| d.len() == 10) else { return false };
    matches!(digits[9], 0 | 8 | 9)
        && day_month(&digits, &[0], &[0])
        && weighted(&digits, &[3, 2, 7, 6, 5, 4, 3, 2, 1]).is_multiple_of(11)
}

fn is_isikukood(value: &[u8]) -> bool {
    let Some(digits) = digits(value).filter(|d| d.len() == 11) else { return false };
    let check = match weighted(&digits, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 1]) % 11 {
        10 => weighted(&digits, &[3, 4, 5, 6, 7, 8, 9, 1, 2, 3]) % 11 % 10,
        rest => rest,
    };
    (1..=8).contains(&digits[0])
        && month_day(&digits[3..7], &[0], &[0])
        && check == u32::from(digits[10])
}

#[cfg(test)]
mod tests {
    use super::super::testing::{one_of, passes};

    #[test]
    fn one_check_digit_of_ten_passes() {
        for (name, good) in [
            ("se_personnummer", "8112189876"),
            ("se_personnummer", "198112189876"),
            ("no_fodselsnummer", "29029600013"),
            ("ee_isikukood", "37605030299"),
        ] {
            one_of(name, good);
        }
        assert!(passes("is_kennitala", "1201743399"));
        assert!(!passes("is_kennitala", "1201743389"), "the ninth digit checks");
    }

    #[test]
    fn one_check_character_of_a_finnish_code_passes() {
        let all = "0123456789ABCDEFHJKLMNPRSTUVWXY";
        let passing = |start: &str| {
            all.chars().filter(|c| passes("fi_hetu", &format!("{start}{c}"))).collect::<String>()
        };
        assert_eq!(passing("131052308"), "T", "131052-308T");
        assert_eq!(passing("131052A308"), "T");
        assert_eq!(passing("321052308"), "", "no month has 32 days");
    }

    #[test]
    fn near_misses_fail() {
        for (name, bad) in [
            ("se_personnummer", "8113189876"),
            ("se_personnummer", "178112189876"),
            ("no_fodselsnummer", "32029600013"),
            ("dk_cpr", "3302961234"),
            ("ee_isikukood", "97605030299"),
            ("fi_hetu", "131052Z308T"),
        ] {
            assert!(!passes(name, bad), "{name} {bad}");
        }
        assert!(passes("dk_cpr", "0101701234"));
    }
}
