//! What SpamAssassin changes in HTML source before it is parsed.

use std::borrow::Cow;

use crate::views::perl::is_space_char;

const NBSP: &str = "&nbsp;";

/// `&nbsp;` becomes a space, `<br />` (any element without attributes) `<br>`, and typographic
/// double quotes plain ones.
pub(super) fn prepare(source: &str, wide: bool) -> Cow<'_, str> {
    let bytes = source.as_bytes();
    let mut out = String::new();
    let (mut done, mut at) = (0, 0);
    while let Some(i) = memchr::memchr3(b'&', b'<', 0xe2, &bytes[at..]).map(|i| at + i) {
        at = i + 1;
        let (length, replacement): (usize, Cow<'_, str>) = match bytes[i] {
            b'&' if source[i..].starts_with(NBSP) => (NBSP.len(), " ".into()),
            b'<' => match empty_tag(&source[i..], wide) {
                Some((name, length)) => (length, format!("<{name}>").into()),
                None => continue,
            },
            0xe2 if matches!(bytes.get(i + 1..i + 3), Some([0x80, 0x9c | 0x9d])) => {
                (3, "\"".into())
            }
            _ => continue,
        };
        out.push_str(&source[done..i]);
        out.push_str(&replacement);
        done = i + length;
        at = done;
    }
    if done == 0 {
        return Cow::Borrowed(source);
    }
    out.push_str(&source[done..]);
    Cow::Owned(out)
}

/// `<name />`: the name, and the tag's length. Spaces may be `&nbsp;`, which was replaced before.
fn empty_tag(text: &str, wide: bool) -> Option<(&str, usize)> {
    let rest = &text[1..];
    let word = |c: char| c == '_' || c.is_ascii_alphanumeric() || wide && c.is_alphanumeric();
    let name = &rest[..rest.find(|c| !word(c)).unwrap_or(rest.len())];
    if name.is_empty() {
        return None;
    }
    let mut tail = &rest[name.len()..];
    loop {
        let trimmed = tail.trim_start_matches(|c| is_space_char(c, wide));
        match trimmed.strip_prefix(NBSP) {
            Some(next) => tail = next,
            None => {
                tail = trimmed;
                break;
            }
        }
    }
    let after = tail.strip_prefix("/>")?;
    Some((name, text.len() - after.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replacements() {
        assert_eq!(prepare("a<br/>b<hr &nbsp;/>&nbsp;<br x/>", false), "a<br>b<hr> <br x/>");
        assert_eq!(prepare("<a href=“x”>", true), "<a href=\"x\">");
        assert!(matches!(prepare("<p>a &amp; b</p>", false), Cow::Borrowed(_)));
    }
}
