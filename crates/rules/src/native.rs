//! A mail message as Gauntlet's own rules see it: the views of [`Message`], which is parsed once
//! for all filters.
//!
//! | Texts | What they are |
//! |---|---|
//! | `body` | the Subject, then each paragraph of each text part as a person reads it; see below |
//! | `rawbody` | each text part decoded, HTML as its source |
//! | `uri` | URLs as they were written and as they are looked up |
//! | `full` | the message as it came |
//!
//! In `body` HTML is rendered and a run of white space is one space; behind it stands what cannot
//! be seen, for rules that do not speak for good mail.
//!
//! Evidence refers to the message's own text by part and byte offset, as that of every filter.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::ops::Range;

use gauntlet_mail::address::{Mailbox, mailboxes};
use gauntlet_mail::header::decode_words;
use gauntlet_mail::html::Places;
use gauntlet_mail::{Envelope, Evidence, Header, Message, Part, Url, UrlSource, View};

use crate::document::{CallError, Document, Function, Functions, Texts, UriDetail, name_hash};
use crate::problem::Severity;
use crate::rule::{EvalCall, EvalKind, HeaderSelector};

/// One message as our own rules see it; texts are made when a rule first asks.
pub struct NativeDocument<'m> {
    message: &'m Message<'m>,
    envelope: &'m Envelope,
    /// The names of the fields, by [`name_hash`].
    names: OnceCell<[bool; 256]>,
    /// All fields, decoded and as they came: the search asks, what it deferred, and evidence.
    all_fields: [OnceCell<Vec<u8>>; 2],
    body: OnceCell<Body>,
    /// Where the invisible text of pages stands in their sources, in the order of the texts: asked
    /// for when a rule fires on such text.
    invisible: OnceCell<Vec<(u16, Places)>>,
    sources: OnceCell<Vec<u16>>,
    uris: OnceCell<Vec<UriText>>,
    details: OnceCell<Vec<(Vec<u8>, UriDetail)>>,
}

/// All paragraphs in one buffer, so that one pass searches them all.
#[derive(Debug, Default)]
struct Body {
    bytes: Vec<u8>,
    paragraphs: Vec<Paragraph>,
    /// From this paragraph on the text is hidden.
    hidden_from: usize,
}

#[derive(Debug)]
struct Paragraph {
    /// Its range in [`Body::bytes`].
    range: Range<usize>,
    of: Source,
    /// Its offset in the text that it comes from.
    start: usize,
}

/// The text that a paragraph comes from.
#[derive(Debug, Clone, Copy)]
enum Source {
    Subject,
    /// The visible text of this part.
    Shown(u16),
    /// The piece of the part's invisible text that begins and ends at these bytes of it.
    Hidden(u16, u32, u32),
}

/// A form of a URL.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct UriText {
    text: String,
    /// Index among the message's URLs.
    url: usize,
}

impl<'m> NativeDocument<'m> {
    /// This message with its envelope.
    pub fn new(message: &'m Message<'m>, envelope: &'m Envelope) -> Self {
        NativeDocument {
            message,
            envelope,
            names: OnceCell::new(),
            all_fields: Default::default(),
            body: OnceCell::new(),
            invisible: OnceCell::new(),
            sources: OnceCell::new(),
            uris: OnceCell::new(),
            details: OnceCell::new(),
        }
    }

    fn body(&self) -> &Body {
        self.body.get_or_init(|| {
            let mut body = Body::default();
            body.add(&self.message.subject(), Source::Subject);
            for text in self.message.texts() {
                body.add(text.text, Source::Shown(text.index));
            }
            body.hidden_from = body.paragraphs.len();
            for text in self.message.texts() {
                let Some(page) = text.part.rendered() else { continue };
                for run in &page.hidden {
                    let range = run.range.start as usize..run.range.end as usize;
                    let hidden = page.invisible.get(range).unwrap_or_default();
                    body.add(hidden, Source::Hidden(text.index, run.range.start, run.range.end));
                }
            }
            body
        })
    }

