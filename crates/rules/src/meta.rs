//! Meta rules: expressions over the counts of other rules.

use std::collections::HashMap;

use crate::bounds::Flat;
use crate::expression::{self, Expr, Op};
use crate::rule::{Rule, Test};
use crate::rules_matching::expand_matching;

/// All metas of a ruleset, ordered so that each comes after its operands.
#[derive(Debug, Default)]
pub(crate) struct Metas {
    pub(crate) programs: Vec<Meta>,
    /// For each rule, the metas (indexes in `programs`) that it triggers: a meta is not true unless
    /// one of its triggers fired.
    waiting: Lists,
    /// For each meta the conditions on single rules without which it is false: the rule's index
    /// doubled, plus 1 if the rule must not fire.
    conjuncts: Lists,
    /// For each rule its index in `programs`, if it is a meta that runs.
    index_of: Vec<Option<u32>>,
    /// Indexes of metas that may be true when nothing fires.
    pub(crate) always: Vec<u32>,
    /// Indexes of metas with [`Meta::guarded`].
    pub(crate) guarded: Vec<u32>,
}

/// Many short lists in one allocation: most are empty.
#[derive(Debug, Default)]
struct Lists {
    /// Start of each list; and the end of the last.
    firsts: Vec<u32>,
    items: Vec<u32>,
}

impl Lists {
    fn of<'l>(lists: impl Iterator<Item = &'l Vec<u32>>) -> Self {
        let mut all = Lists { firsts: vec![0], items: Vec::new() };
        for list in lists {
            all.items.extend(list);
            all.firsts.push(all.items.len() as u32);
        }
        all
    }

    fn get(&self, at: usize) -> &[u32] {
        match self.firsts.get(at..at + 2) {
            Some([first, end]) => {
                self.items.get(*first as usize..*end as usize).unwrap_or_default()
            }
            _ => &[],
        }
    }
}

#[derive(Debug)]
pub(crate) struct Meta {
    pub(crate) rule: u32,
    pub(crate) expr: Expr<u32>,
    /// The same in the form that bounds are computed from.
    pub(crate) flat: Flat<u32>,
    /// Rules that the expression names, each once.
    pub(crate) operands: Vec<u32>,
    /// It is a sub-rule, whose evaluation may be deferred until another meta needs it.
    pub(crate) is_deferrable: bool,
    /// All its operands are evaluated first, because bounds cannot be computed for it (divisions).
    pub(crate) at_once: bool,
    /// The expression names a rule that does not exist.
    unknown: bool,
    /// Its score is 0: it does not fire, but when it is true, metas that need it are never
    /// evaluated (as in SpamAssassin).
    pub(crate) silent: bool,
    /// It depends on a silent meta, directly or not.
    pub(crate) guarded: bool,
}

impl Meta {
    fn new(rule: u32, expr: Expr<u32>, unknown: bool, silent: bool) -> Self {
        let mut operands = Vec::new();
        expr.names(&mut |operand| {
            if !operands.contains(operand) {
                operands.push(*operand);
            }
        });
        Meta {
            rule,
            at_once: expr.divides(),
            flat: Flat::of(&expr),
            expr,
            operands,
            is_deferrable: false,
            unknown,
            silent,
            guarded: false,
        }
    }
}

/// A set of metas, a bit for each index.
#[derive(Debug, Default)]
pub(crate) struct DueSet(Vec<u64>);

impl DueSet {
    /// Clears the set for so many metas.
    pub(crate) fn clear(&mut self, metas: usize) {
        self.0.clear();
        self.0.resize(metas.div_ceil(64), 0);
    }

    pub(crate) fn mark(&mut self, index: u32) {
        if let Some(word) = self.0.get_mut(index as usize / 64) {
            *word |= 1 << (index % 64);
        }
    }

    pub(crate) fn has(&self, index: usize) -> bool {
        self.0.get(index / 64).is_some_and(|word| word >> (index % 64) & 1 == 1)
    }

