//! Identity numbers of Asia, Oceania and Africa.

use super::SHOWN;
use crate::check::{digits, is_uniform, luhn, mod_11_2, month_day, verhoeff, weighted};
use crate::detector::{Detector, Family};
use crate::layout::{alone, near};

pub(super) const DETECTORS: &[Detector] = &[
    Detector {
        name: "cn_id",
        family: Family::Identity,
        title: "China: resident identity number",
        source: "GB 11643-1999; ISO 7064 MOD 11-2",
        layouts: &[alone("18")],
        context: &[],
        check: is_cn_id,
        shown: SHOWN,
    },
    Detector {
        name: "in_aadhaar",
        family: Family::Identity,
        title: "India: Aadhaar",
        source: "UIDAI, UID Numbering Scheme; Verhoeff",
        layouts: &[near("4 4 4"), near("4-4-4"), near("12")],
        context: &["aadhaar", "aadhar", "adhaar", "uidai", "UID", "आधार"],
        check: |value| {
            let fits = |d: Vec<u8>| d.len() == 12 && d[0] > 1 && !is_uniform(&d) && verhoeff(&d);
            digits(value).is_some_and(fits)
        },
        shown: SHOWN,
    },
    Detector {
        name: "in_pan",
        family: Family::Identity,
        title: "India: permanent account number (check letter not published)",
        source: "Income-tax Rules 1962, rule 114",
        layouts: &[near("10")],
        context: &["PAN", "permanent account", "income tax", "income-tax"],
        check: is_pan,
        shown: SHOWN,
    },
    Detector {
        name: "jp_my_number",
        family: Family::Identity,
        title: "Japan: individual number (My Number)",
        source: "総務省令第八十五号 (2014), Article 5",
        layouts: &[near("12"), near("4 4 4"), near("4-4-4")],
        context: &["my number", "mynumber", "マイナンバー", "個人番号"],
        check: is_my_number,
        shown: SHOWN,
    },
    Detector {
        name: "kr_rrn",
        family: Family::Identity,
        title: "South Korea: resident registration number (as given until October 2020)",
        source: "주민등록법 시행규칙; modulus 11",
        layouts: &[alone("6-7"), near("13")],
        context: &["주민등록번호", "주민번호", "rrn", "resident registration"],
        check: is_rrn,
        shown: SHOWN,
    },
    Detector {
        name: "tw_id",
        family: Family::Identity,
        title: "Taiwan: identity card number",
        source: "戶籍法; modulus 10",
        layouts: &[near("10")],
        context: &["身分證", "身份證", "身分証", "national id", "id number"],
        check: is_tw_id,
        shown: SHOWN,
    },
    Detector {
        name: "sg_nric",
        family: Family::Identity,
        title: "Singapore: NRIC, FIN",
        source: "National Registration Act; modulus 11",
        layouts: &[near("9")],
        context: &["nric", "FIN", "ic no", "identity card", "fin no"],
        check: is_nric,
        shown: SHOWN,
    },
    Detector {
        name: "th_id",
        family: Family::Identity,
        title: "Thailand: identification number",
        source: "กรมการปกครอง (Department of Provincial Administration); modulus 11",
        layouts: &[alone("1-4-5-2-1"), alone("1 4 5 2 1"), near("13")],
        context: &["เลขประจำตัวประชาชน", "บัตรประชาชน", "thai id", "citizen id"],
        check: is_th_id,
        shown: SHOWN,
    },
    Detector {
        name: "il_id",
        family: Family::Identity,
        title: "Israel: identity number",
        source: "Population and Immigration Authority; Luhn",
        layouts: &[near("9"), near("8-1")],
        context: &["תעודת זהות", "ת.ז", "ת\"ז", "teudat zehut", "israeli id"],
        check: |value| digits(value).is_some_and(|d| d.len() == 9 && !is_uniform(&d) && luhn(&d)),
        shown: SHOWN,
    },
    Detector {
        name: "au_tfn",
        family: Family::Identity,
        title: "Australia: tax file number",
        source: "Australian Taxation Office; modulus 11",
        layouts: &[near("9"), near("3 3 3"), near("3-3-3")],
        context: &["tfn", "tax file"],
        check: |value| {
            let weights = [1, 4, 3, 7, 5, 8, 6, 9, 10];
            let fits = |d: Vec<u8>| {
                d.len() == 9 && !is_uniform(&d) && weighted(&d, &weights).is_multiple_of(11)
            };
            digits(value).is_some_and(fits)
        },
        shown: SHOWN,
    },
    Detector {
        name: "au_medicare",
        family: Family::Identity,
        title: "Australia: Medicare card number",
        source: "Services Australia; modulus 10",
        layouts: &[near("10"), near("4 5 1"), near("4-5-1")],
        context: &["medicare"],
        check: |value| {
            let weights = [1, 3, 7, 9, 1, 3, 7, 9];
            let sum = |d: &[u8]| weighted(d, &weights) % 10;
            let fits = |d: Vec<u8>| {
                d.len() == 10 && matches!(d[0], 2..=6) && sum(&d) == u32::from(d[8]) && d[9] != 0
            };
            digits(value).is_some_and(fits)
        },
        shown: SHOWN,
    },
    Detector {
        name: "za_id",
        family: Family::Identity,
        title: "South Africa: identity number",
        source: "Identification Act 68 of 1997; Luhn",
        layouts: &[near("13"), near("6 4 3"), near("6 4 2 1")],
        context: &[
            "id number",
            "id no",
            "identity number",
            "south african id",
            "rsa id",
            "id nommer",
        ],
        check: |value| {
            let fits = |d: Vec<u8>| {
                d.len() == 13 && month_day(&d[2..6], &[0], &[0]) && d[10] < 3 && luhn(&d)
            };
            digits(value).is_some_and(fits)
        },
        shown: SHOWN,
    },
];

