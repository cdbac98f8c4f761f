//! HTML as Perl's HTML::Parser 3.81 takes it apart: a tokenizer, not a tree builder. SpamAssassin
//! runs it with marked sections on and everything else at its default.
//!
//! What is odd about it and matters: a quote that is never closed turns the rest of the document
//! into a comment; text at the end of a chunk is reported in two pieces, cut at white space;
//! `<style>`, `<script>`, `<xmp>`, `<iframe>`, `<plaintext>`, `<title>` and `<textarea>` hold only text.
//! All loops go forward; nothing is read twice more often than the end-of-document rules ask for.

use std::borrow::Cow;

use super::entities::{self, Piece};

/// Attributes of one start tag kept; further ones are left out.
const ATTRIBUTES_MAX: usize = 512;
/// Marked sections open at once; deeper ones are not opened.
const SECTIONS_MAX: usize = 64;

/// What the parser reports.
pub(super) trait Events {
    /// Text; references are undone unless `cdata`.
    fn text(&mut self, text: &str, cdata: bool);
    /// `<name ...>`, the name in lower case.
    fn start(&mut self, name: &str, attributes: &Attributes<'_>);
    /// `</name>`.
    fn end(&mut self, name: &str);
    /// A comment with its delimiters.
    fn comment(&mut self, text: &str);
    /// `<!DOCTYPE ...>` or `<!ENTITY ...>`, whole.
    fn declaration(&mut self, text: &str);
}

/// The attributes of a start tag, in order; the first of a name counts.
#[derive(Debug, Default)]
pub(super) struct Attributes<'s> {
    /// Name as written, and the value without quotes; none for a name alone.
    list: Vec<(&'s str, Option<&'s str>)>,
    wide: bool,
}

impl<'s> Attributes<'s> {
    fn value(&self, attribute: (&'s str, Option<&'s str>)) -> Piece<'s> {
        match attribute.1 {
            Some(raw) => entities::decode(raw, self.wide, false),
            None => Piece::plain(attribute.0, self.wide),
        }
    }

    /// Value of an attribute, references undone; the name itself if it has no value.
    pub(super) fn get(&self, name: &str) -> Option<Piece<'s>> {
        let found = self.list.iter().find(|a| a.0.eq_ignore_ascii_case(name))?;
        Some(self.value(*found))
    }

    /// Whether there is an attribute of this name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.list.iter().any(|a| a.0.eq_ignore_ascii_case(name))
    }

    /// The first attribute whose name holds a slash and, in lower case, is such a one; of attributes of
    /// one name only the first is looked at.
    pub(super) fn find_slashed(&self, is_wanted: impl Fn(&str) -> bool) -> Option<Piece<'s>> {
        let found = self.list.iter().enumerate().find(|(i, a)| {
            memchr::memchr(b'/', a.0.as_bytes()).is_some()
                && !self.list[..*i].iter().any(|b| b.0.eq_ignore_ascii_case(a.0))
                && is_wanted(&lower(a.0))
        })?;
        Some(self.value(*found.1))
    }
}

fn lower(name: &str) -> Cow<'_, str> {
    if name.bytes().any(|b| b.is_ascii_uppercase()) {
        Cow::Owned(name.to_ascii_lowercase())
    } else {
        Cow::Borrowed(name)
    }
}

/// Elements whose content is only text: name, and whether references in it stay as they are.
const LITERAL: [(&str, bool); 7] = [
    ("script", true),
    ("style", true),
    ("xmp", true),
    ("iframe", true),
    ("plaintext", true),
    ("title", false),
    ("textarea", false),
];

/// Keywords of a marked section by strength.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Section {
    None,
    Include,
    Rcdata,
    Cdata,
    Ignore,
}

/// What a construct at `<` turned out to be.
enum Step {
    /// It ended here.
    Done(usize),
    /// Not markup after all.
    Text,
    /// The end of input came first.
    Unfinished,
}

/// The tokenizer's state between chunks.
#[derive(Debug)]
pub(super) struct Parser {
    wide: bool,
    literal: Option<usize>,
    cdata: bool,
    sections: Vec<Section>,
    section: Section,
    lone_gt_ends_comment: bool,
    pending_end: Option<&'static str>,
    rest: String,
}

