//! The order in which rules are evaluated: by action, then rules that set state before those that
//! test it, then by priority and id.

use super::matches::{BitCommand, IntCommand, Match, Track};
use super::{Action, Rule};
use crate::bytes::pattern::Capture;

/// Actions in the order of the configuration (`action-order`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActionOrder(Vec<&'static str>);

impl Default for ActionOrder {
    fn default() -> Self {
        Self(vec!["pass", "drop", "reject", "alert"])
    }
}

impl ActionOrder {
    /// From words; `None` unless these are the four actions.
    pub fn new<'a>(words: impl Iterator<Item = &'a str>) -> Option<Self> {
        let all = Self::default().0;
        let find = |word: &str| all.iter().copied().find(|action| *action == word);
        let order: Option<Vec<_>> = words.map(find).collect();
        let order = order?;
        let is_whole = order.len() == 4 && all.iter().all(|action| order.contains(action));
        is_whole.then_some(Self(order))
    }

    /// Place of a rule's action.
    fn place(&self, rule: &Rule) -> usize {
        let name = match rule.action {
            Action::Pass => "pass",
            Action::Drop => "drop",
            Action::Reject(_) => "reject",
            Action::Alert => "alert",
            // Last in Suricata too: it is none of the four.
            Action::Config => return self.0.len(),
        };
        self.0.iter().position(|action| *action == name).unwrap_or(self.0.len())
    }
}

/// What a rule does with a kind of state; rules with a higher value come first.
fn use_of(reads: bool, writes: bool) -> u8 {
    match (reads, writes) {
        (false, false) => 1,
        (true, false) => 2,
        (true, true) => 3,
        (false, true) => 4,
    }
}

fn uses(rule: &Rule) -> [u8; 6] {
    let has = |list: &[Match], wanted: &dyn Fn(&Match) -> bool| list.iter().any(wanted);
    let flowbits = |item: &Match| matches!(item, Match::FlowBits(_));
    let ints = |item: &Match| matches!(item, Match::FlowInt(_));
    let reads = |wanted: &dyn Fn(&Match) -> bool| has(&rule.packet, wanted);
    let writes = |wanted: &dyn Fn(&Match) -> bool| has(&rule.post, wanted);
    let captures = |wanted: fn(&Capture) -> bool| {
        rule.payload.iter().any(|item| match item {
            Match::Pcre(pattern) => pattern.captures.iter().any(wanted),
            _ => false,
        })
    };
    let variable = |packet: bool| {
        reads(&|item| matches!(item, Match::Variable(check) if check.of_packet == packet))
    };
    // xbits count where they are tested, hostbits where they are set: what Suricata does.
    let tests = |pair: bool| {
        reads(&|item| match item {
            Match::HostBits(bits) => {
                let of_pair = bits.track == Track::Pair;
                !bits.is_hostbits && bits.track != Track::Transaction && of_pair == pair
            }
            _ => false,
        })
    };
    let sets_host = writes(&|item| matches!(item, Match::HostBits(bits) if bits.is_hostbits));
    [
        use_of(reads(&flowbits), writes(&flowbits)),
        use_of(reads(&ints), writes(&ints)),
        use_of(variable(false), captures(|capture| matches!(capture, Capture::Flow(_)))),
        use_of(variable(true), captures(|capture| matches!(capture, Capture::Packet(_)))),
        use_of(tests(false), sets_host),
        use_of(tests(true), false),
    ]
}

type SortKey = (usize, [std::cmp::Reverse<u8>; 6], i32, u32);

fn key(rule: &Rule, actions: &ActionOrder) -> SortKey {
    let uses = uses(rule).map(std::cmp::Reverse);
    (actions.place(rule), uses, rule.priority, rule.sid)
}

/// Whether a command on bits changes them.
pub fn changes_bits(command: BitCommand) -> bool {
    !matches!(command, BitCommand::IsSet | BitCommand::IsNotSet)
}

/// Whether a command on numbers changes them.
pub fn changes_number(command: IntCommand) -> bool {
    matches!(command, IntCommand::Set | IntCommand::Add | IntCommand::Subtract)
}

/// Puts rules, which are in the order of their files, into that of their evaluation.
pub fn sort(rules: Vec<Rule>, actions: &ActionOrder) -> Vec<Rule> {
    let keyed = rules.into_iter().map(|rule| (key(&rule, actions), rule)).collect();
    merge_sort(keyed).into_iter().map(|(_, rule)| rule).collect()
}

/// Rules that are equal (the same id with other group ids, or both directions of one rule) end up
/// in the order in which Suricata's merge sort leaves them: halves are taken alternately and
/// backwards, and of equal ones that of the second half goes first.
fn merge_sort(rules: Vec<(SortKey, Rule)>) -> Vec<(SortKey, Rule)> {
    let (mut first, mut second) = (Vec::new(), Vec::new());
    for (at, rule) in rules.into_iter().enumerate() {
        if at % 2 == 0 { first.push(rule) } else { second.push(rule) }
    }
    first.reverse();
    second.reverse();
    if second.is_empty() {
        return first;
    }
    let mut out = Vec::with_capacity(first.len() + second.len());
    let mut first = merge_sort(first).into_iter().peekable();
    let mut second = merge_sort(second).into_iter().peekable();
    loop {
        let next = match (first.peek(), second.peek()) {
            (Some(a), Some(b)) if a.0 < b.0 => first.next(),
            (Some(_), None) => first.next(),
            (_, Some(_)) => second.next(),
            (None, None) => return out,
        };
        out.extend(next);
    }
}
