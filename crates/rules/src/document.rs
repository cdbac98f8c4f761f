//! What rules look at: an item, in the views that a dialect of the language defines.
//!
//! ```text
//! Ruleset (language, patterns, matcher) ── asks ──▶ dyn Document ◀── implements ── a dialect
//!                                                                   spamassassin: views, functions
//! ```
//!
//! The matcher asks a view once a message, so that a call through the trait costs nothing beside it.

use std::borrow::Cow;

use gauntlet_mail::{Evidence, View};

use crate::language::Severity;
use crate::rule::{EvalCall, EvalKind, HeaderSelector};

/// Which texts a match was found in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Texts {
    /// [`Document::body`].
    Body,
    /// [`Document::rawbody`].
    Rawbody,
    /// [`Document::uris`].
    Uris,
    /// [`Document::full`], which is one text.
    Full,
}

/// One URI as `uri` rules see it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Uri {
    /// The form that rules match.
    pub text: Vec<u8>,
}

/// What is known of a URI.
#[derive(Debug, Default)]
pub struct UriDetail {
    /// Every form that rules see.
    pub forms: Vec<Vec<u8>>,
    /// Hosts of all forms, without repetitions.
    pub hosts: Vec<Vec<u8>>,
    /// It stands in the text (linked by no HTML).
    pub is_parsed: bool,
    /// HTML elements that have it in an attribute.
    pub elements: Vec<&'static str>,
    /// Texts of anchors to it.
    pub anchor_texts: Vec<Vec<u8>>,
}

/// An item as rules see it. Every view is made when it is first asked for, and is then the same until
/// the end of a scan.
pub trait Document {
    /// A header value; none if there is no such field (Perl's `undef`).
    fn header(&self, selector: &HeaderSelector) -> Option<Cow<'_, [u8]>>;

    /// Whether there may be a field whose name has this [`name_hash`]: a quick no for most.
    fn may_have_field(&self, name_hash: u8) -> bool;

    /// The value of a field in each part, the root first; none where a part lacks it.
    fn mime_headers(&self, selector: &HeaderSelector) -> Vec<Option<Cow<'_, [u8]>>>;

    /// The texts that `body` rules match, the subject first.
    fn body(&self) -> &[Vec<u8>];

    /// The body before a function edited it.
    fn unedited_body(&self) -> &[Vec<u8>] {
        self.body()
    }

    /// Whether a function edited the body.
    fn has_edited_body(&self) -> bool {
        false
    }

    /// The texts that `rawbody` rules match.
    fn rawbody(&self) -> &[Vec<u8>];

    /// The URIs that `uri` rules match, sorted, without duplicates.
    fn uris(&self) -> &[Uri];

    /// URIs as they were written, with what is known of each; in order.
    fn uri_details(&self) -> Box<dyn Iterator<Item = (&[u8], &UriDetail)> + '_>;

    /// The registered domain of a host.
    fn registered_domain(&self, host: &[u8]) -> Vec<u8>;

    /// What `full` rules match: the item as it came.
    fn full(&self) -> &[u8];

    /// The answer of a function that [`Functions`] took: 0 is no hit.
    fn call(&self, function: u32) -> u32;

    /// What such a function looked at, for the evidence of its hit.
    fn seen_by(&self, function: u32) -> Evidence;

    /// The values of a tag (`%{TAG}`) that every item has; none if it is no such tag.
    fn tag(&self, name: &str) -> Option<Vec<Vec<u8>>>;

    /// Where a match stands that begins `start` bytes into text `number` of these texts.
    fn evidence(&self, texts: Texts, number: u32, start: usize, found: &[u8]) -> Evidence;
}

/// Evidence in a view whose texts are counted on from one to the next.
pub fn evidence_in(
    view: View,
    texts: &[Vec<u8>],
    number: u32,
    start: usize,
    found: &[u8],
) -> Evidence {
    let before = texts.iter().take(number as usize).map(Vec::len).sum::<usize>();
    Evidence::new(view, 0, before + start, found)
}

/// A function that rules may call, once its dialect took the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Function {
    /// What [`Document::call`] gets.
    pub number: u32,
    /// It may change the body, so that it runs before `body` rules.
    pub edits_body: bool,
}

/// Why a dialect does not take a call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refused {
    /// How bad that is.
    pub severity: Severity,
    /// A sentence for whoever wrote the rule.
    pub message: String,
}

/// The functions of a dialect: takes the calls of a rule set while it is compiled.
pub trait Functions {
    /// Takes the call of an eval rule.
    ///
    /// # Errors
    /// If there is no such function, or an argument is malformed.
    fn take_call(&mut self, call: &EvalCall, kind: EvalKind) -> Result<Function, Refused>;

    /// Takes an `askdns` rule: a name that is asked for, and what its answer must be. None if nobody asks,
    /// for `is_asked` is false.
    ///
    /// # Errors
    /// If the name has a tag without a value, or the filter is malformed.
    fn take_query(
        &mut self,
        rule: &str,
        query: &str,
        filter: Option<&str>,
        is_asked: bool,
    ) -> Result<Option<Function>, Refused>;
}

/// Whether a name, in either case, stands for something else than the fields of that name.
fn is_special(name: &str) -> bool {
    let is = |special: &str| special.eq_ignore_ascii_case(name);
    match name.len() {
        4 => is("tocc"),
        12 => is("envelopefrom"),
        14 => is("x-senderdomain") || is("x-authordomain"),
        21 => is("x-spam-relays-trusted"),
        22 => is("x-spam-relays-internal") || is("x-spam-relays-external"),
        23 => is("x-spam-relays-untrusted"),
        _ => false,
    }
}

/// Whether a selector's name stands for the fields of that name and nothing else.
pub fn is_field_name(name: &str) -> bool {
    !name.starts_with("ALL") && name != "MESSAGEID" && !is_special(name)
}

/// A hash of a field's name that does not depend on case: of its length and three of its bytes.
pub fn name_hash(name: &[u8]) -> u8 {
    let byte_at = |at: usize| name.get(at).map_or(0, u8::to_ascii_lowercase);
    let mix = |hash: u8, byte: u8| hash.wrapping_mul(31) ^ byte;
    let length = name.len();
    let bytes = [byte_at(0), byte_at(length / 2), byte_at(length.saturating_sub(1))];
    bytes.into_iter().fold(length as u8, mix)
}
