//! What unpacking found in the files of a message, and in the files inside them.
//!
//! | Rule | Points | Says |
//! |---|---|---|
//! | `OBJECT_MALWARE` | 1000 | an engine or a list of known files names it: class malware |
//! | `OBJECT_HIDDEN_PROGRAM` | 20 | only other readings of a message show this program: malware |
//! | `OBJECT_SUSPICIOUS` | 3.0 | an engine calls it unwanted or unusual |
//! | `OBJECT_EXECUTABLE` | 4.0 | a program inside an archive, a document or a signed message |
//! | `OBJECT_DOUBLE_EXTENSION` | 3.5 | `invoice.pdf.exe` inside an archive |
//! | `OBJECT_IMAGE_EXECUTABLE` | 4.5 | a program inside a disk image |
//! | `OBJECT_ENCRYPTED` | 1.5 | needs a password that nothing in the message is |
//! | `OBJECT_PASSWORD_IN_TEXT` | 3.5 | encrypted, and the password stands in the message |
//! | `OBJECT_MACRO_AUTOEXEC` | 2.5 | a macro that runs when the document is opened |
//! | `OBJECT_MACRO_DOWNLOADER` | 3.5 | such a macro that starts programs, writes files or fetches |
//! | `OBJECT_XLM_MACROS` | 3.0 | Excel 4.0 macros |
//! | `OBJECT_DDE` | 3.0 | a field that starts a program by DDE |
//! | `OBJECT_REMOTE_TEMPLATE` | 3.0 | a document whose template is fetched when it is opened |
//! | `OBJECT_EQUATION` | 3.0 | the equation editor, as a known exploit embeds it |
//! | `OBJECT_SHORTCUT_COMMAND` | 4.0 | a shortcut with a command line |
//! | `OBJECT_DATA_QUERY` | 3.0 | a query (`.iqy`) whose data is fetched from an address |
//! | `OBJECT_SMUGGLING` | 4.0 phishing | a page that writes a file out of itself by script |
//! | `OBJECT_PASSWORD_FORM` | 2.5 phishing | a page that asks for a password |
//! | `OBJECT_PDF_LAUNCH` | 4.0 | a PDF that starts a program |
//! | `OBJECT_PDF_JAVASCRIPT` | 1.0 | a PDF with JavaScript |
//! | `OBJECT_TYPE_MISMATCH` | 2.5 | a program whose name says that it is a document or picture |
//! | `OBJECT_PATH_TRAVERSAL` | 2.5 | a name that leads out of its folder |
//! | `OBJECT_AMBIGUOUS` | 1.5 | an archive that lists other files than it holds |
//! | `OBJECT_BOMB` | 2.0 | a decompression bomb |
//! | `OBJECT_QR_CODE` | 0.5 | a QR code with a link |
//!
//! The evidence names the path of the object, such as `invoice.zip/run.exe`. What could not be read
//! is a defect of the message, which the class [`gauntlet_verdict::Class::Unscannable`] follows
//! from.
//!
//! Limits: those of the tree; [`DEFECTS_MAX`] defects are named.

use gauntlet_mail::file_kind::object::{
    DefectKind as Unread, EngineReport, Object, OnFailure, PropertyKind as P, Tree,
};
use gauntlet_mail::{Defect, DefectKind, Evidence, FileKind as K, NameKind, View};

use crate::filter::{Filter, Findings, Item};
use crate::rule_registry::{Rule, RuleEffect, RuleRegistry};
use crate::scratch::Scratch;
use gauntlet_verdict::Class;

/// Unread objects that are named in the defects of a verdict.
const DEFECTS_MAX: usize = 16;

/// How findings of our own begin, which [`super::test_strings`] sees in attachments, too.
const OWN_FINDING: &str = "gauntlet:";

/// Names that promise a document or a picture.
const HARMLESS: [&str; 22] = [
    "pdf", "doc", "docx", "xls", "xlsx", "ppt", "pptx", "txt", "rtf", "jpg", "jpeg", "png", "gif",
    "bmp", "tif", "tiff", "mp3", "mp4", "csv", "odt", "htm", "html",
];

/// Scripts that Windows starts by their names, whatever their text.
const SCRIPTS: [&str; 17] = [
    "bat", "cmd", "hta", "js", "jse", "msh", "ps1", "psc1", "reg", "scf", "sct", "vb", "vbe",
    "vbs", "wsc", "wsf", "wsh",
];

