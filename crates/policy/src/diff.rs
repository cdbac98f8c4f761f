//! What differs between two texts, line by line: for comparing versions of a policy.
//!
//! The shortest edit script by Myers' greedy algorithm ("An O(ND) Difference Algorithm and Its
//! Variations", 1986), after what both texts begin and end with alike is set aside.

use serde::Serialize;

/// Lines that may be removed and added together before the middle is output as replaced whole: the
/// search's memory grows with the square.
const EDITS_MAX: usize = 2_000;
/// Unchanged lines shown around a change.
const CONTEXT: usize = 3;

/// What became of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Edit {
    /// The line is in both texts.
    Same,
    /// In the new text only.
    Added,
    /// In the old text only.
    Removed,
}

/// A line of a difference.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Line {
    /// What became of it.
    pub edit: Edit,
    /// Its line in the old text, from 1; none if it was added.
    pub old: Option<usize>,
    /// Its line in the new text, from 1; none if it was removed.
    pub new: Option<usize>,
    /// The line, without its end.
    pub text: String,
}

/// Every line of both texts, in order.
pub fn lines(old: &str, new: &str) -> Vec<Line> {
    let (a, b): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let head = a.iter().zip(&b).take_while(|(x, y)| x == y).count();
    let (a_rest, b_rest) = (&a[head..], &b[head..]);
    let tail = a_rest.iter().rev().zip(b_rest.iter().rev()).take_while(|(x, y)| x == y).count();
    let (a_mid, b_mid) = (&a_rest[..a_rest.len() - tail], &b_rest[..b_rest.len() - tail]);
    let mut edits = vec![Edit::Same; head];
    edits.extend(middle(a_mid, b_mid));
    edits.extend(std::iter::repeat_n(Edit::Same, tail));
    let (mut old_at, mut new_at) = (0, 0);
    let mut output = Vec::with_capacity(edits.len());
    for edit in edits {
        let text = if edit == Edit::Added { b[new_at] } else { a[old_at] };
        let (in_old, in_new) = (edit != Edit::Added, edit != Edit::Removed);
        old_at += usize::from(in_old);
        new_at += usize::from(in_new);
        output.push(Line {
            edit,
            old: in_old.then_some(old_at),
            new: in_new.then_some(new_at),
            text: text.to_owned(),
        });
    }
    output
}

/// The changed lines with a few around them; `None` where lines are left out between.
pub fn hunks(old: &str, new: &str) -> Vec<Option<Line>> {
    let all = lines(old, new);
    let near = |i: usize| {
        let around = i.saturating_sub(CONTEXT)..(i + CONTEXT + 1).min(all.len());
        all[around].iter().any(|l| l.edit != Edit::Same)
    };
    let mut shown = Vec::new();
    for (i, line) in all.iter().enumerate() {
        if near(i) {
            shown.push(Some(line.clone()));
        } else if shown.last().is_some_and(Option::is_some) {
            shown.push(None);
        }
    }
    if shown.last().is_some_and(Option::is_none) {
        shown.pop();
    }
    shown
}

/// The same as text, `+` and `-` before what was added and removed; empty if nothing differs.
pub fn text(old: &str, new: &str) -> String {
    let mut out = String::new();
    for line in hunks(old, new) {
        match line {
            None => out.push_str("...\n"),
            Some(line) => {
                out.push(match line.edit {
                    Edit::Same => ' ',
                    Edit::Added => '+',
                    Edit::Removed => '-',
                });
                out.push_str(&line.text);
                out.push('\n');
            }
        }
    }
    out
}

/// Lines added and removed.
pub fn counts(old: &str, new: &str) -> (usize, usize) {
    let all = lines(old, new);
    let of = |edit| all.iter().filter(|l| l.edit == edit).count();
    (of(Edit::Added), of(Edit::Removed))
}

/// The edits that make `b` of `a`.
fn middle(a: &[&str], b: &[&str]) -> Vec<Edit> {
    let whole = || {
        let removed = std::iter::repeat_n(Edit::Removed, a.len());
        removed.chain(std::iter::repeat_n(Edit::Added, b.len())).collect()
    };
    if a.is_empty() || b.is_empty() {
        return whole();
    }
    search(a, b).map_or_else(whole, |rounds| walk_back(a, b, &rounds))
}

