//! Rules while they are collected from several lines, and what is completed when all lines are
//! read.

use std::collections::{BTreeMap, BTreeSet};

use super::condition::Environment;
use super::replace::Replace;
use super::{ByRule, files, plugins, split_word};
use crate::expression::{self, Expr, Token};
use crate::problem::{Problem, Severity};
use crate::rule::{EvalKind, Rule, Source, Test};
use crate::rules_matching::expand_matching;
use crate::settings::Settings;

/// Priority of rules that set tags: before all others.
const CAPTURE_PRIORITY: i32 = -10_000;
/// Priority that plugins give to rules that ask a service.
const SERVICE_PRIORITY: i32 = -100;
/// Eval functions that ask a service.
const EARLY_SERVICES: [&str; 5] = [
    "check_dcc",
    "check_dcc_reputation_range",
    "check_pyzor",
    "check_razor2",
    "check_razor2_range",
];
/// Longest rule name of the language.
const RULE_NAME_BYTES_MAX: usize = 128;

/// What the lines read so far define, by rule; later lines replace earlier ones.
#[derive(Debug, Default)]
pub(crate) struct Drafts {
    pub(super) tests: ByRule<(Test, Source)>,
    scores: ByRule<[f64; 4]>,
    tflags: ByRule<String>,
    descriptions: ByRule<String>,
    priorities: ByRule<i32>,
    pub(super) replace: Replace,
}

/// Whether this can name a rule.
pub(crate) fn is_rule_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    let first = bytes.next().is_some_and(|b| b == b'_' || b.is_ascii_alphabetic());
    first
        && bytes.all(|b| b == b'_' || b.is_ascii_alphanumeric())
        && name.len() <= RULE_NAME_BYTES_MAX
}

impl Drafts {
    /// Defines a test, replacing an earlier one of this name.
    pub(super) fn define(&mut self, name: &str, test: Test, at: &Source) -> Result<(), String> {
        let priority = self.priorities.entry(name.to_owned()).or_default();
        if let Some(pattern) = test.pattern()
            && sets_tags(pattern)
        {
            *priority = CAPTURE_PRIORITY;
        }
        if let (Test::UriDetail { conditions }, Some((Test::UriDetail { conditions: old }, _))) =
            (&test, self.tests.get_mut(name))
        {
            old.retain(|o| conditions.iter().all(|c| c.key != o.key));
            old.extend(conditions.iter().cloned());
            return Ok(());
        }
        self.tests.insert(name.to_owned(), (test, at.clone()));
        Ok(())
    }

    /// Declares a name without a test, unless it has one.
    pub(super) fn declare(&mut self, name: &str, at: &Source) -> Result<(), String> {
        if !is_rule_name(name) {
            return Err(format!("{name:?} is no rule name"));
        }
        if !self.tests.contains_key(name) {
            self.define(name, Test::Empty, at)?;
        }
        Ok(())
    }

    /// Carries out `score NAME n` or `score NAME n n n n`, each perhaps `(n)`, relative.
    pub(super) fn score(&mut self, value: &str) -> Result<(), String> {
        let mut words = value.split_ascii_whitespace();
        let name = words.next().unwrap_or_default();
        let mut relative = false;
        let mut numbers = Vec::new();
        for word in words {
            let inner = word.strip_prefix('(').and_then(|w| w.strip_suffix(')'));
            relative |= inner.is_some();
            numbers.push(number(inner.unwrap_or(word))?);
        }
        let numbers = match numbers.as_slice() {
            [one] => [*one; 4],
            [a, b, c, d] => [*a, *b, *c, *d],
            _ => return Err("score needs a rule name and one or four numbers".to_owned()),
        };
        if !relative {
            self.scores.insert(name.to_owned(), numbers);
            return Ok(());
        }
        let Some(old) = self.scores.get_mut(name) else {
            return Err(format!("relative score, but {name} has no score yet"));
        };
        for (old, change) in old.iter_mut().zip(numbers) {
            *old += change;
        }
        Ok(())
    }

    /// Carries out `tflags`, `describe` or `priority`.
    pub(super) fn attribute(&mut self, key: &str, value: &str, _at: &Source) -> Result<(), String> {
        let (name, text) = split_word(value);
        if text.is_empty() {
            return Err(format!("{key} needs a rule name and a value"));
        }
        match key {
            "tflags" => self.tflags.insert(name.to_owned(), text.to_owned()).map(drop),
            "describe" => self.descriptions.insert(name.to_owned(), files::to_text(text)).map(drop),
            _ => {
                if !is_rule_name(name) {
                    return Err(format!("{name:?} is no rule name"));
                }
                let priority = text.parse().map_err(|_| format!("{text:?} is no whole number"))?;
                self.priorities.insert(name.to_owned(), priority).map(drop)
            }
        };
        Ok(())
    }