    /// Parts with text, by their indexes.
    fn sources(&self) -> &[u16] {
        self.sources.get_or_init(|| {
            let parts = (0u16..).zip(self.message.parts());
            parts.filter(|(_, part)| part.text().is_some()).map(|(index, _)| index).collect()
        })
    }

    fn source(&self, number: u32) -> Option<(u16, &Part<'m>)> {
        let index = *self.sources().get(number as usize)?;
        Some((index, self.message.parts().get(usize::from(index))?))
    }

    fn uris(&self) -> &[UriText] {
        self.uris.get_or_init(|| {
            let mut forms = Vec::new();
            for (url, found) in self.message.urls().iter().enumerate() {
                for text in [found.raw.as_str(), found.canonical.as_str()] {
                    forms.push(UriText { text: text.to_owned(), url });
                }
            }
            forms.sort();
            forms.dedup_by(|later, first| later.text == first.text);
            forms
        })
    }

    fn url_of(&self, form: &UriText) -> Option<&Url> {
        self.message.urls().get(form.url)
    }

    fn detail(&self, url: &Url) -> UriDetail {
        UriDetail {
            forms: vec![url.canonical.as_str().as_bytes().to_vec()],
            hosts: vec![url.canonical.host().as_bytes().to_vec()],
            is_parsed: url.source == UrlSource::Text,
            elements: if url.source == UrlSource::Href { vec!["a"] } else { Vec::new() },
            anchor_texts: {
                let text = self.message.link_text(url);
                text.map(|text| text.as_bytes().to_vec()).into_iter().collect()
            },
        }
    }

    /// The fields that a name stands for.
    fn fields<'s>(&'s self, name: &'s str) -> impl Iterator<Item = &'s Header<'m>> {
        let names: &[&str] = match name {
            "ToCc" => &["to", "cc"],
            "MESSAGEID" => &["message-id", "resent-message-id", "x-message-id"],
            _ => &[],
        };
        self.message.headers().iter().filter(move |field| match names {
            [] => field.is(name),
            names => names.iter().any(|name| field.is(name)),
        })
    }

    /// `Name: value` of all fields.
    fn all_fields(&self, is_raw: bool) -> &[u8] {
        self.all_fields[usize::from(is_raw)].get_or_init(|| {
            let mut out = Vec::new();
            for field in self.message.headers() {
                out.extend_from_slice(field.name);
                out.extend_from_slice(b":");
                if is_raw {
                    out.extend_from_slice(field.raw_value);
                } else {
                    out.extend_from_slice(b" ");
                    out.extend_from_slice(field.decoded().as_bytes());
                }
                out.extend_from_slice(b"\n");
            }
            out
        })
    }
}

impl std::fmt::Debug for NativeDocument<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NativeDocument").finish_non_exhaustive()
    }
}

impl Body {
    /// Adds the paragraphs of a text, which are separated by blank lines.
    fn add(&mut self, text: &str, of: Source) {
        // At most the length of the text and a line end: of two paragraphs two others are left out.
        // Written in place, since asking for room at each byte costs more than the byte.
        let mut end = self.bytes.len();
        self.bytes.resize(end + text.len() + 1, b'\n');
        let mut walk = Walk::new(text, 0);
        while let Some(start) = walk.next_paragraph() {
            let from = end;
            walk.paragraph(|byte, _| {
                if let Some(place) = self.bytes.get_mut(end) {
                    *place = byte;
                }
                end += 1;
            });
            // The line end is there.
            end += 1;
            self.paragraphs.push(Paragraph { range: from..end, of, start });
        }
        debug_assert!(end <= self.bytes.len(), "a text grows by one line end");
        self.bytes.truncate(end);
    }

    fn text(&self, number: u32) -> Option<&[u8]> {
        self.bytes.get(self.paragraphs.get(number as usize)?.range.clone())
    }
}

