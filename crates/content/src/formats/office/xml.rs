//! Parts of OOXML and OpenDocument: relationships that lead outside, fields that start programs,
//! text.

use memchr::memmem;

use crate::object::{PropertyKind, UrlSource};
use crate::text;
use crate::unpack::Unpacker;

/// Reads the part that is the current object, by its name.
pub(super) fn decode(bytes: &[u8], unpacker: &mut Unpacker<'_>) {
    let name = unpacker.current().map(|object| object.name.to_lowercase()).unwrap_or_default();
    let xml = text::decode(bytes);
    if name.ends_with(".rels") {
        relationships(&xml, unpacker);
    } else if name.contains("macrosheets/") {
        unpacker.property(PropertyKind::XlmMacros, &name);
        unpacker.text(&visible(&xml));
    } else if name.starts_with("xl/workbook.") {
        automatic_names(bytes, &xml, unpacker);
    } else if name.ends_with(".xml") && is_text_part(&name) {
        let shown = visible(&xml);
        if let Some(field) = dde(&xml) {
            unpacker.property(PropertyKind::Dde, &field);
        }
        unpacker.text(&shown);
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
    let elements = xml.split("<definedName").skip(1);
    let elements = elements.map(|rest| rest.split('>').next().unwrap_or_default());
    let mut names: Vec<String> = elements.filter_map(|element| value(element, "name")).collect();
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
fn relationships(xml: &str, unpacker: &mut Unpacker<'_>) {
    for element in xml.split("<Relationship ").skip(1) {
        let element = element.split('>').next().unwrap_or_default();
        let attribute = |name: &str| value(element, name).unwrap_or_default();
        if !attribute("TargetMode").eq_ignore_ascii_case("external") {
            continue;
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
}

/// The value of an attribute, without its references.
fn value(element: &str, name: &str) -> Option<String> {
    let at = element.find(&format!("{name}="))? + name.len() + 1;
    let quote = element[at..].chars().next().filter(|c| matches!(c, '"' | '\''))?;
    let rest = &element[at + 1..];
    Some(unescape(&rest[..rest.find(quote)?]))
}

/// The five entities of XML and references by number.
fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let end = rest.bytes().take(12).position(|b| b == b';');
        let reference = end.map(|end| &rest[1..end]);
        let c = match reference {
            Some("amp") => Some('&'),
            Some("lt") => Some('<'),
            Some("gt") => Some('>'),
            Some("quot") => Some('"'),
            Some("apos") => Some('\''),
            Some(number) => number.strip_prefix('#').and_then(|n| {
                let code = match n.strip_prefix(['x', 'X']) {
                    Some(hex) => u32::from_str_radix(hex, 16),
                    None => n.parse(),
                };
                code.ok().and_then(char::from_u32)
            }),
            None => None,
        };
        match (c, end) {
            (Some(c), Some(end)) => {
                out.push(c);
                rest = &rest[end + 1..];
            }
            _ => {
                out.push('&');
                rest = &rest[1..];
            }
        }
    }
    out.push_str(rest);
    out
}

/// The text between the tags; paragraphs, rows and cells on lines of their own.
fn visible(xml: &str) -> String {
    let mut out = String::new();
    for piece in xml.split('<').skip(1) {
        let Some((tag, text)) = piece.split_once('>') else { continue };
        let ends = ["/w:p", "/a:p", "/si", "/text:p", "/row", "w:br", "w:tab"];
        if ends.iter().any(|end| tag.starts_with(end)) {
            out.push('\n');
        }
        if !text.trim().is_empty() {
            out.push_str(&unescape(text));
        }
    }
    out
}

/// A field or link by DDE: its instruction, put together from its runs.
fn dde(xml: &str) -> Option<String> {
    if memmem::find(xml.as_bytes(), b"ddeLink").is_some() {
        let element = xml.split("<ddeLink").nth(1)?.split('>').next()?;
        return Some(format!("{} {}", value(element, "ddeService")?, value(element, "ddeTopic")?));
    }
    let mut instructions = String::new();
    for part in xml.split("<w:instrText").skip(1) {
        let text =
            part.split_once('>').map_or("", |(_, t)| t.split('<').next().unwrap_or_default());
        instructions.push_str(&unescape(text));
    }
    for part in xml.split("w:instr=\"").skip(1) {
        instructions.push_str(&unescape(part.split('"').next().unwrap_or_default()));
    }
    let upper = instructions.to_uppercase();
    let is_dde = upper.split_whitespace().any(|word| matches!(word, "DDE" | "DDEAUTO"));
    is_dde.then(|| instructions.trim().to_owned())
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
