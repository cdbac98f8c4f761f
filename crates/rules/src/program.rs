//! Rules made ready to run, by what they look at.

use gauntlet_mail::{Evidence, View};

use crate::demand::Demand;
use crate::document::{Document, Function, Functions, Refused, Texts as DocumentTexts};
use crate::language::{Problem, Severity};
use crate::matcher::headers::{HeaderRules, HeaderRulesBuilder};
use crate::matcher::mime::{MimeRule, MimeRules};
use crate::matcher::pending::{Candidate, Work};
use crate::matcher::tags::{TemplateOn, TemplateRule};
use crate::matcher::texts::TextRules;
use crate::matcher::uri_detail::UriDetailRule;
use crate::matcher::{Found, Member, Place, Tally};
use crate::meta::Metas;
use crate::pattern::literal::Texts;
use crate::pattern::syntax::Node;
use crate::pattern::{self, Pattern};
use crate::rule::{EvalKind, HeaderSelector, Rule, Test};
use crate::ruleset::Profile;
use crate::stages::{self, Bounds, Done, Stage};

/// What is known of a rule before it is tried.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Prospect {
    /// Most hits that count.
    pub(crate) hits_max: f64,
    /// The pattern's length.
    pub(crate) length: usize,
    /// Roughly how many steps its pattern takes on a byte of text.
    pub(crate) tries_per_byte: usize,
}

impl Default for Prospect {
    fn default() -> Self {
        Prospect { hits_max: f64::from(u32::MAX), length: 0, tries_per_byte: 1 }
    }
}

/// All rules that run.
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
    /// Those that edit the body stand first.
    evals: Vec<EvalRule>,
    /// Of each of them the rule, and whether its answer may wait until a meta needs it.
    eval_heads: Vec<(u32, bool)>,
    /// Their rules, in order, with their places.
    eval_places: Vec<(u32, u32)>,
    /// How many edit the body.
    editors: usize,
    /// Their least priority.
    editors_priority: i32,
    pub(crate) metas: Metas,
    /// In which order they are tried.
    order: Vec<Stage>,
    /// What is known of each rule before it is tried.
    prospects: Vec<Prospect>,
}

