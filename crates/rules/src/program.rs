//! Compiled rules, grouped by the view that they match.

mod compile;
mod evidence;

use crate::document::{Document, Function, Texts};
use crate::hit_rates::HitRates;
use crate::matcher::headers::HeaderRules;
use crate::matcher::mime::{MimeRule, MimeRules};
use crate::matcher::pending::{Candidate, Work};
use crate::matcher::tags::{TemplateOn, TemplateRule};
use crate::matcher::texts::{MemberSummary, TextRules};
use crate::matcher::uri_detail::UriDetailRule;
use crate::matcher::{Location, Tally};
use crate::meta::Metas;
use crate::options::Profile;
use crate::pattern::Pattern;
use crate::rule::Rule;
use crate::stages::{self, Stage};

/// Estimates for the cost and count of a rule before it is evaluated.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Estimate {
    /// Most hits that count.
    pub(crate) hits_max: f64,
    /// Length of the pattern in bytes.
    pub(crate) length: usize,
    /// Roughly how many steps its pattern takes per byte of text.
    pub(crate) tries_per_byte: usize,
}

impl Default for Estimate {
    fn default() -> Self {
        Estimate { hits_max: f64::from(u32::MAX), length: 0, tries_per_byte: 1 }
    }
}

/// All rules of a ruleset that run.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) headers: HeaderRules,
    body: TextRules,
    rawbody: TextRules,
    uri: TextRules,
    full: TextRules,
    mime: MimeRules,
    templates: Vec<TemplateRule>,
    uri_details: Vec<UriDetailRule>,
    /// Eval rules; those that edit the body come first.
    evals: Vec<EvalRule>,
    /// For each eval its rule, and whether it is deferrable; separate, because deferring reads only
    /// these.
    eval_heads: Vec<(u32, bool)>,
    /// The rules of evals in order, each with its index in `evals`.
    eval_indexes: Vec<(u32, u32)>,
    /// Number of evals that edit the body.
    editors: usize,
    /// Lowest priority of those.
    editors_priority: i32,
    pub(crate) metas: Metas,
    /// The stages in the order in which they are run.
    order: Vec<Stage>,
    /// What is known of each rule before it is tried.
    estimates: Vec<Estimate>,
}

#[derive(Debug)]
struct EvalRule {
    rule: u32,
    function: Function,
    priority: i32,
}

impl EvalRule {
    fn run(&self, document: &dyn Document, tally: &mut Tally) {
        tally.timed(self.rule, |tally| {
            let value = document.call(self.function.number);
            if value > 0 {
                tally.hit(self.rule, value, Location::None);
            }
        });
    }
}

impl Program {
    /// Shuffles the order of stages, for tests that it does not matter.
    pub(crate) fn shuffle(&mut self, seed: u64) {
        stages::shuffle(&mut self.order, seed);
    }

    /// Runs the stages first in which rules decide that hit often of late.
    pub(crate) fn order_by(&mut self, rules: &[Rule], profile: Profile, rates: &HitRates) {
        self.order = stages::order_by(rules, &self.metas, profile, Some(rates));
    }

    /// The stages in the order in which they are run.
    pub(crate) fn order(&self) -> &[Stage] {
        &self.order
    }

    /// Runs the functions that edit the body: before the rules that see it.
    pub(crate) fn run_editors(&self, document: &dyn Document, tally: &mut Tally) {
        self.evals.iter().take(self.editors).for_each(|rule| rule.run(document, tally));
    }

    /// Runs the rules of a stage; metas are left to [`crate::scan`].
    pub(crate) fn run_stage(&self, stage: Stage, document: &dyn Document, tally: &mut Tally) {
        match stage {
            Stage::Headers => self.headers.scan(document, tally),
            Stage::Body => self.scan_body(document, tally),
            Stage::Rawbody if self.rawbody.is_empty() => {}
            Stage::Rawbody => {
                self.rawbody.scan(document.texts(Texts::Rawbody), Location::Rawbody, tally);
            }
            Stage::Uri if self.uri.is_empty() => {}
            Stage::Uri => {
                self.uri.scan(document.texts(Texts::Uris), Location::Uri, tally);
            }
            Stage::Full if self.full.is_empty() => {}
            Stage::Full => {
                let full = document.text(Texts::Full, 0).unwrap_or_default();
                self.full.scan_one(full, Location::Full, tally);
            }
            Stage::Mime => self.mime.scan(document, tally),
            Stage::UriDetails => self.run_uri_details(document, tally),
            Stage::Evals => self.run_evals(document, tally),
            Stage::Templates => self.run_templates(document, tally),
            Stage::Metas => {}
        }
    }

    fn run_uri_details(&self, document: &dyn Document, tally: &mut Tally) {
        for (at, rule) in (0u32..).zip(&self.uri_details) {
            if tally.pending.is_on && rule.is_deferrable {
                tally.pending.defer(rule.rule, Work::UriDetail(at));
            } else {
                rule.scan(document, tally);
            }
        }
    }

    fn run_evals(&self, document: &dyn Document, tally: &mut Tally) {
        for (at, (rule, is_deferrable)) in (0u32..).zip(&self.eval_heads).skip(self.editors) {
            if tally.pending.is_on && *is_deferrable {
                tally.pending.defer(*rule, Work::Eval(at));
            } else {
                self.run_eval(at, document, tally);
            }
        }
    }

