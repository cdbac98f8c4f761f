//! Names and types of attachments, and the first look into their bytes.
//!
//! | Rule | Points | Says |
//! |---|---|---|
//! | `ATTACH_EXECUTABLE` | 4.0 | a program by its name or by its first bytes |
//! | `ATTACH_DOUBLE_EXTENSION` | 3.5 | `invoice.pdf.exe`: many programs hide the last extension |
//! | `ATTACH_NAME_TRICK` | 4.0 | a name with a direction override, or blanks before its extension |
//! | `ATTACH_TYPE_MISMATCH` | 2.5 | a harmless type is declared, the bytes are program or archive |
//! | `ATTACH_ENCRYPTED` | 1.5 | an encrypted archive, which cannot be scanned |
//! | `ATTACH_MACROS` | 2.0 | an office document that holds macros |
//! | `ATTACH_DISK_IMAGE` | 2.5 | a disk image, which carries programs past their mark of origin |
//! | `ATTACH_SHORTCUT` | 4.0 | a shortcut or link file that starts something |
//! | `ATTACH_ACTIVE_DOCUMENT` | 2.0 | a document with files to start, or that fetches content |
//! | `ATTACH_HTML` | 0.4 | a web page as attachment |
//! | `ATTACH_HTML_SCRIPT` | 2.5 phishing | a page with a password form, or unpacked by script |
//! | `ATTACH_PATH` | 2.0 | a name with a path that leads out of its folder |
//!
//! All names of a part count, in all interpretations ([`gauntlet_mail::names`]), and each is judged
//! by the lists of kinds there.
//!
//! So are the files inside a part ([`Part::files`]: uuencode, yEnc, TNEF).
//!
//! Limits: archives are not unpacked; of a zip the entries' names are read, by its directory and by
//! the headers of its entries ([`zip::archive_names`]); otherwise what [`gauntlet_mail::file_kind`]
//! recognises.

use std::borrow::Cow;

use gauntlet_mail::file_kind::{self, FileKind as K, zip};
use gauntlet_mail::{Defect, DefectKind, Evidence, Message, NameKind, Part, View, names};

use crate::filter::{Filter, Findings, Item};
use crate::rule_registry::{Rule, RuleRegistry};
use crate::scratch::Scratch;

/// A zip with so few entries is a wrapper.
const FEW_ENTRIES_MAX: usize = 3;

/// Bytes of a text that are examined for a program's signature.
const HEAD_BYTES: usize = 64;

/// Harmless extensions, which are put in front of the real one to disguise it.
const HARMLESS: &[&str] = &[
    "pdf", "doc", "docx", "xls", "xlsx", "ppt", "pptx", "txt", "rtf", "jpg", "jpeg", "png", "gif",
    "bmp", "tif", "tiff", "mp3", "mp4", "avi", "csv", "odt", "html", "htm", "zip",
];

/// The filter of names and types of attachments.
#[derive(Debug)]
pub struct Attachments {
    executable: Rule,
    double_extension: Rule,
    name_trick: Rule,
    type_mismatch: Rule,
    encrypted: Rule,
    macros: Rule,
    disk_image: Rule,
    shortcut: Rule,
    active_document: Rule,
    html: Rule,
    html_script: Rule,
    path: Rule,
}

