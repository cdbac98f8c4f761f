//! Identity numbers of Germany, Austria, Switzerland, France, the Benelux, Britain and Ireland.

use super::SHOWN;
use crate::check::{day_month, digits, mod_11_10, month_day, remainder, weighted};
use crate::detector::{Detector, Family};
use crate::layout::{alone, lettered, near};

pub(super) const DETECTORS: &[Detector] = &[
    Detector {
        name: "de_steuer_id",
        family: Family::Identity,
        title: "Germany: tax identification number",
        source: "Abgabenordnung § 139b; ISO 7064 MOD 11,10",
        layouts: &[near("11"), near("2 3 3 3"), near("2/3/3/3")],
        context: &[
            "steuer-id",
            "steuerid",
            "steueridentifikationsnummer",
            "steuer-identifikationsnummer",
            "identifikationsnummer",
            "idnr",
            "id-nr",
            "steuer-idnr",
            "steuer",
            "TIN",
            "tax id",
        ],
        check: is_steuer_id,
        shown: SHOWN,
    },
    Detector {
        name: "de_rvnr",
        family: Family::Identity,
        title: "Germany: pension insurance number",
        source: "Versicherungsnummern-, Kontoführungs- und Versicherungsverlaufsverordnung § 2",
        layouts: &[alone("12"), alone("2 6 1 3"), alone("2 6 1 2 1"), alone("8 1 3")],
        context: &[],
        check: is_rvnr,
        shown: SHOWN,
    },
    Detector {
        name: "at_svnr",
        family: Family::Identity,
        title: "Austria: social insurance number",
        source: "ASVG § 31; weights by the Dachverband der Sozialversicherungsträger",
        layouts: &[near("10"), near("4 6"), near("4-6"), near("4/6")],
        context: &[
            "svnr",
            "sv-nr",
            "sozialversicherungsnummer",
            "sozialversicherung",
            "versicherungsnummer",
        ],
        check: is_svnr,
        shown: SHOWN,
    },
    Detector {
        name: "ch_ahv",
        family: Family::Identity,
        title: "Switzerland: AHV number (AVS, NAVS13)",
        source: "AHVV Art. 133bis; check digit of GTIN-13 (GS1 General Specifications 7.9)",
        layouts: &[alone("13"), alone("3.4.4.2"), alone("3 4 4 2")],
        context: &[],
        check: is_ahv,
        shown: SHOWN,
    },
    Detector {
        name: "fr_nir",
        family: Family::Identity,
        title: "France: NIR (social security number)",
        source: "INSEE, Répertoire national d'identification des personnes physiques",
        layouts: &[near("15"), near("13 2"), alone("1 2 2 2 3 3 2"), alone("1.2.2.2.3.3.2")],
        context: &[
            "nir",
            "sécurité sociale",
            "securite sociale",
            "numéro de sécu",
            "secu",
            "sécu",
            "insee",
            "assuré",
            "n° ss",
            "carte vitale",
        ],
        check: is_nir,
        shown: SHOWN,
    },
    Detector {
        name: "be_nn",
        family: Family::Identity,
        title: "Belgium: national register number",
        source: "Koninklijk besluit of 3 April 1984; MOD 97",
        layouts: &[
            near("11"),
            alone("2.2.2-3.2"),
            alone("2.2.2-3-2"),
            near("6 3 2"),
            near("6-3-2"),
        ],
        context: &[
            "rijksregister",
            "rijksregisternummer",
            "registre national",
            "numéro national",
            "insz",
            "niss",
            "national number",
            "nationalregister",
        ],
        check: is_nn,
        shown: SHOWN,
    },
    Detector {
        name: "nl_bsn",
        family: Family::Identity,
        title: "Netherlands: citizen service number (BSN)",
        source: "Besluit burgerservicenummer; eleven test",
        layouts: &[near("9"), near("4.2.3"), near("3.3.3"), near("4 2 3"), near("3 3 3")],
        context: &[
            "bsn",
            "burgerservicenummer",
            "sofinummer",
            "sofi-nummer",
            "sofi",
            "citizen service number",
        ],
        check: |value| digits(value).is_some_and(|d| is_bsn(&d)),
        shown: SHOWN,
    },
    Detector {
        name: "lu_matricule",
        family: Family::Identity,
        title: "Luxembourg: national identification number",
        source: "Loi du 19 juin 2013; Luhn and Verhoeff",
        layouts: &[near("13"), near("4 2 2 5"), near("8 5")],
        context: &["matricule", "numéro d'identification", "sozialversicherungsnummer", "CNS"],
        check: is_matricule,
        shown: SHOWN,
    },
    Detector {
        name: "uk_nino",
        family: Family::Identity,
        title: "United Kingdom: National Insurance number (no check digit)",
        source: "HMRC, National Insurance Manual NIM39110",
        layouts: &[
            near("9"),
            lettered(1, alone("2 2 2 2 1")),
            lettered(1, alone("2-2-2-2-1")),
            lettered(1, near("2 6 1")),
        ],
        context: &["nino", "ni number", "ni no", "national insurance", "insurance number"],
        check: is_nino,
        shown: SHOWN,
    },
    Detector {
        name: "uk_nhs",
        family: Family::Identity,
        title: "United Kingdom: NHS number",
        source: "NHS Data Dictionary, NHS NUMBER; modulus 11",
        layouts: &[near("10"), near("3 3 4"), near("3-3-4")],
        context: &["nhs", "nhs number", "health service", "patient"],
        check: |value| digits(value).is_some_and(|d| is_nhs(&d)),
        shown: SHOWN,
    },
    Detector {
        name: "ie_pps",
        family: Family::Identity,
        title: "Ireland: Personal Public Service number",
        source: "Department of Social Protection; modulus 23",
        layouts: &[near("8"), near("9")],
        context: &["pps", "ppsn", "pps number", "pps no", "personal public service"],
        check: is_pps,
        shown: SHOWN,
    },
];

