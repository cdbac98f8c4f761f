//! Compiling the rules of a set into a program.

use super::{Estimate, EvalRule, Program};
use crate::document::{CallError, Functions};
use crate::matcher::Member;
use crate::matcher::headers::HeaderRulesBuilder;
use crate::matcher::mime::{MimeRule, MimeRules};
use crate::matcher::tags::{TemplateOn, TemplateRule};
use crate::matcher::texts::TextRules;
use crate::matcher::uri_detail::UriDetailRule;
use crate::meta::Metas;
use crate::options::Profile;
use crate::pattern::frequency::TextKind;
use crate::pattern::syntax::Node;
use crate::pattern::{Pattern, danger};
use crate::problem::{Problem, Severity};
use crate::rule::{EvalKind, Rule, Test};
use crate::stages;

/// Collects rules while they are compiled.
#[derive(Debug, Default)]
struct Builder {
    headers: HeaderRulesBuilder,
    body: Vec<Member>,
    rawbody: Vec<Member>,
    uri: Vec<Member>,
    full: Vec<Member>,
    mime: Vec<MimeRule>,
    templates: Vec<TemplateRule>,
    uri_details: Vec<UriDetailRule>,
    evals: Vec<EvalRule>,
    problems: Vec<Problem>,
}

impl Program {
    /// Compiles the rules that run in this profile, and reports problems.
    pub(crate) fn compile(
        rules: &[Rule],
        profile: Profile,
        functions: &mut dyn Functions,
    ) -> (Program, Vec<Problem>) {
        let mut builder = Builder::default();
        let mut ran = vec![false; rules.len()];
        for (index, rule) in rules.iter().enumerate().filter(|(_, r)| profile.runs(r)) {
            match builder.add(index, rule, profile, functions) {
                Ok(tried) => ran[index] = tried,
                Err(problem) => builder.problems.push(problem),
            }
        }
        let local = profile == Profile::Local;
        let (metas, unresolved) = Metas::compile(rules, &|r| profile.runs(r), ran, local);
        for found in unresolved {
            let severity =
                if found.why.starts_with("never fires") { Severity::Note } else { Severity::Error };
            builder.problems.push(problem(&rules[found.rule], severity, found.why));
        }
        builder.evals.sort_by_key(|rule| !rule.function.edits_body);
        let editors = builder.evals.iter().filter(|rule| rule.function.edits_body);
        let priorities: Vec<i32> = editors.map(|rule| rule.priority).collect();
        let is_deferrable = |e: &EvalRule| {
            rules.get(e.rule as usize).is_some_and(Rule::is_sub) && !e.function.edits_body
        };
        let eval_heads = builder.evals.iter().map(|e| (e.rule, is_deferrable(e))).collect();
        let eval_indexes = builder.evals.iter().map(|rule| rule.rule).zip(0..);
        let mut eval_indexes: Vec<(u32, u32)> = eval_indexes.collect();
        eval_indexes.sort_unstable();
        let mut program = Program {
            order: stages::order(rules, &metas, profile),
            editors: priorities.len(),
            editors_priority: priorities.into_iter().min().unwrap_or(i32::MIN),
            headers: builder.headers.build(),
            body: TextRules::new(builder.body, TextKind::Mail),
            rawbody: TextRules::new(builder.rawbody, TextKind::Raw),
            uri: TextRules::new(builder.uri, TextKind::Uris),
            full: TextRules::on_one_text(builder.full),
            mime: MimeRules::new(builder.mime),
            templates: builder.templates,
            uri_details: builder.uri_details,
            evals: builder.evals,
            eval_heads,
            eval_indexes,
            metas,
            estimates: Vec::new(),
        };
        program.estimates = program.make_estimates(rules);
        (program, builder.problems)
    }

    fn make_estimates(&self, rules: &[Rule]) -> Vec<Estimate> {
        let length = |rule: &Rule| rule.test.pattern().map_or(0, str::len);
        let estimate = |rule| Estimate { length: length(rule), ..Estimate::default() };
        let mut estimates: Vec<Estimate> = rules.iter().map(estimate).collect();
        let texts = [&self.body, &self.rawbody, &self.uri, &self.full];
        let members = texts.into_iter().flat_map(|t| t.members().iter());
        for member in members.chain(self.headers.members()) {
            if let Some(estimate) = estimates.get_mut(member.rule as usize) {
                estimate.hits_max = f64::from(member.hits_max);
                estimate.tries_per_byte = 1 + member.pattern.node().map_or(0, wide_repeats);
            }
        }
        estimates
    }
}

