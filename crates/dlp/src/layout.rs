//! How a number is written: lengths of its groups and the separators between them.

/// A way to write a number, such as `4 4 4 4` or `3.3.3-2`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Layout {
    /// Lengths of the groups in decimal, with the separator that stands between each two.
    pub(crate) form: &'static str,
    /// A word of the detector's context must stand near.
    pub(crate) needs_context: bool,
    /// How many groups at the beginning are letters alone, as in `AB 12 34 56 C`.
    pub(crate) letter_groups: usize,
}

/// A layout that says enough by itself.
pub(crate) const fn alone(form: &'static str) -> Layout {
    Layout { form, needs_context: false, letter_groups: 0 }
}

/// One that is written by many other numbers, too.
pub(crate) const fn near(form: &'static str) -> Layout {
    Layout { form, needs_context: true, letter_groups: 0 }
}

/// The same layout, with so many groups of letters before the first digit.
pub(crate) const fn lettered(letter_groups: usize, layout: Layout) -> Layout {
    Layout { letter_groups, ..layout }
}

/// A layout as it is matched.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Groups {
    pub(crate) first: usize,
    /// Separator and length of each further group.
    pub(crate) rest: Vec<(u8, usize)>,
}

impl Layout {
    pub(crate) fn groups(&self) -> Groups {
        let (mut first, mut rest): (usize, Vec<(u8, usize)>) = (0, Vec::new());
        for byte in self.form.bytes() {
            let length = rest.last_mut().map_or(&mut first, |(_, length)| length);
            match byte {
                b'0'..=b'9' => *length = *length * 10 + usize::from(byte - b'0'),
                separator => rest.push((separator, 0)),
            }
        }
        Groups { first, rest }
    }
}

/// The separator that begins at `at`, as its ASCII character, and its length in bytes.
pub(crate) fn separator(bytes: &[u8], at: usize) -> Option<(u8, usize)> {
    match *bytes.get(at..)? {
        [byte @ (b' ' | b'-' | b'.' | b'/' | b'+'), ..] => Some((byte, 1)),
        [b'\t', ..] => Some((b' ', 1)),
        // No-break space, soft hyphen (`&shy;`); en quad to zero-width space, narrow no-break
        // space, word joiner; no-break hyphen, en dash.
        [0xC2, 0xA0 | 0xAD, ..] => Some((b' ', 2)),
        [0xE2, 0x80, 0x80..=0x8B | 0xAF, ..] | [0xE2, 0x81, 0xA0, ..] => Some((b' ', 3)),
        [0xE2, 0x80, 0x91 | 0x93, ..] => Some((b'-', 3)),
        _ => None,
    }
}

/// The break between two lines that begins at `at`: its length in bytes.
pub(crate) fn line_break(bytes: &[u8], at: usize) -> Option<usize> {
    let rest = bytes.get(at..)?;
    let blanks = rest.iter().take_while(|b| **b == b' ').count().min(1);
    match rest.get(blanks..)? {
        [b'\r', b'\n', ..] => Some(blanks + 2),
        [b'\n', ..] => Some(blanks + 1),
        _ => None,
    }
}

/// The separator that ends at `end`.
pub(crate) fn separator_before(bytes: &[u8], end: usize) -> Option<(u8, usize)> {
    (1..=3.min(end)).find_map(|n| separator(bytes, end - n).filter(|&(_, length)| length == n))
}

/// Where the run of ASCII letters and digits that begins at `at` ends.
pub(crate) fn run_end(bytes: &[u8], at: usize) -> usize {
    let rest = bytes.get(at..).unwrap_or_default();
    at + rest.iter().take_while(|b| b.is_ascii_alphanumeric()).count()
}

/// Where the run that ends at `end` begins.
pub(crate) fn run_start(bytes: &[u8], end: usize) -> usize {
    let before = bytes.get(..end).unwrap_or_default();
    end - before.iter().rev().take_while(|b| b.is_ascii_alphanumeric()).count()
}

impl Groups {
    /// Where the first group begins and ends, if `letters` groups of letters stand before the group
    /// that begins at `start`.
    pub(crate) fn begin(
        &self,
        bytes: &[u8],
        start: usize,
        letters: usize,
    ) -> Option<(usize, usize)> {
        let (mut from, mut end) = (start, start);
        for index in (0..letters).rev() {
            let (wanted, _) = *self.rest.get(index)?;
            let (_, width) = separator_before(bytes, from).filter(|&(found, _)| found == wanted)?;
            let length = index.checked_sub(1).map_or(self.first, |i| self.rest[i].1);
            end = from - width;
            from = end.checked_sub(length)?;
            let before = from.checked_sub(1).map(|i| bytes[i]);
            let is_group = bytes[from..end].iter().all(u8::is_ascii_alphabetic)
                && !before.is_some_and(|b| b.is_ascii_alphanumeric());
            if !is_group {
                return None;
            }
        }
        Some((from, end))
    }

    /// Where the number ends that begins at `start`, whose first group ends at `end`.
    pub(crate) fn end(&self, bytes: &[u8], start: usize, end: usize) -> Option<usize> {
        if end - start != self.first {
            return None;
        }
        self.rest.iter().try_fold(end, |end, &(wanted, length)| {
            let (_, width) = separator(bytes, end).filter(|&(found, _)| found == wanted)?;
            let next = end + width;
            let next_end = run_end(bytes, next);
            (next_end - next == length).then_some(next_end)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_are_read_and_matched() {
        let groups = alone("3.3.3-2").groups();
        assert_eq!((groups.first, groups.rest.len()), (3, 3));
        let end = |text: &str| groups.end(text.as_bytes(), 0, run_end(text.as_bytes(), 0));
        assert_eq!(end("123.456.789-10 x"), Some(14));
        assert_eq!(end("123.456.789\u{2011}10"), Some(16));
        assert_eq!(
            (end("123.456.789-101"), end("123.456-789-10"), end("123.4")),
            (None, None, None)
        );
        assert_eq!(separator_before("a\u{a0}1".as_bytes(), 3), Some((b' ', 2)));
    }
}
