//! The rules of a document's style sheets, as far as they say what can be seen.
//!
//! Selectors of one element (`td`, `.note`, `td.note`, `#top`) are applied. Of selectors with
//! combinators or several classes only the last element is looked at: they can make colours
//! uncertain, never hide. Rules inside `@media` and its like, and selectors with pseudo-classes or
//! attributes, are left out. The cascade is by kind (element, class, id), then by order.

use std::collections::HashMap;
use std::ops::Range;

use memchr::{memchr, memchr2, memmem};

use super::style::Style;

/// Selectors kept of one document.
const SELECTORS_MAX: usize = 2_000;
/// What a selector costs beside its declarations, in bytes.
const SELECTOR_COST_BYTES: usize = 32;
/// Selectors tried on one element: those of its name, its classes and its id.
const TRIED_MAX: usize = 64;

/// Bytes of declarations applied in one document; after that its rules no longer count, and no
/// colour is certain.
const APPLIED_BYTES_MAX: usize = 4 * 1024 * 1024;

/// All rules of a document so far.
#[derive(Debug, Default)]
pub(super) struct StyleSheet {
    applied_bytes: usize,
    /// By what the last element of the selector is known by: `td`, `.note`, `#top`, in lower case.
    selectors: HashMap<Vec<u8>, Vec<Selector>>,
    count: usize,
}

#[derive(Debug)]
struct Selector {
    /// The element's name, when the key is a class or id and the selector names one too.
    name: Option<Vec<u8>>,
    /// The element alone decides whether the rule applies.
    certain: bool,
    /// Where the declarations stand in the source.
    declarations: Range<usize>,
}

impl StyleSheet {
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Reads the style sheet at `source[range]`.
    pub(super) fn read(&mut self, source: &[u8], range: Range<usize>) {
        let mut at = range.start;
        while let Some(open) = find(source, at, range.end, |s| memchr2(b'{', b';', s)) {
            let prelude = skip_comments(source, at..open);
            if source[open] == b';' {
                // `@import ...;` or noise.
                at = open + 1;
                continue;
            }
            if source[prelude.clone()].starts_with(b"@") {
                at = block_end(source, open, range.end);
                continue;
            }
            let close = find(source, open, range.end, |s| memchr(b'}', s)).unwrap_or(range.end);
            if affects_visibility(&source[open + 1..close]) {
                for selector in source[prelude].split(|b| *b == b',') {
                    self.add(selector.trim_ascii(), open + 1..close);
                }
            }
            at = (close + 1).min(range.end);
        }
    }

    fn add(&mut self, selector: &[u8], declarations: Range<usize>) {
        if self.count >= SELECTORS_MAX || selector.iter().any(|b| b":[*\"(".contains(b)) {
            return;
        }
        let combines = |b: &u8| b.is_ascii_whitespace() || b">+~".contains(b);
        let last = selector.rsplit(combines).next().unwrap_or_default().to_ascii_lowercase();
        let alone = last.len() == selector.len();
        let marker = |b: &u8| matches!(b, b'.' | b'#');
        let first = last.iter().position(marker).unwrap_or(last.len());
        let (name, marked) = last.split_at(first);
        let second = marked.iter().skip(1).position(marker).map_or(marked.len(), |i| i + 1);
        let (key, name) = match (&marked[..second], name) {
            (b"", b"") => return,
            (b"", name) => (name, None),
            (key, b"") => (key, None),
            (key, name) => (key, Some(name.to_vec())),
        };
        self.count += 1;
        let certain = alone && second == marked.len();
        let selector = Selector { name, certain, declarations };
        self.selectors.entry(key.to_vec()).or_default().push(selector);
    }

    /// Applies the rules for an element: by its name, then its classes, then its id.
    pub(super) fn apply(
        &mut self,
        source: &[u8],
        name: &[u8],
        classes: &[u8],
        id: &[u8],
        style: &mut Style,
    ) {
        if self.applied_bytes > APPLIED_BYTES_MAX {
            style.background = None;
            return;
        }
        let name = name.to_ascii_lowercase();
        let mut left = TRIED_MAX;
        self.apply_key(source, &name, &name, &mut left, style);
        for class in classes.split(u8::is_ascii_whitespace).filter(|c| !c.is_empty()) {
            let key = [b".", &*class.to_ascii_lowercase()].concat();
            self.apply_key(source, &key, &name, &mut left, style);
        }
        if !id.is_empty() {
            let key = [b"#", &*id.to_ascii_lowercase()].concat();
            self.apply_key(source, &key, &name, &mut left, style);
        }
    }

    fn apply_key(
        &mut self,
        source: &[u8],
        key: &[u8],
        name: &[u8],
        left: &mut usize,
        style: &mut Style,
    ) {
        for selector in self.selectors.get(key).into_iter().flatten() {
            if *left == 0 {
                return;
            }
            *left -= 1;
            if selector.name.as_ref().is_some_and(|n| n != name) {
                continue;
            }
            let declarations = source.get(selector.declarations.clone()).unwrap_or_default();
            self.applied_bytes += declarations.len() + SELECTOR_COST_BYTES;
            if selector.certain {
                style.apply(declarations);
            } else {
                style.set_uncertain(declarations);
            }
        }
    }
}

/// Whether declarations can change what is visible.
fn affects_visibility(declarations: &[u8]) -> bool {
    let words: [&[u8]; 7] =
        [b"color", b"background", b"display", b"visib", b"font", b"height", b"opacity"];
    let lower = declarations.to_ascii_lowercase();
    words.iter().any(|w| memmem::find(&lower, w).is_some())
        || memmem::find(&lower, b"indent").is_some()
}

fn find(
    source: &[u8],
    from: usize,
    to: usize,
    search: impl Fn(&[u8]) -> Option<usize>,
) -> Option<usize> {
    search(source.get(from..to)?).map(|i| from + i)
}

/// The part of a prelude after comments and white space.
fn skip_comments(source: &[u8], mut range: Range<usize>) -> Range<usize> {
    loop {
        let text = &source[range.clone()];
        range.start += text.len() - text.trim_ascii_start().len();
        let text = &source[range.clone()];
        if text.starts_with(b"/*") {
            let end = memmem::find(text, b"*/").map_or(text.len(), |i| i + 2);
            range.start += end;
        } else if text.starts_with(b"<!--") {
            range.start += 4;
        } else if text.starts_with(b"-->") {
            range.start += 3;
        } else {
            return range;
        }
    }
}

/// The end of the block whose `{` is at `open`, blocks inside it counted.
fn block_end(source: &[u8], open: usize, to: usize) -> usize {
    let (mut at, mut depth) = (open, 0u32);
    while let Some(i) = find(source, at, to, |s| memchr2(b'{', b'}', s)) {
        at = i + 1;
        if source[i] == b'{' {
            depth += 1;
        } else {
            depth = depth.saturating_sub(1);
            if depth == 0 {
                return at;
            }
        }
    }
    to
}
