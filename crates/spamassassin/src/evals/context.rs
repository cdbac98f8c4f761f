//! The context of eval functions: one message.

use std::borrow::Cow;
use std::cell::OnceCell;

use gauntlet_mail::Facts;

use super::memo::{HEADER_LISTS, HeaderMemo, Memo};
use super::tables::EvalTables;
use crate::boundaries::Boundaries;
use crate::views::{HtmlState, MimeTree, Rendered, Views, header};
use gauntlet_rules::Profile;

/// What an eval function can see: one message.
#[derive(Debug)]
pub struct EvalContext<'a> {
    /// What rules see of the message.
    pub views: &'a Views<'a>,
    /// Lists and settings of the rule files.
    pub tables: &'a EvalTables,
    /// Facts from the network; used in [`Profile::Full`] only.
    pub facts: &'a Facts,
    /// Unix time in seconds.
    pub now: i64,
    /// Whether functions that need the network may hit.
    pub profile: Profile,
    /// The classifier's probability of spam, 0 to 1; `None` without a classifier.
    pub spam_probability: Option<f64>,
    pub(super) memo: Memo<'a>,
}

impl<'a> EvalContext<'a> {
    /// A context for one message.
    pub fn new(views: &'a Views<'a>, tables: &'a EvalTables, now: i64, profile: Profile) -> Self {
        EvalContext {
            views,
            tables,
            facts: views.facts(),
            now,
            profile,
            spam_probability: None,
            memo: Memo::default(),
        }
    }

    /// The same, with the classifier's probability of spam, 0 to 1.
    #[must_use]
    pub fn with_spam_probability(mut self, probability: Option<f64>) -> Self {
        self.spam_probability = probability;
        self
    }

    /// A header value in scalar context: all fields in one text; of addresses and other extracts
    /// only the first, without its line end. Empty if there is none.
    pub(crate) fn text(&self, name: &str) -> Cow<'_, [u8]> {
        match name {
            "ALL" => return Cow::Borrowed(self.views.all_fields()),
            "ALL:raw" => return Cow::Borrowed(self.views.raw_fields()),
            _ => {}
        }
        let make = || self.make_text(name);
        let memo = self.header_memo(name);
        Cow::Borrowed(memo.map_or(&[], |memo| &**memo.text.get_or_init(make)))
    }

    /// The memo of a selector's values; `None` if the message has none of the fields that it names.
    fn header_memo(&self, name: &str) -> Option<&HeaderMemo<'a>> {
        let hash = usize::from(gauntlet_rules::document::name_hash(name.as_bytes()));
        let mut slot = &self.memo.headers.0[hash % HEADER_LISTS];
        while let Some(memo) = slot.get() {
            if *memo.selector == *name {
                return Some(memo);
            }
            slot = &memo.next;
        }
        if self.lacks(name) {
            return None;
        }
        let (text, values) = (OnceCell::new(), OnceCell::new());
        let memo = HeaderMemo { selector: name.into(), text, values, next: OnceCell::new() };
        Some(slot.get_or_init(|| Box::new(memo)))
    }

    /// Whether the message has none of the fields that a selector names.
    fn lacks(&self, selector: &str) -> bool {
        let name = header::field_name(selector);
        gauntlet_rules::document::is_field_name(name)
            && !self.views.may_have_field(gauntlet_rules::document::name_hash(name.as_bytes()))
    }

    fn make_text(&self, selector: &str) -> Cow<'a, [u8]> {
        let views: &'a Views<'a> = self.views;
        let (name, wanted) = header::Wanted::parse(selector);
        if name.len() == selector.len() && gauntlet_rules::document::is_field_name(name) {
            return views.lines(name).unwrap_or_default();
        }
        let is_single = name == "EnvelopeFrom" || wanted.is_extract();
        let mut values = views.selected(name, wanted);
        if !is_single && values.len() > 1 {
            return Cow::Owned(values.concat());
        }
        values.truncate(1);
        match values.pop().unwrap_or_default() {
            Cow::Borrowed(value) if is_single => {
                Cow::Borrowed(value.strip_suffix(b"\n").unwrap_or(value))
            }
            Cow::Owned(mut value) if is_single && value.ends_with(b"\n") => {
                value.pop();
                Cow::Owned(value)
            }
            value => value,
        }
    }

    /// A header value in list context: each field or extract by itself, without line ends.
    pub(crate) fn values(&self, name: &str) -> &[Vec<u8>] {
        let make = || {
            let without_end = |value: Cow<'_, [u8]>| match value.strip_suffix(b"\n") {
                Some(line) => line.to_vec(),
                None => value.into_owned(),
            };
            self.views.values_of(name).into_iter().map(without_end).collect()
        };
        self.header_memo(name).map_or(&[], |memo| memo.values.get_or_init(make).as_slice())
    }

    /// The MIME parts as SpamAssassin parses them.
    pub(super) fn tree(&self) -> &MimeTree<'a> {
        self.views.mime()
    }

    /// A rendered part, by its index in the tree; `None` if it is not shown as text.
    pub(super) fn rendered(&self, part: usize) -> Option<&Rendered> {
        self.views.rendered().get(part)?.as_ref()
    }

    /// The HTML state of all HTML parts, in order.
    pub(super) fn html(&self) -> impl Iterator<Item = &HtmlState> {
        self.views.rendered().iter().flatten().filter_map(|r| r.html.as_ref())
    }

    /// Number of Received fields that could not be parsed.
    pub(super) fn unparseable_relays(&self) -> u32 {
        self.views.relays().unparseable
    }

    /// Hosts of all URIs but `mailto:`.
    pub(super) fn uri_hosts(&self) -> impl Iterator<Item = &[u8]> {
        self.hosts_of_uris(false)
    }

    /// Hosts of all URIs, with or without `mailto:`.
    pub(super) fn hosts_of_uris(&self, mailto: bool) -> impl Iterator<Item = &[u8]> {
        let details = self.views.uri_details().details.iter();
        let links = details.filter(move |(uri, _)| {
            let start = uri.get(..7);
            mailto || !start.is_some_and(|start| start.eq_ignore_ascii_case(b"mailto:"))
        });
        links.flat_map(|(_, detail)| &detail.hosts).map(Vec::as_slice)
    }

    /// URIs of HTML links that are not in the text too.
    pub(super) fn linked_uris(&self) -> impl Iterator<Item = &[u8]> {
        let details = self.views.uri_details().details.iter();
        let links = details.filter(|(_, d)| !d.is_parsed && d.elements.iter().any(|e| &**e == "a"));
        links.map(|(uri, _)| uri.as_slice())
    }

    pub(super) fn boundaries(&self) -> &'a Boundaries {
        &self.tables.boundaries
    }
}