fn is_cn_id(value: &[u8]) -> bool {
    let Some((last, first)) = value.split_last().filter(|_| value.len() == 18) else {
        return false;
    };
    let check = match last {
        b'X' => 10,
        b'0'..=b'9' => last - b'0',
        _ => return false,
    };
    let Some(mut values) = digits(first) else { return false };
    let province = values[0] * 10 + values[1];
    let century = matches!(&first[6..8], b"18" | b"19" | b"20");
    let born = century && month_day(&values[10..14], &[0], &[0]);
    values.push(check);
    // 11 to 65 are mainland China's, 71 to 83 those of Taiwan, Hong Kong and Macao.
    matches!(province, 11..=65 | 71 | 81..=83) && born && mod_11_2(&values)
}

fn is_pan(value: &[u8]) -> bool {
    // The fourth letter is the kind of holder: P for a person.
    value.len() == 10
        && value[..5].iter().all(u8::is_ascii_uppercase)
        && b"PCHABGJLFT".contains(&value[3])
        && value[5..9].iter().all(u8::is_ascii_digit)
        && value[9].is_ascii_uppercase()
}

fn is_my_number(value: &[u8]) -> bool {
    let Some(digits) = digits(value).filter(|d| d.len() == 12 && !is_uniform(d)) else {
        return false;
    };
    let rest = weighted(&digits, &[6, 5, 4, 3, 2, 7, 6, 5, 4, 3, 2]) % 11;
    u32::from(digits[11]) == if rest < 2 { 0 } else { 11 - rest }
}

fn is_rrn(value: &[u8]) -> bool {
    let Some(digits) = digits(value).filter(|d| d.len() == 13) else { return false };
    let sum = weighted(&digits, &[2, 3, 4, 5, 6, 7, 8, 9, 2, 3, 4, 5]);
    month_day(&digits[2..6], &[0], &[0]) && (11 - sum % 11) % 10 == u32::from(digits[12])
}

fn is_tw_id(value: &[u8]) -> bool {
    /// Numbers of the letters A to Z.
    const LETTERS: [u32; 26] = [
        10, 11, 12, 13, 14, 15, 16, 17, 34, 18, 19, 20, 21, 22, 35, 23, 24, 25, 26, 27, 28, 29, 32,
        30, 31, 33,
    ];
    let [letter @ b'A'..=b'Z', number @ ..] = value else { return false };
    let Some(digits) = digits(number).filter(|d| d.len() == 9) else { return false };
    let letter = LETTERS[usize::from(letter - b'A')];
    let sum = letter / 10 + letter % 10 * 9 + weighted(&digits, &[8, 7, 6, 5, 4, 3, 2, 1, 1]);
    matches!(digits[0], 1 | 2 | 8 | 9) && sum.is_multiple_of(10)
}

fn is_nric(value: &[u8]) -> bool {
    let [kind, number @ .., last] = value else { return false };
    let Some(digits) = digits(number).filter(|d| d.len() == 7) else { return false };
    let (letters, offset): (&[u8; 11], u32) = match kind {
        b'S' => (b"JZIHGFEDCBA", 0),
        b'T' => (b"JZIHGFEDCBA", 4),
        b'F' => (b"XWUTRQPNMLK", 0),
        b'G' => (b"XWUTRQPNMLK", 4),
        b'M' => (b"XWUTRQPNJLK", 3),
        _ => return false,
    };
    let rest = (offset + weighted(&digits, &[2, 7, 6, 5, 4, 3, 2])) % 11;
    *last == letters[rest as usize]
}

fn is_th_id(value: &[u8]) -> bool {
    let Some(digits) = digits(value).filter(|d| d.len() == 13 && !is_uniform(d)) else {
        return false;
    };
    let sum = weighted(&digits, &[13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2]);
    (1..=8).contains(&digits[0]) && (11 - sum % 11) % 10 == u32::from(digits[12])
}

#[cfg(test)]
mod tests {
    use super::super::testing::{one_of, passes};

    #[test]
    fn one_check_digit_of_ten_passes() {
        for (name, good) in [
            ("in_aadhaar", "234123412346"),
            ("jp_my_number", "123456789018"),
            ("kr_rrn", "8001011234560"),
            ("tw_id", "A123456789"),
            ("th_id", "1101700230708"),
            ("il_id", "123456782"),
            ("au_tfn", "123456782"),
            ("za_id", "8001015009087"),
        ] {
            one_of(name, good);
        }
        assert!(passes("cn_id", "11010519491231002X") && !passes("cn_id", "110105194912310021"));
        assert!(passes("au_medicare", "2123456701") && !passes("au_medicare", "2123456711"));
        assert!(passes("sg_nric", "S1234567D") && !passes("sg_nric", "S1234567E"));
        assert!(passes("in_pan", "ABCPE1234F"));
    }

    #[test]
    fn near_misses_fail() {
        for (name, bad) in [
            ("cn_id", "99010519491231002X"),
            ("cn_id", "11010519491331002X"),
            ("in_aadhaar", "134123412346"),
            ("in_pan", "ABCDE1234F"),
            ("kr_rrn", "8013011234560"),
            ("tw_id", "A323456789"),
            ("sg_nric", "A1234567D"),
            ("au_medicare", "9123456701"),
            ("za_id", "8013015009087"),
        ] {
            assert!(!passes(name, bad), "{name} {bad}");
        }
    }
}
