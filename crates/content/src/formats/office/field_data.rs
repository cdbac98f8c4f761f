//! Data of a field of Word (`w:fldData`, ECMA-376 part 1 section 17.16.16): base64 of what binary
//! documents keep for it (MS-DOC section 2.9.158): settings of a form field, a hyperlink, or
//! whatever the add-in that made the field likes.
//!
//! Texts are looked at for instructions of fields; anything else that is no form field and no
//! hyperlink becomes an object and is read by what its bytes are.

use super::{active_mime, hyperlink, markup, word};
use crate::formats::carve;
use crate::formats::numbers::{slice, u16_at};
use crate::host::Child;
use crate::object::DefectKind;
use crate::text;
use crate::unpack::Unpacker;
use gauntlet_sniff::FileKind;

/// Name of the object that holds such data.
const NAME: &str = "field-data";
/// Class of the standard hyperlink, behind a byte of options (MS-DOC section 2.9.111, HFD).
const HYPERLINK: [u8; 16] =
    [0xd0, 0xc9, 0xea, 0x79, 0xf9, 0xba, 0xce, 0x11, 0x8c, 0x82, 0, 0xaa, 0, 0x4b, 0xa9, 0x0b];
/// Settings of a form field (MS-DOC section 2.9.78, FFData) begin with their version.
const FORM: [u8; 4] = [0xff; 4];
/// Kinds of form fields.
const CHECK_BOX: u16 = 1;
const DROP_DOWN: u16 = 2;
/// Mark before the instruction of a field in texts of Word.
const FIELD_MARK: char = '\u{13}';

/// What the data of a field is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Data {
    Form,
    Hyperlink,
    Text,
    /// A file, or what an add-in keeps.
    Other,
}

/// Reads the data of a field, as it stands in a document.
pub(super) fn read(digits: &str, unpacker: &mut Unpacker<'_>) {
    if unpacker.is_over() {
        return;
    }
    let Some(bytes) = markup::base64(digits) else {
        return unpacker.defect(DefectKind::Corrupt, NAME);
    };
    if bytes.is_empty() || !unpacker.charge(bytes.len() as u64, NAME) {
        return;
    }
    for text in texts(&bytes) {
        instructions(&text, unpacker);
    }
    match data(&bytes) {
        Data::Text => {}
        Data::Form => {
            unpacker.text(&form(&bytes).join("\n"));
            carve::decode(FileKind::Unknown, &bytes, unpacker);
        }
        Data::Hyperlink => {
            hyperlink::read(&bytes, unpacker);
            carve::decode(FileKind::Unknown, &bytes, unpacker);
        }
        Data::Other if unpacker.has_child(&bytes) => {}
        Data::Other => unpacker.child(Child::named(NAME), &bytes),
    }
}

/// Whether the data of a field can hold nothing that starts: settings of a form field, a
/// hyperlink, or a text without instructions of fields.
pub(crate) fn is_plain(digits: &str) -> bool {
    let Some(bytes) = markup::base64(digits) else { return false };
    let starts = |text: &String| text.contains(FIELD_MARK) || word::is_dde(text);
    data(&bytes) != Data::Other && !texts(&bytes).iter().any(starts)
}

fn data(bytes: &[u8]) -> Data {
    if bytes.get(1..17) == Some(&HYPERLINK[..]) {
        return Data::Hyperlink;
    }
    if bytes.starts_with(&FORM) {
        return Data::Form;
    }
    match gauntlet_sniff::sniff(bytes) {
        _ if active_mime::is_match(bytes) => Data::Other,
        FileKind::Text => Data::Text,
        FileKind::Unknown if is_wide(bytes) => Data::Text,
        // Marks of fields are controls.
        FileKind::Unknown if memchr::memchr(0, bytes).is_none() && bytes.is_ascii() => Data::Text,
        _ => Data::Other,
    }
}

/// UTF-16, little endian: all characters are ASCII.
fn is_wide(bytes: &[u8]) -> bool {
    let is_ascii = |pair: &[u8]| matches!(pair, [1..=0x7f, 0]);
    bytes.len() >= 4 && bytes.len().is_multiple_of(2) && bytes.chunks_exact(2).all(is_ascii)
}

