//! Trying the rules: one disposition for every recipient, and why.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::HashMap;

use gauntlet_mail::facts::AuthResult;
use gauntlet_mail::names::extension;
use gauntlet_mail::{Direction, Envelope, Facts, Message, NameKind, Part, fields, file_kind};
use gauntlet_verdict::{Thresholds, Verdict};
use serde::Serialize;

use crate::condition::{
    AttachmentCondition, AuthCondition, Condition, HeaderCondition, RateCondition, RateKey,
};
use crate::file::{ChangeTemplate, Policy, Rule};
use crate::language;
use crate::pattern::OneOrMany;
use crate::people::{OwnClass, Senders};
use gauntlet_verdict::{Change, Disposition, Final, Trace};

/// Messages in the last hour by sender, client and recipient, as the node counts them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rates {
    /// Count by key and value (address in lower case, or IP address).
    pub per_hour: HashMap<(RateKey, String), u32>,
}

/// All that a policy may look at.
#[derive(Debug, Clone, Copy)]
pub struct PolicyInput<'a> {
    /// Id of the message, for texts: the reference code.
    pub id: &'a str,
    /// The message.
    pub message: &'a Message<'a>,
    /// What the connection said.
    pub envelope: &'a Envelope,
    /// What the network said.
    pub facts: &'a Facts,
    /// What the engine said.
    pub verdict: &'a Verdict,
    /// Where the classes began when it said so.
    pub thresholds: &'a Thresholds,
    /// How busy sender, client and recipient were.
    pub rates: &'a Rates,
}

/// A disposition with the way it came about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Explanation {
    /// What would be done.
    pub disposition: Disposition,
    /// Every rule that was tried.
    pub trace: Vec<Trace>,
}

impl Policy {
    /// One disposition for each recipient of the envelope, in its order. Without a rule that decides,
    /// a message is delivered.
    pub fn decide(&self, input: &PolicyInput<'_>) -> Vec<Disposition> {
        let recipients = input.envelope.rcpt_to.iter();
        let languages = OnceCell::new();
        recipients.map(|r| self.decide_for(input, r, &languages, None)).collect()
    }

    /// The same with every rule that was tried and what decided it.
    pub fn explain(&self, input: &PolicyInput<'_>) -> Vec<Explanation> {
        let languages = OnceCell::new();
        let explain = |recipient: &String| {
            let mut trace = Vec::new();
            let disposition = self.decide_for(input, recipient, &languages, Some(&mut trace));
            Explanation { disposition, trace }
        };
        input.envelope.rcpt_to.iter().map(explain).collect()
    }

    fn decide_for(
        &self,
        input: &PolicyInput<'_>,
        recipient: &str,
        languages: &OnceCell<Vec<String>>,
        mut trace: Option<&mut Vec<Trace>>,
    ) -> Disposition {
        let (mut end, mut release): (Option<Final>, _) = (None, None);
        let (mut changes, mut rules) = (Vec::new(), Vec::new());
        let size = input.message.raw().len() as u64;
        let eval = Evaluation::new(self, input, recipient, size, languages);
        for rule in &self.rules {
            if !rule.directions.contains(&input.envelope.direction) {
                continue;
            }
            let (matched, because) = eval.rule(rule);
            if let Some(trace) = trace.as_deref_mut() {
                trace.push(Trace { rule: rule.name.clone(), matched, because });
            }
            if !matched {
                continue;
            }
            rules.push(rule.name.clone());
            changes.extend(rule.changes.iter().filter_map(|c| eval.change(c)));
            // The first rule that decides is the one that counts; later ones may add changes.
            if let (None, Some(first)) = (&end, &rule.end) {
                (end, release) = (Some(eval.fill_end(first)), rule.release);
            }
            if rule.stop {
                break;
            }
        }
        let end = end.unwrap_or(Final::Deliver);
        Disposition { recipient: recipient.to_owned(), end, changes, rules, release }
    }
}

/// One recipient's look at the input.
pub(crate) struct Evaluation<'e> {
    pub(crate) input: &'e PolicyInput<'e>,
    pub(crate) recipient: &'e str,
    pub(crate) policy: &'e Policy,
    /// Bytes of the message.
    pub(crate) size: u64,
    /// The class as the recipient wants it seen.
    own: OwnClass,
    /// Languages of the message, once a rule asks for them: the same for all its recipients.
    languages: &'e OnceCell<Vec<String>>,
}

