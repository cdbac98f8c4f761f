//! All rules, compiled, immutable.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use gauntlet_mail::evidence::EVIDENCE_PER_HIT_MAX;
use gauntlet_mail::{Defect, Evidence, Hit, View};

use crate::document::{Document, Functions};
use crate::hit_rates::HitRates;
use crate::language::{self, Config, SourceHash};
use crate::matcher::{Found, Tally};
use crate::options::{LoadOptions, Profile};
use crate::pattern::scratch::ScratchPool;
use crate::problem::{Problem, Severity};
use crate::program::Program;
use crate::rule::{Rule, Source, Test};
use crate::scan;
use crate::settings::Settings;
use crate::stages::ScoreBounds;

/// Why no ruleset was loaded; without `strict`, problems of single rules are only reported.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// A file or folder could not be read.
    #[error("cannot read {path}: {cause}")]
    Read {
        /// The file or folder.
        path: String,
        /// The error of the operating system.
        cause: std::io::Error,
    },
    /// Problems were found, and the load was strict.
    #[error("{count} problems, the first: {first}")]
    Strict {
        /// Number of errors and warnings.
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
    /// Scores of rules that none of the files has, by name.
    pub loose_scores: BTreeMap<String, f64>,
}

/// Buffers of one scan thread.
#[derive(Debug, Default)]
pub struct RulesScratch {
    tally: Tally,
}

impl RulesScratch {
    /// Buffers that also measure the cost of each rule.
    pub fn with_costs() -> Self {
        RulesScratch { tally: Tally { costs: Some(Vec::new()), ..Tally::default() } }
    }

    /// For each rule (as in [`Ruleset::rules`]) how often its pattern or function was tried, and
    /// the nanoseconds that took, over all messages so far.
    pub fn costs(&self) -> &[(u64, u64)] {
        self.tally.costs.as_deref().unwrap_or_default()
    }
}

/// The result of a scan.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Outcome {
    /// Scored rules that fired, by name, with evidence.
    pub hits: Vec<Hit>,
    /// Count of every rule that fired, sub-rules included, by name.
    pub sub: Vec<(Arc<str>, f64)>,
    /// Sum of the points, rounded to thousandths as SpamAssassin does.
    pub score: f64,
    /// Defects of rules that exceeded their match budget.
    pub defects: Vec<Defect>,
    /// The scan ended early ([`Ruleset::stop_early_at`]): hits and score are those found until
    /// then, on the same side of every threshold as in a full scan.
    pub stopped_early: bool,
}

/// All rules of one version, compiled. Immutable; shared by threads.
#[derive(Debug)]
pub struct Ruleset {
    rules: Vec<Rule>,
    settings: Settings,
    profile: Profile,
    subtests: bool,
    program: Program,
    version: Arc<str>,
    bounds: Option<ScoreBounds>,
    /// How often rules hit of late.
    rates: Option<HitRates>,
    /// Working memory for the next scans.
    scratches: ScratchPool,
}

impl Ruleset {
    /// Reads rules from folders and files, in this order, and compiles them.
    ///
    /// `functions` collects the calls of eval functions.
    ///
    /// # Errors
    /// If a source cannot be read, or with `strict` if there is any problem.
    pub fn load(
        sources: &[PathBuf],
        options: &LoadOptions,
        functions: &mut dyn Functions,
    ) -> Result<(Ruleset, LoadReport), LoadError> {
        let config = language::read(sources, options)
            .map_err(|(path, cause)| LoadError::Read { path: path.display().to_string(), cause })?;
        Self::compile(config, options, functions)
    }

