//! Calendars and cards (RFC 5545, RFC 6350, vCard 2.1): text, links, files in base64.

use super::bytes;
use crate::host::Child;
use crate::object::UrlSource;
use crate::unpack::Unpacker;

/// Lines of one file.
const LINES_MAX: usize = 100_000;

/// A line: name, parameters, value.
struct Line {
    name: String,
    parameters: Vec<(String, String)>,
    value: String,
}

/// Reads a calendar or a card.
pub(super) fn read(text: &str, unpacker: &mut Unpacker<'_>) {
    for line in unfolded(text).into_iter().take(LINES_MAX) {
        if unpacker.is_over() {
            return;
        }
        let Some(line) = split(&line) else { continue };
        line.note(unpacker);
    }
}

/// Lines with what was folded joined again; a card of version 2.1 goes on in base64 without a
/// blank until an empty line, and after `=` in quoted-printable.
fn unfolded(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for line in text.split('\n') {
        let line = line.strip_suffix('\r').unwrap_or(line);
        let last = lines.last_mut();
        match (line.strip_prefix([' ', '\t']), last) {
            (Some(more), Some(last)) => last.push_str(more),
            (None, Some(last)) if is_open(last) && !line.is_empty() && !line.contains(':') => {
                last.push_str(line);
            }
            _ => lines.push(line.to_owned()),
        }
    }
    lines
}

fn is_open(line: &str) -> bool {
    let head = line.split(':').next().unwrap_or_default().to_ascii_uppercase();
    (head.contains("BASE64") || head.contains("ENCODING=B"))
        || (head.contains("QUOTED-PRINTABLE") && line.ends_with('='))
}

/// `NAME;PARAMETER=value;...:value`; a colon in quotation marks ends nothing.
fn split(line: &str) -> Option<Line> {
    let mut is_quoted = false;
    let colon = line.char_indices().find(|(_, c)| {
        is_quoted ^= *c == '"';
        *c == ':' && !is_quoted
    });
    let (head, value) = line.split_at(colon?.0);
    let mut parts = head.split(';');
    let name = parts.next().unwrap_or_default();
    // A group of a card: `item1.URL`.
    let name = name.rsplit('.').next().unwrap_or_default().trim().to_ascii_uppercase();
    let parameters = parts
        .map(|part| {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            (key.trim().to_ascii_uppercase(), value.trim().trim_matches('"').to_owned())
        })
        .collect();
    Some(Line { name, parameters, value: value[1..].to_owned() })
}

impl Line {
    fn parameter(&self, key: &str) -> Option<&str> {
        self.parameters.iter().find(|(k, _)| k == key).map(|(_, value)| value.as_str())
    }

    fn is_base64(&self) -> bool {
        let says =
            |value: &str| value.eq_ignore_ascii_case("base64") || value.eq_ignore_ascii_case("b");
        // Version 2.1 may leave out `ENCODING=`.
        self.parameter("ENCODING").is_some_and(says)
            || self.parameters.iter().any(|(key, value)| key == "BASE64" && value.is_empty())
    }

    fn note(&self, unpacker: &mut Unpacker<'_>) {
        if let Some(uri) = self.parameter("ALTREP") {
            unpacker.url(uri, UrlSource::Link);
        }
        if self.is_base64() {
            self.file(&bytes::base64(self.value.as_bytes()), "", unpacker);
            return;
        }
        if let Some((declared_type, bytes)) = bytes::data_address(&self.value) {
            self.file(&bytes, &declared_type, unpacker);
            return;
        }
        let text = self.text();
        match self.name.as_str() {
            "BEGIN" | "END" | "VERSION" | "PRODID" | "DTSTAMP" | "UID" | "REV" | "SEQUENCE" => {}
            "ATTACH" | "PHOTO" | "LOGO" | "SOUND" | "KEY" | "IMAGE" => {
                unpacker.url(&text, UrlSource::External);
            }
            "URL" | "SOURCE" | "CONFERENCE" | "FBURL" | "CALURI" | "CALADRURI" | "RELATED" => {
                unpacker.text(&text);
                unpacker.url(&text, UrlSource::Link);
            }
            "X-ALT-DESC" => super::html::read(&text, unpacker),
            name => {
                let is_url = name.starts_with("X-") && text.contains("://") && !text.contains(' ');
                if is_url {
                    unpacker.url(&text, UrlSource::Link);
                }
                unpacker.text(&text);
            }
        }
    }

    /// The value with its escapes replaced.
    fn text(&self) -> String {
        if self.parameter("ENCODING").is_some_and(|e| e.eq_ignore_ascii_case("quoted-printable")) {
            let joined = self.value.replace("=\r\n", "").replace('=', "%");
            return crate::text::decode(&bytes::percent(joined.as_bytes()));
        }
        let mut out = String::with_capacity(self.value.len());
        let mut chars = self.value.chars();
        while let Some(c) = chars.next() {
            match c {
                '\\' => match chars.next() {
                    Some('n' | 'N') => out.push('\n'),
                    Some(c) => out.push(c),
                    None => {}
                },
                c => out.push(c),
            }
        }
        out
    }

    fn file(&self, bytes: &[u8], declared_type: &str, unpacker: &mut Unpacker<'_>) {
        if bytes.is_empty() {
            return;
        }
        let names = ["FILENAME", "X-FILENAME", "X-APPLE-FILENAME", "X-ORACLE-FILENAME", "X-LABEL"];
        let name = names.iter().find_map(|key| self.parameter(key)).unwrap_or_default();
        let declared = self.parameter("FMTTYPE").or(self.parameter("MEDIATYPE"));
        let declared_type = declared.unwrap_or(declared_type).to_owned();
        unpacker.child(Child { name: name.to_owned(), declared_type }, bytes);
    }
}