/// A condition's answer with the value that decided it.
pub(crate) type Answer = (bool, String);

impl<'e> Evaluation<'e> {
    pub(crate) fn new(
        policy: &'e Policy,
        input: &'e PolicyInput<'e>,
        recipient: &'e str,
        size: u64,
        languages: &'e OnceCell<Vec<String>>,
    ) -> Self {
        let verdict = input.verdict;
        let mut own = OwnClass { class: verdict.class, because: "" };
        // Looking for the authors is for those whose people want anything.
        if !policy.people.wishes.is_empty() && input.envelope.direction == Direction::Inbound {
            let authors = input.message.authors();
            let senders = Senders { envelope: &input.envelope.mail_from, authors: &authors };
            let explicit = input.thresholds.is_explicit(verdict);
            own = policy.people.class(recipient, &senders, input.facts, verdict, explicit);
        }
        Evaluation { input, recipient, policy, size, own, languages }
    }
}

impl Evaluation<'_> {
    fn rule(&self, rule: &Rule) -> Answer {
        rule.when.as_ref().map_or((true, "always".into()), |when| self.table(when))
    }

    /// All fields of a table; the first that fails decides.
    pub(crate) fn table(&self, when: &Condition) -> Answer {
        let mut held = Vec::new();
        let checks: [fn(&Self, &Condition) -> Option<Answer>; 6] = [
            Self::verdict_fields,
            Self::envelope_fields,
            Self::message_fields,
            Self::attachment_fields,
            Self::network_fields,
            Self::nested,
        ];
        for check in checks {
            match check(self, when) {
                Some((false, because)) => return (false, because),
                Some((true, because)) => held.push(because),
                None => {}
            }
        }
        (true, if held.is_empty() { "always".into() } else { held.join("; ") })
    }

    fn verdict_fields(&self, when: &Condition) -> Option<Answer> {
        let verdict = self.input.verdict;
        let mut all = All::default();
        if let Some(classes) = &when.class {
            let OwnClass { class, because } = self.own;
            let is = classes.as_slice().contains(&class);
            all.and(is, || match because {
                "" => format!("class {class}"),
                because => format!("class {class}: {because}"),
            });
        }
        if let Some(min) = when.score_min {
            all.and(verdict.score >= min, || format!("score {:.1} of {min}", verdict.score));
        }
        if let Some(below) = when.score_below {
            all.and(verdict.score < below, || format!("score {:.1} below {below}", verdict.score));
        }
        if let Some(min) = when.probability_min {
            let p = verdict.probability;
            all.and(p.is_some_and(|p| p >= min), || format!("probability {p:?} of {min}"));
        }
        if let Some(wanted) = when.explicit {
            let explicit =
                self.own.class == verdict.class && self.input.thresholds.is_explicit(verdict);
            all.and(explicit == wanted, || format!("explicit {explicit}"));
        }
        if let Some(patterns) = &when.hit {
            let hit = verdict.hits.iter().find(|h| patterns.matching(&h.rule).is_some());
            all.and(hit.is_some(), || {
                hit.map_or("no such hit".into(), |h| format!("hit {}", h.rule))
            });
        }
        if let Some(patterns) = &when.defect {
            let names = verdict.defects.iter().map(|d| d.kind.name());
            let found = names.into_iter().find(|n| patterns.matching(n).is_some());
            all.and(found.is_some(), || format!("defect {found:?}"));
        }
        all.answer()
    }

    fn envelope_fields(&self, when: &Condition) -> Option<Answer> {
        let envelope = self.input.envelope;
        let groups = &self.policy.groups;
        let in_group = |list: &OneOrMany<String>, address: &str| {
            list.as_slice().iter().any(|g| groups.contains(g, address))
        };
        let sender = if envelope.mail_from.is_empty() { "<>" } else { &envelope.mail_from };
        let mut all = All::default();
        if let Some(patterns) = &when.sender {
            all.and(patterns.matching(sender).is_some(), || format!("sender {sender}"));
        }
        if let Some(list) = &when.sender_group {
            all.and(in_group(list, sender), || format!("group of sender {sender}"));
        }
        if let Some(patterns) = &when.recipient {
            let fits = patterns.matching(self.recipient).is_some();
            all.and(fits, || format!("recipient {}", self.recipient));
        }
        if let Some(list) = &when.recipient_group {
            let fits = in_group(list, self.recipient);
            all.and(fits, || format!("group of recipient {}", self.recipient));
        }
        if let Some(min) = when.recipients_min {
            let count = envelope.rcpt_to.len();
            all.and(count >= min, || format!("{count} recipients of {min}"));
        }
        if let Some(wanted) = when.authenticated {
            let is = envelope.auth_user.is_some();
            all.and(is == wanted, || format!("authenticated {is}"));
        }
        if let Some(wanted) = when.tls {
            let is = envelope.tls.is_some();
            all.and(is == wanted, || format!("tls {is}"));
        }
        if let Some(time) = &when.time {
            all.and(time.contains(envelope.received_at), || "time of day".into());
        }
        if let Some(rate) = &when.rate {
            let count = self.rate(rate);
            all.and(count >= rate.per_hour_min, || format!("{count} in the last hour"));
        }
        all.answer()
    }

    fn rate(&self, rate: &RateCondition) -> u32 {
        let envelope = self.input.envelope;
        let value = match rate.by {
            RateKey::Sender => envelope.mail_from.to_lowercase(),
            RateKey::Recipient => self.recipient.to_lowercase(),
            RateKey::Client => envelope.client_ip.map_or_else(String::new, |ip| ip.to_string()),
        };
        self.input.rates.per_hour.get(&(rate.by, value)).copied().unwrap_or(0)
    }

    fn message_fields(&self, when: &Condition) -> Option<Answer> {
        let message = self.input.message;
        let size = self.size;
        let mut all = All::default();
        if let Some(min) = when.size_min {
            all.and(size >= min.0, || format!("size {size} of {}", min.0));
        }
        if let Some(below) = when.size_below {
            all.and(size < below.0, || format!("size {size} below {}", below.0));
        }
        if let Some(patterns) = &when.from {
            let from = message.from().map(|m| m.address).unwrap_or_default();
            all.and(patterns.matching(&from).is_some(), || format!("From {from}"));
        }
        if let Some(patterns) = &when.subject {
            let fits = patterns.matching(&message.subject()).is_some();
            all.and(fits, || "subject".into());
        }
        if let Some(header) = &when.header {
            all.and(self.header(header), || format!("header {}", header.name.as_str()));
        }
        if let Some(patterns) = &when.url_host {
            let hosts = message.all_urls().map(|u| u.canonical.host());
            let found = hosts.into_iter().find(|h| patterns.matching(h).is_some());
            all.and(found.is_some(), || format!("URL host {}", found.unwrap_or("not found")));
        }
        if let Some(patterns) = &when.language {
            let languages = self.languages.get_or_init(|| language::of(message));
            let fits = languages.iter().any(|l| patterns.matching(l).is_some());
            all.and(fits, || match languages.is_empty() {
                true => "language unknown".into(),
                false => format!("language {}", languages.join(", ")),
            });
        }
        all.answer()
    }

    /// Fields up to the empty line count, as for `remove_header`: other programs read on where the parser
    /// ends the header.
    fn header(&self, wanted: &HeaderCondition) -> bool {
        let fits = |field: &[u8]| {
            let Some(patterns) = &wanted.value else { return true };
            patterns.matching(&fields::decoded(field)).is_some()
        };
        let is_named = |field: &&[u8]| {
            let name = fields::name(field);
            !name.is_empty() && wanted.name.matches(&String::from_utf8_lossy(name))
        };
        fields::fields(self.input.message.raw()).filter(is_named).any(fits)
    }

    fn attachment_fields(&self, when: &Condition) -> Option<Answer> {
        let mut all = All::default();
        let parts = || self.input.message.parts().iter().filter(|p| has_file(p));
        if let Some(wanted) = &when.attachment {
            let found = parts().find_map(|part| fits_attachment(part, wanted));
            all.and(found.is_some(), || match found {
                Some(name) if name.is_empty() => "attachment without name".into(),
                Some(name) => format!("attachment {name}"),
                None => "no such attachment".into(),
            });
        }
        if let Some(min) = when.attachments_min {
            let count = parts().count();
            all.and(count >= min, || format!("{count} attachments of {min}"));
        }
        all.answer()
    }

    fn network_fields(&self, when: &Condition) -> Option<Answer> {
        let facts = self.input.facts;
        let mut all = All::default();
        if let Some(auth) = &when.auth {
            let (fits, because) = authentication(auth, facts);
            all.and(fits, || because);
        }
        if let Some(patterns) = &when.country {
            let fits = facts.country.as_deref().is_some_and(|c| patterns.matching(c).is_some());
            all.and(fits, || format!("country {:?}", facts.country));
        }
        if let Some(patterns) = &when.listed {
            let found = facts.listings.iter().find(|l| patterns.matching(&l.zone).is_some());
            all.and(found.is_some(), || {
                found.map_or("not listed".into(), |l| format!("listed in {}", l.zone))
            });
        }
        all.answer()
    }

    fn nested(&self, when: &Condition) -> Option<Answer> {
        let mut all = All::default();
        for inner in when.all.iter().flatten() {
            let (fits, because) = self.table(inner);
            all.and(fits, || because);
        }
        if let Some(any) = &when.any {
            let answers: Vec<Answer> = any.iter().map(|c| self.table(c)).collect();
            match answers.iter().find(|a| a.0) {
                Some((_, because)) => all.and(true, || because.clone()),
                None => all.and(false, || "none of `any`".into()),
            }
        }
        if let Some(not) = &when.not {
            let (fits, because) = self.table(not);
            all.and(!fits, || format!("not ({because})"));
        }
        all.answer()
    }

    /// The change with its parts found and its placeholders filled in; none if there is nothing to do.
    pub(crate) fn change(&self, template: &ChangeTemplate) -> Option<Change> {
        match template {
            ChangeTemplate::Fixed(Change::AddHeader { name, value }) => {
                Some(Change::AddHeader { name: name.clone(), value: self.fill(value) })
            }
            ChangeTemplate::Fixed(Change::TagSubject { tag }) => {
                Some(Change::TagSubject { tag: self.fill(tag) })
            }
            ChangeTemplate::Fixed(change) => Some(change.clone()),
            ChangeTemplate::StripAttachments { which, note } => {
                let parts = self.input.message.parts().iter().zip(0u16..);
                let fits = |p: &Part<'_>| {
                    has_file(p) && which.as_ref().is_none_or(|w| fits_attachment(p, w).is_some())
                };
                let parts: Vec<u16> = parts.filter(|(p, _)| fits(p)).map(|(_, i)| i).collect();
                let note = self.fill(note);
                (!parts.is_empty()).then_some(Change::StripAttachments { parts, note })
            }
        }
    }

    pub(crate) fn fill_end(&self, end: &Final) -> Final {
        match end {
            Final::Reject { text } => Final::Reject { text: self.fill(text) },
            Final::Defer { text } => Final::Defer { text: self.fill(text) },
            other => other.clone(),
        }
    }

    /// `{id}`, `{class}`, `{score}`, `{hits}` and `{recipient}` in texts.
    fn fill(&self, text: &str) -> String {
        if !text.contains('{') {
            return text.to_owned();
        }
        let verdict = self.input.verdict;
        let hits: Vec<&str> = verdict.hits.iter().map(|h| &*h.rule).take(20).collect();
        text.replace("{id}", self.input.id)
            .replace("{class}", verdict.class.name())
            .replace("{score}", &format!("{:.1}", verdict.score))
            .replace("{hits}", &hits.join(", "))
            .replace("{recipient}", self.recipient)
    }
}

