//! SpamAssassin's rules, compiled, with their views and eval functions.

use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;

use gauntlet_mail::{Envelope, Facts, Message};
use gauntlet_rules::{HitRates, LoadError, LoadOptions, LoadReport, Outcome, Profile};

use crate::document::{Calls, MessageDocument};
use crate::evals::{self, Eval, EvalContext, EvalTables};
use crate::questions::{Question, Restrictions};
use crate::views::{TextViews, ViewSettings, Views};

/// All rules of one version, compiled. Immutable; shared by threads.
#[derive(Debug)]
pub struct Ruleset {
    rules: gauntlet_rules::Ruleset,
    /// Calls of functions, by number.
    calls: Vec<Eval>,
    view_settings: ViewSettings,
    eval_tables: EvalTables,
}

impl Deref for Ruleset {
    type Target = gauntlet_rules::Ruleset;

    fn deref(&self) -> &Self::Target {
        &self.rules
    }
}

/// Buffers of one scan thread.
#[derive(Debug, Default)]
pub struct RulesScratch {
    matcher: gauntlet_rules::RulesScratch,
    /// Text views of the next message, and the version of the ruleset that made them.
    text: Option<(Arc<str>, TextViews)>,
}

impl RulesScratch {
    /// Buffers that also measure the cost of each rule.
    pub fn with_costs() -> Self {
        RulesScratch { matcher: gauntlet_rules::RulesScratch::with_costs(), text: None }
    }

    /// Sets the text views of the message that is scanned next, if they were computed already;
    /// `None` clears them. They are used only with the ruleset that computed them
    /// ([`Ruleset::questions_and_text`]).
    pub fn give(&mut self, text: Option<(Arc<str>, TextViews)>) {
        self.text = text;
    }

    /// Evaluations and nanoseconds by rule: [`gauntlet_rules::RulesScratch::costs`].
    pub fn costs(&self) -> &[(u64, u64)] {
        self.matcher.costs()
    }
}

impl Ruleset {
    /// Reads rules from folders and files, in this order, and compiles them.
    ///
    /// # Errors
    /// If a source cannot be read, or with `strict` if there is any problem.
    pub fn load(
        sources: &[PathBuf],
        options: &LoadOptions,
    ) -> Result<(Ruleset, LoadReport), LoadError> {
        let mut calls = Calls::default();
        let (rules, report) = gauntlet_rules::Ruleset::load(sources, options, &mut calls)?;
        Ok((Self::new(rules, calls), report))
    }

    /// Loads one text as the only rule file, with the plugins that SpamAssassin loads by default.
    /// The text cannot include files; sites of the options are not read.
    ///
    /// # Errors
    /// As [`Ruleset::load`].
    pub fn from_bytes(
        text: &[u8],
        options: &LoadOptions,
    ) -> Result<(Ruleset, LoadReport), LoadError> {
        let mut calls = Calls::default();
        let (rules, report) = gauntlet_rules::Ruleset::from_bytes(text, options, &mut calls)?;
        Ok((Self::new(rules, calls), report))
    }

    fn new(rules: gauntlet_rules::Ruleset, Calls(calls): Calls) -> Self {
        let settings = rules.settings();
        let mut eval_tables = EvalTables::from_settings(settings);
        if rules.profile() == Profile::Full {
            eval_tables = eval_tables.with_questions(settings, rules.running());
        }
        Ruleset { view_settings: ViewSettings::from_settings(settings), eval_tables, calls, rules }
    }

    /// The settings that views depend on.
    pub fn view_settings(&self) -> &ViewSettings {
        &self.view_settings
    }

    /// Whether any rule has DNS questions: in [`Profile::Full`] only.
    pub fn asks(&self) -> bool {
        self.eval_tables.asks()
    }

    /// The registered domain of a host name, by the boundaries of the rule files.
    pub fn registered_domain(&self, host: &str) -> String {
        let domain = self.eval_tables.boundaries.trim(host.as_bytes());
        String::from_utf8_lossy(&domain).into_owned()
    }

    /// Which names rules may look up, and which rules block lookups for a while.
    pub fn restrictions(&self) -> &Restrictions {
        self.eval_tables.restrictions()
    }

    /// The DNS questions of the rules about a message. Signatures in `facts` must be verified
    /// already: rules ask about domains that signed.
    pub fn questions(
        &self,
        message: &Message<'_>,
        envelope: &Envelope,
        facts: &Facts,
    ) -> Vec<Question> {
        self.questions_and_text(message, envelope, facts).0
    }

