//! Payment cards and bank accounts.

use crate::check::{digits, luhn};
use crate::detector::{Detector, Family};
use crate::detectors::Iban;
use crate::layout::{alone, near};

pub(super) const DETECTORS: &[Detector] = &[
    Detector {
        name: "payment_card",
        family: Family::Payment,
        title: "Payment card number",
        source: "ISO/IEC 7812-1 (Luhn); issuer ranges as the schemes publish them",
        layouts: &[
            alone("16"),
            alone("4 4 4 4"),
            alone("4-4-4-4"),
            alone("4.4.4.4"),
            near("15"),
            alone("4 6 5"),
            alone("4-6-5"),
            near("14"),
            alone("4 6 4"),
            alone("4-6-4"),
            near("18"),
            near("19"),
            alone("4 4 4 4 3"),
            alone("4-4-4-4-3"),
        ],
        context: &[
            "card",
            "credit",
            "debit",
            "visa",
            "mastercard",
            "amex",
            "american express",
            "maestro",
            "diners",
            "discover",
            "jcb",
            "unionpay",
            "cvv",
            "cvc",
            "expiry",
            "exp",
            "kreditkarte",
            "karte",
            "carte",
            "tarjeta",
            "carta",
            "cartão",
            "kaart",
            "karta",
            "kort",
        ],
        check: is_card,
        shown: (4, 4),
    },
    Detector {
        name: "iban",
        family: Family::Payment,
        title: "International bank account number",
        source: "ISO 13616-1; lengths by SWIFT's IBAN registry",
        // Found by country code and length: see `numbers`.
        layouts: &[],
        context: &[],
        check: Iban::is_valid,
        shown: (4, 4),
    },
];

/// Numbers from `first` to `last` by their leading digits, with the lengths that are issued.
struct Range {
    first: u32,
    last: u32,
    lengths: &'static [usize],
}

const fn range(first: u32, last: u32, lengths: &'static [usize]) -> Range {
    Range { first, last, lengths }
}

const LONG: &[usize] = &[16, 17, 18, 19];

/// Both bounds of a range have as many digits.
const ISSUERS: &[Range] = &[
    range(4, 4, &[16, 19]),           // Visa
    range(51, 55, &[16]),             // Mastercard
    range(2221, 2720, &[16]),         // Mastercard
    range(34, 34, &[15]),             // American Express
    range(37, 37, &[15]),             // American Express
    range(6011, 6011, LONG),          // Discover
    range(644, 649, LONG),            // Discover
    range(65, 65, LONG),              // Discover, RuPay
    range(300, 305, &[14, 16, 19]),   // Diners Club
    range(3095, 3095, &[14, 16, 19]), // Diners Club
    range(36, 36, &[14, 16, 19]),     // Diners Club
    range(38, 39, &[14, 16, 19]),     // Diners Club
    range(3528, 3589, LONG),          // JCB
    range(62, 62, LONG),              // UnionPay
    range(2200, 2204, LONG),          // Mir
    range(5018, 5018, &[16, 18, 19]), // Maestro
    range(5020, 5020, &[16, 18, 19]), // Maestro
    range(5038, 5038, &[16, 18, 19]), // Maestro
    range(5893, 5893, &[16, 18, 19]), // Maestro
    range(6304, 6304, &[16, 18, 19]), // Maestro
    range(6759, 6759, &[16, 18, 19]), // Maestro
    range(6761, 6763, &[16, 18, 19]), // Maestro
    range(6062, 6062, &[16]),         // Hipercard
    range(508, 508, &[16]),           // RuPay
    range(9792, 9792, &[16]),         // Troy
];

fn is_card(value: &[u8]) -> bool {
    let Some(digits) = digits(value) else { return false };
    let leading = |count: usize| {
        digits.iter().take(count).fold(0_u32, |number, &d| number * 10 + u32::from(d))
    };
    let issued = |range: &Range| {
        let count = range.first.ilog10() as usize + 1;
        (range.first..=range.last).contains(&leading(count))
            && range.lengths.contains(&digits.len())
    };
    ISSUERS.iter().any(issued) && luhn(&digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_the_schemes_give_for_tests_pass() {
        for good in [
            "4111111111111111",
            "4012888888881881",
            "5555555555554444",
            "5105105105105100",
            "2223003122003222",
            "378282246310005",
            "371449635398431",
            "6011111111111117",
            "30569309025904",
            "38520000023237",
            "3530111333300000",
            "6200000000000005",
            "6759649826438453",
        ] {
            assert!(is_card(good.as_bytes()), "{good}");
            let mut wrong = good.as_bytes().to_vec();
            let last = wrong.len() - 1;
            wrong[last] = b'0' + (wrong[last] - b'0' + 1) % 10;
            assert!(!is_card(&wrong), "{good} with another check digit");
        }
    }

    #[test]
    fn no_issuer_has_these() {
        for bad in
            ["0000000000000000", "1234567812345670", "8000000000000004", "411111111111116", "x"]
        {
            assert!(!is_card(bad.as_bytes()), "{bad}");
        }
    }
}
