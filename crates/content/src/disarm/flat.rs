//! Documents in one file of XML (Word 2003, Excel 2003, packages of Word 2007, OpenDocument): the
//! document without macros, ActiveX controls, embedded objects, DDE and what is fetched from
//! outside.
//!
//! Tags are read as the reader of these documents reads them (`formats::office`), not leniently:
//! what is no well-formed XML, or has entities of its own, is refused.

use std::collections::BTreeSet;
use std::ops::Range;

use gauntlet_sniff::FileKind;

use super::Made;
use super::encoding::Encoded;
use super::markup::{Attribute, attributes_in, without};
use super::office::{left_out, relation, type_without_macros};
use crate::formats::office::{Place, Places, base64, dde_reference, is_plain_field_data, unescape};
use crate::object::{PropertyKind, Tree};

/// Elements that go with all that is in them.
const ELEMENTS: [(&str, &str); 23] = [
    ("docSuppData", "vba_macros"),
    ("docOleData", "embedded_object"),
    ("object", "embedded_object"),
    ("OLEObject", "embedded_object"),
    ("oleObject", "embedded_object"),
    ("oleObjects", "embedded_object"),
    ("object-ole", "embedded_object"),
    ("plugin", "embedded_object"),
    ("applet", "embedded_object"),
    ("ocx", "active_x"),
    ("control", "active_x"),
    ("controls", "active_x"),
    ("ddeLink", "dde"),
    ("dde-source", "dde"),
    ("dde-link", "dde"),
    ("dde-links", "dde"),
    ("dde-connection", "dde"),
    ("dde-connection-decl", "dde"),
    ("dde-connection-decls", "dde"),
    ("event-listener", "script"),
    ("event-listeners", "script"),
    ("floating-frame", "external_reference"),
    ("macrosheet", "xlm_macros"),
];
const MALFORMED: &str = "it is no well-formed XML";

/// Where the reader of the document stands behind the beginning of an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kept {
    /// Inside of it.
    Open,
    /// Behind it.
    Passed,
}

/// Edits of a text: what stands there, and what instead.
type Edits = Vec<(Range<usize>, String)>;

/// What was found so far.
struct Found<'t> {
    text: &'t str,
    /// A field starts a program or fetches something: which of them, their pieces do not say.
    has_active_fields: bool,
    /// The document is a package of Word 2007.
    is_package: bool,
    edits: Edits,
    removed: BTreeSet<&'static str>,
}

/// Disarms a document, of which this is the tree.
pub(super) fn disarm(bytes: &[u8], tree: &Tree) -> Result<Made, String> {
    let encoded = Encoded::read(bytes)?;
    let text = encoded.text.as_str();
    check(text)?;
    let mut places = Places::new(text);
    let mut found = Found {
        text,
        has_active_fields: has_active_fields(text, tree),
        is_package: false,
        edits: Edits::new(),
        removed: BTreeSet::new(),
    };
    // Elements that are open around this place.
    let mut open: Vec<&str> = Vec::new();
    while let Some(tag) = places.next() {
        if tag.is_end {
            if open.pop() != Some(tag.name) {
                return Err(MALFORMED.to_owned());
            }
        } else if found.element(&tag, &mut places)? == Kept::Open && !tag.is_empty {
            open.push(tag.name);
        }
    }
    if !places.is_whole() || !open.is_empty() {
        return Err(MALFORMED.to_owned());
    }
    let Found { edits, removed, .. } = found;
    Ok((encoded.write(&without(text, edits)), removed, None))
}

/// Refuses what programs may read otherwise than it is read here.
fn check(text: &str) -> Result<(), String> {
    if text.contains('\0') || text.contains("<!ENTITY") || text.contains("<!DOCTYPE") {
        return Err("it is no plain XML".to_owned());
    }
    let head = text.trim_start().strip_prefix("<?xml").and_then(|head| head.split("?>").next());
    let named = head.and_then(|head| head.split_once("encoding")).map(|(_, behind)| behind);
    let label = named.and_then(|behind| behind.split(['"', '\'']).nth(1)).unwrap_or("utf-8");
    let encoding = encoding_rs::Encoding::for_label(label.as_bytes());
    let is_wide = label.to_ascii_lowercase().starts_with("utf-16");
    match is_wide || encoding.is_some_and(|encoding| encoding.is_ascii_compatible()) {
        true => Ok(()),
        false => Err(format!("its encoding is not known: {label}")),
    }
}

/// Whether fields start programs or fetch files: those of the document itself.
fn has_active_fields(text: &str, tree: &Tree) -> bool {
    let root = tree.objects.first();
    let fetches = ["INCLUDE", "IMPORT", "LINK "];
    root.is_some_and(|root| {
        root.has(PropertyKind::Dde)
            || (root.has(PropertyKind::ExternalReference)
                && fetches.iter().any(|word| text.to_ascii_uppercase().contains(word)))
    })
}