/// How many parts of a pattern may take many bytes of nearly any kind, so that matching may go far
/// from each start.
fn wide_repeats(node: &Node) -> usize {
    /// Cost of such a part, relative to a plain step.
    const STEPS: usize = 4;
    /// Such a part is repeated at least so often beyond its minimum, over a set of at least so many
    /// bytes.
    const TIMES: u32 = 32;
    const BYTES: u32 = 128;
    match node {
        Node::Set(_) | Node::Anchor(_) | Node::Template { .. } => 0,
        Node::Backreference { .. } => STEPS,
        Node::Repeat { node, min, max, .. } => {
            let is_long = max.is_none_or(|max| max - min.min(&max) >= TIMES);
            let is_wide = matches!(node.as_ref(), Node::Set(set) if set.len() >= BYTES);
            if is_long && is_wide { STEPS } else { wide_repeats(node) }
        }
        Node::Concat(nodes) | Node::Alternate(nodes) => nodes.iter().map(wide_repeats).sum(),
        Node::Group { node, .. } | Node::Atomic(node) | Node::Around { node, .. } => {
            wide_repeats(node)
        }
    }
}

fn problem(rule: &Rule, severity: Severity, message: String) -> Problem {
    Problem { severity, at: rule.at.clone(), rule: Some(rule.name.clone()), message }
}

impl Builder {
    /// Adds a rule; returns whether it is evaluated on every message.
    fn add(
        &mut self,
        index: usize,
        rule: &Rule,
        profile: Profile,
        functions: &mut dyn Functions,
    ) -> Result<bool, Problem> {
        let refused = |r: CallError| problem(rule, r.severity, r.message);
        match &rule.test {
            Test::Header { selector, negated, if_unset, .. } => {
                let member = self.member(index, rule, *negated)?;
                if member.pattern.templates().is_empty() {
                    self.headers.pattern(selector, member, if_unset.as_deref());
                } else {
                    let on = TemplateOn::Header(selector.clone(), if_unset.clone());
                    self.templates.push(TemplateRule::new(member, on));
                    return Ok(false);
                }
            }
            Test::Exists { selector } => self.headers.exists(selector, index),
            Test::Body { .. } => return self.text(index, rule, TemplateOn::Body),
            Test::Rawbody { .. } => return self.text(index, rule, TemplateOn::Rawbody),
            Test::Full { .. } => return self.text(index, rule, TemplateOn::Full),
            Test::Uri { .. } => return self.text(index, rule, TemplateOn::Uri),
            Test::MimeHeader { selector, negated, if_unset, .. } => {
                let member = self.member(index, rule, *negated)?;
                self.mime.push(MimeRule::new(rule, member, selector, if_unset));
            }
            Test::Eval { kind, call } => {
                if !rule.is_callable || skipped_eval(rule, *kind, profile) {
                    return Ok(false);
                }
                let function = functions.add_call(call, *kind).map_err(refused)?;
                self.evals.push(EvalRule { rule: index as u32, function, priority: rule.priority });
            }
            Test::UriDetail { conditions } => {
                let compiled = UriDetailRule::new(index, rule, conditions);
                let compiled =
                    compiled.map_err(|e| problem(rule, Severity::Error, e.to_string()))?;
                self.uri_details.push(compiled);
            }
            Test::AskDns { query, filter, .. } => {
                let is_asked = profile == Profile::Full;
                let function = functions.add_query(&rule.name, query, filter.as_deref(), is_asked);
                let Some(function) = function.map_err(refused)? else { return Ok(false) };
                self.evals.push(EvalRule { rule: index as u32, function, priority: rule.priority });
            }
            Test::Meta { .. } | Test::Empty => return Ok(false),
        }
        Ok(true)
    }

    fn text(&mut self, index: usize, rule: &Rule, on: TemplateOn) -> Result<bool, Problem> {
        let member = self.member(index, rule, false)?;
        if !member.pattern.templates().is_empty() {
            self.templates.push(TemplateRule::new(member, on));
            return Ok(false);
        }
        match on {
            TemplateOn::Body => self.body.push(member),
            TemplateOn::Rawbody => self.rawbody.push(member),
            TemplateOn::Uri => self.uri.push(member),
            TemplateOn::Full | TemplateOn::Header(..) => self.full.push(member),
        }
        Ok(true)
    }

    /// Compiles the rule's pattern, and reports what is suspicious about it.
    fn member(&mut self, index: usize, rule: &Rule, negated: bool) -> Result<Member, Problem> {
        let text = rule.test.pattern().unwrap_or_default();
        let pattern =
            Pattern::new(text).map_err(|e| problem(rule, Severity::Error, e.to_string()))?;
        if let Some(node) = pattern.node() {
            if node.is_impossible() {
                let message = "the pattern can never match".to_owned();
                self.problems.push(problem(rule, Severity::Warning, message));
            }
            if let Some(danger) = danger::backtracking_danger(node) {
                let message = format!("the pattern may backtrack without end: {danger}");
                self.problems.push(problem(rule, Severity::Warning, message));
            }
        }
        Ok(Member::new(index, rule, pattern, negated))
    }
}

/// Eval rules that SpamAssassin does not run with this score set.
fn skipped_eval(rule: &Rule, kind: EvalKind, profile: Profile) -> bool {
    let local = profile == Profile::Local;
    rule.has_flag("learn") || (local && (rule.has_flag("net") || kind == EvalKind::Rbl))
}
