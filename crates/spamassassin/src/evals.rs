//! Eval functions: rules that are code (`eval:function(args)`).
//!
//! ```text
//! loading:  Settings -> EvalTables          call -> Eval (function found, arguments compiled)
//! scanning: EvalContext (views, facts, memo of this message) -> Eval::run -> the rule's value
//! ```
//!
//! One file for each kind of function, as SpamAssassin's plugins. A function sees the message
//! through the same views as the rules, never waits and reads no clock. What several functions need
//! is computed once a message and kept in the [`EvalContext`].

use gauntlet_mail::Evidence;

use gauntlet_rules::pattern::Pattern;
use gauntlet_rules::rule::{EvalCall, EvalKind};

use crate::views::Views;

mod args;
mod auth;
mod body;
mod bounce;
mod context;
mod date;
mod dns;
mod dns_questions;
mod domain;
mod evidence;
mod expansion;
mod forgery;
mod freemail;
mod functions;
mod header;
mod host_names;
mod html;
mod image;
mod links;
mod lists;
mod locale;
mod memo;
mod mime;
mod net;
mod plan;
mod relay;
mod senders;
mod tables;
mod template;
#[cfg(test)]
mod tests;
mod text;
mod uri;

use self::args::Args;
pub use self::context::EvalContext;
pub use self::dns_questions::questions;
use self::evidence::EvidenceSource;
use self::functions::Function;
pub use self::tables::EvalTables;
pub(crate) use self::template::unknown_tags;

/// Why a call cannot be compiled.
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
    /// The call as the rule writes it.
    call: Box<str>,
    evidence_source: EvidenceSource,
}

/// Functions that edit what `body` rules see, if they are called from `header` rules.
const BODY_EDITORS: [&str; 2] = ["check_freemail_replyto", "check_freemail_body"];

impl Eval {
    fn new(name: &str, function: Function, args: Args, edits_body: bool) -> Self {
        let words: Vec<String> = args.words.iter().map(|w| format!("'{w}'")).collect();
        let call = format!("{name}({})", words.join(", ")).into();
        Eval { function, args, edits_body, call, evidence_source: evidence::source_of(name) }
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

    /// Whether it may edit the body, so that it must run before `body` rules.
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
            let text = gauntlet_rules::language::undelimited(text)
                .map_err(|cause| bad(cause.to_string()))?;
            Pattern::new(&text).map_err(|cause| bad(cause.to_string()))
        });
        let args = Args::new(vec![rule.to_owned()], pattern.transpose()?, EvalKind::Rbl);
        let function = dns::template_answered;
        Ok(Eval::new("askdns_rbl", function, args, false))
    }

    /// The part of the message that it examined, as the evidence of a hit.
    pub(crate) fn evidence(&self, views: &Views<'_>) -> Evidence {
        evidence::evidence(self.evidence_source, self.args.word(0), &self.call, views)
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

/// Whether the function can hit: those for services that Gauntlet does not query never do.
pub fn is_answered(name: &str) -> bool {
    functions::is_answered(name)
}
