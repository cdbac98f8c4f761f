//! From `/pattern/i` or `m{pattern}x` to `(?i)pattern`.

/// Why a text is no pattern with delimiters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DelimiterError {
    /// It does not begin with a delimiter.
    #[error("no delimiters: a pattern is written /.../ or m{{...}}")]
    Missing,
    /// `m` or `qr`, and nothing behind it.
    #[error("no delimiters after m")]
    MissingAfterM,
    /// It would escape itself.
    #[error("a backslash cannot be the delimiter")]
    Backslash,
    /// It does not end with the delimiter and modifiers.
    #[error("the closing delimiter {0:?} is missing, or a modifier is invalid")]
    Unclosed(char),
    /// The delimiter stands inside the pattern.
    #[error("delimiter {0:?} is not escaped in the pattern")]
    Unescaped(char),
    /// A modifier that Perl does not have, or that means nothing here.
    #[error("modifier {0:?} is not supported")]
    Modifier(char),
    /// Perl code, `(?{})` or `(??{})`.
    #[error("code in a pattern (?{{}}) is not run")]
    Code,
}

/// Removes the delimiters and puts the modifiers in front, as `(?i)`.
///
/// High bytes (characters above U+007F of a byte string) become `\xHH`, so that the pattern is
/// ASCII and one character is one byte.
///
/// # Errors
/// If there are no delimiters, or what is between or behind them is not accepted.
pub fn strip(text: &str) -> Result<String, DelimiterError> {
    let (rest, end) = opening(text)?;
    let (body, modifiers) = closing(rest, end)?;
    if body.contains("(?{") || body.contains("(??{") {
        return Err(DelimiterError::Code);
    }
    let symmetric = matches!(end, '}' | ')' | ']' | '>');
    // `>` is checked, as SpamAssassin does: only the other three are left out there.
    if (!symmetric || end == '>') && has_bare(body, end) {
        return Err(DelimiterError::Unescaped(end));
    }
    check_modifiers(modifiers)?;
    let mut out = String::with_capacity(body.len() + 8);
    if !modifiers.is_empty() {
        out.push_str("(?");
        out.push_str(modifiers);
        out.push(')');
    }
    escape_high(body, &mut out);
    Ok(out)
}

fn opening(text: &str) -> Result<(&str, char), DelimiterError> {
    if let Some(rest) = text.strip_prefix('/') {
        return Ok((rest, '/'));
    }
    let rest = text.strip_prefix("qr").or_else(|| text.strip_prefix('m'));
    let rest = rest.ok_or(DelimiterError::Missing)?;
    let open = rest.chars().next().ok_or(DelimiterError::MissingAfterM)?;
    if open == '\\' {
        return Err(DelimiterError::Backslash);
    }
    if open == '_' || open.is_ascii_alphanumeric() {
        return Err(DelimiterError::Missing);
    }
    let end = match open {
        '{' => '}',
        '(' => ')',
        '<' => '>',
        '[' => ']',
        other => other,
    };
    Ok((&rest[open.len_utf8()..], end))
}

fn closing(rest: &str, end: char) -> Result<(&str, &str), DelimiterError> {
    let tail = rest.trim_end_matches(|c: char| c.is_ascii_lowercase() && c != 'e');
    // Modifiers are letters, which the delimiter is not.
    match tail.strip_suffix(end) {
        Some(body) => Ok((body, &rest[tail.len()..])),
        None => Err(DelimiterError::Unclosed(end)),
    }
}

fn check_modifiers(modifiers: &str) -> Result<(), DelimiterError> {
    match modifiers.chars().find(|c| !"imsxnpaul".contains(*c)) {
        Some(unexpected) => Err(DelimiterError::Modifier(unexpected)),
        None => Ok(()),
    }
}

/// Whether the delimiter occurs without a backslash before it.
fn has_bare(body: &str, end: char) -> bool {
    let stripped = body.replace("\\\\", "");
    let mut before = ' ';
    for c in stripped.chars() {
        if c == end && before != '\\' {
            return true;
        }
        before = c;
    }
    false
}

/// Appends `body` with every byte above 127 as `\xHH`.
pub(crate) fn escape_high(body: &str, out: &mut String) {
    use std::fmt::Write as _;
    for c in body.chars() {
        if c.is_ascii() {
            out.push(c);
        } else {
            if ends_in_escape(out) {
                out.pop();
            }
            let _ = write!(out, "\\x{:02x}", u32::from(c).min(255));
        }
    }
}

fn ends_in_escape(out: &str) -> bool {
    out.bytes().rev().take_while(|b| *b == b'\\').count() % 2 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delimiters_and_modifiers() {
        assert_eq!(strip("/a b/i").unwrap(), "(?i)a b");
        assert_eq!(strip("m{^x{2}$}").unwrap(), "^x{2}$");
        assert_eq!(strip("m'a'sm").unwrap(), "(?sm)a");
        assert_eq!(strip("/a\\/b/").unwrap(), "a\\/b");
        assert_eq!(strip("/\u{e9}\\\u{c3}/").unwrap(), "\\xe9\\xc3");
        assert!(strip("/a/b/").is_err());
        assert!(strip("/a").is_err());
        assert!(strip("abc").is_err());
        assert!(strip("/a/g").is_err());
        assert!(strip("/(?{x})/").is_err());
    }
}