/// Bytes of the smallest header of a Windows program: two letters alone may be the beginning of a
/// text.
const PROGRAM_BYTES_MIN: u64 = 64;

/// Looks at the tree of objects.
#[derive(Debug)]
pub struct Objects {
    malware: Rule,
    hidden_program: Rule,
    suspicious: Rule,
    executable: Rule,
    image_executable: Rule,
    double_extension: Rule,
    encrypted: Rule,
    password_in_text: Rule,
    macro_autoexec: Rule,
    macro_downloader: Rule,
    type_mismatch: Rule,
    bomb: Rule,
    qr_code: Rule,
    /// Rules that say no more than that an object has a property.
    by_property: Vec<(P, Rule)>,
}

impl Objects {
    /// The filter with its rules.
    pub fn new(registry: &mut RuleRegistry) -> Self {
        let malware = RuleEffect::ForceClass(Class::Malware);
        let malware = registry.rule(
            "OBJECT_MALWARE",
            1000.0,
            "File is known malware or a test file",
            malware,
        );
        let hidden_program = registry.rule(
            "OBJECT_HIDDEN_PROGRAM",
            20.0,
            "Program that only some mail programs see in an ambiguous message",
            RuleEffect::ForceClass(Class::Malware),
        );
        let mut phishing = |name, score, description| registry.phishing(name, score, description);
        let smuggling = phishing(
            "OBJECT_SMUGGLING",
            4.0,
            "HTML file writes another file by script (smuggling)",
        );
        let form = phishing("OBJECT_PASSWORD_FORM", 2.5, "HTML file asks for a password");
        let mut rule = |name, score, description| registry.points(name, score, description);
        Objects {
            malware,
            hidden_program,
            suspicious: rule(
                "OBJECT_SUSPICIOUS",
                3.0,
                "Malware engine calls a file unwanted or unusual",
            ),
            executable: rule("OBJECT_EXECUTABLE", 4.0, "Executable inside an archive or document"),
            image_executable: rule(
                "OBJECT_IMAGE_EXECUTABLE",
                4.5,
                "Executable inside a disk image",
            ),
            double_extension: rule(
                "OBJECT_DOUBLE_EXTENSION",
                3.5,
                "File inside an archive has a double extension",
            ),
            encrypted: rule("OBJECT_ENCRYPTED", 1.5, "Encrypted file that could not be opened"),
            password_in_text: rule(
                "OBJECT_PASSWORD_IN_TEXT",
                3.5,
                "Encrypted file whose password is in the message",
            ),
            macro_autoexec: rule(
                "OBJECT_MACRO_AUTOEXEC",
                2.5,
                "Document has a macro that runs when it is opened",
            ),
            macro_downloader: rule(
                "OBJECT_MACRO_DOWNLOADER",
                3.5,
                "Document has a macro that runs when it is opened and starts or fetches programs",
            ),
            type_mismatch: rule(
                "OBJECT_TYPE_MISMATCH",
                2.5,
                "Executable named as a document or picture",
            ),
            bomb: rule("OBJECT_BOMB", 2.0, "Decompression bomb"),
            qr_code: rule("OBJECT_QR_CODE", 0.5, "QR code with a link"),
            by_property: vec![(P::Smuggling, smuggling), (P::PasswordForm, form)],
        }
        .with_properties(registry)
    }

    /// Adds the rules that say no more than that an object has a property.
    fn with_properties(mut self, registry: &mut RuleRegistry) -> Self {
        let mut rule = |name, score, description| registry.points(name, score, description);
        self.by_property.extend([
            (P::XlmMacros, rule("OBJECT_XLM_MACROS", 3.0, "Excel 4.0 macros")),
            (P::Dde, rule("OBJECT_DDE", 3.0, "Document starts a program by DDE")),
            (
                P::ExternalTemplate,
                rule("OBJECT_REMOTE_TEMPLATE", 3.0, "Document fetches its template"),
            ),
            (
                P::EquationEditor,
                rule("OBJECT_EQUATION", 3.0, "Document embeds the equation editor"),
            ),
            (P::CommandLine, rule("OBJECT_SHORTCUT_COMMAND", 4.0, "Shortcut with a command line")),
            (
                P::DataQuery,
                rule("OBJECT_DATA_QUERY", 3.0, "Query fetches data from an address into a sheet"),
            ),
            (P::LaunchAction, rule("OBJECT_PDF_LAUNCH", 4.0, "PDF starts a program")),
            (P::JavaScript, rule("OBJECT_PDF_JAVASCRIPT", 1.0, "PDF with JavaScript")),
            (
                P::PathTraversal,
                rule("OBJECT_PATH_TRAVERSAL", 2.5, "File name leads out of its folder"),
            ),
            (
                P::Ambiguous,
                rule("OBJECT_AMBIGUOUS", 1.5, "Archive lists other files than it holds"),
            ),
        ]);
        self
    }

