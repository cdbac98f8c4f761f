//! End tags, comments, declarations and marked sections.

use super::scan::{
    at, comment_end, is_space, name_byte, name_first, section_comment_end, skip_space,
    skip_until_gt,
};
use super::{Events, Parser, Section, Step};

/// Most open marked sections; deeper ones are not opened.
const SECTIONS_MAX: usize = 64;

impl Parser {
    pub(super) fn end_tag(&mut self, text: &str, from: usize, events: &mut impl Events) -> Step {
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

    pub(super) fn declaration(
        &mut self,
        text: &str,
        from: usize,
        events: &mut impl Events,
    ) -> Step {
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
    pub(super) fn comment(&mut self, text: &str, from: usize, events: &mut impl Events) -> Step {
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

    /// A marked section: `<![ keywords [ ... ]]>`.
    pub(super) fn open_section(&mut self, text: &str, from: usize) -> Step {
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
