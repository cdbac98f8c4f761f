//! Identity numbers of the United States, Canada, Mexico, Brazil, Chile, Argentina.

use super::SHOWN;
use crate::check::{digits, is_uniform, luhn, month_day, weighted};
use crate::detector::{Detector, Family};
use crate::layout::{alone, near};

pub(super) const DETECTORS: &[Detector] = &[
    Detector {
        name: "us_ssn",
        family: Family::Identity,
        title: "United States: Social Security number (no check digit)",
        source: "SSA, Program Operations Manual RM 10201.035",
        layouts: &[alone("3-2-4"), near("3 2 4"), near("9")],
        context: &["ssn", "social security", "social sec", "ss#", "ss no", "taxpayer"],
        check: is_ssn,
        shown: SHOWN,
    },
    Detector {
        name: "ca_sin",
        family: Family::Identity,
        title: "Canada: Social Insurance number",
        source: "Employment Insurance Act, Social Insurance Number Code of Practice; Luhn",
        layouts: &[near("3-3-3"), near("3 3 3"), near("9")],
        context: &["SIN", "social insurance", "assurance sociale", "NAS"],
        check: |value| {
            let fits = |d: Vec<u8>| d.len() == 9 && !matches!(d[0], 0 | 8) && luhn(&d);
            digits(value).is_some_and(fits)
        },
        shown: SHOWN,
    },
    Detector {
        name: "mx_curp",
        family: Family::Identity,
        title: "Mexico: CURP",
        source: "Instructivo normativo para la asignación de la CURP (RENAPO)",
        layouts: &[alone("18")],
        context: &[],
        check: is_curp,
        shown: SHOWN,
    },
    Detector {
        name: "br_cpf",
        family: Family::Identity,
        title: "Brazil: CPF",
        source: "Receita Federal, Instrução Normativa RFB 1548/2015; two check digits modulo 11",
        layouts: &[alone("3.3.3-2"), near("9-2"), near("11")],
        context: &["cpf", "cadastro de pessoa", "contribuinte"],
        check: is_cpf,
        shown: SHOWN,
    },
    Detector {
        name: "cl_rut",
        family: Family::Identity,
        title: "Chile: RUT, RUN",
        source: "Servicio de Registro Civil; modulus 11",
        layouts: &[alone("2.3.3-1"), alone("1.3.3-1"), near("8-1"), near("7-1")],
        context: &["rut", "RUN", "r.u.t", "rol único", "rol unico"],
        check: is_rut,
        shown: SHOWN,
    },
    Detector {
        name: "ar_cuil",
        family: Family::Identity,
        title: "Argentina: CUIL, CUIT of a person",
        source: "ANSES; modulus 11",
        layouts: &[alone("2-8-1"), near("11")],
        context: &["cuil", "cuit", "clave única", "laboral"],
        check: is_cuil,
        shown: SHOWN,
    },
];

fn is_ssn(value: &[u8]) -> bool {
    let Some(digits) = digits(value).filter(|d| d.len() == 9) else { return false };
    let all_zero = |part: &[u8]| part.iter().all(|&d| d == 0);
    let (area, group, serial) = (&digits[..3], &digits[3..5], &digits[5..]);
    // 123-45-6789 is what people write as an example.
    !all_zero(area)
        && area != [6, 6, 6]
        && area[0] != 9
        && !all_zero(group)
        && !all_zero(serial)
        && !is_uniform(&digits)
        && value != b"123456789"
}

fn is_curp(value: &[u8]) -> bool {
    let Some((last, first)) = value.split_last().filter(|_| value.len() == 18) else {
        return false;
    };
    let letters = |range: &[u8]| range.iter().all(u8::is_ascii_uppercase);
    let Some(date) = digits(&first[4..10]) else { return false };
    // The alphabet has Ñ behind N.
    let value_of = |&b: &u8| match b {
        b'0'..=b'9' => u32::from(b - b'0'),
        b'A'..=b'N' => u32::from(b - b'A') + 10,
        _ => u32::from(b.wrapping_sub(b'A')) + 11,
    };
    let sum: u32 = first.iter().map(value_of).zip((2..=18).rev()).map(|(v, w)| v * w).sum();
    letters(&first[..4])
        && month_day(&date[2..], &[0], &[0])
        && matches!(first[10], b'H' | b'M' | b'X')
        && letters(&first[11..16])
        && last.is_ascii_digit()
        && u32::from(last - b'0') == (10 - sum % 10) % 10
}

fn is_cpf(value: &[u8]) -> bool {
    let Some(digits) = digits(value).filter(|d| d.len() == 11 && !is_uniform(d)) else {
        return false;
    };
    let check = |weights: &[u32]| weighted(&digits, weights) * 10 % 11 % 10;
    check(&[10, 9, 8, 7, 6, 5, 4, 3, 2]) == u32::from(digits[9])
        && check(&[11, 10, 9, 8, 7, 6, 5, 4, 3, 2]) == u32::from(digits[10])
}

fn is_rut(value: &[u8]) -> bool {
    let Some((last, first)) = value.split_last() else { return false };
    let Some(digits) = digits(first).filter(|d| matches!(d.len(), 7 | 8) && d[0] != 0) else {
        return false;
    };
    let weights = [2, 3, 4, 5, 6, 7, 2, 3];
    let sum: u32 = digits.iter().rev().zip(weights).map(|(&d, w)| u32::from(d) * w).sum();
    let check = match 11 - sum % 11 {
        11 => b'0',
        10 => b'K',
        rest => b'0' + rest as u8,
    };
    *last == check && !is_uniform(&digits)
}

fn is_cuil(value: &[u8]) -> bool {
    let Some(digits) = digits(value).filter(|d| d.len() == 11) else { return false };
    let is_person = matches!(&value[..2], b"20" | b"23" | b"24" | b"25" | b"26" | b"27");
    is_person && weighted(&digits, &[5, 4, 3, 2, 7, 6, 5, 4, 3, 2, 1]).is_multiple_of(11)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{one_of, passes};

    #[test]
    fn one_check_digit_of_ten_passes() {
        for (name, good) in [
            ("ca_sin", "130692544"),
            ("mx_curp", "HEGG560427MVZRRL04"),
            ("br_cpf", "11144477735"),
            ("cl_rut", "123456785"),
            ("ar_cuil", "20123456786"),
        ] {
            one_of(name, good);
        }
        assert!(passes("us_ssn", "078051120"));
    }

    #[test]
    fn near_misses_fail() {
        for (name, bad) in [
            ("us_ssn", "000051120"),
            ("us_ssn", "666051120"),
            ("us_ssn", "900051120"),
            ("us_ssn", "078001120"),
            ("us_ssn", "078050000"),
            ("us_ssn", "123456789"),
            ("ca_sin", "046454286"),
            ("ca_sin", "130692545"),
            ("mx_curp", "HEGG561427MVZRRL04"),
            ("br_cpf", "11111111111"),
            ("cl_rut", "12345678K"),
            ("ar_cuil", "30123456786"),
        ] {
            assert!(!passes(name, bad), "{name} {bad}");
        }
    }
}
