//! Rules that are code: `eval:function(args)`.
//!
//! ```text
//! loading:  Settings -> EvalTables          call -> Eval (function found, arguments compiled)
//! scanning: EvalContext (views, facts, memo of this message) -> Eval::run -> the rule's value
//! ```
//!
//! One file for each kind of function, after SpamAssassin's plugins. A function sees the message
//! through the same views as the rules, never waits and reads no clock. What several functions need
//! is computed once a message and kept in the [`EvalContext`].

use gauntlet_mail::Evidence;

use crate::views::Views;
use gauntlet_rules::pattern::Pattern;
use gauntlet_rules::rule::{EvalCall, EvalKind};

mod asking;
mod auth;
mod body;
mod bounce;
mod context;
mod date;
mod dns;
mod domain;
#[cfg(test)]
mod fixtures;
mod forgery;
mod freemail;
mod functions;
mod header;
mod html;
mod image;
mod lists;
mod locale;
mod mime;
mod net;
mod network;
mod relay;
mod seen;
mod tables;
mod template;
mod text;
mod uri;

pub use self::context::EvalContext;
use self::functions::Function;
use self::seen::Seen;
pub use self::tables::EvalTables;
pub(crate) use self::template::unknown_tags;

/// The arguments of a call, and what kind of rule makes it.
#[derive(Debug)]
struct Args {
    words: Vec<String>,
    /// The same read as numbers.
    numbers: Vec<f64>,
    /// The second read as a comparison.
    comparison: Option<html::Comparison>,
    /// The argument that is a pattern, for functions that take one.
    pattern: Option<Pattern>,
    kind: EvalKind,
}

impl Args {
    /// No arguments, for functions that call each other.
    const NONE: &'static Args = &Args {
        words: Vec::new(),
        numbers: Vec::new(),
        comparison: None,
        pattern: None,
        kind: EvalKind::Header,
    };

    fn new(words: Vec<String>, pattern: Option<Pattern>, kind: EvalKind) -> Self {
        let numbers = words.iter().map(|word| text::leading_number(word)).collect();
        let comparison = words.get(1).and_then(|word| html::Comparison::parse(word));
        Args { words, numbers, comparison, pattern, kind }
    }

    fn word(&self, i: usize) -> Option<&str> {
        self.words.get(i).map(String::as_str)
    }

    /// A number as Perl reads it: 0 if the argument is missing or none.
    fn number(&self, i: usize) -> f64 {
        self.numbers.get(i).copied().unwrap_or_default()
    }

    /// A bound: none if the argument is missing or `undef`.
    fn bound(&self, i: usize) -> Option<f64> {
        self.word(i).filter(|w| *w != "undef").map(|_| self.number(i))
    }
}

/// Why a call cannot be answered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EvalError {
    /// No function of this name.
    #[error("unknown eval function {0}")]
    Unknown(String),
    /// A pattern among the arguments does not compile.
    #[error("bad pattern in the arguments of {function}: {cause}")]
    Pattern {
        /// Name of the function.
        function: String,
        /// What is wrong with it.
        cause: String,
    },
}

/// An eval rule's test, ready to run.
#[derive(Debug)]
pub struct Eval {
    function: Function,
    args: Args,
    edits_body: bool,
    /// As the rule calls it.
    call: Box<str>,
    seen: Seen,
}

/// Functions that change what `body` rules see, if they are called from `header` rules.
const BODY_EDITORS: [&str; 2] = ["check_freemail_replyto", "check_freemail_body"];

impl Eval {
    fn new(name: &str, function: Function, args: Args, edits_body: bool) -> Self {
        let words: Vec<String> = args.words.iter().map(|w| format!("'{w}'")).collect();
        let call = format!("{name}({})", words.join(", ")).into();
        Eval { function, args, edits_body, call, seen: seen::seen(name) }
    }

    /// Finds the function and compiles its arguments.
    pub fn compile(call: &EvalCall, kind: EvalKind) -> Result<Self, EvalError> {
        let function = functions::find(&call.function);
        let function = function.ok_or_else(|| EvalError::Unknown(call.function.clone()))?;
        let given = functions::pattern_argument(&call.function).and_then(|i| call.args.get(i));
        let pattern = given.map(|text| {
            Pattern::new(text).map_err(|cause| EvalError::Pattern {
                function: call.function.clone(),
                cause: cause.to_string(),
            })
        });
        let args = Args::new(call.args.clone(), pattern.transpose()?, kind);
        let edits_body = kind == EvalKind::Header && BODY_EDITORS.contains(&call.function.as_str());
        Ok(Eval::new(&call.function, function, args, edits_body))
    }

    /// Whether it may change the body, so that it must run before `body` rules.
    pub(crate) fn edits_body(&self) -> bool {
        self.edits_body
    }

    /// The test of an `askdns` rule.
    ///
    /// # Errors
    /// If its filter is a pattern that does not compile.
    pub(crate) fn of_template(rule: &str, filter: Option<&str>) -> Result<Self, EvalError> {
        let delimited = filter.filter(|f| f.starts_with('/') || f.starts_with("m"));
        let bad = |cause| EvalError::Pattern { function: "askdns".to_owned(), cause };
        let pattern = delimited.map(|text| {
            let text = gauntlet_rules::language::undelimited(text).map_err(bad)?;
            Pattern::new(&text).map_err(|cause| bad(cause.to_string()))
        });
        let args = Args::new(vec![rule.to_owned()], pattern.transpose()?, EvalKind::Rbl);
        let function = dns::template_answered;
        Ok(Eval::new("askdns_rbl", function, args, false))
    }

    /// What it saw of the message, for a hit's evidence.
    pub(crate) fn evidence(&self, views: &Views<'_>) -> Evidence {
        seen::evidence(self.seen, self.args.word(0), &self.call, views)
    }

    /// The rule's value: 0 is no hit. Deterministic; never waits.
    pub fn run(&self, cx: &EvalContext<'_>) -> u32 {
        u32::from((self.function)(cx, &self.args))
    }
}

/// Whether a function of this name exists.
pub fn is_known(name: &str) -> bool {
    functions::find(name).is_some()
}

/// Whether the function can hit: those that ask services which nobody asks here never do.
pub fn is_answered(name: &str) -> bool {
    functions::is_answered(name)
}
