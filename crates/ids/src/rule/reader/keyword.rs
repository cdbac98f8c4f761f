//! How the values of keywords are written, and who reads them.

use super::draft::{Draft, Outcome};
use super::text::Quotes;

/// Whether a keyword has a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Value {
    Required,
    Optional,
    None,
}

/// One keyword.
#[derive(Debug, Clone, Copy)]
pub(super) struct Keyword {
    pub(super) name: &'static str,
    pub(super) value: Value,
    pub(super) quotes: Quotes,
    pub(super) may_negate: bool,
    /// `to_client` or `to_server` may stand before its value.
    pub(super) may_direct: bool,
    pub(super) read: fn(&mut Draft<'_>, &str) -> Outcome,
}

/// A keyword with a value that is not quoted.
pub(super) const fn keyword(
    name: &'static str,
    read: fn(&mut Draft<'_>, &str) -> Outcome,
) -> Keyword {
    Keyword {
        name,
        value: Value::Required,
        quotes: Quotes::None,
        may_negate: false,
        may_direct: false,
        read,
    }
}

impl Keyword {
    pub(super) const fn quotes(self, quotes: Quotes) -> Self {
        Self { quotes, ..self }
    }

    pub(super) const fn negatable(self) -> Self {
        Self { may_negate: true, ..self }
    }

    pub(super) const fn directed(self) -> Self {
        Self { may_direct: true, ..self }
    }

    pub(super) const fn without_value(self) -> Self {
        Self { value: Value::None, ..self }
    }

    pub(super) const fn optional_value(self) -> Self {
        Self { value: Value::Optional, ..self }
    }
}

/// A number of a rule's head (`sid`, `gid`, `rev`): digits and nothing else; the largest is no
/// number here.
pub(super) fn whole(keyword: &str, value: &str) -> Outcome<u32> {
    let text = value.trim();
    let number = digits(text).filter(|number| *number < u64::from(u32::MAX));
    let number = number.and_then(|number| u32::try_from(number).ok());
    number.ok_or_else(|| format!("{value:?} is no value of {keyword}").into())
}

/// A number of digits alone.
pub(super) fn digits(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}

/// The number at the beginning of a value, as `strtoul` reads it.
pub(super) fn number(keyword: &str, value: &str) -> Outcome<u32> {
    let text = value.trim_start();
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number = text.get(..end).and_then(|digits| digits.parse().ok());
    number.ok_or_else(|| format!("{value:?} is no value of {keyword}").into())
}
