//! The condition on what data loss prevention found.

use gauntlet_verdict::DataFinding;

use super::{Answer, Evaluation};
use crate::condition::Condition;
use crate::data_condition::DataCondition;
use crate::pattern::{OneOrMany, Pattern};

/// Findings and pieces of evidence that an explanation names.
const FINDINGS_NAMED_MAX: usize = 3;
const EVIDENCE_NAMED_MAX: usize = 2;

impl Evaluation<'_> {
    pub(super) fn data_fields(&self, when: &Condition) -> Option<Answer> {
        let wanted = when.dlp.as_ref()?;
        let mut all = self.all();
        let domain = self.recipient.rsplit_once('@').map_or("", |(_, domain)| domain);
        if let Some(patterns) = &wanted.to_domain {
            all.and(patterns.matching(domain).is_some(), || format!("to {domain}"));
        }
        if let Some(patterns) = &wanted.not_to_domain {
            all.and(patterns.matching(domain).is_none(), || format!("to {domain}"));
        }
        let Some(found) = &self.input.verdict.data_loss else {
            all.and(false, || "data not looked for".into());
            return all.answer();
        };
        if let Some(unread) = wanted.unread {
            all.and(found.is_cut == unread, || match found.is_cut {
                true => "not all data was looked through".into(),
                false => "all data was looked through".into(),
            });
        }
        if wanted.asks_findings() {
            let fitting: Vec<&DataFinding> =
                found.findings.iter().filter(|finding| fits(finding, wanted)).collect();
            let count = fitting.iter().map(|f| f.count).fold(0, u32::saturating_add);
            let min = wanted.count_min.unwrap_or(1);
            all.and(count >= min, || match fitting[..] {
                [] => "no such data".into(),
                _ => format!("{} of {min}", named(&fitting)),
            });
        }
        all.answer()
    }
}

fn fits(finding: &DataFinding, wanted: &DataCondition) -> bool {
    let one = |patterns: &Option<OneOrMany<Pattern>>, value: &str| {
        patterns.as_ref().is_none_or(|p| p.matching(value).is_some())
    };
    let of = |patterns: &Option<OneOrMany<Pattern>>, kind: &str| {
        patterns.is_none() || finding.detector == kind && one(patterns, &finding.name)
    };
    one(&wanted.detector, &finding.detector)
        && one(&wanted.family, &finding.family)
        && of(&wanted.dictionary, "dictionary")
        && of(&wanted.document, "document")
        && wanted.points_min.is_none_or(|min| finding.points >= min)
        && wanted.share_min.is_none_or(|min| finding.share >= min)
}

/// What was found, masked: `12 payment_card (4111 **** **** 1111 in part 1)`.
fn named(findings: &[&DataFinding]) -> String {
    let one = |finding: &&DataFinding| {
        let places = finding.evidence.iter().take(EVIDENCE_NAMED_MAX);
        let places: Vec<String> =
            places.map(|evidence| format!("{} in {}", evidence.masked, evidence.place)).collect();
        let mut text = format!("{} {}", finding.count, finding.title());
        if finding.points > 0.0 {
            text += &format!(", {} points", finding.points);
        }
        if finding.share > 0.0 {
            text += &format!(", {:.0} % of it", finding.share * 100.0);
        }
        match places.is_empty() {
            true => text,
            false => format!("{text} ({})", places.join(", ")),
        }
    };
    let all: Vec<String> = findings.iter().take(FINDINGS_NAMED_MAX).map(one).collect();
    all.join("; ")
}

#[cfg(test)]
mod tests {
    use gauntlet_mail::{Direction, Envelope, Facts, Message};
    use gauntlet_verdict::{DataEvidence, DataLoss, Final, Thresholds, Verdict};

    use super::*;
    use crate::Policy;
    use crate::groups::Groups;
    use crate::input::{PolicyInput, Rates};

    fn finding(detector: &str, family: &str, name: &str, count: u32) -> DataFinding {
        let place = DataEvidence {
            place: "part 1".into(),
            offset: 3,
            length: 19,
            masked: "4111 **** **** 1111".into(),
        };
        let [detector, family, name] = [detector, family, name].map(str::to_owned);
        DataFinding { detector, family, name, count, evidence: vec![place], ..Default::default() }
    }

