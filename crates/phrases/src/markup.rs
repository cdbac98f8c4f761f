//! What of a page is text (after the HTML Living Standard, section 13.2.5), in pieces and without
//! keeping more of it than the name of a tag and what is open.
//!
//! Tags that begin a line or a cell end a word ([`crate::tree`]); others, such as `<b>`, do not, so
//! that a word with a tag in it is still found. Scripts, styles and comments are not text. Where
//! browsers read content as raw text, so it is here: else `<!--` in it would hide what follows.
//! Titles, templates and what is for browsers without scripts are text of their own, aside. A
//! document that hides its text behind mark-up that never ends has no text for this reader; the raw
//! view has it.

use crate::element::{Element, Name};
use crate::script::{Script, matched};
use crate::tree::{Parts, Start, Tree};

/// What a character of the source means for the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Seen {
    /// It is text.
    Text(char),
    /// There were signs before that are no letters, and it is text.
    SpaceAnd(char),
    /// A word ends here.
    Space,
    /// Perhaps a word ends here.
    MaybeSpace,
    /// Text aside begins or ends here; what that does to the word around it.
    Aside(Parts),
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
    Attribute(Attribute),
    /// After `<!`, with so many dashes.
    Declaration(u8),
    /// After `<!` and so many characters of `[CDATA[`.
    CdataName(usize),
    /// In `<![CDATA[`, after so many `]`; at most 3.
    Cdata(u8),
    Comment(Comment),
    /// `<?`, `</ ` or `<!` that is no comment: until `>`.
    Bogus,
    /// Raw text: how many characters of its end tag were seen.
    Raw(usize),
    Script,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Attribute {
    Before { is_after_slash: bool },
    Name,
    AfterName,
    BeforeValue,
    Quoted(char),
    Unquoted,
}

/// Where in `<!-- ... -->`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Comment {
    Start,
    StartDash,
    Body,
    Dash,
    Dashes,
    /// After `--!`.
    Bang,
}

/// What becomes of raw text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Raw {
    Hidden,
    Shown,
    /// Text aside.
    Aside,
    /// Mark-up aside.
    Noscript,
}

/// Reads a page character by character.
#[derive(Debug)]
pub(crate) struct Markup {
    state: State,
    name: Name,
    is_end: bool,
    /// The raw text that is read, and how it ends.
    raw: Raw,
    raw_end: &'static str,
    /// The end tag is that of the raw text.
    is_raw_end: bool,
    script: Script,
    tree: Tree,
    is_aside: bool,
    /// What an attribute says is asked; its name and value, and whether it said it.
    watches: bool,
    attribute: Name,
    value: Name,
    is_html: bool,
    /// Reads what browsers without scripts show.
    scriptless: Option<Box<Markup>>,
    is_scriptless: bool,
}

impl Markup {
    pub(crate) fn new() -> Self {
        Markup {
            state: State::Text,
            name: Name::default(),
            is_end: false,
            raw: Raw::Hidden,
            raw_end: "",
            is_raw_end: false,
            script: Script::default(),
            tree: Tree::default(),
            is_aside: false,
            watches: false,
            attribute: Name::default(),
            value: Name::default(),
            is_html: false,
            scriptless: None,
            is_scriptless: false,
        }
    }

    /// What the last character was is text aside.
    pub(crate) fn is_aside(&self) -> bool {
        self.is_aside
    }

    /// Most characters are text, or in a value.
    #[inline]
    pub(crate) fn push(&mut self, c: char) -> Seen {
        match self.state {
            State::Text if c != '<' => Seen::Text(c),
            State::Attribute(Attribute::Quoted(quote)) if c != quote && !self.watches => {
                Seen::Nothing
            }
            _ => self.push_any(c),
        }
    }

