//! One rule, as the files define it.

use std::sync::Arc;

use crate::record_type::RecordType;

/// File and line of a definition.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Source {
    /// The file's path as it was reached.
    pub file: Arc<str>,
    /// Line, from 1; 0 is the file or folder as a whole.
    pub line: u32,
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.line {
            0 => f.write_str(&self.file),
            line => write!(f, "{}:{line}", self.file),
        }
    }
}

/// The header value that a rule matches: `From:addr`, `ALL`, `X-Spam-Relays-External`, ...
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

impl std::fmt::Display for HeaderSelector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name)?;
        self.modifiers.iter().try_for_each(|m| write!(f, ":{m}"))
    }
}

/// An `eval:` call: function and arguments, quotes removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EvalCall {
    /// Name of the function.
    pub function: String,
    /// Arguments in order, without their quotation marks.
    pub args: Vec<String>,
}

/// One condition of a `uri_detail` rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UriCondition {
    /// What is matched: `raw`, `type`, `cleaned`, `text`, `domain` or `host`.
    pub key: String,
    /// Written with `!~`: holds where the pattern does not match.
    pub negated: bool,
    /// Pattern with its delimiters and flags, see [`Test`].
    pub pattern: String,
}

/// What a rule tests.
///
/// Patterns are Perl's without delimiters, modifiers in front as `(?i)`, tags replaced, and pure
/// ASCII (bytes above 127 are written `\xHH`).
#[derive(Debug, Clone, PartialEq)]
pub enum Test {
    /// `header NAME Selector =~ /re/` (or `!~`).
    Header {
        /// Which field, and which part of its value.
        selector: HeaderSelector,
        /// What the value is matched with.
        pattern: String,
        /// Written with `!~`: hits where the pattern does not match.
        negated: bool,
        /// Replaces a missing field: `[if-unset: x]`.
        if_unset: Option<String>,
    },
    /// `header NAME exists:Field`: the message has the field.
    Exists {
        /// Which field, and which part of its value.
        selector: HeaderSelector,
    },
    /// `body NAME /re/`: on the text as it is read.
    Body {
        /// What each paragraph of the text is matched with.
        pattern: String,
    },
    /// `rawbody NAME /re/`: on decoded parts, tags included.
    Rawbody {
        /// What each piece of the decoded parts is matched with.
        pattern: String,
    },
    /// `full NAME /re/`: on the whole message as it came.
    Full {
        /// What the message as it came is matched with.
        pattern: String,
    },
    /// `uri NAME /re/`: on each URI by itself.
    Uri {
        /// What each URI is matched with.
        pattern: String,
    },
    /// `mimeheader NAME Selector =~ /re/` (or `!~`).
    MimeHeader {
        /// Which value; the only modifier is `raw`.
        selector: HeaderSelector,
        /// What the value is matched with.
        pattern: String,
        /// Written with `!~`: no part matches.
        negated: bool,
        /// Replaces a missing field; empty if not given.
        if_unset: String,
    },
    /// `uri_detail NAME key =~ /re/ ...`: one URI that meets all conditions.
    UriDetail {
        /// At most one for each key.
        conditions: Vec<UriCondition>,
    },
    /// `meta NAME expression`: made of other rules.
    Meta {
        /// As written in the file, without the name.
        expression: String,
    },
    /// `header NAME eval:function(args)`, also `body`, `rawbody` and `full`.
    Eval {
        /// By which command it was defined.
        kind: EvalKind,
        /// The function, and what it is called with.
        call: EvalCall,
    },
    /// `askdns NAME _TAG_.zone [types] [filter]`: answered by the DNS.
    AskDns {
        /// The name that is looked up, with tags.
        query: String,
        /// Types of records that are requested.
        kinds: Vec<RecordType>,
        /// What an answer must be: `/pattern/`, or as a subtest of `check_rbl`.
        filter: Option<String>,
    },
    /// A name without a test that is run here: `reuse`.
    Empty,
}

impl Test {
    /// The pattern of a test that has one.
    pub fn pattern(&self) -> Option<&str> {
        match self {
            Test::Header { pattern, .. }
            | Test::Body { pattern }
            | Test::Rawbody { pattern }
            | Test::Full { pattern }
            | Test::Uri { pattern }
            | Test::MimeHeader { pattern, .. } => Some(pattern),
            _ => None,
        }
    }

    /// The pattern that `replace_rules` may change: not that of `mimeheader`.
    pub(crate) fn pattern_mut(&mut self) -> Option<&mut String> {
        match self {
            Test::Header { pattern, .. }
            | Test::Body { pattern }
            | Test::Rawbody { pattern }
            | Test::Full { pattern }
            | Test::Uri { pattern } => Some(pattern),
            _ => None,
        }
    }

    /// The kind as it is counted in reports.
    pub fn kind(&self) -> &'static str {
        match self {
            Test::Header { .. } | Test::Exists { .. } => "header",
            Test::Body { .. } => "body",
            Test::Rawbody { .. } => "rawbody",
            Test::Full { .. } => "full",
            Test::Uri { .. } => "uri",
            Test::MimeHeader { .. } => "mimeheader",
            Test::UriDetail { .. } | Test::Eval { .. } => "eval",
            Test::Meta { .. } => "meta",
            Test::AskDns { .. } | Test::Empty => "empty",
        }
    }
}

/// The kind of an eval rule: decides when it runs and which evidence it may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EvalKind {
    /// `header ... eval:`, which may place evidence in the header.
    Header,
    /// `body ... eval:`, which runs with the `body` rules.
    Body,
    /// `rawbody ... eval:`, which runs with the `rawbody` rules.
    Rawbody,
    /// `full ... eval:`, which runs with the `full` rules.
    Full,
    /// `header ... eval:check_rbl...`: answered by DNS lists.
    Rbl,
}

/// A rule with all its definitions in the files.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    /// Unique in a ruleset: capitals, digits and `_` by custom.
    pub name: Arc<str>,
    /// What must be true of a message for a hit.
    pub test: Test,
    /// Points in the four score sets: 0 local, 1 network, 2 Bayes, 3 both.
    pub scores: [f64; 4],
    /// Flags as written, separated by spaces.
    pub tflags: String,
    /// Rules with a lower number run earlier; 0 by default.
    pub priority: i32,
    /// False for an eval rule whose function no loaded plugin has, or which is of another kind.
    pub is_callable: bool,
    /// The description, one sentence for users.
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