impl Attachments {
    /// The filter with its rules.
    pub fn new(registry: &mut RuleRegistry) -> Self {
        let html_script = registry.phishing(
            "ATTACH_HTML_SCRIPT",
            2.5,
            "HTML attachment asks for a password or unpacks itself by script",
        );
        let mut rule = |name, score, description| registry.points(name, score, description);
        Attachments {
            executable: rule("ATTACH_EXECUTABLE", 4.0, "Attachment is an executable"),
            double_extension: rule(
                "ATTACH_DOUBLE_EXTENSION",
                3.5,
                "Attachment has a double extension",
            ),
            name_trick: rule("ATTACH_NAME_TRICK", 4.0, "Attachment name disguises its type"),
            type_mismatch: rule(
                "ATTACH_TYPE_MISMATCH",
                2.5,
                "Attachment content does not match its declared type",
            ),
            encrypted: rule("ATTACH_ENCRYPTED", 1.5, "Attachment is encrypted"),
            macros: rule("ATTACH_MACROS", 2.0, "Attached document contains macros"),
            disk_image: rule("ATTACH_DISK_IMAGE", 2.5, "Attachment is a disk image"),
            shortcut: rule("ATTACH_SHORTCUT", 4.0, "Attachment is a shortcut file"),
            active_document: rule(
                "ATTACH_ACTIVE_DOCUMENT",
                2.0,
                "Attached document can run programs or load remote content",
            ),
            html: rule("ATTACH_HTML", 0.4, "HTML attachment"),
            html_script,
            path: rule("ATTACH_PATH", 2.0, "Attachment name contains a path traversal"),
        }
    }

    /// One reading of a name.
    fn name(&self, name: &str, at: &Evidence, findings: &mut Findings) {
        let lower = name.to_lowercase();
        let mut extensions = lower.rsplit('.').map(str::trim);
        let last = extensions.next().filter(|e| e.len() < lower.len()).unwrap_or_default();
        let before = extensions.next().unwrap_or_default();
        let kind = NameKind::of_extension(last);
        // `a.com` may be a host name that became a file name: the bytes decide.
        if kind == Some(NameKind::Program) && last != "com" {
            findings.add(&self.executable, at.clone());
        }
        let starts = matches!(kind, Some(NameKind::Program | NameKind::Shortcut));
        if starts && HARMLESS.contains(&before) {
            findings.add(&self.double_extension, at.clone());
        }
        match kind {
            Some(NameKind::Shortcut) => findings.add(&self.shortcut, at.clone()),
            Some(NameKind::ActiveDocument) => findings.add(&self.active_document, at.clone()),
            Some(NameKind::MacroDocument) => findings.add(&self.macros, at.clone()),
            Some(NameKind::DiskImage) => findings.add(&self.disk_image, at.clone()),
            _ => {}
        }
        if name.contains(['\u{202e}', '\u{202d}', '\u{2066}', '\u{2067}']) || name.contains("     ")
        {
            findings.add(&self.name_trick, at.clone());
        }
        if lower.contains("../") || lower.contains("..\\") || lower.starts_with('/') {
            findings.add(&self.path, at.clone());
        }
    }

    /// Every interpretation of every name of a part; the one that hits is the evidence.
    fn names(&self, part: &Part<'_>, at: &Evidence, findings: &mut Findings) {
        for name in part.name_interpretations() {
            let at =
                Evidence { text: gauntlet_mail::evidence::quote(name.as_bytes()), ..at.clone() };
            self.name(&name, &at, findings);
        }
    }

    /// The bytes of a part, or of a file inside it; says what they are.
    fn bytes(&self, body: &[u8], at: &Evidence, findings: &mut Findings) -> K {
        let kind = file_kind::sniff(body);
        match kind {
            K::Shortcut => findings.add(&self.shortcut, at.clone()),
            // Developers send scripts to each other; only their names show whether they start when
            // opened.
            K::Script => {}
            K::DiskImage => findings.add(&self.disk_image, at.clone()),
            kind if kind.is_program() => findings.add(&self.executable, at.clone()),
            _ => {}
        }
        if file_kind::has_macros(body) {
            findings.add(&self.macros, at.clone());
        }
        if file_kind::is_encrypted(body) {
            findings.add(&self.encrypted, at.clone());
        }
        self.zip(&zip::archive_names(body), at, findings);
        if zip::has_unread_entries(body) {
            let defect = Defect::new(DefectKind::TooManyParts, at.part);
            findings.defects.push(defect.detail("entries of an archive"));
        }
        kind
    }