    fn push_any(&mut self, c: char) -> Seen {
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
            State::Attribute(attribute) => self.attribute(c, attribute),
            State::Declaration(dashes) => self.declaration(c, dashes),
            State::CdataName(seen) => match "[CDATA[".chars().nth(seen) {
                Some(wanted) if wanted != c => self.bogus(c),
                _ if seen + 1 == "[CDATA[".len() => self.go(State::Cdata(0)),
                _ => self.go(State::CdataName(seen + 1)),
            },
            State::Cdata(brackets) => self.cdata(c, brackets),
            State::Comment(comment) => self.comment(c, comment),
            State::Bogus => self.bogus(c),
            State::Raw(seen) => self.in_raw(c, seen),
            State::Script => match self.script.push(c) {
                true => self.end_raw(c),
                false => Seen::Nothing,
            },
        }
    }

    fn go(&mut self, state: State) -> Seen {
        self.state = state;
        Seen::Nothing
    }

    fn bogus(&mut self, c: char) -> Seen {
        self.go(if c == '>' { State::Text } else { State::Bogus })
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
                Seen::SpaceAnd(c)
            }
        }
    }

    fn declaration(&mut self, c: char, dashes: u8) -> Seen {
        match (c, dashes) {
            ('-', 0) => self.go(State::Declaration(1)),
            ('-', _) => self.go(State::Comment(Comment::Start)),
            // Elsewhere it is a comment that ends at the first `>`.
            ('[', 0) if self.tree.is_foreign() => self.go(State::CdataName(1)),
            _ => self.bogus(c),
        }
    }

    fn begin_name(&mut self, c: char, is_end: bool) -> Seen {
        self.name = Name::default();
        self.name.push(c);
        self.is_end = is_end;
        self.go(State::Name)
    }

    fn in_name(&mut self, c: char) -> Seen {
        match c {
            '>' => self.end_tag(false),
            c if c == '/' || c.is_ascii_whitespace() => self.begin_attributes(c),
            c => {
                self.name.push(c);
                Seen::Nothing
            }
        }
    }

    fn begin_attributes(&mut self, c: char) -> Seen {
        // Two elements of SVG and MathML are what their attributes say.
        self.watches = self.tree.is_foreign()
            && !self.is_end
            && (self.name.is("font") || self.name.is("annotation-xml"));
        self.go(State::Attribute(Attribute::Before { is_after_slash: c == '/' }))
    }

    fn attribute(&mut self, c: char, from: Attribute) -> Seen {
        use Attribute::{AfterName, Before, BeforeValue, Name, Quoted, Unquoted};
        let to = match (from, c) {
            (Quoted(quote), c) if c == quote => Before { is_after_slash: false },
            (Quoted(_), _) => from,
            (_, '>') => {
                if self.watches {
                    self.watch(c, from, AfterName);
                }
                let is_self_closing = from == Before { is_after_slash: true };
                return self.end_tag(is_self_closing);
            }
            (BeforeValue, '"' | '\'') => Quoted(c),
            (BeforeValue, c) if c.is_ascii_whitespace() => BeforeValue,
            (BeforeValue, _) => Unquoted,
            (Unquoted, c) if !c.is_ascii_whitespace() => Unquoted,
            (Name | AfterName, c) if c.is_ascii_whitespace() => AfterName,
            // At the start of a name it is part of it: `<a =">`.
            (Name | AfterName, '=') => BeforeValue,
            (_, '/') => Before { is_after_slash: true },
            (_, c) if c.is_ascii_whitespace() => Before { is_after_slash: false },
            _ => Name,
        };
        if self.watches {
            self.watch(c, from, to);
        }
        self.go(State::Attribute(to))
    }

    fn watch(&mut self, c: char, from: Attribute, to: Attribute) {
        use Attribute::{BeforeValue, Quoted, Unquoted};
        let is_value = |place| matches!(place, Quoted(_) | Unquoted);
        let has_name = from == Attribute::Name && to != Attribute::Name;
        if has_name && self.name.is("font") {
            self.is_html |= ["color", "face", "size"].iter().any(|n| self.attribute.is(n));
        }
        if is_value(from) && !is_value(to) && self.attribute.is("encoding") {
            let is = |kind| self.value.is(kind);
            self.is_html |= is("text/html") || is("application/xhtml+xml");
        }
        match to {
            Attribute::Name => {
                if from != to {
                    self.attribute = Name::default();
                }
                self.attribute.push(c);
            }
            BeforeValue => self.value = Name::default(),
            Quoted(_) if from == BeforeValue => {}
            Quoted(_) | Unquoted => self.value.push(c),
            _ => {}
        }
    }

    fn cdata(&mut self, c: char, brackets: u8) -> Seen {
        let held = |c| if brackets > 0 { Seen::SpaceAnd(c) } else { Seen::Text(c) };
        match c {
            ']' => self.go(State::Cdata((brackets + 1).min(3))),
            '>' if brackets >= 2 => {
                self.state = State::Text;
                if brackets > 2 { Seen::Space } else { Seen::Nothing }
            }
            c => {
                self.state = State::Cdata(0);
                held(c)
            }
        }
    }

    fn comment(&mut self, c: char, from: Comment) -> Seen {
        use Comment::{Bang, Body, Dash, Dashes, Start, StartDash};
        self.state = match (c, from) {
            // `<!-->` and `<!--->` are comments without text; `--!>` ends one, too.
            ('>', Start | StartDash | Dashes | Bang) => State::Text,
            ('-', Start) => State::Comment(StartDash),
            ('-', StartDash | Dash | Dashes) => State::Comment(Dashes),
            ('-', Body | Bang) => State::Comment(Dash),
            ('!', Dashes) => State::Comment(Bang),
            _ => State::Comment(Body),
        };
        Seen::Nothing
    }

    fn end_tag(&mut self, is_self_closing: bool) -> Seen {
        self.state = State::Text;
        let (name, element) = (self.name, self.name.element());
        let mut is_raw_aside = false;
        let parts = if std::mem::take(&mut self.is_raw_end) {
            match element {
                Element::Textarea | Element::Xmp => Parts::Yes,
                _ => Parts::No,
            }
        } else if self.is_end {
            self.tree.end(name, element)
        } else {
            let is_html = std::mem::take(&mut self.is_html);
            let tag = Start { name, element, is_self_closing, is_html };
            let (parts, has_content_of_html) = self.tree.start(tag);
            if has_content_of_html {
                is_raw_aside = self.begin_raw(name, element);
            }
            parts
        };
        let is_aside = is_raw_aside || self.tree.is_aside();
        if is_aside != std::mem::replace(&mut self.is_aside, is_aside) {
            return Seen::Aside(parts);
        }
        match parts {
            Parts::Yes => Seen::Space,
            Parts::Maybe => Seen::MaybeSpace,
            Parts::No => Seen::Nothing,
        }
    }

    /// What is raw text to browsers, and whether it is text aside.
    fn begin_raw(&mut self, name: Name, element: Element) -> bool {
        let (raw, end) = match element {
            Element::Script => {
                self.script = Script::default();
                self.state = State::Script;
                return false;
            }
            Element::Hidden if name.is("style") => (Raw::Hidden, "</style"),
            Element::Hidden if name.is("noembed") => (Raw::Hidden, "</noembed"),
            Element::Hidden => (Raw::Hidden, "</noframes"),
            Element::Iframe => (Raw::Hidden, "</iframe"),
            Element::Textarea => (Raw::Shown, "</textarea"),
            Element::Xmp => (Raw::Shown, "</xmp"),
            // It has no end: not even a `<` in it is mark-up.
            Element::Plaintext => (Raw::Shown, ""),
            Element::Title => (Raw::Aside, "</title"),
            Element::Noscript if !self.is_scriptless => (Raw::Noscript, "</noscript"),
            _ => return false,
        };
        (self.raw, self.raw_end, self.state) = (raw, end, State::Raw(0));
        if raw == Raw::Noscript {
            let reader = self.scriptless.get_or_insert_with(|| Box::new(Markup::new()));
            **reader = Markup::new();
            reader.is_scriptless = true;
        }
        matches!(raw, Raw::Aside | Raw::Noscript)
    }

    /// Until `</name` and then a blank, `/` or `>`.
    fn in_raw(&mut self, c: char, seen: usize) -> Seen {
        let is_delimiter = c == '>' || c == '/' || c.is_ascii_whitespace();
        if seen > 0 && seen == self.raw_end.len() && is_delimiter {
            return self.end_raw(c);
        }
        let now = match self.raw_end {
            "" => 0,
            end => matched(end, seen, c),
        };
        self.state = State::Raw(now);
        match (self.raw, &mut self.scriptless) {
            (Raw::Hidden, _) => Seen::Nothing,
            (Raw::Noscript, Some(reader)) => match reader.push(c) {
                // All of it is aside: the word around goes on.
                Seen::Aside(_) => Seen::Space,
                seen => seen,
            },
            _ if now > 1 => Seen::Nothing,
            // What may be an end tag is held back: of the signs of one that is none, this is left.
            _ if seen > 0 && now == 0 => Seen::SpaceAnd(c),
            _ if now == 1 => Seen::Space,
            _ => Seen::Text(c),
        }
    }

    fn end_raw(&mut self, c: char) -> Seen {
        let end = match self.state {
            State::Script => "script",
            _ => self.raw_end.trim_start_matches("</"),
        };
        (self.name, self.is_end, self.is_raw_end) = (Name::of(end), true, true);
        match c {
            '>' => self.end_tag(false),
            _ => self.begin_attributes(c),
        }
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
                Seen::SpaceAnd(c) => out.extend([' ', c]),
                Seen::Space => out.push(' '),
                Seen::MaybeSpace => out.push('|'),
                Seen::Aside(_) => out.push('^'),
                Seen::Nothing => {}
            }
        }
        out
    }

    #[test]
    fn tags_go_and_words_stay_whole() {
        for (page, shown) in [
            ("a<b>b</b>c<p>d</p>e", "abc d e"),
            ("<title>T</title><td>x<td>y", "^T ^|x|y"),
            ("<title><b></titel></title>a", "^  b>  el> ^a"),
            ("<table><td>x<td>y</table>", "| x y "),
            ("a<a title=\"x > y\" b='>'>c", "ac"),
            ("1 < 2 <3 << b<", "1   2  3    b"),
            ("a<!-- b > -- c -->d<!-->e<!--->f<!--x--!>g", "adefg"),
            ("a<!doctype html>b<?php x?>c</ x>d</>e", "abcde"),
            ("a<script>b</scrip></script x>c<SCRIPT>'</script>'d", "ac'd"),
            ("<style>x<b></style >y", "y"),
            ("a<script>b", "a"),
            ("a<b c=d'>e'", "ae'"),
            ("a<x-y>b</x-y>", "ab"),
        ] {
            assert_eq!(text(page), shown, "{page}");
        }
    }
}
