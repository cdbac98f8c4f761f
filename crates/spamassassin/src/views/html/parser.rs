//! HTML as Perl's HTML::Parser 3.81 parses it: a tokenizer, not a tree builder. SpamAssassin runs
//! it with marked sections on and everything else at its default.
//!
//! Its peculiarities that matter: a quote that is never closed turns the rest of the document into
//! a comment; text at the end of a chunk is reported in two pieces, cut at white space; `<style>`,
//! `<script>`, `<xmp>`, `<iframe>`, `<plaintext>`, `<title>` and `<textarea>` contain only text.
//! All loops go forward; nothing is read more often than twice, except as the end-of-document rules
//! require.

mod attributes;
mod markup;
mod scan;

use attributes::{attribute, lower};
use scan::{at, is_space, name_first, skip_space, text_cut};

pub(super) use attributes::Attributes;

/// Most attributes of one start tag; further ones are left out.
const ATTRIBUTES_MAX: usize = 512;
/// Receiver of the parser's events.
pub(super) trait Events {
    /// Text; the receiver decodes references unless `cdata`.
    fn text(&mut self, text: &str, cdata: bool);
    /// `<name ...>`, the name in lower case.
    fn start(&mut self, name: &str, attributes: &Attributes<'_>);
    /// `</name>`, the name in lower case.
    fn end(&mut self, name: &str);
    /// A comment with its delimiters.
    fn comment(&mut self, text: &str);
    /// `<!DOCTYPE ...>` or `<!ENTITY ...>`, whole.
    fn declaration(&mut self, text: &str);
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

/// Keywords of a marked section by precedence, lowest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Section {
    None,
    Include,
    Rcdata,
    Cdata,
    Ignore,
}

/// Result of parsing a construct at `<`.
enum Step {
    /// The construct ended before this byte.
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

    /// Parses a chunk; what cannot be decided yet waits for the next one.
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

    /// The end of the document: decides constructs that were left open.
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

    /// Reports the end tag that the end of the document implied, if one is pending.
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

    /// Parses as much as can be decided; returns its length.
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

    /// Text up to the end tag of the open literal element; `None` if there is none.
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

    /// Text up to `]]>` in a CDATA or RCDATA section; `None` if there is none.
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
        // After a `]` at the very end the original reads one byte beyond its buffer.
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

    /// A start tag; `attributes` are those of the previous tag, whose memory is reused.
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