/// Whether the part is a file, or files are encoded in it.
fn has_file(part: &Part<'_>) -> bool {
    part.is_attachment() || !part.files().is_empty()
}

/// Whether a part fits every field that is given: the name by which it does, empty if it has none.
fn fits_attachment<'p>(part: &'p Part<'_>, wanted: &AttachmentCondition) -> Option<Cow<'p, str>> {
    let mut names = part.name_readings();
    if names.is_empty() {
        names.push(Cow::Borrowed(""));
    }
    let fits = |name: &Cow<'_, str>| {
        let kind = || NameKind::of_extension(extension(name));
        wanted.name.as_ref().is_none_or(|p| p.matching(name).is_some())
            && wanted
                .opens_as
                .as_ref()
                .is_none_or(|list| kind().is_some_and(|kind| list.as_slice().contains(&kind)))
    };
    let name = names.into_iter().find(fits)?;
    let typed = wanted.kind.as_ref().is_none_or(|p| {
        p.matching(&part.content_type.essence()).is_some()
            || p.matching(file_kind::sniff(part.body()).media_type()).is_some()
            || part.files().iter().any(|file| {
                p.matching(file_kind::sniff(file.bytes(part.body())).media_type()).is_some()
            })
    });
    // The body of a container is that of its parts.
    let body = if part.is_container { part.raw_body() } else { part.body() };
    let large = wanted.size_min.is_none_or(|min| body.len() as u64 >= min.0);
    let sealed = wanted.encrypted.is_none_or(|is| file_kind::is_encrypted(part.body()) == is);
    (typed && large && sealed).then_some(name)
}

