//! Documents in one file of XML: Word 2003, Excel 2003, packages of Word and PowerPoint 2007
//! ("flat OPC"), OpenDocument. Fields and formulas that start programs, links, files inside.

use memchr::memmem;

use super::dde::{self, Fields};
use super::markup::{self, Piece, Tag, pieces, tags};
use super::{field_data, vba, xml};
use crate::host::Child;
use crate::object::{DefectKind, PropertyKind, UrlSource};
use crate::text;
use crate::unpack::Unpacker;

/// Roots of such documents, and what the address of their namespace contains.
const ROOTS: [(&str, &str); 4] = [
    ("wordDocument", "schemas.microsoft.com/office/word/2003"),
    ("package", "schemas.microsoft.com/office/2006/xmlPackage"),
    ("Workbook", "schemas-microsoft-com:office:spreadsheet"),
    ("document", "opendocument"),
];
/// Endings under which an office program opens them.
const EXTENSIONS: [&str; 14] = [
    "", "xml", "doc", "dot", "docx", "docm", "rtf", "xls", "xlt", "ppt", "fodt", "fods", "fodp",
    "fodg",
];

/// Reads one; false if it is none, or if it is opened by other programs, too, as its name says.
pub(super) fn decode(bytes: &[u8], unpacker: &mut Unpacker<'_>) -> bool {
    let Some(xml) = document(bytes) else { return false };
    let name = unpacker.current().map(crate::Object::extension).unwrap_or_default();
    read(&xml, unpacker);
    EXTENSIONS.contains(&name.as_str())
}

/// Whether a file is such a document.
pub(crate) fn is_match(bytes: &[u8]) -> bool {
    document(bytes).is_some()
}

/// The text of such a document. Only what stands before its root is read of other files.
fn document(bytes: &[u8]) -> Option<String> {
    let decoded = match bytes {
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => text::decode(bytes),
        // Without a mark.
        [b'<', 0, ..] => text::utf16_le(bytes),
        [0, b'<', ..] => text::utf16(bytes, u16::from_be_bytes),
        _ => {
            let plain = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
            let root = root(plain)?;
            let end = root + memchr::memchr(b'>', &plain[root..])? + 1;
            let head = String::from_utf8_lossy(&plain[root..end]);
            return is_root(tags(&head).next()).then(|| text::decode(bytes));
        }
    };
    let known = is_root(tags(&decoded).next());
    known.then_some(decoded)
}

/// Where the first element begins.
fn root(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        at += bytes[at..].iter().position(|b| !b.is_ascii_whitespace())?;
        let rest = &bytes[at..];
        at += match rest {
            [b'<', b'?', ..] => memmem::find(rest, b"?>")? + 2,
            [b'<', b'!', b'-', b'-', inner @ ..] => 4 + memmem::find(inner, b"-->")? + 3,
            [b'<', b'!', ..] => memchr::memchr(b'>', rest)? + 1,
            [b'<', ..] => return Some(at),
            _ => return None,
        };
    }
}

fn is_root(tag: Option<Tag<'_>>) -> bool {
    tag.is_some_and(|tag| {
        let known = ROOTS.iter().find(|(name, _)| *name == tag.name);
        known.is_some_and(|(_, namespace)| tag.has(namespace))
    })
}

/// What a piece of text is.
#[derive(Default)]
enum Inside {
    #[default]
    Text,
    Instruction,
    /// A file in base64, and its name.
    File(String),
    /// A path of Excel's links to elsewhere.
    Path,
    /// A macro of an OpenDocument.
    Macro,
    /// Data of a field in base64.
    FieldData,
}

/// What is known so far of a document.
#[derive(Default)]
struct State {
    shown: String,
    fields: Fields,
    inside: Inside,
    /// Name of the part of a package that is read.
    part: String,
    /// The digits of a file, or of data of a field.
    digits: String,
}

fn read(xml: &str, unpacker: &mut Unpacker<'_>) {
    let mut state = State::default();
    for piece in pieces(xml) {
        match piece {
            Piece::Text(text) => state.text(&text, unpacker),
            Piece::Tag(tag) => {
                state.bytes(unpacker);
                if tag.is_end {
                    if matches!(tag.name, "p" | "Row" | "Data" | "row" | "h") {
                        state.shown.push('\n');
                    }
                } else {
                    xml::active(&tag, &mut state.fields, unpacker);
                    element(&tag, unpacker);
                    state.begin(&tag);
                }
            }
        }
    }
    state.fields.finish(unpacker);
    unpacker.text(&state.shown);
}

impl State {
    fn text(&mut self, text: &str, unpacker: &mut Unpacker<'_>) {
        match &self.inside {
            Inside::Text if text.trim().is_empty() => {}
            Inside::Text => {
                self.fields.text(text);
                self.shown.push_str(text);
            }
            Inside::Instruction => self.fields.instruction(text),
            Inside::File(_) | Inside::FieldData => self.digits.push_str(text),
            Inside::Path if text.contains('|') => unpacker.property(PropertyKind::Dde, text),
            Inside::Macro => vba::inspect(text, unpacker),
            Inside::Path => {}
        }
    }