    /// The first member from this index on.
    pub(crate) fn next(&self, index: usize) -> Option<usize> {
        let mut at = index / 64;
        let mut word = self.0.get(at)? >> (index % 64) << (index % 64);
        while word == 0 {
            at += 1;
            word = *self.0.get(at)?;
        }
        Some(at * 64 + word.trailing_zeros() as usize)
    }
}

/// A meta that cannot be evaluated.
#[derive(Debug)]
pub(crate) struct UnresolvedMeta {
    pub(crate) rule: usize,
    pub(crate) why: String,
}

impl Metas {
    /// Compiles the metas among `rules`. `scored` says whether a rule's score is not 0; `ran` has
    /// for each rule whether it is evaluated on every message.
    ///
    /// As in SpamAssassin, metas that depend on each other in a cycle are left out, and a meta
    /// whose score is 0 is evaluated if all that it needs is evaluated: if it is false, metas over
    /// it take it for false; if it is true, or needs something that is not evaluated, they never
    /// fire.
    pub(crate) fn compile(
        rules: &[Rule],
        scored: &dyn Fn(&Rule) -> bool,
        ran: Vec<bool>,
        local_tests_only: bool,
    ) -> (Metas, Vec<UnresolvedMeta>) {
        let index: HashMap<&str, u32> =
            rules.iter().map(|r| &*r.name).zip(0u32..).collect::<HashMap<_, _>>();
        let mut names: Vec<&str> = rules.iter().map(|r| &*r.name).collect();
        names.sort_unstable();
        let mut unresolved = Vec::new();
        let mut waiting: Vec<Meta> = Vec::new();
        for (at, rule) in rules.iter().enumerate() {
            let Test::Meta { expression } = &rule.test else { continue };
            let text = expand_matching(expression, &rule.name, &names);
            match compile_one(&text, &index, local_tests_only) {
                Ok((expr, unknown)) => {
                    if scored(rule) && unknown && is_never(&expr) {
                        let why = "never fires: it needs rules that do not exist".to_owned();
                        unresolved.push(UnresolvedMeta { rule: at, why });
                    }
                    waiting.push(Meta::new(at as u32, expr, unknown, !scored(rule)));
                }
                Err(why) if scored(rule) => unresolved.push(UnresolvedMeta { rule: at, why }),
                Err(_) => {}
            }
        }
        let programs = in_order(rules, without_useless(waiting), ran, &mut unresolved);
        let mut metas = Metas {
            programs,
            waiting: Lists::default(),
            conjuncts: Lists::default(),
            index_of: vec![None; rules.len()],
            always: Vec::new(),
            guarded: Vec::new(),
        };
        let rarity = |rule: u32| rules.get(rule as usize).map_or(1, commonness);
        let mut users: Vec<Vec<u32>> = vec![Vec::new(); rules.len()];
        for (index, program) in (0u32..).zip(&metas.programs) {
            metas.index_of[program.rule as usize] = Some(index);
            if program.guarded {
                metas.guarded.push(index);
            }
            let Some(triggers) = triggers(&program.expr, &rarity) else {
                metas.always.push(index);
                continue;
            };
            for operand in triggers {
                if let Some(users) = users.get_mut(operand as usize)
                    && users.last() != Some(&index)
                {
                    users.push(index);
                }
            }
        }
        metas.waiting = Lists::of(users.iter());
        let conjuncts = |meta: &Meta| match meta.at_once {
            true => Vec::new(),
            false => meta.flat.conjuncts(),
        };
        let conjuncts: Vec<Vec<u32>> = metas.programs.iter().map(conjuncts).collect();
        metas.conjuncts = Lists::of(conjuncts.iter());
        (metas, unresolved)
    }

    /// Rules that a rule's expression names.
    pub(crate) fn operands(&self, rule: usize) -> &[u32] {
        let index = self.index_of.get(rule).copied().flatten();
        let program = index.and_then(|index| self.programs.get(index as usize));
        program.map_or(&[], |program| &program.operands)
    }