fn is_space(byte: u8) -> bool {
    super::super::perl::is_space(byte)
}

fn name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-' | b':')
}

fn name_first(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || matches!(byte, b'_' | b':')
}

/// A byte of the buffer; beyond its end there is a NUL, as in Perl's buffers.
fn at(s: &[u8], i: usize) -> u8 {
    s.get(i).copied().unwrap_or(0)
}

fn skip_space(s: &[u8], mut i: usize) -> usize {
    while is_space(at(s, i)) {
        i += 1;
    }
    i
}

impl Parser {
    /// A parser for a string that is `wide` or not.
    pub(super) fn new(wide: bool) -> Self {
        Parser {
            wide,
            literal: None,
            cdata: false,
            sections: Vec::new(),
            section: Section::None,
            lone_gt_ends_comment: false,
            pending_end: None,
            rest: String::new(),
        }
    }

    /// Reads a chunk; what cannot be decided yet waits for the next one.
    pub(super) fn parse(&mut self, chunk: &str, events: &mut impl Events) {
        if chunk.is_empty() {
            return;
        }
        if self.rest.is_empty() {
            let used = self.run(chunk, events);
            self.rest = chunk[used..].to_owned();
        } else {
            let mut buffer = std::mem::take(&mut self.rest);
            buffer.push_str(chunk);
            let used = self.run(&buffer, events);
            buffer.drain(..used);
            self.rest = buffer;
        }
    }

    /// The end of the document: decides what was left open.
    pub(super) fn finish(&mut self, events: &mut impl Events) {
        let buffer = std::mem::take(&mut self.rest);
        let mut rest = buffer.as_str();
        while !rest.is_empty() {
            if let Some(kind) = self.literal {
                let name = LITERAL[kind].0;
                match name {
                    "plaintext" | "xmp" | "iframe" | "textarea" => break,
                    "script" | "style" => self.emit_end(name, events),
                    _ => self.pending_end = Some(name),
                }
                self.literal = None;
                rest = &rest[self.run(rest, events)..];
                continue;
            }
            if !self.lone_gt_ends_comment && rest.starts_with('<') {
                self.lone_gt_ends_comment = true;
                rest = &rest[self.run(rest, events)..];
                continue;
            }
            if let Some(after) = rest.strip_prefix('<') {
                let next = after.bytes().next();
                let markup = |b: u8| name_first(b) || matches!(b, b'/' | b'!' | b'?');
                if next.is_none_or(markup) {
                    self.emit_comment(rest, events);
                    rest = "";
                }
            }
            break;
        }
        if !rest.is_empty() {
            self.emit_text(rest, events);
        }
        self.settle(events);
    }

    /// Reports the end tag that the end of the document made up, if one waits.
    fn settle(&mut self, events: &mut impl Events) {
        if let Some(name) = self.pending_end.take()
            && self.section != Section::Ignore
        {
            events.end(name);
        }
    }

    fn emit_text(&self, text: &str, events: &mut impl Events) {
        if self.section != Section::Ignore {
            events.text(text, self.cdata);
        }
    }

    fn emit_comment(&self, text: &str, events: &mut impl Events) {
        if self.section != Section::Ignore {
            events.comment(text);
        }
    }

    fn emit_end(&mut self, name: &str, events: &mut impl Events) {
        self.settle(events);
        if self.section != Section::Ignore {
            events.end(&lower(name));
        }
    }

