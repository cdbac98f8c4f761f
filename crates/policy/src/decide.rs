//! Trying the rules: one disposition for every recipient, and why.

use std::cell::OnceCell;

use gauntlet_verdict::{Disposition, Final, Trace};
use serde::Serialize;

use crate::evaluation::Evaluation;
use crate::file::Policy;
use crate::input::PolicyInput;

/// A disposition with the way it came about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Explanation {
    /// What would be done.
    pub disposition: Disposition,
    /// Every rule that was tried.
    pub trace: Vec<Trace>,
}

impl Policy {
    /// One disposition for each recipient of the envelope, in its order. Without a rule that
    /// decides, a message is delivered.
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
        let mut changes = Vec::new();
        let size = input.message.raw().len() as u64;
        let eval = Evaluation::new(self, input, recipient, size, languages, trace.is_some());
        let own = Some(eval.own_reason()).filter(|reason| !reason.is_empty());
        let mut rules: Vec<String> = own.into_iter().map(str::to_owned).collect();
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
        if end == Final::SpamFolder {
            changes.extend(eval.spam_folder_marks(&changes));
        }
        Disposition { recipient: recipient.to_owned(), end, changes, rules, release }
    }
}

#[cfg(test)]
mod tests {
    use gauntlet_mail::{Direction, Envelope, Facts, Message};
    use gauntlet_verdict::{Change, Class, Thresholds, Verdict};

    use super::*;
    use crate::groups::Groups;
    use crate::input::Rates;

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
    fn one_url_of_the_message_fits_list_and_category() {
        let text = "[[rule]]\nname = \"r\"\nwhen.url = { list = \"feed\", category = \"phish*\" }\n\
            do = \"discard\"\n";
        let policy = Policy::parse(text, &Groups::default()).unwrap();
        let explain = |listed: &[(&str, &str)]| {
            let one = |(list, category): &(&str, &str)| gauntlet_verdict::ListedUrl {
                list: (*list).into(),
                category: (*category).into(),
                pattern: "domain evil.example".into(),
                url: "http://evil.example/".into(),
            };
            let url_lists = listed.iter().map(one).collect();
            let verdict = Verdict { url_lists, ..Verdict::default() };
            let message = Message::parse(MAIL);
            let envelope = Envelope { rcpt_to: vec!["a@b".into()], ..Default::default() };
            let input = PolicyInput {
                id: "r",
                message: &message,
                envelope: &envelope,
                facts: &Facts::default(),
                verdict: &verdict,
                thresholds: &Thresholds::default(),
                rates: &Rates::default(),
            };
            let explained = policy.explain(&input).remove(0);
            (explained.disposition.end, explained.trace[0].because.clone())
        };
        let (end, because) = explain(&[("ads", "phishing"), ("feed", "phishing")]);
        assert_eq!(end, Final::Discard);
        assert_eq!(because, "URL on list feed (phishing: domain evil.example)");
        // One URL of the list and another of the category are not what was asked for.
        let (end, because) = explain(&[("ads", "phishing"), ("feed", "malware")]);
        assert_eq!((end, because.as_str()), (Final::Deliver, "no such URL on a list"));
    }

    #[test]
    fn what_is_not_there_is_explained_in_words() {
        let text = "[[rule]]\nname = \"d\"\nwhen.defect = \"empty_message\"\ndo = \"discard\"\n\
            [[rule]]\nname = \"p\"\nwhen.probability_min = 0.5\ndo = \"discard\"\n\
            [[rule]]\nname = \"i\"\nwhen.subject = \"x*\"\ndo = { learn = \"ham\" }\n";
        let policy = Policy::parse(text, &Groups::default()).unwrap();
        let explain = |verdict: &Verdict| {
            let message = Message::parse(MAIL);
            let envelope = Envelope { rcpt_to: vec!["a@b".into()], ..Default::default() };
            let input = PolicyInput {
                id: "r",
                message: &message,
                envelope: &envelope,
                facts: &Facts::default(),
                verdict,
                thresholds: &Thresholds::default(),
                rates: &Rates::default(),
            };
            let trace = policy.explain(&input).remove(0).trace;
            trace.into_iter().map(|t| t.because).collect::<Vec<_>>()
        };
        let nothing = explain(&Verdict::default());
        assert_eq!(nothing[..2], ["no such defect", "no probability of 0.5"]);
        let kind = gauntlet_mail::DefectKind::EmptyMessage;
        let defect = gauntlet_mail::Defect { kind, part: 0, offset: None, detail: String::new() };
        let found = explain(&Verdict { defects: vec![defect], ..Verdict::default() });
        assert_eq!(found, ["defect empty_message"]);
        for all in [nothing, found] {
            assert!(all.iter().all(|b| !b.contains("None") && !b.contains("Some(")), "{all:?}");
        }
    }

    #[test]
    fn notifications_go_where_the_policy_says_and_nowhere_else() {
        let parse = |to: &str| {
            let text = format!("[[rule]]\nname = \"n\"\ndo = {{ notify = {{ to = {to} }} }}\n");
            Policy::parse(&text, &Groups::default())
                .map(|p| p.rules.len())
                .map_err(|e| e.to_string())
        };
        for good in ["\"ops@x.example\"", "[\"postmaster\", \"{recipient}\"]"] {
            assert_eq!(parse(good), Ok(1), "{good}");
        }
        for bad in ["\"{sender}\"", "\"ops\"", "\"{id}@x.example\"", "[]"] {
            assert!(parse(bad).unwrap_err().contains("notify"), "{bad}");
        }
    }

    #[test]
    fn programs_are_kept_away() {
        let raw = b"Content-Type: multipart/mixed; boundary=x\r\n\r\n--x\r\n\
            Content-Type: application/octet-stream; name=\"Bill.PDF.exe\"\r\n\r\nMZ\r\n--x--\r\n";
        assert_eq!(ends(|_, _, _| {}, raw).end, Final::Quarantine { folder: "programs".into() });
    }
}
