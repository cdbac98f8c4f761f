//! Where a script ends (HTML Standard, section 13.2.5.4 and following).
//!
//! After `<!--` a `<script>` within the script needs an end tag of its own.

const START: &str = "<script";
const END: &str = "</script";
const COMMENT: &str = "<!--";

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Level {
    #[default]
    Script,
    /// After `<!--`.
    Comment,
    /// After `<!--` and `<script>`.
    Inner,
}

/// Reads a script, from its start tag on.
#[derive(Debug, Default)]
pub(crate) struct Script {
    level: Level,
    /// Characters seen of each.
    start: usize,
    end: usize,
    comment: usize,
    /// Dashes at the end; at most 2.
    dashes: u8,
    /// None of these was begun.
    is_busy: bool,
}

impl Script {
    /// Whether the name of its end tag was before this character.
    pub(crate) fn push(&mut self, c: char) -> bool {
        if !self.is_busy && c != '<' && c != '-' {
            return false;
        }
        let is_delimiter = c == '>' || c == '/' || c.is_ascii_whitespace();
        if is_delimiter && self.end == END.len() {
            if self.level != Level::Inner {
                return true;
            }
            self.level = Level::Comment;
        } else if is_delimiter && self.start == START.len() && self.level == Level::Comment {
            self.level = Level::Inner;
        }
        self.start = matched(START, self.start, c);
        self.end = matched(END, self.end, c);
        self.comment = matched(COMMENT, self.comment, c);
        let dashes = (self.dashes + 1).min(2);
        match (self.level, c) {
            (Level::Script, _) if self.comment == COMMENT.len() => {
                self.level = Level::Comment;
                self.dashes = 2;
            }
            (Level::Script, _) => self.dashes = 0,
            (_, '-') => self.dashes = dashes,
            (_, '>') if self.dashes == 2 => self.level = Level::Script,
            _ => self.dashes = 0,
        }
        if self.level == Level::Script {
            self.dashes = 0;
        }
        self.is_busy = self.start + self.end + self.comment > 0 || self.dashes > 0;
        false
    }
}

/// How much of `wanted`, which begins with `<`, was seen with this character, whatever its case.
pub(crate) fn matched(wanted: &str, seen: usize, c: char) -> usize {
    match wanted.as_bytes().get(seen) {
        Some(byte) if char::from(*byte) == c.to_ascii_lowercase() => seen + 1,
        _ => usize::from(c == '<'),
    }
}