    /// Reads as much as can be decided; returns how much that was.
    fn run(&mut self, text: &str, events: &mut impl Events) -> usize {
        let s = text.as_bytes();
        let mut attributes = Attributes { list: Vec::new(), wide: self.wide };
        let (mut i, mut from) = (0, 0);
        loop {
            if self.literal.is_some() {
                match self.literal_text(text, i, from, events) {
                    Some(next) => (i, from) = (next, next),
                    None => return from,
                }
            }
            while matches!(self.section, Section::Cdata | Section::Rcdata) {
                match self.section_text(text, i, from, events) {
                    Some(next) => (i, from) = (next, next),
                    None => return from,
                }
            }
            (i, from) = self.skip_text(text, i, from, events);
            if i != from {
                if i < s.len() {
                    self.emit_text(&text[from..i], events);
                    from = i;
                } else {
                    let cut = text_cut(s, from);
                    if cut != from {
                        self.emit_text(&text[from..cut], events);
                    }
                    return cut;
                }
            }
            if s.len() - i < 3 {
                return i;
            }
            i += 1;
            let step = match s[i] {
                b if b.is_ascii_alphabetic() => self.start_tag(text, from, &mut attributes, events),
                b'/' => self.end_tag(text, from, events),
                b'!' => self.declaration(text, from, events),
                b'?' => memchr::memchr(b'>', &s[from + 2..])
                    .map_or(Step::Unfinished, |n| Step::Done(from + 2 + n + 1)),
                _ => Step::Text,
            };
            match step {
                Step::Done(next) => (i, from) = (next, next),
                Step::Text => {}
                Step::Unfinished => return from,
            }
        }
    }

    /// Text up to the end tag of the open literal element; none if that does not come.
    fn literal_text(
        &mut self,
        text: &str,
        mut i: usize,
        from: usize,
        events: &mut impl Events,
    ) -> Option<usize> {
        let s = text.as_bytes();
        let name = LITERAL[self.literal?].0;
        loop {
            i += memchr::memchr(b'<', s.get(i..)?)?;
            let open = i;
            i += 1;
            if at(s, i) != b'/' {
                continue;
            }
            i += 1;
            let common =
                name.bytes().zip(&s[i..]).take_while(|(a, b)| *a == b.to_ascii_lowercase());
            let matched = common.count();
            i += matched;
            if matched < name.len() || name == "plaintext" {
                continue;
            }
            let tag_end = i;
            i = skip_space(s, i);
            if at(s, i) == b'>' {
                i += 1;
                if from != open {
                    self.emit_text(&text[from..open], events);
                }
                self.emit_end(&text[open + 2..tag_end], events);
                self.literal = None;
                self.cdata = false;
                return Some(i);
            }
        }
    }

    /// Text up to `]]>` in a CDATA or RCDATA section; none if that does not come.
    fn section_text(
        &mut self,
        text: &str,
        mut i: usize,
        from: usize,
        events: &mut impl Events,
    ) -> Option<usize> {
        let s = text.as_bytes();
        loop {
            i += memchr::memchr(b']', s.get(i..)?)?;
            if at(s, i + 1) == b']' && at(s, i + 2) == b'>' {
                if from != i {
                    self.emit_text(&text[from..i], events);
                }
                self.close_section();
                return Some(i + 3);
            }
            i += 1;
        }
    }

    /// Skips to the next `<`; in a marked section also closes it at `]]>`.
    fn skip_text(
        &mut self,
        text: &str,
        mut i: usize,
        mut from: usize,
        events: &mut impl Events,
    ) -> (usize, usize) {
        let s = text.as_bytes();
        if self.section == Section::None {
            let next = memchr::memchr(b'<', &s[i..]).map_or(s.len(), |n| i + n);
            return (next, from);
        }
        while i < s.len() && s[i] != b'<' {
            if self.section != Section::None && s[i] == b']' {
                let end = i;
                i += 1;
                if at(s, i) == b']' {
                    i += 1;
                    if at(s, i) == b'>' {
                        i += 1;
                        self.emit_text(&text[from..end], events);
                        from = i;
                        self.close_section();
                        continue;
                    }
                }
            }
            i += 1;
        }
        // After a `]` at the very end the original steps one beyond its buffer.
        (i.min(s.len()), from)
    }

    fn close_section(&mut self) {
        self.sections.pop();
        self.update_section();
    }

    fn update_section(&mut self) {
        self.section = self.sections.iter().copied().max().unwrap_or(Section::None);
        self.cdata = self.section == Section::Cdata;
    }

