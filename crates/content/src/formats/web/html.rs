//! Pages in HTML and SVG: what a reader sees, where links, forms and redirects lead, scripts, and
//! the files that a page carries.

use super::bytes;
use super::smuggle::Smuggled;
use super::tags::{Piece, Pieces, decoded};
use super::text_code;
use crate::formats::picture;
use crate::host::Child;
use crate::object::{PropertyKind, UrlSource};
use crate::unpack::Unpacker;

/// Tags and texts of one page.
const PIECES_MAX: usize = 500_000;
/// Bytes of text that are collected before they are added.
const TEXT_BYTES_MAX: usize = 2 * 1024 * 1024;
/// Bytes of an attribute or a text that may be a file for a script.
const CARRIED_BYTES_MIN: usize = 200;

/// Bytes of an address in a style sheet; longer ones are cut.
const ADDRESS_BYTES_MAX: usize = 4_096;

/// What is read of a page.
#[derive(Default)]
struct Page {
    text: String,
    scripts: Vec<String>,
    smuggled: Smuggled,
    base: String,
}

/// Elements within a line.
const INLINE: [&str; 11] =
    ["b", "i", "u", "em", "strong", "span", "font", "a", "sup", "sub", "small"];

/// Reads a page into the current object.
pub(super) fn read(text: &str, unpacker: &mut Unpacker<'_>) {
    let mut page = Page::default();
    for piece in Pieces::new(text).take(PIECES_MAX) {
        match piece {
            Piece::Text(text) => page.add(&decoded(text)),
            Piece::Close(name) => page.separate(&name),
            // Files wait in comments for a script, too.
            Piece::Comment(comment) => page.smuggled.candidate(comment),
            Piece::Open { name, attributes, raw } => {
                if unpacker.is_over() {
                    break;
                }
                page.open(&name, &attributes, raw, unpacker);
            }
        }
    }
    unpacker.text(&bytes::without_runs(&page.text));
    let mut codes = text_code::blocks(&page.text);
    codes.extend(text_code::table(text));
    for code in codes {
        picture::note(&code, unpacker);
    }
    if !page.scripts.is_empty() {
        unpacker.property(PropertyKind::Script, "");
    }
    for script in &page.scripts {
        unpacker.text(&bytes::without_runs(script));
    }
    // One script uses what another has set.
    page.smuggled.script(&page.scripts.join("\n;\n"), unpacker);
    page.smuggled.finish(unpacker);
}

impl Page {
    fn add(&mut self, text: &str) {
        if self.text.len() < TEXT_BYTES_MAX {
            self.text.push_str(text);
        }
        if text.len() > CARRIED_BYTES_MIN {
            self.smuggled.candidate(text);
        }
    }

    fn separate(&mut self, name: &str) {
        if !INLINE.contains(&name) && !self.text.ends_with('\n') {
            self.text.push(if matches!(name, "td" | "th") { ' ' } else { '\n' });
        }
    }

    fn open(
        &mut self,
        name: &str,
        attributes: &[(String, String)],
        raw: Option<&str>,
        unpacker: &mut Unpacker<'_>,
    ) {
        self.separate(name);
        let get = |key: &str| {
            attributes.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
        };
        match name {
            "script" => self.scripts.push(raw.unwrap_or_default().to_owned()),
            "style" => self.style(raw.unwrap_or_default(), unpacker),
            "base" => self.base = get("href").unwrap_or_default().to_owned(),
            "meta" => self.meta(get("http-equiv"), get("content"), unpacker),
            "input" if get("type").is_some_and(|t| t.trim().eq_ignore_ascii_case("password")) => {
                unpacker.property(PropertyKind::PasswordForm, "");
            }
            "form" => {
                let to = get("action").unwrap_or_default();
                unpacker.property(PropertyKind::Form, to);
                self.url(to, UrlSource::Form, unpacker);
            }
            _ => self.add(&raw.map(decoded).unwrap_or_default()),
        }
        let download = get("download");
        self.smuggled.names.extend(download.filter(|n| !n.is_empty()).map(str::to_owned));
        for (key, value) in attributes {
            self.attribute(name, key, value, download, unpacker);
        }
    }

    fn attribute(
        &mut self,
        tag: &str,
        key: &str,
        value: &str,
        download: Option<&str>,
        unpacker: &mut Unpacker<'_>,
    ) {
        let trimmed = value.trim_start_matches(|c: char| c.is_control() || c == ' ');
        if key == "srcdoc" {
            let declared_type = "text/html".to_owned();
            unpacker
                .child(Child { name: "srcdoc.html".to_owned(), declared_type }, value.as_bytes());
        } else if let Some((declared_type, bytes)) = bytes::data_address(trimmed) {
            if !bytes.is_empty() {
                let name = download.unwrap_or_default().to_owned();
                unpacker.child(Child { name, declared_type }, &bytes);
            }
        } else if let Some(script) = script_of(trimmed) {
            let script = bytes::percent(script.as_bytes());
            self.scripts.push(String::from_utf8_lossy(&script).into());
        } else if key.starts_with("on") && key.len() > 3 {
            self.scripts.push(value.to_owned());
        } else {
            self.addresses(tag, key, trimmed, unpacker);
        }
    }