/// Of each round `d`, how far down `a` the best path on every diagonal `k` came, at `k + d`. None
/// if the texts differ too much.
fn search(a: &[&str], b: &[&str]) -> Option<Vec<Vec<usize>>> {
    let mut rounds: Vec<Vec<usize>> = Vec::new();
    for d in 0..=(a.len() + b.len()).min(EDITS_MAX) {
        let mut round = vec![0; 2 * d + 1];
        for i in (0..=2 * d).step_by(2) {
            let mut x = rounds.last().map_or(0, |last| start(last, i, d));
            // The diagonal k = i - d: y = x - k.
            let Some(mut y) = (x + d).checked_sub(i) else { continue };
            while x < a.len() && y < b.len() && a[x] == b[y] {
                (x, y) = (x + 1, y + 1);
            }
            round[i] = x;
            if x >= a.len() && y >= b.len() {
                rounds.push(round);
                return Some(rounds);
            }
        }
        rounds.push(round);
    }
    None
}

/// Where round `d` starts on the diagonal at `i`: one step from a neighbour of the round before.
fn start(last: &[usize], i: usize, d: usize) -> usize {
    if goes_down(last, i, d) { last[i] } else { last[i - 2] + 1 }
}

/// The step to the diagonal at `i` of round `d` adds a line, rather than removing one.
fn goes_down(last: &[usize], i: usize, d: usize) -> bool {
    i == 0 || (i != 2 * d && last[i - 2] < last[i])
}

fn walk_back(a: &[&str], b: &[&str], rounds: &[Vec<usize>]) -> Vec<Edit> {
    let (mut x, mut y) = (a.len(), b.len());
    let mut edits = Vec::new();
    for d in (0..rounds.len()).rev() {
        let i = x + d - y;
        let from = match d.checked_sub(1) {
            Some(before) => start(&rounds[before], i, d),
            None => 0,
        };
        edits.extend(std::iter::repeat_n(Edit::Same, x - from));
        y -= x - from;
        x = from;
        if d > 0 {
            if goes_down(&rounds[d - 1], i, d) {
                edits.push(Edit::Added);
                y -= 1;
            } else {
                edits.push(Edit::Removed);
                x -= 1;
            }
        }
    }
    edits.reverse();
    edits
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The texts again from their difference.
    fn rebuilt(lines: &[Line]) -> (Vec<&str>, Vec<&str>) {
        let of = |edit| lines.iter().filter(move |l| l.edit != edit).map(|l| l.text.as_str());
        (of(Edit::Added).collect(), of(Edit::Removed).collect())
    }

    #[test]
    fn both_texts_are_in_their_difference() {
        // Every pair of short texts over three lines.
        let texts: Vec<String> = (0..3usize.pow(5))
            .map(|n| (0..5).map(|i| ["a\n", "b\n", ""][n / 3usize.pow(i) % 3]).collect())
            .collect();
        for old in &texts {
            for new in &texts {
                let all = lines(old, new);
                let (a, b) = rebuilt(&all);
                assert_eq!(a, old.lines().collect::<Vec<_>>(), "{old:?} {new:?}");
                assert_eq!(b, new.lines().collect::<Vec<_>>(), "{old:?} {new:?}");
            }
        }
    }

    #[test]
    fn the_difference_is_short_and_shows_its_place() {
        let old: String = (1..=20).map(|n| format!("line {n}\n")).collect();
        let new = old.replace("line 10\n", "line ten\nand more\n");
        assert_eq!(counts(&old, &new), (2, 1));
        assert_eq!(counts("a\nb\nc\n", "a\nc\n"), (0, 1));
        let shown = text(&old, &new);
        assert_eq!(shown.lines().next(), Some(" line 7"));
        assert!(shown.contains("-line 10\n+line ten\n+and more\n line 11\n"), "{shown}");
        assert_eq!(shown.lines().count(), 9);
        assert_eq!(text(&old, &old), "");
        let first = hunks(&old, &new).into_iter().flatten().find(|l| l.edit == Edit::Added);
        assert_eq!(first.map(|l| (l.old, l.new)), Some((None, Some(10))));
    }

    #[test]
    fn texts_without_anything_in_common_are_compared_quickly() {
        let old: String = (0..9_000).map(|n| format!("a{n}\n")).collect();
        let new: String = (0..9_000).map(|n| format!("b{n}\n")).collect();
        assert_eq!(counts(&old, &new), (9_000, 9_000));
    }
}