impl<'t> Found<'t> {
    /// An element begins.
    fn element(&mut self, tag: &Place<'t>, places: &mut Places<'t>) -> Result<Kept, String> {
        let all = self.attributes(tag);
        let what = match tag.name {
            "part" if left_out(&value(&all, "name")).is_some() => left_out(&value(&all, "name")),
            "part" => {
                self.is_package = true;
                self.main_type(&all);
                None
            }
            "Relationship" => relation(&all),
            "attachedTemplate" if self.is_package || is_outside(&value(&all, "val")) => {
                Some("external_template")
            }
            "NamedRange" if dde_reference(&value(&all, "refersto")).is_some() => Some("dde"),
            "instrText" | "delInstrText" if self.has_active_fields => Some("dde"),
            "scripts" | "SupBook" | "fldData" | "binData" | "binary-data" => {
                return self.by_content(tag, places);
            }
            name => ELEMENTS.iter().find(|(element, _)| *element == name).map(|(_, what)| *what),
        };
        match what {
            Some(what) => {
                let range = places.element(tag).ok_or(MALFORMED)?;
                self.cut(range, what);
                Ok(Kept::Passed)
            }
            None => {
                self.attributes_of(tag.name, all);
                Ok(Kept::Open)
            }
        }
    }

    /// Elements that go if what is in them is more than everyday.
    fn by_content(&mut self, tag: &Place<'t>, places: &mut Places<'t>) -> Result<Kept, String> {
        let range = places.element(tag).ok_or(MALFORMED)?;
        let inner = &self.text[tag.range.end..range.end];
        let inner = &inner[..inner.rfind("</").unwrap_or(0)];
        let what = match tag.name {
            // Every document of LibreOffice has libraries, which are empty.
            "scripts" => ["source-code", "listener", "binary-data"]
                .iter()
                .any(|word| inner.contains(word))
                .then_some("script"),
            "SupBook" => inner.contains('|').then_some("dde"),
            "fldData" => (!is_plain_field_data(inner)).then_some("field_data"),
            _ => (!is_picture(inner)).then_some("embedded_object"),
        };
        if let Some(what) = what {
            self.cut(range, what);
        }
        Ok(Kept::Passed)
    }

    fn cut(&mut self, range: Range<usize>, what: &'static str) {
        self.removed.insert(what);
        self.edits.push((range, String::new()));
    }

    fn attributes(&self, tag: &Place<'t>) -> Vec<Attribute> {
        let whole = &self.text[tag.range.clone()];
        let Some(gap) = whole.find(|c: char| c.is_ascii_whitespace()) else { return Vec::new() };
        let rest = whole[gap..].trim_end_matches('>').trim_end_matches('/');
        attributes_in(rest, tag.range.start + gap)
    }

    /// The type of a main part with macros becomes that of one without.
    fn main_type(&mut self, all: &[Attribute]) {
        for attribute in all.iter().filter(|a| local(&a.name) == "contenttype") {
            if let Some((_, plain)) = type_without_macros(&attribute.value) {
                self.removed.insert("vba_macros");
                let name = &self.text[attribute.range.clone()];
                let name = name.split('=').next().unwrap_or_default().trim_end();
                self.edits.push((attribute.range.clone(), format!("{name}=\"{plain}\"")));
            }
        }
    }

    /// Attributes of an element that stays which start or fetch something.
    fn attributes_of(&mut self, element: &str, all: Vec<Attribute>) {
        for attribute in all {
            let value = unescape(&attribute.value);
            let what = match (element, local(&attribute.name)) {
                ("Cell", "formula") if dde_reference(&value).is_some() => "dde",
                (_, "formula") if value.to_ascii_uppercase().contains("DDE(") => "dde",
                ("fldSimple", "instr") if self.has_active_fields => "dde",
                // Shapes and links that run a macro when they are clicked.
                (_, "macro") if !value.is_empty() => "vba_macros",
                (_, "href") if is_script(&value) => "script",
                ("imagedata" | "fill", "src" | "href") if is_outside(&value) => {
                    "external_reference"
                }
                _ => continue,
            };
            self.cut(attribute.range, what);
        }
    }
}

/// The value of an attribute, whatever its prefix; empty if there is none.
fn value(all: &[Attribute], name: &str) -> String {
    let found = all.iter().find(|attribute| local(&attribute.name) == name);
    found.map(|attribute| unescape(&attribute.value)).unwrap_or_default()
}

fn local(name: &str) -> &str {
    name.rsplit(':').next().unwrap_or(name)
}

fn is_outside(address: &str) -> bool {
    !address.starts_with("wordml:") && (address.contains("://") || address.starts_with("\\\\"))
}

fn is_script(address: &str) -> bool {
    let address = address.trim_start().to_ascii_lowercase();
    ["vnd.sun.star.script:", "script:", "macro:", "javascript:", "vbscript:"]
        .iter()
        .any(|scheme| address.starts_with(scheme))
}

/// Whether a file in base64 is a picture: by its bytes, also a compressed one (`.emz`).
fn is_picture(digits: &str) -> bool {
    let Some(bytes) = base64(digits) else { return false };
    // Windows metafiles: enhanced (MS-EMF section 2.3.4.2), and with a placeable header (MS-WMF
    // section 2.3.2.3).
    let is_metafile = bytes.get(40..44) == Some(b" EMF") || bytes.starts_with(b"\xd7\xcd\xc6\x9a");
    is_metafile || matches!(gauntlet_sniff::sniff(&bytes), FileKind::Image | FileKind::Gzip)
}

#[cfg(test)]
mod tests;