/// Every method that is named must have one of its wanted results.
fn authentication(wanted: &AuthCondition, facts: &Facts) -> Answer {
    let dkim = facts.dkim.iter().map(|s| s.result);
    let dkim = if facts.dkim.is_empty() {
        AuthResult::None
    } else {
        let pass = dkim.clone().find(|r| *r == AuthResult::Pass);
        pass.or_else(|| dkim.clone().next()).unwrap_or_default()
    };
    let methods = [
        ("spf", &wanted.spf, facts.spf),
        ("dkim", &wanted.dkim, dkim),
        ("dmarc", &wanted.dmarc, facts.dmarc),
        ("arc", &wanted.arc, facts.arc),
    ];
    let mut all = All::default();
    for (name, wanted, is) in methods {
        if let Some(wanted) = wanted {
            all.and(wanted.as_slice().contains(&is), || format!("{name} {is:?}").to_lowercase());
        }
    }
    if let Some(wanted) = &wanted.dmarc_policy {
        let is = facts.dmarc_policy;
        all.and(wanted.as_slice().contains(&is), || format!("DMARC policy {is:?}").to_lowercase());
    }
    all.answer().unwrap_or((true, "authentication".into()))
}

/// Collects answers of which all must hold; keeps the first that does not.
#[derive(Default)]
struct All {
    held: Vec<String>,
    failed: Option<String>,
}