/// Reads a text paragraph by paragraph, with white space as single spaces.
struct Walk<'t> {
    bytes: &'t [u8],
    at: usize,
}

/// Length of the white space character that begins here: ASCII's, and the no-break space of UTF-8.
fn white_space(bytes: &[u8]) -> usize {
    match bytes {
        [b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c, ..] => 1,
        [0xc2, 0xa0, ..] => 2,
        _ => 0,
    }
}

impl<'t> Walk<'t> {
    fn new(text: &'t str, at: usize) -> Self {
        Walk { bytes: text.as_bytes(), at }
    }

    /// Advances to the next paragraph and returns its offset.
    fn next_paragraph(&mut self) -> Option<usize> {
        loop {
            let rest = self.bytes.get(self.at..)?;
            if rest.is_empty() {
                return None;
            }
            match white_space(rest) {
                0 => return Some(self.at),
                length => self.at += length,
            }
        }
    }

    /// Calls `put` with each byte of the paragraph that begins here and its offset.
    fn paragraph(&mut self, mut each: impl FnMut(u8, usize)) {
        while let Some(&byte) = self.bytes.get(self.at) {
            let may_be_space = byte <= b' ' || byte == 0xc2;
            if !may_be_space || self.bytes.get(self.at..).map_or(0, white_space) == 0 {
                each(byte, self.at);
                self.at += 1;
                continue;
            }
            let (start, mut lines) = (self.at, 0);
            while let Some(length) =
                self.bytes.get(self.at..).map(white_space).filter(|length| *length > 0)
            {
                lines += u32::from(self.bytes.get(self.at) == Some(&b'\n'));
                self.at += length;
            }
            if lines > 1 || self.at == self.bytes.len() {
                return;
            }
            each(b' ', start);
        }
    }
}

/// The part of a value that a modifier selects.
fn extract(mailbox: &Mailbox, modifier: &str) -> String {
    match modifier {
        "name" => mailbox.name.clone(),
        "host" | "domain" => mailbox.domain().to_owned(),
        _ => mailbox.address.clone(),
    }
}

