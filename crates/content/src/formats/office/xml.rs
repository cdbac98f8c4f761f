//! Parts of OOXML and OpenDocument: relationships that lead outside, fields that start programs,
//! text.

use memchr::memmem;

use super::dde::Fields;
use super::markup::{Piece, Tag, pieces, tags, unescape};
use super::{binary, field_data, sheet, vba, word};
use crate::object::{PropertyKind, UrlSource};
use crate::text;
use crate::unpack::Unpacker;

/// Reads the part that is the current object, by its name.
pub(super) fn decode(bytes: &[u8], unpacker: &mut Unpacker<'_>) {
    let name = unpacker.current().map(|object| object.name.to_lowercase()).unwrap_or_default();
    if name.ends_with(".bin") {
        binary::external_links(bytes, unpacker);
    }
    let xml = text::decode(bytes);
    if name.ends_with(".rels") {
        let relations = tags(&xml).filter(|tag| tag.name == "Relationship");
        relations.for_each(|tag| relationship(&tag, unpacker));
    } else if name.contains("macrosheets/") {
        unpacker.property(PropertyKind::XlmMacros, &name);
        unpacker.text(&visible(&xml));
    } else if name.starts_with("basic/") {
        for piece in pieces(&xml) {
            match piece {
                Piece::Text(code) if !code.trim().is_empty() => vba::inspect(&code, unpacker),
                _ => {}
            }
        }
    } else if name.starts_with("xl/workbook.") {
        automatic_names(bytes, &xml, unpacker);
    } else if !name.ends_with(".bin") {
        // In any part: relationships, not names, say what a part is.
        fields_and_links(&xml, unpacker);
        if sheet::is_sheet(&xml) {
            let (text, is_whole) = sheet::cells(&xml);
            unpacker.text(&text);
            if !is_whole {
                unpacker.property(PropertyKind::TextCut, "cells");
            }
        } else if (name.ends_with(".xml") && is_text_part(&name)) || sheet::is_comments(&xml) {
            unpacker.text(&visible(&xml));
        }
    }
}

/// Parts that a reader sees.
fn is_text_part(name: &str) -> bool {
    let parts = ["word/document", "word/header", "word/footer", "word/footnotes", "word/comments"];
    let more = ["xl/sharedstrings", "xl/externallinks", "ppt/slides/", "ppt/notesslides/"];
    parts.iter().chain(&more).any(|part| name.contains(part)) || name == "content.xml"
}

/// Names of a workbook at which Excel begins by itself, whatever follows them: in XML, or in the
/// records of a binary workbook (MS-XLSB section 2.4.711), which hold UTF-16.
fn automatic_names(bytes: &[u8], xml: &str, unpacker: &mut Unpacker<'_>) {
    const AUTOMATIC: [&str; 4] = ["Auto_Open", "Auto_Close", "Auto_Activate", "Auto_Deactivate"];
    let elements = tags(xml).filter(|tag| tag.name == "definedName");
    let mut names: Vec<String> = elements.filter_map(|tag| tag.attribute("name")).collect();
    names.iter_mut().for_each(|name| name.make_ascii_lowercase());
    let binary = bytes.to_ascii_lowercase();
    for known in AUTOMATIC {
        let lower = known.to_ascii_lowercase();
        let wide: Vec<u8> = lower.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let is_named = |name: &String| name.trim_start_matches("_xlnm.").starts_with(&lower);
        if names.iter().any(is_named) || memmem::find(&binary, &wide).is_some() {
            unpacker.property(PropertyKind::AutoExec, known);
        }
    }
}

/// What is fetched or followed.
pub(super) fn relationship(tag: &Tag<'_>, unpacker: &mut Unpacker<'_>) {
    let attribute = |name: &str| tag.attribute(name).unwrap_or_default();
    if !attribute("TargetMode").eq_ignore_ascii_case("external") {
        return;
    }
    let (target, kind) = (attribute("Target"), attribute("Type"));
    match kind.rsplit('/').next().unwrap_or_default() {
        "hyperlink" => unpacker.url(&target, UrlSource::Link),
        "attachedTemplate" => {
            unpacker.property(PropertyKind::ExternalTemplate, &target);
            unpacker.url(&target, UrlSource::External);
        }
        _ => {
            unpacker.property(PropertyKind::ExternalReference, &target);
            unpacker.url(&target, UrlSource::External);
        }
    }
}

/// The text between the tags; paragraphs, rows and cells on lines of their own.
fn visible(xml: &str) -> String {
    let mut out = String::new();
    for piece in xml.split('<').skip(1) {
        let Some((tag, text)) = piece.split_once('>') else { continue };
        let name = tag.split(|c: char| c.is_ascii_whitespace()).next().unwrap_or_default();
        if name.ends_with("fldData") && !name.starts_with('/') {
            // Bytes, which are read elsewhere.
            continue;
        }
        let ends = [
            "/w:p",
            "/a:p",
            "/si",
            "/text:p",
            "/row",
            "w:br",
            "w:tab",
            "/author",
            "/comment",
            "/threadedComment",
        ];
        if ends.iter().any(|end| tag.starts_with(end)) {
            out.push('\n');
        }
        if !text.trim().is_empty() {
            out.push_str(&unescape(text));
        }
    }
    out
}

