//! Rules made ready to run, by what they look at.

use gauntlet_mail::{Evidence, View};

use crate::evals::{Eval, EvalContext, unknown_tags};
use crate::language::{Problem, Severity};
use crate::matcher::headers::{HeaderRules, HeaderRulesBuilder};
use crate::matcher::mime::{self, MimeRule};
use crate::matcher::tags::{TemplateOn, TemplateRule};
use crate::matcher::texts::TextRules;
use crate::matcher::uri_detail::UriDetailRule;
use crate::matcher::{Found, Member, Place, Tally};
use crate::meta::Metas;
use crate::pattern::{self, Pattern};
use crate::rule::{EvalKind, Rule, Test};
use crate::ruleset::Profile;
use crate::stages::{self, Bounds, Done, Stage};
use crate::views::Views;

/// All rules that run.
#[derive(Debug)]
pub(crate) struct Program {
    headers: HeaderRules,
    body: TextRules,
    rawbody: TextRules,
    uri: TextRules,
    full: TextRules,
    mime: Vec<MimeRule>,
    templates: Vec<TemplateRule>,
    uri_details: Vec<UriDetailRule>,
    /// Those that edit the body stand first.
    evals: Vec<EvalRule>,
    /// How many edit the body.
    editors: usize,
    /// Their least priority.
    editors_priority: i32,
    pub(crate) metas: Metas,
    /// In which order they are tried.
    order: Vec<Stage>,
}

/// An eval rule.
#[derive(Debug)]
struct EvalRule {
    rule: u32,
    eval: Eval,
    priority: i32,
}

impl EvalRule {
    fn run(&self, evals: &EvalContext<'_>, tally: &mut Tally) {
        tally.timed(self.rule, |tally| {
            let value = self.eval.run(evals);
            if value > 0 {
                tally.hit(self.rule, value, Place::None);
            }
        });
        evals.evidence.borrow_mut().clear();
    }
}

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

/// Whether a rule runs: its score in this profile's set is not 0.
pub(crate) fn runs(rule: &Rule, profile: Profile) -> bool {
    rule.scores[profile.score_set()] != 0.0
}

impl Program {
    /// Compiles the rules that run in this profile; problems say what does not.
    pub(crate) fn compile(rules: &[Rule], profile: Profile) -> (Program, Vec<Problem>) {
        let mut builder = Builder::default();
        let mut ran = vec![false; rules.len()];
        for (place, rule) in rules.iter().enumerate().filter(|(_, r)| runs(r, profile)) {
            match builder.add(place, rule, profile) {
                Ok(tried) => ran[place] = tried,
                Err(problem) => builder.problems.push(problem),
            }
        }
        builder.mime.sort_by(|a, b| a.selector().cmp(b.selector()));
        let local = profile == Profile::Local;
        let (metas, unsolved) = Metas::compile(rules, &|r| runs(r, profile), ran, local);
        for found in unsolved {
            let severity =
                if found.why.starts_with("never fires") { Severity::Note } else { Severity::Error };
            builder.problems.push(problem(&rules[found.rule], severity, found.why));
        }
        builder.evals.sort_by_key(|rule| !rule.eval.edits_body());
        let editors = builder.evals.iter().filter(|rule| rule.eval.edits_body());
        let priorities: Vec<i32> = editors.map(|rule| rule.priority).collect();
        let program = Program {
            order: stages::order(rules, &metas, profile),
            editors: priorities.len(),
            editors_priority: priorities.into_iter().min().unwrap_or(i32::MIN),
            headers: builder.headers.build(),
            body: TextRules::new(builder.body),
            rawbody: TextRules::new(builder.rawbody),
            uri: TextRules::new(builder.uri),
            full: TextRules::new(builder.full),
            mime: builder.mime,
            templates: builder.templates,
            uri_details: builder.uri_details,
            evals: builder.evals,
            metas,
        };
        (program, builder.problems)
    }

    /// Tries the rules in another order. For tests that it does not matter.
    pub(crate) fn shuffle(&mut self, seed: u64) {
        stages::shuffle(&mut self.order, seed);
    }

    /// Runs everything; the tally then holds each rule's count. With bounds it ends as soon as the
    /// rules that are left cannot change the class; the answer says whether it did.
    pub(crate) fn run(
        &self,
        views: &Views<'_>,
        evals: &EvalContext<'_>,
        bounds: Option<&Bounds>,
        tally: &mut Tally,
    ) -> bool {
        let mut done = Done::default();
        let mut may_edit = true;
        for stage in &self.order {
            // Those that change the body run before the rules that see it.
            if matches!(stage, Stage::Body | Stage::Evals) && std::mem::take(&mut may_edit) {
                let editors = self.evals.iter().take(self.editors);
                editors.for_each(|rule| rule.run(evals, tally));
            }
            self.run_stage(*stage, views, evals, tally);
            done.add(*stage);
            if *stage != Stage::Metas && bounds.is_some_and(|b| b.decided(done, tally)) {
                return true;
            }
        }
        false
    }

