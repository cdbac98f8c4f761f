//! OOXML (ECMA-376) and OpenDocument: the package without its VBA project, Excel 4.0 macro sheets,
//! ActiveX controls, embedded objects, DDE and what is fetched from outside, with the content types
//! of a document without macros.

use std::collections::BTreeSet;

use super::markup::{Attribute, attributes, end_of_element, next_tag, without};
use super::package::Package;
use super::{Made, Plain};
use crate::formats::office::is_plain_field_data;
use crate::limits::Limits;

/// Parts that are left out, by a piece of their name in lower case, and what they are.
const PARTS: [(&str, &str); 14] = [
    ("vbaproject", "vba_macros"),
    ("vbadata", "vba_macros"),
    ("attachedtoolbars", "vba_macros"),
    ("/activex/", "active_x"),
    ("/ctrlprops/", "active_x"),
    ("/embeddings/", "embedded_object"),
    ("/macrosheets/", "xlm_macros"),
    ("/dialogsheets/", "xlm_macros"),
    ("basic/", "vba_macros"),
    ("scripts/", "script"),
    ("object ", "embedded_object"),
    ("objectreplacements/", "embedded_object"),
    ("configurations2/accelerator", "script"),
    ("customui/", "script"),
];

/// Elements that lead to what is left out.
const ELEMENTS: [(&str, &str); 14] = [
    ("attachedtemplate", "external_template"),
    ("control", "active_x"),
    ("controls", "active_x"),
    ("oleobject", "embedded_object"),
    ("oleobjects", "embedded_object"),
    ("object", "embedded_object"),
    ("object-ole", "embedded_object"),
    ("plugin", "embedded_object"),
    ("applet", "embedded_object"),
    ("ddelink", "dde"),
    ("dde-source", "dde"),
    ("event-listener", "script"),
    ("scripts", "script"),
    ("macrosheet", "xlm_macros"),
];

/// Main parts with macros (ECMA-376, [MS-OFFMACRO2]) and without.
const TYPES: [(&str, Plain, &str); 7] = [
    (
        "application/vnd.ms-word.document.macroenabled.main+xml",
        Plain::Document,
        "application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml",
    ),
    (
        "application/vnd.ms-word.template.macroenabledtemplate.main+xml",
        Plain::DocumentTemplate,
        "application/vnd.openxmlformats-officedocument.wordprocessingml.template.main+xml",
    ),
    (
        "application/vnd.ms-excel.sheet.macroenabled.main+xml",
        Plain::Workbook,
        "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml",
    ),
    (
        "application/vnd.ms-excel.template.macroenabled.main+xml",
        Plain::WorkbookTemplate,
        "application/vnd.openxmlformats-officedocument.spreadsheetml.template.main+xml",
    ),
    (
        "application/vnd.ms-powerpoint.presentation.macroenabled.main+xml",
        Plain::Presentation,
        "application/vnd.openxmlformats-officedocument.presentationml.presentation.main+xml",
    ),
    (
        "application/vnd.ms-powerpoint.template.macroenabled.main+xml",
        Plain::PresentationTemplate,
        "application/vnd.openxmlformats-officedocument.presentationml.template.main+xml",
    ),
    (
        "application/vnd.ms-powerpoint.slideshow.macroenabled.main+xml",
        Plain::Show,
        "application/vnd.openxmlformats-officedocument.presentationml.slideshow.main+xml",
    ),
];

/// What was taken out, and what the document becomes.
#[derive(Default)]
struct Found {
    removed: BTreeSet<&'static str>,
    becomes: Option<Plain>,
}

pub(super) fn disarm(bytes: &[u8], limits: &Limits) -> Result<Made, String> {
    let mut package = Package::open(bytes, limits)?;
    let (names, mut found) = (package.names(), Found::default());
    let mut total = 0;
    for (index, name) in names.iter().enumerate() {
        if let Some(what) = left_out(name) {
            found.removed.insert(what);
            continue;
        }
        let lower = name.to_lowercase();
        if ![".xml", ".rels", ".vml"].iter().any(|end| lower.ends_with(end)) {
            package.keep(index)?;
            continue;
        }
        let part = package.read(index)?;
        total += part.len() as u64;
        if total > limits.bytes_max {
            return Err("its parts are too large".to_owned());
        }
        let text = String::from_utf8(part).map_err(|_| format!("{name} is not UTF-8"))?;
        if text.contains('\0') || text.contains("<!ENTITY") {
            return Err(format!("{name} is no plain XML"));
        }
        let changed = if lower == "[content_types].xml" || lower == "meta-inf/manifest.xml" {
            list(&text, &mut found)
        } else if lower.ends_with(".rels") {
            relationships(&text, &mut found)
        } else {
            document(&text, &mut found)
        };
        match changed == text {
            true => package.keep(index)?,
            false => package.put(index, changed.as_bytes())?,
        }
    }
    Ok((package.finish()?, found.removed, found.becomes))
}

/// What a part of this name is, if it is left out.
pub(super) fn left_out(name: &str) -> Option<&'static str> {
    let name = format!("/{}", name.to_lowercase());
    let is_in = |(piece, _): &&(&str, &str)| match piece.starts_with('/') {
        true => name.contains(piece),
        false => {
            name.rsplit('/').next().is_some_and(|last| last.starts_with(piece))
                || name[1..].starts_with(piece)
        }
    };
    PARTS.iter().find(is_in).map(|(_, what)| *what)
}

