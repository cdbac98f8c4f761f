//! Header fields of messages (RFC 5322) and parameters of their values (RFC 2045, RFC 2231).

/// Longest name of a file that is taken from a parameter.
pub(super) const PARAMETER_BYTES_MAX: usize = 255;

/// The most sections that one parameter may be cut into.
const SECTIONS_MAX: usize = 256;

/// A field as it came, with continuation lines joined.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Field {
    /// What is before the colon.
    pub name: Vec<u8>,
    /// What is behind it, without white space at the beginning.
    pub value: Vec<u8>,
}

impl Field {
    /// Reads a line; `None` without a colon.
    pub(super) fn read(line: &[u8]) -> Option<Self> {
        let colon = line.iter().position(|&byte| byte == b':')?;
        let (name, rest) = line.split_at(colon);
        let rest = rest.get(1..)?;
        let begin = rest.iter().position(|&byte| !is_space(byte)).unwrap_or(rest.len());
        Some(Self { name: name.to_vec(), value: rest.get(begin..)?.to_vec() })
    }

    /// Whether it has this name, letters' case aside.
    pub(super) fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name.as_bytes())
    }

    /// What the value says before its parameters.
    pub(super) fn kind(&self) -> &[u8] {
        self.value.split(|&byte| byte == b';').next().unwrap_or_default()
    }

    /// A parameter, put together of its sections (`name*0`, `name*1` ...) if it has some.
    pub(super) fn parameter(&self, name: &str) -> Option<Vec<u8>> {
        let parameters = parameters(&self.value)?;
        let find = |wanted: &str| {
            // The last one counts where there are several.
            let mut found = parameters.iter().rev();
            found.find(|(name, _)| *name == wanted.as_bytes()).map(|(_, value)| *value)
        };
        if let Some(whole) = find(name) {
            return Some(whole.to_vec());
        }
        let mut value = find(&format!("{name}*0"))?.to_vec();
        for section in 1..SECTIONS_MAX {
            let Some(next) = find(&format!("{name}*{section}")) else { break };
            value.extend_from_slice(next);
        }
        Some(value)
    }
}

/// The parameters behind the first semicolon; `None` without one.
fn parameters(value: &[u8]) -> Option<Vec<(&[u8], &[u8])>> {
    let semicolon = value.iter().position(|&byte| byte == b';')?;
    let mut rest = value.get(semicolon + 1..)?;
    let mut found = Vec::new();
    while !rest.is_empty() {
        let Some((name, value, after)) = parameter(rest) else { break };
        found.push((name, value));
        rest = after;
    }
    Some(found)
}

/// A parameter: its name, its value, and what follows.
fn parameter(input: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let input = skip_space(input);
    let equals = input.iter().position(|&byte| byte == b'=')?;
    let (name, rest) = input.split_at(equals);
    let rest = rest.get(1..)?;
    let (value, after) = quoted(rest).unwrap_or_else(|| until_semicolon(rest));
    let after = skip_space(after);
    Some((name, value, after.strip_prefix(b";").unwrap_or(after)))
}

/// A value in double quotes; quotes behind a backslash are part of it (as they come).
fn quoted(input: &[u8]) -> Option<(&[u8], &[u8])> {
    let input = input.strip_prefix(b"\"")?;
    let mut escaped = false;
    for (place, &byte) in input.iter().enumerate() {
        if byte == b'\\' {
            escaped = true;
        } else if byte == b'"' && !escaped {
            return Some((input.get(..place)?, input.get(place + 1..)?));
        } else {
            escaped = false;
        }
    }
    let quote = input.iter().position(|&byte| byte == b'"')?;
    Some((input.get(..quote)?, input.get(quote + 1..)?))
}

fn until_semicolon(input: &[u8]) -> (&[u8], &[u8]) {
    let end = input.iter().position(|&byte| byte == b';').unwrap_or(input.len());
    let (value, rest) = input.split_at(end);
    let length = value.iter().rposition(|&byte| !is_space(byte)).map_or(value.len(), |at| at + 1);
    (value.get(..length).unwrap_or(value), rest)
}

fn skip_space(input: &[u8]) -> &[u8] {
    let begin = input.iter().position(|&byte| !is_space(byte)).unwrap_or(input.len());
    input.get(begin..).unwrap_or_default()
}

/// White space of RFC 2047; form feeds are none.
fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}