    /// Every meta with the rules (no metas) of which one must fire before it can be true; `None` if
    /// it may be true without any.
    pub(crate) fn leaves(&self) -> Vec<(u32, Option<Vec<u32>>)> {
        let mut known: HashMap<u32, Option<Vec<u32>>> = HashMap::new();
        let mut out = Vec::with_capacity(self.programs.len());
        for program in &self.programs {
            let all = triggers(&program.expr, &|_| 1).and_then(|triggers| {
                let mut leaves = Vec::new();
                for trigger in triggers {
                    match known.get(&trigger) {
                        Some(of_meta) => leaves.extend(of_meta.as_ref()?),
                        None => leaves.push(trigger),
                    }
                }
                leaves.sort_unstable();
                leaves.dedup();
                Some(leaves)
            });
            known.insert(program.rule, all.clone());
            out.push((program.rule, all));
        }
        out
    }

    /// Marks the metas that a rule which fired or was deferred can make true.
    pub(crate) fn mark_due(&self, rule: u32, due: &mut DueSet) {
        self.waiting.get(rule as usize).iter().for_each(|index| due.mark(*index));
    }

    /// Whether a single rule makes a meta false, by the truths known so far. Reads little memory,
    /// and rules most metas out.
    pub(crate) fn is_ruled_out(&self, index: usize, truths: &[Option<bool>]) -> bool {
        self.conjuncts.get(index).iter().any(|conjunct| {
            let must_not_fire = conjunct & 1 == 1;
            truths.get(*conjunct as usize >> 1).is_some_and(|truth| *truth == Some(must_not_fire))
        })
    }
}

/// Deepest nesting of deferred metas, which is the depth of the recursion when one is evaluated.
const WAIT_DEPTH_MAX: u32 = 64;

/// Roughly how often rules of this kind fire: header rules on most messages.
fn commonness(rule: &Rule) -> u32 {
    match &rule.test {
        Test::Header { .. } | Test::Exists { .. } | Test::MimeHeader { .. } => 8,
        // Deferred evals trigger their metas on every message.
        Test::Eval { .. } if rule.is_sub() => 16,
        Test::Eval { .. } => 4,
        Test::Rawbody { .. } | Test::Uri { .. } => 2,
        _ => 1,
    }
}

/// The triggers of an expression: rules of which one must fire for it to be true, the rarest
/// possible; `None` if it is true when nothing fires.
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

/// The parsed expression, and whether it names a rule that does not exist.
fn compile_one(
    text: &str,
    index: &HashMap<&str, u32>,
    local_tests_only: bool,
) -> Result<(Expr<u32>, bool), String> {
    let tokens = expression::tokens(text);
    let mut unknown = false;
    let expr = expression::parse(&tokens, &mut |name, _| {
        Ok(match name {
            "local_tests_only" => Expr::Number(f64::from(u8::from(local_tests_only))),
            _ => match index.get(name) {
                Some(rule) => Expr::Name(*rule),
                // A name without a rule never fires.
                None => {
                    unknown = true;
                    Expr::Number(0.0)
                }
            },
        })
    })?;
    Ok((expr, unknown))
}

/// Whether the expression is always false, because the rules that it needs do not exist.
fn is_never(expr: &Expr<u32>) -> bool {
    match expr {
        Expr::Number(number) => *number == 0.0,
        Expr::Binary(Op::And, left, right) => is_never(left) || is_never(right),
        Expr::Binary(Op::Or, left, right) => is_never(left) && is_never(right),
        _ => false,
    }
}