impl All {
    fn and(&mut self, fits: bool, because: impl FnOnce() -> String) {
        match (fits, &self.failed) {
            (_, Some(_)) => {}
            (true, None) => self.held.push(because()),
            (false, None) => self.failed = Some(because()),
        }
    }

    fn answer(self) -> Option<Answer> {
        match self.failed {
            Some(because) => Some((false, because)),
            None if self.held.is_empty() => None,
            None => Some((true, self.held.join("; "))),
        }
    }
}

#[cfg(test)]
mod tests {
    use gauntlet_mail::Direction;
    use gauntlet_verdict::Class;

    use super::*;
    use crate::groups::Groups;

    /// Decides about a small message with the default policy, for one recipient.
    fn ends(
        change: impl FnOnce(&mut Envelope, &mut Facts, &mut Verdict),
        raw: &[u8],
    ) -> Disposition {
        let mut envelope =
            Envelope { rcpt_to: vec!["you@example.org".into()], ..Default::default() };
        let (mut facts, mut verdict) = (Facts::default(), Verdict::default());
        change(&mut envelope, &mut facts, &mut verdict);
        let message = Message::parse(raw);
        let input = PolicyInput {
            id: "ref1",
            message: &message,
            envelope: &envelope,
            facts: &facts,
            verdict: &verdict,
            thresholds: &Thresholds::default(),
            rates: &Rates::default(),
        };
        let policy = Policy::default_policy(&Groups::default());
        let explained = policy.explain(&input).remove(0).disposition;
        assert_eq!(policy.decide(&input), vec![explained.clone()], "explain and decide agree");
        explained
    }

