//! Handlers of the tokenizer's events, which update the state of an HTML part.

use super::element;
use super::entities::{self, Piece};
use super::parser::{Attributes, Events};
use super::words::has_text;
use super::{ANCHOR, HtmlState, PIECES_MAX, SCRIPT, STYLE, TITLE};
use crate::views::perl::{self, Text};

impl Events for HtmlState {
    fn text(&mut self, source: &str, cdata: bool) {
        let wide = self.source_wide;
        let text =
            if cdata { Piece::plain(source, wide) } else { entities::decode(source, wide, true) };
        if self.known.depth(SCRIPT) > 0 {
            if self.script.len() < PIECES_MAX {
                self.script.push(text.into_text());
            }
            return;
        }
        if self.known.depth(STYLE) > 0 {
            return;
        }
        if self.known.depth(ANCHOR) > 0 {
            self.anchor_text(&text.chars, text.wide);
        }
        if self.known.depth(TITLE) > 0
            && let Some(title) = self.title.last_mut()
        {
            title.chars.push_str(&text.chars);
            title.wide |= text.wide;
        }
        let hidden = has_text(&text.chars) && self.judge_visibility();
        self.note_split_words(&text);
        self.show(&text, hidden);
    }

    fn start(&mut self, name: &str, attributes: &Attributes<'_>) {
        let element = element::find(name);
        self.count_tag(name, 1, element);
        let Some(element) = element else { return };
        if element.styles {
            let sizes = self.style.open(name, attributes);
            if let Some(size) = sizes {
                if size > self.max_size {
                    self.max_size = size;
                } else if size < self.min_size {
                    self.min_size = size;
                }
            }
        }
        self.space_of(element);
        if element.links {
            self.note_links(element.name, attributes);
        }
        self.test_start(name, attributes);
    }

    fn end(&mut self, name: &str) {
        let element = element::find(name);
        self.count_tag(name, -1, element);
        let Some(element) = element else { return };
        if element.styles && name != "body" {
            self.style.close(name);
        }
        self.space_of(element);
    }

    fn comment(&mut self, text: &str) {
        if self.comment.len() < PIECES_MAX {
            let wide = self.source_wide;
            self.comment.push(Text { chars: text.to_owned(), wide });
        }
    }

    fn declaration(&mut self, text: &str) {
        if perl::starts_no_case(text.as_bytes(), b"<!doctype") {
            self.elements += 1;
            self.tags += 1;
            self.inside.insert("!doctype".into(), 0);
        }
    }
}
