//! Strings of which one must occur in every match: the prefilter looks for them first.
//!
//! Strings are in lower case (ASCII) and compared without case, so that one automaton serves all
//! patterns; a string that occurs in another case only costs a confirmation. [`BOUNDARY`] in one stands for a
//! word boundary: most words of rules are parts of longer, harmless ones.

use super::chance::BYTE_CHANCES;
pub(crate) use super::chance::{Texts, string_chance};
use super::syntax::{Anchor, ByteSet, Node};

/// Most strings that stand for one pattern.
const STRINGS_MAX: usize = 768;
/// Most strings that a place in the pattern may multiply to.
const EXACT_MAX: usize = 192;
/// Most strings that are compared with each other.
const MINIMIZED_MAX: usize = 128;
/// Longest string kept, in bytes.
const STRING_BYTES_MAX: usize = 24;
/// Most strings that are looked for beside a pattern's first.
const SECOND_STRINGS_MAX: usize = 96;
/// Fewest bytes of each of them.
const SECOND_BYTES_MIN: usize = 3;
/// Largest set of bytes that is spelled out.
const SET_MAX: usize = 8;

/// A word boundary (`\b`) in a string. No string has this byte otherwise: they are in lower case.
pub(crate) const BOUNDARY: u8 = b'B';

/// Alternatives: one of these strings occurs in every match.
pub(crate) type Strings = Vec<Vec<u8>>;

/// The rarest alternatives that can be had; none if a match need not contain any string rarer than
/// `chance_max`, the chance that one of them begins at a byte of ordinary text.
pub(crate) fn required(node: &Node, chance_max: f64, texts: Texts) -> Option<Candidate> {
    let found = analyse(node, texts);
    let mut best = found.best;
    if let Some(exact) = found.exact {
        better(&mut best, exact, texts);
    }
    let best = best.filter(|b| b.chance <= chance_max)?;
    Some(Candidate { strings: minimize(best.strings), chance: best.chance })
}

/// Further strings of which one must occur in every match, elsewhere than those of `first`: the
/// rarest that can be had, if they begin at no more than `chance_max` of the bytes.
pub(crate) fn second(
    node: &Node,
    first: &[Vec<u8>],
    chance_max: f64,
    texts: Texts,
) -> Option<Strings> {
    let mut nodes = Vec::new();
    in_a_row(node, &mut nodes);
    let first: Vec<Vec<u8>> = first.iter().map(|f| bytes_of(f)).collect();
    let is_said = |bytes: &[u8]| first.iter().any(|f| memchr::memmem::find(f, bytes).is_some());
    let is_new = |string: &Vec<u8>| {
        let bytes = bytes_of(string);
        bytes.len() >= SECOND_BYTES_MIN && !is_said(&bytes)
    };
    let fits = |piece: &Candidate| {
        piece.chance <= chance_max
            && piece.strings.len() <= SECOND_STRINGS_MAX
            && piece.strings.iter().all(is_new)
    };
    let pieces = pieces(nodes.into_iter().map(|node| analyse(node, texts)), texts);
    let rarest = pieces.into_iter().filter(fits).min_by(|a, b| a.chance.total_cmp(&b.chance))?;
    Some(minimize(rarest.strings))
}

/// How much of a match may stand before the first of some strings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Before {
    /// So many bytes at most.
    Bytes(u32),
    /// So many newlines at most, among any number of bytes.
    Lines(u32),
    /// There is no bound.
    Any,
}

impl Before {
    /// Of a pattern's strings, which are those of [`required`].
    pub(crate) fn of(node: &Node, strings: &[Vec<u8>], texts: Texts) -> Self {
        let bound = |most| most_before(node, strings, texts, most)?.try_into().ok();
        let lines = || bound(&newlines_max).map(Before::Lines);
        bound(&Node::max_len).map(Before::Bytes).or_else(lines).unwrap_or(Before::Any)
    }