    /// Text ends, which may have been bytes.
    fn bytes(&mut self, unpacker: &mut Unpacker<'_>) {
        match std::mem::take(&mut self.inside) {
            Inside::File(name) => file(&name, &std::mem::take(&mut self.digits), unpacker),
            Inside::FieldData => field_data::read(&std::mem::take(&mut self.digits), unpacker),
            _ => {}
        }
    }

    /// An element begins, whose text may be of another kind.
    fn begin(&mut self, tag: &Tag<'_>) {
        if tag.is_empty {
            return;
        }
        let name = || tag.attribute("name").unwrap_or_default();
        match tag.name {
            "instrText" | "delInstrText" => self.inside = Inside::Instruction,
            "binData" => self.inside = Inside::File(name()),
            "binaryData" => self.inside = Inside::File(self.part.clone()),
            "binary-data" => self.inside = Inside::File(String::new()),
            "Path" => self.inside = Inside::Path,
            "fldData" => self.inside = Inside::FieldData,
            "source-code" => self.inside = Inside::Macro,
            "part" => self.part = name(),
            _ => {}
        }
    }
}

/// Links, templates and pictures that are fetched, and formulas.
fn element(tag: &Tag<'_>, unpacker: &mut Unpacker<'_>) {
    let is_outside = |address: &String| address.contains("://") || address.starts_with("\\\\");
    match tag.name {
        "Relationship" => xml::relationship(tag, unpacker),
        "hlink" => unpacker.url(&tag.attribute("dest").unwrap_or_default(), UrlSource::Link),
        "attachedTemplate" => {
            if let Some(address) = tag.attribute("val").filter(is_outside) {
                unpacker.property(PropertyKind::ExternalTemplate, &address);
                unpacker.url(&address, UrlSource::External);
            }
        }
        "imagedata" => {
            let of_this_file = |address: &String| address.starts_with("wordml:");
            let source = tag.attribute("src").filter(|a| is_outside(a) && !of_this_file(a));
            if let Some(address) = source {
                unpacker.property(PropertyKind::ExternalReference, &address);
                unpacker.url(&address, UrlSource::External);
            }
        }
        "Cell" => {
            unpacker.url(&tag.attribute("HRef").unwrap_or_default(), UrlSource::Link);
            formula(&tag.attribute("Formula").unwrap_or_default(), unpacker);
        }
        "NamedRange" => formula(&tag.attribute("RefersTo").unwrap_or_default(), unpacker),
        // A control of Word 2003, with its state.
        "ocx" => {
            unpacker.property(PropertyKind::ActiveX, "w:ocx");
            let data = tag.attribute("data").unwrap_or_default();
            let digits = data.split_once(',').map_or(data.as_str(), |(_, digits)| digits);
            file("control", digits, unpacker);
        }
        _ => {}
    }
}

/// A formula that starts a program.
fn formula(formula: &str, unpacker: &mut Unpacker<'_>) {
    if let Some(link) = dde::reference(formula) {
        unpacker.property(PropertyKind::Dde, link);
    }
}