    /// The same, with the text views that were computed on the way: for [`RulesScratch::give`], so
    /// that the scan need not compute them again.
    pub fn questions_and_text(
        &self,
        message: &Message<'_>,
        envelope: &Envelope,
        facts: &Facts,
    ) -> (Vec<Question>, Option<(Arc<str>, TextViews)>) {
        if !self.asks() {
            return (Vec::new(), None);
        }
        let views = Views::new(message, envelope, facts, &self.view_settings);
        let now = envelope.received_at;
        let evals = EvalContext::new(&views, &self.eval_tables, now, self.profile());
        let questions = evals::questions(&evals);
        (questions, Some((self.version().into(), views.text())))
    }

    /// Evaluates the rules on a message; `now` is Unix time in seconds. Deterministic.
    pub fn scan(
        &self,
        message: &Message<'_>,
        envelope: &Envelope,
        facts: &Facts,
        now: i64,
        scratch: &mut RulesScratch,
    ) -> Outcome {
        let mut views = Views::new(message, envelope, facts, &self.view_settings);
        if let Some((version, text)) = scratch.text.take()
            && *version == *self.version()
        {
            views = views.with_text(text);
        }
        let evals = EvalContext::new(&views, &self.eval_tables, now, self.profile());
        let document = MessageDocument { evals, calls: &self.calls };
        self.rules.scan(&document, &mut scratch.matcher)
    }

    /// Lets scans end as soon as no remaining rule can move the score across one of these
    /// thresholds. A caller that compares the score only with them decides as after a full scan.
    #[must_use]
    pub fn stop_early_at(self, thresholds: &[f64]) -> Self {
        Ruleset { rules: self.rules.stop_early_at(thresholds), ..self }
    }

    /// Tries first what hit often of late; see [`gauntlet_rules::Ruleset::ordered_by`].
    #[must_use]
    pub fn ordered_by(self, rates: &HitRates) -> Self {
        Ruleset { rules: self.rules.ordered_by(rates), ..self }
    }

    /// Shuffles the order of evaluation, which changes no result. For tests of that.
    #[must_use]
    pub fn in_other_order(self, seed: u64) -> Self {
        Ruleset { rules: self.rules.in_other_order(seed), ..self }
    }
}

#[cfg(test)]
mod tests {
    use gauntlet_mail::View;

    use super::*;

    fn scan(rules: &str, raw: &str) -> (Outcome, LoadReport) {
        let options = LoadOptions { subtests: true, ..LoadOptions::default() };
        let (ruleset, report) =
            Ruleset::from_bytes(rules.as_bytes(), &options).expect("not strict");
        let message = Message::parse(raw.as_bytes());
        let (envelope, facts) = (Envelope::default(), Facts::default());
        let mut scratch = RulesScratch::default();
        (ruleset.scan(&message, &envelope, &facts, 1_700_000_000, &mut scratch), report)
    }

    fn names(outcome: &Outcome) -> Vec<&str> {
        outcome.sub.iter().map(|s| &*s.0).collect()
    }

    #[test]
    fn headers_metas_and_scores() {
        let rules = "header A Subject =~ /hello/i\nscore A 2\n\
            header B X-None !~ /x/\nheader C X-None =~ /none/ [if-unset: none]\n\
            header D exists:Subject\nscore D 0\nheader __E Subject =~ /o/\n\
            tflags __E multiple\nmeta F (A && B) + __E >= 3\nscore F -1.5\n\
            header G Subject =~ /o/\ntflags G multiple\nscore G 0.25\n\
            meta H !D\nmeta __I A || B\n";
        let (outcome, report) = scan(rules, "Subject: Hello world\n\nbody\n");
        assert_eq!(names(&outcome), ["A", "B", "C", "F", "G", "H", "__E", "__I"], "{report:?}");
        assert!((outcome.score - (2.0 + 1.0 + 1.0 - 1.5 + 0.5 + 1.0)).abs() < 1e-9);
        let f = outcome.hits.iter().find(|h| &*h.rule == "F").unwrap();
        let operands: Vec<_> = f.evidence.iter().filter_map(|e| e.name.as_deref()).collect();
        assert_eq!(operands, ["A", "B", "__E"]);
        let a = outcome.hits.iter().find(|h| &*h.rule == "A").unwrap();
        assert_eq!((a.evidence[0].offset, a.evidence[0].text.as_str()), (0, "Hello"));
    }

