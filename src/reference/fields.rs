//! `docs/reference/log-fields.md`: the fields of records as JSON, from the types that are written.
//!
//! The sources are read as text: names, types and documentation of fields. That is enough for types
//! that are derived; a type that writes itself in another way is named in [`OTHER`].

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use super::{cell, golden, root};

const HEAD: &str = "# Fields of the logs

The records that programs read, as JSON, made by a test from the types that are written. A field
that says nothing (empty, null, false) may be left out. Times are Unix milliseconds where a name
ends with `_ms`. Text comes from outside and is as it was: escape it where you show it.

How long records are kept: `log.retention_days`, `web.log_retention_days` and
`ips.log_retention_days` ([settings](settings.md)). Lines of the program's own log (`log.format`)
and metrics are not here: they are for watching the node.
";

/// A record, the command that prints it, and the type that it is.
const RECORDS: &[(&str, &str, &str)] = &[
    (
        "A line of a search",
        "`gauntlet messages --json` prints one line a message; the API's list of messages has the same.",
        "Summary",
    ),
    (
        "A message",
        "`gauntlet trace ID --json` prints `{\"message\": RECORD, \"events\": [EVENT ...]}`.",
        "LogRecord",
    ),
    ("An event of a message", "What happened after the message was logged.", "Event"),
    ("A held message", "`gauntlet quarantine list --json` prints one line a message.", "Held"),
    (
        "A web request",
        "The web log, as the API's list of requests has it; `cursor` is its place in the log.",
        "WebRecord",
    ),
    ("An alert of packets", "The log of alerts, as the API's list has it.", "AlertRecord"),
];

/// Types that are written in a way of their own.
const OTHER: &[(&str, &str)] = &[
    ("IpAddr", "text: an IPv4 or IPv6 address"),
    ("PathBuf", "text"),
    ("WebCursor", "text"),
    ("AlertCursor", "text"),
    ("Cursor", "text"),
    ("FileKind", "text: the kind of a file"),
];

/// Crates whose types are in records.
const CRATES: &[&str] = &["mail", "sniff", "verdict", "web", "store"];

#[derive(Debug, Clone, Default)]
struct Type {
    doc: String,
    is_enum: bool,
    /// How names are written (`rename_all`).
    case: String,
    /// Name, type (none of a plain variant), documentation, whether its fields stand in its place.
    members: Vec<Member>,
}

#[derive(Debug, Clone, Default)]
struct Member {
    name: String,
    kind: String,
    doc: String,
    is_flat: bool,
}

fn sources() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders: Vec<PathBuf> =
        CRATES.iter().map(|name| root().join("crates").join(name).join("src")).collect();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("sources").flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// The types of a source that are written as JSON, by name.
fn read(text: &str, types: &mut BTreeMap<String, Type>) {
    let (mut doc, mut attributes) = (String::new(), String::new());
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(text) = line.strip_prefix("///") {
            doc.push_str(text);
        } else if line.starts_with("#[") || (!attributes.is_empty() && line.starts_with([' ', ')']))
        {
            attributes.push_str(line);
        } else {
            let declared = ["pub struct ", "pub enum "].iter().find_map(|k| line.strip_prefix(k));
            let name = declared.map(|rest| rest.split([' ', '<', '(', ';']).next().unwrap_or(rest));
            if let Some(name) =
                name.filter(|_| line.ends_with('{') && attributes.contains("Serialize"))
            {
                let is_enum = line.starts_with("pub enum");
                let case = attribute(&attributes, "rename_all").unwrap_or_default();
                let members = members(&mut lines, is_enum);
                let doc = doc.trim().to_owned();
                types.insert(name.to_owned(), Type { doc, is_enum, case, members });
            }
            doc.clear();
            attributes.clear();
        }
    }
}

/// The text of `name = "text"` in attributes.
fn attribute(attributes: &str, name: &str) -> Option<String> {
    let (_, rest) = attributes.split_once(&format!("{name} = \""))?;
    rest.split('"').next().map(str::to_owned)
}

/// Fields or variants until the closing brace.
fn members<'a>(lines: &mut impl Iterator<Item = &'a str>, is_enum: bool) -> Vec<Member> {
    let mut found: Vec<Member> = Vec::new();
    let (mut doc, mut attributes) = (String::new(), String::new());
    for line in lines.by_ref().take_while(|line| *line != "}") {
        let code = line.trim();
        let depth = line.len() - line.trim_start().len();
        if let Some(text) = code.strip_prefix("///") {
            if depth == 4 {
                doc.push_str(text);
            }
            continue;
        }
        if code.starts_with("#[") {
            attributes.push_str(code);
            continue;
        }
        if depth != 4 || code.starts_with(['}', '/']) {
            continue;
        }
        let (name, kind) = match code.strip_prefix("pub ").and_then(|c| c.split_once(": ")) {
            Some((name, kind)) => (name, kind.trim_end_matches(',')),
            None if is_enum => {
                let end = code.find(['(', ' ', ',']).unwrap_or(code.len());
                let inner = code[end..].trim_matches(['(', ')', ',', ' ', '{']);
                (&code[..end], inner)
            }
            None => continue,
        };
        let is_hidden = attributes.contains("serde(skip)");
        let renamed = attribute(&attributes, "rename").unwrap_or_else(|| name.to_owned());
        let member = Member {
            name: renamed,
            kind: kind.to_owned(),
            doc: doc.trim().to_owned(),
            is_flat: attributes.contains("flatten"),
        };
        if !is_hidden {
            found.push(member);
        }
        doc.clear();
        attributes.clear();
    }
    found
}