    fn run_stage(
        &self,
        stage: Stage,
        views: &Views<'_>,
        evals: &EvalContext<'_>,
        tally: &mut Tally,
    ) {
        match stage {
            Stage::Headers => self.headers.scan(views, tally),
            Stage::Body => self.scan_body(views, tally),
            Stage::Rawbody if self.rawbody.is_empty() => {}
            Stage::Rawbody => {
                self.rawbody.scan(views.rawbody().iter().map(Vec::as_slice), Place::Rawbody, tally);
            }
            Stage::Uri if self.uri.is_empty() => {}
            Stage::Uri => {
                self.uri.scan(views.uris().iter().map(|u| u.text.as_slice()), Place::Uri, tally);
            }
            Stage::Full if self.full.is_empty() => {}
            Stage::Full => self.full.scan(std::iter::once(views.full()), |_| Place::Full, tally),
            Stage::Mime => mime::scan(&self.mime, views, tally),
            Stage::UriDetails => self.uri_details.iter().for_each(|rule| rule.scan(views, tally)),
            Stage::Evals => {
                self.evals.iter().skip(self.editors).for_each(|rule| rule.run(evals, tally));
            }
            Stage::Templates => {
                for (number, rule) in (0u32..).zip(&self.templates) {
                    run_template(rule, number, evals, tally);
                }
            }
            Stage::Metas => {
                let mut due = std::mem::take(&mut tally.due);
                self.metas.run(&mut tally.counts, &mut tally.fired, &mut due);
                tally.places.resize(tally.fired.len(), Found::NOWHERE);
                tally.due = due;
            }
        }
    }

    /// Tries the `body` rules. Those with a lower priority than the rules that edit the body see it
    /// unedited.
    fn scan_body(&self, views: &Views<'_>, tally: &mut Tally) {
        if self.body.is_empty() {
            return;
        }
        let body = views.body().iter().map(Vec::as_slice);
        if !views.has_edited_body() {
            return self.body.scan(body, Place::Body, tally);
        }
        let unedited = views.unedited_body().iter().map(Vec::as_slice);
        self.body.scan_some(unedited, Place::Body, |m| m.priority < self.editors_priority, tally);
        self.body.scan_some(body, Place::Body, |m| m.priority >= self.editors_priority, tally);
    }

    /// Where a rule's first hit stands in the message.
    pub(crate) fn evidence(&self, rule: u32, at: Found, views: &Views<'_>) -> Option<Evidence> {
        let (view, offset, text) = match at.place {
            Place::Body(number) => {
                let (offset, text) = string_at(views.body(), number)?;
                (View::SaBody, offset, text)
            }
            Place::Rawbody(number) => {
                let (offset, text) = string_at(views.rawbody(), number)?;
                (View::SaRawbody, offset, text)
            }
            Place::Full => (View::Raw, 0, views.full()),
            Place::Uri(number) => (View::Url, 0, &*views.uris().get(number as usize)?.text),
            Place::Header(group) => {
                let selector = self.headers.selector(group)?;
                let value = views.header(selector)?;
                let (start, found) = at.quoted(&value)?;
                let found = Evidence::new(View::Header, 0, start, found);
                return Some(found.named(&selector.to_string()));
            }
            Place::Part(part) => {
                let rule = self.mime.iter().find(|m| m.member().rule == rule)?;
                let values = views.mime_headers(rule.selector());
                let value = values.get(usize::from(part))?.as_deref()?;
                let range = rule.member().pattern.find(value, 0).ok()??;
                let found = Evidence::new(View::Header, part, range.start, value.get(range)?);
                return Some(found.named(&rule.selector().to_string()));
            }
            Place::Template(number) => {
                let TemplateOn::Header(selector, _) = &self.templates.get(number as usize)?.on
                else {
                    return None;
                };
                let value = views.header(selector)?;
                let (start, found) = at.quoted(&value)?;
                let found = Evidence::new(View::Header, 0, start, found);
                return Some(found.named(&selector.to_string()));
            }
            Place::None => return None,
        };
        let (start, found) = at.quoted(text)?;
        Some(Evidence::new(view, 0, offset + start, found))
    }

    /// Every pattern with the place of its rule.
    pub(crate) fn patterns(&self) -> impl Iterator<Item = (u32, &Pattern)> {
        let texts = [&self.body, &self.rawbody, &self.uri, &self.full];
        let texts = texts.into_iter().flat_map(|t| t.members().iter());
        let mime = self.mime.iter().map(MimeRule::member);
        texts.chain(self.headers.members()).chain(mime).map(|m| (m.rule, &m.pattern))
    }

