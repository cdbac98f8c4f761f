//! Cuts the text of a rule into its header and options.

/// Longest rule, in bytes.
pub(crate) const RULE_BYTES_MAX: usize = 8192;

/// The first half of a rule, uncut.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct HeaderText<'a> {
    pub(crate) action: &'a str,
    pub(crate) protocol: &'a str,
    pub(crate) source: &'a str,
    pub(crate) source_ports: &'a str,
    pub(crate) direction: &'a str,
    pub(crate) destination: &'a str,
    pub(crate) destination_ports: &'a str,
}

/// One option.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct OptionText<'a> {
    pub(crate) name: &'a str,
    /// What is after the colon.
    pub(crate) value: Option<&'a str>,
}

/// Cuts a rule; the options are one text still.
pub(crate) fn cut(rule: &str) -> Result<(HeaderText<'_>, &str), String> {
    let mut rest = rule;
    let header = HeaderText {
        action: token(&mut rest),
        protocol: list(&mut rest)?,
        source: list(&mut rest)?,
        source_ports: list(&mut rest)?,
        direction: token(&mut rest),
        destination: list(&mut rest)?,
        destination_ports: list(&mut rest)?,
    };
    let options = rest.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == '(');
    let options = options.trim_end_matches(|c: char| c.is_ascii_whitespace() || c == ')');
    Ok((header, options))
}

fn is_blank(c: char) -> bool {
    c == ' ' || c == '\t'
}

/// Up to the next space.
fn token<'a>(rest: &mut &'a str) -> &'a str {
    let text = rest.trim_start_matches(is_blank);
    let end = text.find([' ', '\t', '\n', '\r']).unwrap_or(text.len());
    let (token, after) = text.split_at(end);
    *rest = after.get(1..).unwrap_or_default();
    token
}

/// Up to the next space outside brackets.
fn list<'a>(rest: &mut &'a str) -> Result<&'a str, String> {
    let text = rest.trim_start_matches(is_blank);
    let mut depth = 0_i32;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'[' => depth += 1,
            b']' => depth -= 1,
            b' ' if depth == 0 => {
                *rest = text.get(at + 1..).unwrap_or_default();
                return Ok(text.get(..at).unwrap_or_default());
            }
            _ => {}
        }
    }
    Err("no rule options".to_owned())
}

/// The options in order; an error for the one that has no end comes last.
pub(crate) fn options(text: &str) -> impl Iterator<Item = Result<OptionText<'_>, String>> {
    let mut rest = Some(text).filter(|text| !text.is_empty());
    std::iter::from_fn(move || {
        let text = rest.take()?.trim_start_matches(is_blank);
        let Some(end) = end_of_option(text) else {
            return Some(Err("no terminating \";\" found".to_owned()));
        };
        rest = text.get(end + 1..).filter(|rest| !rest.is_empty());
        let option = text.get(..end).unwrap_or_default();
        let (name, value) = match option.split_once(':') {
            Some((name, value)) => (name, Some(value.trim_end_matches(is_blank))),
            None => (option, None),
        };
        Some(Ok(OptionText { name: name.trim_end_matches(is_blank), value }))
    })
}

/// The first semicolon that no backslash precedes.
fn end_of_option(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let is_end = |at: &usize| {
        let escaped = at.checked_sub(1).and_then(|before| bytes.get(before)) == Some(&b'\\');
        bytes.get(*at) == Some(&b';') && !escaped
    };
    (0..bytes.len()).find(is_end)
}

/// How a keyword's value is quoted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Quotes {
    /// Not at all.
    None,
    /// As one likes.
    Optional,
    /// It must be.
    Mandatory,
}

/// The value without its quotes, and whether a `!` stands before it.
pub(crate) fn unquote(
    value: &str,
    quotes: Quotes,
    may_negate: bool,
) -> Result<(&str, bool), String> {
    let mut text = value.trim_start_matches(is_blank);
    let negated = may_negate && text.starts_with('!');
    if negated {
        text = text.get(1..).unwrap_or_default().trim_start_matches(is_blank);
    }
    if text.is_empty() {
        return Err(format!("malformed value {value:?}"));
    }
    let is_quoted = text.starts_with('"');
    match quotes {
        Quotes::None if is_quoted => {
            return Err(format!("the value must not be quoted: {value:?}"));
        }
        Quotes::Mandatory if !is_quoted => {
            return Err(format!("the value must be double quoted: {value:?}"));
        }
        _ if !is_quoted || quotes == Quotes::None => return Ok((text, negated)),
        _ => {}
    }
    let text = text.trim_end_matches(is_blank);
    let inner = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
    match inner {
        Some("") => Err("the value is empty".to_owned()),
        Some(inner) => Ok((inner, negated)),
        None => Err(format!("the closing quote is missing, maybe a semicolon too: {value:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_cut() {
        let rule = "alert  tcp [1.1.1.1, 2.2.2.2] any -> $HOME [80, 81] (msg:\"a\\; b\"; sid:1 ; )";
        let (header, text) = cut(rule).expect("it is a rule");
        assert_eq!(header.source, "[1.1.1.1, 2.2.2.2]");
        assert_eq!(header.destination_ports, "[80, 81]");
        let all: Vec<_> = options(text).map(|option| option.expect("whole")).collect();
        assert_eq!(all[0], OptionText { name: "msg", value: Some("\"a\\; b\"") });
        assert_eq!(all[1], OptionText { name: "sid", value: Some("1") });
        assert_eq!(all.len(), 2);
        assert!(cut("alert tcp any any -> any 80").is_err());
        assert!(options("sid:1").any(|option| option.is_err()));
    }

    #[test]
    fn values_are_unquoted() {
        assert_eq!(unquote(" !\"a\" ", Quotes::Mandatory, true), Ok(("a", true)));
        assert_eq!(unquote("\"!a\"", Quotes::Optional, true), Ok(("!a", false)));
        assert_eq!(unquote("a", Quotes::Optional, true), Ok(("a", false)));
        for (value, quotes) in [
            ("a", Quotes::Mandatory),
            ("\"a\"", Quotes::None),
            ("\"a", Quotes::Mandatory),
            ("\"\"", Quotes::Mandatory),
            ("!", Quotes::Mandatory),
        ] {
            assert!(unquote(value, quotes, true).is_err(), "{value}");
        }
    }
}
