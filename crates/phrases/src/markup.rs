//! What of a page is text (after the HTML Living Standard, section 13.2.5), in pieces and without
//! keeping more of it than the name of a tag.
//!
//! Tags that begin a line or a cell end a word; others, such as `<b>`, do not, so that a word with
//! a tag in it is still found. Scripts, styles and comments are not text. A document that hides its
//! text behind mark-up that never ends has no text for this reader; the raw view has it.

/// Bytes of a tag's name that are kept: as many as the longest name below.
const NAME_BYTES_MAX: usize = 12;

/// Elements that do not end a word: phrasing content that is shown within a line.
const INLINE: [&str; 34] = [
    "a", "abbr", "acronym", "b", "bdi", "bdo", "big", "cite", "code", "data", "del", "dfn", "em",
    "font", "i", "ins", "kbd", "label", "mark", "nobr", "q", "s", "samp", "script", "small",
    "span", "strike", "strong", "style", "sub", "sup", "tt", "u", "wbr",
];

/// Elements whose content is no mark-up and not shown.
const HIDDEN: [&str; 5] = ["iframe", "noembed", "noframes", "script", "style"];

/// What a character of the source means for the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Seen {
    /// It is text.
    Text(char),
    /// The `<` before it was text, and so is it.
    LessThanAnd(char),
    /// A word ends here.
    Space,
    /// Nothing of the text.
    Nothing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Text,
    /// After `<`.
    Open,
    /// After `</`.
    OpenEnd,
    /// In a name.
    Name,
    /// After a name; whether `=` came before, and the quote that is open.
    Attributes {
        equals: bool,
        quote: Option<char>,
    },
    /// After `<!`, with so many dashes.
    Declaration(u8),
    /// In `<!--`, after so many dashes at the end; at most 2.
    Comment {
        dashes: u8,
        at_start: bool,
    },
    /// `<?`, `</ ` or `<!` that is no comment: until `>`.
    Bogus,
    /// In an element of [`HIDDEN`]: how many characters of its end tag were seen.
    Hidden(usize),
}

/// Reads a page character by character.
#[derive(Debug)]
pub(crate) struct Markup {
    state: State,
    name: String,
    is_end: bool,
    /// The element whose end is waited for.
    hidden: &'static str,
}

impl Markup {
    pub(crate) fn new() -> Self {
        Markup { state: State::Text, name: String::new(), is_end: false, hidden: "" }
    }

    pub(crate) fn push(&mut self, c: char) -> Seen {
        match self.state {
            State::Text => match c {
                '<' => self.go(State::Open),
                c => Seen::Text(c),
            },
            State::Open => self.open(c),
            State::OpenEnd => match c {
                c if c.is_ascii_alphabetic() => self.begin_name(c, true),
                '>' => self.go(State::Text),
                _ => self.go(State::Bogus),
            },
            State::Name => self.in_name(c),
            State::Attributes { equals, quote } => self.attributes(c, equals, quote),
            State::Declaration(dashes) => match (c, dashes) {
                ('-', 0) => self.go(State::Declaration(1)),
                ('-', _) => self.go(State::Comment { dashes: 0, at_start: true }),
                ('>', _) => self.go(State::Text),
                _ => self.go(State::Bogus),
            },
            State::Comment { dashes, at_start } => self.comment(c, dashes, at_start),
            State::Bogus => match c {
                '>' => self.go(State::Text),
                _ => Seen::Nothing,
            },
            State::Hidden(seen) => self.in_hidden(c, seen),
        }
    }

    /// The source ends: whether a `<` before the end was text.
    pub(crate) fn ends_with_less_than(&self) -> bool {
        self.state == State::Open
    }

    fn go(&mut self, state: State) -> Seen {
        self.state = state;
        Seen::Nothing
    }

    fn open(&mut self, c: char) -> Seen {
        match c {
            c if c.is_ascii_alphabetic() => self.begin_name(c, false),
            '/' => self.go(State::OpenEnd),
            '!' => self.go(State::Declaration(0)),
            '?' => self.go(State::Bogus),
            // The one before was text, this one may begin a tag.
            '<' => Seen::Space,
            c => {
                self.state = State::Text;
                Seen::LessThanAnd(c)
            }
        }
    }