fn is_steuer_id(value: &[u8]) -> bool {
    let Some(digits) = digits(value).filter(|d| d.len() == 11 && d[0] != 0) else { return false };
    let mut counts = [0_u8; 10];
    for &digit in &digits[..10] {
        counts[usize::from(digit)] += 1;
    }
    // One digit occurs twice or three times, every other one once at most.
    let repeated: Vec<u8> = counts.into_iter().filter(|&n| n > 1).collect();
    matches!(repeated[..], [2 | 3]) && mod_11_10(&digits)
}

fn is_rvnr(value: &[u8]) -> bool {
    let Some(letter) = value.get(8).filter(|b| b.is_ascii_uppercase() && value.len() == 12) else {
        return false;
    };
    let (area, ordinal) = (&value[..8], letter - b'A' + 1);
    let (Some(mut all), Some(rest)) = (digits(area), digits(&value[9..])) else { return false };
    // The day of birth may have 50 added.
    if !day_month(&all[2..6], &[0], &[0, 50]) {
        return false;
    }
    all.extend([ordinal / 10, ordinal % 10, rest[0], rest[1]]);
    const WEIGHTS: [u32; 12] = [2, 1, 2, 5, 7, 1, 2, 1, 2, 1, 2, 1];
    let sums = all.iter().zip(WEIGHTS).map(|(&d, w)| u32::from(d) * w).map(|p| p / 10 + p % 10);
    sums.sum::<u32>() % 10 == u32::from(rest[2])
}

fn is_svnr(value: &[u8]) -> bool {
    let Some(digits) = digits(value).filter(|d| d.len() == 10 && d[0] != 0) else { return false };
    // Months 13 to 15 are for days of birth whose numbers are used up.
    day_month(&digits[4..8], &[0, 1, 2, 3], &[0])
        && weighted(&digits, &[3, 7, 9, 0, 5, 8, 4, 2, 1, 6]) % 11 == u32::from(digits[3])
}

fn is_ahv(value: &[u8]) -> bool {
    const WEIGHTS: [u32; 13] = [1, 3, 1, 3, 1, 3, 1, 3, 1, 3, 1, 3, 1];
    let is_ean = |d: Vec<u8>| d.len() == 13 && weighted(&d, &WEIGHTS).is_multiple_of(10);
    value.starts_with(b"756") && digits(value).is_some_and(is_ean)
}

fn is_nir(value: &[u8]) -> bool {
    if value.len() != 15 || !matches!(value[0], b'1'..=b'4' | b'7' | b'8') {
        return false;
    }
    // Corsica's departments 2A and 2B count as 19 and 18.
    let mut number = value[..13].to_vec();
    match &value[5..7] {
        b"2A" => number[5..7].copy_from_slice(b"19"),
        b"2B" => number[5..7].copy_from_slice(b"18"),
        _ => {}
    }
    let (Some(number), Some(key)) = (digits(&number), digits(&value[13..])) else { return false };
    let month = number[3] * 10 + number[4];
    let is_month = matches!(month, 1..=12 | 20..=42 | 50..=99);
    let rest = remainder(number.iter().map(|d| d + b'0'), 97);
    is_month && 97 - rest == u32::from(key[0]) * 10 + u32::from(key[1])
}

fn is_nn(value: &[u8]) -> bool {
    let Some(digits) = digits(value).filter(|d| d.len() == 11) else { return false };
    // Persons without a national number have a month with 20 or 40 added.
    if !month_day(&digits[2..6], &[0, 20, 40], &[0]) {
        return false;
    }
    let check = u32::from(digits[9]) * 10 + u32::from(digits[10]);
    let number = &value[..9];
    // Whoever was born in 2000 or later has a 2 before the number.
    let born = |century: &[u8]| 97 - remainder(century.iter().chain(number).copied(), 97) == check;
    born(b"") || born(b"2")
}