    /// A start tag; `attributes` are those of the tag before, whose room is used again.
    fn start_tag<'t>(
        &mut self,
        text: &'t str,
        from: usize,
        attributes: &mut Attributes<'t>,
        events: &mut impl Events,
    ) -> Step {
        let s = text.as_bytes();
        let mut i = from + 2;
        while i < s.len() && !is_space(s[i]) && s[i] != b'>' {
            i += 1;
        }
        let name = &text[from + 1..i];
        i = skip_space(s, i);
        attributes.list.clear();
        while i < s.len() && s[i] != b'>' {
            let Some((next, attribute)) = attribute(text, i) else { return Step::Unfinished };
            if attributes.list.len() < ATTRIBUTES_MAX {
                attributes.list.push(attribute);
            }
            i = next;
        }
        if i >= s.len() {
            return Step::Unfinished;
        }
        let name = lower(name);
        self.settle(events);
        if self.section != Section::Ignore {
            events.start(&name, attributes);
        }
        if let Some(kind) = LITERAL.iter().position(|l| l.0 == name) {
            self.literal = Some(kind);
            self.cdata = LITERAL[kind].1;
        }
        Step::Done(i + 1)
    }

    fn end_tag(&mut self, text: &str, from: usize, events: &mut impl Events) -> Step {
        let s = text.as_bytes();
        let mut i = from + 2;
        let named = i < s.len() && !is_space(s[i]) && s[i] != b'>';
        if named {
            while i < s.len() && !is_space(s[i]) && s[i] != b'>' {
                i += 1;
            }
        }
        let name_end = i;
        let Some(end) = skip_until_gt(s, i) else { return Step::Unfinished };
        if named {
            self.emit_end(&text[from + 2..name_end], events);
        } else {
            self.emit_comment(&text[from..end + 1], events);
        }
        Step::Done(end + 1)
    }

    fn declaration(&mut self, text: &str, from: usize, events: &mut impl Events) -> Step {
        let s = text.as_bytes();
        let i = from + 2;
        match at(s, i) {
            b'-' if i + 1 == s.len() => return Step::Unfinished,
            b'-' if at(s, i + 1) == b'-' => return self.comment(text, from, events),
            b'[' => match self.open_section(text, from) {
                Step::Text => {}
                step => return step,
            },
            b'>' => {
                self.emit_comment(&text[from..i + 1], events);
                return Step::Done(i + 1);
            }
            b if b.is_ascii_alphabetic() => match known_declaration(s, i) {
                Step::Done(end) => {
                    self.settle(events);
                    if self.section != Section::Ignore {
                        events.declaration(&text[from..end]);
                    }
                    return Step::Done(end);
                }
                Step::Unfinished => return Step::Unfinished,
                Step::Text => {}
            },
            _ => {}
        }
        // Everything up to the first `>` is a comment.
        let Some(n) = memchr::memchr(b'>', &s[i..]) else { return Step::Unfinished };
        self.emit_comment(&text[from..i + n + 1], events);
        Step::Done(i + n + 1)
    }

    /// A comment; `from` is at `<!--`.
    fn comment(&mut self, text: &str, from: usize, events: &mut impl Events) -> Step {
        let s = text.as_bytes();
        let start = from + 4;
        let end = if self.lone_gt_ends_comment {
            memchr::memchr(b'>', &s[start.min(s.len())..]).map(|n| start + n + 1)
        } else {
            comment_end(s, start)
        };
        let Some(end) = end else { return Step::Unfinished };
        self.emit_comment(&text[from..end], events);
        Step::Done(end)
    }

    /// `<![ keywords [`.
    fn open_section(&mut self, text: &str, from: usize) -> Step {
        let s = text.as_bytes();
        let mut i = from + 3;
        let mut strongest = None;
        loop {
            i = skip_space(s, i);
            while name_first(at(s, i)) {
                let start = i;
                while name_byte(at(s, i)) {
                    i += 1;
                }
                let word = match text[start..i].to_ascii_lowercase().as_str() {
                    "include" => Section::Include,
                    "rcdata" => Section::Rcdata,
                    "cdata" => Section::Cdata,
                    "ignore" => Section::Ignore,
                    _ => Section::None,
                };
                strongest = strongest.max(Some(word));
                i = skip_space(s, i);
                if i >= s.len() {
                    return Step::Unfinished;
                }
            }
            if at(s, i) != b'-' {
                break;
            }
            if at(s, i + 1) != b'-' {
                return Step::Text;
            }
            match section_comment_end(s, i + 2) {
                Some(end) => i = end,
                None => return Step::Unfinished,
            }
        }
        if at(s, i) != b'[' || self.sections.len() >= SECTIONS_MAX {
            return Step::Text;
        }
        self.sections.push(strongest.unwrap_or(Section::Include));
        self.update_section();
        Step::Done(i + 1)
    }
}

