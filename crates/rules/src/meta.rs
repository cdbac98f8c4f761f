//! Meta rules: expressions over the counts of other rules.

use std::collections::HashMap;

use crate::bounds::Flat;
use crate::expression::{self, Expr, Op};
use crate::language::expand_matching;
use crate::rule::{Rule, Test};

/// All metas of a ruleset, in an order in which each comes after what it needs.
#[derive(Debug, Default)]
pub(crate) struct Metas {
    pub(crate) programs: Vec<Meta>,
    /// For each rule, the metas (places in `programs`) that wait for it: without any of the rules that
    /// it waits for a meta is not true.
    waiting: Lists,
    /// For each meta what must be true of single rules before it is true: the rule, doubled, and 1 if it
    /// must not fire.
    conjuncts: Lists,
    /// For each rule its place in `programs`, if it is a meta that runs.
    place_of: Vec<Option<u32>>,
    /// Places in `programs` of metas that are true when nothing fires.
    pub(crate) always: Vec<u32>,
    /// Places in `programs` of metas over silent ones.
    pub(crate) guarded: Vec<u32>,
}

/// Short lists side by side: most are empty.
#[derive(Debug, Default)]
struct Lists {
    /// Where each begins; and the end of the last.
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

/// One meta.
#[derive(Debug)]
pub(crate) struct Meta {
    pub(crate) rule: u32,
    pub(crate) expr: Expr<u32>,
    /// The same, to be asked for bounds.
    pub(crate) flat: Flat<u32>,
    /// Rules that the expression names, each once.
    pub(crate) operands: Vec<u32>,
    /// It is a sub-rule: its answer may wait until another meta needs it.
    pub(crate) can_wait: bool,
    /// All that it names is answered before it is.
    pub(crate) at_once: bool,
    /// The expression names something that is no rule.
    unknown: bool,
    /// Its score is 0: it does not fire, but when it is true whoever needs it waits for ever.
    pub(crate) silent: bool,
    /// It needs a silent one, perhaps over others.
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
            can_wait: false,
            unknown,
            silent,
            guarded: false,
        }
    }
}

/// Metas by their places, a bit each.
#[derive(Debug, Default)]
pub(crate) struct Due(Vec<u64>);

impl Due {
    /// None of so many.
    pub(crate) fn clear(&mut self, metas: usize) {
        self.0.clear();
        self.0.resize(metas.div_ceil(64), 0);
    }

    pub(crate) fn mark(&mut self, place: u32) {
        if let Some(word) = self.0.get_mut(place as usize / 64) {
            *word |= 1 << (place % 64);
        }
    }

    pub(crate) fn has(&self, place: usize) -> bool {
        self.0.get(place / 64).is_some_and(|word| word >> (place % 64) & 1 == 1)
    }

    /// The first at or behind this place.
    pub(crate) fn next(&self, place: usize) -> Option<usize> {
        let mut at = place / 64;
        let mut word = self.0.get(at)? >> (place % 64) << (place % 64);
        while word == 0 {
            at += 1;
            word = *self.0.get(at)?;
        }
        Some(at * 64 + word.trailing_zeros() as usize)
    }
}

/// A meta that cannot be answered.
#[derive(Debug)]
pub(crate) struct Unsolved {
    pub(crate) rule: usize,
    pub(crate) why: String,
}

