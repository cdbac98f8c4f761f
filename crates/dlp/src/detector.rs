//! What a detector is.

use crate::layout::Layout;

/// What a detector's values are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// Cards and bank accounts.
    Payment,
    /// Numbers that states give to persons.
    Identity,
    /// Keys and tokens that let a program in.
    Secret,
}

impl Family {
    /// The name in policies.
    pub fn name(self) -> &'static str {
        match self {
            Family::Payment => "payment",
            Family::Identity => "identity",
            Family::Secret => "secret",
        }
    }
}

/// One kind of value that is looked for.
#[derive(Debug)]
pub struct Detector {
    /// The name in settings, policies and findings, e.g. `payment_card`.
    pub name: &'static str,
    /// What its values are.
    pub family: Family,
    /// What it finds, in a few words.
    pub title: &'static str,
    /// Where the form and the check digits are defined.
    pub source: &'static str,
    /// How the value is written; empty for secrets, which begin with a prefix of their own.
    pub(crate) layouts: &'static [Layout],
    /// Words of which one must stand near a layout that asks for it: in lower case, or in capitals
    /// where only the abbreviation counts.
    pub(crate) context: &'static [&'static str],
    /// Whether letters and digits in upper case, without separators, are such a value.
    pub(crate) check: fn(&[u8]) -> bool,
    /// Letters and digits at the beginning and at the end that evidence shows.
    pub(crate) shown: (usize, usize),
}

impl Detector {
    /// Whether every way of writing the value asks for a word of context near it.
    pub fn always_needs_context(&self) -> bool {
        !self.layouts.is_empty() && self.layouts.iter().all(|layout| layout.needs_context)
    }

    /// Whether some way of writing it does.
    pub fn may_need_context(&self) -> bool {
        self.layouts.iter().any(|layout| layout.needs_context)
    }
}
