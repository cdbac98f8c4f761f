//! The terms of messages in the search index.
//!
//! A term is a letter for the field and then the value: plain text where users search by word
//! (subjects), a number or a name where there are few values, else a hash, so that a search finds
//! exactly this address however it is written. So all searches are alike, whatever they combine:
//! intersect a few sorted lists of messages.

use std::collections::HashMap;

use gauntlet_verdict::{Class, Disposition};

use crate::record::LogRecord;

/// Most words of a subject that are indexed.
const SUBJECT_WORDS_MAX: usize = 24;
/// Longest word kept, in bytes; longer ones are cut.
const WORD_BYTES_MAX: usize = 32;
/// Most names of a field whose terms are cached.
const KNOWN_TERMS_MAX: usize = 8192;

/// The field of a term.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Field {
    Class,
    Action,
    /// Class and action in one: both are frequent, and intersecting two long lists to find that
    /// they have nothing in common is the slowest search.
    ClassAction,
    Sender,
    SenderDomain,
    Recipient,
    RecipientDomain,
    MessageId,
    Rule,
    PolicyRule,
    Client,
    SubjectWord,
    Event,
    Outcome,
    /// The id of the message: only where many logs are one, since a day's file has a column for it.
    Id,
    /// What the node made itself: a release, a report. Only such messages have it.
    Origin,
}

impl Field {
    fn letter(self) -> char {
        match self {
            Field::Class => 'c',
            Field::Action => 'a',
            Field::ClassAction => 'b',
            Field::Sender => 's',
            Field::SenderDomain => 'd',
            Field::Recipient => 'r',
            Field::RecipientDomain => 'e',
            Field::MessageId => 'm',
            Field::Rule => 'u',
            Field::PolicyRule => 'p',
            Field::Client => 'k',
            Field::SubjectWord => 'w',
            Field::Event => 'x',
            Field::Outcome => 'o',
            Field::Id => 'i',
            Field::Origin => 'g',
        }
    }
}

/// Appends the term of an exact, case-insensitive value.
pub(crate) fn push_exact(out: &mut String, field: Field, value: &str) {
    push_start(out, field);
    let mut lower = [0; 128];
    let hash = match lower.get_mut(..value.len()).filter(|_| value.is_ascii()) {
        Some(lower) => {
            lower.copy_from_slice(value.as_bytes());
            lower.make_ascii_lowercase();
            blake3::hash(lower)
        }
        None => blake3::hash(value.to_lowercase().as_bytes()),
    };
    const DIGITS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
    // 60 bits: among 10 million values, one look-up in 10^11 is a false match.
    let mut digits = [0; 12];
    for (digit, five) in digits.iter_mut().zip(hash.as_bytes()) {
        *digit = DIGITS[usize::from(five & 31)];
    }
    out.push_str(str::from_utf8(&digits).unwrap_or_default());
}

/// Cache of the terms of names that recur, as those of rules do, which are half of a message's
/// terms: hashing is most of their cost.
#[derive(Debug, Default)]
pub(crate) struct KnownTerms {
    rules: Names,
    policy_rules: Names,
    sender_domains: Names,
    recipient_domains: Names,
}

/// Terms of one field by name.
type Names = HashMap<Box<str>, Box<str>>;

impl KnownTerms {
    /// Appends the term of a name, as [`push_exact`], from the cache if it is one that recurs.
    pub(crate) fn push(&mut self, out: &mut String, field: Field, name: &str) {
        let known = match field {
            Field::Rule => &mut self.rules,
            Field::PolicyRule => &mut self.policy_rules,
            Field::SenderDomain => &mut self.sender_domains,
            Field::RecipientDomain => &mut self.recipient_domains,
            _ => return push_exact(out, field, name),
        };
        if !out.is_empty() {
            out.push(' ');
        }
        if let Some(term) = known.get(name) {
            return out.push_str(term);
        }
        let mut term = String::new();
        push_exact(&mut term, field, name);
        out.push_str(&term);
        if known.len() >= KNOWN_TERMS_MAX {
            known.clear();
        }
        known.insert(name.into(), term.into());
    }

    /// Appends the terms of an address and its domain.
    pub(crate) fn push_address(
        &mut self,
        out: &mut String,
        whole: Field,
        domain_field: Field,
        address: &str,
    ) {
        if address.is_empty() {
            push_exact(out, whole, "<>");
            return;
        }
        push_exact(out, whole, address);
        if let Some(domain) = domain(address) {
            self.push(out, domain_field, domain);
        }
    }
}

/// Appends the term of an internal name: letters, digits and `_` only.
pub(crate) fn push_name(out: &mut String, field: Field, name: &str) {
    push_start(out, field);
    push_letters(out, name);
}

/// Appends the letters and digits of a name.
fn push_letters(out: &mut String, name: &str) {
    out.extend(name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()));
}

/// Appends the term of messages that nobody sent: releases and the node's own mail.
pub(crate) fn push_made_here(out: &mut String) {
    push_name(out, Field::Origin, "node");
}

