//! The syntax tree of a Perl pattern with every flag applied, so that it says byte by byte what
//! matches.

/// A set of bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct ByteSet([u64; 4]);

impl std::fmt::Debug for ByteSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let bytes: Vec<u8> = self.iter().collect();
        write!(f, "[{}]", bytes.escape_ascii())
    }
}

impl ByteSet {
    /// Every byte, as `.` with `/s` has it.
    pub(crate) const ALL: ByteSet = ByteSet([u64::MAX; 4]);

    /// The set of one byte.
    pub(crate) fn of(byte: u8) -> Self {
        let mut set = Self::default();
        set.insert(byte);
        set
    }

    /// The set of these bytes.
    pub(crate) fn from_bytes(bytes: impl IntoIterator<Item = u8>) -> Self {
        let mut set = Self::default();
        bytes.into_iter().for_each(|b| set.insert(b));
        set
    }

    pub(crate) fn insert(&mut self, byte: u8) {
        self.0[usize::from(byte >> 6)] |= 1 << (byte & 63);
    }

    pub(crate) fn contains(&self, byte: u8) -> bool {
        self.0[usize::from(byte >> 6)] >> (byte & 63) & 1 == 1
    }

    pub(crate) fn union(&self, other: &Self) -> Self {
        let mut set = *self;
        set.0.iter_mut().zip(other.0).for_each(|(a, b)| *a |= b);
        set
    }

    pub(crate) fn intersection(&self, other: &Self) -> Self {
        let mut set = *self;
        set.0.iter_mut().zip(other.0).for_each(|(a, b)| *a &= b);
        set
    }

    /// Whether the sets have a byte in common.
    pub(crate) fn meets(&self, other: &Self) -> bool {
        self.0.iter().zip(other.0).any(|(a, b)| a & b != 0)
    }

    pub(crate) fn negate(&self) -> Self {
        ByteSet(self.0.map(|word| !word))
    }

    pub(crate) fn len(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = u8> + '_ {
        [0u8, 64, 128, 192].into_iter().zip(self.0).flat_map(|(first, mut word)| {
            std::iter::from_fn(move || {
                let bit = word.trailing_zeros() as u8;
                // Clears the lowest bit set; an empty word stays empty.
                word &= word.checked_sub(1)?;
                Some(first + bit)
            })
        })
    }

    /// The bytes of a text.
    pub(crate) fn of_text(text: &[u8]) -> Self {
        /// Multiplier that collects the first bits of eight bytes in the highest byte.
        const GATHER: u64 = 0x0102_0408_1020_4080;
        let mut seen = [0u8; 256];
        text.iter().for_each(|b| seen[usize::from(*b)] = 1);
        let mut set = Self::default();
        for (word, seen) in set.0.iter_mut().zip(seen.as_chunks::<64>().0) {
            for (at, eight) in seen.as_chunks::<8>().0.iter().enumerate() {
                let bits = u64::from_le_bytes(*eight).wrapping_mul(GATHER) >> 56;
                *word |= bits << (8 * at);
            }
        }
        set
    }

    /// Whether a text has a byte of the set.
    pub(crate) fn is_in(&self, text: &[u8]) -> bool {
        if let Some(byte) = self.single() {
            return memchr::memchr(byte, text).is_some();
        }
        let has_ascii = self.0[0] | self.0[1] != 0;
        (has_ascii || !text.is_ascii()) && text.iter().any(|byte| self.contains(*byte))
    }

    /// A bit for each byte.
    pub(crate) fn words(&self) -> [u64; 4] {
        self.0
    }

    /// The sum of what a table holds for each of its bytes.
    pub(crate) fn sum_of(&self, values: &[f64; 256]) -> f64 {
        self.iter().map(|byte| values[usize::from(byte)]).sum()
    }

    /// The only byte of the set.
    pub(crate) fn single(&self) -> Option<u8> {
        if self.len() == 1 { self.iter().next() } else { None }
    }

    /// The set with every letter also in the other case: ASCII and Latin-1, as Perl folds bytes
    /// under `/aa`.
    pub(crate) fn fold_case(&self) -> Self {
        let [low, letters, high, latin] = self.0;
        let other = |word: u64, capitals: u64| (word & capitals) << 32 | word >> 32 & capitals;
        ByteSet([
            low,
            letters | other(letters, ASCII_CAPITALS),
            high,
            latin | other(latin, LATIN_CAPITALS),
        ])
    }

    /// Runs of bytes, first and last.
    pub(crate) fn ranges(&self) -> Vec<(u8, u8)> {
        let mut out: Vec<(u8, u8)> = Vec::new();
        for byte in self.iter() {
            match out.last_mut() {
                Some(last) if last.1.checked_add(1) == Some(byte) => last.1 = byte,
                _ => out.push((byte, byte)),
            }
        }
        out
    }
}

