//! All rules, compiled, immutable.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use gauntlet_mail::evidence::EVIDENCE_PER_HIT_MAX;
use gauntlet_mail::{Defect, Envelope, Evidence, Facts, Hit, Message, View};

use crate::evals::{EvalContext, EvalTables};
use crate::language::{self, Config, Problem, Severity, SourceHash};
use crate::matcher::{Found, Tally};
use crate::pattern::scratch::Spare;
use crate::program::{Program, runs};
use crate::questions::{Question, Restrictions};
use crate::rule::{Rule, Test};
use crate::settings::Settings;
use crate::stages::Bounds;
use crate::views::{TextViews, ViewSettings, Views};

/// Which rules run and which score set counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum Profile {
    /// As `spamassassin -L` without Bayes: what the message alone tells; score set 0.
    #[default]
    Local,
    /// Rules that need the network are answered from the facts; score set 1.
    Full,
}

/// How to load.
#[derive(Debug, Clone)]
pub struct LoadOptions {
    /// Folders with `.pre` and extra `.cf` files, read like `/etc/spamassassin`.
    pub site: Vec<PathBuf>,
    /// Which rules run.
    pub profile: Profile,
    /// Any error or warning refuses the whole set.
    pub strict: bool,
    /// Outcomes say how often every rule fired, sub-rules included.
    pub subtests: bool,
    /// Locale that `lang` lines are compared with, e.g. `en_US`.
    pub language: String,
    /// Rule files that are not on disk, name and content, read before the sources; they cannot
    /// include others.
    pub texts: Vec<(&'static str, &'static str)>,
}

impl Default for LoadOptions {
    fn default() -> Self {
        LoadOptions {
            site: Vec::new(),
            profile: Profile::Local,
            strict: false,
            subtests: false,
            language: "en_US".to_owned(),
            texts: Vec::new(),
        }
    }
}

/// Why nothing was loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// A file or folder could not be read.
    #[error("cannot read {path}: {cause}")]
    Read {
        /// The file or folder.
        path: String,
        /// What the system said.
        cause: std::io::Error,
    },
    /// Problems were found, and the load was strict.
    #[error("{count} problems, the first: {first}")]
    Strict {
        /// Errors and warnings.
        count: usize,
        /// The first of them.
        first: Box<Problem>,
    },
}

/// What was found while loading.
#[derive(Debug, Clone, Default)]
pub struct LoadReport {
    /// Problems in the order they were met.
    pub problems: Vec<Problem>,
    /// Loaded rules by kind.
    pub kinds: BTreeMap<&'static str, usize>,
    /// Files read, in order.
    pub files: Vec<PathBuf>,
    /// Packages of loaded plugins.
    pub plugins: Vec<String>,
}

/// Buffers of one scan thread.
#[derive(Debug, Default)]
pub struct RulesScratch {
    tally: Tally,
    /// Of the next message, and the version of the ruleset that made them.
    text: Option<(Arc<str>, TextViews)>,
}

impl RulesScratch {
    /// Buffers that also keep what each rule costs.
    pub fn with_costs() -> Self {
        RulesScratch { tally: Tally { costs: Some(Vec::new()), ..Tally::default() }, text: None }
    }

    /// What is known already of the text of the message that is scanned next; none forgets what was
    /// given before. It counts only for the ruleset that it came from ([`Ruleset::questions`]).
    pub fn give(&mut self, text: Option<(Arc<str>, TextViews)>) {
        self.text = text;
    }

    /// For each rule (as in [`Ruleset::rules`]) how often its pattern or function was tried, and the
    /// nanoseconds that took, over all messages so far.
    pub fn costs(&self) -> &[(u64, u64)] {
        self.tally.costs.as_deref().unwrap_or_default()
    }
}

/// What the rules say about a message.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Outcome {
    /// Scored rules that fired, by name, with evidence.
    pub hits: Vec<Hit>,
    /// Count of every rule that fired, sub-rules included, by name.
    pub sub: Vec<(Arc<str>, f64)>,
    /// Sum of the points, rounded to thousandths as SpamAssassin does.
    pub score: f64,
    /// Rules that ran out of their budget.
    pub defects: Vec<Defect>,
    /// The scan ended early ([`Ruleset::stop_early_at`]): hits and score are those found until then,
    /// on the same side of every threshold as all of them would be.
    pub stopped_early: bool,
}

impl Profile {
    /// `local` or `full`.
    pub fn name(self) -> &'static str {
        match self {
            Profile::Local => "local",
            Profile::Full => "full",
        }
    }

    /// Which of a rule's four scores counts: 0 local, 1 network.
    pub fn score_set(self) -> usize {
        match self {
            Profile::Local => 0,
            Profile::Full => 1,
        }
    }
}

