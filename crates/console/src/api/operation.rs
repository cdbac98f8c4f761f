//! What can be asked of the API: one line an operation, from which routing, checks of the fields
//! and the OpenAPI document are made. So the three cannot differ.

use gauntlet_store::users::Scope;

use crate::error::RequestError;
use crate::request::RequestContext;
use crate::route::Route;

/// Longest short text of a field, in bytes.
const TEXT_BYTES_MAX: usize = 1_000;
/// Longest text of many lines, in bytes.
const LINES_BYTES_MAX: usize = gauntlet_store::policies::POLICY_BYTES_MAX;
/// Values of a field that may repeat.
const REPEATED_MAX: usize = 1_000;

/// An operation of the API.
#[derive(Debug)]
pub struct Operation {
    /// Where it is and what answers.
    pub route: Route,
    /// What a token needs for it; none needs nothing, not even a token.
    pub scope: Option<Scope>,
    /// What it does, in one sentence.
    pub summary: &'static str,
    /// Fields of the query (GET, DELETE) or the body (POST, PUT).
    pub fields: &'static [Field],
    /// What a good answer always has: names and JSON types.
    pub answer: &'static [(&'static str, &'static str)],
    /// What an answer of 202 has: another node of the array has the message, and an order. None if
    /// there is no such answer.
    pub ordered: &'static [(&'static str, &'static str)],
}

/// A field of a request.
#[derive(Debug)]
pub struct Field {
    /// Name in the query or the JSON object.
    pub name: &'static str,
    /// Values that it takes.
    pub kind: Kind,
    /// It must be there.
    pub required: bool,
    /// What it means, in one sentence.
    pub about: &'static str,
}

/// What fits into a field.
#[derive(Debug, Clone, Copy)]
pub enum Kind {
    /// A text of one line.
    Text,
    /// Several short texts: the field repeats, or is a JSON array.
    Texts,
    /// A text of many lines.
    Lines,
    /// A whole number in this range.
    Integer(i64, i64),
    /// A number, whole or not.
    Number,
    /// A day of UTC, `2026-11-21`.
    Day,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// Any of these: the field repeats, or is a JSON array.
    Choices(&'static [&'static str]),
}

impl Kind {
    /// The field may repeat.
    pub fn repeats(self) -> bool {
        matches!(self, Kind::Texts | Kind::Choices(_))
    }

    /// What is wrong with a value.
    fn problem(self, value: &str) -> Option<String> {
        let too_long = |max| (value.len() > max).then(|| format!("longer than {max} bytes"));
        match self {
            Kind::Text | Kind::Texts => too_long(TEXT_BYTES_MAX).or_else(|| {
                value.chars().any(char::is_control).then(|| "has control characters".to_owned())
            }),
            Kind::Lines => too_long(LINES_BYTES_MAX),
            Kind::Integer(min, max) => match value.parse::<i64>() {
                Ok(n) if (min..=max).contains(&n) => None,
                _ => Some(format!("{value:?} is no whole number from {min} to {max}")),
            },
            Kind::Number => match value.parse::<f64>() {
                Ok(n) if n.is_finite() => None,
                _ => Some(format!("{value:?} is no number")),
            },
            Kind::Day => match gauntlet_mail::date::day_number(value) {
                Some(_) => None,
                None => Some(format!("{value:?} is no day; write 2026-11-21")),
            },
            Kind::Choice(names) | Kind::Choices(names) => (!names.contains(&value))
                .then(|| format!("{value:?} is none of {}", names.join(", "))),
        }
    }
}

impl Operation {
    /// Refuses a request whose fields do not fit.
    pub(crate) fn check(&self, request: &RequestContext) -> Result<(), RequestError> {
        let bad = |name: &str, why: &str| Err(RequestError::Bad(format!("{name}: {why}")));
        for (name, value) in &request.fields {
            // The form's token of a browser is checked elsewhere.
            if name == "csrf" {
                continue;
            }
            let Some(field) = self.fields.iter().find(|f| f.name == name) else {
                let names: Vec<&str> = self.fields.iter().map(|f| f.name).collect();
                let shown: String = name.chars().take(40).collect();
                return bad(&shown, &format!("no such field; there are: {}", names.join(", ")));
            };
            let value = value.trim();
            if !value.is_empty()
                && let Some(problem) = field.kind.problem(value)
            {
                return bad(name, &problem);
            }
        }
        for field in self.fields {
            let given = request.values(field.name).count();
            if field.required && given == 0 {
                return bad(field.name, "missing");
            }
            if given > 1 && !field.kind.repeats() {
                return bad(field.name, "given more than once");
            }
            if given > REPEATED_MAX {
                return bad(field.name, &format!("given more than {REPEATED_MAX} times"));
            }
        }
        Ok(())
    }
}

/// A field that may be left out.
pub(super) const fn optional(name: &'static str, kind: Kind, about: &'static str) -> Field {
    Field { name, kind, required: false, about }
}

/// A field that must be there.
pub(super) const fn required(name: &'static str, kind: Kind, about: &'static str) -> Field {
    Field { name, kind, required: true, about }
}
