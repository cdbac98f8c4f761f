//! Disarming: a file without what runs by itself, every other byte as it was where that is
//! possible.
//!
//! ```text
//! file ─▶ unpack ─▶ its format's disarmer ─▶ unpack again: nothing active, nothing unread
//!            └─ unread, or no disarmer ─▶ refused (the caller strips the file)
//! ```
//!
//! A disarmer need not be believed: its result is unpacked like any other file, and refused if
//! something active is left. What each takes out stands at the head of its file.

mod encoding;
mod flat;
mod markup;
mod office;
mod package;
mod page;
mod pdf;
mod rtf;
mod table;

use std::collections::BTreeSet;

use gauntlet_sniff::FileKind;
use serde::{Deserialize, Serialize};

use crate::host::{NoHost, Root};
use crate::limits::Limits;
use crate::object::{PropertyKind, Tree};

/// Endings of names that browsers open as pages, whatever the bytes.
const PAGES: [&str; 5] = ["htm", "html", "xhtml", "xht", "shtml"];

/// What became of a file that was to be disarmed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Disarmed {
    /// Nothing in it is active.
    Clean,
    /// Active content was removed; the file that stands in its place.
    Changed(Harmless),
    /// It cannot be disarmed, and why.
    Refused(String),
}

/// A file that was disarmed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Harmless {
    /// All bytes of the disarmed file; no part of the serialized answer.
    #[serde(skip)]
    pub bytes: Vec<u8>,
    /// What it is from now on, if its name and type should say something else.
    pub becomes: Option<Plain>,
    /// What was taken out, by words: `vba_macros`.
    pub removed: Vec<String>,
}

/// Documents that hold no macros.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Plain {
    /// A Word document, `.docx`.
    Document,
    /// A Word template, `.dotx`.
    DocumentTemplate,
    /// An Excel workbook, `.xlsx`.
    Workbook,
    /// An Excel template, `.xltx`.
    WorkbookTemplate,
    /// A PowerPoint presentation, `.pptx`.
    Presentation,
    /// A PowerPoint template, `.potx`.
    PresentationTemplate,
    /// A PowerPoint slide show, `.ppsx`.
    Show,
}

impl Plain {
    /// Extension with its dot, and media type (ECMA-376, IANA).
    pub fn names(self) -> (&'static str, &'static str) {
        match self {
            Plain::Document => {
                (".docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document")
            }
            Plain::DocumentTemplate => {
                (".dotx", "application/vnd.openxmlformats-officedocument.wordprocessingml.template")
            }
            Plain::Workbook => {
                (".xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet")
            }
            Plain::WorkbookTemplate => {
                (".xltx", "application/vnd.openxmlformats-officedocument.spreadsheetml.template")
            }
            Plain::Presentation => (
                ".pptx",
                "application/vnd.openxmlformats-officedocument.presentationml.presentation",
            ),
            Plain::PresentationTemplate => {
                (".potx", "application/vnd.openxmlformats-officedocument.presentationml.template")
            }
            Plain::Show => {
                (".ppsx", "application/vnd.openxmlformats-officedocument.presentationml.slideshow")
            }
        }
    }
}

/// What a disarmer made: the file, what it took out, what the file is now.
pub(crate) type Made = (Vec<u8>, BTreeSet<&'static str>, Option<Plain>);

/// Disarms a file, whose name and type say what opens it where its bytes do not; `is_page` says
/// that a reader shows it as HTML whatever its bytes are.
pub fn disarm(file: &Root<'_>, is_page: bool, limits: &Limits) -> Disarmed {
    let bytes = file.bytes;
    let before = tree_of(file, limits);
    let extension = before.objects.first().map(crate::Object::extension).unwrap_or_default();
    let kind = match gauntlet_sniff::sniff(bytes) {
        _ if is_page => FileKind::Html,
        FileKind::Text | FileKind::Unknown if PAGES.contains(&extension.as_str()) => FileKind::Html,
        kind => kind,
    };
    let is_markup =
        matches!(kind, FileKind::Text | FileKind::Unknown | FileKind::Html | FileKind::Svg);
    let is_flat = is_markup
        && !is_page
        && !PAGES.contains(&extension.as_str())
        && crate::formats::office::is_flat(bytes);
    if let Some(why) = unread(&before) {
        return Disarmed::Refused(why);
    }
    let made = match kind {
        _ if is_flat => flat::disarm(bytes, &before),
        _ if is_markup && !is_page && is_table(&before) => table::disarm(bytes),
        FileKind::OfficeXml | FileKind::OpenDocument => office::disarm(bytes, limits),
        FileKind::Pdf => pdf::disarm(bytes, limits),
        FileKind::Rtf => rtf::disarm(bytes),
        FileKind::Html | FileKind::Svg => page::disarm(bytes),
        _ => Ok((bytes.to_vec(), BTreeSet::new(), None)),
    };
    let (bytes, removed, becomes) = match made {
        Ok(made) => made,
        Err(why) => return Disarmed::Refused(why),
    };
    let is_changed = !removed.is_empty();
    let after = if is_changed { tree_of(&Root { bytes: &bytes, ..*file }, limits) } else { before };
    if is_changed && let Some(why) = unread(&after) {
        return Disarmed::Refused(format!("what is left of it cannot be read: {why}"));
    }
    let is_page = !is_flat && matches!(kind, FileKind::Html | FileKind::Svg);
    match (active(&after, is_page), is_changed) {
        (Some(left), _) => Disarmed::Refused(format!("it cannot be disarmed: {left}")),
        (None, false) => Disarmed::Clean,
        (None, true) => {
            let removed = removed.into_iter().map(str::to_owned).collect();
            Disarmed::Changed(Harmless { bytes, becomes, removed })
        }
    }
}

fn tree_of(file: &Root<'_>, limits: &Limits) -> Tree {
    crate::unpack(&[*file], limits, &[], &mut NoHost)
}

/// Whether a spreadsheet opens the file as a table of text.
fn is_table(tree: &Tree) -> bool {
    tree.objects.first().is_some_and(crate::formats::office::is_table)
}

fn unread(tree: &Tree) -> Option<String> {
    let (object, defect) = tree.unread().next()?;
    Some(format!("{} was not read: {:?} {}", object.path, defect.kind, defect.detail))
}

/// The first thing in the tree that runs, or starts something, by itself.
fn active(tree: &Tree, is_page: bool) -> Option<String> {
    use PropertyKind as P;
    for object in &tree.objects {
        if object.kind.is_program() {
            return Some(format!("{} is a program", object.path));
        }
        let found = object.properties.iter().find(|p| match p.kind {
            P::VbaMacros | P::XlmMacros | P::Dde | P::ExternalTemplate | P::EmbeddedObject => true,
            P::ActiveX | P::EquationEditor | P::JavaScript | P::LaunchAction => true,
            P::OpenAction | P::EmbeddedFile | P::XfaForm | P::PasswordForm | P::Form => true,
            P::Script | P::Smuggling | P::Redirect | P::CommandLine | P::InstallerAction => true,
            P::DataQuery | P::Executable | P::AutoExec | P::EngineFinding | P::Encrypted => true,
            // A page shows pictures from elsewhere; a document that fetches them is another matter.
            P::ExternalReference => !is_page,
            _ => false,
        });
        if let Some(found) = found {
            return Some(format!("{}: {:?} {}", object.path, found.kind, found.detail));
        }
    }
    None
}

#[cfg(test)]
mod tests;