    /// Completes the rules, by name.
    pub(super) fn finish(
        mut self,
        settings: &Settings,
        environment: &Environment,
        problems: &mut Vec<Problem>,
    ) -> Vec<Rule> {
        self.drop_bad_metas(problems);
        self.replace_tags(problems);
        self.launch_services_early();
        self.lower_priorities();
        self.inherit_net();
        let uncallable = self.check_evals(settings, environment, problems);
        self.check_loose_ends(problems);
        let Drafts { tests, scores, tflags, descriptions, priorities, .. } = self;
        let rule = |(name, (test, at)): (String, (Test, Source))| {
            let tflags = tflags.get(&name).cloned().unwrap_or_default();
            let scores = scores.get(&name).copied();
            Rule {
                scores: scores.unwrap_or([default_score(&name, &tflags); 4]),
                tflags,
                priority: priorities.get(&name).copied().unwrap_or(0),
                description: descriptions.get(&name).map_or("", String::as_str).into(),
                test,
                at,
                is_callable: !uncallable.contains(&name),
                name: name.into(),
            }
        };
        tests.into_iter().map(rule).collect()
    }

    /// Removes metas that are no expressions; the others keep their text.
    fn drop_bad_metas(&mut self, problems: &mut Vec<Problem>) {
        self.tests.retain(|name, (test, at)| {
            let Test::Meta { expression } = test else { return true };
            let Err(message) = check_meta(expression) else { return true };
            problems.push(Problem {
                severity: Severity::Error,
                at: at.clone(),
                rule: Some(name.as_str().into()),
                message: format!("cannot read the meta: {message}"),
            });
            false
        });
    }

    fn replace_tags(&mut self, problems: &mut Vec<Problem>) {
        for (name, at) in &self.replace.rules {
            match self.tests.get_mut(name).and_then(|(test, _)| test.pattern_mut()) {
                Some(pattern) => *pattern = self.replace.apply(pattern),
                None => problems.push(Problem {
                    severity: Severity::Note,
                    at: at.clone(),
                    rule: Some(name.as_str().into()),
                    message: "replace_rules names a rule that has no pattern".to_owned(),
                }),
            }
        }
    }

    /// Rules of services that are queried over the network start before the others.
    fn launch_services_early(&mut self) {
        for (name, (test, _)) in &self.tests {
            if let Test::Eval { call, .. } = test
                && EARLY_SERVICES.contains(&call.function.as_str())
            {
                self.priorities.insert(name.clone(), SERVICE_PRIORITY);
            }
        }
    }

    /// What a meta needs runs no later than it.
    fn lower_priorities(&mut self) {
        let mut order: Vec<(i32, String)> =
            self.priorities.iter().map(|(name, p)| (*p, name.clone())).collect();
        order.sort();
        for (_, name) in order {
            let Some((Test::Meta { expression }, _)) = self.tests.get(&name) else { continue };
            let own = self.priorities.get(&name).copied().unwrap_or(0);
            for operand in self.operands(expression, &name) {
                let net = self.has_flag(&operand, "net");
                if let Some(priority) = self.priorities.get_mut(&operand)
                    && *priority > own
                {
                    *priority = if own < -100 && net { -100 } else { own };
                }
            }
        }
    }

    /// A meta over a network rule is one too.
    fn inherit_net(&mut self) {
        let mut metas = Vec::new();
        for (name, (test, _)) in &self.tests {
            if let Test::Meta { expression } = test
                && !self.has_flag(name, "net")
                && self.operands(expression, name).iter().any(|o| self.has_flag(o, "net"))
            {
                metas.push(name.clone());
            }
        }
        for name in metas {
            let flags = self.tflags.entry(name).or_default();
            if !flags.is_empty() {
                flags.push(' ');
            }
            flags.push_str("net");
        }
    }

    fn has_flag(&self, name: &str, flag: &str) -> bool {
        self.tflags.get(name).is_some_and(|f| f.split_ascii_whitespace().any(|w| w == flag))
    }

    fn operands(&self, expression: &str, name: &str) -> BTreeSet<String> {
        // Few metas need the names of all rules, which take a while to sort.
        let calls = expression.contains("rules_matching");
        let names = if calls { self.known_names() } else { Vec::new() };
        let expanded = expand_matching(expression, name, &names);
        let tokens = expression::tokens(&expanded);
        let name = |t: Token| if let Token::Name(n) = t { Some(n) } else { None };
        tokens.into_iter().filter_map(name).filter(|n| n != "local_tests_only").collect()
    }