/// An eval rule.
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
                tally.hit(self.rule, value, Place::None);
            }
        });
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
    pub(crate) fn compile(
        rules: &[Rule],
        profile: Profile,
        functions: &mut dyn Functions,
    ) -> (Program, Vec<Problem>) {
        let mut builder = Builder::default();
        let mut ran = vec![false; rules.len()];
        for (place, rule) in rules.iter().enumerate().filter(|(_, r)| runs(r, profile)) {
            match builder.add(place, rule, profile, functions) {
                Ok(tried) => ran[place] = tried,
                Err(problem) => builder.problems.push(problem),
            }
        }
        let local = profile == Profile::Local;
        let (metas, unsolved) = Metas::compile(rules, &|r| runs(r, profile), ran, local);
        for found in unsolved {
            let severity =
                if found.why.starts_with("never fires") { Severity::Note } else { Severity::Error };
            builder.problems.push(problem(&rules[found.rule], severity, found.why));
        }
        builder.evals.sort_by_key(|rule| !rule.function.edits_body);
        let editors = builder.evals.iter().filter(|rule| rule.function.edits_body);
        let priorities: Vec<i32> = editors.map(|rule| rule.priority).collect();
        let can_wait = |e: &EvalRule| {
            rules.get(e.rule as usize).is_some_and(Rule::is_sub) && !e.function.edits_body
        };
        let eval_heads = builder.evals.iter().map(|e| (e.rule, can_wait(e))).collect();
        let eval_places = builder.evals.iter().map(|rule| rule.rule).zip(0..);
        let mut eval_places: Vec<(u32, u32)> = eval_places.collect();
        eval_places.sort_unstable();
        let mut program = Program {
            order: stages::order(rules, &metas, profile),
            editors: priorities.len(),
            editors_priority: priorities.into_iter().min().unwrap_or(i32::MIN),
            headers: builder.headers.build(),
            body: TextRules::new(builder.body, Texts::Mail),
            rawbody: TextRules::new(builder.rawbody, Texts::Raw),
            uri: TextRules::new(builder.uri, Texts::Uris),
            full: TextRules::on_one_text(builder.full),
            mime: MimeRules::new(builder.mime),
            templates: builder.templates,
            uri_details: builder.uri_details,
            evals: builder.evals,
            eval_heads,
            eval_places,
            metas,
            prospects: Vec::new(),
        };
        program.prospects = program.find_prospects(rules);
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
        document: &dyn Document,
        bounds: Option<&Bounds>,
        tally: &mut Tally,
    ) -> bool {
        let mut done = Done::default();
        let mut may_edit = true;
        for stage in &self.order {
            // Those that change the body run before the rules that see it.
            if matches!(stage, Stage::Body | Stage::Evals) && std::mem::take(&mut may_edit) {
                let editors = self.evals.iter().take(self.editors);
                editors.for_each(|rule| rule.run(document, tally));
            }
            if *stage == Stage::Metas {
                return Demand::new(self, document, tally).run(bounds);
            }
            self.run_stage(*stage, document, tally);
            done.add(*stage);
            if bounds.is_some_and(|b| b.decided(done, tally)) {
                return true;
            }
        }
        false
    }

    fn run_stage(&self, stage: Stage, document: &dyn Document, tally: &mut Tally) {
        match stage {
            Stage::Headers => self.headers.scan(document, tally),
            Stage::Body => self.scan_body(document, tally),
            Stage::Rawbody if self.rawbody.is_empty() => {}
            Stage::Rawbody => {
                self.rawbody.scan(
                    document.rawbody().iter().map(Vec::as_slice),
                    Place::Rawbody,
                    tally,
                );
            }
            Stage::Uri if self.uri.is_empty() => {}
            Stage::Uri => {
                self.uri.scan(document.uris().iter().map(|u| u.text.as_slice()), Place::Uri, tally);
            }
            Stage::Full if self.full.is_empty() => {}
            Stage::Full => self.full.scan_one(document.full(), Place::Full, tally),
            Stage::Mime => self.mime.scan(document, tally),
            Stage::UriDetails => self.run_uri_details(document, tally),
            Stage::Evals => self.run_evals(document, tally),
            Stage::Templates => self.run_templates(document, tally),
            Stage::Metas => {}
        }
    }

    fn run_uri_details(&self, document: &dyn Document, tally: &mut Tally) {
        for (at, rule) in (0u32..).zip(&self.uri_details) {
            if tally.pending.is_on && rule.can_wait {
                tally.pending.put_off(rule.rule, Work::UriDetail(at));
            } else {
                rule.scan(document, tally);
            }
        }
    }

    fn run_evals(&self, document: &dyn Document, tally: &mut Tally) {
        for (at, (rule, can_wait)) in (0u32..).zip(&self.eval_heads).skip(self.editors) {
            if tally.pending.is_on && *can_wait {
                tally.pending.put_off(*rule, Work::Eval(at));
            } else {
                self.run_eval(at, document, tally);
            }
        }
    }

    fn run_templates(&self, document: &dyn Document, tally: &mut Tally) {
        for (at, rule) in (0u32..).zip(&self.templates) {
            if !(tally.pending.is_on && rule.member.can_wait) {
                self.run_template(at, document, tally);
            } else if rule.has_values(document, tally) {
                tally.pending.put_off(rule.member.rule, Work::Template(at));
            }
        }
    }

    /// Runs an eval.
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

    /// Runs a rule on the details of URIs that was put off.
    pub(crate) fn run_uri_detail(&self, at: u32, document: &dyn Document, tally: &mut Tally) {
        if let Some(rule) = self.uri_details.get(at as usize) {
            rule.scan(document, tally);
        }
    }

    /// Tries a rule on a text of a view that was put off.
    pub(crate) fn try_text(
        &self,
        candidate: Candidate,
        document: &dyn Document,
        tally: &mut Tally,
    ) {
        let Some((rules, text)) = self.text_of(candidate, document, tally) else { return };
        if let Some(member) = rules.members().get(candidate.member as usize) {
            member.try_text(text, candidate.start as usize, candidate.place, tally);
        }
    }

    fn text_of<'v>(
        &self,
        candidate: Candidate,
        document: &'v dyn Document,
        tally: &Tally,
    ) -> Option<(&TextRules, &'v [u8])> {
        let string = |strings: &'v [Vec<u8>], at: u32| strings.get(at as usize).map(Vec::as_slice);
        Some(match candidate.place {
            // The body may have been edited since.
            Place::Body(at) if tally.is_body_edited => (&self.body, string(document.body(), at)?),
            Place::Body(at) => (&self.body, string(document.unedited_body(), at)?),
            Place::Rawbody(at) => (&self.rawbody, string(document.rawbody(), at)?),
            Place::Uri(at) => (&self.uri, &*document.uris().get(at as usize)?.text),
            Place::Full => (&self.full, document.full()),
            Place::Header(_) | Place::Part(_) | Place::Template(_) | Place::None => {
                return None;
            }
        })
    }

    /// What is known of a rule before it is tried.
    pub(crate) fn prospect(&self, rule: u32) -> Prospect {
        self.prospects.get(rule as usize).copied().unwrap_or_default()
    }

    fn find_prospects(&self, rules: &[Rule]) -> Vec<Prospect> {
        let length = |rule: &Rule| rule.test.pattern().map_or(0, str::len);
        let prospect = |rule| Prospect { length: length(rule), ..Prospect::default() };
        let mut prospects: Vec<Prospect> = rules.iter().map(prospect).collect();
        let texts = [&self.body, &self.rawbody, &self.uri, &self.full];
        let members = texts.into_iter().flat_map(|t| t.members().iter());
        for member in members.chain(self.headers.members()) {
            if let Some(prospect) = prospects.get_mut(member.rule as usize) {
                prospect.hits_max = f64::from(member.hits_max);
                prospect.tries_per_byte = 1 + member.pattern.node().map_or(0, wide_repeats);
            }
        }
        prospects
    }

    /// Tries the `body` rules. Those with a lower priority than the rules that edit the body see it
    /// unedited.
    fn scan_body(&self, document: &dyn Document, tally: &mut Tally) {
        if self.body.is_empty() {
            return;
        }
        let body = document.body().iter().map(Vec::as_slice);
        tally.is_body_edited = document.has_edited_body();
        if !tally.is_body_edited {
            return self.body.scan(body, Place::Body, tally);
        }
        // Rules of two kinds see different strings: none of them waits.
        let is_on = std::mem::replace(&mut tally.pending.is_on, false);
        let unedited = document.unedited_body().iter().map(Vec::as_slice);
        self.body.scan_some(unedited, Place::Body, |p| p < self.editors_priority, tally);
        self.body.scan_some(body, Place::Body, |p| p >= self.editors_priority, tally);
        tally.pending.is_on = is_on;
    }

    /// Where a rule's first hit stands in the message.
    pub(crate) fn evidence(
        &self,
        rule: u32,
        at: Found,
        document: &dyn Document,
    ) -> Option<Evidence> {
        let (texts, number, text) = match at.place {
            Place::Body(number) => {
                (DocumentTexts::Body, number, string_at(document.body(), number)?)
            }
            Place::Rawbody(number) => {
                (DocumentTexts::Rawbody, number, string_at(document.rawbody(), number)?)
            }
            Place::Full => (DocumentTexts::Full, 0, document.full()),
            Place::Uri(number) => {
                (DocumentTexts::Uris, number, &*document.uris().get(number as usize)?.text)
            }
            Place::Header(group) => {
                let selector = self.headers.selector(group)?;
                // A rule may fire because the field is missing.
                let value = document.header(selector).unwrap_or_default();
                let (start, found) = at.quoted(&value).unwrap_or_default();
                let found = Evidence::new(View::Header, 0, start, found);
                return Some(found.named(&selector.to_string()));
            }
            Place::Part(part) => {
                let rule = self.mime.iter().find(|m| m.member().rule == rule)?;
                let values = document.mime_headers(rule.selector());
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
                let value = document.header(selector)?;
                let (start, found) = at.quoted(&value)?;
                let found = Evidence::new(View::Header, 0, start, found);
                return Some(found.named(&selector.to_string()));
            }
            Place::None => return self.evidence_of_no_place(rule, document),
        };
        let (start, found) = at.quoted(text)?;
        Some(document.evidence(texts, number, start, found))
    }

    /// What a rule saw that does not fire on a match at a place: an eval, a negated pattern.
    fn evidence_of_no_place(&self, rule: u32, document: &dyn Document) -> Option<Evidence> {
        let place = self.eval_places.binary_search_by_key(&rule, |place| place.0).ok();
        let eval = place.and_then(|at| self.evals.get(self.eval_places.get(at)?.1 as usize));
        if let Some(found) = eval {
            return Some(document.seen_by(found.function.number));
        }
        if let Some(found) = self.uri_details.iter().find(|u| u.rule == rule) {
            return Some(Evidence::new(View::Url, 0, 0, found.first(document)?));
        }
        let of_header = |selector: &HeaderSelector| {
            let value = document.header(selector).unwrap_or_default();
            Some(Evidence::new(View::Header, 0, 0, &value).named(&selector.to_string()))
        };
        if let Some(found) = self.mime.iter().find(|m| m.member().rule == rule) {
            return of_header(found.selector());
        }
        match &self.templates.iter().find(|t| t.member.rule == rule)?.on {
            TemplateOn::Header(selector, _) => of_header(selector),
            _ => None,
        }
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

/// How many parts of a pattern may take many bytes of nearly any kind, so that it may go far from
/// each place where it begins.
fn wide_repeats(node: &Node) -> usize {
    /// What each of them costs beside a plain step.
    const STEPS: usize = 4;
    /// Repeated at least so often more, and taking so many bytes.
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

fn string_at(strings: &[Vec<u8>], at: u32) -> Option<&[u8]> {
    strings.get(at as usize).map(Vec::as_slice)
}

fn run_template(rule: &TemplateRule, number: u32, document: &dyn Document, tally: &mut Tally) {
    match &rule.on {
        TemplateOn::Body => {
            rule.scan(document.body().iter().map(Vec::as_slice), Place::Body, document, tally);
        }
        TemplateOn::Rawbody => {
            rule.scan(
                document.rawbody().iter().map(Vec::as_slice),
                Place::Rawbody,
                document,
                tally,
            );
        }
        TemplateOn::Full => {
            rule.scan(std::iter::once(document.full()), |_| Place::Full, document, tally);
        }
        TemplateOn::Uri => {
            rule.scan(
                document.uris().iter().map(|u| u.text.as_slice()),
                Place::Uri,
                document,
                tally,
            );
        }
        TemplateOn::Header(selector, if_unset) => {
            let value = document.header(selector);
            let place = if value.is_some() { Place::Template(number) } else { Place::None };
            let unset = if_unset.as_deref().unwrap_or_default().as_bytes();
            let value = value.as_deref().unwrap_or(unset);
            rule.scan(std::iter::once(value), |_| place, document, tally);
        }
    }
}

pub(crate) fn problem(rule: &Rule, severity: Severity, message: String) -> Problem {
    Problem { severity, at: rule.at.clone(), rule: Some(rule.name.clone()), message }
}

impl Builder {
    /// Adds a rule; the answer says whether it is then tried on every message.
    fn add(
        &mut self,
        place: usize,
        rule: &Rule,
        profile: Profile,
        functions: &mut dyn Functions,
    ) -> Result<bool, Problem> {
        let refused = |r: Refused| problem(rule, r.severity, r.message);
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
                let function = functions.take_call(call, *kind).map_err(refused)?;
                self.evals.push(EvalRule { rule: place as u32, function, priority: rule.priority });
            }
            Test::UriDetail { conditions } => {
                let compiled = UriDetailRule::new(place, rule, conditions);
                let compiled =
                    compiled.map_err(|e| problem(rule, Severity::Error, e.to_string()))?;
                self.uri_details.push(compiled);
            }
            Test::AskDns { query, filter, .. } => {
                let is_asked = profile == Profile::Full;
                let function = functions.take_query(&rule.name, query, filter.as_deref(), is_asked);
                let Some(function) = function.map_err(refused)? else { return Ok(false) };
                self.evals.push(EvalRule { rule: place as u32, function, priority: rule.priority });
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