    /// Where the first match in a text may begin whose first string is at `at`.
    pub(crate) fn start(self, text: &[u8], at: usize) -> usize {
        match self {
            Before::Bytes(bytes) => at.saturating_sub(bytes as usize),
            Before::Lines(lines) => {
                let before = text.get(..at).unwrap_or_default();
                let newline = memchr::memrchr_iter(b'\n', before).nth(lines as usize);
                newline.map_or(0, |newline| newline + 1)
            }
            Before::Any => 0,
        }
    }
}

/// Most newlines that a match has; none if there is no bound.
fn newlines_max(node: &Node) -> Option<usize> {
    match node {
        Node::Set(set) => Some(usize::from(set.contains(b'\n'))),
        Node::Anchor(_) | Node::Around { .. } => Some(0),
        Node::Backreference { .. } | Node::Template { .. } => None,
        Node::Concat(nodes) => {
            nodes.iter().try_fold(0usize, |sum, node| Some(sum.saturating_add(newlines_max(node)?)))
        }
        Node::Alternate(nodes) => {
            nodes.iter().try_fold(0usize, |most, node| Some(most.max(newlines_max(node)?)))
        }
        Node::Repeat { node, max, .. } => match newlines_max(node)? {
            0 => Some(0),
            lines => Some(lines.saturating_mul((*max)? as usize)),
        },
        Node::Group { node, .. } | Node::Atomic(node) => newlines_max(node),
    }
}

/// How much of a match, by this measure, may stand before the first of these strings (and the string itself);
/// none if there is no bound.
fn most_before(
    node: &Node,
    strings: &[Vec<u8>],
    texts: Texts,
    most: &dyn Fn(&Node) -> Option<usize>,
) -> Option<usize> {
    if let Some(all) = most(node) {
        return Some(all);
    }
    let nodes = match node {
        Node::Group { node, .. } | Node::Atomic(node) => {
            return most_before(node, strings, texts, most);
        }
        Node::Concat(nodes) => nodes,
        _ => return None,
    };
    // The shortest beginning in which one of them must be.
    let bounded = nodes.iter().take_while(|node| most(node).is_some()).count();
    let holds = |length: usize| {
        let parts = nodes.iter().take(length).map(|node| analyse(node, texts));
        let found = concat(parts, texts);
        let mut best = found.best;
        if let Some(exact) = found.exact {
            better(&mut best, exact, texts);
        }
        let has = |string: &Vec<u8>| {
            strings.iter().any(|one| memchr::memmem::find(string, one).is_some())
        };
        best.is_some_and(|best| best.strings.iter().all(has))
    };
    if !holds(bounded) {
        return None;
    }
    let (mut less, mut enough) = (0, bounded);
    while enough - less > 1 {
        let middle = less.midpoint(enough);
        if holds(middle) { enough = middle } else { less = middle }
    }
    let mut beginning = nodes.iter().take(enough);
    beginning.try_fold(0usize, |sum, node| Some(sum.saturating_add(most(node)?)))
}

/// The bytes of a string, without word boundaries.
pub(crate) fn bytes_of(string: &[u8]) -> Vec<u8> {
    string.iter().copied().filter(|byte| *byte != BOUNDARY).collect()
}

/// What a pattern matches one after the other.
fn in_a_row<'n>(node: &'n Node, out: &mut Vec<&'n Node>) {
    match node {
        Node::Group { node, .. } | Node::Atomic(node) => in_a_row(node, out),
        Node::Concat(nodes) => nodes.iter().for_each(|node| in_a_row(node, out)),
        other => out.push(other),
    }
}

/// Strings of each stretch of a sequence whose bytes are known.
fn pieces(parts: impl Iterator<Item = Known>, texts: Texts) -> Vec<Candidate> {
    let mut out = Vec::new();
    let mut push = |strings: Strings| {
        let mut piece = None;
        better(&mut piece, strings, texts);
        out.extend(piece);
    };
    let mut run: Strings = vec![Vec::new()];
    for part in parts {
        if let Some(candidate) = part.best {
            push(candidate.strings);
        }
        let Some(exact) = part.exact else {
            push(cut(&mut run, part.edge));
            continue;
        };
        let longest = run.iter().map(Vec::len).max().unwrap_or(0);
        if run.len() * exact.len() > EXACT_MAX || longest >= STRING_BYTES_MAX {
            push(std::mem::replace(&mut run, exact));
            continue;
        }
        run = join(run, &exact);
    }
    push(run);
    out
}

