//! The message: headers, parts, and views that are computed when first asked for.

use std::borrow::Cow;
use std::cell::OnceCell;

use crate::address::{self, Mailbox};
use crate::anomalies;
use crate::authors::Authors;
use crate::defect::{Defect, DefectKind};
use crate::evidence::View;
use crate::header::Header;
use crate::limits::Limits;
use crate::network::Network;
use crate::part::{self, Part, PartText};
use crate::relays::{self, Relay, TrustPath};
use crate::tree;
use crate::url::Url;
use crate::url_extraction::named_hosts::{self, NamedHost};
use crate::url_extraction::{self, Collector, bounds, hidden};

/// A message, borrowed from its bytes.
#[derive(Debug)]
pub struct Message<'a> {
    raw: &'a [u8],
    limits: Limits,
    parts: Vec<Part<'a>>,
    /// What reading the tree of parts found.
    tree_defects: Vec<Defect>,
    defects: OnceCell<Vec<Defect>>,
    from: OnceCell<Option<Mailbox>>,
    urls: OnceCell<Collector>,
    hidden_urls: OnceCell<Collector>,
    relays: OnceCell<Vec<Relay>>,
}

impl<'a> Message<'a> {
    /// Reads a message with the default limits. Never fails.
    pub fn parse(raw: &'a [u8]) -> Self {
        Self::parse_with(raw, &Limits::default())
    }

    /// Reads a message within these limits. Never fails: anomalies are [`Message::defects`].
    pub fn parse_with(raw: &'a [u8], limits: &Limits) -> Self {
        let (parts, tree_defects) = tree::read(raw, limits);
        Message {
            raw,
            limits: *limits,
            parts,
            tree_defects,
            defects: OnceCell::new(),
            from: OnceCell::new(),
            urls: OnceCell::new(),
            hidden_urls: OnceCell::new(),
            relays: OnceCell::new(),
        }
    }

