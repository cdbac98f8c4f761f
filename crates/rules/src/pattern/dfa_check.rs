//! A quick check whether a pattern that backtracks much can match a text at all.
//!
//! A backtracking engine tries each length of each repetition with each of the others. A lazy DFA
//! of the same pattern takes one step a byte, once the states that ordinary texts lead to are
//! built. It answers "perhaps" wherever it is not sure, so that asking it first changes nothing but
//! the time.

use regex_automata::Input;
use regex_automata::hybrid::dfa::{Cache, DFA};
use regex_automata::nfa::thompson;

use super::automaton;
use super::syntax::{Anchor, Node};

/// Largest NFA, in bytes: one NFA step, which a byte costs whose state is not built yet, takes some
/// microseconds at most.
const NFA_BYTES_MAX: usize = 64 * 1024;
/// Longest text that is checked, in bytes: with the bound above, a text that leads to a new state
/// with each byte costs no more than the backtracking engine's budget.
const TEXT_BYTES_MAX: usize = 4096;
/// DFA states cached for one pattern and thread, in bytes; when the cache is full it is cleared.
const CACHE_BYTES: usize = 256 * 1024;
/// Fewest adjacent repetitions of variable length that are worth the check: a backtracking engine
/// tries all combinations of their lengths.
const REPEATS_MIN: usize = 3;
/// A repetition counts if it may have so many bytes more than its least.
const SPREAD_MIN: u32 = 8;

/// The DFA of a pattern; `None` if there is none that matches wherever the pattern does.
pub(super) fn of(node: &Node) -> Option<Box<DFA>> {
    // Atomic groups are taken as plain ones: that matches more, never less.
    let hir = automaton::hir(node, true)?;
    let config = thompson::Config::new()
        .utf8(false)
        .nfa_size_limit(Some(NFA_BYTES_MAX))
        .which_captures(thompson::WhichCaptures::None);
    let nfa = thompson::Compiler::new().configure(config).build_from_hir(&hir).ok()?;
    let config = DFA::config()
        .cache_capacity(CACHE_BYTES)
        .skip_cache_capacity_check(true)
        .minimum_cache_clear_count(None);
    DFA::builder().configure(config).build_from_nfa(nfa).ok().map(Box::new)
}

/// Whether the pattern can match in this text; `kept` is the cache of DFA states.
///
/// The answer depends on the text alone, whatever states earlier texts have led to: where it is
/// "perhaps", the backtracking engine may exceed its budget, which is a defect of the message and
/// must not depend on threads or order.
pub(super) fn may_match(dfa: &DFA, text: &[u8], kept: &mut Option<Box<Cache>>) -> bool {
    if text.len() > TEXT_BYTES_MAX {
        return true;
    }
    let states = kept.get_or_insert_with(|| Box::new(dfa.create_cache()));
    let found = dfa.try_search_fwd(states, &Input::new(text).earliest(true));
    found.map_or(true, |end| end.is_some())
}

/// Whether the check is worthwhile: the pattern is anchored at the start, and several adjacent
/// repetitions share the text's length among them in many ways.
pub(super) fn is_worth_it(node: &Node) -> bool {
    let Node::Concat(nodes) = node else { return false };
    let is_spread = |node: &&Node| match node {
        Node::Repeat { min, max, .. } => max.is_none_or(|max| max - min.min(&max) >= SPREAD_MIN),
        _ => false,
    };
    matches!(nodes.first(), Some(Node::Anchor(Anchor::Start)))
        && nodes.iter().filter(is_spread).count() >= REPEATS_MIN
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pattern::Pattern;

    #[test]
    fn it_never_rules_out_a_match() {
        let words = "(?i)(?:name|sex|age|city)\\s?".repeat(8);
        let patterns = [
            words.as_str(),
            "^[a-z0-9]{6,24}[-_a-z0-9]{12,36}[a-z0-9]{6,24}\\s*\\z",
            "^a{1,20}(?>b*)",
        ];
        let texts = [
            "name sex age city name sex age city",
            "NAMEsexAGEcitynamesexagecity and more",
            "name sex age",
            "",
            "0123456789abcdefghijklmnopqrstuvwxyz \n",
            "0123456789abcdefghijklmnopqrstuvwxyz x",
            "aaab",
        ];
        let mut ruled_out = 0;
        for (number, pattern) in (0u32..).zip(patterns) {
            let pattern = Pattern::new(pattern).expect("valid");
            let Some(dfa) = pattern.node().and_then(of) else { continue };
            assert_eq!(number == 1, pattern.has_dfa_check());
            let mut kept = None;
            for text in texts {
                let may = may_match(&dfa, text.as_bytes(), &mut kept);
                assert!(may || !pattern.is_match(text.as_bytes()), "{text}");
                let alone = may_match(&dfa, text.as_bytes(), &mut None);
                assert_eq!(may, alone, "texts before it change nothing: {text}");
                ruled_out += usize::from(!may);
            }
        }
        assert_eq!(ruled_out, 5 + 6 + 6);
    }

    #[test]
    fn full_room_for_states_changes_no_answer() {
        let pattern = format!("^{}!", "(?:a[ab]{1,9}|b?a{1,9}b)".repeat(20));
        let pattern = Pattern::new(&pattern).expect("valid");
        let dfa = pattern.node().and_then(of).expect("it has an automaton");
        let (mut seed, mut kept) = (7u32, None);
        let mut matching = 0;
        for length in (0..TEXT_BYTES_MAX).step_by(61) {
            let mut text: Vec<u8> = (0..length % 190)
                .map(|_| {
                    seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    if seed >> 30 == 0 { b'b' } else { b'a' }
                })
                .collect();
            text.push(b'!');
            let may = may_match(&dfa, &text, &mut kept);
            assert_eq!(may, may_match(&dfa, &text, &mut None));
            matching += usize::from(may);
        }
        assert!((1..67).contains(&matching), "{matching} match");
        let states = kept.expect("it was asked");
        assert!(states.clear_count() > 0, "the room was never full");
    }

    #[test]
    fn small_patterns_have_none() {
        let pattern = |text: &str| Pattern::new(text).expect("valid");
        assert!(!pattern("(?i)viagra").has_dfa_check());
        let looks_ahead = pattern(&format!("(?=x){}", "(?:ab|cd)".repeat(60)));
        assert!(looks_ahead.node().and_then(of).is_none());
    }
}