    #[test]
    fn uri_details_need_one_uri_that_meets_all() {
        let rules = "uri_detail A domain =~ /^example\\.com$/ text =~ /click/i\n\
            uri_detail B host =~ /nowhere/ type =~ /^a$/\n";
        let raw = "Subject: x\nContent-Type: text/html\n\n\
            <a href=\"http://www.example.com/x\">Click here</a>\n";
        let (outcome, report) = scan(rules, raw);
        assert_eq!(names(&outcome), ["A"], "{report:?}");
    }

    #[test]
    fn metas_in_a_circle_are_reported() {
        let (outcome, report) = scan("meta A B\nmeta B A\nmeta C !A\n", "Subject: x\n\n");
        assert!(outcome.sub.is_empty(), "{outcome:?}");
        assert_eq!(report.problems.len(), 3, "{report:?}");
    }

    #[test]
    fn a_true_meta_with_score_0_blocks_what_needs_it() {
        let (outcome, _) = scan("meta A 1\nscore A 0\nmeta B !A\nmeta C 1\n", "Subject: x\n\n");
        assert_eq!(names(&outcome), ["C"]);
        let rules = "header __X Subject =~ /x/\nmeta A __X\nscore A 0\nmeta B !A\nmeta C A || __Y\n\
            header __Y Subject =~ /y/\nmeta D !B\nmeta E !__NONE\nmeta F !G\nmeta G A || __NONE\n\
            score G 0\n";
        let (outcome, _) = scan(rules, "Subject: y\n\n");
        assert_eq!(names(&outcome), ["B", "C", "E", "__Y"], "A is known to be false");
        let (outcome, _) = scan(rules, "Subject: xy\n\n");
        assert_eq!(names(&outcome), ["E", "__X", "__Y"], "A is true, and its users wait for ever");
    }

    #[test]
    fn what_cannot_run_or_fire_is_reported() {
        let huge = format!("body A /(?=x)(?:{}){{400}}/\n", "abcdefgh|".repeat(60) + "z");
        let rules = format!("{huge}body B /y/\nmeta C __NONE && B\nmeta D __NONE || B\n");
        let (ruleset, report) =
            Ruleset::from_bytes(rules.as_bytes(), &LoadOptions::default()).expect("not strict");
        let not_run: Vec<&str> = ruleset.not_run().iter().map(|(rule, _)| &*rule.name).collect();
        assert_eq!(not_run, ["A"]);
        let notes: Vec<_> = report.problems.iter().filter_map(|p| p.rule.as_deref()).collect();
        assert_eq!(notes, ["C"], "{report:?}");
    }

    #[test]
    fn marks_of_other_filters_are_no_part_of_the_message() {
        let rules = "header A X-Spam-Status =~ /./\nheader B ALL =~ /x-spam-/i\n\
            full C /X-Spam-Status/\nheader D ALL:raw =~ /X-Spam-Status/\n";
        let (outcome, _) = scan(rules, "X-Spam-Status: Yes\nSubject: x\n\n");
        assert_eq!(names(&outcome), ["C", "D"]);
    }

    #[test]
    fn freemail_rules_take_addresses_out_of_the_body() {
        let rules = "freemail_domains gmail.com\nutil_rb_tld com\nbody A /alice/\n\
            header F eval:check_freemail_body()\nbody B /alice/\npriority B -1\n";
        let raw = "Subject: x\n\nOn Monday <alice@gmail.com> said more\n";
        let (outcome, _) = scan(rules, raw);
        assert_eq!(names(&outcome), ["B"], "B runs before the rule that takes it out");
        let (outcome, _) = scan(rules, "Subject: x\n\nwrite to alice@gmail.com\n");
        assert_eq!(names(&outcome), ["A", "B", "F"]);
    }

    #[test]
    fn anchors_without_target_and_signers_are_uris() {
        let rules = "uri A /^$/\nuri_detail B domain =~ /^example\\.com$/ type =~ /domainkeys/\n\
            uri_detail C cleaned =~ /example/\n";
        let raw = "DKIM-Signature: v=1; d=mail.example.com; s=a\nContent-Type: text/html\n\n\
            <a name=top>x</a>\n";
        assert_eq!(names(&scan(rules, raw).0), ["A", "B"]);
    }