impl Document for NativeDocument<'_> {
    fn header(&self, selector: &HeaderSelector) -> Option<Cow<'_, [u8]>> {
        let is_raw = selector.has("raw");
        match selector.name.as_str() {
            "ALL" => return Some(Cow::Borrowed(self.all_fields(is_raw))),
            "EnvelopeFrom" => {
                let sender = self.envelope.mail_from.as_str();
                let domain = || sender.rsplit_once('@').map_or("", |(_, domain)| domain);
                let is_host = selector.has("host") || selector.has("domain");
                return Some(Cow::Borrowed(if is_host { domain() } else { sender }.as_bytes()));
            }
            _ => {}
        }
        let of_addresses = ["addr", "name", "host", "domain"];
        let wanted = selector.modifiers.iter().rev().find(|m| of_addresses.contains(&m.as_str()));
        let mut out: Option<Vec<u8>> = None;
        for field in self.fields(&selector.name) {
            let value = match (wanted, is_raw) {
                (Some(wanted), _) => {
                    let found = match selector.name.as_str() {
                        "from" => self.message.from(),
                        _ => mailboxes(&field.unfolded(), 1).into_iter().next(),
                    };
                    Cow::Owned(extract(&found?, wanted).into_bytes())
                }
                (None, true) => Cow::Borrowed(field.raw_value),
                (None, false) => match field.decoded() {
                    Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
                    Cow::Owned(text) => Cow::Owned(text.into_bytes()),
                },
            };
            let out = out.get_or_insert_default();
            out.extend_from_slice(&value);
            if wanted.is_some() {
                break;
            }
            out.push(b'\n');
        }
        out.map(Cow::Owned)
    }

    fn may_have_field(&self, hash: u8) -> bool {
        let names = self.names.get_or_init(|| {
            let mut names = [false; 256];
            for field in self.message.headers() {
                names[usize::from(name_hash(field.name))] = true;
            }
            names
        });
        names[usize::from(hash)]
    }

    fn mime_headers(&self, selector: &HeaderSelector) -> Vec<Option<Cow<'_, [u8]>>> {
        let value = |part: &Part<'_>| {
            let field = part.header(&selector.name)?;
            Some(Cow::Owned(match selector.has("raw") {
                true => field.raw_value.to_vec(),
                false => decode_words(&field.unfolded()).0.into_owned().into_bytes(),
            }))
        };
        self.message.parts().iter().map(value).collect()
    }

    fn text(&self, texts: Texts, number: u32) -> Option<&[u8]> {
        match texts {
            Texts::Body | Texts::UneditedBody => self.body().text(number),
            Texts::Rawbody => self.source(number)?.1.text().map(str::as_bytes),
            Texts::Uris => self.uris().get(number as usize).map(|form| form.text.as_bytes()),
            Texts::Full => (number == 0).then(|| self.message.raw()),
        }
    }

    fn hidden_from(&self) -> u32 {
        u32::try_from(self.body().hidden_from).unwrap_or(u32::MAX)
    }

    fn uri_details(&self) -> Box<dyn Iterator<Item = (&[u8], &UriDetail)> + '_> {
        let details = self.details.get_or_init(|| {
            let urls = self.message.urls().iter();
            urls.map(|url| (url.raw.as_bytes().to_vec(), self.detail(url))).collect()
        });
        Box::new(details.iter().map(|(raw, detail)| (raw.as_slice(), detail)))
    }

    fn registered_domain(&self, host: &[u8]) -> Vec<u8> {
        let host = String::from_utf8_lossy(host);
        let url = gauntlet_mail::url::canonical(&format!("http://{host}/"));
        url.map_or_else(Vec::new, |url| url.registrable_domain().as_bytes().to_vec())
    }

    fn call(&self, _function: u32) -> u32 {
        0
    }

    fn call_evidence(&self, _function: u32) -> Evidence {
        Evidence::new(View::Feature, 0, 0, b"")
    }

    fn tag(&self, _name: &str) -> Option<Vec<Vec<u8>>> {
        None
    }

    fn evidence(&self, texts: Texts, number: u32, start: usize, found: &[u8]) -> Evidence {
        let nothing = || Evidence::new(View::Raw, 0, start, found);
        match texts {
            Texts::Body | Texts::UneditedBody => {
                let paragraph = self.body().paragraphs.get(number as usize);
                paragraph.map_or_else(nothing, |p| self.evidence_of(p, start, found))
            }
            Texts::Rawbody => self.source(number).map_or_else(nothing, |(index, part)| {
                let is_page = part.rendered().is_some();
                let view = if is_page { View::Html } else { View::Text };
                Evidence::new(view, index, start, found)
            }),
            Texts::Uris => {
                let form = self.uris().get(number as usize);
                let url = form.and_then(|form| self.url_of(form));
                url.map_or_else(nothing, |url| {
                    let whole = form.map_or(found, |form| form.text.as_bytes());
                    let mut at = Evidence::new(View::Url, url.part, url.offset as usize, whole);
                    at.length = url.length;
                    at
                })
            }
            Texts::Full => nothing(),
        }
    }
}

