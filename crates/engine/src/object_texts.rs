//! Text and URLs of the files of a message, judged as the message's own.
//!
//! They are put as parts into a message of the same sender, subject and recipients, and the filters
//! that read text and links run on it ([`Filter::reads_objects`]). What they find in one of those
//! parts counts, with evidence that names the object; what they find elsewhere was found before.

use std::sync::Arc;

use gauntlet_mail::file_kind::object::Object;
use gauntlet_mail::{Evidence, Hit, Message, View};

use crate::filter::{Filter, Findings, Item};
use crate::filters::url_lists;
use crate::scratch::Scratch;

/// Bytes of text of all objects that are judged.
const TEXT_BYTES_MAX: usize = 256 * 1024;
/// Objects whose text is judged.
const OBJECTS_MAX: usize = 64;
/// Line between the parts; no text of an object has it as a line, since each line is put behind a
/// space.
const BOUNDARY: &str = "=_gauntlet_objects";

/// Runs the filters that read text over the objects' texts, and adds what they find there.
pub(crate) fn judge(
    item: &Item<'_>,
    filters: &[Arc<dyn Filter>],
    scratch: &mut Scratch,
    findings: &mut Findings,
) {
    let objects: Vec<&Object> = item
        .facts
        .content
        .objects
        .iter()
        .filter(|object| !object.text.is_empty() || !object.urls.is_empty())
        .take(OBJECTS_MAX)
        .collect();
    if objects.is_empty() {
        return;
    }
    let raw = synthetic(item.message, &objects);
    let message = Message::parse_with(&raw, item.message.limits());
    let inner = Item { message: &message, ..*item };
    let mut found = Findings::default();
    scratch.give(None);
    for filter in filters.iter().filter(|filter| filter.reads_objects()) {
        filter.run(&inner, scratch, &mut found);
    }
    // Every URL of that message is of an object: its own fields are looked up with the message.
    url_lists::merge_files(findings, &mut found);
    for hit in &found.hits {
        if let Some(hit) = of_objects(hit, &objects) {
            add_hit(hit, &found, findings);
        }
    }
}

/// The sender's fields, and each object's text and URLs as a part of their own.
fn synthetic(message: &Message<'_>, objects: &[&Object]) -> Vec<u8> {
    let mut raw = Vec::new();
    for name in ["From", "To", "Subject", "Date"] {
        if let Some(field) = message.header(name) {
            let value = field.decoded();
            let line = format!("{name}: {}\r\n", value.replace(['\r', '\n'], " "));
            raw.extend_from_slice(line.as_bytes());
        }
    }
    let start = format!(
        "MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=\"{BOUNDARY}\"\r\n\r\n"
    );
    raw.extend_from_slice(start.as_bytes());
    let mut room = TEXT_BYTES_MAX;
    for object in objects {
        let head = format!(
            "--{BOUNDARY}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: 8bit\r\n\r\n"
        );
        raw.extend_from_slice(head.as_bytes());
        let urls = object.urls.iter().map(|found| found.url.as_str());
        for line in urls.chain(object.text.lines()) {
            let line = head_of(line, room);
            room -= line.len();
            // No line begins a part, whatever the object says.
            raw.push(b' ');
            raw.extend_from_slice(line.as_bytes());
            raw.extend_from_slice(b"\r\n");
        }
    }
    raw.extend_from_slice(format!("--{BOUNDARY}--\r\n").as_bytes());
    raw
}

fn head_of(text: &str, max: usize) -> &str {
    let end = (0..=max.min(text.len())).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
    &text[..end]
}

/// The hit with the evidence that lies in objects, if any does.
fn of_objects(hit: &Hit, objects: &[&Object]) -> Option<Hit> {
    let in_object = |evidence: &Evidence| {
        let object = usize::from(evidence.part).checked_sub(1).and_then(|i| objects.get(i))?;
        let shown = matches!(evidence.view, View::Text | View::Html | View::Url | View::Body);
        let named =
            || Evidence { view: View::Object, part: 0, ..evidence.clone() }.named(&object.path);
        shown.then(named)
    };
    let evidence: Vec<Evidence> = hit.evidence.iter().filter_map(in_object).collect();
    (!evidence.is_empty()).then(|| Hit { evidence, ..hit.clone() })
}

/// Adds the hit and what it says beside its points, unless the rule fired on the message itself.
fn add_hit(hit: Hit, found: &Findings, findings: &mut Findings) {
    if findings.hits.iter().any(|known| known.rule == hit.rule) {
        return;
    }
    let is_it = |name: &&Arc<str>| **name == hit.rule;
    findings.phishing.extend(found.phishing.iter().find(is_it).cloned());
    findings.bulk.extend(found.bulk.iter().find(is_it).cloned());
    let forced = found.forced_classes.iter().find(|(_, name)| *name == hit.rule);
    findings.forced_classes.extend(forced.cloned());
    findings.hits.push(hit);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::Snapshot;
    use gauntlet_mail::file_kind::object::{FoundUrl, Tree, UrlSource};
    use gauntlet_mail::{Envelope, Facts, FileKind};

    fn object(path: &str, text: &str, url: &str) -> Object {
        let source = UrlSource::QrCode;
        let urls = (!url.is_empty()).then(|| FoundUrl { url: url.to_owned(), source });
        Object {
            parent: None,
            root: 0,
            path: path.to_owned(),
            name: path.to_owned(),
            declared_type: String::new(),
            kind: FileKind::Pdf,
            size: 1,
            sha256: String::new(),
            md5: String::new(),
            properties: Vec::new(),
            defects: Vec::new(),
            text: text.to_owned(),
            urls: urls.into_iter().collect(),
        }
    }

    #[test]
    fn links_of_files_are_judged_and_named() {
        let raw = b"From: a@b.example\r\nSubject: your parcel\r\n\r\nsee the file\r\n";
        let message = Message::parse(raw);
        let objects = vec![
            object("plain.pdf", "nothing here\n--=_gauntlet_objects\nContent-Type: x", ""),
            object("code.png", "", "http://198.51.100.7/login"),
        ];
        let facts = Facts { content: Tree { objects, ..Tree::default() }, ..Facts::default() };
        let snapshot = Snapshot::default_rules();
        let mut scratch = Scratch::default();
        let verdict = crate::scan(&message, &Envelope::default(), &facts, &snapshot, &mut scratch);
        let hit = verdict.hits.iter().find(|hit| &*hit.rule == "URL_IP").expect("URL_IP");
        assert_eq!(hit.evidence[0].name.as_deref(), Some("code.png"));
        assert_eq!(hit.evidence[0].view, View::Object);
    }
}