/// Where to cut the text at the end of a chunk: references and words may go on in the next one.
fn text_cut(s: &[u8], from: usize) -> usize {
    let mut end = s.len();
    if end > from && !is_space(s[end - 1]) {
        while end > from && !is_space(s[end - 1]) {
            end -= 1;
        }
    }
    while end > from && is_space(s[end - 1]) {
        end -= 1;
    }
    end
}

/// An attribute's name, and its value if it has one.
type Attribute<'t> = (&'t str, Option<&'t str>);

/// One attribute at `i`: where the next begins, and the attribute. None at the end of input.
fn attribute(text: &str, i: usize) -> Option<(usize, Attribute<'_>)> {
    let s = text.as_bytes();
    let mut end = i + 1;
    // The first byte may be anything, even an equal sign; a character is not cut.
    while end < s.len() && !is_space(s[end]) && s[end] != b'>' && s[end] != b'=' {
        end += 1;
    }
    if end >= s.len() {
        return None;
    }
    let name = text.get(i..end)?;
    let mut next = skip_space(s, end);
    if next >= s.len() {
        return None;
    }
    if s[next] != b'=' {
        return Some((next, (name, None)));
    }
    next = skip_space(s, next + 1);
    if next >= s.len() {
        return None;
    }
    let value = match s[next] {
        b'>' => return Some((next, (name, Some("")))),
        quote @ (b'"' | b'\'') => {
            let length = memchr::memchr(quote, &s[next + 1..])?;
            let value = &text[next + 1..next + 1 + length];
            next += length + 2;
            value
        }
        _ => {
            let start = next;
            while next < s.len() && !is_space(s[next]) && s[next] != b'>' {
                next += 1;
            }
            if next >= s.len() {
                return None;
            }
            &text[start..next]
        }
    };
    next = skip_space(s, next);
    (next < s.len()).then_some((next, (name, Some(value))))
}

/// The `>` of an end tag; quotes after a space or an equal sign hide it, as in old browsers.
fn skip_until_gt(s: &[u8], mut i: usize) -> Option<usize> {
    let (mut quote, mut previous) = (0, b' ');
    while let Some(&b) = s.get(i) {
        if quote == 0 && b == b'>' {
            return Some(i);
        }
        if b == b'"' || b == b'\'' {
            if b == quote {
                quote = 0;
            } else if quote == 0 && (previous == b' ' || previous == b'=') {
                quote = b;
            }
        }
        previous = b;
        i += 1;
    }
    None
}

/// The end of `--`, white space, `>`, from `i` on.
fn comment_end(s: &[u8], mut i: usize) -> Option<usize> {
    loop {
        i += memchr::memchr(b'-', s.get(i..)?)?;
        if at(s, i + 1) == b'-' {
            let end = skip_space(s, i + 2);
            if at(s, end) == b'>' {
                return Some(end + 1);
            }
        }
        i += 1;
    }
}

/// The end of a comment inside the keywords of a marked section.
fn section_comment_end(s: &[u8], mut i: usize) -> Option<usize> {
    loop {
        i += memchr::memchr(b'-', s.get(i..)?)?;
        i += 1;
        if at(s, i) == b'-' {
            return Some(i + 1);
        }
    }
}

