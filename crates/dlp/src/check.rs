//! Check digit systems, each over digits as values 0 to 9, the check digit last.

mod date;

pub use date::{day_month, month_day};

/// The digits of a text of digits alone; none if anything else is in it.
pub fn digits(value: &[u8]) -> Option<Vec<u8>> {
    value.iter().map(|b| b.is_ascii_digit().then(|| b - b'0')).collect()
}

/// Luhn's formula (ISO/IEC 7812-1, annex B).
pub fn luhn(digits: &[u8]) -> bool {
    let doubled = |d: u8| if d > 4 { d * 2 - 9 } else { d * 2 };
    let sum: u32 = digits
        .iter()
        .rev()
        .enumerate()
        .map(|(i, &d)| u32::from(if i % 2 == 1 { doubled(d) } else { d }))
        .sum();
    sum.is_multiple_of(10)
}

/// Sum of products with weights; of the shorter of the two.
pub fn weighted(digits: &[u8], weights: &[u32]) -> u32 {
    digits.iter().zip(weights).map(|(&d, &w)| u32::from(d) * w).sum()
}

/// The remainder of a number of any length; letters count as two digits, A as 10 (ISO 7064, as
/// IBANs are checked).
pub fn remainder(value: impl IntoIterator<Item = u8>, modulus: u32) -> u32 {
    value.into_iter().fold(0, |rest, byte| match byte {
        b'0'..=b'9' => (rest * 10 + u32::from(byte - b'0')) % modulus,
        b'A'..=b'Z' => (rest * 100 + u32::from(byte - b'A') + 10) % modulus,
        _ => rest,
    })
}

/// MOD 11,10 (ISO 7064, a hybrid system).
pub fn mod_11_10(digits: &[u8]) -> bool {
    let Some((&last, first)) = digits.split_last() else { return false };
    let product = first.iter().fold(10, |product, &d| {
        let sum = (product + u32::from(d)) % 10;
        (if sum == 0 { 10 } else { sum }) * 2 % 11
    });
    (11 - product) % 10 == u32::from(last)
}

/// MOD 11-2 (ISO 7064): the last may be 10, written as X.
pub fn mod_11_2(values: &[u8]) -> bool {
    values.iter().fold(0, |sum, &v| (sum * 2 + u32::from(v)) % 11) == 1
}

/// Multiplication in the dihedral group of ten elements.
fn dihedral(a: u8, b: u8) -> u8 {
    match (a < 5, b < 5) {
        (true, true) => (a + b) % 5,
        (true, false) => (a + (b - 5)) % 5 + 5,
        (false, true) => (a - 5 + 5 - b) % 5 + 5,
        (false, false) => (a - 5 + 5 - (b - 5)) % 5,
    }
}

/// Verhoeff's scheme (J. Verhoeff, Error Detecting Decimal Codes, 1969).
pub fn verhoeff(digits: &[u8]) -> bool {
    const PERMUTATION: [u8; 10] = [1, 5, 7, 6, 2, 8, 3, 0, 9, 4];
    let permuted = |digit: u8, times: usize| {
        (0..times % 8).fold(digit, |d, _| PERMUTATION[usize::from(d) % 10])
    };
    let product = digits.iter().rev().enumerate();
    product.fold(0, |sum, (i, &d)| dihedral(sum, permuted(d, i))) == 0
}

/// Whether all digits are the same: what people type where a form wants a number.
pub fn is_uniform(digits: &[u8]) -> bool {
    digits.windows(2).all(|pair| pair[0] == pair[1])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn d(text: &str) -> Vec<u8> {
        digits(text.as_bytes()).unwrap()
    }

    #[test]
    fn each_system_takes_one_last_digit_of_ten() {
        // The examples of the standards and of Verhoeff's paper.
        type System = fn(&[u8]) -> bool;
        let cases: [(System, &str, u8); 4] = [
            (luhn, "7992739871", 3),
            (mod_11_10, "079", 2),
            (verhoeff, "236", 3),
            (luhn, "411111111111111", 1),
        ];
        for (system, first, right) in cases {
            let passing: Vec<u8> = (0..10)
                .filter(|&last| {
                    let mut all = d(first);
                    all.push(last);
                    system(&all)
                })
                .collect();
            assert_eq!(passing, [right], "{first}");
        }
        assert!(mod_11_2(&d("07940")), "ISO 7064, 11-2: 0794 has the check digit 0");
        assert_eq!(remainder(*b"3214282912345698765432161182", 97), 1);
    }

    #[test]
    fn verhoeff_sees_neighbours_that_changed_places() {
        assert!(verhoeff(&d("2363")) && !verhoeff(&d("3263")) && !verhoeff(&d("2633")));
    }
}
