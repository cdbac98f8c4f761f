//! The item that rules are matched on, in the views that a dialect of the language defines.
//!
//! ```text
//! Ruleset (language, patterns, matcher) ── asks ──▶ dyn Document ◀── implements ── a dialect
//!                                                                   spamassassin: views, functions
//! ```
//!
//! The matcher gets each view once a message, so that the cost of dynamic dispatch is negligible.

use std::borrow::Cow;

use gauntlet_mail::Evidence;

use crate::problem::Severity;
use crate::rule::{EvalCall, EvalKind, HeaderSelector};

/// Texts that rules match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Texts {
    /// For `body` rules: the rendered text, the subject first.
    Body,
    /// The same before an eval function edited it.
    UneditedBody,
    /// For `rawbody` rules: text parts, decoded, with all markup.
    Rawbody,
    /// For `uri` rules: URIs, sorted, without duplicates.
    Uris,
    /// For `full` rules: the raw item, which is one text.
    Full,
}

/// Details of a URI, for `uri_detail` rules.
#[derive(Debug, Default)]
pub struct UriDetail {
    /// Every form that rules see.
    pub forms: Vec<Vec<u8>>,
    /// Hosts of all forms, without repetitions.
    pub hosts: Vec<Vec<u8>>,
    /// It was found in the text, not in an HTML link.
    pub is_parsed: bool,
    /// Names of HTML elements that have it in an attribute.
    pub elements: Vec<&'static str>,
    /// Texts of the anchors that link to it.
    pub anchor_texts: Vec<Vec<u8>>,
}

/// An item as rules see it. Every view is computed when first needed, and is then the same until
/// the end of the scan.
pub trait Document {
    /// A header value; `None` if there is no such field (Perl's `undef`).
    fn header(&self, selector: &HeaderSelector) -> Option<Cow<'_, [u8]>>;

    /// Whether there may be a field whose name has this [`name_hash`]; rules most names out
    /// quickly.
    fn may_have_field(&self, name_hash: u8) -> bool;

    /// The value of a field in each part, the root first; `None` if a part lacks it.
    fn mime_headers(&self, selector: &HeaderSelector) -> Vec<Option<Cow<'_, [u8]>>>;

    /// One of these texts, by its number; `None` after the last.
    fn text(&self, texts: Texts, number: u32) -> Option<&[u8]>;

    /// Texts of the body from this number on are hidden from the recipient. Rules for ham (`tflags
    /// nice`) do not see them, because spammers hide ham words there.
    fn hidden_from(&self) -> u32 {
        u32::MAX
    }

    /// Whether a function edited the body.
    fn has_edited_body(&self) -> bool {
        false
    }

    /// URIs as they were written, with their details, in order.
    fn uri_details(&self) -> Box<dyn Iterator<Item = (&[u8], &UriDetail)> + '_>;

    /// The registered domain of a host.
    fn registered_domain(&self, host: &[u8]) -> Vec<u8>;

    /// The result of a function that [`Functions`] added; 0 is no hit.
    fn call(&self, function: u32) -> u32;

    /// What such a function examined, as the evidence of its hit.
    fn call_evidence(&self, function: u32) -> Evidence;

    /// The values of a standard tag (`%{TAG}`), which every item has; `None` if it is no such tag.
    fn tag(&self, name: &str) -> Option<Vec<Vec<u8>>>;

    /// The evidence of a match that begins `start` bytes into text `number` of these texts.
    fn evidence(&self, texts: Texts, number: u32, start: usize, found: &[u8]) -> Evidence;
}

impl<'d> dyn Document + 'd {
    /// All texts of a kind, in order.
    pub fn texts<'s>(&'s self, texts: Texts) -> impl Iterator<Item = &'s [u8]> + use<'s, 'd> {
        (0..).map_while(move |number| self.text(texts, number))
    }
}

/// A function call of a rule, as its dialect added it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Function {
    /// Argument of [`Document::call`], as the dialect numbers its calls.
    pub number: u32,
    /// It may edit the body, so that it runs before `body` rules.
    pub edits_body: bool,
}

/// Why a dialect rejects a call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct CallError {
    /// Severity of the problem that is reported.
    pub severity: Severity,
    /// A sentence for the author of the rule.
    pub message: String,
}

/// The functions of a dialect: collects the calls of a ruleset while it is compiled.
pub trait Functions {
    /// Adds the call of an eval rule.
    ///
    /// # Errors
    /// If there is no such function, or an argument is malformed.
    fn add_call(&mut self, call: &EvalCall, kind: EvalKind) -> Result<Function, CallError>;

    /// Adds an `askdns` rule: the name that is looked up, and what the answer must be. Returns
    /// `None` if it is not looked up (`is_asked` is false).
    ///
    /// # Errors
    /// If the name has a tag without a value, or the filter is malformed.
    fn add_query(
        &mut self,
        rule: &str,
        query: &str,
        filter: Option<&str>,
        is_asked: bool,
    ) -> Result<Option<Function>, CallError>;
}

/// Whether a name, in any case, is that of a pseudo header.
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

/// Whether a selector's name is that of a field and not of a pseudo header.
pub fn is_field_name(name: &str) -> bool {
    !name.starts_with("ALL") && name != "MESSAGEID" && !is_special(name)
}

/// A case-insensitive hash of a field name: of its length and three of its bytes.
pub fn name_hash(name: &[u8]) -> u8 {
    let byte_at = |at: usize| name.get(at).map_or(0, u8::to_ascii_lowercase);
    let mix = |hash: u8, byte: u8| hash.wrapping_mul(31) ^ byte;
    let length = name.len();
    let bytes = [byte_at(0), byte_at(length / 2), byte_at(length.saturating_sub(1))];
    bytes.into_iter().fold(length as u8, mix)
}