/// Strings of which so many occurrences, at different places, are in every match: those of what the
/// pattern repeats. None if nothing that begins at less than `chance_max` of the bytes is repeated
/// `times_min` times.
pub(crate) fn repeated(
    node: &Node,
    times_min: u32,
    chance_max: f64,
    texts: Texts,
) -> Option<(Candidate, u32)> {
    match node {
        Node::Group { node, .. } | Node::Atomic(node) => {
            repeated(node, times_min, chance_max, texts)
        }
        Node::Concat(nodes) => {
            let found = nodes.iter().filter_map(|n| repeated(n, times_min, chance_max, texts));
            found.max_by_key(|(_, times)| *times)
        }
        Node::Repeat { node, min, .. } if *min >= times_min => {
            Some((required(node, chance_max, texts)?, *min))
        }
        _ => None,
    }
}

/// What is known of a node.
#[derive(Debug, Default)]
struct Known {
    /// Every match is exactly one of these.
    exact: Option<Strings>,
    /// Every match contains one of these.
    best: Option<Candidate>,
    /// Every match begins with one of these and ends with one of these.
    edge: Option<Strings>,
}

/// Strings of which one occurs in every match.
#[derive(Debug)]
pub(crate) struct Candidate {
    pub(crate) strings: Strings,
    /// Roughly how often one of them begins at a byte of ordinary text.
    pub(crate) chance: f64,
}

/// Keeps the rarer of what there is and these strings.
fn better(best: &mut Option<Candidate>, strings: Strings, texts: Texts) {
    if let Some(chance) = chance_if_rarer(best.as_ref(), &strings, texts) {
        *best = Some(Candidate { strings, chance });
    }
}

/// The chance of the strings, if they may stand for a pattern and are rarer than what there is.
fn chance_if_rarer(best: Option<&Candidate>, strings: &Strings, texts: Texts) -> Option<f64> {
    let is_empty = |string: &Vec<u8>| string.iter().all(|byte| *byte == BOUNDARY);
    if strings.is_empty() || strings.len() > STRINGS_MAX || strings.iter().any(is_empty) {
        return None;
    }
    let chance: f64 = strings.iter().map(|s| string_chance(s, texts)).sum();
    best.is_none_or(|b| chance < b.chance).then_some(chance)
}

/// Ends a run at something that begins and ends with one of these strings: what the run is with its
/// beginning. Its end begins the next.
fn cut(run: &mut Strings, edge: Option<Strings>) -> Strings {
    let Some(edge) = edge else { return std::mem::replace(run, vec![Vec::new()]) };
    let ended = std::mem::replace(run, edge);
    let longest = ended.iter().map(Vec::len).max().unwrap_or(0);
    if ended.len() * run.len() > EXACT_MAX || longest >= STRING_BYTES_MAX {
        return ended;
    }
    join(ended, run)
}

/// Continues each of the strings with each of the others.
fn join(run: Strings, exact: &[Vec<u8>]) -> Strings {
    if let [only] = exact {
        let mut run = run;
        run.iter_mut().for_each(|string| string.extend_from_slice(only));
        return run;
    }
    let longer = |a: &Vec<u8>| exact.iter().map(|b| [a.as_slice(), b].concat()).collect::<Vec<_>>();
    unique(run.iter().flat_map(longer).collect())
}

/// Removes strings that contain another one.
fn minimize(strings: Strings) -> Strings {
    let mut strings = unique(strings);
    if strings.len() > MINIMIZED_MAX {
        return strings;
    }
    strings.sort_by_key(Vec::len);
    let mut out: Strings = Vec::new();
    for string in strings {
        if !out.iter().any(|s| memchr::memmem::find(&string, s).is_some()) {
            out.push(string);
        }
    }
    out
}