fn push_start(out: &mut String, field: Field) {
    if !out.is_empty() {
        out.push(' ');
    }
    out.push(field.letter());
}

/// Appends the term of a class together with an action.
pub(crate) fn push_class_action(out: &mut String, class: Class, action: &str) {
    push_name(out, Field::ClassAction, class.name());
    push_letters(out, action);
}

/// The words of a text in lower case, without punctuation.
pub(crate) fn words(text: &str) -> impl Iterator<Item = String> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || (!c.is_ascii() && c.is_alphanumeric());
    text.split(move |c| !is_word(c)).filter(|w| !w.is_empty()).take(SUBJECT_WORDS_MAX).map(|word| {
        let mut word = word.to_lowercase();
        let end = (0..=word.len().min(WORD_BYTES_MAX)).rev().find(|&i| word.is_char_boundary(i));
        word.truncate(end.unwrap_or(0));
        word
    })
}

/// Appends the term of one word of a subject, as [`words`] gives it.
pub(crate) fn push_word(out: &mut String, word: &str) {
    push_start(out, Field::SubjectWord);
    out.push_str(word);
}

/// The part after the last `@`.
pub(crate) fn domain(address: &str) -> Option<&str> {
    address.rsplit_once('@').map(|(_, domain)| domain).filter(|d| !d.is_empty())
}

/// The address of `Name <address>`, or the text itself.
pub(crate) fn bare_address(from: &str) -> &str {
    let inner = from.rsplit_once('<').and_then(|(_, rest)| rest.split_once('>'));
    inner.map_or(from, |(address, _)| address).trim()
}

/// Appends the terms of a message without those of its recipients.
pub(crate) fn push_message(out: &mut String, record: &LogRecord, known: &mut KnownTerms) {
    push_name(out, Field::Class, record.verdict.class.name());
    let header_from = bare_address(&record.from);
    let envelope_from = record.envelope.mail_from.as_str();
    known.push_address(out, Field::Sender, Field::SenderDomain, envelope_from);
    // A message without a From field is none of the null sender.
    if !header_from.is_empty() && !header_from.eq_ignore_ascii_case(envelope_from) {
        known.push_address(out, Field::Sender, Field::SenderDomain, header_from);
    }
    if !record.message_id.is_empty() {
        push_exact(out, Field::MessageId, &record.message_id);
    }
    if !record.is_received() {
        push_made_here(out);
    }
    for hit in &record.verdict.hits {
        known.push(out, Field::Rule, &hit.rule);
    }
    if let Some(ip) = record.envelope.client_ip {
        push_exact(out, Field::Client, &ip.to_string());
    }
    for word in words(&record.subject) {
        push_word(out, &word);
    }
}

/// Appends the terms of one recipient's disposition.
pub(crate) fn push_disposition(
    out: &mut String,
    known: &mut KnownTerms,
    class: Class,
    disposition: &Disposition,
) {
    let recipient = &disposition.recipient;
    known.push_address(out, Field::Recipient, Field::RecipientDomain, recipient);
    push_name(out, Field::Action, disposition.end.name());
    push_class_action(out, class, disposition.end.name());
    for rule in &disposition.rules {
        known.push(out, Field::PolicyRule, rule);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_a_subject() {
        let found: Vec<String> = words("Re: Ihre RECHNUNG-Nr. 4711, größer! 请查收").collect();
        assert_eq!(found, ["re", "ihre", "rechnung", "nr", "4711", "größer", "请查收"]);
        assert_eq!(words(&"ß".repeat(40)).next().unwrap().len(), 32);
    }

    #[test]
    fn only_the_envelope_says_that_there_is_no_sender() {
        let of = |mail_from: &str, from: &str| {
            let mut record = LogRecord { from: from.to_owned(), ..LogRecord::default() };
            record.envelope.mail_from = mail_from.to_owned();
            let mut out = String::new();
            push_message(&mut out, &record, &mut KnownTerms::default());
            let mut null = String::new();
            push_exact(&mut null, Field::Sender, "<>");
            out.split(' ').any(|term| term == null)
        };
        assert!(of("", "") && of("", "Eve <eve@b.example>"));
        assert!(!of("a@b.example", "") && !of("a@b.example", "<>"));
    }

    #[test]
    fn exact_terms_ignore_case_and_differ_by_field() {
        let term = |field, value| {
            let mut out = String::new();
            push_exact(&mut out, field, value);
            out
        };
        assert_eq!(term(Field::Sender, "A@b.c"), term(Field::Sender, "a@B.C"));
        assert_ne!(term(Field::Sender, "a@b.c"), term(Field::Recipient, "a@b.c"));
        let (mut rules, mut out) = (KnownTerms::default(), String::new());
        for rule in ["ONE", "two", "ONE", "two"] {
            rules.push(&mut out, Field::Rule, rule);
        }
        let (one, two) = (term(Field::Rule, "ONE"), term(Field::Rule, "two"));
        assert_eq!(out, format!("{one} {two} {one} {two}"));
        assert_eq!(bare_address("\"Eve <x>\" <eve@example.com>"), "eve@example.com");
    }
}
