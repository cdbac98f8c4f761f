//! Preferences of single users: senders they allow or block for themselves, and how strict to be.
//! They change the class that the rules see for that recipient, so every policy respects it without
//! a rule of its own.
//!
//! No preference releases phishing or malware, and an allowed name that fails its authentication is
//! a stranger's.

use std::collections::{BTreeMap, BTreeSet};

use gauntlet_mail::Facts;
use gauntlet_mail::authors::Authors;
use gauntlet_mail::facts::AuthResult;
use gauntlet_verdict::{Class, Verdict};
use serde::{Deserialize, Serialize};

/// Labels of a domain that are walked at most.
const LABELS_MAX: usize = 32;

/// How much of a user's mail is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Strictness {
    /// What is suspect counts as spam.
    Strict,
    /// As the node does.
    #[default]
    Normal,
    /// Spam that is not explicit counts as suspect, what is suspect as bulk.
    Lax,
}

impl Strictness {
    /// Every strictness, the one that holds most first.
    pub const ALL: [Strictness; 3] = [Strictness::Strict, Strictness::Normal, Strictness::Lax];

    /// Name in forms and in the database.
    pub fn name(self) -> &'static str {
        match self {
            Strictness::Strict => "strict",
            Strictness::Normal => "normal",
            Strictness::Lax => "lax",
        }
    }
}

impl std::str::FromStr for Strictness {
    type Err = String;
    fn from_str(name: &str) -> Result<Self, String> {
        let found = Strictness::ALL.into_iter().find(|s| s.name() == name);
        found.ok_or_else(|| format!("{name:?} is none of strict, normal, lax"))
    }
}

/// The preferences of one address.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Wishes {
    /// Senders whose mail is wanted: addresses, or domains with all below them; in lower case.
    pub allow: BTreeSet<String>,
    /// Senders whose mail is spam.
    pub block: BTreeSet<String>,
    /// How strict to be.
    pub strictness: Strictness,
    /// Rule points from which on mail is spam.
    pub spam_points: Option<f64>,
}

/// Preferences of all users, by address in lower case.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct People {
    /// Wishes by address, in lower case.
    pub wishes: BTreeMap<String, Wishes>,
}

/// Who sent a message.
#[derive(Debug, Clone, Copy)]
pub struct Senders<'m> {
    /// Envelope sender (MAIL FROM).
    pub envelope: &'m str,
    /// Whom the From fields name.
    pub authors: &'m Authors,
}

/// A class as one recipient sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecipientClass {
    /// The class for this recipient.
    pub class: Class,
    /// Why it is another than the verdict's; empty if it is not.
    pub because: &'static str,
}

impl People {
    /// The class of a message for this recipient. `explicit` says that the verdict is explicit
    /// spam.
    pub fn class(
        &self,
        recipient: &str,
        senders: &Senders<'_>,
        facts: &Facts,
        verdict: &Verdict,
        explicit: bool,
    ) -> RecipientClass {
        let as_judged = RecipientClass { class: verdict.class, because: "" };
        if self.wishes.is_empty() {
            return as_judged;
        }
        let Some(wishes) = self.wishes.get(&recipient.to_lowercase()) else { return as_judged };
        wishes.class(senders, facts, verdict, explicit).unwrap_or(as_judged)
    }
}

impl Wishes {
    fn class(
        &self,
        senders: &Senders<'_>,
        facts: &Facts,
        verdict: &Verdict,
        explicit: bool,
    ) -> Option<RecipientClass> {
        let own = |class, because| Some(RecipientClass { class, because });
        let class = verdict.class;
        if !matches!(class, Class::Ham | Class::Bulk | Class::Suspect | Class::Spam) {
            return None;
        }
        if senders.all().any(|s| listed(&self.block, s)) {
            return own(Class::Spam, "the recipient blocks the sender");
        }
        if class != Class::Ham && senders.are_allowed(&self.allow, facts) {
            return own(Class::Ham, "the recipient allows the sender");
        }
        if self.spam_points.is_some_and(|points| verdict.score >= points) && class != Class::Spam {
            return own(Class::Spam, "over the recipient's own threshold");
        }
        match (self.strictness, class) {
            (Strictness::Strict, Class::Suspect) => own(Class::Spam, "the recipient is strict"),
            (Strictness::Lax, Class::Spam) if !explicit => {
                own(Class::Suspect, "the recipient is lax")
            }
            (Strictness::Lax, Class::Suspect) => own(Class::Bulk, "the recipient is lax"),
            _ => None,
        }
    }
}

impl Senders<'_> {
    /// Every address, in every interpretation of the fields.
    fn all(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.envelope).chain(self.authors.addresses())
    }

    /// The envelope's sender or all authors are on the list, and nothing shows that they are
    /// forged: anybody can write them.
    fn are_allowed(&self, list: &BTreeSet<String>, facts: &Facts) -> bool {
        let authors = &self.authors.mailboxes;
        let is_forged = facts.dmarc == AuthResult::Fail;
        (listed(list, self.envelope) && !is_forged && !facts.doubts_envelope())
            || (!authors.is_empty()
                && !self.authors.is_ambiguous()
                && authors.iter().all(|author| listed(list, &author.address))
                && !facts.doubts_authors())
    }
}