    /// Whether the type that a part is said to have is the one of its bytes.
    fn mismatch(&self, part: &Part<'_>, kind: K, at: &Evidence, findings: &mut Findings) {
        let declared = &part.content_type;
        let harmless = matches!(declared.kind.as_str(), "text" | "image" | "audio" | "video")
            || declared.is("application", "pdf");
        let dangerous = matches!(
            kind,
            K::WindowsProgram
                | K::ElfProgram
                | K::MachProgram
                | K::Shortcut
                | K::Zip
                | K::Rar
                | K::SevenZip
                | K::Cab
                | K::DiskImage
        );
        if harmless && dangerous {
            let declared = declared.essence();
            findings.add(&self.type_mismatch, Evidence { text: declared, ..at.clone() });
        }
    }

    /// A program whose type says that it is text to be shown: some programs offer it as a file all
    /// the same.
    fn program_as_text(&self, part: &Part<'_>, i: u16, findings: &mut Findings) {
        if part.is_container {
            return;
        }
        let body = part.body();
        let head = &body[..body.len().min(HEAD_BYTES)];
        // Text may begin with the letters of a signature; it has no NUL.
        if memchr::memchr(0, head).is_some() && file_kind::sniff(head).is_program() {
            findings.add(&self.executable, Evidence::new(View::Body, i, 0, &head[..2]));
        }
    }

    fn zip(&self, entries: &[Cow<'_, [u8]>], at: &Evidence, findings: &mut Findings) {
        // Whole projects are full of scripts; a zip that brings a script to be started has little
        // else.
        let few = entries.len() <= FEW_ENTRIES_MAX;
        for entry in entries {
            let name = String::from_utf8_lossy(entry);
            let inside = || Evidence { text: gauntlet_mail::evidence::quote(entry), ..at.clone() };
            let always = |e: &str| ["exe", "scr", "pif", "msi"].contains(&e);
            for reading in names::interpretations(&name) {
                let last = names::extension(&reading).to_ascii_lowercase();
                match NameKind::of_extension(&last) {
                    Some(NameKind::Program) if few || always(&last) => {
                        findings.add(&self.executable, inside());
                    }
                    Some(NameKind::Shortcut) => findings.add(&self.shortcut, inside()),
                    Some(NameKind::ActiveDocument) if few => {
                        findings.add(&self.active_document, inside());
                    }
                    _ => {}
                }
            }
            if name.contains("../") || name.contains("..\\") {
                findings.add(&self.path, inside());
            }
        }
    }

    fn page(&self, part: &Part<'_>, at: &Evidence, findings: &mut Findings) {
        findings.add(&self.html, at.clone());
        let Some(source) = part.text() else { return };
        let lower = source.to_ascii_lowercase();
        let asks = lower.contains("<form") && lower.contains("password");
        let unpacks = lower.contains("<script")
            && ["atob(", "unescape(", "eval(", "fromcharcode", "location.href", "location.replace"]
                .iter()
                .any(|call| lower.contains(call));
        if asks || unpacks {
            findings.add(&self.html_script, at.clone());
        }
    }
}

impl Filter for Attachments {
    fn name(&self) -> &'static str {
        "attachments"
    }

    fn judges_files(&self) -> bool {
        true
    }

    fn run(&self, item: &Item<'_>, _: &mut Scratch, findings: &mut Findings) {
        for (part, i) in item.message.parts().iter().zip(0u16..) {
            if !part.is_attachment() && part.files().is_empty() {
                self.program_as_text(part, i, findings);
                continue;
            }
            let name = part.file_name().unwrap_or_default();
            let essence = part.content_type.essence();
            let shown = if name.is_empty() { &essence } else { name };
            let at = Evidence::new(View::Attachment, i, 0, shown.as_bytes());
            self.names(part, &at, findings);
            if part.is_container {
                continue;
            }
            let kind = self.bytes(part.body(), &at, findings);
            self.mismatch(part, kind, &at, findings);
            for file in part.files() {
                let name = file.names.first().map_or("", String::as_str);
                let at = Evidence::new(View::Attachment, i, 0, name.as_bytes());
                self.bytes(file.bytes(part.body()), &at, findings);
            }
            let pages = [".html", ".htm", ".shtml", ".xhtml", ".xht", ".svg"];
            let is_page = |name: &Cow<'_, str>| {
                let name = name.to_lowercase();
                pages.iter().any(|end| name.ends_with(end))
            };
            let page = part.name_interpretations().iter().any(is_page);
            if page && !is_inline_alternative(item.message, part) {
                self.page(part, &at, findings);
            }
        }
    }
}

