//! Tables of text (CSV and its kin): cells that start a program become text by an apostrophe before
//! them, as OWASP recommends against "CSV injection". All other bytes stay.

use std::collections::BTreeSet;

use super::Made;
use super::encoding::Encoded;
use super::markup::without;
use crate::formats::office::active_cells;

/// Times that a table is read: what divides cells depends on who reads it, so that one formula may
/// hide another.
const ROUNDS_MAX: usize = 8;

pub(super) fn disarm(bytes: &[u8]) -> Result<Made, String> {
    let encoded = Encoded::read(bytes)?;
    let (mut text, mut removed) = (encoded.text.clone(), BTreeSet::new());
    for _ in 0..ROUNDS_MAX {
        // A cell may be read by itself and with all behind it.
        let cells: BTreeSet<usize> = active_cells(&text).collect();
        let edits: Vec<_> = cells.into_iter().map(|at| (at..at, "'".to_owned())).collect();
        if edits.is_empty() {
            return Ok((encoded.write(&text), removed, None));
        }
        removed.insert("dde");
        text = without(&text, edits);
    }
    Err("its formulas hide each other".to_owned())
}

#[cfg(test)]
mod tests {
    use crate::disarm::{Disarmed, disarm};
    use crate::{Limits, Root};

    fn outcome(name: &str, bytes: &[u8]) -> Disarmed {
        disarm(&Root { name, declared_type: "", bytes }, false, &Limits::default())
    }

    #[test]
    fn cells_that_start_programs_become_text_and_others_stay() {
        let wide = |text: &str| -> Vec<u8> {
            let mark = [0xff, 0xfe].into_iter();
            mark.chain(text.encode_utf16().flat_map(u16::to_le_bytes)).collect()
        };
        for (table, left) in [
            ("a,=cmd|'/c calc'!A0\r\n-1,+49 30 1\r\n", "a,'=cmd|'/c calc'!A0\r\n-1,+49 30 1\r\n"),
            ("a;\"=IF(1,cmd|'/c c'!A0)\";b", "a;\"'=IF(1,cmd|'/c c'!A0)\";b"),
            ("a, @SUM(1)*cmd|'/c c'!A0", "a, '@SUM(1)*cmd|'/c c'!A0"),
            ("=1,\"=cmd|'/c calc'!A0\"\n", "=1,\"'=cmd|'/c calc'!A0\"\n"),
            ("x\t=DDE(\"cmd\";\"a\";\"b\")", "x\t'=DDE(\"cmd\";\"a\";\"b\")"),
            ("\u{feff}+cmd|'/c K\u{f6}ln'!A0", "\u{feff}'+cmd|'/c K\u{f6}ln'!A0"),
        ] {
            for (bytes, expected) in
                [(table.into(), left.into()), (wide(table), wide(left))] as [(Vec<u8>, Vec<u8>); 2]
            {
                let Disarmed::Changed(harmless) = outcome("a.csv", &bytes) else {
                    panic!("{table}: {:?}", outcome("a.csv", &bytes));
                };
                assert_eq!(harmless.bytes, expected, "{table}");
                assert_eq!(harmless.removed, ["dde"]);
                assert_eq!(outcome("a.csv", &harmless.bytes), Disarmed::Clean);
            }
        }
        let Disarmed::Changed(harmless) = outcome("a.csv", b"K\xf6ln\x81;=a|'b'!c") else {
            panic!("bytes of another encoding");
        };
        assert_eq!(harmless.bytes, b"K\xf6ln\x81;'=a|'b'!c");
    }

    #[test]
    fn ordinary_tables_stay_as_they_are() {
        for table in [
            "-1.5,+49 30 1234,@ann,=SUM(A1:A9)\r\n-,--,a|b!c,x|y",
            "+1 (555) 010-9999;-7;(030) 12\r\n",
            "note\r\nuse cmd|'/c calc'!A0 with care",
            "",
        ] {
            assert_eq!(outcome("a.csv", table.as_bytes()), Disarmed::Clean, "{table}");
        }
    }

    #[test]
    fn what_is_read_otherwise_is_refused() {
        // Macros of a symbolic link, whatever it is called.
        let sylk = b"ID;P\nO;E\nNN;NAuto_open;ER1C1\nC;X1;Y1;K0;EEXEC(\"calc\")\nE\n";
        assert!(matches!(outcome("a.csv", sylk), Disarmed::Refused(_)));
        assert!(matches!(outcome("a.slk", sylk), Disarmed::Refused(_)));
        let odd = b"\xff\xfe=\0a\0|\0'\0b\0'\0!\0c\0\xd8";
        assert!(matches!(outcome("a.csv", odd), Disarmed::Refused(_)));
    }
}
