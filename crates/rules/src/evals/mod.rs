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

use std::cell::RefCell;

use gauntlet_mail::{Evidence, Facts};

use crate::pattern::Pattern;
use crate::rule::{EvalCall, EvalKind};
use crate::ruleset::Profile;
use crate::settings::Settings;
use crate::views::Views;

mod date;
pub(crate) mod text;

/// Settings and lists that functions look things up in, read once when rules are loaded.
#[derive(Debug, Default)]
pub struct EvalTables {}

impl EvalTables {
    /// Reads them from the files' settings.
    pub fn from_settings(_settings: &Settings) -> Self {
        EvalTables {}
    }
}

/// What an eval function may look at: one message.
#[derive(Debug)]
pub struct EvalContext<'a> {
    /// What rules see of the message.
    pub views: &'a Views<'a>,
    /// Lists and settings of the rule files.
    pub tables: &'a EvalTables,
    /// What the network said; read in [`Profile::Full`] only.
    pub facts: &'a Facts,
    /// Unix time in seconds.
    pub now: i64,
    /// Which rules run.
    pub profile: Profile,
    /// The classifier's probability of spam, 0 to 1; none if there is no classifier.
    pub spam_probability: Option<f64>,
    /// Where functions leave evidence for the rule that is being answered.
    pub evidence: RefCell<Vec<Evidence>>,
}

impl<'a> EvalContext<'a> {
    /// A context for one message.
    pub fn new(views: &'a Views<'a>, tables: &'a EvalTables, now: i64, profile: Profile) -> Self {
        EvalContext {
            views,
            tables,
            facts: views.facts(),
            now,
            profile,
            spam_probability: None,
            evidence: RefCell::default(),
        }
    }

    /// The same, with the classifier's probability of spam, 0 to 1.
    #[must_use]
    pub fn with_spam_probability(mut self, probability: Option<f64>) -> Self {
        self.spam_probability = probability;
        self
    }
}

/// The arguments of a call, and what kind of rule makes it.
#[derive(Debug)]
struct Args {
    words: Vec<String>,
    /// The argument that is a pattern, for functions that take one.
    pattern: Option<Pattern>,
    kind: EvalKind,
}

type Function = fn(&EvalContext<'_>, &Args) -> bool;

/// An eval function by name.
struct Entry {
    name: &'static str,
    function: Function,
    /// Which argument is a pattern.
    pattern: Option<usize>,
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
}

impl Eval {
    /// Finds the function and compiles its arguments.
    pub fn compile(call: &EvalCall, kind: EvalKind) -> Result<Self, EvalError> {
        let entry = FUNCTIONS.iter().find(|f| f.name == call.function);
        let entry = entry.ok_or_else(|| EvalError::Unknown(call.function.clone()))?;
        let pattern = entry.pattern.and_then(|i| call.args.get(i));
        let pattern = pattern.map(|p| Pattern::new(p)).transpose().map_err(|cause| {
            EvalError::Pattern { function: call.function.clone(), cause: cause.to_string() }
        })?;
        let args = Args { words: call.args.clone(), pattern, kind };
        Ok(Eval { function: entry.function, args })
    }

    /// The rule's value: 0 is no hit. Deterministic; never waits.
    pub fn run(&self, cx: &EvalContext<'_>) -> u32 {
        u32::from((self.function)(cx, &self.args))
    }
}

/// Whether a function of this name exists.
pub fn is_known(name: &str) -> bool {
    FUNCTIONS.iter().any(|f| f.name == name)
}

/// Every function.
const FUNCTIONS: &[Entry] = &[];