    /// Compiles what was read.
    fn compile(
        mut config: Config,
        options: &LoadOptions,
        functions: &mut dyn Functions,
    ) -> Result<(Ruleset, LoadReport), LoadError> {
        if options.texts_alone {
            let is_of_texts =
                |at: &Source| options.texts.iter().any(|(name, _)| **name == *at.file);
            config.rules.retain(|rule| is_of_texts(&rule.at));
            config.problems.retain(|problem| is_of_texts(&problem.at));
        }
        let (program, problems) = Program::compile(&config.rules, options.profile, functions);
        let mut report = LoadReport {
            problems: config.problems,
            files: config.files,
            plugins: config.plugins,
            loose_scores: config.loose_scores,
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
        let ruleset = Ruleset {
            rules: config.rules,
            settings: config.settings,
            profile: options.profile,
            subtests: options.subtests,
            version: version(&config.sources, options).into(),
            program,
            bounds: None,
            rates: None,
            scratches: ScratchPool::default(),
        };
        Ok((ruleset, report))
    }

    /// Loads one text as the only rule file, with the plugins that SpamAssassin loads by default.
    /// The text cannot include files; sites of the options are not read. Fails as
    /// [`Ruleset::load`].
    pub fn from_bytes(
        text: &[u8],
        options: &LoadOptions,
        functions: &mut dyn Functions,
    ) -> Result<(Ruleset, LoadReport), LoadError> {
        Self::compile(language::read_bytes(text, options), options, functions)
    }

    /// Every rule, by name.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// Settings of the files that are not rules.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Identifies the rules and how they are run: equal versions give equal results.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Whether rules that need the network run.
    pub fn profile(&self) -> Profile {
        self.profile
    }

    /// Points from which a message is spam (`required_score`, by default 5).
    pub fn required_score(&self) -> f64 {
        self.settings.number("required_score", 5.0)
    }

    /// Rules that are tried on every text, because they have no required string that is rare
    /// enough; with the name of the view.
    pub fn unfiltered(&self) -> Vec<(&'static str, &Rule)> {
        let found = self.program.unfiltered();
        found.into_iter().filter_map(|(v, r)| Some((v, self.rules.get(r as usize)?))).collect()
    }

    /// Rules whose pattern no engine runs because it is too large and needs backtracking; with the
    /// cause.
    pub fn not_run(&self) -> Vec<(&Rule, String)> {
        let patterns = self.program.patterns();
        let causes = patterns.filter_map(|(rule, pattern)| Some((rule, pattern.why_not_run()?)));
        causes.filter_map(|(r, why)| Some((self.rules.get(r as usize)?, why))).collect()
    }

    /// Number of patterns that need backtracking, and of all patterns.
    pub fn backtracking_patterns(&self) -> (usize, usize) {
        let all: Vec<bool> = self.program.patterns().map(|(_, p)| p.needs_backtracking()).collect();
        (all.iter().filter(|b| **b).count(), all.len())
    }

    /// The rules that run in this profile: their score is not 0.
    pub fn running(&self) -> impl Iterator<Item = &Rule> + Clone {
        self.rules.iter().filter(|rule| self.profile.runs(rule))
    }

    /// Evaluates the rules on an item. Deterministic.
    pub fn scan(&self, document: &dyn Document, scratch: &mut RulesScratch) -> Outcome {
        let tally = &mut scratch.tally;
        tally.begin(self.scratches.take(), self.rules.len(), !self.subtests);
        let stopped_early = scan::run(&self.program, document, self.bounds.as_ref(), tally);
        self.scratches.put_back(std::mem::take(&mut tally.scratches));
        Outcome { stopped_early, ..self.outcome(document, tally) }
    }

    /// Lets scans end as soon as no remaining rule can move the score across one of these
    /// thresholds. A caller that compares the score only with them decides as after a full scan.
    #[must_use]
    pub fn stop_early_at(mut self, thresholds: &[f64]) -> Self {
        let metas = &self.program.metas;
        let rates = self.rates.as_ref();
        let bounds = ScoreBounds::new(&self.rules, metas, self.profile, thresholds, rates);
        self.bounds = Some(bounds);
        // What an early end leaves out is another at another order.
        let by = self.rates.as_ref().map_or_else(String::new, |rates| format!("-{}", rates.mark()));
        self.version = format!("{}-early{by}", self.version).into();
        self
    }

    /// Tries first what hit often of late: views, and metas that wait. Results are the same at any
    /// order; with [`Self::stop_early_at`], which has to come after this, scans end sooner.
    #[must_use]
    pub fn ordered_by(mut self, rates: &HitRates) -> Self {
        self.program.order_by(&self.rules, self.profile, rates);
        self.rates = (rates.messages() > 0).then(|| rates.clone());
        self
    }

    /// Shuffles the order of evaluation, which changes no result. For tests of that.
    #[must_use]
    pub fn in_other_order(mut self, seed: u64) -> Self {
        self.program.shuffle(seed);
        self
    }

    fn outcome(&self, document: &dyn Document, tally: &Tally) -> Outcome {
        let mut fired: Vec<(u32, Found)> =
            tally.fired.iter().copied().zip(tally.locations.iter().copied()).collect();
        // Rules are ordered by name.
        fired.sort_unstable_by_key(|f| f.0);
        let mut outcome =
            Outcome { defects: tally.budget_defects(&self.rules), ..Outcome::default() };
        let mut score = 0.0;
        for (index, location) in fired {
            let Some(rule) = self.rules.get(index as usize) else { continue };
            let count = tally.count(index);
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
                evidence: self.evidence(index, location, document, tally),
            });
        }
        outcome.score = (score * 1e3).round() / 1e3;
        outcome
    }

    /// The evidence of a hit; for a meta its operands that fired.
    fn evidence(
        &self,
        rule: u32,
        location: Found,
        document: &dyn Document,
        tally: &Tally,
    ) -> Vec<Evidence> {
        let is_meta =
            self.rules.get(rule as usize).is_some_and(|r| matches!(r.test, Test::Meta { .. }));
        if !is_meta {
            return self.program.evidence(rule, location, document).into_iter().collect();
        }
        let mut out = Vec::new();
        for &operand in self.program.metas.operands(rule as usize) {
            let Some(at) = tally.fired.iter().position(|f| *f == operand) else { continue };
            let Some(rule) = self.rules.get(operand as usize) else { continue };
            let location = tally.locations.get(at).copied().unwrap_or(Found::NOWHERE);
            let found = self.program.evidence(operand, location, document);
            let text = found.map_or(String::new(), |f| f.text);
            out.push(Evidence::new(View::Meta, 0, 0, text.as_bytes()).named(&rule.name));
            if out.len() >= EVIDENCE_PER_HIT_MAX {
                break;
            }
        }
        if out.is_empty() {
            // The meta is true because these did not fire.
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

/// A hash over everything that was read, and the profile.
fn version(sources: &SourceHash, options: &LoadOptions) -> String {
    format!("{:016x}-{}", sources.0, options.profile.name())
}
