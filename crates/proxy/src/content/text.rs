//! The text of a page: from bytes in its charset to the search for phrases.

use std::sync::Arc;

use encoding_rs::{Encoding, UTF_8, WINDOWS_1252};
use gauntlet_phrases::{Form, PhraseSet, Scanner, Score, ScoreOptions};

/// Bytes in which the charset is looked for (HTML Living Standard, section 13.2.3.2).
const HEAD_BYTES: usize = 1024;
/// Bytes that are decoded at a time.
const STEP_BYTES: usize = 8 << 10;

/// Searches a page's text while its bytes come.
pub(super) struct PageText {
    declared: Option<String>,
    scanner: Scanner,
    /// The first bytes, until the charset is known.
    head: Vec<u8>,
    decoder: Option<encoding_rs::Decoder>,
    bytes: u64,
}

impl PageText {
    pub(super) fn new(set: &Arc<PhraseSet>, form: Form, charset: Option<String>) -> Self {
        let scanner = set.scanner(form);
        PageText { declared: charset, scanner, head: Vec::new(), decoder: None, bytes: 0 }
    }

    /// Bytes of the page so far.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.bytes = self.bytes.saturating_add(bytes.len() as u64);
        if self.decoder.is_some() {
            return self.decode(bytes, false);
        }
        self.head.extend_from_slice(bytes);
        if self.head.len() >= HEAD_BYTES {
            self.begin(false);
        }
    }

    /// The score of the whole.
    pub(super) fn finish(mut self, options: &ScoreOptions) -> Score {
        match self.decoder.is_some() {
            true => self.decode(&[], true),
            false => self.begin(true),
        }
        self.scanner.finish(options)
    }

    /// The score of what came so far.
    pub(super) fn so_far(&mut self, options: &ScoreOptions) -> Score {
        if self.decoder.is_none() {
            self.begin(false);
        }
        self.scanner.so_far(options)
    }

    fn begin(&mut self, is_last: bool) {
        let head = std::mem::take(&mut self.head);
        // A byte order mark goes before what is chosen here.
        self.decoder = Some(encoding(&head, self.declared.as_deref(), is_last).new_decoder());
        self.decode(&head, is_last);
    }

    fn decode(&mut self, bytes: &[u8], is_last: bool) {
        let Some(decoder) = &mut self.decoder else { return };
        let mut text = String::new();
        let mut rest = bytes;
        loop {
            let (step, left) = rest.split_at(rest.len().min(STEP_BYTES));
            let is_end = is_last && left.is_empty();
            text.clear();
            // Room for whatever so few bytes become: all of them are decoded.
            text.reserve(decoder.max_utf8_buffer_length(step.len()).unwrap_or(0));
            let _ = decoder.decode_to_string(step, &mut text, is_end);
            self.scanner.push(&text);
            if left.is_empty() {
                return;
            }
            rest = left;
        }
    }
}

/// The charset: of the header, of the page, or by the bytes.
fn encoding(head: &[u8], declared: Option<&str>, is_whole: bool) -> &'static Encoding {
    let by_label = |label: &str| Encoding::for_label(label.as_bytes());
    if let Some(encoding) = declared.and_then(by_label).or_else(|| of_page(head)) {
        return encoding;
    }
    match std::str::from_utf8(head) {
        Ok(_) => UTF_8,
        // A character may be cut where more is to come.
        Err(error) if error.error_len().is_none() && !is_whole => UTF_8,
        Err(_) => WINDOWS_1252,
    }
}

/// `charset=` or `encoding=` within the first bytes: of `<meta>`, or of an XML declaration.
fn of_page(head: &[u8]) -> Option<&'static Encoding> {
    let head = head.get(..HEAD_BYTES).unwrap_or(head).to_ascii_lowercase();
    let value_of = |name: &[u8]| {
        let at = memchr::memmem::find(&head, name)? + name.len();
        let rest = head.get(at..)?.trim_ascii_start().strip_prefix(b"=")?.trim_ascii_start();
        let rest = rest.strip_prefix(b"\"").or_else(|| rest.strip_prefix(b"'")).unwrap_or(rest);
        let is_label = |b: &u8| b.is_ascii_alphanumeric() || b"-_:.".contains(b);
        let end = rest.iter().position(|b| !is_label(b)).unwrap_or(rest.len());
        Encoding::for_label(rest.get(..end)?)
    };
    let found = match head.starts_with(b"<?xml") {
        true => value_of(b"encoding").or_else(|| value_of(b"charset")),
        false => value_of(b"charset"),
    }?;
    // What could be read as ASCII is no UTF-16.
    Some(if found == encoding_rs::UTF_16LE || found == encoding_rs::UTF_16BE {
        UTF_8
    } else {
        found
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use gauntlet_phrases::{Count, Reader, Role};

    fn set() -> Arc<PhraseSet> {
        let fetch = |_: &std::path::Path| Ok("<секс><60>\n<café><70>\n".as_bytes().to_vec());
        let mut reader = Reader::new(&fetch);
        reader.read("list".as_ref(), Role::Banned);
        Arc::new(PhraseSet::compile(&reader.finish()).unwrap())
    }

    fn total(bytes: &[u8], charset: Option<&str>) -> i64 {
        let options = ScoreOptions { limit: 50, count: Count::Once };
        let mut totals: Vec<i64> = [1, 3, 1 << 20]
            .into_iter()
            .map(|step| {
                let mut text = PageText::new(&set(), Form::Html, charset.map(str::to_owned));
                bytes.chunks(step).for_each(|piece| text.push(piece));
                text.finish(&options).total()
            })
            .collect();
        totals.dedup();
        assert_eq!(totals.len(), 1, "cuts make a difference");
        totals[0]
    }

    fn utf16_of(text: &str, bytes: fn(u16) -> [u8; 2]) -> Vec<u8> {
        text.encode_utf16().flat_map(bytes).collect()
    }

    #[test]
    fn charsets_of_header_mark_page_and_bytes() {
        let utf16 = utf16_of("\u{feff}<p>Café", u16::to_le_bytes);
        let long = [&b"<p>caf\xe9"[..], &b"x".repeat(5000)].concat();
        for (bytes, charset, points) in [
            ("<p>СЕКС".as_bytes(), None, 60),
            ("<p>Café".as_bytes(), Some("utf-8"), 70),
            (b"<p>caf\xe9", None, 70),
            (b"<p>caf\xe9", Some("nonsense"), 70),
            (b"\xf1\xe5\xea\xf1", Some("windows-1251"), 60),
            (b"<meta charset = 'windows-1251'>\xf1\xe5\xea\xf1", None, 60),
            (b"<meta content='text/html; charset=koi8-r'>\xd3\xc5\xcb\xd3", None, 60),
            (b"<?xml version='1.0' encoding=\"koi8-r\"?>\xd3\xc5\xcb\xd3", None, 60),
            // The mark goes before the header.
            (&utf16, Some("windows-1252"), 70),
            (&long, None, 70),
            (&utf16_of("<p>Ca<b></b>f<!-- -->é", u16::to_le_bytes), Some("UTF-16LE"), 70),
            (&utf16_of("<p>Ca<b></b>f<i>é", u16::to_be_bytes), Some("utf-16be"), 70),
            (&utf16_of("<p>Ca<b></b>f<i>é", u16::to_le_bytes), Some("utf-16"), 70),
            (b"", None, 0),
        ] {
            assert_eq!(total(bytes, charset), points, "{charset:?} {bytes:?}");
        }
    }
}