/// `A` to `Z` among the bytes from 0x40 on; each lower-case letter is 32 above its capital.
const ASCII_CAPITALS: u64 = ((1 << 26) - 1) << 1;
/// 0xC0 to 0xDE among the bytes from 0xC0 on, without × (0xD7), which is no letter.
const LATIN_CAPITALS: u64 = ((1 << 31) - 1) & !(1 << (0xd7 - 0xc0));

/// An assertion without width.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Anchor {
    /// `\A`, or `^` without `/m`.
    Start,
    /// `\Z`, or `$` without `/m`: at the end or before a newline that ends the text.
    End,
    /// `\z`: at the end of the text and nowhere else.
    AbsoluteEnd,
    /// `^` with `/m`: after a newline that does not end the text, or at the start.
    LineStart,
    /// `$` with `/m`: before a newline, or at the end.
    LineEnd,
    /// `\b`: between a word character and another.
    Word,
    /// `\B`: where no `\b` is.
    NotWord,
}

/// Greediness of a repetition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Greed {
    Greedy,
    Lazy,
    Possessive,
}

/// A node of the tree.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Node {
    /// One byte of the set; of the empty set: never.
    Set(ByteSet),
    Anchor(Anchor),
    /// A concatenation; without nodes it matches the empty string.
    Concat(Vec<Node>),
    Alternate(Vec<Node>),
    Repeat {
        node: Box<Node>,
        min: u32,
        max: Option<u32>,
        greed: Greed,
    },
    /// A capturing group, from 1.
    Group {
        node: Box<Node>,
        index: u32,
        name: Option<String>,
    },
    Atomic(Box<Node>),
    Around {
        ahead: bool,
        negated: bool,
        node: Box<Node>,
    },
    /// A backreference, case-insensitive with the flag.
    Backreference {
        index: u32,
        caseless: bool,
    },
    /// `%{TAG}`: the tag's values, known when a message is scanned.
    Template {
        tag: String,
        caseless: bool,
    },
}

impl Node {
    /// Fewest bytes that a match has.
    pub(crate) fn min_len(&self) -> usize {
        match self {
            Node::Set(_) => 1,
            Node::Anchor(_) | Node::Around { .. } | Node::Backreference { .. } => 0,
            Node::Template { .. } => 1,
            Node::Concat(nodes) => nodes.iter().map(Node::min_len).sum(),
            Node::Alternate(nodes) => nodes.iter().map(Node::min_len).min().unwrap_or(0),
            Node::Repeat { node, min, .. } => node.min_len().saturating_mul(*min as usize),
            Node::Group { node, .. } | Node::Atomic(node) => node.min_len(),
        }
    }

    /// Most bytes that a match has; none if there is no bound.
    pub(crate) fn max_len(&self) -> Option<usize> {
        match self {
            Node::Set(_) => Some(1),
            Node::Anchor(_) | Node::Around { .. } => Some(0),
            Node::Backreference { .. } | Node::Template { .. } => None,
            Node::Concat(nodes) => {
                nodes.iter().try_fold(0usize, |sum, node| Some(sum.saturating_add(node.max_len()?)))
            }
            Node::Alternate(nodes) => {
                nodes.iter().try_fold(0usize, |most, node| Some(most.max(node.max_len()?)))
            }
            Node::Repeat { node, max, .. } => {
                Some(node.max_len()?.saturating_mul((*max)? as usize))
            }
            Node::Group { node, .. } | Node::Atomic(node) => node.max_len(),
        }
    }

    /// Keeps only the last of several tags: SpamAssassin fills no other, and takes `%{TAG}`
    /// literally, which no text has.
    pub(crate) fn keep_last_template(&mut self) {
        let mut last = None;
        self.walk(&mut |node| {
            if let Node::Template { tag, .. } = node {
                last = Some(tag.clone());
            }
        });
        if let Some(last) = last {
            self.drop_templates(&last);
        }
    }

    fn drop_templates(&mut self, kept: &str) {
        match self {
            Node::Template { tag, .. } if tag != kept => *self = Node::Set(ByteSet::default()),
            Node::Concat(nodes) | Node::Alternate(nodes) => {
                nodes.iter_mut().for_each(|n| n.drop_templates(kept));
            }
            Node::Repeat { node, .. }
            | Node::Group { node, .. }
            | Node::Atomic(node)
            | Node::Around { node, .. } => node.drop_templates(kept),
            _ => {}
        }
    }

    /// Calls `visit` with every node, parents first.
    pub(crate) fn walk(&self, visit: &mut dyn FnMut(&Node)) {
        visit(self);
        match self {
            Node::Concat(nodes) | Node::Alternate(nodes) => {
                nodes.iter().for_each(|n| n.walk(visit));
            }
            Node::Repeat { node, .. }
            | Node::Group { node, .. }
            | Node::Atomic(node)
            | Node::Around { node, .. } => node.walk(visit),
            _ => {}
        }
    }