    #[test]
    fn every_hit_has_evidence() {
        let rules = "header N Subject !~ /x/\nheader U X-None =~ /^unset$/ [if-unset: unset]\n\
            header X exists:Subject\nmeta NOT !__NEVER\nbody __NEVER /never/\n\
            header E eval:check_for_missing_to_header()\nmeta M E && N\n\
            mimeheader P Content-Type !~ /image/\nbody L eval:check_body_length('1000')\n";
        let (outcome, report) = scan(rules, "Subject: hi there\n\ntext\n");
        assert!(report.problems.is_empty(), "{:?}", report.problems);
        assert_eq!(names(&outcome), ["E", "L", "M", "N", "NOT", "P", "U", "X"]);
        let evidence = |name: &str| {
            let hit = outcome.hits.iter().find(|h| &*h.rule == name).expect("hit");
            let first = hit.evidence.first().unwrap_or_else(|| panic!("{name} has no evidence"));
            (first.view, first.name.clone().unwrap_or_default(), first.text.clone())
        };
        let all = ["E", "L", "M", "N", "NOT", "P", "U", "X"].map(evidence);
        assert_eq!(all[0], (View::Header, "ToCc".into(), String::new()));
        assert_eq!(all[1], (View::SaBody, "check_body_length('1000')".into(), String::new()));
        assert_eq!(all[3], (View::Header, "subject".into(), "hi there\n".into()));
        assert_eq!(all[4], (View::Meta, "!__NEVER".into(), String::new()));
        assert_eq!(all[6], (View::Header, "x-none".into(), String::new()));
    }

    #[test]
    fn tags_are_captured_and_standard() {
        let rules = "header __C From:addr =~ /^(?<LOCAL>\\w+)@(?<DOM_1>\\S+)/\n\
            body A /\\b%{LOCAL}\\b/\nheader B To =~ /%{DOM_1}/\nheader N To !~ /%{DOM_1}/\n\
            body D /%{NEVER}/\nheader E Message-Id =~ /%{AUTHORDOMAIN}/\n\
            full F /RE: %{HEADER(Subject)}/i\nbody I /%{LOCAL}@?%{AUTHORDOMAIN}/\nbody G /%{HEADER(X-None)}/\nbody H /\\%{LOCAL}/\n\
            required_score 4.25\nfull R /score %{REQD} is/\n";
        let raw = "From: bob@example.com\nTo: bob@example.org\nMessage-Id: <1@example.com>\n\
            Subject: hi\n\nI am bob\nre: hi\nscore 4.2 is\n";
        let (outcome, _) = scan(rules, raw);
        assert_eq!(names(&outcome), ["A", "E", "F", "N", "R", "__C"]);
        let e = outcome.hits.iter().find(|h| &*h.rule == "E").unwrap();
        assert_eq!((e.evidence[0].offset, e.evidence[0].text.as_str()), (3, "example.com"));
    }

    #[test]
    fn empty_matches_are_counted_as_perl_counts_them() {
        let rules = "header A Subject =~ /\\d*/\ntflags A multiple\nheader B Subject =~ /|a/\n\
            tflags B multiple\n";
        let (outcome, _) = scan(rules, "Subject: a1\n\n");
        let counts: Vec<f64> = outcome.sub.iter().map(|s| s.1).collect();
        // "", "1", "", "" and "", "a", "", "", "" of "a1\n".
        assert_eq!(counts, [4.0, 5.0]);
    }

    #[test]
    fn functions_of_another_kind_do_not_run() {
        let rules = "body A eval:check_for_missing_to_header()\nheader B From:ADDR =~ /x/\n";
        let (outcome, report) = scan(rules, "Subject: a\n\n");
        assert!(outcome.sub.is_empty(), "{outcome:?}");
        assert_eq!(report.problems.len(), 2, "{report:?}");
    }

    #[test]
    fn a_spent_budget_is_a_defect() {
        let text = "a".repeat(60);
        let raw = format!("Subject: {text}!\n\n");
        let (outcome, report) = scan("header A Subject =~ /(?=a)(a+)+$(?!!)/\n", &raw);
        assert_eq!(outcome.defects.len(), 1, "{outcome:?}");
        assert!(report.problems.iter().any(|p| p.message.contains("backtrack")), "{report:?}");
    }
}
