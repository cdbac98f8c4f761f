//! Required sets: every match has a byte of each of them.

use crate::pattern::frequency::BYTE_FREQUENCIES;
use crate::pattern::syntax::{ByteSet, Node};

/// Most sets that [`required_sets`] keeps.
const SETS_MAX: usize = 4;
/// Sets with a larger share of ordinary text are too frequent.
const SET_FREQUENCY_MAX: f64 = 0.2;

/// Sets of each of which every match has a byte, the rarest first.
pub(crate) fn required_sets(node: &Node) -> Vec<ByteSet> {
    let mut sets = Vec::new();
    collect_sets(node, &mut sets);
    sets.retain(|s| set_frequency(s) <= SET_FREQUENCY_MAX);
    sets.sort_by(|a, b| set_frequency(a).total_cmp(&set_frequency(b)));
    sets.dedup();
    sets.truncate(SETS_MAX);
    sets
}

fn set_frequency(set: &ByteSet) -> f64 {
    set.sum_of(&BYTE_FREQUENCIES)
}

fn collect_sets(node: &Node, out: &mut Vec<ByteSet>) {
    match node {
        Node::Set(set) => out.push(*set),
        Node::Concat(nodes) => nodes.iter().for_each(|n| collect_sets(n, out)),
        Node::Repeat { node, min, .. } if *min > 0 => collect_sets(node, out),
        Node::Group { node, .. } | Node::Atomic(node) => collect_sets(node, out),
        Node::Alternate(nodes) => {
            let mut sets = Vec::new();
            let mut rarest = |n: &Node| {
                sets.clear();
                collect_sets(n, &mut sets);
                let frequencies = sets.iter().map(|set| (set_frequency(set), *set));
                frequencies.min_by(|a, b| a.0.total_cmp(&b.0)).map(|c| c.1)
            };
            let all: Option<Vec<ByteSet>> = nodes.iter().map(&mut rarest).collect();
            let all = all.unwrap_or_default();
            out.extend(all.into_iter().reduce(|a, b| a.union(&b)));
        }
        _ => {}
    }
}