    fn begin_name(&mut self, c: char, is_end: bool) -> Seen {
        self.name.clear();
        self.name.push(c.to_ascii_lowercase());
        self.is_end = is_end;
        self.go(State::Name)
    }

    fn in_name(&mut self, c: char) -> Seen {
        match c {
            '>' => self.end_tag(),
            '/' => self.go(State::Attributes { equals: false, quote: None }),
            c if c.is_ascii_whitespace() => {
                self.go(State::Attributes { equals: false, quote: None })
            }
            c => {
                if self.name.len() < NAME_BYTES_MAX {
                    self.name.push(c.to_ascii_lowercase());
                }
                Seen::Nothing
            }
        }
    }

    fn attributes(&mut self, c: char, equals: bool, quote: Option<char>) -> Seen {
        let next = |equals, quote| State::Attributes { equals, quote };
        match (c, quote) {
            (c, Some(open)) if c == open => self.go(next(false, None)),
            (_, Some(_)) => Seen::Nothing,
            ('>', None) => self.end_tag(),
            ('"' | '\'', None) if equals => self.go(next(false, Some(c))),
            ('=', None) => self.go(next(true, None)),
            (c, None) if c.is_ascii_whitespace() => Seen::Nothing,
            (_, None) => self.go(next(false, None)),
        }
    }

    fn comment(&mut self, c: char, dashes: u8, at_start: bool) -> Seen {
        match c {
            // `<!-->` and `<!--->` are comments without text.
            '>' if dashes >= 2 || at_start => self.go(State::Text),
            '-' => self.go(State::Comment { dashes: (dashes + 1).min(2), at_start }),
            // `--!>` ends one, too.
            '!' if dashes >= 2 => Seen::Nothing,
            _ => self.go(State::Comment { dashes: 0, at_start: false }),
        }
    }

    fn end_tag(&mut self) -> Seen {
        let name = self.name.as_str();
        let hidden = HIDDEN.into_iter().find(|hidden| *hidden == name);
        let ends_word = !INLINE.contains(&name);
        self.state = match hidden {
            Some(hidden) if !self.is_end => {
                self.hidden = hidden;
                State::Hidden(0)
            }
            _ => State::Text,
        };
        match ends_word {
            true => Seen::Space,
            false => Seen::Nothing,
        }
    }

    /// Until `</name` and then a blank, `/` or `>`.
    fn in_hidden(&mut self, c: char, seen: usize) -> Seen {
        let end = "</".len() + self.hidden.len();
        if seen == end && (c == '>' || c == '/' || c.is_ascii_whitespace()) {
            self.is_end = true;
            self.name.clear();
            self.name.push_str(self.hidden);
            return match c {
                '>' => self.end_tag(),
                _ => self.go(State::Attributes { equals: false, quote: None }),
            };
        }
        let wanted = "</".bytes().chain(self.hidden.bytes()).nth(seen).map(char::from);
        let seen = match c {
            c if Some(c.to_ascii_lowercase()) == wanted => seen + 1,
            '<' => 1,
            _ => 0,
        };
        self.go(State::Hidden(seen))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(page: &str) -> String {
        let (mut markup, mut out) = (Markup::new(), String::new());
        for c in page.chars() {
            match markup.push(c) {
                Seen::Text(c) => out.push(c),
                Seen::LessThanAnd(c) => {
                    out.push('<');
                    out.push(c);
                }
                Seen::Space => out.push(' '),
                Seen::Nothing => {}
            }
        }
        out
    }

    #[test]
    fn tags_go_and_words_stay_whole() {
        for (page, shown) in [
            ("a<b>b</b>c<p>d</p>e", "abc d e"),
            ("<title>T</title><td>x<td>y", " T  x y"),
            ("a<a title=\"x > y\" b='>'>c", "ac"),
            ("1 < 2 <3 << b<", "1 < 2 <3  < b"),
            ("a<!-- b > -- c -->d<!-->e<!--->f<!--x--!>g", "adefg"),
            ("a<!doctype html>b<?php x?>c</ x>d</>e", "abcde"),
            ("a<script>b</scrip></script x>c<SCRIPT>'</script>'d", "ac'd"),
            ("<style>x<b></style >y", "y"),
            ("a<script>b", "a"),
            ("a<b c=d'>e'", "ae'"),
            ("a<x-y>b</x-y>", "a b "),
        ] {
            assert_eq!(text(page), shown, "{page}");
        }
    }
}