    fn object(&self, tree: &Tree, object: &Object, findings: &mut Findings) {
        let at = |text: &str| evidence(object, text);
        // What other filters say of an attachment itself counts once.
        let is_attachment = object.parent.is_none() && !object.has(P::OtherReading);
        for property in object.properties.iter().filter(|p| p.kind == P::EngineFinding) {
            if !is_attachment || !property.detail.starts_with(OWN_FINDING) {
                findings.add(&self.malware, at(&property.detail));
            }
        }
        for property in object.properties.iter().filter(|p| p.kind == P::EngineSuspicion) {
            findings.add(&self.suspicious, at(&property.detail));
        }
        for (kind, rule) in &self.by_property {
            if is_attachment && *kind == P::PasswordForm {
                continue;
            }
            if let Some(property) = object.properties.iter().find(|p| p.kind == *kind) {
                findings.add(rule, at(&property.detail));
            }
        }
        self.names_and_types(tree, object, findings);
        self.macros(tree, object, findings);
        if let Some(opened) = object.properties.iter().find(|p| p.kind == P::PasswordFound) {
            findings.add(&self.password_in_text, at(&opened.detail));
        }
        if object.defects.iter().any(|d| d.kind == Unread::Encrypted) {
            findings.add(&self.encrypted, at(&object.name));
        }
        if object.defects.iter().any(|d| d.kind == Unread::Bomb) {
            findings.add(&self.bomb, at(&object.name));
        }
        let links = |text: &str| text.starts_with("http://") || text.starts_with("https://");
        let code = object.properties.iter().find(|p| p.kind == P::QrCode && links(&p.detail));
        if let Some(code) = code {
            findings.add(&self.qr_code, at(&code.detail));
        }
    }

    /// Programs that no reading shows but unusual ones: nobody sends a program in such a way whose
    /// recipient, or whose gateway, is to know of it.
    fn hidden_programs(&self, tree: &Tree, findings: &mut Findings) {
        let others: Vec<u32> = tree
            .objects
            .iter()
            .filter(|o| o.parent.is_none() && o.has(P::OtherReading))
            .map(|o| o.root)
            .collect();
        if others.is_empty() {
            return;
        }
        let (hidden, usual): (Vec<&Object>, Vec<&Object>) = tree
            .objects
            .iter()
            .filter(|object| is_program_that_runs(object))
            .partition(|object| others.contains(&object.root));
        let last = |object: &Object| {
            object.name.rsplit(['/', '\\']).next().unwrap_or_default().to_lowercase()
        };
        let shown: Vec<String> = usual.iter().map(|object| last(object)).collect();
        let same_bytes = |object: &Object| usual.iter().any(|u| u.sha256 == object.sha256);
        for object in hidden {
            // A program that the usual reading shows under this name is cut differently here; one
            // that it shows under another that does not run is hidden all the same.
            let name = last(object);
            let is_shown = shown.contains(&name) || (name.is_empty() && same_bytes(object));
            if !is_shown {
                findings.add(&self.hidden_program, evidence(object, &object.name));
            }
        }
    }