/// Fields, and links by DDE, of a part.
fn fields_and_links(xml: &str, unpacker: &mut Unpacker<'_>) {
    // Most parts of a workbook are large and have none.
    const WORDS: [&str; 7] =
        ["event-listener", "instr", "fldChar", "fldData", "ddeLink", "dde-", "DDE"];
    if !WORDS.iter().any(|word| memmem::find(xml.as_bytes(), word.as_bytes()).is_some()) {
        return;
    }
    let (mut fields, mut inside) = (Fields::default(), Inside::Text);
    for piece in pieces(xml) {
        match piece {
            Piece::Text(text) => match &mut inside {
                Inside::Text => _ = fields.text(&text),
                Inside::Instruction => fields.instruction(&text),
                Inside::FieldData(digits) => digits.push_str(&text),
            },
            Piece::Tag(tag) => {
                if let Inside::FieldData(digits) = std::mem::take(&mut inside) {
                    field_data::read(&digits, unpacker);
                }
                if !tag.is_end {
                    active(&tag, &mut fields, unpacker);
                    inside = match tag.name {
                        _ if tag.is_empty => Inside::Text,
                        "fldData" => Inside::FieldData(String::new()),
                        name if name.ends_with("nstrText") => Inside::Instruction,
                        _ => Inside::Text,
                    };
                }
            }
        }
    }
    fields.finish(unpacker);
}

/// What a piece of text of a part is.
#[derive(Default)]
enum Inside {
    #[default]
    Text,
    Instruction,
    /// Data of a field in base64: it stands inside of the field's first mark, and is no part of its
    /// instruction.
    FieldData(String),
}

/// What an element does with fields and with links by DDE.
pub(super) fn active(tag: &Tag<'_>, fields: &mut Fields, unpacker: &mut Unpacker<'_>) {
    let attribute = |name: &str| tag.attribute(name).unwrap_or_default();
    let link = |program: &str, topic: &str| format!("{} {}", attribute(program), attribute(topic));
    match tag.name {
        "fldChar" => match attribute("fldCharType").as_str() {
            "begin" => fields.begin(),
            "separate" => fields.separate(unpacker),
            "end" => fields.end(unpacker),
            _ => {}
        },
        "fldSimple" => word::field(&attribute("instr"), unpacker),
        // ECMA-376 part 1 section 18.14.4.
        "ddeLink" => unpacker.property(PropertyKind::Dde, &link("ddeService", "ddeTopic")),
        // OpenDocument 1.2 part 1: sections and sheets, and text fields.
        "dde-source" | "dde-connection-decl" => {
            unpacker.property(PropertyKind::Dde, &link("dde-application", "dde-topic"));
        }
        "table-cell" => {
            let formula = attribute("formula");
            if let Some(at) = formula.to_ascii_uppercase().find("DDE(") {
                unpacker.property(PropertyKind::Dde, &formula[at..]);
            }
        }
        // A macro that runs at an event of an OpenDocument.
        "event-listener" => {
            let (address, name) = (attribute("href"), attribute("macro-name"));
            if is_script(&address) || attribute("action") == "execute" {
                unpacker.property(PropertyKind::Script, &address);
            } else if !name.is_empty() {
                unpacker.property(PropertyKind::Script, &name);
            }
        }
        _ => {}
    }
}

/// Whether an address is one of a macro.
fn is_script(address: &str) -> bool {
    let address = address.trim_start().to_ascii_lowercase();
    ["vnd.sun.star.script:", "script:", "macro:"].iter().any(|scheme| address.starts_with(scheme))
}

#[cfg(test)]
mod tests {
    use crate::PropertyKind;
    use crate::formats::testing::{file, nasty, tree, zip};

    #[test]
    fn names_of_excel_4_macros_in_workbooks_of_xml_and_of_records_run_by_themselves() {
        let xml = r#"<workbook><definedNames><definedName name="_xlnm.Auto_Open1">M!$A$1</definedName>
            <definedName name="Total">S!A1</definedName></definedNames></workbook>"#;
        let binary: Vec<u8> =
            "\u{927}AUTO_CLOSE".encode_utf16().flat_map(u16::to_le_bytes).collect();
        for (name, body, known) in [
            ("xl/workbook.xml", xml.as_bytes(), "Auto_Open"),
            ("xl/workbook.bin", &binary, "Auto_Close"),
        ] {
            let whole = zip(&[file("[Content_Types].xml", b"<Types/>"), file(name, body)]);
            let found = tree(&whole, "a.xlsm");
            let properties = &found.objects[2].properties;
            let automatic: Vec<&str> = properties.iter().map(|p| p.detail.as_str()).collect();
            assert_eq!(automatic, [known], "{name}: {properties:?}");
        }
    }

    #[test]
    fn what_leads_outside_and_what_is_shown() {
        let relations = r#"<Relationships><Relationship Id="a" Type="http://x/attachedTemplate"
            Target="http://198.51.100.7/t.dotm?a=1&amp;b=2" TargetMode="External"/>
            <Relationship Type="http://x/hyperlink" Target="https://example.net/" TargetMode="External"/>
            </Relationships>"#;
        let document = r#"<w:document><w:p><w:t>Dear</w:t><w:t xml:space="preserve"> Ann &#38; Bob</w:t></w:p>
            <w:instrText>DDE</w:instrText><w:instrText>AUTO cmd /c calc</w:instrText></w:document>"#;
        let whole = zip(&[
            file("[Content_Types].xml", b"<Types/>"),
            file("word/document.xml", document.as_bytes()),
            file("word/_rels/settings.xml.rels", relations.as_bytes()),
        ]);
        let found = tree(&whole, "a.docx");
        let document = &found.objects[2];
        assert!(document.text.starts_with("Dear Ann & Bob"), "{document:?}");
        assert!(document.has(PropertyKind::Dde));
        let relations = &found.objects[3];
        assert!(relations.has(PropertyKind::ExternalTemplate));
        assert_eq!(relations.urls[0].url, "http://198.51.100.7/t.dotm?a=1&b=2");
        assert_eq!(relations.urls.len(), 2);
        nasty(&whole, "a.docx");
    }
}
