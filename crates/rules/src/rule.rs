//! One rule, as the files define it.

use std::sync::Arc;

/// File and line of a definition.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Source {
    /// The file's path as it was reached.
    pub file: Arc<str>,
    /// Line, from 1.
    pub line: u32,
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// Which header value a rule asks for: `From:addr`, `ALL`, `X-Spam-Relays-External`, ...
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HeaderSelector {
    /// The field's name as the rule writes it; names do not depend on case.
    pub name: String,
    /// Modifiers after the name, in order: `raw`, `addr`, `name`, `host`, `domain`, `ip`, `revip`,
    /// `first`, `last`.
    pub modifiers: Vec<String>,
}

impl HeaderSelector {
    /// Reads `Name:mod:mod`; a trailing colon is dropped. Modifiers are lower-cased.
    pub fn parse(text: &str) -> Self {
        let text = text.strip_suffix(':').unwrap_or(text);
        let mut parts = text.split(':');
        let name = parts.next().unwrap_or_default().to_owned();
        HeaderSelector { name, modifiers: parts.map(str::to_ascii_lowercase).collect() }
    }

    /// Whether a modifier was given.
    pub fn has(&self, modifier: &str) -> bool {
        self.modifiers.iter().any(|m| m == modifier)
    }
}

/// An `eval:` call: function and arguments, quotes removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EvalCall {
    /// Name of the function.
    pub function: String,
    /// Arguments in order.
    pub args: Vec<String>,
}

/// What a rule tests.
#[derive(Debug, Clone, PartialEq)]
pub enum Test {
    /// `header NAME Selector =~ /re/` (or `!~`, with an optional `[if-unset: x]`).
    Header { selector: HeaderSelector, pattern: String, negated: bool, if_unset: Option<String> },
    /// `header NAME exists:Field`.
    Exists { selector: HeaderSelector },
    /// `body NAME /re/`.
    Body { pattern: String },
    /// `rawbody NAME /re/`.
    Rawbody { pattern: String },
    /// `full NAME /re/`.
    Full { pattern: String },
    /// `uri NAME /re/`.
    Uri { pattern: String },
    /// `mimeheader NAME Selector =~ /re/`.
    MimeHeader { selector: HeaderSelector, pattern: String, negated: bool, if_unset: String },
    /// `uri_detail`, kept as its conditions; answered by an eval.
    UriDetail { conditions: String },
    /// `meta NAME expression`.
    Meta { expression: String },
    /// `header|body|rawbody|full NAME eval:function(args)`.
    Eval { kind: EvalKind, call: EvalCall },
    /// A name that has a definition without a test (`header NAME` of other plugins, askdns, ...).
    Empty,
}

/// Which kind of eval rule; says when it runs and what evidence it may point at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EvalKind {
    /// `header ... eval:`.
    Header,
    /// `body ... eval:`.
    Body,
    /// `rawbody ... eval:`.
    Rawbody,
    /// `full ... eval:`.
    Full,
    /// `header ... eval:check_rbl...`: answered by DNS lists.
    Rbl,
}

/// A rule with all that the files say about it.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    /// Its name.
    pub name: Arc<str>,
    /// What it tests.
    pub test: Test,
    /// Points in the four score sets: 0 local, 1 network, 2 Bayes, 3 both.
    pub scores: [f64; 4],
    /// Flags as written, separated by spaces.
    pub tflags: String,
    /// Lower runs first.
    pub priority: i32,
    /// One sentence for a person.
    pub description: Arc<str>,
    /// Where the test is defined.
    pub at: Source,
}

impl Rule {
    /// Whether this is a sub-rule (`__NAME`): it never scores and is not reported.
    pub fn is_sub(&self) -> bool {
        self.name.starts_with("__")
    }

    /// Whether a flag is set.
    pub fn has_flag(&self, flag: &str) -> bool {
        self.tflags.split_ascii_whitespace().any(|f| f == flag)
    }

    /// The value of a flag `name=value`.
    pub fn flag_value(&self, name: &str) -> Option<&str> {
        self.tflags
            .split_ascii_whitespace()
            .find_map(|f| f.strip_prefix(name).and_then(|r| r.strip_prefix('=')))
    }
}