    /// Rules of the text views that no string speaks for: tried on every string.
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

fn string_at(strings: &[Vec<u8>], at: u32) -> Option<(usize, &[u8])> {
    let at = at as usize;
    let offset = strings.get(..at)?.iter().map(Vec::len).sum();
    Some((offset, strings.get(at)?))
}

fn run_template(rule: &TemplateRule, number: u32, evals: &EvalContext<'_>, tally: &mut Tally) {
    let views = evals.views;
    match &rule.on {
        TemplateOn::Body => {
            rule.scan(views.body().iter().map(Vec::as_slice), Place::Body, evals, tally);
        }
        TemplateOn::Rawbody => {
            rule.scan(views.rawbody().iter().map(Vec::as_slice), Place::Rawbody, evals, tally);
        }
        TemplateOn::Full => {
            rule.scan(std::iter::once(views.full()), |_| Place::Full, evals, tally);
        }
        TemplateOn::Uri => {
            rule.scan(views.uris().iter().map(|u| u.text.as_slice()), Place::Uri, evals, tally);
        }
        TemplateOn::Header(selector, if_unset) => {
            let value = views.header(selector);
            let place = if value.is_some() { Place::Template(number) } else { Place::None };
            let unset = if_unset.as_deref().unwrap_or_default().as_bytes();
            let value = value.as_deref().unwrap_or(unset);
            rule.scan(std::iter::once(value), |_| place, evals, tally);
        }
    }
}

pub(crate) fn problem(rule: &Rule, severity: Severity, message: String) -> Problem {
    Problem { severity, at: rule.at.clone(), rule: Some(rule.name.clone()), message }
}

impl Builder {
    /// Adds a rule; the answer says whether it is then tried on every message.
    fn add(&mut self, place: usize, rule: &Rule, profile: Profile) -> Result<bool, Problem> {
        match &rule.test {
            Test::Header { selector, negated, if_unset, .. } => {
                let member = self.member(place, rule, *negated)?;
                if member.pattern.templates().is_empty() {
                    self.headers.pattern(selector, member, if_unset.as_deref());
                } else {
                    let on = TemplateOn::Header(selector.clone(), if_unset.clone());
                    self.templates.push(TemplateRule::new(member, on));
                    return Ok(false);
                }
            }
            Test::Exists { selector } => self.headers.exists(selector, place),
            Test::Body { .. } => return self.text(place, rule, TemplateOn::Body),
            Test::Rawbody { .. } => return self.text(place, rule, TemplateOn::Rawbody),
            Test::Full { .. } => return self.text(place, rule, TemplateOn::Full),
            Test::Uri { .. } => return self.text(place, rule, TemplateOn::Uri),
            Test::MimeHeader { selector, negated, if_unset, .. } => {
                let member = self.member(place, rule, *negated)?;
                self.mime.push(MimeRule::new(rule, member, selector, if_unset));
            }
            Test::Eval { kind, call } => {
                if !rule.is_callable || skipped_eval(rule, *kind, profile) {
                    return Ok(false);
                }
                let eval = Eval::compile(call, *kind)
                    .map_err(|e| problem(rule, Severity::Note, format!("never fires: {e}")))?;
                self.evals.push(EvalRule { rule: place as u32, eval, priority: rule.priority });
            }
            Test::UriDetail { conditions } => {
                let compiled = UriDetailRule::new(place, conditions);
                let compiled =
                    compiled.map_err(|e| problem(rule, Severity::Error, e.to_string()))?;
                self.uri_details.push(compiled);
            }
            Test::AskDns { query, filter, .. } => {
                let unknown = unknown_tags(query);
                if !unknown.is_empty() {
                    let message = format!("never fires: no value for {}", unknown.join(", "));
                    return Err(problem(rule, Severity::Note, message));
                }
                if profile != Profile::Full {
                    return Ok(false);
                }
                let eval = Eval::of_template(&rule.name, filter.as_deref());
                let eval = eval.map_err(|e| problem(rule, Severity::Error, e.to_string()))?;
                self.evals.push(EvalRule { rule: place as u32, eval, priority: rule.priority });
            }
            Test::Meta { .. } | Test::Empty => return Ok(false),
        }
        Ok(true)
    }

    fn text(&mut self, place: usize, rule: &Rule, on: TemplateOn) -> Result<bool, Problem> {
        let member = self.member(place, rule, false)?;
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

    /// Compiles the rule's pattern, and says what is suspicious about it.
    fn member(&mut self, place: usize, rule: &Rule, negated: bool) -> Result<Member, Problem> {
        let text = rule.test.pattern().unwrap_or_default();
        let pattern =
            Pattern::new(text).map_err(|e| problem(rule, Severity::Error, e.to_string()))?;
        if let Some(node) = pattern.node() {
            if node.is_impossible() {
                let message = "the pattern can never match".to_owned();
                self.problems.push(problem(rule, Severity::Warning, message));
            }
            if let Some(danger) = pattern::backtracking_danger(node) {
                let message = format!("the pattern may backtrack without end: {danger}");
                self.problems.push(problem(rule, Severity::Warning, message));
            }
        }
        Ok(Member::new(place, rule, pattern, negated))
    }
}

/// Eval rules that SpamAssassin does not run with this score set.
fn skipped_eval(rule: &Rule, kind: EvalKind, profile: Profile) -> bool {
    let local = profile == Profile::Local;
    rule.has_flag("learn") || (local && (rule.has_flag("net") || kind == EvalKind::Rbl))
}
