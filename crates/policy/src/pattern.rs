//! Patterns in policies: `*` stands for any run of characters, case is ignored.

use std::borrow::Cow;
use std::marker::PhantomData;

use serde::de::value::{
    I64Deserializer, MapAccessDeserializer, SeqAccessDeserializer, StrDeserializer,
};
use serde::de::{DeserializeOwned, Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// A shell-like pattern without brackets: `*@example.org`, `*.exe`, `bank`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(from = "String")]
pub struct Pattern {
    text: String,
}

impl From<String> for Pattern {
    fn from(text: String) -> Self {
        Pattern { text: text.to_lowercase() }
    }
}

impl Pattern {
    /// The pattern, in lower case.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether the whole of `value` fits. Linear in both lengths but for one backtrack a star.
    pub fn matches(&self, value: &str) -> bool {
        // Hosts of the web are in lower case already, and there are many.
        let is_lower = value.bytes().all(|b| b.is_ascii() && !b.is_ascii_uppercase());
        let value = if is_lower { Cow::Borrowed(value) } else { Cow::Owned(value.to_lowercase()) };
        let (pattern, value) = (self.text.as_bytes(), value.as_bytes());
        let (mut p, mut v) = (0, 0);
        let mut star: Option<(usize, usize)> = None;
        while v < value.len() {
            if pattern.get(p) == Some(&b'*') {
                star = Some((p, v));
                p += 1;
            } else if pattern.get(p) == Some(&value[v]) {
                (p, v) = (p + 1, v + 1);
            } else if let Some((at, taken)) = star {
                star = Some((at, taken + 1));
                (p, v) = (at + 1, taken + 1);
            } else {
                return false;
            }
        }
        pattern[p..].iter().all(|&b| b == b'*')
    }
}

/// One value or a list of them: `class = "spam"` and `class = ["spam", "phishing"]` both read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OneOrMany<T> {
    /// A single value: `class = "spam"`.
    One(T),
    /// A list: `class = ["spam", "phishing"]`.
    Many(Vec<T>),
}

/// Not as an untagged enum, which forgets what was wrong with the value.
impl<'de, T: DeserializeOwned> Deserialize<'de> for OneOrMany<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(OneOrManyVisitor(PhantomData))
    }
}

struct OneOrManyVisitor<T>(PhantomData<T>);

impl<'de, T: DeserializeOwned> Visitor<'de> for OneOrManyVisitor<T> {
    type Value = OneOrMany<T>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("one value or a list of them")
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Self::Value, E> {
        T::deserialize(StrDeserializer::new(value)).map(OneOrMany::One)
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Self::Value, E> {
        T::deserialize(I64Deserializer::new(value)).map(OneOrMany::One)
    }

    fn visit_map<A: MapAccess<'de>>(self, value: A) -> Result<Self::Value, A::Error> {
        T::deserialize(MapAccessDeserializer::new(value)).map(OneOrMany::One)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Self::Value, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(list)).map(OneOrMany::Many)
    }
}

impl<T> OneOrMany<T> {
    /// The values, as one slice in either case.
    pub fn as_slice(&self) -> &[T] {
        match self {
            OneOrMany::One(value) => std::slice::from_ref(value),
            OneOrMany::Many(values) => values,
        }
    }
}

impl OneOrMany<Pattern> {
    /// The first pattern that fits.
    pub fn matching(&self, value: &str) -> Option<&Pattern> {
        self.as_slice().iter().find(|p| p.matches(value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars() {
        let fits = |p: &str, v: &str| Pattern::from(p.to_owned()).matches(v);
        assert!(fits("*@Example.org", "Me@example.ORG"));
        assert!(!fits("*@example.org", "me@example.org.evil"));
        assert!(fits("*.tar.*", "a.tar.tar.gz"));
        assert!(fits("", "") && fits("*", "") && !fits("", "x"));
        assert!(!fits("a*b*c", "a-b-d"));
    }
}
