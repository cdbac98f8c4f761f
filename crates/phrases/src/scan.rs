//! A text searched while it comes.

use std::sync::Arc;

use aho_corasick::Anchored;
use aho_corasick::automaton::{Automaton, StateID};

use crate::markup::{Markup, Seen};
use crate::score::{Score, ScoreOptions, score};
use crate::set::PhraseSet;
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
    markup: Option<Markup>,
    text: Search,
    raw: Option<Search>,
    bytes: u64,
}

/// One view of the text, and what was found in it.
#[derive(Debug)]
struct Search {
    view: View,
    state: Option<StateID>,
    /// Occurrences of each pattern.
    counts: Vec<u32>,
}

impl Scanner {
    pub(crate) fn new(set: Arc<PhraseSet>, form: Form) -> Self {
        let is_html = form == Form::Html;
        let search = |set: &PhraseSet| Search {
            view: View::new(is_html),
            state: set.automaton.start_state(Anchored::No).ok(),
            counts: vec![0; set.patterns.len()],
        };
        let (text, raw) = (search(&set), is_html.then(|| search(&set)));
        Scanner { set, markup: is_html.then(Markup::new), text, raw, bytes: 0 }
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
        if self.markup.as_ref().is_some_and(Markup::ends_with_less_than) {
            self.text.view.push('<');
        }
        self.text.view.space();
        if let Some(raw) = &mut self.raw {
            raw.view.space();
        }
        self.run();
        let raw = self.raw.as_ref().map(|raw| raw.counts.as_slice());
        score(&self.set, &self.text.counts, raw, self.bytes, options)
    }

    /// The score as if the text ended here; what is not yet a whole word may be missing.
    pub fn so_far(&self, options: &ScoreOptions) -> Score {
        let raw = self.raw.as_ref().map(|raw| raw.counts.as_slice());
        score(&self.set, &self.text.counts, raw, self.bytes, options)
    }

    fn take(&mut self, c: char) {
        let Some(markup) = &mut self.markup else { return self.text.view.push(c) };
        let text = &mut self.text.view;
        match markup.push(c) {
            Seen::Text(c) => text.push(c),
            Seen::LessThanAnd(c) => {
                text.push('<');
                text.push(c);
            }
            Seen::Space => text.space(),
            Seen::Nothing => text.flush(),
        }
        if let Some(raw) = &mut self.raw {
            raw.view.push(c);
        }
    }

    fn run(&mut self) {
        self.text.run(&self.set);
        if let Some(raw) = &mut self.raw {
            raw.run(&self.set);
        }
    }
}

impl Search {
    fn run(&mut self, set: &PhraseSet) {
        let Some(mut state) = self.state else { return };
        let automaton = &set.automaton;
        for byte in self.view.out.drain(..) {
            state = automaton.next_state(Anchored::No, state, byte);
            if !automaton.is_match(state) {
                continue;
            }
            for index in 0..automaton.match_len(state) {
                let pattern = automaton.match_pattern(state, index).as_usize();
                if let Some(count) = self.counts.get_mut(pattern) {
                    *count = count.saturating_add(1);
                }
            }
        }
        self.state = Some(state);
    }
}
