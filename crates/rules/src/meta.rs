//! Meta rules: expressions over the counts of other rules.

use std::collections::HashMap;
use std::sync::Arc;

use crate::expression::{self, Expr, Op};
use crate::language::expand_matching;
use crate::rule::{Rule, Test};

/// All metas of a ruleset, in an order in which each comes after what it needs.
#[derive(Debug, Default)]
pub(crate) struct Metas {
    programs: Vec<Program>,
    /// For each rule, the metas (places in `programs`) that wait for it: without any of the rules that
    /// it waits for a meta is not true.
    waiting: Vec<Vec<u32>>,
    /// For each rule its place in `programs`, if it is a meta that runs.
    place_of: Vec<Option<u32>>,
    /// Places in `programs` of metas that are true when nothing fires.
    always: Vec<u32>,
}

/// One meta.
#[derive(Debug)]
struct Program {
    rule: u32,
    expr: Expr<u32>,
    /// Rules that the expression names, each once.
    operands: Vec<u32>,
}

impl Program {
    fn new(rule: u32, expr: Expr<u32>) -> Self {
        let mut operands = Vec::new();
        expr.names(&mut |operand| {
            if !operands.contains(operand) {
                operands.push(*operand);
            }
        });
        Program { rule, expr, operands }
    }
}

/// A meta that cannot be answered.
#[derive(Debug)]
pub(crate) struct Unsolved {
    pub(crate) rule: usize,
    pub(crate) why: String,
}

impl Metas {
    /// Compiles the metas among `rules`; `runs` says which rules run at all (score not 0).
    ///
    /// As in SpamAssassin a meta over a meta that does not run never fires, and metas that need each
    /// other in a circle are left out.
    pub(crate) fn compile(
        rules: &[Rule],
        runs: &dyn Fn(&Rule) -> bool,
        local_tests_only: bool,
    ) -> (Metas, Vec<Unsolved>) {
        let index: HashMap<&str, u32> =
            rules.iter().map(|r| &*r.name).zip(0u32..).collect::<HashMap<_, _>>();
        let mut names: Vec<&str> = rules.iter().map(|r| &*r.name).collect();
        names.sort_unstable();
        let mut unsolved = Vec::new();
        let mut waiting: Vec<Program> = Vec::new();
        for (at, rule) in rules.iter().enumerate() {
            let Test::Meta { expression } = &rule.test else { continue };
            if !runs(rule) {
                continue;
            }
            let text = expand_matching(expression, &rule.name, &names);
            match compile_one(&text, &index, local_tests_only) {
                Ok(expr) => waiting.push(Program::new(at as u32, expr)),
                Err(why) => unsolved.push(Unsolved { rule: at, why }),
            }
        }
        let programs = in_order(rules, waiting, &mut unsolved);
        let mut metas = Metas {
            programs,
            waiting: vec![Vec::new(); rules.len()],
            place_of: vec![None; rules.len()],
            always: Vec::new(),
        };
        let rarity = |rule: u32| rules.get(rule as usize).map_or(1, |rule| commonness(&rule.test));
        for (place, program) in (0u32..).zip(&metas.programs) {
            metas.place_of[program.rule as usize] = Some(place);
            let Some(triggers) = triggers(&program.expr, &rarity) else {
                metas.always.push(place);
                continue;
            };
            for operand in triggers {
                if let Some(users) = metas.waiting.get_mut(operand as usize)
                    && users.last() != Some(&place)
                {
                    users.push(place);
                }
            }
        }
        (metas, unsolved)
    }

    /// Rules that a rule's expression names.
    pub(crate) fn operands(&self, rule: usize) -> &[u32] {
        let place = self.place_of.get(rule).copied().flatten();
        let program = place.and_then(|place| self.programs.get(place as usize));
        program.map_or(&[], |program| &program.operands)
    }

    /// Evaluates the metas that the fired rules can have changed. `counts` has each rule's count;
    /// `fired` lists rules with a count, and gets the metas that fire.
    pub(crate) fn run(&self, counts: &mut [f64], fired: &mut Vec<u32>, due: &mut Vec<bool>) {
        due.clear();
        due.resize(self.programs.len(), false);
        let mark = |rule: u32, due: &mut [bool]| {
            for place in self.waiting.get(rule as usize).into_iter().flatten() {
                due[*place as usize] = true;
            }
        };
        fired.iter().for_each(|rule| mark(*rule, due));
        self.always.iter().for_each(|place| due[*place as usize] = true);
        for place in 0..self.programs.len() {
            if !due[place] {
                continue;
            }
            let program = &self.programs[place];
            let value = program.expr.value(&|r| counts.get(*r as usize).copied().unwrap_or(0.0));
            let value = value.unwrap_or(0.0);
            if value != 0.0 {
                // SpamAssassin counts a negative value as one hit.
                counts[program.rule as usize] = if value <= 0.0 { 1.0 } else { value };
                fired.push(program.rule);
                mark(program.rule, due);
            }
        }
    }
}

