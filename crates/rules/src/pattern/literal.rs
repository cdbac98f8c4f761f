//! Required strings: every match contains one of them. The prefilter searches for them first.
//!
//! Strings are in lower case (ASCII) and compared case-insensitively, so that one index serves all
//! patterns; a string in another case only costs a confirmation. [`BOUNDARY`] in a string is a word
//! boundary: most words of rules are parts of longer, harmless ones.

pub(crate) mod prefix_limit;
pub(crate) mod sets;

use super::boundary::{BOUNDARY, bytes_of};
use super::frequency::{TextKind, string_frequency};
use super::syntax::{Anchor, Node};

/// Most required strings of one pattern.
const STRINGS_MAX: usize = 768;
/// Most strings that a part of the pattern may multiply to.
const EXACT_MAX: usize = 192;
/// Most strings that are compared with each other.
const MINIMIZED_MAX: usize = 128;
/// Longest string kept, in bytes.
const STRING_BYTES_MAX: usize = 24;
/// Most strings of the second piece that a match must have, too.
const SECOND_STRINGS_MAX: usize = 96;
/// Fewest bytes of a second string.
const SECOND_BYTES_MIN: usize = 3;
/// Largest set of bytes that is expanded into strings.
const SET_MAX: usize = 8;

/// Alternatives: one of these strings occurs in every match.
pub(crate) type Strings = Vec<Vec<u8>>;

/// The rarest required strings of a pattern; `None` if every match need not contain a string whose
/// frequency at a byte of ordinary text is at most `frequency_max`.
pub(crate) fn required(node: &Node, frequency_max: f64, texts: TextKind) -> Option<Candidate> {
    let found = analyse(node, texts);
    let mut best = found.best;
    if let Some(exact) = found.exact {
        better(&mut best, exact, texts);
    }
    let best = best.filter(|b| b.frequency <= frequency_max)?;
    Some(Candidate { strings: minimize(best.strings), frequency: best.frequency })
}

/// Second strings, of which one must occur in every match besides those of `first`: the rarest, if
/// their frequency is at most `frequency_max`.
pub(crate) fn second(
    node: &Node,
    first: &[Vec<u8>],
    frequency_max: f64,
    texts: TextKind,
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
        piece.frequency <= frequency_max
            && piece.strings.len() <= SECOND_STRINGS_MAX
            && piece.strings.iter().all(is_new)
    };
    let pieces = pieces(nodes.into_iter().map(|node| analyse(node, texts)), texts);
    let rarest =
        pieces.into_iter().filter(fits).min_by(|a, b| a.frequency.total_cmp(&b.frequency))?;
    Some(minimize(rarest.strings))
}

/// The parts of a concatenation.
fn in_a_row<'n>(node: &'n Node, out: &mut Vec<&'n Node>) {
    match node {
        Node::Group { node, .. } | Node::Atomic(node) => in_a_row(node, out),
        Node::Concat(nodes) => nodes.iter().for_each(|node| in_a_row(node, out)),
        other => out.push(other),
    }
}

/// Required strings of each part of a concatenation, and of each run of parts whose strings are
/// known exactly.
fn pieces(parts: impl Iterator<Item = Known>, texts: TextKind) -> Vec<Candidate> {
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

/// Strings of a repeated part, of which every match has so many at different positions. `None` if
/// nothing is repeated `times_min` times whose strings have a frequency of less than
/// `frequency_max`.
pub(crate) fn repeated(
    node: &Node,
    times_min: u32,
    frequency_max: f64,
    texts: TextKind,
) -> Option<(Candidate, u32)> {
    match node {
        Node::Group { node, .. } | Node::Atomic(node) => {
            repeated(node, times_min, frequency_max, texts)
        }
        Node::Concat(nodes) => {
            let found = nodes.iter().filter_map(|n| repeated(n, times_min, frequency_max, texts));
            found.max_by_key(|(_, times)| *times)
        }
        Node::Repeat { node, min, .. } if *min >= times_min => {
            Some((required(node, frequency_max, texts)?, *min))
        }
        _ => None,
    }
}

/// What analysis found of a node.
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
    pub(crate) frequency: f64,
}

/// Keeps the rarer of the best strings and these.
fn better(best: &mut Option<Candidate>, strings: Strings, texts: TextKind) {
    if let Some(frequency) = frequency_if_rarer(best.as_ref(), &strings, texts) {
        *best = Some(Candidate { strings, frequency });
    }
}

/// The frequency of the strings, if they qualify and are rarer than the best ones.
fn frequency_if_rarer(best: Option<&Candidate>, strings: &Strings, texts: TextKind) -> Option<f64> {
    let is_empty = |string: &Vec<u8>| string.iter().all(|byte| *byte == BOUNDARY);
    if strings.is_empty() || strings.len() > STRINGS_MAX || strings.iter().any(is_empty) {
        return None;
    }
    let frequency: f64 = strings.iter().map(|s| string_frequency(s, texts)).sum();
    best.is_none_or(|b| frequency < b.frequency).then_some(frequency)
}