    /// Names that `rules_matching` searches: those that have a score.
    fn known_names(&self) -> Vec<&str> {
        let mut names: Vec<&str> =
            self.scores.keys().chain(self.tests.keys()).map(String::as_str).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Reports eval rules whose function is not there or of another kind; their names.
    fn check_evals(
        &mut self,
        _settings: &Settings,
        environment: &Environment,
        problems: &mut Vec<Problem>,
    ) -> BTreeSet<String> {
        let mut uncallable = BTreeSet::new();
        self.tests.iter().for_each(|(name, (test, at))| {
            let Test::Eval { kind, call } = test else { return };
            let message = match plugins::of_eval(&call.function) {
                None => format!("no eval function {}; the rule never runs", call.function),
                Some((plugin, _)) if !is_loaded(&call.function, environment) => format!(
                    "{} is of the plugin {}, which no loadplugin line loads; the rule never runs",
                    call.function, plugin.name
                ),
                Some((_, expected)) if !fits(*kind, expected) => {
                    format!("{} does not go with this kind of rule; it never runs", call.function)
                }
                Some(_) => return,
            };
            uncallable.insert(name.clone());
            problems.push(Problem {
                severity: Severity::Warning,
                at: at.clone(),
                rule: Some(name.as_str().into()),
                message,
            });
        });
        uncallable
    }

    /// Scores of rules that do not exist, without the network and Bayes: those of rules that are
    /// elsewhere, or slips of the pen.
    pub(super) fn loose_scores(&self) -> BTreeMap<String, f64> {
        let loose = self.scores.iter().filter(|(name, _)| !self.tests.contains_key(*name));
        loose.map(|(name, [score, ..])| (name.clone(), *score)).collect()
    }

    /// Scores and flags of rules that do not exist are likely slips of the pen.
    fn check_loose_ends(&self, problems: &mut Vec<Problem>) {
        let loose: BTreeMap<&String, &str> = self
            .tflags
            .keys()
            .map(|n| (n, "tflags"))
            .chain(self.scores.keys().map(|n| (n, "score")))
            .filter(|(name, _)| !self.tests.contains_key(*name))
            .collect();
        if !loose.is_empty() {
            let names: Vec<&str> = loose.keys().map(|n| n.as_str()).take(10).collect();
            let more = loose.len().saturating_sub(names.len());
            let more = if more == 0 { String::new() } else { format!(" and {more} more") };
            problems.push(Problem {
                severity: Severity::Note,
                at: Source::default(),
                rule: None,
                message: format!(
                    "scores or flags without a rule of that name: {}{more}",
                    names.join(", ")
                ),
            });
        }
    }
}

/// Whether a loaded plugin answers this function.
pub(crate) fn is_loaded(function: &str, environment: &Environment) -> bool {
    let has = |p: &plugins::Plugin| {
        p.evals.split_ascii_whitespace().any(|e| e.get(2..) == Some(function))
            && environment.has_plugin(&format!("{}{}", plugins::PACKAGE, p.name))
    };
    plugins::PLUGINS.iter().any(has)
}

/// Whether a function of this kind may be called by such a rule.
pub(crate) fn fits(kind: EvalKind, expected: u8) -> bool {
    match expected {
        b'h' => kind == EvalKind::Header,
        b'b' => matches!(kind, EvalKind::Body | EvalKind::Rawbody),
        b'f' => kind == EvalKind::Full,
        b'r' => kind == EvalKind::Rbl,
        _ => true,
    }
}

fn default_score(name: &str, tflags: &str) -> f64 {
    let score = if name.starts_with("T_") { 0.01 } else { 1.0 };
    if tflags.split_ascii_whitespace().any(|f| f == "nice") { -score } else { score }
}

fn number(word: &str) -> Result<f64, String> {
    let digits = word.strip_prefix('-').unwrap_or(word);
    let plain = digits.starts_with(|c: char| c.is_ascii_digit())
        && digits.ends_with(|c: char| c.is_ascii_digit())
        && digits.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    match word.parse::<f64>() {
        // Adding zero makes -0 plain 0.
        Ok(number) if plain => Ok(number + 0.0),
        _ => Err(format!("{word:?} is no score")),
    }
}

/// Whether a pattern has a named group that sets a tag.
fn sets_tags(pattern: &str) -> bool {
    pattern.match_indices("(?").any(|(i, _)| {
        let rest = &pattern[i + 2..];
        let rest = rest.strip_prefix('P').unwrap_or(rest);
        let rest = rest.strip_prefix(['<', '\'']);
        rest.is_some_and(|r| r.starts_with(|c: char| c.is_ascii_uppercase()))
    })
}

fn check_meta(text: &str) -> Result<(), String> {
    let expanded = expand_matching(text, "", &[]);
    let tokens = expression::tokens(&expanded);
    let expr = expression::parse(&tokens, &mut |name, _| Ok(Expr::Name(name.to_owned())))?;
    match expr.value(&|_| 0.0) {
        Ok(_) => Ok(()),
        Err(_) => Err("it divides by what may be zero".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_scores() {
        let mut drafts = Drafts::default();
        assert!(drafts.score("A (1)").is_err());
        drafts.score("A 1 2 3 4").unwrap();
        drafts.score("A (0.5)").unwrap();
        assert_eq!(drafts.scores["A"], [1.5, 2.5, 3.5, 4.5]);
        assert!(drafts.score("A x").is_err());
        assert!(drafts.score("A 1 2").is_err());
    }
}