fn analyse(node: &Node, texts: Texts) -> Known {
    match node {
        // Without case a set has half its bytes at least.
        Node::Set(set) if set.len() > 2 * SET_MAX as u32 => Known::default(),
        Node::Set(set) => {
            let mut bytes: Vec<u8> = set.iter().map(|b| b.to_ascii_lowercase()).collect();
            bytes.sort_unstable();
            bytes.dedup();
            let exact = (bytes.len() <= SET_MAX).then(|| bytes.iter().map(|b| vec![*b]).collect());
            Known { exact, best: None, edge: None }
        }
        Node::Anchor(Anchor::Word) => {
            Known { exact: Some(vec![vec![BOUNDARY]]), ..Known::default() }
        }
        Node::Anchor(_) | Node::Around { .. } => {
            Known { exact: Some(vec![Vec::new()]), ..Known::default() }
        }
        Node::Backreference { .. } | Node::Template { .. } => Known::default(),
        Node::Group { node, .. } | Node::Atomic(node) => analyse(node, texts),
        Node::Alternate(nodes) => alternate(nodes, texts),
        Node::Concat(nodes) => concat(nodes.iter().map(|node| analyse(node, texts)), texts),
        Node::Repeat { node, min, max, .. } => repeat(node, *min, *max, texts),
    }
}

fn alternate(nodes: &[Node], texts: Texts) -> Known {
    let mut exact = Some(Strings::new());
    let mut best = Some(Strings::new());
    for node in nodes {
        let mut one = analyse(node, texts);
        exact = match (exact, &one.exact) {
            (Some(mut all), Some(mine)) if all.len() + mine.len() <= EXACT_MAX => {
                all.extend(mine.iter().cloned());
                Some(all)
            }
            _ => None,
        };
        if let Some(mine) = one.exact.take() {
            better(&mut one.best, mine, texts);
        }
        best = match (best, one.best) {
            (Some(mut all), Some(mine)) if all.len() + mine.strings.len() <= STRINGS_MAX => {
                all.extend(mine.strings);
                Some(all)
            }
            _ => None,
        };
        if exact.is_none() && best.is_none() {
            return Known::default();
        }
    }
    let mut candidate = None;
    if let Some(strings) = best {
        better(&mut candidate, unique(strings), texts);
    }
    Known { exact: exact.map(unique), best: candidate, edge: None }
}

fn unique(mut strings: Strings) -> Strings {
    strings.sort();
    strings.dedup();
    strings
}

fn concat(parts: impl Iterator<Item = Known>, texts: Texts) -> Known {
    let mut best: Option<Candidate> = None;
    // The strings that the parts since `cut` make together; `whole` while nothing was cut.
    let mut run: Strings = vec![Vec::new()];
    let mut whole = true;
    for part in parts {
        if let Some(candidate) = part.best {
            better(&mut best, candidate.strings, texts);
        }
        let Some(exact) = part.exact else {
            better(&mut best, cut(&mut run, part.edge), texts);
            whole = false;
            continue;
        };
        let longest = run.iter().map(Vec::len).max().unwrap_or(0);
        if run.len() * exact.len() > EXACT_MAX || longest >= STRING_BYTES_MAX {
            better(&mut best, std::mem::replace(&mut run, exact), texts);
            whole = false;
            continue;
        }
        // A run that has become an empty string on one way tells nothing, but may grow again.
        run = join(run, &exact);
        if let Some(chance) = chance_if_rarer(best.as_ref(), &run, texts) {
            best = Some(Candidate { strings: run.clone(), chance });
        }
    }
    Known { exact: whole.then_some(run), best, edge: None }
}

fn repeat(node: &Node, min: u32, max: Option<u32>, texts: Texts) -> Known {
    if min == 0 {
        let exact = match (analyse(node, texts).exact, max) {
            (Some(mut strings), Some(1)) => {
                strings.push(Vec::new());
                Some(unique(strings)).filter(|s| s.len() <= SET_MAX)
            }
            _ => None,
        };
        return Known { exact, best: None, edge: None };
    }
    if max == Some(min) && min <= STRING_BYTES_MAX as u32 {
        return concat((0..min).map(|_| analyse(node, texts)), texts);
    }
    // At least `min` times: what `min` of them make stands in a row, but more may follow.
    let copies = min.min(STRING_BYTES_MAX as u32);
    let mut known = concat((0..copies).map(|_| analyse(node, texts)), texts);
    known.edge = known.exact.take();
    if let Some(edge) = &known.edge {
        better(&mut known.best, edge.clone(), texts);
    }
    known
}