    const MAIL: &[u8] = b"From: a@b\r\nSubject: x\r\n\r\nhi\r\n";

    #[test]
    fn the_default_policy_has_36_rules_and_no_oddities() {
        let policy = Policy::default_policy(&Groups::default());
        assert_eq!((policy.rules.len(), policy.warnings.len()), (36, 0));
        let count = |d: Direction, n: usize| {
            policy
                .rules
                .iter()
                .filter(|r| r.directions.contains(&d) && r.directions.len() == n)
                .count()
        };
        let both = count(Direction::Inbound, 2);
        assert_eq!(
            (count(Direction::Inbound, 1), count(Direction::Outbound, 1), both),
            (18, 10, 8)
        );
    }

    #[test]
    fn classes_find_their_folders() {
        let quarantine = |folder: &str| Final::Quarantine { folder: folder.into() };
        for (class, score, end) in [
            (Class::Ham, 0.0, Final::Deliver),
            (Class::Bulk, 0.0, Final::Deliver),
            (Class::Suspect, 5.0, quarantine("suspect")),
            (Class::Spam, 8.0, quarantine("spam")),
            (Class::Spam, 30.0, quarantine("explicit")),
            (Class::Phishing, 8.0, quarantine("phishing")),
            (Class::Malware, 0.0, quarantine("malware")),
            (Class::Unscannable, 0.0, Final::Hold { folder: "unscannable".into() }),
        ] {
            let got = ends(|_, _, v| (v.class, v.score) = (class, score), MAIL);
            assert_eq!(got.end, end, "{class} at {score}");
        }
    }

    #[test]
    fn delivered_mail_carries_its_verdict() {
        let got = ends(|_, _, v| v.score = 1.25, MAIL);
        let header =
            |name: &str, value: &str| Change::AddHeader { name: name.into(), value: value.into() };
        assert!(got.changes.contains(&header("X-Gauntlet-Class", "ham")));
        assert!(got.changes.contains(&header("X-Gauntlet-Id", "ref1")));
    }

    #[test]
    fn outbound_spam_is_held_and_ham_is_signed() {
        let out = |class| {
            move |e: &mut Envelope, _: &mut Facts, v: &mut Verdict| {
                (e.direction, v.class) = (Direction::Outbound, class);
            }
        };
        assert_eq!(
            ends(out(Class::Spam), MAIL).end,
            Final::Hold { folder: "outbound-abuse".into() }
        );
        assert_eq!(ends(out(Class::Ham), MAIL).changes, [Change::DkimSign]);
    }

    #[test]
    fn url_hosts_and_sniffed_types() {
        let text = "[[rule]]\nname = \"r\"\nwhen.url_host = \"*.example.net\"\ndo = \"discard\"\n\
            [[rule]]\nname = \"s\"\nwhen.attachment.type = \"application/pdf\"\ndo = { hold = \"p\" }";
        let policy = Policy::parse(text, &Groups::default()).unwrap();
        let end = |raw: &[u8]| {
            let message = Message::parse(raw);
            let envelope = Envelope { rcpt_to: vec!["a@b".into()], ..Default::default() };
            let input = PolicyInput {
                id: "r",
                message: &message,
                envelope: &envelope,
                facts: &Facts::default(),
                verdict: &Verdict::default(),
                thresholds: &Thresholds::default(),
                rates: &Rates::default(),
            };
            policy.decide(&input).remove(0).end
        };
        assert_eq!(end(b"\r\nsee http://WWW.Example.net/x\r\n"), Final::Discard);
        assert_eq!(end(b"\r\nsee http://example.org/x\r\n"), Final::Deliver);
        let pdf = b"Content-Type: application/octet-stream; name=a.bin\r\n\r\n%PDF-1.4\r\n";
        assert_eq!(end(pdf), Final::Hold { folder: "p".into() });
    }

    #[test]
    fn programs_are_kept_away() {
        let raw = b"Content-Type: multipart/mixed; boundary=x\r\n\r\n--x\r\n\
            Content-Type: application/octet-stream; name=\"Bill.PDF.exe\"\r\n\r\nMZ\r\n--x--\r\n";
        assert_eq!(ends(|_, _, _| {}, raw).end, Final::Quarantine { folder: "programs".into() });
    }
}
