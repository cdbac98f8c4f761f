//! Tables of plain text (CSV and its kin): cells that a spreadsheet takes for formulas which start
//! a program by DDE.

use super::dde;
use crate::object::PropertyKind;
use crate::unpack::Unpacker;

/// Endings that a spreadsheet opens; it reads tables of text by the names of its own formats, too.
const EXTENSIONS: [&str; 7] = ["csv", "tsv", "tab", "prn", "dif", "xls", "xlt"];
/// Types that mail declares for such.
const TYPES: [&str; 4] = [
    "text/csv",
    "text/tab-separated-values",
    "text/comma-separated-values",
    "application/vnd.ms-excel",
];
/// Links of one table that are noted.
const LINKS_MAX: usize = 16;

/// Whether the text that is the current object is opened as a table.
pub(super) fn is_match(unpacker: &Unpacker<'_>) -> bool {
    unpacker.current().is_some_and(|object| {
        EXTENSIONS.contains(&object.extension().as_str())
            || TYPES.contains(&object.declared_type.split(';').next().unwrap_or_default().trim())
    })
}

/// Notes formulas that start a program.
pub(super) fn note(text: &str, unpacker: &mut Unpacker<'_>) {
    for link in formulas(text).filter_map(dde::reference).take(LINKS_MAX) {
        unpacker.property(PropertyKind::Dde, link);
    }
}

/// Cells that begin as formulas do and hold a vertical bar. Which character divides cells depends
/// on the reader's country: each of the three does. The first formula of a line is given with all
/// behind it, too, since the divider may be another one.
fn formulas(text: &str) -> impl Iterator<Item = &str> {
    const DIVIDERS: [char; 5] = [',', ';', '\t', '\r', '\n'];
    const SIGNS: [char; 8] = ['=', '+', '-', '@', '\u{ff1d}', '\u{ff0b}', '\u{ff0d}', '\u{ff20}'];
    let (mut rest, mut has_whole) = (text, false);
    let next = move || {
        let start = rest.trim_start_matches([' ', '\u{a0}', '\u{feff}']);
        let quoted = start.strip_prefix('"').map(|cell| cell.trim_start_matches(' '));
        let cell = quoted.unwrap_or(start);
        let divider = |from: &str| from.find(DIVIDERS).unwrap_or(from.len());
        let end = if quoted.is_some() { quoted_end(cell) } else { divider(cell) };
        let (found, behind) = cell.split_at(end);
        let is_open = found.starts_with(['=', '\u{ff1d}']) || found.contains("|'");
        if quoted.is_none() && is_open && !has_whole && found.starts_with(SIGNS) {
            has_whole = true;
            return Some(&cell[..cell.find(['\r', '\n']).unwrap_or(cell.len())]);
        }
        // Behind a quoted cell stands the divider.
        let mut characters = behind[divider(behind)..].chars();
        let ended_by = characters.next();
        has_whole &= !matches!(ended_by, Some('\r' | '\n'));
        let is_over = rest.is_empty();
        rest = characters.as_str();
        (!is_over).then_some(found)
    };
    std::iter::from_fn(next).filter(|cell| cell.starts_with(SIGNS) && cell.contains('|'))
}

/// Where a quoted cell ends: at a quotation mark that is not one of two.
fn quoted_end(cell: &str) -> usize {
    let bytes = cell.as_bytes();
    let mut at = 0;
    while let Some(found) = memchr::memchr(b'"', &bytes[at..]) {
        at += found;
        if bytes.get(at + 1) != Some(&b'"') {
            return at;
        }
        at += 2;
    }
    cell.len()
}

#[cfg(test)]
mod tests {
    use crate::PropertyKind;
    use crate::formats::testing::{nasty, tree};

    fn link(text: &str, name: &str) -> Option<String> {
        let found = tree(text.as_bytes(), name);
        let properties = &found.objects[0].properties;
        properties.iter().find(|p| p.kind == PropertyKind::Dde).map(|p| p.detail.clone())
    }

    #[test]
    fn formulas_that_start_a_program() {
        for text in [
            "=cmd|'/c calc'!A0",
            "a,b\r\n1,=cmd|'/c calc'!A0\r\n",
            "a;\"=IF(1,cmd|'/c calc'!A0)\";b",
            "a\t+1+cmd|'/c calc'!A0",
            "a,-1+cmd|'/c calc, x'!A0",
            "\u{feff} @SUM(1)*cmd|'/c calc'!A0",
            "\"a\"\"b\", \" =cmd|'/c calc'!A0\"",
            "=IF(1;cmd|'/c calc'!A0)",
            "=1,\"=cmd|'/c calc'!A0\"",
        ] {
            let found = link(text, "a.csv").unwrap_or_default();
            assert!(found.starts_with("cmd|'/c calc"), "{text}: {found}");
            nasty(text.as_bytes(), "a.csv");
        }
    }

    #[test]
    fn ordinary_tables_and_texts_have_none() {
        for text in [
            "-1.5,+49 30 1234,@ann,=SUM(A1:A9)\r\n-,--,a|b!c,x|y",
            "name,tags\r\n-7,red|blue!x\r\n",
            "\"-7\",\"cmd|'/c calc'!A0\"",
            "note\r\nuse cmd|'/c calc'!A0 with care",
        ] {
            assert_eq!(link(text, "a.csv"), None, "{text}");
        }
        assert_eq!(link("=cmd|'/c calc'!A0", "a.txt"), None, "no spreadsheet opens it");
        assert!(link("=cmd|'/c calc'!A0", "a.xls").is_some());
    }
}