/// A page that is one of several forms of the text is the text, whatever name it has.
fn is_inline_alternative(message: &Message<'_>, part: &Part<'_>) -> bool {
    let parent = part.parent.and_then(|p| message.parts().get(usize::from(p)));
    let forms = parent.is_some_and(|p| {
        p.content_type.is("multipart", "alternative") || p.content_type.is("multipart", "related")
    });
    forms && part.disposition.as_ref().is_none_or(|d| d.kind != "attachment")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filters::testing::hits;

    fn mail(content_type: &str, name: &str, body: &str) -> String {
        format!(
            "Content-Type: multipart/mixed; boundary=b\n\n--b\n\nsee there\n--b\n\
             Content-Type: {content_type}\n\
             Content-Disposition: attachment; filename*=utf-8''{name}\n\n{body}\n--b--\n"
        )
    }

    fn found(content_type: &str, name: &str, body: &str) -> Vec<String> {
        hits(&Attachments::new(&mut RuleRegistry::default()), &mail(content_type, name, body))
    }

    #[test]
    fn names_that_tell() {
        let binary = "application/octet-stream";
        let cases: [(&str, &[&str]); 6] = [
            ("setup.exe", &["ATTACH_EXECUTABLE"]),
            ("invoice.pdf.exe", &["ATTACH_EXECUTABLE", "ATTACH_DOUBLE_EXTENSION"]),
            ("report.xlsm", &["ATTACH_MACROS"]),
            ("parcel.iso", &["ATTACH_DISK_IMAGE"]),
            ("invoice.lnk", &["ATTACH_SHORTCUT"]),
            ("photo%E2%80%AEgpj.png", &["ATTACH_NAME_TRICK"]),
        ];
        for (name, rules) in cases {
            assert_eq!(found(binary, name, "x"), rules, "{name}");
        }
        for name in ["report.pdf", "holiday.jpg", "a.b.docx", "notes.txt", "archive.tar.gz"] {
            assert!(found(binary, name, "x").is_empty(), "{name}");
        }
    }

    #[test]
    fn bytes_that_tell() {
        let elf = "\x7fELF\x01\x01";
        let rules = ["ATTACH_EXECUTABLE", "ATTACH_TYPE_MISMATCH"];
        assert_eq!(found("image/png", "picture.png", elf), rules);
        let entry = |flags: char, name: &str| {
            let length = char::from(name.len() as u8);
            format!("PK\x03\x04\x14\0{flags}\0\0\0{}{length}\0\0\0{name}", "\0".repeat(16))
        };
        assert_eq!(
            found("application/zip", "x.zip", &entry('\x01', "a.txt")),
            ["ATTACH_ENCRYPTED"]
        );
        assert_eq!(found("application/zip", "x.zip", &entry('\0', "a.exe")), ["ATTACH_EXECUTABLE"]);
        assert!(found("application/zip", "x.zip", &entry('\0', "a.txt")).is_empty());
    }

    #[test]
    fn pages() {
        let page = "<form><input type=password name=password></form>";
        assert_eq!(found("text/html", "a.html", page), ["ATTACH_HTML", "ATTACH_HTML_SCRIPT"]);
        assert_eq!(found("text/html", "a.html", "<p>Minutes</p>"), ["ATTACH_HTML"]);
    }
}