/// A variant's name as it is written.
fn cased(name: &str, case: &str) -> String {
    let separator = match case {
        "snake_case" => '_',
        "kebab-case" => '-',
        "lowercase" => return name.to_lowercase(),
        _ => return name.to_owned(),
    };
    let mut written = String::new();
    for (at, c) in name.chars().enumerate() {
        if c.is_uppercase() && at > 0 {
            written.push(separator);
        }
        written.extend(c.to_lowercase());
    }
    written
}

/// The inside of a generic type of this name.
fn inside<'a>(kind: &'a str, name: &str) -> Option<&'a str> {
    kind.strip_prefix(name)?.strip_prefix('<')?.strip_suffix('>')
}

/// A type in words; names of ours are added to `wanted`.
fn in_words(kind: &str, types: &BTreeMap<String, Type>, wanted: &mut Vec<String>) -> String {
    if let Some(kind) = ["Option", "Arc", "Box"].iter().find_map(|name| inside(kind, name)) {
        return in_words(kind, types, wanted);
    }
    if let Some(kind) = inside(kind, "Vec") {
        return format!("list of {}", in_words(kind, types, wanted));
    }
    if let Some(kind) = inside(kind, "BTreeMap").and_then(|both| both.split_once(", ")) {
        return format!("object of {}", in_words(kind.1, types, wanted));
    }
    if let Some(parts) = kind.strip_prefix('(').and_then(|k| k.strip_suffix(')')) {
        let parts: Vec<String> =
            parts.split(", ").map(|part| in_words(part, types, wanted)).collect();
        return format!("list: {}", parts.join(", "));
    }
    let name = kind.rsplit("::").next().unwrap_or(kind);
    if let Some((_, words)) = OTHER.iter().find(|(other, _)| *other == name) {
        return (*words).to_owned();
    }
    if types.contains_key(name) {
        wanted.push(name.to_owned());
        let heading = name.to_lowercase();
        return format!("[{name}](#{heading})");
    }
    match name {
        "String" | "str" | "Cow<'static, str>" => "text".to_owned(),
        "bool" => "true or false".to_owned(),
        "f32" | "f64" => "number".to_owned(),
        _ if name.starts_with(['u', 'i']) && name[1..].parse::<u8>().is_ok() => {
            "whole number".to_owned()
        }
        "usize" => "whole number".to_owned(),
        _ => panic!("fields.rs does not know how {kind} is written: add it to CRATES or OTHER"),
    }
}

/// The rows of a type's fields; those of a flat field stand among them.
fn rows(of: &Type, types: &BTreeMap<String, Type>, wanted: &mut Vec<String>) -> String {
    let mut rows = String::new();
    for member in &of.members {
        let plain = member.kind.rsplit("::").next().unwrap_or(&member.kind);
        if member.is_flat
            && let Some(flat) = types.get(plain)
        {
            rows += &self::rows(flat, types, wanted);
            continue;
        }
        let doc = cell(&unlinked(&member.doc));
        if of.is_enum {
            let name = cased(&member.name, &of.case);
            let kind = match member.kind.as_str() {
                "" => String::new(),
                kind if kind.contains([':', ',']) || kind.is_empty() => String::new(),
                kind => format!(" with {}", in_words(kind, types, wanted)),
            };
            rows += &format!("| `{name}`{kind} | {doc} |\n");
        } else {
            let kind = in_words(&member.kind, types, wanted);
            rows += &format!("| `{}` | {kind} | {doc} |\n", member.name);
        }
    }
    rows
}

/// Documentation without rustdoc's links.
fn unlinked(doc: &str) -> String {
    doc.replace("[`", "`").replace("`]", "`").replace("`crate::", "`")
}

#[test]
fn the_page_of_log_fields_is_true() {
    let mut types = BTreeMap::new();
    for path in sources() {
        read(&std::fs::read_to_string(path).expect("a source"), &mut types);
    }
    let mut page = HEAD.to_owned();
    let (mut done, mut wanted) = (BTreeSet::new(), Vec::new());
    let describe = |name: &str, wanted: &mut Vec<String>| {
        let of = types.get(name).unwrap_or_else(|| panic!("no type {name}"));
        let head = if of.is_enum {
            "| Value | Meaning |\n|---|---|\n"
        } else {
            "| Field | Type | Meaning |\n|---|---|---|\n"
        };
        format!("{head}{}", rows(of, &types, wanted))
    };
    for (title, text, name) in RECORDS {
        done.insert((*name).to_owned());
        let text = super::wrapped(text);
        page += &format!("\n## {title}\n\n{text}\n\n{}", describe(name, &mut wanted));
    }
    page += "\n# Parts of records\n";
    while !wanted.is_empty() {
        let mut next = Vec::new();
        for name in wanted {
            if done.insert(name.clone()) {
                let doc = super::wrapped(&unlinked(&types[&name].doc));
                page += &format!("\n## {name}\n\n{doc}\n\n{}", describe(&name, &mut next));
            }
        }
        wanted = next;
    }
    golden("log-fields.md", &page);
}