    /// Addresses in the value of an attribute.
    fn addresses(&mut self, tag: &str, key: &str, value: &str, unpacker: &mut Unpacker<'_>) {
        match key.rsplit(':').next().unwrap_or_default() {
            "href" if matches!(tag, "link" | "image" | "use") => {
                self.url(value, UrlSource::External, unpacker);
            }
            "href" => self.url(value, UrlSource::Link, unpacker),
            "formaction" => self.url(value, UrlSource::Form, unpacker),
            "src" | "data" | "background" | "poster" | "codebase" | "archive" => {
                self.url(value, UrlSource::External, unpacker);
            }
            "srcset" => {
                for part in value.split(',') {
                    let url = part.split_whitespace().next().unwrap_or_default();
                    self.url(url, UrlSource::External, unpacker);
                }
            }
            "style" => self.style(value, unpacker),
            _ if value.len() > CARRIED_BYTES_MIN => self.smuggled.candidate(value),
            _ => {}
        }
    }

    /// Notes an address; relative ones need the page's base.
    fn url(&self, url: &str, source: UrlSource, unpacker: &mut Unpacker<'_>) {
        // Browsers leave out line ends and tabs within an address.
        let url: String = url.trim().chars().filter(|c| !matches!(c, '\n' | '\r' | '\t')).collect();
        let scheme = url.split_once(':').map(|(scheme, _)| scheme.to_ascii_lowercase());
        let is_part = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.');
        match scheme.filter(|s| s.len() > 1 && s.bytes().all(is_part)).as_deref() {
            Some("data" | "javascript" | "vbscript" | "cid" | "about" | "blob") => {}
            Some(_) => unpacker.url(&url, source),
            // They take a backslash for a slash.
            None if url.starts_with("//") || url.starts_with("\\\\") || url.starts_with("/\\") => {
                unpacker.url(&url, source);
            }
            None if url.is_empty() || url.starts_with('#') || self.base.is_empty() => {}
            None => {
                let base = self.base.trim_end_matches('/');
                unpacker.url(&format!("{base}/{}", url.trim_start_matches('/')), source);
            }
        }
    }

    /// `<meta http-equiv=refresh content="0; url=...">`.
    fn meta(&mut self, what: Option<&str>, content: Option<&str>, unpacker: &mut Unpacker<'_>) {
        if !what.is_some_and(|what| what.trim().eq_ignore_ascii_case("refresh")) {
            return;
        }
        let Some((_, rest)) = content.unwrap_or_default().split_once([';', ',']) else { return };
        let rest = rest.trim();
        let target = match rest.get(..3) {
            Some(word) if word.eq_ignore_ascii_case("url") => {
                rest[3..].trim_start().trim_start_matches('=')
            }
            _ => rest,
        };
        let target = target.trim().trim_matches(['"', '\'']);
        if target.is_empty() {
            return;
        }
        unpacker.property(PropertyKind::Redirect, target);
        if let Some((declared_type, bytes)) = bytes::data_address(target) {
            unpacker.child(Child { name: String::new(), declared_type }, &bytes);
        } else if let Some(script) = script_of(target) {
            self.scripts.push(script.to_owned());
        } else {
            self.url(target, UrlSource::Action, unpacker);
        }
    }

    /// Addresses in a style sheet: `url(...)` and `@import "..."`.
    fn style(&mut self, style: &str, unpacker: &mut Unpacker<'_>) {
        for (at, _) in style.match_indices("url(").take(PIECES_MAX) {
            let inner = crate::text::cut(&style[at + 4..], ADDRESS_BYTES_MAX);
            let inner = inner.split(')').next().unwrap_or_default();
            let inner = inner.trim().trim_matches(['"', '\'']);
            if bytes::data_address(inner).is_none() {
                self.url(inner, UrlSource::External, unpacker);
            }
        }
        for (at, _) in style.match_indices("@import") {
            let inner = style[at + 7..].trim_start();
            if let Some(quote @ ('"' | '\'')) = inner.chars().next() {
                let url = crate::text::cut(&inner[1..], ADDRESS_BYTES_MAX);
                let url = url.split(quote).next().unwrap_or_default();
                self.url(url, UrlSource::External, unpacker);
            }
        }
    }
}

/// The script of a `javascript:` address.
fn script_of(address: &str) -> Option<&str> {
    let (scheme, script) = address.split_once(':')?;
    let scheme: String = scheme.chars().filter(|c| !c.is_control() && *c != ' ').collect();
    let schemes = ["javascript", "vbscript"];
    schemes.iter().any(|s| scheme.eq_ignore_ascii_case(s)).then_some(script)
}