/// How often rules of this kind fire, roughly: header rules fire on most messages.
fn commonness(test: &Test) -> u32 {
    match test {
        Test::Header { .. } | Test::Exists { .. } | Test::MimeHeader { .. } => 8,
        Test::Eval { .. } => 4,
        Test::Rawbody { .. } | Test::Uri { .. } => 2,
        _ => 1,
    }
}

/// The rules of which one must fire for the expression to be true, the rarest that can be had; none
/// if it is true when nothing fires.
fn triggers(expr: &Expr<u32>, rarity: &dyn Fn(u32) -> u32) -> Option<Vec<u32>> {
    let cost = |rules: &Vec<u32>| rules.iter().map(|rule| rarity(*rule)).sum::<u32>();
    match expr {
        Expr::Binary(Op::And, left, right) => {
            let both = [triggers(left, rarity), triggers(right, rarity)];
            both.into_iter().flatten().min_by_key(cost)
        }
        Expr::Binary(Op::Or, left, right) => {
            let (mut left, right) = (triggers(left, rarity)?, triggers(right, rarity)?);
            left.extend(right);
            Some(left)
        }
        other => {
            if other.value(&|_| 0.0).is_ok_and(|v| v != 0.0) {
                return None;
            }
            let mut all = Vec::new();
            other.names(&mut |rule| all.push(*rule));
            Some(all)
        }
    }
}

fn compile_one(
    text: &str,
    index: &HashMap<&str, u32>,
    local_tests_only: bool,
) -> Result<Expr<u32>, String> {
    let tokens = expression::tokens(text);
    expression::parse(&tokens, &mut |name, _| {
        Ok(match name {
            "local_tests_only" => Expr::Number(f64::from(u8::from(local_tests_only))),
            _ => match index.get(name) {
                Some(rule) => Expr::Name(*rule),
                // A name without a rule never fires.
                None => Expr::Number(0.0),
            },
        })
    })
}

/// Sorts metas so that each comes after those it needs; the rest goes to `unsolved`.
fn in_order(rules: &[Rule], waiting: Vec<Program>, unsolved: &mut Vec<Unsolved>) -> Vec<Program> {
    let is_meta =
        |r: u32| rules.get(r as usize).is_some_and(|r| matches!(r.test, Test::Meta { .. }));
    let mut done = vec![false; rules.len()];
    let mut place: HashMap<u32, usize> = HashMap::new();
    for (at, program) in waiting.iter().enumerate() {
        place.insert(program.rule, at);
    }
    let needs: Vec<Vec<u32>> = waiting
        .iter()
        .map(|p| {
            let mut out = Vec::new();
            p.expr.names(&mut |r| {
                if is_meta(*r) {
                    out.push(*r);
                }
            });
            out
        })
        .collect();
    let mut order: Vec<usize> = Vec::with_capacity(waiting.len());
    let mut left: Vec<usize> = (0..waiting.len()).collect();
    loop {
        let before = left.len();
        left.retain(|at| {
            let ready = needs[*at].iter().all(|r| done[*r as usize]);
            if ready {
                done[waiting[*at].rule as usize] = true;
                order.push(*at);
            }
            !ready
        });
        if left.is_empty() || left.len() == before {
            break;
        }
    }
    for at in &left {
        let names: Vec<Arc<str>> = needs[*at]
            .iter()
            .filter(|r| !done[**r as usize])
            .map(|r| rules[*r as usize].name.clone())
            .collect();
        let circle = needs[*at].iter().any(|r| place.get(r).is_some_and(|p| left.contains(p)));
        let why = if circle {
            format!("left out: it waits for itself or for a circle of metas ({})", names.join(", "))
        } else {
            format!(
                "never fires: it needs {}, which has score 0 and does not run",
                names.join(", ")
            )
        };
        unsolved.push(Unsolved { rule: waiting[*at].rule as usize, why });
    }
    let mut slots: Vec<Option<Program>> = waiting.into_iter().map(Some).collect();
    order.into_iter().filter_map(|at| slots.get_mut(at).and_then(Option::take)).collect()
}