/// Leaves out metas with score 0 that no other meta needs.
fn without_useless(mut waiting: Vec<Meta>) -> Vec<Meta> {
    let index: HashMap<u32, usize> = waiting.iter().map(|p| p.rule).zip(0..).collect();
    let mut used = vec![false; waiting.len()];
    let mut stack: Vec<usize> = (0..waiting.len()).filter(|at| !waiting[*at].silent).collect();
    while let Some(at) = stack.pop() {
        if !std::mem::replace(&mut used[at], true) {
            stack.extend(waiting[at].operands.iter().filter_map(|rule| index.get(rule)));
        }
    }
    let mut used = used.into_iter();
    waiting.retain(|_| used.next().unwrap_or(true));
    waiting
}

/// Sorts metas topologically; those in cycles go to `unresolved`. `settled` has for each rule
/// whether its count is known before metas over unknown ones are evaluated as 0.
fn in_order(
    rules: &[Rule],
    waiting: Vec<Meta>,
    mut settled: Vec<bool>,
    unresolved: &mut Vec<UnresolvedMeta>,
) -> Vec<Meta> {
    let index: HashMap<u32, usize> = waiting.iter().map(|p| p.rule).zip(0..).collect();
    let is_meta = |rule: &&u32| index.contains_key(rule);
    let mut done = vec![false; rules.len()];
    let needs: Vec<Vec<u32>> =
        waiting.iter().map(|p| p.operands.iter().filter(is_meta).copied().collect()).collect();
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
        let names = names_of(rules, needs[*at].iter().filter(|r| !done[**r as usize]));
        let why = format!("left out: it waits for itself or for a circle of metas ({names})");
        unresolved.push(UnresolvedMeta { rule: waiting[*at].rule as usize, why });
    }
    // Metas that never fire because an operand is never known.
    let mut dead = vec![false; rules.len()];
    let mut guarded = vec![false; rules.len()];
    // Nesting depth of deferrable metas.
    let mut depth = vec![0u32; rules.len()];
    let mut slots: Vec<Option<Meta>> = waiting.into_iter().map(Some).collect();
    let mut programs = Vec::with_capacity(order.len());
    for mut program in order.into_iter().filter_map(|at| slots.get_mut(at).and_then(Option::take)) {
        let rule = program.rule as usize;
        let needed = program.operands.iter().filter(|r| dead[**r as usize]);
        let names = names_of(rules, needed);
        settled[rule] = !program.unknown && program.operands.iter().all(|r| settled[*r as usize]);
        dead[rule] = !names.is_empty() || (program.silent && !settled[rule]);
        if dead[rule] {
            if !program.silent {
                let why =
                    format!("never fires: it needs {names}, which has score 0 and is not run");
                unresolved.push(UnresolvedMeta { rule, why });
            }
            continue;
        }
        program.guarded = program.operands.iter().any(|r| guarded[*r as usize]);
        guarded[rule] = program.guarded || program.silent;
        let deepest = program.operands.iter().filter_map(|r| depth.get(*r as usize)).max();
        let below = deepest.copied().unwrap_or(0);
        program.at_once |= guarded[rule] || below >= WAIT_DEPTH_MAX;
        program.is_deferrable = !program.at_once && rules.get(rule).is_some_and(Rule::is_sub);
        if !program.at_once {
            depth[rule] = below + 1;
        }
        programs.push(program);
    }
    programs
}

/// Names of rules, for messages.
fn names_of<'r>(rules: &[Rule], indexes: impl Iterator<Item = &'r u32>) -> String {
    let names: Vec<&str> =
        indexes.filter_map(|r| rules.get(*r as usize)).map(|r| &*r.name).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::DueSet;

    #[test]
    fn what_is_due_is_met_in_order() {
        let mut due = DueSet::default();
        due.clear(200);
        [0, 63, 64, 130, 199].into_iter().for_each(|index| due.mark(index));
        let all: Vec<usize> = (0..200).filter(|index| due.has(*index)).collect();
        let next = |from: &usize| due.next(from + 1);
        assert_eq!(std::iter::successors(due.next(0), next).collect::<Vec<_>>(), all);
        assert_eq!(all, [0, 63, 64, 130, 199]);
        due.clear(70);
        assert_eq!(due.next(0), None);
    }
}