/// Most sets that [`required_sets`] keeps.
const SETS_MAX: usize = 4;
/// A set with a larger share of ordinary text tells nothing.
const SET_CHANCE_MAX: f64 = 0.2;

/// Sets of each of which a byte occurs in every match, the rarest first.
pub(crate) fn required_sets(node: &Node) -> Vec<ByteSet> {
    let mut sets = Vec::new();
    collect_sets(node, &mut sets);
    sets.retain(|s| set_chance(s) <= SET_CHANCE_MAX);
    sets.sort_by(|a, b| set_chance(a).total_cmp(&set_chance(b)));
    sets.dedup();
    sets.truncate(SETS_MAX);
    sets
}

fn set_chance(set: &ByteSet) -> f64 {
    set.sum_of(&BYTE_CHANCES)
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
                let chances = sets.iter().map(|set| (set_chance(set), *set));
                chances.min_by(|a, b| a.0.total_cmp(&b.0)).map(|c| c.1)
            };
            let all: Option<Vec<ByteSet>> = nodes.iter().map(&mut rarest).collect();
            let all = all.unwrap_or_default();
            out.extend(all.into_iter().reduce(|a, b| a.union(&b)));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pattern::parse::parse;

    fn strings(pattern: &str) -> Option<Vec<String>> {
        let node = parse(pattern).expect("valid").node;
        let found = required(&node, 1e-3, Texts::Mail)?;
        Some(found.strings.into_iter().map(|s| String::from_utf8_lossy(&s).into_owned()).collect())
    }

    #[test]
    fn strings_of_patterns() {
        let some = |words: &[&str]| Some(words.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>());
        assert_eq!(strings("(?i)Viagra"), some(&["viagra"]));
        assert_eq!(strings("\\bfoo.{0,20}wizard\\b"), some(&["wizardB"]));
        assert_eq!(strings("\\b(?:wizard|x*)\\bquaint"), some(&["Bquaint"]));
        assert_eq!(strings("(?:quick|brown) fox"), some(&["brown fox", "quick fox"]));
        assert_eq!(strings("colou?rful"), some(&["colorful", "colourful"]));
        assert_eq!(strings("(?!abc)\\w+"), None);
        assert_eq!(strings("(?:viagra|\\d+)"), None);
        assert_eq!(strings("(?:wizard){2,}"), some(&["wizardwizard"]));
        assert_eq!(strings("dol+ars?"), some(&["dol"]));
        assert_eq!(strings("quiz+(?:a|b)"), some(&["quiz"]));
        assert_eq!(strings("zz(?:ab){2,}"), some(&["zzabab"]));
        assert_eq!(strings("(?:ab){2,}zz"), some(&["ababzz"]));
        assert_eq!(strings("x*"), None);
        assert_eq!(strings("(?:xyzzy)?"), None);
    }

    #[test]
    fn what_may_stand_before_a_string() {
        let before = |pattern: &str| {
            let node = parse(pattern).expect("valid").node;
            let strings = required(&node, 1.0, Texts::Mail)?.strings;
            Some(Before::of(&node, &strings, Texts::Mail))
        };
        assert_eq!(before("viagra"), Some(Before::Bytes(6)));
        assert_eq!(before("a.{0,9}viagra.*"), Some(Before::Bytes(16)));
        assert_eq!(before("(?:(?:viagra|cialis) xyz.+)"), Some(Before::Bytes(10)));
        assert_eq!(before("a.*viagra"), Some(Before::Lines(0)));
        assert_eq!(before("(?:a*viagra|viagra.*)"), Some(Before::Lines(0)));
        assert_eq!(before("(?m)^[^>].*?viagra\\s*x"), Some(Before::Lines(1)));
        assert_eq!(before("(?:a|\\n){3}b*(?:\\n\\n|c)viagra"), Some(Before::Lines(5)));
        assert_eq!(before("a\\s*viagra"), Some(Before::Any));
        assert_eq!(before("(?s)a.*viagra"), Some(Before::Any));
    }

    #[test]
    fn where_a_match_may_begin() {
        let text = b"ab\ncd\n\nef viagra";
        let at = text.len() - 6;
        let starts = |before: Before| before.start(text, at);
        assert_eq!([Before::Bytes(3), Before::Bytes(99)].map(starts), [at - 3, 0]);
        assert_eq!([0, 1, 2, 3, 4].map(|n| starts(Before::Lines(n))), [7, 6, 3, 0, 0]);
        assert_eq!((starts(Before::Any), Before::Lines(0).start(text, 99)), (0, 0));
    }

    #[test]
    fn no_match_begins_before_the_line_of_its_string() {
        for pattern in
            ["(?m)^[^>].*?<a href=", "[^a]*?\\n?x.*viagra", "(?:\\n|.*b)viagra|cd.*viagra"]
        {
            let pattern = crate::pattern::Pattern::new(pattern).expect("valid");
            let text =
                b"cd\n>a <a href=\n\n<a href=x\nx\nxb viagra\nviagra\ncd\nviagra b viagra <a href=";
            for end in 0..=text.len() {
                for start in 0..end {
                    assert_eq!(pattern.self_check(&text[start..end]), Ok(()));
                }
            }
        }
    }

    #[test]
    fn strings_that_every_text_has_tell_nothing() {
        let node = parse("^[^\\]]+ rdns=\\S*smtp").expect("valid").node;
        let strings = |texts| required(&node, 1.0, texts).unwrap().strings;
        assert_eq!(strings(Texts::Mail), [b" rdns=".to_vec()]);
        assert_eq!(strings(Texts::Relays), [b"smtp".to_vec()]);
    }

    #[test]
    fn strings_elsewhere_in_the_pattern() {
        let found = |pattern: &str| {
            let node = parse(pattern).expect("valid").node;
            let first = required(&node, 1e-3, Texts::Mail)?.strings;
            let second = second(&node, &first, 1e-3, Texts::Mail)?;
            Some((first, second))
        };
        let words = |pattern: &str| {
            let (first, second) = found(pattern)?;
            let text = |s: Vec<Vec<u8>>| String::from_utf8_lossy(&s.join(&b' ')).into_owned();
            Some((text(first), text(second)))
        };
        let two = words("(?i)\\b(?:enter|confirm)\\b[^.]{0,80}\\b(?:zqzq|password)\\b").unwrap();
        assert_eq!(two, ("BzqzqB BpasswordB".into(), "BenterB BconfirmB".into()));
        let two = words("a wallet.{0,9}of bitcoins").unwrap();
        assert_eq!(two, ("of bitcoins".into(), "a wallet".into()));
        // Not certain, or said by the first already.
        assert_eq!(words("viagra(?:.{0,9}cialis)?"), None);
        assert_eq!(words("viagra.viagra"), None);
        assert_eq!(words("viagra|wallet.{0,9}bitcoin"), None);
    }

    #[test]
    fn strings_of_what_is_repeated() {
        let found =
            |pattern: &str| repeated(&parse(pattern).expect("valid").node, 3, 1e-2, Texts::Mail);
        let (strings, times) = found("x?(?:(?:name|address|phone)\\s?:[^:]{0,9}){4,}").unwrap();
        assert_eq!(times, 4);
        assert!(strings.strings.iter().any(|s| s.starts_with(b"phone")), "{strings:?}");
        assert!(found("(?:name|address){2}").is_none());
        assert!(found("(?:.){5}").is_none());
    }

    #[test]
    fn bytes_that_every_match_has() {
        let sets = required_sets(&parse("\\d+ ?(?:%|\\$)").unwrap().node);
        assert_eq!(sets[0], ByteSet::from_bytes(*b"%$"));
    }
}
