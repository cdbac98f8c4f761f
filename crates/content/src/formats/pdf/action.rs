//! What a PDF does: JavaScript, programs that are started, addresses that are fetched or sent to,
//! files inside it (ISO 32000-2 sections 7.11, 12.6, 12.7 and 13).

use std::collections::HashSet;

use super::document::{Document, Entry, string};
use super::value::{Dict, Value};
use crate::host::Child;
use crate::object::{PropertyKind, UrlSource};
use crate::unpack::Unpacker;

/// Files inside one document.
const FILES_MAX: usize = 1_000;

/// Events of one object that start actions.
const TRIGGERS_MAX: usize = 64;

/// What is found on the way through all objects.
struct Walk<'d, 'a> {
    document: &'d Document<'a>,
    /// Numbers of the objects that hold actions which run by themselves.
    automatic: HashSet<u32>,
    /// Embedded files that were read, by the place of their entries.
    files: HashSet<usize>,
    /// Numbers of objects whose versions were read as files, and as scripts or forms: many actions
    /// may lead to one with many versions.
    file_numbers: HashSet<u32>,
    text_numbers: HashSet<u32>,
}

/// Notes what all objects of the document do, superseded ones too.
pub(super) fn read(document: &Document<'_>, unpacker: &mut Unpacker<'_>) {
    let mut walk = Walk {
        document,
        automatic: HashSet::new(),
        files: HashSet::new(),
        file_numbers: HashSet::new(),
        text_numbers: HashSet::new(),
    };
    for entry in &document.entries {
        if unpacker.is_over() {
            return;
        }
        if let Some(dict) = entry.value.dict() {
            walk.opening(dict, unpacker);
        }
    }
    for entry in &document.entries {
        if unpacker.is_over() {
            return;
        }
        let automatic = walk.automatic.contains(&entry.number);
        walk.value(&entry.value, automatic, unpacker);
    }
    walk.unnamed_files(unpacker);
}

impl Walk<'_, '_> {
    /// Actions that run when a document, a page or a field is opened or left.
    fn opening(&mut self, dict: &Dict, unpacker: &mut Unpacker<'_>) {
        for (key, value) in &dict.0 {
            match &**key {
                b"OpenAction" => self.automatic_action(value, "OpenAction", unpacker),
                b"AA" => {
                    let document = self.document;
                    let actions = document.resolve(value).dict();
                    for (trigger, action) in
                        actions.iter().flat_map(|actions| actions.0.iter().take(TRIGGERS_MAX))
                    {
                        let trigger = format!("AA {}", String::from_utf8_lossy(trigger));
                        self.automatic_action(action, &trigger, unpacker);
                    }
                }
                _ => {}
            }
        }
    }

    /// Notes an action that is more than a place to go to.
    fn automatic_action(&mut self, value: &Value, trigger: &str, unpacker: &mut Unpacker<'_>) {
        let Some(dict) = self.document.resolve(value).dict() else { return };
        let kind = self.document.get(dict, "S").and_then(Value::name).unwrap_or_default();
        if kind == b"GoTo" || (kind.is_empty() && dict.get("JS").is_none()) {
            return;
        }
        let detail = format!("{trigger}: {}", String::from_utf8_lossy(kind));
        unpacker.property(PropertyKind::OpenAction, &detail);
        if let Value::Reference(number) = value {
            self.automatic.insert(*number);
        }
    }

    fn value(&mut self, value: &Value, automatic: bool, unpacker: &mut Unpacker<'_>) {
        match value {
            Value::Array(values) => {
                values.iter().for_each(|value| self.value(value, automatic, unpacker));
            }
            Value::Dict(dict) => {
                self.dict(dict, automatic, unpacker);
                for (key, value) in &dict.0 {
                    let opens = matches!(&**key, b"OpenAction" | b"AA");
                    self.value(value, automatic || opens, unpacker);
                }
            }
            _ => {}
        }
    }

    fn dict(&mut self, dict: &Dict, automatic: bool, unpacker: &mut Unpacker<'_>) {
        let document = self.document;
        let kind = document.get(dict, "S").and_then(Value::name).unwrap_or_default();
        if let Some(script) = dict.get("JS") {
            self.script(script, unpacker);
        } else if kind == b"JavaScript" {
            unpacker.property(PropertyKind::JavaScript, "");
        }
        let link = if automatic { UrlSource::Action } else { UrlSource::Link };
        if let Some(url) = document.get(dict, "URI").and_then(Value::text)
            && !document.is_closed
        {
            unpacker.url(&string(url), link);
        }
        match kind {
            b"Launch" => self.launch(dict, unpacker),
            b"GoToR" | b"GoToE" | b"ImportData" | b"Thread" => {
                if let Some(file) = self.file_name(dict) {
                    unpacker.url(&file, UrlSource::Action);
                }
            }
            b"SubmitForm" => {
                let to = self.file_name(dict).unwrap_or_default();
                unpacker.property(PropertyKind::Form, &to);
                unpacker.url(&to, UrlSource::Form);
            }
            _ => {}
        }
        self.parts(dict, unpacker);
    }