impl NativeDocument<'_> {
    /// The range of a match in the text that its paragraph comes from.
    fn evidence_of(&self, paragraph: &Paragraph, start: usize, found: &[u8]) -> Evidence {
        let subject;
        let (view, index, text): (View, u16, &str) = match paragraph.of {
            Source::Subject => {
                subject = self.message.subject();
                (View::Header, 0, &subject)
            }
            Source::Shown(index) => {
                let part = self.message.parts().get(usize::from(index));
                (View::Text, index, part.and_then(Part::shown_text).unwrap_or_default())
            }
            Source::Hidden(index, start, end) => {
                let page = self.message.parts().get(usize::from(index)).and_then(Part::rendered);
                let text = page.and_then(|page| page.invisible.get(start as usize..end as usize));
                (View::Html, index, text.unwrap_or_default())
            }
        };
        // The first and the last byte that were matched: the line end is not in the text.
        let (mut number, mut first, mut last) = (0, None, None);
        Walk::new(text, paragraph.start).paragraph(|_, at| {
            if number < start + found.len() {
                last = Some(at);
            }
            if number == start {
                first = Some(at);
            }
            number += 1;
        });
        let first = first.unwrap_or(text.len());
        let end = last.map_or(first, |last| last + 1);
        let matched = text.as_bytes().get(first..end.max(first)).unwrap_or_default();
        match paragraph.of {
            Source::Subject => Evidence::new(view, index, first, matched).named("subject"),
            Source::Shown(_) => Evidence::new(view, index, first, matched),
            Source::Hidden(_, piece, _) => {
                let place = |at: usize| self.hidden_place(index, piece as usize + at);
                let from = place(first);
                let mut evidence = Evidence::new(view, index, from, matched);
                // The source has tags and references between and for the words.
                let to = end.checked_sub(1).map_or(from, |last| place(last) + 1);
                evidence.length = u32::try_from(to.saturating_sub(from)).unwrap_or(u32::MAX);
                evidence
            }
        }
    }

    /// Where in a page's source this byte of its invisible text stands.
    fn hidden_place(&self, index: u16, at: usize) -> usize {
        let places = self.invisible.get_or_init(|| {
            let pages = self.message.texts().map(|text| (text.index, text.part));
            pages.filter_map(|(index, part)| Some((index, part.invisible_places()?))).collect()
        });
        let page = places.iter().find(|(of, _)| *of == index);
        page.map_or(0, |(_, places)| places.source_offset(at))
    }
}

/// Gauntlet's own rules have no functions.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoFunctions;

impl Functions for NoFunctions {
    fn add_call(&mut self, call: &EvalCall, _: EvalKind) -> Result<Function, CallError> {
        let message = format!("never fires: {} is a function of SpamAssassin's", call.function);
        Err(CallError { severity: Severity::Note, message })
    }