    /// The bytes it was read from.
    pub fn raw(&self) -> &'a [u8] {
        self.raw
    }

    /// There is nothing but white space: no header field, no text
    /// ([`crate::DefectKind::EmptyMessage`] is without a single byte).
    pub fn is_blank(&self) -> bool {
        self.raw.trim_ascii().is_empty()
    }

    /// The limits it was read with.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// All parts, a parent before its children, in the order of the message; `[0]` is the root.
    pub fn parts(&self) -> &[Part<'a>] {
        &self.parts
    }

    /// The message's own header fields, in order.
    pub fn headers(&self) -> &[Header<'a>] {
        &self.parts[0].headers
    }

    /// First field of this name.
    pub fn header(&self, name: &str) -> Option<&Header<'a>> {
        self.parts[0].header(name)
    }

    /// All fields of this name, in order.
    pub fn headers_named<'s>(&'s self, name: &'s str) -> impl Iterator<Item = &'s Header<'a>> {
        self.headers().iter().filter(move |h| h.is(name))
    }

    /// The decoded Subject; empty if there is none.
    pub fn subject(&self) -> Cow<'a, str> {
        self.header("subject").map_or(Cow::Borrowed(""), Header::decoded)
    }

    /// The first mailbox of the first From field, read once.
    pub fn from(&self) -> Option<Mailbox> {
        let read = || {
            let field = self.header("from")?;
            address::mailboxes(&field.unfolded(), 1).into_iter().next()
        };
        self.from.get_or_init(read).clone()
    }

    /// Whom all From fields name, in every interpretation of them; at most [`Limits::authors_max`].
    pub fn authors(&self) -> Authors {
        let fields: Vec<_> = self.headers_named("from").map(Header::unfolded).collect();
        let max = usize::from(self.limits.authors_max);
        Authors::read(fields.iter().map(|value| &**value), max)
    }

    /// The text of every `text/*` leaf, in the order of the message.
    pub fn texts(&self) -> impl Iterator<Item = PartText<'_, 'a>> {
        part::texts(&self.parts)
    }

    /// The URLs of the Subject and of all text parts, found once: part by part, in HTML those of
    /// attributes before those of the text. At most [`Limits::urls_max`]: of more the first three
    /// quarters and the last quarter of that many, and [`DefectKind::TooManyUrls`] says so.
    pub fn urls(&self) -> &[Url] {
        &self.collected_urls().urls
    }

    fn collected_urls(&self) -> &Collector {
        self.urls.get_or_init(|| {
            let max = self.limits.urls_max as usize;
            let mut collector = Collector::new(max);
            collector.text(0, View::Header, &self.subject());
            for text in self.texts() {
                match text.part.rendered() {
                    Some(page) => {
                        collector.html(text.index, text.part.text().unwrap_or_default(), page);
                    }
                    None => collector.text(text.index, View::Text, text.text),
                }
            }
            collector.finish();
            collector
        })
    }

    /// Further URLs that a recipient's program may open: nested in other URLs (redirectors), in
    /// conditional comments, in attributes and schemes that [`Message::urls`] does not read, and
    /// those written with invisible characters. One for each host that [`Message::urls`] has
    /// not, in the order of the message; at most [`Limits::urls_max`]. For lookups of hosts.
    pub fn hidden_urls(&self) -> &[Url] {
        &self.collected_hidden_urls().urls
    }

    /// [`Message::urls`], then [`Message::hidden_urls`], each in order.
    pub fn all_urls(&self) -> impl Iterator<Item = &Url> {
        self.urls().iter().chain(self.hidden_urls())
    }

    /// The first word that names a host which `is_listed` knows (given in lower case, in ASCII),
    /// though it may be no link by [`Message::urls`] and [`Message::hidden_urls`]: in the texts, in
    /// fields that mail clients show, in `href` without a scheme. The hosts of mail addresses do
    /// not count. For lookups in lists of the administrator's.
    pub fn named_host(&self, is_listed: impl Fn(&str) -> bool) -> Option<NamedHost> {
        named_hosts::find(self.headers(), &self.parts, is_listed)
    }

    /// Whether some URLs were too many or nested too deep for [`Message::hidden_urls`].
    pub fn has_unread_urls(&self) -> bool {
        self.collected_hidden_urls().full
    }

    fn collected_hidden_urls(&self) -> &Collector {
        self.hidden_urls.get_or_init(|| {
            let max = self.limits.urls_max as usize;
            hidden::collect(&self.subject(), &self.parts, self.urls(), max)
        })
    }

    /// Whether there is more in hidden URLs than is read. Most messages have too few of the
    /// characters that a URL cannot do without, and need no check.
    fn has_too_many_hidden_urls(&self) -> bool {
        let max = self.limits.urls_max as usize;
        let texts = self.parts.iter().filter_map(Part::text);
        hidden::may_be_too_many(texts, max) && self.has_unread_urls()
    }

    /// Whether there are more URLs than are kept. Mostly it is enough to count what a URL cannot do
    /// without, and nothing needs to be rendered for that.
    fn has_too_many_urls(&self) -> bool {
        let max = self.limits.urls_max as usize;
        if self.urls.get().is_none() {
            // A character of the Subject comes from a byte at least.
            let mut at_most = self.header("subject").map_or(0, |field| field.raw_value.len());
            for part in &self.parts {
                at_most += bounds::urls_at_most(part, max.saturating_sub(at_most));
            }
            if at_most <= max {
                return false;
            }
        }
        self.collected_urls().full
    }

    /// The Received fields, newest first, read once. At most [`Limits::relays_max`].
    pub fn relays(&self) -> &[Relay] {
        self.relays.get_or_init(|| {
            let fields = (0u32..).zip(self.headers()).filter(|(_, h)| h.is("received"));
            let relays = fields.map(|(i, h)| Relay { header: i, ..relays::parse(&h.unfolded()) });
            relays.take(usize::from(self.limits.relays_max)).collect()
        })
    }

    /// How far [`Message::relays`] can be believed: see [`relays::trust_path`].
    pub fn trust_path(&self, networks: &[Network]) -> TrustPath {
        relays::trust_path(self.relays(), networks)
    }

    /// The visible text of the link that `url` is the target of; none if it is no link.
    pub fn link_text(&self, url: &Url) -> Option<&str> {
        let page = self.parts.get(usize::from(url.part))?.rendered()?;
        Some(url_extraction::link_text(page, url.link_text.as_ref()?))
    }

    /// Every anomaly, in a fixed order; at most [`Limits::defects_max`]. Found once, when first
    /// asked for, from all views, so that the list does not depend on what was asked before.
    pub fn defects(&self) -> &[Defect] {
        self.defects.get_or_init(|| self.find_defects())
    }

    fn find_defects(&self) -> Vec<Defect> {
        let mut defects = self.tree_defects.clone();
        for (part, index) in self.parts.iter().zip(0u16..) {
            anomalies::of_part(self.raw, part, index, &mut defects);
            part.decoding_defects(index, &mut defects);
        }
        let authors = self.authors();
        anomalies::of_message(self.raw, &self.parts[0], &authors, &self.limits, &mut defects);
        if self.has_too_many_urls() || self.has_too_many_hidden_urls() {
            defects.push(Defect::new(DefectKind::TooManyUrls, 0));
        }
        defects.sort();
        defects.dedup();
        let max = usize::from(self.limits.defects_max);
        if defects.len() > max {
            // Many minor anomalies must not push out those that say that something was not judged.
            defects.sort_by_key(|d| !d.kind.hides_content());
            defects.truncate(max);
            defects.sort();
        }
        defects
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_of_parts() {
        let raw = b"From: a@b\nDate: Sat, 21 Nov 2026 10:00:00 +0000\nMessage-ID: <1@b>\n\
            Content-Type: multipart/mixed; boundary=x\n\n--x\n\nhello\n--x\n\
            Content-Type: text/html; charset=iso-8859-1\nContent-Transfer-Encoding: base64\n\n\
            Y2Fm6Q==\n--x--\n";
        let message = Message::parse(raw);
        assert_eq!(message.parts().len(), 3);
        assert_eq!(message.parts()[1].text(), Some("hello"));
        assert_eq!(message.parts()[2].text(), Some("café"));
        assert_eq!(message.defects(), []);
        assert_eq!(message.from().unwrap().address, "a@b");
    }

    /// A message around `inner`, which is attached in base64.
    fn around(inner: &[u8]) -> Vec<u8> {
        let mut raw =
            b"Content-Type: message/rfc822\nContent-Transfer-Encoding: base64\n\n".to_vec();
        for line in base64_simd::STANDARD.encode_to_string(inner).as_bytes().chunks(76) {
            raw.extend_from_slice(line);
            raw.push(b'\n');
        }
        raw
    }

    #[test]
    fn encoded_attached_messages_are_read() {
        let inner = b"Subject: x\nContent-Type: multipart/mixed; boundary=b\n\n--b\n\nhello\n--b\n\
            Content-Type: text/html; name=a.html\nContent-Transfer-Encoding: quoted-printable\n\n\
            <p>caf=C3=A9</p>\n--b--\n";
        let raw = around(&around(inner));
        let message = Message::parse(&raw);
        let parts = message.parts();
        let kinds: Vec<String> = parts.iter().map(|p| p.content_type.essence()).collect();
        let attached = "message/rfc822";
        assert_eq!(kinds, [attached, attached, "multipart/mixed", "text/plain", "text/html"]);
        let parents: Vec<Option<u16>> = parts.iter().map(|p| p.parent).collect();
        assert_eq!(parents, [None, Some(0), Some(1), Some(2), Some(2)]);
        assert!(parts.iter().skip(1).all(|p| p.within == Some(0)));
        assert_eq!((parts[3].text(), parts[4].shown_text()), (Some("hello"), Some("café")));
        assert_eq!(parts[4].file_name(), Some("a.html"));
        assert!(message.defects().iter().any(|d| d.kind == DefectKind::EncodedMultipart));
    }

    #[test]
    fn what_encoded_messages_may_cost_is_bounded() {
        let mut raw = b"Subject: x\n\nhello".to_vec();
        for _ in 0..12 {
            raw = around(&raw);
        }
        let message = Message::parse(&raw);
        let kinds: Vec<DefectKind> = message.defects().iter().map(|d| d.kind).collect();
        assert!(kinds.contains(&DefectKind::DecodedTooLarge), "{kinds:?}");
        let quoted =
            "Content-Type: message/rfc822\nContent-Transfer-Encoding: quoted-printable\n\n";
        let raw = quoted.repeat(5_000);
        let message = Message::parse(raw.as_bytes());
        assert!(message.parts().len() < 5, "{}", message.parts().len());
        let narrow = Limits { decoded_bytes_max: 100, ..Limits::default() };
        let raw = around(format!("Subject: x\n\n{}", "hello ".repeat(100)).as_bytes());
        assert_eq!(Message::parse_with(&raw, &narrow).parts().len(), 1);
    }

    #[test]
    fn of_too_many_urls_the_first_and_the_last_are_kept() {
        let links: String = (0..99).map(|i| format!("http://h{i}.example/\n")).collect();
        let raw = format!("Subject: x\n\n{links}");
        let limits = Limits { urls_max: 8, ..Limits::default() };
        let message = Message::parse_with(raw.as_bytes(), &limits);
        let hosts: Vec<&str> = message.urls().iter().map(|u| u.canonical.host()).collect();
        let expected =
            ["h0", "h1", "h2", "h3", "h4", "h5", "h97", "h98"].map(|h| h.to_owned() + ".example");
        assert_eq!(hosts, expected);
        assert!(message.defects().iter().any(|d| d.kind == DefectKind::TooManyUrls));
    }

    #[test]
    fn of_a_long_text_both_ends_are_read() {
        let limits = Limits { text_bytes_max: 32, ..Limits::default() };
        for padding in ["x", "é", "中"] {
            let raw = format!("Subject: x\n\nbegin{}the end", padding.repeat(99));
            let message = Message::parse_with(raw.as_bytes(), &limits);
            let text = message.parts()[0].text().unwrap();
            assert!(text.len() <= 32 && text.starts_with("begin") && text.ends_with("the end"));
            assert!(message.defects().iter().any(|d| d.kind == DefectKind::TextTooLarge));
        }
    }

    #[test]
    fn empty_input_is_a_message() {
        let message = Message::parse(b"");
        assert_eq!(message.parts().len(), 1);
        assert_eq!(message.subject(), "");
    }
}
