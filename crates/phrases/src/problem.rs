//! What is wrong with lists, with the place where.

use std::fmt;

use crate::limits::{self, PROBLEMS_KEPT_MAX};

/// What is wrong with a line or a file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProblemKind {
    /// A `<` without its `>`.
    #[error("a '<' is not closed, or stands inside a phrase")]
    Bracket,
    /// Two phrases without a comma between them.
    #[error("phrases follow each other without a comma")]
    NoComma,
    /// Nothing that could be found in a text.
    #[error("an empty phrase")]
    Empty,
    /// A phrase beyond [`limits::PHRASE_BYTES_MAX`].
    #[error("a phrase longer than {} bytes", limits::PHRASE_BYTES_MAX)]
    LongPhrase,
    /// A combination beyond [`limits::PARTS_MAX`].
    #[error("more than {} phrases in one combination", limits::PARTS_MAX)]
    ManyParts,
    /// A weight that is no whole number, or beyond [`limits::WEIGHT_MAX`].
    #[error("the weight is no whole number from -{0} to {0}", limits::WEIGHT_MAX)]
    Weight,
    /// A word of a simple list without a weight.
    #[error("no weight after the word")]
    NoWeight,
    /// Neither a phrase nor a comment nor `.Include`.
    #[error("not a phrase, a comment or .Include<file>")]
    NotAPhrase,
    /// `#time:` is not known here.
    #[error("times are not supported: the phrases below count at all times")]
    Time,
    /// `.Include` without a file name in brackets.
    #[error(".Include names no file in brackets")]
    Include,
    /// A file that cannot be read.
    #[error("cannot be read: {0}")]
    Unreadable(String),
    /// A file that includes itself, or beyond [`limits::INCLUDE_DEPTH_MAX`].
    #[error("included more than {} deep, or by itself", limits::INCLUDE_DEPTH_MAX)]
    IncludeDepth,
    /// A line beyond [`limits::LINE_BYTES_MAX`].
    #[error("a line longer than {} bytes", limits::LINE_BYTES_MAX)]
    LongLine,
    /// Bytes that the file's charset does not have.
    #[error("bytes that are not of the charset {0}")]
    Charset(&'static str),
    /// A limit of [`limits`] was reached: the rest of the lists is not read.
    #[error("the limit {0} is reached: what follows is not read")]
    Limit(&'static str),
    /// The weight stands apart from the phrase: e2guardian would ban the phrase.
    #[error("a blank before the weight: read as the weight, where e2guardian bans the phrase")]
    WeightApart,
    /// A weight of zero: e2guardian would ban the phrase.
    #[error("the weight 0 changes nothing here, where e2guardian bans the phrase")]
    WeightZero,
    /// Text after the weight that is no comment.
    #[error("text after the weight is ignored")]
    Trailing,
    /// The same phrase was read before.
    #[error("the same as {0}, which counts")]
    Duplicate(String),
}

impl ProblemKind {
    /// The line counts all the same.
    pub fn is_note(&self) -> bool {
        use ProblemKind as P;
        matches!(self, P::WeightApart | P::WeightZero | P::Trailing | P::Duplicate(_))
    }
}

/// A problem and its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The file, as it was named.
    pub file: String,
    /// The line, from 1; 0 for the file as a whole.
    pub line: u32,
    /// What is wrong.
    pub kind: ProblemKind,
    /// The beginning of the line.
    pub text: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file)?;
        if self.line > 0 {
            write!(f, ":{}", self.line)?;
        }
        write!(f, ": {}", self.kind)?;
        match self.text.is_empty() {
            true => Ok(()),
            false => write!(f, ": {}", self.text),
        }
    }
}

/// All problems of a reading.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Problems {
    /// The first ones, up to [`limits::PROBLEMS_KEPT_MAX`], in the order of reading; what is not
    /// read goes before notes.
    pub kept: Vec<Problem>,
    /// Lines and files that are not read.
    pub not_read: u64,
    /// Lines that count, but not as they stand.
    pub notes: u64,
}

/// Characters of a line that a problem shows.
const TEXT_CHARS_MAX: usize = 80;

impl Problems {
    pub(crate) fn add(&mut self, file: &str, line: u32, kind: ProblemKind, text: &str) {
        let is_note = kind.is_note();
        match is_note {
            true => self.notes += 1,
            false => self.not_read += 1,
        }
        if self.kept.len() >= PROBLEMS_KEPT_MAX {
            let last_note = self.kept.iter().rposition(|p| p.kind.is_note());
            match last_note.filter(|_| !is_note) {
                Some(at) => drop(self.kept.remove(at)),
                None => return,
            }
        }
        let shown = |c: char| if c.is_control() { '\u{fffd}' } else { c };
        let text = text.chars().take(TEXT_CHARS_MAX).map(shown).collect();
        self.kept.push(Problem { file: file.to_owned(), line, kind, text });
    }
}