/// A file in base64.
fn file(name: &str, text: &str, unpacker: &mut Unpacker<'_>) {
    let Some(bytes) = markup::base64(text) else {
        return unpacker.defect(DefectKind::Corrupt, name);
    };
    let name = name.rsplit(['/', '\\']).next().unwrap_or_default();
    if !bytes.is_empty() && unpacker.charge(bytes.len() as u64, name) {
        unpacker.child(Child::named(name), &bytes);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use crate::formats::testing::{compound, nasty, paths, tree};
    use crate::{PropertyKind, Tree};

    fn links(found: &Tree) -> Vec<&str> {
        let properties = found.objects[0].properties.iter();
        properties.filter(|p| p.kind == PropertyKind::Dde).map(|p| p.detail.as_str()).collect()
    }

    const WORD: &str = "<?xml version='1.0'?><!-- <html> --><q:wordDocument \
        xmlns:q='http://schemas.microsoft.com/office/word/2003/wordml'>";

    /// A VBA project as documents of XML hold it.
    fn project() -> String {
        let mut bytes = b"ActiveMime\0\0\x01\xf0\x04\0\0\0\xff\xff\xff\xff\0\0\x07\xf0".to_vec();
        bytes.resize(0x32, 0);
        bytes[0x1e] = 4;
        let mut writer = flate2::write::ZlibEncoder::new(bytes, flate2::Compression::default());
        writer.write_all(&compound(&[("x", b"y")])).unwrap();
        base64_simd::STANDARD.encode_to_string(writer.finish().unwrap())
    }

    #[test]
    fn word_2003_tells_its_fields_links_and_project() {
        let digits = project();
        let text = format!(
            "{WORD}<q:docSuppData><q:binData q:name='editdata.mso'>{digits}\r\n</q:binData>\
             </q:docSuppData><q:p><q:fldChar q:fldCharType='begin'/><q:instrText>PAGE</q:instrText>\
             <q:fldChar q:fldCharType='end'/><q:fldChar q:fldCharType='begin'/>\
             <q:instrText>DDE</q:instrText><q:instrText><![CDATA[AUTO cmd]]></q:instrText>\
             <q:fldChar q:fldCharType='separate'/><q:t>Dear Ann</q:t><q:fldChar q:fldCharType='end'/>\
             <q:fldSimple q:instr='dde calc'/><q:hlink q:dest='http://a.example/'/></q:p>\
             <q:attachedTemplate q:val='http://b.example/t.dot'/></q:wordDocument>"
        );
        let found = tree(text.as_bytes(), "a.doc");
        assert_eq!(links(&found), ["DDEAUTO cmd", "dde calc"]);
        assert_eq!(found.objects[0].text, "Dear Ann");
        assert!(found.objects[0].has(PropertyKind::ExternalTemplate));
        assert_eq!(found.objects[0].urls.len(), 2);
        assert_eq!(paths(&found)[1..], ["a.doc/editdata.mso", "a.doc/editdata.mso/project.ole"]);
        assert_eq!(found.objects[2].kind, crate::FileKind::Ole);
        nasty(text.as_bytes(), "a.doc");
        let wide: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
        assert_eq!(links(&tree(&wide, "a.xml")).len(), 2, "UTF-16 without a mark");
    }

    #[test]
    fn instructions_that_are_made_of_numbers() {
        let text = format!(
            "{WORD}<w:fldChar w:fldCharType='begin'/><w:fldChar w:fldCharType='begin'/>\
             <w:instrText>QUOTE 68 0x44 69</w:instrText><w:fldChar w:fldCharType='separate'/>\
             <w:t>x</w:t><w:fldChar w:fldCharType='end'/><w:instrText> cmd</w:instrText>\
             <w:fldChar w:fldCharType='end'/></q:wordDocument>"
        );
        assert_eq!(links(&tree(text.as_bytes(), "a.xml")), ["DDE cmd"]);
    }

    #[test]
    fn packages_of_word_2007_tell_their_fields_relations_and_files() {
        let digits = base64_simd::STANDARD.encode_to_string(compound(&[("x", b"y")]));
        let text = format!(
            "<pkg:package xmlns:pkg='http://schemas.microsoft.com/office/2006/xmlPackage'>\
             <pkg:part pkg:name='/word/_rels/settings.xml.rels'><pkg:xmlData><Relationships>\
             <Relationship Type='http://x/attachedTemplate' Target='http://a.example/t.dotm' \
             TargetMode='External'/></Relationships></pkg:xmlData></pkg:part>\
             <pkg:part pkg:name='/word/vbaProject.bin'><pkg:binaryData>{digits}</pkg:binaryData>\
             </pkg:part><pkg:part pkg:name='/word/document.xml'><pkg:xmlData><w:document><w:p>\
             <w:fldSimple w:instr=' DDEAUTO cmd '><w:t>Dear Bob</w:t></w:fldSimple></w:p>\
             </w:document></pkg:xmlData></pkg:part></pkg:package>"
        );
        let found = tree(text.as_bytes(), "a.xml");
        assert_eq!(links(&found), ["DDEAUTO cmd"]);
        assert_eq!(found.objects[0].text, "Dear Bob");
        assert!(found.objects[0].has(PropertyKind::ExternalTemplate));
        assert_eq!(paths(&found), ["a.xml", "a.xml/vbaProject.bin"]);
        nasty(text.as_bytes(), "a.xml");
    }

    #[test]
    fn sheets_in_one_file_tell_their_links() {
        let excel = "<?xml version='1.0'?><Workbook \
            xmlns='urn:schemas-microsoft-com:office:spreadsheet'><SupBook><Path>cmd|/c calc</Path>\
            </SupBook><Table><Row><Cell ss:Formula=\"=cmd|'/c calc'!A1\"><Data>5</Data></Cell>\
            <Cell ss:Formula='=RC[-1]'/></Row></Table></Workbook>";
        let found = tree(excel.as_bytes(), "a.xml");
        assert_eq!(links(&found), ["cmd|/c calc", "cmd|'/c calc'!A"]);
        nasty(excel.as_bytes(), "a.xml");
        let open = "<office:document xmlns:office='urn:oasis:names:tc:opendocument:xmlns:office:1.0'>\
            <table:table-cell table:formula='of:=DDE(&quot;cmd&quot;;&quot;/c&quot;;&quot;a&quot;)'/>\
            <office:dde-source office:dde-application='cmd' office:dde-topic='/c calc'/>\
            </office:document>";
        let found = tree(open.as_bytes(), "a.fods");
        assert_eq!(links(&found), ["DDE(\"cmd\";\"/c\";\"a\")", "cmd /c calc"]);
        let other = "<?xml version='1.0'?><Workbook><Path>a|b</Path></Workbook>";
        assert!(links(&tree(other.as_bytes(), "a.xml")).is_empty(), "another format's root");
    }
}