/// What a relationship leads to, if it is left out: neither a part that stays nor a page that a
/// reader clicks.
pub(super) fn relation(all: &[Attribute]) -> Option<&'static str> {
    let value = |name: &str| {
        let attribute = all.iter().find(|a| a.name == name);
        attribute.map(|a| a.value.as_str()).unwrap_or_default()
    };
    let kind = value("type").rsplit('/').next().unwrap_or_default().to_lowercase();
    let external = value("targetmode").eq_ignore_ascii_case("external");
    // Targets are relative to a folder that is not known here; its name tells enough.
    let inner = format!("x/{}", value("target").trim_start_matches(['.', '/']));
    match (external, kind.as_str()) {
        (true, "hyperlink") => None,
        (true, "attachedtemplate") => Some("external_template"),
        (true, _) => Some("external_reference"),
        (false, "oleobject" | "package") => Some("embedded_object"),
        (false, "control") => Some("active_x"),
        (false, _) => left_out(&inner).or(left_out(&inner[2..])),
    }
}

/// What a document whose main part has this type becomes, and the type of its main part, if it is
/// one with macros.
pub(super) fn type_without_macros(value: &str) -> Option<(Plain, &'static str)> {
    let lower = value.to_lowercase();
    let found = TYPES.iter().find(|(with, ..)| *with == lower);
    found.map(|(_, becomes, plain)| (*becomes, *plain))
}

/// `[Content_Types].xml` or `META-INF/manifest.xml` without the parts that are left out.
fn list(text: &str, found: &mut Found) -> String {
    let (mut edits, mut at) = (Vec::new(), 0);
    while let Some(tag) = next_tag(text, at) {
        at = tag.range.end;
        let entry = ["override", "default", "file-entry"].contains(&tag.name.as_str());
        if !entry || tag.is_end {
            continue;
        }
        for attribute in attributes(&tag) {
            let value = &attribute.value;
            let is_name = ["partname", "manifest:full-path"].contains(&attribute.name.as_str());
            if is_name && left_out(value.trim_start_matches('/')).is_some() {
                edits.push((tag.range.clone(), String::new()));
            }
            if attribute.name == "contenttype" {
                if let Some((becomes, plain)) = type_without_macros(value) {
                    found.becomes = Some(becomes);
                    found.removed.insert("vba_macros");
                    edits.push((attribute.range.clone(), format!("ContentType=\"{plain}\"")));
                } else if value.to_lowercase().contains("vbaproject") {
                    edits.push((tag.range.clone(), String::new()));
                }
            }
        }
    }
    without(text, edits)
}

/// Relationships to parts that stay, and to pages that a reader clicks.
fn relationships(text: &str, found: &mut Found) -> String {
    let (mut edits, mut at) = (Vec::new(), 0);
    while let Some(tag) = next_tag(text, at) {
        at = tag.range.end;
        if tag.name != "relationship" || tag.is_end {
            continue;
        }
        if let Some(what) = relation(&attributes(&tag)) {
            found.removed.insert(what);
            edits.push((tag.range.clone(), String::new()));
        }
    }
    without(text, edits)
}

/// A part without elements that lead to what is left out, without instructions of fields that start
/// programs, and without data of fields that may be a file.
fn document(text: &str, found: &mut Found) -> String {
    let (mut edits, mut at) = (Vec::new(), 0);
    let has_dde = instructions(text).contains("DDE");
    while let Some(tag) = next_tag(text, at) {
        at = tag.range.end;
        if tag.is_end {
            continue;
        }
        if let Some((_, what)) = ELEMENTS.iter().find(|(name, _)| *name == tag.name) {
            found.removed.insert(what);
            let end = end_of_element(text, &tag);
            edits.push((tag.range.start..end, String::new()));
            at = end;
        } else if tag.name == "flddata" && !tag.is_empty {
            let end = end_of_element(text, &tag);
            let inner = text[at..end].rfind("</").map_or("", |to| &text[at..at + to]);
            if !is_plain_field_data(inner) {
                found.removed.insert("field_data");
                edits.push((tag.range.start..end, String::new()));
            }
            at = end;
        } else if has_dde && matches!(tag.name.as_str(), "instrtext" | "f") && !tag.is_empty {
            found.removed.insert("dde");
            let end = text[at..].find('<').map_or(text.len(), |i| at + i);
            edits.push((at..end, String::new()));
        } else {
            let all = attributes(&tag);
            for attribute in all {
                let is_field = has_dde && attribute.name.ends_with(":instr");
                // A shape or picture that runs a macro when it is clicked.
                let is_macro = attribute.name == "macro" && !attribute.value.is_empty();
                if is_field || is_macro {
                    found.removed.insert(if is_field { "dde" } else { "vba_macros" });
                    edits.push((attribute.range, String::new()));
                }
            }
        }
    }
    without(text, edits)
}

/// The instructions of all fields, put together from their runs, and of formulas, in upper case.
fn instructions(text: &str) -> String {
    let (mut out, mut at) = (String::new(), 0);
    while let Some(tag) = next_tag(text, at) {
        at = tag.range.end;
        if tag.name == "instrtext" && !tag.is_end {
            let end = text[at..].find('<').map_or(text.len(), |i| at + i);
            out.push_str(&text[at..end]);
        }
        if tag.name == "fldsimple" {
            out.push_str(tag.rest);
        }
        if tag.name == "f" && !tag.is_end {
            let end = text[at..].find('<').map_or(text.len(), |i| at + i);
            // `=cmd|'/c calc'!A1` is a reference by DDE ([MS-XLSX], ddeLink).
            if text[at..end].contains('|') {
                out.push_str("DDE");
            }
        }
    }
    out.to_uppercase()
}