impl Metas {
    /// Compiles the metas among `rules`. `scored` says whether a rule's score is not 0; `ran` has for
    /// each rule whether it is tried on every message.
    ///
    /// As in SpamAssassin metas that need each other in a circle are left out, and a meta whose score
    /// is 0 is evaluated if all that it needs is tried: if it is false, metas over it take it for
    /// false; if it is true, or needs something that is not tried, they never fire.
    pub(crate) fn compile(
        rules: &[Rule],
        scored: &dyn Fn(&Rule) -> bool,
        ran: Vec<bool>,
        local_tests_only: bool,
    ) -> (Metas, Vec<Unsolved>) {
        let index: HashMap<&str, u32> =
            rules.iter().map(|r| &*r.name).zip(0u32..).collect::<HashMap<_, _>>();
        let mut names: Vec<&str> = rules.iter().map(|r| &*r.name).collect();
        names.sort_unstable();
        let mut unsolved = Vec::new();
        let mut waiting: Vec<Meta> = Vec::new();
        for (at, rule) in rules.iter().enumerate() {
            let Test::Meta { expression } = &rule.test else { continue };
            let text = expand_matching(expression, &rule.name, &names);
            match compile_one(&text, &index, local_tests_only) {
                Ok((expr, unknown)) => {
                    if scored(rule) && unknown && is_never(&expr) {
                        let why = "never fires: it needs rules that do not exist".to_owned();
                        unsolved.push(Unsolved { rule: at, why });
                    }
                    waiting.push(Meta::new(at as u32, expr, unknown, !scored(rule)));
                }
                Err(why) if scored(rule) => unsolved.push(Unsolved { rule: at, why }),
                Err(_) => {}
            }
        }
        let programs = in_order(rules, without_useless(waiting), ran, &mut unsolved);
        let mut metas = Metas {
            programs,
            waiting: Lists::default(),
            conjuncts: Lists::default(),
            place_of: vec![None; rules.len()],
            always: Vec::new(),
            guarded: Vec::new(),
        };
        let rarity = |rule: u32| rules.get(rule as usize).map_or(1, commonness);
        let mut users: Vec<Vec<u32>> = vec![Vec::new(); rules.len()];
        for (place, program) in (0u32..).zip(&metas.programs) {
            metas.place_of[program.rule as usize] = Some(place);
            if program.guarded {
                metas.guarded.push(place);
            }
            let Some(triggers) = triggers(&program.expr, &rarity) else {
                metas.always.push(place);
                continue;
            };
            for operand in triggers {
                if let Some(users) = users.get_mut(operand as usize)
                    && users.last() != Some(&place)
                {
                    users.push(place);
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
        (metas, unsolved)
    }

    /// Rules that a rule's expression names.
    pub(crate) fn operands(&self, rule: usize) -> &[u32] {
        let place = self.place_of.get(rule).copied().flatten();
        let program = place.and_then(|place| self.programs.get(place as usize));
        program.map_or(&[], |program| &program.operands)
    }

    /// Every meta with the rules, no metas, of which one must fire before it can be true; none if it
    /// may be true without any.
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

    /// Marks the metas (by place) that a rule which fired or was put off can make true.
    pub(crate) fn mark_due(&self, rule: u32, due: &mut Due) {
        self.waiting.get(rule as usize).iter().for_each(|place| due.mark(*place));
    }

    /// Whether a single rule makes a meta false, by what is known of rules: a look at little memory.
    pub(crate) fn is_ruled_out(&self, place: usize, truths: &[Option<bool>]) -> bool {
        self.conjuncts.get(place).iter().any(|conjunct| {
            let must_not_fire = conjunct & 1 == 1;
            truths.get(*conjunct as usize >> 1).is_some_and(|truth| *truth == Some(must_not_fire))
        })
    }
}

/// Most metas that wait for each other in a row: answering one goes this deep.
const WAIT_DEPTH_MAX: u32 = 64;

/// How often rules of this kind fire, roughly: header rules fire on most messages.
fn commonness(rule: &Rule) -> u32 {
    match &rule.test {
        Test::Header { .. } | Test::Exists { .. } | Test::MimeHeader { .. } => 8,
        // Those that are put off may always fire.
        Test::Eval { .. } if rule.is_sub() => 16,
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

/// The expression, and whether it names something that is no rule.
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

/// Whether the expression is false whatever fires: it names no rule, or of all that it needs.
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
    let place: HashMap<u32, usize> = waiting.iter().map(|p| p.rule).zip(0..).collect();
    let mut used = vec![false; waiting.len()];
    let mut stack: Vec<usize> = (0..waiting.len()).filter(|at| !waiting[*at].silent).collect();
    while let Some(at) = stack.pop() {
        if !std::mem::replace(&mut used[at], true) {
            stack.extend(waiting[at].operands.iter().filter_map(|rule| place.get(rule)));
        }
    }
    let mut used = used.into_iter();
    waiting.retain(|_| used.next().unwrap_or(true));
    waiting
}

/// Sorts metas so that each comes after those it needs; the rest goes to `unsolved`. `settled` has
/// for each rule whether its count is known before metas over unknown ones are answered with 0.
fn in_order(
    rules: &[Rule],
    waiting: Vec<Meta>,
    mut settled: Vec<bool>,
    unsolved: &mut Vec<Unsolved>,
) -> Vec<Meta> {
    let place: HashMap<u32, usize> = waiting.iter().map(|p| p.rule).zip(0..).collect();
    let is_meta = |rule: &&u32| place.contains_key(rule);
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
        unsolved.push(Unsolved { rule: waiting[*at].rule as usize, why });
    }
    // Those that never fire because what they need is never known.
    let mut dead = vec![false; rules.len()];
    let mut guarded = vec![false; rules.len()];
    // How many metas that may wait stand one on another.
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
                unsolved.push(Unsolved { rule, why });
            }
            continue;
        }
        program.guarded = program.operands.iter().any(|r| guarded[*r as usize]);
        guarded[rule] = program.guarded || program.silent;
        let deepest = program.operands.iter().filter_map(|r| depth.get(*r as usize)).max();
        let below = deepest.copied().unwrap_or(0);
        program.at_once |= guarded[rule] || below >= WAIT_DEPTH_MAX;
        program.can_wait = !program.at_once && rules.get(rule).is_some_and(Rule::is_sub);
        if !program.at_once {
            depth[rule] = below + 1;
        }
        programs.push(program);
    }
    programs
}

/// Names of rules, for messages.
fn names_of<'r>(rules: &[Rule], places: impl Iterator<Item = &'r u32>) -> String {
    let names: Vec<&str> =
        places.filter_map(|r| rules.get(*r as usize)).map(|r| &*r.name).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::Due;

    #[test]
    fn what_is_due_is_met_in_order() {
        let mut due = Due::default();
        due.clear(200);
        [0, 63, 64, 130, 199].into_iter().for_each(|place| due.mark(place));
        let all: Vec<usize> = (0..200).filter(|place| due.has(*place)).collect();
        let next = |from: &usize| due.next(from + 1);
        assert_eq!(std::iter::successors(due.next(0), next).collect::<Vec<_>>(), all);
        assert_eq!(all, [0, 63, 64, 130, 199]);
        due.clear(70);
        assert_eq!(due.next(0), None);
    }
}