/// The address, its domain or a domain above it is in the list.
fn listed(list: &BTreeSet<String>, address: &str) -> bool {
    if list.is_empty() || address.is_empty() {
        return false;
    }
    let lower = address.to_lowercase();
    if list.contains(&lower) {
        return true;
    }
    let mut rest = lower.rsplit_once('@').map(|(_, domain)| domain.trim_end_matches('.'));
    for _ in 0..LABELS_MAX {
        let Some(domain) = rest else { return false };
        if list.contains(domain) {
            return true;
        }
        rest = domain.split_once('.').map(|(_, above)| above);
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(wishes: &Wishes, class: Class, score: f64, facts: &Facts) -> Class {
        let people = People { wishes: [("ann@example.org".to_owned(), wishes.clone())].into() };
        let verdict = Verdict { class, score, ..Verdict::default() };
        let authors = Authors::read([&b"News@Shop.example"[..]], 16);
        let senders = Senders { envelope: "bounce@mail.shop.example", authors: &authors };
        let other = people.class("bob@example.org", &senders, facts, &verdict, false);
        assert_eq!(other, RecipientClass { class, because: "" }, "nobody decides for others");
        people.class("Ann@Example.org", &senders, facts, &verdict, false).class
    }

    #[test]
    fn all_authors_have_to_be_allowed_and_any_is_blocked() {
        let list = |entries: &[&str]| entries.iter().map(|e| (*e).to_owned()).collect();
        let facts = Facts::default();
        let of = |wishes: &Wishes, class, from: &str| {
            let authors = Authors::read([from.as_bytes()], 16);
            let senders = Senders { envelope: "x@evil.example", authors: &authors };
            let verdict = Verdict { class, ..Verdict::default() };
            wishes.class(&senders, &facts, &verdict, false).map(|own| own.class)
        };
        let allow = Wishes { allow: list(&["bank.example"]), ..Wishes::default() };
        let block = Wishes { block: list(&["bank.example"]), ..Wishes::default() };
        assert_eq!(of(&allow, Class::Spam, "a@bank.example"), Some(Class::Ham));
        for from in [
            "a@bank.example, x@evil.example",
            "<a@bank.example> <x@evil.example>",
            "x@evil.example \"<a@bank.example>\"",
        ] {
            assert_eq!(of(&allow, Class::Spam, from), None, "{from}");
            assert_eq!(of(&block, Class::Ham, from), Some(Class::Spam), "{from}");
        }
    }

    #[test]
    fn wishes_change_what_is_unwanted_but_not_what_is_dangerous() {
        let fine = Facts::default();
        let list = |entries: &[&str]| entries.iter().map(|e| (*e).to_owned()).collect();
        let allow = Wishes { allow: list(&["shop.example"]), ..Wishes::default() };
        let block = Wishes { block: list(&["news@shop.example"]), ..allow.clone() };
        for class in [Class::Bulk, Class::Suspect, Class::Spam] {
            assert_eq!(seen(&allow, class, 9.0, &fine), Class::Ham);
            let forged = Facts { dmarc: AuthResult::Fail, ..Facts::default() };
            assert_eq!(seen(&allow, class, 9.0, &forged), class);
        }
        for unknown in [AuthResult::TempError, AuthResult::PermError] {
            let facts = Facts { dmarc: unknown, spf: AuthResult::TempError, ..Facts::default() };
            assert_eq!(seen(&allow, Class::Spam, 9.0, &facts), Class::Spam, "not asked is no pass");
        }
        assert_eq!(seen(&block, Class::Ham, 0.0, &fine), Class::Spam, "blocking wins");
        for class in [Class::Phishing, Class::Malware, Class::Unscannable] {
            assert_eq!(seen(&allow, class, 9.0, &fine), class);
            assert_eq!(seen(&block, class, 9.0, &fine), class);
        }
        let strict = Wishes { strictness: Strictness::Strict, ..Wishes::default() };
        let lax = Wishes { strictness: Strictness::Lax, ..Wishes::default() };
        assert_eq!(seen(&strict, Class::Suspect, 4.0, &fine), Class::Spam);
        assert_eq!(seen(&lax, Class::Spam, 6.0, &fine), Class::Suspect);
        assert_eq!(seen(&lax, Class::Suspect, 4.0, &fine), Class::Bulk);
        let own = Wishes { spam_points: Some(3.0), ..Wishes::default() };
        assert_eq!(seen(&own, Class::Ham, 3.0, &fine), Class::Spam);
        assert_eq!(seen(&own, Class::Ham, 2.9, &fine), Class::Ham);
        assert!(
            listed(&list(&["example"]), "a@b.example")
                && !listed(&list(&["b.example"]), "a@ab.example")
        );
    }
}
