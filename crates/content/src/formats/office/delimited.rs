//! Tables of plain text (CSV and its kin): cells that a spreadsheet takes for formulas which start
//! a program by DDE.

use super::dde;
use crate::object::{Object, PropertyKind};
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
    unpacker.current().is_some_and(is_table)
}

/// Whether name or type of a text say that it is opened as a table.
pub(crate) fn is_table(object: &Object) -> bool {
    EXTENSIONS.contains(&object.extension().as_str())
        || TYPES.contains(&object.declared_type.split(';').next().unwrap_or_default().trim())
}

/// Notes formulas that start a program.
pub(super) fn note(text: &str, unpacker: &mut Unpacker<'_>) {
    for link in formulas(text).filter_map(link).take(LINKS_MAX) {
        unpacker.property(PropertyKind::Dde, link);
    }
}

/// Where cells begin whose formulas start a program: the place of the formula's first character, in
/// bytes of the text.
pub(crate) fn active_cells(text: &str) -> impl Iterator<Item = usize> {
    let base = text.as_ptr().addr();
    formulas(text).filter(|cell| link(cell).is_some()).map(move |cell| cell.as_ptr().addr() - base)
}

/// A link by DDE in a formula, by a reference or by LibreOffice's function.
fn link(formula: &str) -> Option<&str> {
    dde::reference(formula).or_else(|| call(formula))
}

/// A call of the function `DDE`. Texts in quotation marks are none.
fn call(formula: &str) -> Option<&str> {
    const NAME: &[u8] = b"DDE(";
    let bytes = formula.as_bytes();
    let (mut is_text, mut before) = (false, b'=');
    for (at, &byte) in bytes.iter().enumerate() {
        let is_name = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b >= 0x80;
        let is_here = bytes[at..].get(..NAME.len()).is_some_and(|b| b.eq_ignore_ascii_case(NAME));
        if !is_text && is_here && !is_name(before) {
            return formula.get(at..);
        }
        is_text ^= byte == b'"';
        before = byte;
    }
    None
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
    std::iter::from_fn(next).filter(|cell| cell.starts_with(SIGNS) && cell.contains(['|', '(']))
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
            "=\"DDE(\",=ADDE(1),+DDE\r\na,DDE(1)\r\n=SUM(A1:A9),-(1),+1 (555) 010-9999,@ann (b)",
            "note\r\nuse cmd|'/c calc'!A0 with care",
        ] {
            assert_eq!(link(text, "a.csv"), None, "{text}");
        }
        let call = link("a;=DDE(\"cmd\";\"/c\";\"a\")", "a.csv");
        assert!(call.is_some_and(|call| call.starts_with("DDE(")));
        assert!(link("=ADDE(\"dde(\")+dde(\"a\";\"b\";\"c\")", "a.csv").is_some());
        assert_eq!(link("=cmd|'/c calc'!A0", "a.txt"), None, "no spreadsheet opens it");
        assert!(link("=cmd|'/c calc'!A0", "a.xls").is_some());
    }
}