    /// Programs inside archives and disk images; attachments themselves are
    /// [`super::attachments`]'s.
    fn names_and_types(&self, tree: &Tree, object: &Object, findings: &mut Findings) {
        let container = match tree.parent(object) {
            // What a program has made of itself is that program.
            Some(container) if container.has(P::PackedProgram) => return,
            Some(container) => Some(container.kind),
            // No part of the message as it was read: no other filter has seen its name.
            None if object.has(P::OtherReading) => None,
            None => return,
        };
        let extension = object.extension();
        let name_kind = NameKind::of_extension(&extension);
        let by_name = matches!(name_kind, Some(NameKind::Program | NameKind::Shortcut));
        let is_program =
            |kind: K| kind.is_program() && !matches!(kind, K::Script | K::Jar | K::Apk | K::Help);
        let by_bytes = is_program(object.kind);
        // `a.com` may be a host name that became a file name: the bytes decide.
        let starts = by_bytes || (by_name && extension != "com");
        let is_inside = match container {
            // What a Java archive is made of is no program that a person starts.
            Some(K::Jar | K::Apk) => false,
            // The name may be one that the page's script gives.
            Some(K::Html) => by_bytes,
            _ => starts,
        };
        let at = || evidence(object, &object.name);
        if is_inside && container == Some(K::DiskImage) {
            findings.add(&self.image_executable, at());
        } else if is_inside && !is_attached(tree, object) {
            findings.add(&self.executable, at());
        }
        let stem = object.name.rsplit(['/', '\\']).next().unwrap_or_default().to_lowercase();
        let before = stem.rsplit('.').nth(1).unwrap_or_default().trim();
        if by_name && HARMLESS.contains(&before) {
            findings.add(&self.double_extension, at());
        }
        if by_bytes && HARMLESS.contains(&extension.as_str()) {
            findings.add(&self.type_mismatch, at());
        }
    }

    /// A macro project's properties stand on the objects of its modules: the document counts.
    fn macros(&self, tree: &Tree, object: &Object, findings: &mut Findings) {
        let Some(auto) = object.properties.iter().find(|p| p.kind == P::AutoExec) else { return };
        let project = tree.parent(object);
        let siblings =
            tree.objects.iter().filter(|o| o.parent == object.parent && o.root == object.root);
        let call = siblings
            .chain([object])
            .chain(project)
            .find_map(|o| o.properties.iter().find(|p| p.kind == P::SuspiciousCall));
        match call {
            Some(call) => {
                let text = format!("{}, {}", auto.detail, call.detail);
                findings.add(&self.macro_downloader, evidence(object, &text));
            }
            None => findings.add(&self.macro_autoexec, evidence(object, &auto.detail)),
        }
    }
}

/// Whether an object lies in nothing but messages that are attached: filters of attachments see it.
fn is_attached(tree: &Tree, object: &Object) -> bool {
    let mut around = std::iter::successors(tree.parent(object), |o| tree.parent(o)).peekable();
    around.peek().is_some() && around.all(|o| matches!(o.kind, K::Message | K::Mbox))
}

/// Whether a person who opens this starts a program: by its bytes, or a script by its name.
fn is_program_that_runs(object: &Object) -> bool {
    let extension = object.extension();
    match object.kind {
        K::ElfProgram | K::MachProgram | K::Shortcut => true,
        K::WindowsProgram => {
            let is_text = object.declared_type.starts_with("text/") && object.name.is_empty();
            object.size >= PROGRAM_BYTES_MIN && !is_text
        }
        K::Script | K::Text | K::Html => SCRIPTS.contains(&extension.as_str()),
        _ => false,
    }
}

/// Evidence in an object: its path, and what was found there.
fn evidence(object: &Object, text: &str) -> Evidence {
    Evidence::new(View::Object, 0, 0, text.as_bytes()).named(&object.path)
}

impl Filter for Objects {
    fn name(&self) -> &'static str {
        "objects"
    }

    fn judges_files(&self) -> bool {
        true
    }

    fn run(&self, item: &Item<'_>, _: &mut Scratch, findings: &mut Findings) {
        let tree = &item.facts.content;
        for object in &tree.objects {
            self.object(tree, object, findings);
        }
        self.hidden_programs(tree, findings);
        // What only needs a password is scored, and the policy may hold it.
        let unread = tree.unread().filter(|(_, defect)| defect.kind != Unread::Encrypted);
        for (object, defect) in unread.take(DEFECTS_MAX) {
            let why = serde_name(defect.kind);
            let detail = match defect.detail.as_str() {
                "" => format!("{why}: {}", object.path),
                more => format!("{why}: {} ({more})", object.path),
            };
            findings.defects.push(Defect::new(DefectKind::UnreadContent, 0).detail(&detail));
        }
        // Where mail waits for the engine, it never comes here.
        let silent = |r: &&EngineReport| !r.error.is_empty() && r.on_failure != OnFailure::Accept;
        for report in tree.engines.iter().filter(silent) {
            let detail = format!("engine {}: {}", report.engine, report.error);
            findings.defects.push(Defect::new(DefectKind::UnreadContent, 0).detail(&detail));
        }
    }
}

