//! The views of a message that rules match, rendered as SpamAssassin 4.0.1 renders them.
//!
//! ```text
//! message -> mime (tree of parts) -> header, mime_headers    header_text, address, relays
//!                                 -> rendered -> body        charset, html
//!                                 -> rawbody                 encoding
//! ```
//!
//! Every view is computed when first needed, once a message.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::sync::Arc;

use gauntlet_mail::{Envelope, Facts, Message};

use crate::boundaries::Boundaries;
use gauntlet_rules::pattern::Pattern;
use gauntlet_rules::rule::HeaderSelector;
use gauntlet_rules::settings::Settings;

mod address;
mod body;
mod charset;
mod content_type;
mod encoding;
pub(crate) mod header;
mod header_text;
mod html;
pub mod mime;
mod perl;
mod relays;
mod uri;

pub use self::body::Rendered;
pub use self::html::{HtmlState, HtmlUri};
pub use self::mime::{MimeTree, Node};
pub use self::perl::Text;
pub(crate) use self::perl::{count, find, find_no_case, lines as perl_lines};
pub use self::relays::{Networks, Relay, Relays, TrustSettings};
pub(crate) use self::relays::{addresses_in, is_private, reversed_ip};
pub use self::uri::Uris;
use self::uri::{Redirector, Redirectors};

/// The settings that views depend on.
#[derive(Debug)]
pub struct ViewSettings {
    boundaries: Boundaries,
    trust: TrustSettings,
    redirectors: Redirectors,
    /// Characters of a part that `body` shows; 0 is no bound.
    body_part_chars_max: usize,
    /// Bytes of a part that `rawbody` shows; 0 is no bound.
    rawbody_part_bytes_max: usize,
    /// The domains of DKIM fields count as URIs.
    has_signer_uris: bool,
}

impl Default for ViewSettings {
    fn default() -> Self {
        Self::from_settings(&Settings::default())
    }
}

impl ViewSettings {
    /// Reads them from the files' settings.
    pub fn from_settings(settings: &Settings) -> Self {
        ViewSettings {
            boundaries: Boundaries::from_settings(settings),
            trust: TrustSettings::from_settings(settings),
            redirectors: redirectors(settings),
            body_part_chars_max: settings.number("body_part_scan_size", 50_000.0) as usize,
            rawbody_part_bytes_max: settings.number("rawbody_part_scan_size", 500_000.0) as usize,
            has_signer_uris: settings.number("parse_dkim_uris", 1.0) != 0.0,
        }
    }

    /// The trusted and internal networks.
    pub(crate) fn trust(&self) -> &TrustSettings {
        &self.trust
    }
}

/// The `redirector_pattern` lines; those that do not compile are left out.
fn redirectors(settings: &Settings) -> Redirectors {
    let patterns = settings.all("redirector_pattern").iter().filter_map(|line| {
        let text = line.value.trim();
        let (open, rest) =
            match text.strip_prefix("m").filter(|r| !r.starts_with(char::is_alphanumeric)) {
                Some(rest) => (rest.chars().next()?, &rest[rest.chars().next()?.len_utf8()..]),
                None => (text.chars().next()?, &text[text.chars().next()?.len_utf8()..]),
            };
        let close = match open {
            '{' => '}',
            '(' => ')',
            '<' => '>',
            '[' => ']',
            other => other,
        };
        let (pattern, flags) = rest.rsplit_once(close)?;
        let flags: String = flags.chars().filter(|c| "imsx".contains(*c)).collect();
        let text =
            if flags.is_empty() { pattern.to_owned() } else { format!("(?{flags}){pattern}") };
        Pattern::new(&text).ok().map(Redirector::new)
    });
    Redirectors::new(patterns.collect())
}

/// One URI as `uri` rules see it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Uri {
    /// The form that rules match.
    pub text: Vec<u8>,
}

/// All views of one message, computed when first asked for.
#[derive(Debug)]
pub struct Views<'m> {
    message: &'m Message<'m>,
    envelope: &'m Envelope,
    facts: &'m Facts,
    settings: &'m ViewSettings,
    mime: OnceCell<MimeTree<'m>>,
    rendered: OnceCell<Arc<Vec<Option<Rendered>>>>,
    body: OnceCell<Arc<Vec<Vec<u8>>>>,
    edited_body: OnceCell<Vec<Vec<u8>>>,
    rawbody: OnceCell<Vec<Vec<u8>>>,
    uris: OnceCell<Arc<Uris>>,
    uri_forms: OnceCell<Vec<Uri>>,
    relays: OnceCell<Relays>,
    envelope_from: OnceCell<Option<Vec<u8>>>,
    all_fields: OnceCell<Vec<u8>>,
    raw_fields: OnceCell<Vec<u8>>,
    received: OnceCell<Vec<u8>>,
    names: OnceCell<header::Names>,
    addresses: address::Kept,
}