/// All rules of one version, compiled. Immutable; shared by threads.
#[derive(Debug)]
pub struct Ruleset {
    rules: Vec<Rule>,
    settings: Settings,
    view_settings: ViewSettings,
    eval_tables: EvalTables,
    profile: Profile,
    subtests: bool,
    program: Program,
    version: Arc<str>,
    bounds: Option<Bounds>,
    /// For the next scans.
    scratches: Spare,
}

impl Ruleset {
    /// Reads rules from folders and files, in this order, and compiles them.
    ///
    /// Fails if a source cannot be read, or with `strict` if anything is wrong with the rules.
    pub fn load(
        sources: &[PathBuf],
        options: &LoadOptions,
    ) -> Result<(Ruleset, LoadReport), LoadError> {
        let config = language::read(sources, options)
            .map_err(|(path, cause)| LoadError::Read { path: path.display().to_string(), cause })?;
        Self::compile(config, options)
    }

    /// Compiles what was read.
    fn compile(config: Config, options: &LoadOptions) -> Result<(Ruleset, LoadReport), LoadError> {
        let (program, problems) = Program::compile(&config.rules, options.profile);
        let mut report = LoadReport {
            problems: config.problems,
            files: config.files,
            plugins: config.plugins,
            ..LoadReport::default()
        };
        report.problems.extend(problems);
        for rule in &config.rules {
            *report.kinds.entry(rule.test.kind()).or_default() += 1;
        }
        let bad = |p: &&Problem| p.severity >= Severity::Warning;
        if options.strict
            && let Some(first) = report.problems.iter().find(bad)
        {
            let count = report.problems.iter().filter(bad).count();
            return Err(LoadError::Strict { count, first: Box::new(first.clone()) });
        }
        let mut eval_tables = EvalTables::from_settings(&config.settings);
        if options.profile == Profile::Full {
            let running = config.rules.iter().filter(|r| runs(r, options.profile));
            eval_tables = eval_tables.with_questions(&config.settings, running);
        }
        let ruleset = Ruleset {
            view_settings: ViewSettings::from_settings(&config.settings),
            eval_tables,
            rules: config.rules,
            settings: config.settings,
            profile: options.profile,
            subtests: options.subtests,
            version: version(&config.sources, options).into(),
            program,
            bounds: None,
            scratches: Spare::default(),
        };
        Ok((ruleset, report))
    }

    /// Loads one text as the only rule file, with the plugins of an installation as it comes. The
    /// text cannot include files; sites of the options are not read. Fails as [`Ruleset::load`].
    pub fn from_bytes(
        text: &[u8],
        options: &LoadOptions,
    ) -> Result<(Ruleset, LoadReport), LoadError> {
        Self::compile(language::read_bytes(text, options), options)
    }

    /// Every rule, by name.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// Settings of the files that are not rules.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The settings that views depend on.
    pub fn view_settings(&self) -> &ViewSettings {
        &self.view_settings
    }

    /// Names the rules and how they are run: equal versions judge alike.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Which rules run.
    pub fn profile(&self) -> Profile {
        self.profile
    }

    /// Points from which a message is spam (`required_score`, by default 5).
    pub fn required_score(&self) -> f64 {
        self.settings.number("required_score", 5.0)
    }

    /// Rules on texts that are tried on every text, because no string of theirs is rare enough; with
    /// the view.
    pub fn unfiltered(&self) -> Vec<(&'static str, &Rule)> {
        let found = self.program.unfiltered();
        found.into_iter().filter_map(|(v, r)| Some((v, self.rules.get(r as usize)?))).collect()
    }

    /// Rules whose pattern no engine runs, for it is too large and needs backtracking; with the cause.
    pub fn not_run(&self) -> Vec<(&Rule, String)> {
        let patterns = self.program.patterns();
        let causes = patterns.filter_map(|(rule, pattern)| Some((rule, pattern.why_not_run()?)));
        causes.filter_map(|(r, why)| Some((self.rules.get(r as usize)?, why))).collect()
    }

    /// How many patterns need backtracking, of how many.
    pub fn backtracking_patterns(&self) -> (usize, usize) {
        let all: Vec<bool> = self.program.patterns().map(|(_, p)| p.needs_backtracking()).collect();
        (all.iter().filter(|b| **b).count(), all.len())
    }

    /// Whether rules ask the DNS anything: in [`Profile::Full`] only.
    pub fn asks(&self) -> bool {
        self.eval_tables.asks()
    }

    /// The registered domain of a host name, by the boundaries that the rule files know.
    pub fn registered_domain(&self, host: &str) -> String {
        let domain = self.eval_tables.boundaries.trim(host.as_bytes());
        String::from_utf8_lossy(&domain).into_owned()
    }

    /// What rules may ask of the DNS, and which of them end that for a while.
    pub fn restrictions(&self) -> &Restrictions {
        self.eval_tables.restrictions()
    }