    /// Forms, files and media of a dictionary.
    fn parts(&mut self, dict: &Dict, unpacker: &mut Unpacker<'_>) {
        let document = self.document;
        if let Some(files) = document.dict(dict, "EF") {
            let name = self.name_of(dict);
            for (_, file) in &files.0 {
                if let Value::Reference(number) = file {
                    self.file(*number, &name, unpacker);
                }
            }
        } else if dict.is("Type", "Filespec") || dict.is("FS", "URL") {
            let name = self.name_of(dict);
            let remote = dict.is("FS", "URL") || name.contains("://") || name.starts_with("\\\\");
            if remote && !document.is_closed {
                unpacker.url(&name, UrlSource::External);
            }
        }
        if dict.is("Subtype", "RichMedia") || dict.is("Subtype", "3D") {
            unpacker.property(PropertyKind::EmbeddedObject, "RichMedia");
        }
        if let Some(forms) = document.dict(dict, "AcroForm") {
            let has_fields = matches!(document.get(forms, "Fields"),
                Some(Value::Array(fields)) if !fields.is_empty());
            if has_fields {
                unpacker.property(PropertyKind::Form, "");
            }
        }
        if let Some(xfa) = dict.get("XFA") {
            self.xfa(xfa, unpacker);
        }
    }

    /// Whether what a value leads to was not read as text before.
    fn is_new_text(&mut self, value: &Value) -> bool {
        !matches!(value, Value::Reference(number) if !self.text_numbers.insert(*number))
    }

    fn script(&mut self, script: &Value, unpacker: &mut Unpacker<'_>) {
        unpacker.property(PropertyKind::JavaScript, "");
        if self.document.is_closed || !self.is_new_text(script) {
            return;
        }
        for text in self.document.texts(script, unpacker) {
            super::super::web::script(&text, unpacker);
        }
    }

    /// A launched program: `F`, or `F` and `P` (parameters) of the dictionary for Windows.
    fn launch(&self, dict: &Dict, unpacker: &mut Unpacker<'_>) {
        let windows = self.document.dict(dict, "Win");
        let mut words = vec![self.file_name(dict).unwrap_or_default()];
        if let Some(windows) = windows {
            words.push(self.file_name(windows).unwrap_or_default());
            let parameters = self.document.get(windows, "P").and_then(Value::text);
            words.push(parameters.map(string).unwrap_or_default());
        }
        words.retain(|word| !word.is_empty());
        let command = if self.document.is_closed { String::new() } else { words.join(" ") };
        unpacker.property(PropertyKind::LaunchAction, &command);
        unpacker.text(&command);
        if command.contains("://") {
            unpacker.url(&command, UrlSource::Action);
        }
    }

    /// The file of an action: a string, or a file specification.
    fn file_name(&self, dict: &Dict) -> Option<String> {
        if self.document.is_closed {
            return None;
        }
        match self.document.get(dict, "F").or_else(|| self.document.get(dict, "UF"))? {
            Value::Text(text) => Some(string(text)),
            Value::Dict(file) => Some(self.name_of(file)),
            _ => None,
        }
    }

    /// The name of a file specification; the one in Unicode first.
    fn name_of(&self, dict: &Dict) -> String {
        let keys = ["UF", "F", "Unix", "DOS", "Mac"];
        let mut names = keys.iter().filter_map(|key| self.document.get(dict, key)?.text());
        names.next().filter(|_| !self.document.is_closed).map(string).unwrap_or_default()
    }

    /// The XML of a form: one stream, or an array of names and streams.
    fn xfa(&mut self, xfa: &Value, unpacker: &mut Unpacker<'_>) {
        unpacker.property(PropertyKind::XfaForm, "");
        let document = self.document;
        let parts = match document.resolve(xfa) {
            Value::Array(parts) => parts.iter().collect(),
            _ => vec![xfa],
        };
        for part in parts.iter().filter(|part| matches!(part, Value::Reference(_))) {
            if !self.is_new_text(part) {
                continue;
            }
            for text in document.texts(part, unpacker) {
                let lower = text.to_ascii_lowercase();
                if lower.contains("<script") {
                    unpacker.property(PropertyKind::JavaScript, "XFA");
                }
                super::super::web::markup(&text, unpacker);
            }
        }
    }

    /// An embedded file, in each of its versions.
    fn file(&mut self, number: u32, name: &str, unpacker: &mut Unpacker<'_>) {
        let document = self.document;
        if !self.file_numbers.insert(number) {
            return;
        }
        for entry in document.objects(number) {
            self.embedded(entry, name, unpacker);
        }
    }

    fn embedded(&mut self, entry: &Entry, name: &str, unpacker: &mut Unpacker<'_>) {
        let Some(at) = entry.stream else { return };
        if !self.files.insert(at) || self.files.len() > FILES_MAX || unpacker.is_over() {
            return;
        }
        unpacker.property(PropertyKind::EmbeddedFile, name);
        if self.document.is_closed {
            return;
        }
        let dict = entry.value.dict();
        let declared = dict.and_then(|dict| self.document.get(dict, "Subtype")?.name());
        let declared_type = declared.map(|t| String::from_utf8_lossy(t).into_owned());
        let bytes = self.document.stream(entry, unpacker).bytes;
        let child =
            Child { name: name.to_owned(), declared_type: declared_type.unwrap_or_default() };
        unpacker.child(child, &bytes);
    }

    /// Embedded files that no specification names.
    fn unnamed_files(&mut self, unpacker: &mut Unpacker<'_>) {
        let document = self.document;
        for entry in &document.entries {
            let is_file = entry.value.dict().is_some_and(|dict| dict.is("Type", "EmbeddedFile"));
            if is_file {
                self.embedded(entry, "", unpacker);
            }
        }
    }
}