/// Views of a message's text, kept from one scan of it for the next: its rendered parts, the body
/// view, its URIs. They depend on the body, on the subject and on fields of signatures; other
/// fields may have been added or removed in the meantime.
#[derive(Debug, Default)]
pub struct TextViews {
    rendered: OnceCell<Arc<Vec<Option<Rendered>>>>,
    body: OnceCell<Arc<Vec<Vec<u8>>>>,
    uris: OnceCell<Arc<Uris>>,
    /// Length of the body that they were made of, in bytes.
    body_bytes: usize,
}

impl TextViews {
    /// Approximate memory, in bytes.
    pub fn bytes(&self) -> usize {
        let rendered = self.rendered.get().into_iter().flat_map(|all| all.iter()).flatten();
        let shown: usize = rendered.map(|part| part.text().chars.len()).sum();
        let lines = self.body.get().into_iter().flat_map(|all| all.iter());
        let lines: usize = lines.map(Vec::len).sum();
        shown + lines
    }
}

impl<'m> Views<'m> {
    /// The same with text views that were computed before; they are ignored if they are of another
    /// body.
    pub(crate) fn with_text(self, text: TextViews) -> Self {
        if text.body_bytes != self.body_bytes() {
            return self;
        }
        let TextViews { rendered, body, uris, body_bytes: _ } = text;
        Views { rendered, body, uris, ..self }
    }

    /// The text views that were computed so far.
    pub(crate) fn text(&self) -> TextViews {
        TextViews {
            rendered: self.rendered.clone(),
            body: self.body.clone(),
            uris: self.uris.clone(),
            body_bytes: self.body_bytes(),
        }
    }

    fn body_bytes(&self) -> usize {
        self.message.raw().len().saturating_sub(self.mime().body_start)
    }

    /// Views of this message.
    pub fn new(
        message: &'m Message<'m>,
        envelope: &'m Envelope,
        facts: &'m Facts,
        settings: &'m ViewSettings,
    ) -> Self {
        Views {
            message,
            envelope,
            facts,
            settings,
            mime: OnceCell::new(),
            rendered: OnceCell::new(),
            body: OnceCell::new(),
            edited_body: OnceCell::new(),
            rawbody: OnceCell::new(),
            uris: OnceCell::new(),
            uri_forms: OnceCell::new(),
            relays: OnceCell::new(),
            envelope_from: OnceCell::new(),
            all_fields: OnceCell::new(),
            raw_fields: OnceCell::new(),
            received: OnceCell::new(),
            names: OnceCell::new(),
            addresses: address::Kept::default(),
        }
    }

    /// The message that all views are made of.
    pub fn message(&self) -> &'m Message<'m> {
        self.message
    }