fn is_bsn(digits: &[u8]) -> bool {
    let Some((&last, first)) = digits.split_last().filter(|_| digits.len() == 9) else {
        return false;
    };
    weighted(first, &[9, 8, 7, 6, 5, 4, 3, 2]) % 11 == u32::from(last)
        && !crate::check::is_uniform(digits)
}

fn is_matricule(value: &[u8]) -> bool {
    let Some(digits) = digits(value).filter(|d| d.len() == 13) else { return false };
    let century = matches!(&value[..2], b"18" | b"19" | b"20");
    // The twelfth digit checks by Luhn, the last by Verhoeff, both the first eleven.
    let mut other = digits[..11].to_vec();
    other.push(digits[12]);
    century
        && month_day(&digits[4..8], &[0], &[0])
        && crate::check::luhn(&digits[..12])
        && crate::check::verhoeff(&other)
}

fn is_nino(value: &[u8]) -> bool {
    let [first, second, number @ .., suffix] = value else { return false };
    const NEVER: &[u8] = b"DFIQUV";
    const PREFIXES_UNUSED: [&[u8; 2]; 7] = [b"BG", b"GB", b"KN", b"NK", b"NT", b"TN", b"ZZ"];
    let letter = |b: &u8| b.is_ascii_uppercase() && !NEVER.contains(b);
    letter(first)
        && letter(second)
        && *second != b'O'
        && !PREFIXES_UNUSED.contains(&&[*first, *second])
        && number.len() == 6
        && digits(number).is_some()
        && (b'A'..=b'D').contains(suffix)
}

fn is_nhs(digits: &[u8]) -> bool {
    let Some((&last, first)) = digits.split_last().filter(|_| digits.len() == 10) else {
        return false;
    };
    let check = (11 - weighted(first, &[10, 9, 8, 7, 6, 5, 4, 3, 2]) % 11) % 11;
    check == u32::from(last) && !crate::check::is_uniform(digits)
}

fn is_pps(value: &[u8]) -> bool {
    if !matches!(value.len(), 8 | 9) {
        return false;
    }
    let (Some(number), letter) = (digits(&value[..7]), value[7]) else { return false };
    // A second letter counts nine times; W stands for none.
    let second = match value.get(8) {
        None | Some(b'W') => 0,
        Some(letter @ b'A'..=b'I') => u32::from(letter - b'A') + 1,
        Some(_) => return false,
    };
    let rest = (weighted(&number, &[8, 7, 6, 5, 4, 3, 2]) + second * 9) % 23;
    letter == if rest == 0 { b'W' } else { b'A' + rest as u8 - 1 }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{one_of, passes};

    #[test]
    fn numbers_of_the_authorities_examples_pass() {
        for (name, good) in [
            ("de_steuer_id", "86095742719"),
            ("de_rvnr", "15070649C103"),
            ("at_svnr", "1237010180"),
            ("ch_ahv", "7569217076985"),
            ("fr_nir", "255081416802538"),
            ("be_nn", "93051822361"),
            ("be_nn", "85073003328"),
            ("nl_bsn", "111222333"),
            ("lu_matricule", "1893120105732"),
            ("uk_nino", "AB123456C"),
            ("uk_nhs", "9434765919"),
            ("ie_pps", "1234567T"),
            ("ie_pps", "1234567FA"),
        ] {
            assert!(passes(name, good), "{name} {good}");
        }
    }

    #[test]
    fn one_check_digit_of_ten_passes() {
        for (name, good) in [
            ("de_steuer_id", "86095742719"),
            ("de_rvnr", "15070649C103"),
            ("ch_ahv", "7569217076985"),
            ("be_nn", "93051822361"),
            ("nl_bsn", "111222333"),
            ("fr_nir", "255081416802538"),
            ("uk_nhs", "9434765919"),
            ("lu_matricule", "1893120105732"),
        ] {
            one_of(name, good);
        }
    }

    #[test]
    fn near_misses_fail() {
        for (name, bad) in [
            ("de_steuer_id", "12345678903"),
            ("de_steuer_id", "00000000000"),
            ("de_rvnr", "15990649C103"),
            ("at_svnr", "1237320180"),
            ("ch_ahv", "4006381333931"),
            ("fr_nir", "955081416802538"),
            ("be_nn", "93991822361"),
            ("nl_bsn", "000000000"),
            ("uk_nino", "GB123456C"),
            ("uk_nino", "AB123456E"),
            ("uk_nino", "QQ123456C"),
            ("ie_pps", "1234567A"),
            ("uk_nhs", "0000000000"),
        ] {
            assert!(!passes(name, bad), "{name} {bad}");
        }
    }
}
