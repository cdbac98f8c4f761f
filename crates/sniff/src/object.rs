//! The tree of objects that unpacking makes: plain data, in the order in which they were found.

use crate::FileKind;
use serde::{Deserialize, Serialize};

/// The objects of one request.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tree {
    /// A container comes before what is in it, the files that were given first of their branch.
    pub objects: Vec<Object>,
    /// The files of every reading of an ambiguous item are among the objects.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub all_readings: bool,
    /// What malware engines did, in the order of the settings.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub engines: Vec<EngineReport>,
}

/// What one malware engine did for one item.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EngineReport {
    /// Its name in the settings.
    pub engine: String,
    /// Program and signatures, as it says them; empty if it was never reached.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// Objects that it looked at.
    pub scanned: u32,
    /// Objects whose answer was known.
    #[serde(default)]
    pub cached: u32,
    /// Wall time in microseconds.
    pub micros: u64,
    /// Why it gave no answer for some object; empty if it answered for all.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub error: String,
    /// What an error means for the item.
    #[serde(default)]
    pub on_failure: OnFailure,
}

/// What happens to an item that an engine cannot look at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnFailure {
    /// It waits: the client is asked to come again.
    #[default]
    Tempfail,
    /// The verdict is `unscannable`; the policy decides.
    Unscannable,
    /// It goes on without this engine's answer, and the verdict says so.
    Accept,
}

impl Tree {
    /// Whether nothing was unpacked, and no engine was queried.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty() && self.engines.is_empty()
    }

    /// The tree for a record that is kept: without texts, at most `objects_max` objects. Files that
    /// were given, findings and defects go before what is unremarkable.
    pub fn summary(&self, objects_max: usize) -> Tree {
        let mut kept: Vec<usize> = (0..self.objects.len()).collect();
        // Containers of what is kept may be left out: the path names them.
        kept.sort_by_key(|&i| {
            let object = &self.objects[i];
            let plain = object.properties.is_empty() && object.defects.is_empty();
            (object.parent.is_some() && plain, i)
        });
        kept.truncate(objects_max);
        kept.sort_unstable();
        let place = |index: u32| kept.binary_search(&(index as usize)).ok();
        let object = |&i: &usize| {
            let object = &self.objects[i];
            let parent = object.parent.and_then(place).and_then(|p| u32::try_from(p).ok());
            let (text, urls) = (String::new(), Vec::new());
            Object { parent, text, urls, ..object.clone() }
        };
        Tree {
            objects: kept.iter().map(object).collect(),
            all_readings: self.all_readings,
            engines: self.engines.clone(),
        }
    }

    /// The container of an object, if it is in one.
    pub fn parent(&self, object: &Object) -> Option<&Object> {
        object.parent.and_then(|index| self.objects.get(index as usize))
    }

    /// What leaves something unread, with the object that has it. An archive that is cut or broken
    /// is among it: what lies behind the fault is read by a program that goes on there.
    pub fn unread(&self) -> impl Iterator<Item = (&Object, &ObjectDefect)> {
        let all = self.objects.iter().flat_map(|o| o.defects.iter().map(move |d| (o, d)));
        all.filter(|(object, defect)| {
            defect.kind.leaves_unread() || (defect.kind.is_damage() && object.kind.is_archive())
        })
    }
}

/// One file: one that was given, or one found inside another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Object {
    /// Index in [`Tree::objects`] of the container, none for a file that was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<u32>,
    /// Index among the files that were given, of the one that this is or lies in.
    pub root: u32,
    /// Names from the outermost container to this object, joined by `/`, such as
    /// `invoice.zip/inner.7z/run.exe`. Control characters are shown as `\u{7f}`.
    pub path: String,
    /// Its own name, as the container has it: with folders, cut at
    /// `name_bytes_max`. Empty if it has none.
    pub name: String,
    /// The media type that the sender or the container says, in lower case; empty if none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub declared_type: String,
    /// What the bytes are.
    pub kind: FileKind,
    /// Bytes that were read.
    pub size: u64,
    /// SHA-256 of the bytes that were read, 64 hexadecimal digits.
    pub sha256: String,
    /// MD5 of the bytes that were read, 32 hexadecimal digits: for lists of known files only.
    pub md5: String,
    /// What was found in it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub properties: Vec<Property>,
    /// What could not be read, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub defects: Vec<ObjectDefect>,
    /// Text that a reader would see, or that runs as a script: UTF-8, at most
    /// `text_bytes_max` bytes.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// URLs that stand in its structure (hyperlinks, actions, QR codes), not those of its text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub urls: Vec<FoundUrl>,
}

impl Object {
    /// Whether it has a property of this kind.
    pub fn has(&self, kind: PropertyKind) -> bool {
        self.properties.iter().any(|p| p.kind == kind)
    }

    /// What follows the last dot of the last part of the name, in lower case; empty without one.
    pub fn extension(&self) -> String {
        let last = self.name.rsplit(['/', '\\']).next().unwrap_or_default();
        let last = last.trim_end_matches(['.', ' ']);
        last.rsplit_once('.').map_or_else(String::new, |(_, e)| e.to_lowercase())
    }
}

/// A URL, and where in the object it stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundUrl {
    /// As it stands there.
    pub url: String,
    /// How a reader comes to it.
    pub source: UrlSource,
}