    fn add_query(
        &mut self,
        _: &str,
        query: &str,
        _: Option<&str>,
        _: bool,
    ) -> Result<Option<Function>, CallError> {
        let message = format!("never fires: {query} is asked for by SpamAssassin's rules only");
        Err(CallError { severity: Severity::Note, message })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::LoadOptions;
    use crate::ruleset::{RulesScratch, Ruleset};

    fn hits(rules: &str, raw: &str) -> Vec<(String, Vec<Evidence>)> {
        let options = LoadOptions { strict: true, ..LoadOptions::default() };
        let (ruleset, _) =
            Ruleset::from_bytes(rules.as_bytes(), &options, &mut NoFunctions).expect("good rules");
        let (message, envelope) = (Message::parse(raw.as_bytes()), Envelope::default());
        let document = NativeDocument::new(&message, &envelope);
        let outcome = ruleset.scan(&document, &mut RulesScratch::default());
        outcome.hits.into_iter().map(|hit| (hit.rule.to_string(), hit.evidence)).collect()
    }

    #[test]
    fn evidence_stands_in_the_message_s_own_text() {
        let rules = "body A /free\\s+money/i\nbody B /behind it/\nheader C Subject =~ /Hi/\n\
            body D /^Hi you$/m\nrawbody E /<p>/\nuri F /example\\.com/\nbody G /there\\n/\n";
        let raw = "Subject: Hi  you\nContent-Type: text/html\n\n\
            <p>Get  free\n  money,\n what stands <b>behind</b> it</p>\n<p>or there</p> \
            <a href='http://www.Example.com/x'>x</a>\n";
        let found = hits(rules, raw);
        let names: Vec<&str> = found.iter().map(|(rule, _)| rule.as_str()).collect();
        assert_eq!(names, ["A", "B", "C", "D", "E", "F", "G"], "{found:?}");
        let message = Message::parse(raw.as_bytes());
        for (rule, evidence) in &found {
            let at = &evidence[0];
            let part = &message.parts()[usize::from(at.part)];
            let text = match at.view {
                View::Text => part.shown_text().unwrap().to_owned(),
                View::Html => part.text().unwrap().to_owned(),
                View::Header => message.subject().into_owned(),
                _ => continue,
            };
            let range = at.offset as usize..(at.offset + at.length) as usize;
            assert_eq!(text.get(range), Some(at.text.as_str()), "{rule}");
        }
    }

    #[test]
    fn each_hit_in_hidden_text_has_its_own_place() {
        let rules = "body A /verify your/\nbody B /password/\nbody C /e-mail address/\n\
            score A 1\nscore B 1\nscore C 1\n";
        let page = "<p>Seen, and &amp; plain.</p>\n<div style=\"display:none\">Some words; please \
            verify   your\n <b>e-mail</b> address. And <i>your password</i></div>\
            <noframes>password</noframes>\n";
        let raw = format!("Subject: x\nContent-Type: text/html\n\n{page}");
        let found = hits(rules, &raw);
        let place = |rule: &str| {
            let evidence = &found.iter().find(|(name, _)| name == rule).unwrap().1[0];
            assert_eq!((evidence.view, evidence.part), (View::Html, 0));
            let from = evidence.offset as usize;
            (evidence.text.clone(), page[from..from + evidence.length as usize].to_owned())
        };
        let same = |text: &str| (text.to_owned(), text.to_owned());
        assert_eq!(place("A"), ("verify your".to_owned(), "verify   your".to_owned()));
        assert_eq!(place("B"), same("password"));
        assert_eq!(place("C"), ("e-mail address".to_owned(), "e-mail</b> address".to_owned()));
        let at = |rule: &str| found.iter().find(|(name, _)| name == rule).unwrap().1[0].offset;
        assert_eq!(at("B") as usize, page.find("password").unwrap());
    }

    #[test]
    fn paragraphs_are_parted_by_blank_lines() {
        let raw = "Subject: s\n\none\ntwo \u{a0} three\n \t\nfour\n\n\n\n five \n";
        let (message, envelope) = (Message::parse(raw.as_bytes()), Envelope::default());
        let document = NativeDocument::new(&message, &envelope);
        let document: &dyn Document = &document;
        let texts: Vec<&[u8]> = document.texts(Texts::Body).collect();
        assert_eq!(texts, [&b"s\n"[..], b"one two three\n", b"four\n", b"five\n"]);
    }

    #[test]
    fn headers_by_selector() {
        let raw = "From: Ann <ann@A.example>\nTo: b@b.example\nCc: c@c.example\nX: =?utf-8?q?=C3=A9?=\n\
            X: two\n\nx\n";
        let (message, envelope) = (Message::parse(raw.as_bytes()), Envelope::default());
        let document = NativeDocument::new(&message, &envelope);
        let value = |text: &str| {
            let value = document.header(&HeaderSelector::parse(text))?;
            Some(String::from_utf8_lossy(&value).into_owned())
        };
        assert_eq!(value("From:addr").as_deref(), Some("ann@A.example"));
        assert_eq!(value("From:name").as_deref(), Some("Ann"));
        assert_eq!(value("From:addr:domain").as_deref(), Some("A.example"));
        assert_eq!(value("X").as_deref(), Some("\u{e9}\ntwo\n"));
        assert_eq!(value("ToCc").as_deref(), Some("b@b.example\nc@c.example\n"));
        assert_eq!(value("Y"), None);
        assert!(document.may_have_field(name_hash(b"x")));
    }
}