    /// End and reason for mail with these findings, under one rule with this condition.
    fn decided(when: &str, data_loss: Option<DataLoss>, to: &str) -> (bool, String) {
        let text =
            format!("[[rule]]\nname = \"d\"\nwhen.dlp = {when}\ndo = {{ hold = \"dlp\" }}\n");
        let policy = Policy::parse(&text, &Groups::default()).unwrap();
        let message = Message::parse(b"Subject: x\r\n\r\n");
        let envelope = Envelope { rcpt_to: vec![to.into()], ..Default::default() };
        let verdict = Verdict { data_loss, ..Verdict::default() };
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
        let held = explained.disposition.end == Final::Hold { folder: "dlp".into() };
        (held, explained.trace[0].because.clone())
    }

    fn cards(count: u32) -> Option<DataLoss> {
        let findings = vec![
            finding("payment_card", "payment", "", count),
            DataFinding { points: 7.5, ..finding("dictionary", "dictionary", "plans", 2) },
            DataFinding { share: 0.25, ..finding("document", "document", "plan.docx", 80) },
        ];
        Some(DataLoss { findings, is_cut: false })
    }

    #[test]
    fn findings_are_counted_by_what_is_asked_for() {
        let holds = |when: &str, count| decided(when, cards(count), "a@b.example").0;
        assert!(holds("{ detector = 'payment_card', count_min = 5 }", 5));
        assert!(!holds("{ detector = 'payment_card', count_min = 5 }", 4));
        assert!(holds("{ detector = ['us_ssn', 'payment_*'] }", 1));
        assert!(holds("{ family = 'payment' }", 1) && !holds("{ family = 'identity' }", 1));
        assert!(holds("{ dictionary = 'plans' }", 1) && !holds("{ dictionary = 'other' }", 1));
        assert!(
            holds("{ points_min = 7 }", 1) && !holds("{ dictionary = '*', points_min = 8 }", 1)
        );
        assert!(holds("{ document = '*.docx', share_min = 0.2 }", 1));
        assert!(!holds("{ document = '*.docx', share_min = 0.3 }", 1));
        assert!(holds("{}", 1));
    }

    #[test]
    fn thresholds_may_differ_by_the_domain_of_the_recipient() {
        let outside =
            "{ detector = 'payment_card', not_to_domain = ['example.org', '*.example.org'] }";
        assert!(decided(outside, cards(1), "a@elsewhere.example").0);
        assert!(!decided(outside, cards(1), "a@mail.EXAMPLE.org").0);
        let partner = "{ count_min = 100, detector = 'payment_card', to_domain = 'bank.example' }";
        assert!(!decided(partner, cards(99), "a@bank.example").0);
        assert!(decided(partner, cards(100), "a@bank.example").0);
        assert!(!decided(partner, cards(100), "a@other.example").0);
    }

    #[test]
    fn explanations_show_what_was_found_masked() {
        let (_, because) = decided("{ detector = 'payment_card' }", cards(2), "a@b");
        assert_eq!(because, "2 payment_card (4111 **** **** 1111 in part 1) of 1");
        let (held, because) = decided("{ detector = 'payment_card' }", None, "a@b");
        assert!(!held && because == "data not looked for", "{because}");
        let (_, because) = decided("{ detector = 'iban' }", cards(2), "a@b");
        assert_eq!(because, "no such data");
    }

    #[test]
    fn what_could_not_be_read_may_be_held_too() {
        let cut = Some(DataLoss { is_cut: true, ..DataLoss::default() });
        assert!(decided("{ unread = true }", cut.clone(), "a@b").0);
        assert!(!decided("{ unread = true }", Some(DataLoss::default()), "a@b").0);
        assert!(!decided("{ unread = true, count_min = 1 }", cut, "a@b").0);
    }

    #[test]
    fn only_directions_with_such_a_rule_are_looked_through() {
        let text = "[[rule]]\nname = \"d\"\ndirection = \"outbound\"\n\
            when.any = [{ not = { dlp = { family = \"secret\" } } }]\ndo = \"discard\"\n";
        let policy = Policy::parse(text, &Groups::default()).unwrap();
        assert!(policy.asks_data_loss(Direction::Outbound));
        assert!(!policy.asks_data_loss(Direction::Inbound));
        assert_eq!(policy.data_conditions().count(), 1);
        let plain = Policy::default_policy(&Groups::default());
        assert!(!plain.asks_data_loss(Direction::Outbound), "the policy that ships costs nothing");
    }

    #[test]
    fn a_misspelt_field_is_an_error() {
        let text = "[[rule]]\nname = \"d\"\nwhen.dlp = { detectors = \"x\" }\ndo = \"discard\"\n";
        assert!(Policy::parse(text, &Groups::default()).is_err());
    }
}
