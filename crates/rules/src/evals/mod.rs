//! Rules that are code: `eval:function(args)`.

use std::cell::RefCell;

use gauntlet_mail::{Evidence, Facts};

use crate::settings::Settings;
use crate::views::Views;

/// What an eval function may look at.
#[derive(Debug)]
pub struct EvalContext<'a> {
    /// What rules see of the message.
    pub views: &'a Views<'a>,
    /// All settings of the files.
    pub settings: &'a Settings,
    /// What the network said.
    pub facts: &'a Facts,
    /// Unix time in seconds.
    pub now: i64,
    /// Where functions leave evidence for the rule that is being answered.
    pub evidence: RefCell<Vec<Evidence>>,
}

/// An eval function: the rule's value; 0 is no hit. Deterministic; never waits.
pub type EvalFn = fn(&EvalContext<'_>, &[String]) -> u32;

/// The function of this name, if it can be answered.
pub fn lookup(name: &str) -> Option<EvalFn> {
    let functions: &[(&str, EvalFn)] = &[];
    functions.iter().find(|f| f.0 == name).map(|f| f.1)
}