/// How a reader comes to a URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum UrlSource {
    /// A link that is clicked.
    Link,
    /// Fetched when the document is opened: a template, a picture, an external sheet.
    External,
    /// An action of a document or script.
    Action,
    /// The text of a QR code.
    QrCode,
    /// Where a form is sent.
    Form,
    /// What a shortcut opens.
    Shortcut,
}

/// Something found in an object that a rule, a policy or a person may want to know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Property {
    /// Which property; `detail` depends on it.
    pub kind: PropertyKind,
    /// A name or a short quotation; at most 200 bytes.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
}

/// Kinds of properties. The names are stable: they appear in verdicts, logs and policies in snake
/// case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum PropertyKind {
    /// It needs a password to be read.
    Encrypted,
    /// One of the passwords that were tried opens it; detail: where the word came from.
    PasswordFound,
    /// Bytes before the first structure of the format, such as a self-extracting program.
    DataBefore,
    /// Bytes behind the end of the format.
    DataBehind,
    /// Two directories, or a directory and local headers, that name different files.
    Ambiguous,
    /// Entries that share bytes.
    Overlapping,
    /// A symbolic or hard link; detail: its target.
    Link,
    /// A name that leads out of the folder, absolute or by `..`.
    PathTraversal,
    /// One volume of an archive in several.
    Volume,
    /// A VBA project; its text is the object's text or that of its children.
    VbaMacros,
    /// A macro that runs by itself; detail: its name, e.g. `AutoOpen`.
    AutoExec,
    /// A macro or script that starts programs, writes files or fetches; detail: the word.
    SuspiciousCall,
    /// Excel 4.0 macro sheet; detail: its name and state (hidden, very hidden).
    XlmMacros,
    /// A DDE field or link; detail: the command.
    Dde,
    /// A template that is fetched when the document is opened; detail: its address.
    ExternalTemplate,
    /// Another external relationship that is fetched when opened; detail: its address.
    ExternalReference,
    /// An embedded OLE object or package; detail: its class or file name.
    EmbeddedObject,
    /// An ActiveX control, which runs code of its own.
    ActiveX,
    /// The equation editor's class, as a known exploit uses it.
    EquationEditor,
    /// JavaScript in a document; the text has it.
    JavaScript,
    /// A PDF action that starts a program; detail: the program.
    LaunchAction,
    /// A PDF action that runs when the document is opened.
    OpenAction,
    /// A file embedded in a document.
    EmbeddedFile,
    /// A form in XML (XFA) that a PDF holds.
    XfaForm,
    /// A form that asks for a password.
    PasswordForm,
    /// A form; detail: where it is sent.
    Form,
    /// A script in HTML or SVG.
    Script,
    /// A page that writes a file or a page out of its own text by script (HTML smuggling).
    Smuggling,
    /// A page that goes elsewhere by itself; detail: where.
    Redirect,
    /// The command line of a shortcut.
    CommandLine,
    /// A query whose data is fetched into a sheet when it is opened; detail: where from.
    DataQuery,
    /// A program that unpacks itself when it runs.
    PackedProgram,
    /// An installer's custom action.
    InstallerAction,
    /// A QR code; detail: what it says.
    QrCode,
    /// Width and height of a picture in pixels, `640x480`.
    Dimensions,
    /// How many pages a document has; detail: the number.
    Pages,
    /// A program that a document, archive or image holds, by its bytes.
    Executable,
    /// A file that only some mail programs see; detail: how they come to it.
    OtherReading,
    /// Malware, as an engine names it: `clamav: Eicar-Test-Signature`.
    EngineFinding,
    /// Something that an engine names and the settings call suspicious only.
    EngineSuspicion,
    /// Text was longer than what is kept.
    TextCut,
    /// The name was longer than what is kept.
    NameCut,
}

/// Why an object, or a part of it, was not read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObjectDefect {
    /// Which limit or contradiction kept it from being read.
    pub kind: DefectKind,
    /// The entry or the reason; at most 200 bytes.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
}

/// Kinds of defects of objects; names as those of [`PropertyKind`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum DefectKind {
    /// Containers deeper than `depth_max`.
    TooDeep,
    /// More objects than `objects_max`.
    TooManyObjects,
    /// More bytes in all than `bytes_max`.
    TooManyBytes,
    /// An object over `object_bytes_max`.
    ObjectTooLarge,
    /// More memory than `memory_bytes_max`.
    TooMuchMemory,
    /// A decompression bomb by `ratio_max`.
    Bomb,
    /// More time than `time_max` allows.
    OutOfTime,
    /// Encrypted, and no password that was tried opens it.
    Encrypted,
    /// The bytes end too early.
    Truncated,
    /// The bytes break the rules of their format.
    Corrupt,
    /// A method of compression or a variant that this build cannot read.
    Unsupported,
    /// Only a program that is not installed reads this format; detail: which.
    ToolMissing,
    /// One volume of several: the rest is not here.
    MissingVolume,
    /// The decoder, its worker or its program failed.
    DecoderFailed,
}

impl DefectKind {
    /// Whether a recipient's program may see content that nothing here has seen, whatever the
    /// object is.
    pub fn leaves_unread(self) -> bool {
        !self.is_damage()
    }

    /// Whether the object is cut or broken. A document or picture then shows a recipient no more
    /// than it shows here; of an archive see [`Tree::unread`].
    pub fn is_damage(self) -> bool {
        matches!(self, DefectKind::Truncated | DefectKind::Corrupt)
    }
}
