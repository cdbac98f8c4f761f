//! Rules on transactions: each is inspected as it grows, and what a rule has found of it is kept
//! until the rest is there.

use gauntlet_packet::Direction;
use gauntlet_protocols::{Conversation, Protocol, State};

use super::actions;
use super::alert::Alert;
use super::engines::{Inspection, Result};
use super::profile::Searched;
use super::program::{Candidates, Engine, FILES_BIT, Look, Program, TransactionFilter};
use super::rules::{self, Scene};

/// The rule matched the transaction as a whole.
const FULL: u32 = 1 << 0;
/// The rule cannot match the transaction any more.
const NEVER: u32 = 1 << 1;

/// What detection keeps with a transaction.
#[derive(Debug, Default)]
struct Kept {
    /// Of the program whose rules these are.
    generation: u64,
    /// Rules with what they have found, to the server and to the client.
    rules: [Vec<(u32, u32)>; 2],
    /// One more than the progress up to which filters have run for good.
    progress: [u8; 2],
    /// Files that were there when rules last looked.
    files: [usize; 2],
}

/// Inspects the transactions of a flow in the packet's direction. `state_rules` are rules of
/// transactions whose fast pattern is in the payload or that have none.
pub(crate) fn inspect(
    program: &Program,
    scene: &mut Scene<'_>,
    conversation: &mut Conversation,
    state_rules: &[u32],
    queue: &mut Vec<Alert>,
) {
    let Some(direction) = scene.facts.direction else { return };
    let Some(protocol) = conversation.protocol() else { return };
    let complete = conversation.complete(direction);
    conversation.look_at_end(scene.facts.at_end);
    for place in 0..conversation.count() {
        let Some(state) = conversation.state_mut(place) else { continue };
        let side = direction.index();
        let progress = state.progress(direction);
        let updated = state.updated.get(side).copied().unwrap_or_default();
        let done = state.inspected.get(side).copied().unwrap_or_default();
        let skip = state.skip.get(side).copied().unwrap_or_default();
        if done || skip || (!updated && progress < complete && !scene.facts.at_end) {
            continue;
        }
        let mut kept = take(state, program.generation);
        note_new_files(state, direction, &mut kept);
        let turn = Turn { program, place, id: state.id, protocol, direction, progress };
        let before = queue.len();
        let matched = turn.run(scene, conversation, state_rules, &mut kept, queue);
        let stores = queue.iter().skip(before).any(|alert| program.stores(alert.rule));
        let flow = scene.flow.as_deref_mut();
        actions::carry_out(program, &matched, conversation, (place, direction), flow);
        if let Some(state) = conversation.state_mut(place) {
            if let (true, Some(place)) = (stores, state.reads_on.get_mut(side)) {
                *place = true;
            }
            if let Some(updated) = state.updated.get_mut(side) {
                *updated = false;
            }
            if progress >= complete
                && let Some(inspected) = state.inspected.get_mut(side)
            {
                *inspected = true;
            }
            state.kept = Some(Box::new(kept));
        }
        conversation.inspected(place, direction);
    }
}

/// What is kept; numbers of rules mean others in another generation.
fn take(state: &mut State, generation: u64) -> Kept {
    let kept = state.kept.take().and_then(|kept| kept.downcast::<Kept>().ok());
    let kept = kept.map(|kept| *kept).filter(|kept| kept.generation == generation);
    kept.unwrap_or(Kept { generation, ..Kept::default() })
}

/// With a new file, rules look at files again.
fn note_new_files(state: &State, direction: Direction, kept: &mut Kept) {
    let count = state.files(direction).len();
    let side = direction.index();
    let (Some(known), Some(rules)) = (kept.files.get_mut(side), kept.rules.get_mut(side)) else {
        return;
    };
    if count > *known && *known > 0 {
        for (_, flags) in rules.iter_mut().filter(|(_, flags)| flags & FILES_BIT != 0) {
            *flags &= !(NEVER | FULL | FILES_BIT);
        }
    }
    *known = count;
}

/// One transaction, inspected once.
struct Turn<'a> {
    program: &'a Program,
    place: usize,
    id: u64,
    protocol: Protocol,
    direction: Direction,
    progress: u8,
}