/// A defect's stable name, as in policies.
fn serde_name(kind: Unread) -> String {
    let debug = format!("{kind:?}");
    let mut name = String::new();
    for c in debug.chars() {
        if c.is_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.push(c.to_ascii_lowercase());
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filters::testing::find_with;
    use gauntlet_mail::file_kind::object::{ObjectDefect, Property};
    use gauntlet_mail::{Envelope, Facts};

    fn object(parent: Option<u32>, path: &str, kind: K) -> Object {
        Object {
            parent,
            root: 0,
            path: path.to_owned(),
            name: path.rsplit('/').next().unwrap_or_default().to_owned(),
            declared_type: String::new(),
            kind,
            size: 1,
            sha256: String::new(),
            md5: String::new(),
            properties: Vec::new(),
            defects: Vec::new(),
            text: String::new(),
            urls: Vec::new(),
        }
    }

    fn rules(objects: Vec<Object>) -> (Vec<String>, Findings) {
        let filter = Objects::new(&mut RuleRegistry::default());
        let facts = Facts { content: Tree { objects, ..Tree::default() }, ..Facts::default() };
        let findings = find_with(&filter, "Subject: x\n\nx\n", &Envelope::default(), &facts);
        (findings.hits.iter().map(|h| h.rule.to_string()).collect(), findings)
    }

    #[test]
    fn programs_in_archives_documents_and_messages() {
        let zip = object(None, "a.zip", K::Zip);
        let exe = object(Some(0), "a.zip/invoice.pdf.exe", K::WindowsProgram);
        let (found, findings) = rules(vec![zip, exe.clone()]);
        assert_eq!(found, ["OBJECT_EXECUTABLE", "OBJECT_DOUBLE_EXTENSION"]);
        assert_eq!(findings.hits[0].evidence[0].name.as_deref(), Some("a.zip/invoice.pdf.exe"));
        assert!(rules(vec![object(None, "a.exe", K::WindowsProgram)]).0.is_empty());
        let docx = object(None, "a.docx", K::OfficeXml);
        assert!(rules(vec![docx, object(Some(0), "a.docx/x.bin", K::Ole)]).0.is_empty());
        let program = |parent, path: &str| object(Some(parent), path, K::WindowsProgram);
        for (kind, count) in [
            (K::OfficeXml, 1),
            (K::OpenDocument, 1),
            (K::Pdf, 1),
            (K::Html, 1),
            (K::Cms, 1),
            (K::Jar, 0),
            // Filters of attachments see it.
            (K::Message, 0),
        ] {
            let (found, _) = rules(vec![object(None, "a", kind), program(0, "a/r.exe")]);
            assert_eq!(
                found.iter().filter(|r| *r == "OBJECT_EXECUTABLE").count(),
                count,
                "{kind:?}"
            );
        }
        for kind in [K::Zip, K::Cms, K::Tnef, K::Pdf] {
            let message = object(Some(0), "a/m.eml", K::Message);
            let tree = vec![object(None, "a", kind), message, program(1, "a/m.eml/r.exe")];
            assert_eq!(rules(tree).0, ["OBJECT_EXECUTABLE"], "{kind:?}");
        }
        let docx = object(None, "a.docx", K::OfficeXml);
        let found = rules(vec![docx, program(0, "a.docx/word/embeddings/r.txt")]).0;
        assert_eq!(found, ["OBJECT_EXECUTABLE", "OBJECT_TYPE_MISMATCH"]);
        let iso = object(None, "a.iso", K::DiskImage);
        assert_eq!(
            rules(vec![iso, object(Some(0), "a.iso/r.scr", K::Unknown)]).0,
            ["OBJECT_IMAGE_EXECUTABLE"]
        );
    }

    #[test]
    fn findings_and_what_is_unread() {
        let mut file = object(None, "a.bin", K::Unknown);
        let found = |kind, detail: &str| Property { kind, detail: detail.to_owned() };
        file.properties.push(found(P::EngineFinding, "clamav: X"));
        let (hits, findings) = rules(vec![file]);
        assert_eq!(hits, ["OBJECT_MALWARE"]);
        assert_eq!(findings.forced_classes[0].0, Class::Malware);
        let mut file = object(None, "a.zip", K::Zip);
        file.defects.push(ObjectDefect { kind: Unread::TooDeep, detail: String::new() });
        file.defects.push(ObjectDefect { kind: Unread::Encrypted, detail: "b".to_owned() });
        let (hits, findings) = rules(vec![file]);
        assert_eq!(hits, ["OBJECT_ENCRYPTED"]);
        assert_eq!(findings.defects.len(), 1);
        assert_eq!(findings.defects[0].detail, "too_deep: a.zip");
        // What is damaged hides content in an archive, and not in a picture.
        for (kind, count) in [(K::Zip, 2), (K::Gzip, 2), (K::Image, 0), (K::Pdf, 0)] {
            let mut file = object(None, "a", kind);
            for kind in [Unread::Corrupt, Unread::Truncated] {
                file.defects.push(ObjectDefect { kind, detail: String::new() });
            }
            assert_eq!(rules(vec![file]).1.defects.len(), count, "{kind:?}");
        }
    }

    #[test]
    fn programs_that_only_other_readings_show_are_malware() {
        let other = |root: u32, name: &str, kind: K| {
            let mut object = object(None, name, kind);
            let detail = "base64 at byte 9".to_owned();
            object.properties.push(Property { kind: P::OtherReading, detail });
            Object { root, size: 4_096, sha256: format!("{root}"), ..object }
        };
        let usual = |name: &str, kind: K| Object { size: 4_096, ..object(None, name, kind) };
        let text = || usual("", K::Text);
        let hides = |objects: Vec<Object>| {
            let (hits, findings) = rules(objects);
            let is_malware = findings.forced_classes.iter().any(|f| f.0 == Class::Malware);
            assert_eq!(hits.iter().any(|h| h == "OBJECT_HIDDEN_PROGRAM"), is_malware);
            is_malware
        };
        let exe = || other(1, "setup.exe", K::WindowsProgram);
        assert!(hides(vec![text(), exe()]));
        assert!(hides(vec![text(), other(1, "", K::ElfProgram)]));
        assert!(hides(vec![text(), other(1, "a.js", K::Text)]));
        assert!(hides(vec![usual("data.bin", K::WindowsProgram), exe()]), "under another name");
        assert!(hides(vec![usual("setup.exe", K::Text), exe()]), "no program when read as usual");
        let inner = Object { parent: Some(1), root: 1, ..usual("r.exe", K::WindowsProgram) };
        assert!(hides(vec![text(), other(1, "a.zip", K::Zip), inner]), "in an archive");
        for harmless in [
            vec![usual("setup.exe", K::WindowsProgram)],
            vec![usual("setup.exe", K::WindowsProgram), exe()],
            vec![text(), other(1, "a.pdf", K::Pdf)],
            vec![text(), other(1, "notes.txt", K::Text)],
            vec![text(), Object { size: 9, ..exe() }],
            vec![text(), Object { declared_type: "text/plain".into(), name: "".into(), ..exe() }],
        ] {
            assert!(!hides(harmless.clone()), "{harmless:?}");
        }
    }

    #[test]
    fn a_query_that_fetches_data_counts() {
        let mut query = object(None, "a.iqy", K::Text);
        assert!(rules(vec![query.clone()]).0.is_empty());
        let detail = "http://a.example/2.php".to_owned();
        query.properties.push(Property { kind: P::DataQuery, detail });
        assert_eq!(rules(vec![query]).0, ["OBJECT_DATA_QUERY"]);
    }

    #[test]
    fn a_macro_that_fetches_is_worse_than_one_that_runs() {
        let doc = object(None, "a.doc", K::Ole);
        let mut module = object(Some(0), "a.doc/M.vba", K::Text);
        module.properties.push(Property { kind: P::AutoExec, detail: "AutoOpen".to_owned() });
        assert_eq!(rules(vec![doc.clone(), module.clone()]).0, ["OBJECT_MACRO_AUTOEXEC"]);
        let mut other = object(Some(0), "a.doc/N.vba", K::Text);
        other.properties.push(Property { kind: P::SuspiciousCall, detail: "Shell".to_owned() });
        assert_eq!(rules(vec![doc, module, other]).0, ["OBJECT_MACRO_DOWNLOADER"]);
    }
}
