//! A text searched while it comes.

use std::sync::Arc;

use aho_corasick::Anchored;
use aho_corasick::automaton::{Automaton, StateID};
use aho_corasick::nfa::contiguous::NFA;

use crate::fold::MARK;
use crate::markup::{Markup, Seen};
use crate::score::{Score, ScoreOptions, score};
use crate::set::PhraseSet;
use crate::tree::Parts;
use crate::view::View;

impl PhraseSet {
    /// Searches a text that comes in pieces.
    pub fn scanner(self: &Arc<Self>, form: Form) -> Scanner {
        Scanner::new(Arc::clone(self), form)
    }

    /// Searches a text.
    pub fn score(self: &Arc<Self>, text: &str, form: Form, options: &ScoreOptions) -> Score {
        let mut scanner = self.scanner(form);
        scanner.push(text);
        scanner.finish(options)
    }
}

/// What a text is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// A page: it is searched twice, as text and as it stands.
    Html,
    /// Text.
    Plain,
}

/// Characters between two runs of the automaton: what is searched is still in the cache.
const RUN_CHARS: usize = 4096;

/// Searches pieces of one text. Phrases that lie across two pieces are found: where a text is cut
/// makes no difference.
#[derive(Debug)]
pub struct Scanner {
    set: Arc<PhraseSet>,
    text: Search,
    /// Occurrences of each pattern in the text.
    counts: Vec<u32>,
    page: Option<Page>,
    bytes: u64,
}

/// What a page has more than a text.
#[derive(Debug)]
struct Page {
    markup: Markup,
    /// Text aside, which parts no word of the other.
    aside: Search,
    raw: Search,
    raw_counts: Vec<u32>,
}

/// One view of the text, and what was found in it.
#[derive(Debug)]
struct Search {
    view: View,
    state: Option<StateID>,
    /// If words ended wherever they perhaps did: where it differs.
    apart: Option<StateID>,
}

impl Scanner {
    pub(crate) fn new(set: Arc<PhraseSet>, form: Form) -> Self {
        let is_html = form == Form::Html;
        let search = || Search {
            view: View::new(is_html),
            state: set.automaton.start_state(Anchored::No).ok(),
            apart: None,
        };
        let counts = || vec![0; set.patterns.len()];
        let page = is_html.then(|| Page {
            markup: Markup::new(),
            aside: search(),
            raw: search(),
            raw_counts: counts(),
        });
        let (text, counts) = (search(), counts());
        Scanner { set, text, counts, page, bytes: 0 }
    }

    /// Takes the next piece.
    pub fn push(&mut self, piece: &str) {
        self.bytes = self.bytes.saturating_add(piece.len() as u64);
        let mut chars = piece.chars();
        loop {
            let mut taken = 0;
            for c in chars.by_ref().take(RUN_CHARS) {
                taken += 1;
                self.take(c);
            }
            if taken == 0 {
                return;
            }
            self.run();
        }
    }

    /// Bytes of text so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Takes the end of the text.
    pub fn finish(mut self, options: &ScoreOptions) -> Score {
        self.text.view.space();
        if let Some(page) = &mut self.page {
            page.aside.view.space();
            page.raw.view.space();
        }
        self.run();
        self.so_far(options)
    }

    /// The score as if the text ended here; what is not yet a whole word may be missing.
    pub fn so_far(&self, options: &ScoreOptions) -> Score {
        let raw = self.page.as_ref().map(|page| page.raw_counts.as_slice());
        score(&self.set, &self.counts, raw, self.bytes, options)
    }

    fn take(&mut self, c: char) {
        let Some(page) = &mut self.page else { return self.text.view.push(c) };
        page.raw.view.push(c);
        let seen = page.markup.push(c);
        let view = match page.markup.is_aside() {
            true => &mut page.aside.view,
            false => &mut self.text.view,
        };
        match seen {
            Seen::Text(c) => view.push(c),
            Seen::SpaceAnd(c) => {
                view.space();
                view.push(c);
            }
            Seen::Space => view.space(),
            Seen::MaybeSpace => view.maybe_space(),
            Seen::Aside(parts) => {
                page.aside.view.space();
                match parts {
                    Parts::Yes => self.text.view.space(),
                    Parts::Maybe => self.text.view.maybe_space(),
                    Parts::No => self.text.view.flush(),
                }
            }
            Seen::Nothing => view.flush(),
        }
    }

    fn run(&mut self) {
        self.text.run(&self.set, &mut self.counts);
        if let Some(page) = &mut self.page {
            page.aside.run(&self.set, &mut self.counts);
            page.raw.run(&self.set, &mut page.raw_counts);
        }
    }
}

impl Search {
    fn run(&mut self, set: &PhraseSet, counts: &mut [u32]) {
        let Some(mut state) = self.state else { return };
        let automaton = &set.automaton;
        let mut apart = self.apart;
        for byte in self.view.out.drain(..) {
            if byte == MARK || apart.is_some() {
                (state, apart) = step_apart(automaton, byte, state, apart, counts);
                continue;
            }
            state = automaton.next_state(Anchored::No, state, byte);
            if automaton.is_match(state) {
                count(automaton, state, None, counts);
            }
        }
        (self.state, self.apart) = (Some(state), apart);
    }
}

/// One step where the text is read both ways, until both come to the same state: so words are found
/// that a browser parts, and those that it does not, but each once.
fn step_apart(
    automaton: &NFA,
    byte: u8,
    state: StateID,
    apart: Option<StateID>,
    counts: &mut [u32],
) -> (StateID, Option<StateID>) {
    let other = apart.unwrap_or(state);
    if byte == MARK {
        let other = automaton.next_state(Anchored::No, other, b' ');
        count(automaton, other, None, counts);
        return (state, Some(other));
    }
    let state = automaton.next_state(Anchored::No, state, byte);
    let other = automaton.next_state(Anchored::No, other, byte);
    count(automaton, state, None, counts);
    count(automaton, other, Some(state), counts);
    (state, (state != other).then_some(other))
}

/// Counts the patterns that end at a state, but for those that end at `counted`, too.
fn count(automaton: &NFA, state: StateID, counted: Option<StateID>, counts: &mut [u32]) {
    let patterns = |state| {
        let length = if automaton.is_match(state) { automaton.match_len(state) } else { 0 };
        (0..length).map(move |index| automaton.match_pattern(state, index))
    };
    for pattern in patterns(state) {
        if counted.is_some_and(|counted| patterns(counted).any(|other| other == pattern)) {
            continue;
        }
        if let Some(count) = counts.get_mut(pattern.as_usize()) {
            *count = count.saturating_add(1);
        }
    }
}