    fn run_templates(&self, document: &dyn Document, tally: &mut Tally) {
        for (at, rule) in (0u32..).zip(&self.templates) {
            if !(tally.pending.is_on && rule.member.is_deferrable) {
                self.run_template(at, document, tally);
            } else if rule.has_values(document, tally) {
                tally.pending.defer(rule.member.rule, Work::Template(at));
            }
        }
    }

    /// Calls the function of the eval rule with this index in the program.
    pub(crate) fn run_eval(&self, at: u32, document: &dyn Document, tally: &mut Tally) {
        if let Some(rule) = self.evals.get(at as usize) {
            rule.run(document, tally);
        }
    }

    /// Runs a rule with tags.
    pub(crate) fn run_template(&self, at: u32, document: &dyn Document, tally: &mut Tally) {
        if let Some(rule) = self.templates.get(at as usize) {
            run_template(rule, at, document, tally);
        }
    }

    /// Runs a `uri_detail` rule.
    pub(crate) fn run_uri_detail(&self, at: u32, document: &dyn Document, tally: &mut Tally) {
        if let Some(rule) = self.uri_details.get(at as usize) {
            rule.scan(document, tally);
        }
    }

    /// Matches a deferred candidate.
    pub(crate) fn try_text(
        &self,
        candidate: Candidate,
        document: &dyn Document,
        tally: &mut Tally,
    ) {
        let Some((rules, text)) = self.text_of(candidate, document, tally) else { return };
        if let Some(member) = rules.members().get(candidate.member as usize) {
            member.try_text(text, candidate.start as usize, candidate.location, tally);
        }
    }

    fn text_of<'v>(
        &self,
        candidate: Candidate,
        document: &'v dyn Document,
        tally: &Tally,
    ) -> Option<(&TextRules, &'v [u8])> {
        let (rules, texts, at) = match candidate.location {
            // The body may have been edited since the candidate was recorded.
            Location::Body(at) if tally.is_body_edited => (&self.body, Texts::Body, at),
            Location::Body(at) => (&self.body, Texts::UneditedBody, at),
            Location::Rawbody(at) => (&self.rawbody, Texts::Rawbody, at),
            Location::Uri(at) => (&self.uri, Texts::Uris, at),
            Location::Full => (&self.full, Texts::Full, 0),
            Location::Header(_) | Location::Part(_) | Location::Template(_) | Location::None => {
                return None;
            }
        };
        Some((rules, document.text(texts, at)?))
    }

    /// Estimates for the cost and count of a rule before it is evaluated.
    pub(crate) fn estimate(&self, rule: u32) -> Estimate {
        self.estimates.get(rule as usize).copied().unwrap_or_default()
    }

    /// Evaluates the `body` rules. Those with a lower priority than the functions that edit the
    /// body see it unedited.
    fn scan_body(&self, document: &dyn Document, tally: &mut Tally) {
        if self.body.is_empty() {
            return;
        }
        let body = document.texts(Texts::Body);
        tally.is_body_edited = document.has_edited_body();
        let hidden_from = document.hidden_from();
        let shows = |summary: &MemberSummary, number| !summary.is_nice || number < hidden_from;
        if !tally.is_body_edited {
            return self.body.scan_some(body, Location::Body, shows, tally);
        }
        // The two groups of rules see different texts, which candidates do not distinguish: none is
        // deferred.
        let is_on = std::mem::replace(&mut tally.pending.is_on, false);
        let unedited = document.texts(Texts::UneditedBody);
        let early = |summary: &MemberSummary, _| summary.priority < self.editors_priority;
        self.body.scan_some(unedited, Location::Body, early, tally);
        let late = |summary: &MemberSummary, _| summary.priority >= self.editors_priority;
        self.body.scan_some(body, Location::Body, late, tally);
        tally.pending.is_on = is_on;
    }

    /// Every pattern with the index of its rule.
    pub(crate) fn patterns(&self) -> impl Iterator<Item = (u32, &Pattern)> {
        let texts = [&self.body, &self.rawbody, &self.uri, &self.full];
        let texts = texts.into_iter().flat_map(|t| t.members().iter());
        let mime = self.mime.iter().map(MimeRule::member);
        texts.chain(self.headers.members()).chain(mime).map(|m| (m.rule, &m.pattern))
    }

    /// Rules on text views without required strings or sequences: tried on every text.
    pub(crate) fn unfiltered(&self) -> Vec<(&'static str, u32)> {
        let views = [
            ("body", &self.body),
            ("rawbody", &self.rawbody),
            ("uri", &self.uri),
            ("full", &self.full),
        ];
        views.iter().flat_map(|(name, t)| t.always().map(move |m| (*name, m.rule))).collect()
    }
}

fn run_template(rule: &TemplateRule, number: u32, document: &dyn Document, tally: &mut Tally) {
    match &rule.on {
        TemplateOn::Body => {
            rule.scan(document.texts(Texts::Body), Location::Body, document, tally);
        }
        TemplateOn::Rawbody => {
            rule.scan(document.texts(Texts::Rawbody), Location::Rawbody, document, tally);
        }
        TemplateOn::Full => {
            rule.scan(document.texts(Texts::Full), |_| Location::Full, document, tally);
        }
        TemplateOn::Uri => {
            rule.scan(document.texts(Texts::Uris), Location::Uri, document, tally);
        }
        TemplateOn::Header(selector, if_unset) => {
            let value = document.header(selector);
            let location =
                if value.is_some() { Location::Template(number) } else { Location::None };
            let unset = if_unset.as_deref().unwrap_or_default().as_bytes();
            let value = value.as_deref().unwrap_or(unset);
            rule.scan(std::iter::once(value), |_| location, document, tally);
        }
    }
}
