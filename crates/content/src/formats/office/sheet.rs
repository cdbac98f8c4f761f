//! Cells of a sheet of a workbook in XML (ECMA-376 part 1 section 18.3): numbers, texts that stand
//! in the sheet itself, results of formulas. Texts that cells share are a part of their own.

use super::markup::{Piece, pieces, tags};

/// Bytes of text that are kept of one sheet: a workbook of numbers leaves room for its texts.
const TEXT_BYTES_MAX: usize = 128 * 1024;
/// Elements before that of the part: the declaration and comments.
const HEAD_TAGS: usize = 4;
/// Whole numbers up to which a binary number of 64 bits is exact.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;

/// What a part is by its first element, whatever its name.
pub(super) fn is_sheet(xml: &str) -> bool {
    tags(xml).take(HEAD_TAGS).any(|tag| tag.name == "worksheet" && !tag.is_end)
}

/// Whether a part holds the notes or the conversations of a sheet.
pub(super) fn is_comments(xml: &str) -> bool {
    let mut first = tags(xml).take(HEAD_TAGS);
    first.any(|tag| matches!(tag.name, "comments" | "ThreadedComments") && !tag.is_end)
}

/// The cells, rows on lines of their own and cells apart by tabs; and whether that is all.
pub(super) fn cells(xml: &str) -> (String, bool) {
    let (mut out, mut kind, mut inside) = (String::new(), String::new(), Inside::Nothing);
    for piece in pieces(xml) {
        if out.len() > TEXT_BYTES_MAX {
            return (out, false);
        }
        match piece {
            Piece::Text(text) => match inside {
                Inside::Nothing => {}
                Inside::Text => out.push_str(&text),
                Inside::Value => out.push_str(&number(text.trim())),
            },
            Piece::Tag(tag) => {
                inside =
                    match (tag.name, tag.is_end || tag.is_empty) {
                        // `s` is the place of a shared text, `b` and `e` are no text.
                        ("v", false) if !matches!(kind.as_str(), "s" | "b" | "e") => {
                            if kind == "str" { Inside::Text } else { Inside::Value }
                        }
                        ("t", false) => Inside::Text,
                        _ => Inside::Nothing,
                    };
                match (tag.name, tag.is_end) {
                    ("c", false) => kind = tag.attribute("t").unwrap_or_default(),
                    ("c", true) => out.push('\t'),
                    ("row", true) => out.push('\n'),
                    _ => {}
                }
            }
        }
    }
    (out, true)
}

enum Inside {
    Nothing,
    Text,
    /// A number, unless the cell says otherwise.
    Value,
}

/// A whole number that is written with an exponent, with its digits: as a reader sees it.
fn number(text: &str) -> String {
    match text.parse::<f64>() {
        Ok(value)
            if text.contains(['e', 'E']) && value.abs() < EXACT_MAX && value.fract() == 0.0 =>
        {
            format!("{value:.0}")
        }
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PropertyKind;
    use crate::formats::testing::{file, nasty, tree, zip};

    const SHEET: &str = r#"<?xml version="1.0"?>
<x:worksheet xmlns:x="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><x:sheetData>
<x:row r="1"><x:c r="A1" t="inlineStr"><x:is><x:r><x:t>card </x:t></x:r><x:r><x:t>one</x:t></x:r></x:is></x:c>
<x:c r="B1"><x:v>4111111111111111</x:v></x:c><x:c r="C1" t="s"><x:v>17</x:v></x:c></x:row>
<x:row r="2"><x:c r="A2" t="str"><x:f>"5555"&amp;B7</x:f><x:v>5555 5555</x:v></x:c>
<x:c r="B2"><x:v>4.111111111111111E+15</x:v></x:c><x:c r="C2"><x:v>0.25</x:v></x:c></x:row>
</x:sheetData></x:worksheet>"#;

    #[test]
    fn numbers_texts_and_results_stand_apart() {
        let (text, is_whole) = cells(SHEET);
        let rows: Vec<&str> = text.lines().collect();
        assert_eq!(rows, ["card one\t4111111111111111\t\t", "5555 5555\t4111111111111111\t0.25\t"]);
        assert!(is_whole);
    }

    #[test]
    fn a_sheet_is_known_by_its_element_and_has_comments() {
        let comments = "<comments><authors><author>Ann</author></authors><commentList><comment>\
            <text><t>card 4111</t></text></comment><comment><text><r><t>two</t></r></text>\
            </comment></commentList></comments>";
        let threads = "<ThreadedComments><threadedComment><text>in a thread</text>\
            </threadedComment></ThreadedComments>";
        let whole = zip(&[
            file("[Content_Types].xml", b"<Types/>"),
            file("xl/workbook.xml", b"<workbook/>"),
            file("xl/other/name.xml", SHEET.as_bytes()),
            file("xl/comments1.xml", comments.as_bytes()),
            file("xl/threadedComments/threadedComment1.xml", threads.as_bytes()),
        ]);
        let found = tree(&whole, "a.xlsx");
        let text = |name: &str| found.objects.iter().find(|o| o.name == name).unwrap().text.clone();
        assert!(text("xl/other/name.xml").contains("card one\t4111111111111111"));
        let comments = text("xl/comments1.xml");
        let lines: Vec<&str> = comments.lines().filter(|line| !line.is_empty()).collect();
        assert_eq!(lines, ["Ann", "card 4111", "two"]);
        assert_eq!(text("xl/threadedComments/threadedComment1.xml"), "in a thread");
        nasty(&whole, "a.xlsx");
    }

    #[test]
    fn a_large_sheet_leaves_room_for_other_text() {
        let row = "<row><c><v>4111111111111111</v></c></row>".repeat(50_000);
        let sheet = format!("<worksheet><sheetData>{row}</sheetData></worksheet>");
        let whole = zip(&[
            file("[Content_Types].xml", b"<Types/>"),
            file("xl/worksheets/sheet1.xml", sheet.as_bytes()),
        ]);
        let found = tree(&whole, "a.xlsx");
        let sheet = found.objects.last().unwrap();
        assert!(sheet.has(PropertyKind::TextCut) && sheet.text.len() < 2 * TEXT_BYTES_MAX);
    }
}