/// The data read as text, in one byte a character and in two.
fn texts(bytes: &[u8]) -> [String; 2] {
    [text::decode(bytes), text::utf16_le(bytes)]
}

/// What fields do whose instructions stand in a text: the text is one, or marks stand around them.
fn instructions(text: &str, unpacker: &mut Unpacker<'_>) {
    if word::is_dde(text) {
        word::field(text, unpacker);
    }
    for marked in text.split(FIELD_MARK).skip(1) {
        let instruction = marked.split(['\u{14}', '\u{15}']).next().unwrap_or_default();
        if word::is_dde(instruction) {
            word::field(instruction, unpacker);
        }
    }
}

/// The texts of a form field: its name, what stands in it at first, its format, what a reader is
/// told about it, macros at its beginning and end.
fn form(bytes: &[u8]) -> Vec<String> {
    const HEADER_BYTES: usize = 10;
    const TEXTS: usize = 7;
    let kind = u16_at(bytes, 4).unwrap_or(0) & 3;
    let (mut at, mut found) = (HEADER_BYTES, Vec::new());
    for index in 0..TEXTS {
        if index == 1 && matches!(kind, CHECK_BOX | DROP_DOWN) {
            // A number stands in the place of the text.
            at += 2;
            continue;
        }
        let Some(length) = u16_at(bytes, at).map(usize::from) else { break };
        let text = text::utf16_le(slice(bytes, at + 2, 2 * length));
        if !text.trim().is_empty() {
            found.push(text);
        }
        // Length, characters and the NUL behind them.
        at += 2 + 2 * length + 2;
    }
    found
}

#[cfg(test)]
mod tests {
    use crate::formats::testing::{compound, file, nasty, paths, tree, zip};
    use crate::object::{Object, PropertyKind, Tree};

    fn base64(bytes: &[u8]) -> String {
        // Lines of 76 digits, as Word writes them.
        let digits = base64_simd::STANDARD.encode_to_string(bytes);
        let lines: Vec<&str> =
            digits.as_bytes().chunks(76).map(|line| std::str::from_utf8(line).unwrap()).collect();
        lines.join("\r\n")
    }

    /// Documents in one file and in an archive with a field that has this data.
    fn documents(instruction: &str, data: &[u8]) -> [Vec<u8>; 3] {
        let digits = base64(data);
        let body = format!(
            "<w:p><w:r><w:t>Dear Ann</w:t><w:fldChar w:fldCharType='begin'>\
             <w:fldData xml:space='preserve'>{digits}\r\n</w:fldData></w:fldChar></w:r>\
             <w:r><w:instrText>{instruction}</w:instrText></w:r>\
             <w:fldChar w:fldCharType='separate'/><w:t> and Bob</w:t>\
             <w:fldChar w:fldCharType='end'/></w:p>"
        );
        let word_2003 = format!(
            "<w:wordDocument xmlns:w='http://schemas.microsoft.com/office/word/2003/wordml'>\
             {body}</w:wordDocument>"
        );
        let package = format!(
            "<pkg:package xmlns:pkg='http://schemas.microsoft.com/office/2006/xmlPackage'>\
             <pkg:part pkg:name='/word/document.xml'><pkg:xmlData><w:document>{body}</w:document>\
             </pkg:xmlData></pkg:part></pkg:package>"
        );
        let part = format!("<w:document>{body}</w:document>");
        let archive = zip(&[
            file("[Content_Types].xml", b"<Types/>"),
            file("word/document.xml", part.as_bytes()),
        ]);
        [word_2003.into_bytes(), package.into_bytes(), archive]
    }

    /// The object that holds the field.
    fn document(found: &Tree) -> &Object {
        found.objects.iter().find(|object| object.text.contains("Dear Ann")).unwrap()
    }

    fn wide(text: &str) -> Vec<u8> {
        text.encode_utf16().flat_map(u16::to_le_bytes).collect()
    }