    /// The MIME tree as SpamAssassin parses it.
    pub fn mime(&self) -> &MimeTree<'m> {
        self.mime.get_or_init(|| MimeTree::parse(self.message.raw()))
    }

    /// What the connection said: client, HELO, sender, recipients.
    pub fn envelope(&self) -> &'m Envelope {
        self.envelope
    }

    /// The facts from the network.
    pub fn facts(&self) -> &'m Facts {
        self.facts
    }

    /// The settings that views depend on.
    pub fn settings(&self) -> &'m ViewSettings {
        self.settings
    }

    /// Where registries end and registered domains begin.
    pub fn boundaries(&self) -> &'m Boundaries {
        &self.settings.boundaries
    }

    /// The relays of the message.
    pub fn relays(&self) -> &Relays {
        self.relays.get_or_init(|| Relays::read(self.mime(), &self.settings.trust))
    }

    /// Every rendered part, by its index in the tree; `None` if it is not shown as text.
    pub fn rendered(&self) -> &[Option<Rendered>] {
        let render = || Arc::new(self.mime().nodes.iter().map(body::render).collect());
        self.rendered.get_or_init(render)
    }

    /// The strings that `body` rules match, the subject first.
    pub fn body(&self) -> &[Vec<u8>] {
        self.edited_body.get().map_or_else(|| self.unedited_body(), Vec::as_slice)
    }

    /// Replaces some strings of the body view, for rules that run from now on.
    pub(crate) fn edit_body(&self, edits: Vec<(usize, Vec<u8>)>) {
        if edits.is_empty() || self.edited_body.get().is_some() {
            return;
        }
        // URIs come from the unedited body, so they are found first.
        self.uri_details();
        let mut body = self.unedited_body().to_vec();
        for (number, text) in edits {
            if let Some(old) = body.get_mut(number) {
                *old = text;
            }
        }
        let _ = self.edited_body.set(body);
    }

    /// Whether [`Views::edit_body`] changed the body.
    pub(crate) fn has_edited_body(&self) -> bool {
        self.edited_body.get().is_some()
    }

    /// The body's strings before any edit.
    pub(crate) fn unedited_body(&self) -> &[Vec<u8>] {
        self.body.get_or_init(|| {
            let tree = self.mime();
            let rendered = self.rendered();
            let leaves = tree.in_order().into_iter().filter(|&i| tree.nodes[i].is_leaf);
            let parts = leaves.map(|i| rendered.get(i).and_then(Option::as_ref));
            Arc::new(body::body(tree, parts, self.settings.body_part_chars_max))
        })
    }

    /// The strings that `rawbody` rules match.
    pub fn rawbody(&self) -> &[Vec<u8>] {
        let max = self.settings.rawbody_part_bytes_max;
        self.rawbody.get_or_init(|| body::rawbody(self.mime(), max))
    }

    /// The text that `full` rules match: the raw message without an mbox line.
    pub fn full(&self) -> &[u8] {
        self.mime().full()
    }

    /// The URIs that `uri` rules match, sorted by `text`, without duplicates.
    pub fn uris(&self) -> &[Uri] {
        self.uri_forms.get_or_init(|| self.uri_details().forms())
    }

    /// All URIs with their details.
    pub fn uri_details(&self) -> &Uris {
        self.uris.get_or_init(|| {
            let parts = self.rendered().iter().flatten();
            let mut signatures = Vec::new();
            if self.settings.has_signer_uris {
                for name in ["DomainKey-Signature", "DKIM-Signature"] {
                    signatures.extend(self.header_values(&HeaderSelector::parse(name)));
                }
            }
            let redirectors = &self.settings.redirectors;
            let boundaries = self.boundaries();
            Arc::new(Uris::find(self.body(), parts, &signatures, boundaries, redirectors))
        })
    }

    /// The values that a selector names, one by one: fields, or the extracts of its modifiers.
    pub fn header_values(&self, selector: &HeaderSelector) -> Vec<Cow<'_, [u8]>> {
        header::values(self, selector)
    }

    /// The same for a selector as it is written.
    pub(crate) fn values_of(&self, selector: &str) -> Vec<Cow<'_, [u8]>> {
        let (name, wanted) = header::Wanted::parse(selector);
        self.selected(name, wanted)
    }

    /// The same for a parsed selector.
    pub(crate) fn selected(&self, name: &str, wanted: header::Wanted) -> Vec<Cow<'_, [u8]>> {
        header::values_of(self, name, wanted)
    }

    /// A header value as `header` rules see it; `None` is Perl's undef (no such field).
    pub fn header(&self, selector: &HeaderSelector) -> Option<Cow<'_, [u8]>> {
        if selector.name == "ALL" {
            let all = if selector.has("raw") { self.raw_fields() } else { self.all_fields() };
            return Some(Cow::Borrowed(all)).filter(|all| !all.is_empty());
        }
        if !selector.has("raw")
            && let Some(lines) = header::relay_lines(self, &selector.name)
        {
            return Some(Cow::Borrowed(lines)).filter(|lines| !lines.is_empty());
        }
        if selector.modifiers.is_empty() {
            if gauntlet_rules::document::is_field_name(&selector.name) {
                return self.lines(&selector.name);
            }
            if let Some(relays) = header::relays_text(self, &selector.name) {
                return Some(Cow::Borrowed(relays));
            }
        }
        let mut values = self.header_values(selector);
        match values.len() {
            0 => None,
            1 => values.pop(),
            _ if values.first().is_some_and(|v| v.ends_with(b"\n")) => {
                Some(Cow::Owned(values.concat()))
            }
            _ => Some(Cow::Owned(values.join(&b"\n"[..]))),
        }
    }

    /// The decoded values of a field in one text; `None` if there is no such field.
    pub(crate) fn lines(&self, name: &str) -> Option<Cow<'_, [u8]>> {
        let mut fields = self.fields(name).map(mime::Field::line);
        let first = fields.next()?;
        let Some(second) = fields.next() else { return Some(Cow::Borrowed(first)) };
        let all = || [first, second].into_iter().chain(fields).collect::<Vec<_>>().concat();
        // Nearly all messages have several of these, and many rules match them: cached.
        if name.eq_ignore_ascii_case("received") {
            return Some(Cow::Borrowed(self.received.get_or_init(all)));
        }
        Some(Cow::Owned(all()))
    }

    fn names(&self) -> &header::Names {
        self.names.get_or_init(|| header::Names::of(&self.mime().root().fields))
    }

    /// Whether the message may have a field whose name has this hash
    /// ([`gauntlet_rules::document::name_hash`]).
    pub(crate) fn may_have_field(&self, hash: u8) -> bool {
        self.names().may_have(hash)
    }

    /// The message's fields of a name, in order.
    fn fields<'v>(&'v self, name: &str) -> impl DoubleEndedIterator<Item = &'v mime::Field<'m>> {
        let all = &self.mime().root().fields;
        let places = self.names().places(gauntlet_rules::document::name_hash(name.as_bytes()));
        places.filter_map(|at| all.get(at)).filter(move |field| field.is(name))
    }

    /// `Name: value` of every field, decoded, in one text: what `ALL` selects.
    pub(crate) fn all_fields(&self) -> &[u8] {
        self.all_fields.get_or_init(|| header::all_fields_text(self.mime().root()))
    }

    /// The raw fields in one text: what `ALL:raw` selects.
    pub(crate) fn raw_fields(&self) -> &[u8] {
        self.raw_fields.get_or_init(|| header::raw_fields_text(self.mime().pristine_header()))
    }

    /// The value of a field in each part, the root first; `None` if a part lacks it.
    pub fn mime_headers(&self, selector: &HeaderSelector) -> Vec<Option<Cow<'_, [u8]>>> {
        let is_raw = selector.has("raw");
        let tree = self.mime();
        let parts = tree.in_order().into_iter().map(|i| &tree.nodes[i]);
        parts.map(|node| mime_header(node, selector, is_raw)).collect()
    }

    /// The envelope sender as SpamAssassin finds it: in the header that is configured for it, else
    /// in the newest untrusted relay's Received field, else in a header that the receiving server
    /// adds.
    pub fn envelope_from(&self) -> Option<&[u8]> {
        self.envelope_from.get_or_init(|| self.find_envelope_from()).as_deref()
    }

    fn find_envelope_from(&self) -> Option<Vec<u8>> {
        let first = |name: &str| {
            let values = header::values_of(self, name, header::Wanted::FIRST_ADDRESS);
            values.into_iter().next().map(Cow::into_owned)
        };
        let is_sender =
            |text: &Vec<u8>| text.is_empty() || memchr::memchr(b'@', text).is_some_and(|at| at > 0);
        if let Some(name) = &self.settings.trust.envelope_sender_header {
            let value = self.values_of(&format!("{name}:first:addr")).into_iter().next();
            return value.map(Cow::into_owned).filter(is_sender);
        }
        let relays = self.relays();
        let hop = relays.untrusted().first().or(relays.trusted().last());
        if let Some(sender) = hop.and_then(|hop| hop.envfrom.clone()).filter(is_sender) {
            return Some(sender);
        }
        let fields = &self.mime().root().fields;
        let has_sender = first("X-Sender").is_some_and(|s| s.contains(&b'@'));
        let is_fetchmail = |value: &[u8]| memchr::memmem::find(value, b"(fetchmail").is_some();
        if has_sender && self.fields("Received").any(|f| is_fetchmail(f.value())) {
            return None;
        }
        // A field below a Received field was there before the message was received.
        let is_below = |name: &str| {
            let received = fields.iter().position(|f| f.is("Received"));
            let last = fields.iter().rposition(|f| f.is(name));
            received.zip(last).is_some_and(|(received, last)| received < last)
        };
        if let Some(sender) = first("X-Envelope-From") {
            return (!is_below("X-Envelope-From")).then_some(sender);
        }
        ["Envelope-Sender", "Return-Path"]
            .iter()
            .find_map(|name| first(name).filter(|_| !is_below(name)))
    }

    /// Values that SpamAssassin keeps under header names that no message has: the domains of the
    /// envelope sender and of the From address.
    fn metadata(&self, name: &str) -> Option<Vec<u8>> {
        let hosts = |selector: &str| {
            let mut hosts: Vec<Vec<u8>> = Vec::new();
            for host in self.header_values(&HeaderSelector::parse(selector)) {
                let host = host.to_ascii_lowercase();
                if !hosts.contains(&host) {
                    hosts.push(host);
                }
            }
            (!hosts.is_empty()).then(|| hosts.join(&b' '))
        };
        match name.to_ascii_lowercase().as_str() {
            "x-senderdomain" => hosts("EnvelopeFrom:first:addr:host"),
            "x-authordomain" => hosts("From:addr:host"),
            _ => None,
        }
    }
}

/// The last value of a field in a part.
fn mime_header<'v>(
    node: &'v Node<'_>,
    selector: &HeaderSelector,
    is_raw: bool,
) -> Option<Cow<'v, [u8]>> {
    if selector.name == "ALL" {
        return Some(Cow::Owned(header::fields_text(node, is_raw).concat()));
    }
    let field = node.fields.iter().rev().find(|f| f.is(&selector.name))?;
    Some(Cow::Borrowed(if is_raw { field.raw() } else { field.line() }))
}
