//! Identity numbers of Poland, Czechia and Slovakia, Hungary, Romania, Bulgaria, Croatia, Russia.

use super::SHOWN;
use crate::check::{digits, is_uniform, mod_11_10, month_day, remainder, weighted};
use crate::detector::{Detector, Family};
use crate::layout::{alone, near};

pub(super) const DETECTORS: &[Detector] = &[
    Detector {
        name: "pl_pesel",
        family: Family::Identity,
        title: "Poland: PESEL",
        source: "Ustawa o ewidencji ludności, art. 15",
        layouts: &[near("11")],
        context: &["pesel", "numer ewidencyjny"],
        check: is_pesel,
        shown: SHOWN,
    },
    Detector {
        name: "cz_rodne_cislo",
        family: Family::Identity,
        title: "Czechia, Slovakia: birth number",
        source: "Zákon 133/2000 Sb. § 13; divisible by 11",
        layouts: &[alone("6/4"), near("10")],
        context: &["rodné číslo", "rodne cislo", "rodného čísla", "rodné č", "r.č", "rč"],
        check: is_rodne_cislo,
        shown: SHOWN,
    },
    Detector {
        name: "hu_taj",
        family: Family::Identity,
        title: "Hungary: social security number (TAJ)",
        source: "1996. évi XX. törvény, melléklet",
        layouts: &[near("9"), near("3 3 3"), near("3-3-3")],
        context: &["taj", "taj szám", "taj-szám", "tajszám", "társadalombiztosítási"],
        check: is_taj,
        shown: SHOWN,
    },
    Detector {
        name: "ro_cnp",
        family: Family::Identity,
        title: "Romania: personal numeric code (CNP)",
        source: "Legea 105/1996",
        layouts: &[near("13")],
        context: &["cnp", "cod numeric personal", "codul numeric"],
        check: is_cnp,
        shown: SHOWN,
    },
    Detector {
        name: "bg_egn",
        family: Family::Identity,
        title: "Bulgaria: uniform civil number (EGN)",
        source: "ГРАО, Закон за гражданската регистрация",
        layouts: &[near("10")],
        context: &["егн", "egn", "единен граждански номер"],
        check: is_egn,
        shown: SHOWN,
    },
    Detector {
        name: "hr_oib",
        family: Family::Identity,
        title: "Croatia: personal identification number (OIB)",
        source: "Zakon o osobnom identifikacijskom broju; ISO 7064 MOD 11,10",
        layouts: &[near("11")],
        context: &["oib", "osobni identifikacijski"],
        check: |value| {
            digits(value).is_some_and(|d| d.len() == 11 && !is_uniform(&d) && mod_11_10(&d))
        },
        shown: SHOWN,
    },
    Detector {
        name: "ru_snils",
        family: Family::Identity,
        title: "Russia: insurance account number (SNILS)",
        source: "Пенсионный фонд, постановление 192п",
        layouts: &[alone("3-3-3 2"), alone("3-3-3-2"), near("11")],
        context: &["снилс", "snils", "страховой номер"],
        check: is_snils,
        shown: SHOWN,
    },
    Detector {
        name: "ru_inn",
        family: Family::Identity,
        title: "Russia: taxpayer number of a person (INN)",
        source: "ФНС, приказ ММВ-7-6/435",
        layouts: &[near("12")],
        context: &["инн", "INN", "налогоплательщика"],
        check: is_inn,
        shown: SHOWN,
    },
];

fn is_pesel(value: &[u8]) -> bool {
    let Some(digits) = digits(value).filter(|d| d.len() == 11) else { return false };
    // The month says the century.
    month_day(&digits[2..6], &[0, 20, 40, 60, 80], &[0])
        && weighted(&digits, &[1, 3, 7, 9, 1, 3, 7, 9, 1, 3, 1]).is_multiple_of(10)
}

fn is_rodne_cislo(value: &[u8]) -> bool {
    let Some(digits) = digits(value).filter(|d| d.len() == 10) else { return false };
    // Women have 50 added to the month; 20 more when a day's numbers were used up.
    month_day(&digits[2..6], &[0, 20, 50, 70], &[0])
        && remainder(value.iter().copied(), 11) == 0
        && !is_uniform(&digits)
}

fn is_taj(value: &[u8]) -> bool {
    let Some(digits) = digits(value).filter(|d| d.len() == 9 && !is_uniform(d)) else {
        return false;
    };
    weighted(&digits, &[3, 7, 3, 7, 3, 7, 3, 7]) % 10 == u32::from(digits[8])
}

fn is_cnp(value: &[u8]) -> bool {
    let Some(digits) = digits(value).filter(|d| d.len() == 13) else { return false };
    let county = digits[7] * 10 + digits[8];
    let rest = weighted(&digits, &[2, 7, 9, 1, 4, 6, 3, 5, 8, 2, 7, 9]) % 11;
    (1..=9).contains(&digits[0])
        && month_day(&digits[3..7], &[0], &[0])
        && matches!(county, 1..=52 | 70)
        && u32::from(digits[12]) == if rest == 10 { 1 } else { rest }
}

fn is_egn(value: &[u8]) -> bool {
    let Some(digits) = digits(value).filter(|d| d.len() == 10) else { return false };
    month_day(&digits[2..6], &[0, 20, 40], &[0])
        && weighted(&digits, &[2, 4, 8, 5, 10, 9, 7, 3, 6]) % 11 % 10 == u32::from(digits[9])
}

fn is_snils(value: &[u8]) -> bool {
    let Some(digits) = digits(value).filter(|d| d.len() == 11) else { return false };
    let check = u32::from(digits[9]) * 10 + u32::from(digits[10]);
    let sum = weighted(&digits, &[9, 8, 7, 6, 5, 4, 3, 2, 1]);
    // Numbers up to 001-001-998 have no check digits.
    digits[..9] > [0, 0, 1, 0, 0, 1, 9, 9, 8][..] && sum % 101 % 100 == check
}

fn is_inn(value: &[u8]) -> bool {
    let Some(digits) = digits(value).filter(|d| d.len() == 12 && !is_uniform(d)) else {
        return false;
    };
    let check = |weights: &[u32]| weighted(&digits, weights) % 11 % 10;
    check(&[7, 2, 4, 10, 3, 5, 9, 4, 6, 8]) == u32::from(digits[10])
        && check(&[3, 7, 2, 4, 10, 3, 5, 9, 4, 6, 8]) == u32::from(digits[11])
}

#[cfg(test)]
mod tests {
    use super::super::testing::{one_of, passes};

    #[test]
    fn one_check_digit_of_ten_passes() {
        for (name, good) in [
            ("pl_pesel", "44051401359"),
            ("cz_rodne_cislo", "7103192745"),
            ("hu_taj", "111111110"),
            ("ro_cnp", "1630615123457"),
            ("bg_egn", "7523169263"),
            ("hr_oib", "33392005961"),
            ("ru_snils", "11223344595"),
            ("ru_inn", "500100732259"),
        ] {
            one_of(name, good);
        }
    }

    #[test]
    fn near_misses_fail() {
        for (name, bad) in [
            ("pl_pesel", "44053501359"),
            ("cz_rodne_cislo", "7199192745"),
            ("hu_taj", "000000000"),
            ("ro_cnp", "0630615123457"),
            ("bg_egn", "7599169263"),
            ("hr_oib", "3339200596"),
            ("ru_snils", "00000000000"),
            ("ru_inn", "000000000000"),
        ] {
            assert!(!passes(name, bad), "{name} {bad}");
        }
    }
}