    /// Settings of a field for text: name, what stands in it, format, help, status, macros.
    fn form() -> Vec<u8> {
        let mut bytes = b"\xff\xff\xff\xff\0\0\x20\0\0\0".to_vec();
        for text in ["Text1", "your name", "", "Press F1", "", "", ""] {
            bytes.extend(u16::try_from(text.len()).unwrap().to_le_bytes());
            bytes.extend(wide(text));
            bytes.extend([0, 0]);
        }
        bytes
    }

    fn hyperlink(url: &str) -> Vec<u8> {
        let class = super::HYPERLINK;
        let mut bytes = [&[8][..], &class, &2u32.to_le_bytes(), &3u32.to_le_bytes()].concat();
        let url = wide(&format!("{url}\0"));
        bytes.extend_from_slice(&class);
        bytes[25] = 0xe0;
        bytes.extend(u32::try_from(url.len()).unwrap().to_le_bytes());
        bytes.extend(url);
        bytes
    }

    #[test]
    fn data_does_not_hide_the_instruction_behind_it() {
        for whole in documents("DDEAUTO cmd", &form()) {
            let found = tree(&whole, "a.docx");
            let document = document(&found);
            let links: Vec<&str> = document.properties.iter().map(|p| p.detail.as_str()).collect();
            assert_eq!(links, ["DDEAUTO cmd"], "{found:?}");
            assert!(!document.text.contains("/////"), "{}", document.text);
        }
    }

    #[test]
    fn files_in_data_are_objects_and_instructions_in_it_are_found() {
        let ole = compound(&[("x", b"y")]);
        let hidden = [&form()[..], &ole].concat();
        for data in [ole, hidden] {
            for whole in documents("ADDIN x", &data) {
                let found = tree(&whole, "a.docx");
                let kind = crate::FileKind::Ole;
                assert!(found.objects.iter().any(|o| o.kind == kind), "{:?}", paths(&found));
            }
        }
        let marked = "Dear \u{13} DDEAUTO c:\\\\cmd.exe \"/k\" \u{14}x\u{15}";
        for text in ["DDEAUTO c:\\\\cmd.exe \"/k\"", marked] {
            for data in [text.as_bytes().to_vec(), wide(text)] {
                for whole in documents("ADDIN x", &data) {
                    let found = tree(&whole, "a.docx");
                    assert!(document(&found).has(PropertyKind::Dde), "{text}: {found:?}");
                }
            }
        }
        nasty(&documents("ADDIN x", marked.as_bytes())[0], "a.xml");
    }

    #[test]
    fn ordinary_data_gives_texts_and_links_and_no_finding() {
        let url = hyperlink("http://a.example/");
        let citation = b"<EndNote><Cite><Author>Ann</Author><Year>2003</Year></Cite></EndNote>";
        let long = [&[b'x'; 40_000][..], citation].concat();
        for (data, text, urls) in [
            (&form()[..], "Press F1", 0),
            (&url, "Dear Ann", 1),
            (citation, "Dear Ann", 0),
            (&long, "Dear Ann", 0),
            (b"", "Dear Ann", 0),
        ] {
            for whole in documents("FORMTEXT", data) {
                let found = tree(&whole, "a.docx");
                let document = document(&found);
                assert!(document.text.contains(text), "{document:?}");
                assert_eq!(document.urls.len(), urls, "{document:?}");
                let all = found.objects.iter();
                assert!(all.clone().all(|o| o.properties.is_empty()), "{found:?}");
                assert!(all.clone().all(|o| o.defects.is_empty()), "{found:?}");
                assert!(all.count() <= 3, "no object of its own: {:?}", paths(&found));
            }
        }
        nasty(&documents("FORMTEXT", &form())[0], "a.xml");
        nasty(&documents("HYPERLINK", &url)[0], "a.xml");
    }

    #[test]
    fn what_may_stay_in_a_document() {
        let url = hyperlink("http://a.example/");
        for plain in [&form()[..], &url, b"<EndNote>a</EndNote>", &wide("words of an add-in")] {
            assert!(super::is_plain(&base64(plain)), "{plain:?}");
        }
        let ole = compound(&[("x", b"y")]);
        for other in [&ole[..], b"DDEAUTO cmd", &wide("dde cmd"), b"a\x13 DDE", b"MZ\x90\0"] {
            assert!(!super::is_plain(&base64(other)), "{other:?}");
        }
    }
}