/// `DOCTYPE` or `ENTITY` declaration whose name begins at `i`: where it ends.
fn known_declaration(s: &[u8], start: usize) -> Step {
    let mut i = start;
    while i < s.len() && name_byte(s[i]) {
        i += 1;
    }
    if i >= s.len() {
        return Step::Unfinished;
    }
    let name = &s[start..i];
    if !name.eq_ignore_ascii_case(b"doctype") && !name.eq_ignore_ascii_case(b"entity") {
        return Step::Text;
    }
    loop {
        i = skip_space(s, i);
        let Some(&byte) = s.get(i) else { return Step::Unfinished };
        i += 1;
        match byte {
            b'>' => return Step::Done(i),
            b'"' | b'\'' => match memchr::memchr(byte, &s[i..]) {
                Some(n) => i += n + 1,
                None => return Step::Unfinished,
            },
            b'-' => {
                match s.get(i) {
                    None => return Step::Unfinished,
                    Some(b'-') => {}
                    Some(_) => return Step::Text,
                }
                match memchr::memmem::find(&s[i + 1..], b"--") {
                    Some(n) => i += 1 + n + 2,
                    None => return Step::Unfinished,
                }
            }
            _ => {
                while i < s.len() && !is_space(s[i]) && s[i] != b'>' {
                    i += 1;
                }
                if i >= s.len() {
                    return Step::Unfinished;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Log(String);

    impl Events for Log {
        fn text(&mut self, text: &str, cdata: bool) {
            self.0 += &format!("{}({text})", if cdata { "cdata" } else { "text" });
        }
        fn start(&mut self, name: &str, attributes: &Attributes<'_>) {
            self.0 += &format!("<{name}");
            for (i, given) in attributes.list.iter().enumerate() {
                if attributes.list[..i].iter().any(|b| b.0.eq_ignore_ascii_case(given.0)) {
                    continue;
                }
                let (name, value) = (lower(given.0), attributes.value(*given));
                self.0 += &format!(" {name}={}", value.chars);
            }
            self.0 += ">";
        }
        fn end(&mut self, name: &str) {
            self.0 += &format!("</{name}>");
        }
        fn comment(&mut self, text: &str) {
            self.0 += &format!("comment({text})");
        }
        fn declaration(&mut self, text: &str) {
            self.0 += &format!("decl({text})");
        }
    }

    fn log(html: &str) -> String {
        let mut log = Log::default();
        let mut parser = Parser::new(false);
        parser.parse(html, &mut log);
        parser.finish(&mut log);
        log.0
    }

    #[test]
    fn tags_attributes_and_text() {
        assert_eq!(
            log("a<B x=1 y=\"2&amp;3\" z X=4>b c</B foo=\">\">d"),
            "text(a)<b x=1 y=2&3 z=z>text(b c)</b>text(d)"
        );
        assert_eq!(log("1 < 2 <3"), "text(1 )text(< 2 )text(<3)");
        assert_eq!(log("<a href=x/>"), "<a href=x/>");
    }

    #[test]
    fn an_open_quote_makes_the_rest_a_comment() {
        assert_eq!(log("x <a href=\"y>z</a>"), "text(x )comment(<a href=\"y>z</a>)");
    }

    #[test]
    fn comments_and_declarations() {
        assert_eq!(
            log("<!-- a -- ><!DOCTYPE html><!x y><!><?php x>"),
            "comment(<!-- a -- >)decl(<!DOCTYPE html>)comment(<!x y>)comment(<!>)"
        );
        assert_eq!(log("<!-- never > closed"), "comment(<!-- never >)text( closed)");
        assert_eq!(log("</ x>"), "comment(</ x>)");
    }

    #[test]
    fn literal_elements() {
        assert_eq!(log("<style>a<b></STYLE >c"), "<style>cdata(a<b>)</style>text(c)");
        assert_eq!(log("<title>a&amp;<b>x"), "<title>text(a&amp;)</title><b>text(x)");
        assert_eq!(log("<xmp>a <b>x"), "<xmp>cdata(a <b>x)");
    }

    #[test]
    fn marked_sections() {
        assert_eq!(log("<![CDATA[a<b>]]>c"), "cdata(a<b>)text(c)");
        assert_eq!(
            log("<![if !mso]>x<![endif]>"),
            "comment(<![if !mso]>)text(x)comment(<![endif]>)"
        );
        assert_eq!(log("<![IGNORE[a<b>]]>c"), "text(c)");
    }
}