    /// Whether the pattern can never match: it has a byte of an empty set, something before its
    /// start or after its end, or an assertion that always fails (`(?!)`).
    pub(crate) fn is_impossible(&self) -> bool {
        match self {
            Node::Set(set) => set.len() == 0,
            Node::Alternate(nodes) => nodes.iter().all(Node::is_impossible),
            Node::Concat(nodes) => {
                let mut before = 0;
                let mut ended = false;
                for node in nodes {
                    let starts_late = *node == Node::Anchor(Anchor::Start) && before > 0;
                    if node.is_impossible() || starts_late || (ended && node.min_len() > 0) {
                        return true;
                    }
                    ended |= *node == Node::Anchor(Anchor::AbsoluteEnd);
                    before += node.min_len();
                }
                false
            }
            Node::Repeat { node, min, .. } => *min > 0 && node.is_impossible(),
            Node::Group { node, .. } | Node::Atomic(node) => node.is_impossible(),
            Node::Around { negated: false, node, .. } => node.is_impossible(),
            Node::Around { negated: true, node, .. } => node.is_everywhere(),
            Node::Anchor(_) | Node::Backreference { .. } | Node::Template { .. } => false,
        }
    }

    /// Whether it matches at every position of every text, if only the empty string.
    fn is_everywhere(&self) -> bool {
        match self {
            Node::Concat(nodes) => nodes.iter().all(Node::is_everywhere),
            Node::Alternate(nodes) => nodes.iter().any(Node::is_everywhere),
            Node::Repeat { node, min, .. } => *min == 0 || node.is_everywhere(),
            Node::Group { node, .. } | Node::Atomic(node) => node.is_everywhere(),
            Node::Around { negated: false, node, .. } => node.is_everywhere(),
            Node::Around { negated: true, node, .. } => node.is_impossible(),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_has_a_byte_of_a_set_if_its_bytes_meet_it() {
        let texts = [&b""[..], b"a", b"abc\0", b"\xff\x80 z"];
        let sets = [ByteSet::default(), ByteSet::of(b'a'), ByteSet::of(0), ByteSet::ALL]
            .into_iter()
            .chain(
                [b"az".as_slice(), b"\x80\xff", b"q7"]
                    .map(|b| ByteSet::from_bytes(b.iter().copied())),
            );
        for set in sets {
            for text in texts {
                assert_eq!(set.is_in(text), set.meets(&ByteSet::of_text(text)), "{set:?} {text:?}");
            }
        }
    }

    #[test]
    fn letters_and_nothing_else_have_another_case() {
        // As Perl folds characters up to U+00FF among themselves.
        for byte in 0..=255u8 {
            let other: Vec<u8> = (0..=255u8)
                .filter(|b| {
                    let (one, two) = (char::from(byte), char::from(*b));
                    one.is_alphabetic() && one != two && one.to_lowercase().eq(two.to_lowercase())
                })
                .collect();
            let mut expected = ByteSet::from_bytes(other);
            expected.insert(byte);
            assert_eq!(ByteSet::of(byte).fold_case(), expected, "{byte:#x}");
        }
    }

    #[test]
    fn what_can_never_match() {
        let is_impossible = |pattern: &str| {
            let parsed = crate::pattern::parse::parse(pattern).expect(pattern);
            parsed.node.is_impossible()
        };
        for never in [
            "(?!)x",
            "a(?:b(?!)c)d",
            "x(?!y*)",
            "(?!|a)",
            "(?<!)x",
            "(*FAIL)",
            "a(*F)|(?!)b",
            "[^\\s\\S]x",
            "(?=(?!))",
            "(?!(?!(?!)))",
            "x(?=[^\\d\\D])",
            "((?!))+",
            "a^",
            "\\zb",
        ] {
            assert!(is_impossible(never), "{never}");
        }
        for perhaps in [
            "(?!x)",
            "a|(?!)",
            "(?:(?!))?x",
            "(?!(?!))x",
            "(?!.)",
            "(?!a+)",
            "(?!\\b)",
            "(?<!x)y",
            "(?!)*?x",
        ] {
            assert!(!is_impossible(perhaps), "{perhaps}");
        }
    }

    #[test]
    fn a_set_gives_its_bytes_in_order() {
        let bytes = [0, 1, 63, 64, 65, 127, 128, 191, 192, 254, 255];
        assert!(ByteSet::from_bytes(bytes).iter().eq(bytes));
        assert!(ByteSet::ALL.iter().eq(0..=255));
        assert_eq!(ByteSet::default().iter().next(), None);
    }
}