impl Turn<'_> {
    fn run(
        &self,
        scene: &mut Scene<'_>,
        conversation: &Conversation,
        state_rules: &[u32],
        kept: &mut Kept,
        queue: &mut Vec<Alert>,
    ) -> Vec<u32> {
        let mut acting = Vec::new();
        let side = self.direction.index();
        let mut inspection = Inspection::new(self.program, conversation, self.place);
        let mut candidates = self.candidates(scene, &mut inspection, kept);
        candidates.extend_from_slice(state_rules);
        let known = kept.rules.get(side).cloned().unwrap_or_default();
        candidates.extend(known.iter().map(|(rule, _)| *rule));
        candidates.sort_unstable();
        candidates.dedup();
        for number in candidates {
            let before = known.iter().find(|(rule, _)| *rule == number).map(|(_, flags)| *flags);
            if before.is_some_and(|flags| flags & (FULL | NEVER) != 0) {
                continue;
            }
            let begun = scene.begin();
            let (matched, after) = self.rule(number, before, scene, &mut inspection);
            scene.tried(number, begun, matched);
            // What a rule on both sides has found counts in both directions.
            let both = self.is_bidirectional(number) && before.is_none();
            for (i, rules) in kept.rules.iter_mut().enumerate() {
                if i == side || both {
                    keep(rules, number, before, after);
                }
            }
            if matched {
                rules::after_match(self.program, number, scene);
                let rule = self.program.rules.rules.get(number as usize);
                if rule.is_some_and(|rule| !rule.post.is_empty()) {
                    acting.push(number);
                }
                queue.push(Alert {
                    rule: number,
                    action: rules::action(self.program, number),
                    transaction: Some(self.id),
                    names_transaction: true,
                    of_state: true,
                    of_stream: false,
                    is_rate_filtered: false,
                });
            }
        }
        acting
    }

    /// Rules whose fast pattern is in one of the transaction's buffers, and those without one.
    fn candidates(
        &self,
        scene: &mut Scene<'_>,
        inspection: &mut Inspection<'_>,
        kept: &mut Kept,
    ) -> Vec<u32> {
        let mut found = Vec::new();
        let before = kept.progress.get(self.direction.index()).copied().unwrap_or_default();
        let mut seen = before;
        for filter in self.filters() {
            if !filter.protocol.is_none_or(|protocol| inspection.concerns(protocol, self.direction))
            {
                continue;
            }
            let is_past = self.progress > filter.progress;
            if filter.progress > self.progress || (is_past && before > filter.progress) {
                continue;
            }
            match &filter.what {
                Candidates::Always(rules) => found.extend_from_slice(rules),
                Candidates::Buffer { buffer, key, kind, matcher } => {
                    let (begun, before) = (scene.begin(), found.len());
                    inspection.each((*buffer, *key, *kind), self.direction, &mut |bytes| {
                        matcher.candidates(bytes.bytes, scene.search, &mut found);
                    });
                    scene.searched(Searched::Buffer(*key), begun, found.len() - before);
                }
            }
            // A message that is carried has no progress of its own.
            let is_own = filter.protocol.is_none_or(|protocol| !self.is_carried(protocol));
            if is_past && filter.is_last_of_progress && is_own {
                seen = seen.max(filter.progress + 1);
            }
        }
        if let Some(progress) = kept.progress.get_mut(self.direction.index()) {
            *progress = seen;
        }
        found
    }

    fn is_bidirectional(&self, number: u32) -> bool {
        let rule = self.program.rules.rules.get(number as usize);
        rule.is_some_and(|rule| rule.is_bidirectional)
    }

    fn is_carried(&self, protocol: Protocol) -> bool {
        self.protocol == Protocol::Doh2 && matches!(protocol, Protocol::Dns | Protocol::Doh2)
    }

    /// Filters of the transaction's protocol and direction. They are sorted by these.
    fn filters(&self) -> impl Iterator<Item = &TransactionFilter> {
        let all = &self.program.prefilter.transactions;
        let within = (self.protocol == Protocol::Doh2).then_some([Protocol::Http2, Protocol::Dns]);
        let protocols = within.into_iter().flatten().chain([self.protocol]);
        protocols.flat_map(move |protocol| {
            let slot = (Some(protocol), self.direction);
            let start = all.partition_point(|filter| (filter.protocol, filter.direction) < slot);
            let behind = all.get(start..).unwrap_or_default();
            behind.iter().take_while(move |filter| (filter.protocol, filter.direction) == slot)
        })
    }

    /// Inspects one rule, from the beginning or where it was left; whether it matched now, and what
    /// is to be kept of it.
    fn rule(
        &self,
        number: u32,
        before: Option<u32>,
        scene: &mut Scene<'_>,
        inspection: &mut Inspection<'_>,
    ) -> (bool, Option<u32>) {
        let index = number as usize;
        let (Some(rule), Some(made)) =
            (self.program.rules.rules.get(index), self.program.compiled.get(index))
        else {
            return (false, None);
        };
        if before.is_none() {
            let fits = made.protocols.is_none_or(|protocols| protocols.has(self.protocol));
            if !fits || !rules::packet_matches(self.program, number, scene, true) {
                return (false, None);
            }
        }
        scene.inspector.begin();
        let mut step = Steps { flags: before.unwrap_or_default(), ..Steps::default() };
        let mut engines = made.engines.iter();
        let through = loop {
            let Some(engine) = engines.next() else { break true };
            if step.flags & engine.bit != 0 {
                continue;
            }
            // A rule on both sides has its engines of requests behind it when responses come.
            let is_turn = self.direction == engine.direction
                || (rule.is_bidirectional && self.direction == Direction::ToClient);
            if !is_turn {
                let is_last = engines.len() == 0;
                if rule.is_bidirectional && self.direction == Direction::ToServer && is_last {
                    break false;
                }
                continue;
            }
            if let Some(protocol) = engine.protocol
                && !inspection.concerns(protocol, self.direction)
            {
                continue;
            }
            if self.progress < engine.progress {
                break false;
            }
            if !self.step(engine, number, scene, inspection, &mut step) {
                break false;
            }
        };
        if step.at_hook {
            return (true, None);
        }
        let full = through && step.matches > 0;
        if full {
            step.flags |= FULL;
        }
        (full, self.to_keep(before, full, &step))
    }

    /// Inspects one engine; whether the next is to be looked at.
    fn step(
        &self,
        engine: &Engine,
        number: u32,
        scene: &mut Scene<'_>,
        inspection: &mut Inspection<'_>,
        step: &mut Steps,
    ) -> bool {
        if engine.is_prefilter {
            step.before_progress |= self.progress > engine.progress;
            step.in_progress |= self.progress == engine.progress && !scene.facts.is_flush;
        }
        if matches!(engine.look, Look::Progress) {
            step.before_progress |= self.progress > engine.progress;
            // It matches for as long as the transaction is there, so nothing is kept.
            if self.progress <= engine.progress {
                step.at_hook = true;
                return false;
            }
        }
        let result = inspection.engine(engine, number, self.progress, scene);
        match result {
            Result::Match => {
                step.flags |= engine.bit;
                step.matches += 1;
                return true;
            }
            Result::MatchMoreFiles => {
                step.matches += 1;
                return true;
            }
            Result::Never => step.flags |= NEVER | engine.bit,
            Result::NeverFiles => {
                step.flags |= NEVER | engine.bit;
                step.files_failed = true;
            }
            Result::NoMatch => {}
        }
        if engine.is_prefilter && step.before_progress {
            step.flags |= NEVER | engine.bit;
        }
        false
    }

    fn to_keep(&self, before: Option<u32>, full: bool, step: &Steps) -> Option<u32> {
        if before.is_some() {
            return Some(step.flags);
        }
        if step.flags & NEVER != 0 {
            return step.files_failed.then_some(step.flags);
        }
        if full && step.before_progress {
            // The prefilter will not name it again, but for a new file.
            return (step.flags & FILES_BIT != 0).then_some(step.flags);
        }
        if !full && step.in_progress {
            return None;
        }
        (step.flags != 0 || step.files_failed).then_some(step.flags)
    }
}

#[derive(Default)]
struct Steps {
    flags: u32,
    matches: u32,
    files_failed: bool,
    /// The transaction has just the progress that the rule is hooked to.
    at_hook: bool,
    /// The fast pattern's buffer is complete.
    before_progress: bool,
    /// The fast pattern's buffer will be looked at again.
    in_progress: bool,
}

fn keep(rules: &mut Vec<(u32, u32)>, number: u32, before: Option<u32>, after: Option<u32>) {
    let Some(after) = after else { return };
    if before.is_none() {
        rules.push((number, after));
    } else if let Some((_, flags)) = rules.iter_mut().find(|(rule, _)| *rule == number) {
        *flags = after;
    }
}