    /// What the rules ask of the DNS about a message. Signatures in `facts` must be judged already:
    /// rules ask about domains that signed.
    pub fn questions(
        &self,
        message: &Message<'_>,
        envelope: &Envelope,
        facts: &Facts,
    ) -> Vec<Question> {
        self.questions_and_text(message, envelope, facts).0
    }

    /// The same, with what was computed of the message's text on the way: for [`RulesScratch::give`], so
    /// that the scan need not do it again.
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
        let evals = EvalContext::new(&views, &self.eval_tables, now, self.profile);
        let questions = self.eval_tables.questions(&evals);
        (questions, Some((self.version.clone(), views.text())))
    }

    /// Judges a message; `now` is Unix time in seconds. Deterministic.
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
            && version == self.version
        {
            views = views.with_text(text);
        }
        let evals = EvalContext::new(&views, &self.eval_tables, now, self.profile);
        let tally = &mut scratch.tally;
        tally.begin(self.scratches.lend(), self.rules.len(), !self.subtests);
        let stopped_early = self.program.run(&views, &evals, self.bounds.as_ref(), tally);
        self.scratches.take_back(std::mem::take(&mut tally.scratches));
        Outcome { stopped_early, ..self.outcome(&views, tally) }
    }

    /// Ends a scan as soon as no rule that is left can move the score across one of these
    /// thresholds. Whoever compares the score with nothing else judges as after a whole scan.
    #[must_use]
    pub fn stop_early_at(mut self, thresholds: &[f64]) -> Self {
        let metas = &self.program.metas;
        self.bounds = Some(Bounds::new(&self.rules, metas, self.profile, thresholds));
        self.version = format!("{}-early", self.version).into();
        self
    }

    /// Tries the rules in another order, which changes nothing that is found. For tests of that.
    #[must_use]
    pub fn in_other_order(mut self, seed: u64) -> Self {
        self.program.shuffle(seed);
        self
    }

    fn outcome(&self, views: &Views<'_>, tally: &Tally) -> Outcome {
        let mut fired: Vec<(u32, Found)> =
            tally.fired.iter().copied().zip(tally.places.iter().copied()).collect();
        // Rules are ordered by name.
        fired.sort_unstable_by_key(|f| f.0);
        let mut outcome =
            Outcome { defects: tally.budget_defects(&self.rules), ..Outcome::default() };
        let mut score = 0.0;
        for (place_in_rules, place) in fired {
            let Some(rule) = self.rules.get(place_in_rules as usize) else { continue };
            let count = tally.count(place_in_rules);
            if self.subtests {
                outcome.sub.push((rule.name.clone(), count));
            }
            if rule.is_sub() {
                continue;
            }
            let by_hit = matches!(rule.test, Test::Meta { .. } | Test::Eval { .. });
            let times = if by_hit { 1 } else { count as u32 };
            let points = rule.scores[self.profile.score_set()] * f64::from(times);
            score += points;
            outcome.hits.push(Hit {
                rule: rule.name.clone(),
                score: points,
                count: times,
                description: rule.description.clone(),
                evidence: self.evidence(place_in_rules, place, views, tally),
            });
        }
        outcome.score = (score * 1e3).round() / 1e3;
        outcome
    }

    /// Where a hit stands; for a meta its operands that fired.
    fn evidence(&self, rule: u32, place: Found, views: &Views<'_>, tally: &Tally) -> Vec<Evidence> {
        let is_meta =
            self.rules.get(rule as usize).is_some_and(|r| matches!(r.test, Test::Meta { .. }));
        if !is_meta {
            return self.program.evidence(rule, place, views).into_iter().collect();
        }
        let mut out = Vec::new();
        for &operand in self.program.metas.operands(rule as usize) {
            let Some(at) = tally.fired.iter().position(|f| *f == operand) else { continue };
            let Some(rule) = self.rules.get(operand as usize) else { continue };
            let place = tally.places.get(at).copied().unwrap_or(Found::NOWHERE);
            let found = self.program.evidence(operand, place, views);
            let text = found.map_or(String::new(), |f| f.text);
            out.push(Evidence::new(View::Meta, 0, 0, text.as_bytes()).named(&rule.name));
            if out.len() >= EVIDENCE_PER_HIT_MAX {
                break;
            }
        }
        if out.is_empty() {
            // It is true because these did not fire.
            let operands = self.program.metas.operands(rule as usize).iter();
            let silent = operands.filter_map(|operand| self.rules.get(*operand as usize));
            let silent = silent.take(EVIDENCE_PER_HIT_MAX);
            out.extend(
                silent.map(|r| Evidence::new(View::Meta, 0, 0, b"").named(&format!("!{}", r.name))),
            );
        }
        out
    }
}

/// A hash over everything that was read, and over how it is run.
fn version(sources: &SourceHash, options: &LoadOptions) -> String {
    format!("{:016x}-{}", sources.0, options.profile.name())
}

#[cfg(test)]
mod tests {
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
    fn what_cannot_run_or_fire_is_said() {
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
