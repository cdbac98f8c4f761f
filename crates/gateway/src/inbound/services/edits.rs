//! What has to be reported of a message that was changed: which header fields, and whether its
//! body.

use std::ops::Range;

use gauntlet_smtp::milter::Action;

use crate::facts::fields;

/// Comparisons of fields at most; beyond, fields in the middle are all taken out and put in again.
const COMPARISONS_MAX: usize = 1 << 20;

/// The changes that make `after` of `before`: fields changed and taken out, the last first, so that
/// the positions of the others stay; then new ones, the first first; then the body.
pub(super) fn between(before: &[u8], after: &[u8]) -> Vec<Action> {
    let (old, new): (Vec<&[u8]>, Vec<&[u8]>) = (fields(before).collect(), fields(after).collect());
    let (mut removed, mut inserted) = (Vec::new(), Vec::new());
    for (gone, come) in gaps(&old, &new) {
        let mut come = come.peekable();
        for i in gone {
            // A new field of the same name, if it is the next one, is the old one's new value.
            let same = |j: &usize| name(old[i]).eq_ignore_ascii_case(&name(new[*j]));
            removed.push((i, come.next_if(same)));
        }
        inserted.extend(come);
    }
    let mut actions = Vec::new();
    for &(i, new_place) in removed.iter().rev() {
        let name = name(old[i]);
        let before = old[..=i].iter().filter(|f| self::name(f).eq_ignore_ascii_case(&name));
        let index = u32::try_from(before.count()).unwrap_or(u32::MAX);
        let value = new_place.map(|j| value(new[j]).to_vec());
        actions.push(Action::ChangeHeader { index, name, value });
    }
    for j in inserted {
        let (name, value) = (name(new[j]), value(new[j]).to_vec());
        let index = u32::try_from(j).unwrap_or(u32::MAX);
        actions.push(Action::InsertHeader { index, name, value });
    }
    let body = body(after);
    if body != self::body(before) {
        actions.push(Action::ReplaceBody(body.to_vec()));
    }
    actions
}

fn name(field: &[u8]) -> String {
    let end = field.iter().position(|b| *b == b':').unwrap_or(field.len());
    String::from_utf8_lossy(field.get(..end).unwrap_or_default()).trim_end().to_owned()
}

fn value(field: &[u8]) -> &[u8] {
    let start = field.iter().position(|b| *b == b':').map_or(field.len(), |at| at + 1);
    field.get(start..).unwrap_or_default()
}

/// What follows the empty line.
fn body(raw: &[u8]) -> &[u8] {
    let header: usize = fields(raw).map(<[u8]>::len).sum();
    let rest = raw.get(header..).unwrap_or_default();
    rest.strip_prefix(b"\r\n").or_else(|| rest.strip_prefix(b"\n")).unwrap_or(rest)
}

/// Positions of both that lie between fields which both have, in order (a longest common
/// subsequence).
fn gaps(old: &[&[u8]], new: &[&[u8]]) -> Vec<(Range<usize>, Range<usize>)> {
    let same = |i: usize, j: usize| old[i] == new[j];
    let least = old.len().min(new.len());
    let head = (0..least).take_while(|&n| same(n, n)).count();
    let tail =
        (0..least - head).take_while(|&n| same(old.len() - 1 - n, new.len() - 1 - n)).count();
    let (rows, columns) = (old.len() - tail - head, new.len() - tail - head);
    let whole = || vec![(head..head + rows, head..head + columns)];
    if rows == 0 || columns == 0 || rows.saturating_mul(columns) > COMPARISONS_MAX {
        return whole();
    }
    // longest[i][j]: how many fields the rests from i and j have in common.
    let mut longest = vec![vec![0_u32; columns + 1]; rows + 1];
    for i in (0..rows).rev() {
        for j in (0..columns).rev() {
            longest[i][j] = if same(head + i, head + j) {
                longest[i + 1][j + 1] + 1
            } else {
                longest[i + 1][j].max(longest[i][j + 1])
            };
        }
    }
    let (mut found, mut from, mut i, mut j) = (Vec::new(), (0, 0), 0, 0);
    while i < rows && j < columns {
        if same(head + i, head + j) {
            found.push((head + from.0..head + i, head + from.1..head + j));
            (i, j) = (i + 1, j + 1);
            from = (i, j);
        } else if longest[i + 1][j] >= longest[i][j + 1] {
            i += 1;
        } else {
            j += 1;
        }
    }
    found.push((head + from.0..head + rows, head + from.1..head + columns));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What an MTA makes of the actions.
    fn made(before: &[u8], actions: &[Action]) -> Vec<u8> {
        let mut header: Vec<Vec<u8>> = fields(before).map(<[u8]>::to_vec).collect();
        let mut rest = body(before).to_vec();
        for action in actions {
            match action {
                Action::ChangeHeader { index, name, value } => {
                    let of_name = |f: &Vec<u8>| super::name(f).eq_ignore_ascii_case(name);
                    let mut positions = (0..header.len()).filter(|&i| of_name(&header[i]));
                    let at = positions.nth(*index as usize - 1).unwrap();
                    match value {
                        Some(v) => header[at] = [name.as_bytes(), b":", v].concat(),
                        None => drop(header.remove(at)),
                    }
                }
                Action::InsertHeader { index, name, value } => {
                    header.insert(*index as usize, [name.as_bytes(), b":", value].concat());
                }
                Action::ReplaceBody(body) => rest.clone_from(body),
                other => panic!("{other:?}"),
            }
        }
        [header.concat(), b"\r\n".to_vec(), rest].concat()
    }

    #[test]
    fn the_changes_make_the_changed_message() {
        let before: &[u8] =
            b"A: 1\r\nSubject: x\r\nA: 2\r\nB: 3\r\nC: 4\r\n\tfolded\r\n\r\nbody\r\n";
        for (after, count) in [
            (before, 0),
            (
                b"X: new\r\nA: 1\r\nSubject: x\r\nA: 2\r\nB: 3\r\nC: 4\r\n\tfolded\r\n\r\nbody\r\n",
                1,
            ),
            (b"A: 1\r\nSubject: [S] x\r\nA: 2\r\nB: 3\r\nC: 4\r\n\tfolded\r\n\r\nbody\r\n", 1),
            (b"A: 1\r\nSubject: x\r\nB: 3\r\nC: 5\r\n\r\nother\r\n", 3),
            (b"Z: 1\r\nZ: 2\r\nSubject: x\r\nB: 3\r\nY: 1\r\n\r\n", 7),
            (b"\r\n", 6),
        ] {
            let actions = between(before, after);
            let text = String::from_utf8_lossy(after);
            assert_eq!(made(before, &actions), after, "{text}\n{actions:?}");
            assert_eq!(actions.len(), count, "{text}\n{actions:?}");
        }
    }

    #[test]
    fn a_header_of_thousands_of_fields_ends() {
        let many = |tag: &str| {
            let lines: String = (0..3_000).map(|i| format!("A{i}: {tag}\r\n")).collect();
            format!("{lines}\r\nbody").into_bytes()
        };
        let (before, after) = (many("x"), many("y"));
        let actions = between(&before, &after);
        assert_eq!(made(&before, &actions), after);
    }
}