/// Ends a run at a part that begins and ends with one of these strings: returns the run with the
/// part's beginning. The part's end begins the next run.
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

fn analyse(node: &Node, texts: TextKind) -> Known {
    match node {
        // Case-folded, a set has at least half its bytes.
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

fn alternate(nodes: &[Node], texts: TextKind) -> Known {
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

fn concat(parts: impl Iterator<Item = Known>, texts: TextKind) -> Known {
    let mut best: Option<Candidate> = None;
    // The strings of the parts since `cut` together; `whole` while nothing was cut.
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
        // A run that may be the empty string says nothing, but may grow again.
        run = join(run, &exact);
        if let Some(frequency) = frequency_if_rarer(best.as_ref(), &run, texts) {
            best = Some(Candidate { strings: run.clone(), frequency });
        }
    }
    Known { exact: whole.then_some(run), best, edge: None }
}

fn repeat(node: &Node, min: u32, max: Option<u32>, texts: TextKind) -> Known {
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
    // At least `min` times: the strings of `min` repetitions occur, but more may follow.
    let copies = min.min(STRING_BYTES_MAX as u32);
    let mut known = concat((0..copies).map(|_| analyse(node, texts)), texts);
    known.edge = known.exact.take();
    if let Some(edge) = &known.edge {
        better(&mut known.best, edge.clone(), texts);
    }
    known
}

#[cfg(test)]
mod tests {
    use super::prefix_limit::PrefixLimit;
    use super::sets::required_sets;
    use super::*;
    use crate::pattern::parse::parse;
    use crate::pattern::syntax::ByteSet;

    fn strings(pattern: &str) -> Option<Vec<String>> {
        let node = parse(pattern).expect("valid").node;
        let found = required(&node, 1e-3, TextKind::Mail)?;
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
            let strings = required(&node, 1.0, TextKind::Mail)?.strings;
            Some(PrefixLimit::of(&node, &strings, TextKind::Mail))
        };
        assert_eq!(before("viagra"), Some(PrefixLimit::Bytes(6)));
        assert_eq!(before("a.{0,9}viagra.*"), Some(PrefixLimit::Bytes(16)));
        assert_eq!(before("(?:(?:viagra|cialis) xyz.+)"), Some(PrefixLimit::Bytes(10)));
        assert_eq!(before("a.*viagra"), Some(PrefixLimit::Lines(0)));
        assert_eq!(before("(?:a*viagra|viagra.*)"), Some(PrefixLimit::Lines(0)));
        assert_eq!(before("(?m)^[^>].*?viagra\\s*x"), Some(PrefixLimit::Lines(1)));
        assert_eq!(before("(?:a|\\n){3}b*(?:\\n\\n|c)viagra"), Some(PrefixLimit::Lines(5)));
        assert_eq!(before("a\\s*viagra"), Some(PrefixLimit::Unlimited));
        assert_eq!(before("(?s)a.*viagra"), Some(PrefixLimit::Unlimited));
    }

    #[test]
    fn where_a_match_may_begin() {
        let text = b"ab\ncd\n\nef viagra";
        let at = text.len() - 6;
        let starts = |before: PrefixLimit| before.start(text, at);
        assert_eq!([PrefixLimit::Bytes(3), PrefixLimit::Bytes(99)].map(starts), [at - 3, 0]);
        assert_eq!([0, 1, 2, 3, 4].map(|n| starts(PrefixLimit::Lines(n))), [7, 6, 3, 0, 0]);
        assert_eq!((starts(PrefixLimit::Unlimited), PrefixLimit::Lines(0).start(text, 99)), (0, 0));
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
        assert_eq!(strings(TextKind::Mail), [b" rdns=".to_vec()]);
        assert_eq!(strings(TextKind::Relays), [b"smtp".to_vec()]);
    }

    #[test]
    fn strings_elsewhere_in_the_pattern() {
        let found = |pattern: &str| {
            let node = parse(pattern).expect("valid").node;
            let first = required(&node, 1e-3, TextKind::Mail)?.strings;
            let second = second(&node, &first, 1e-3, TextKind::Mail)?;
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
        // Optional, or contained in the first strings already.
        assert_eq!(words("viagra(?:.{0,9}cialis)?"), None);
        assert_eq!(words("viagra.viagra"), None);
        assert_eq!(words("viagra|wallet.{0,9}bitcoin"), None);
    }

    #[test]
    fn strings_of_what_is_repeated() {
        let found =
            |pattern: &str| repeated(&parse(pattern).expect("valid").node, 3, 1e-2, TextKind::Mail);
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
