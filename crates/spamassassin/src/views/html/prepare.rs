//! Replacements that SpamAssassin makes in HTML source before it is parsed.

use std::borrow::Cow;

use crate::views::perl::is_space_char;

const NBSP: &str = "&nbsp;";

/// `&nbsp;` becomes a space, `<br />` (any element without attributes) `<br>`, and typographic
/// double quotes plain ones.
pub(super) fn prepare(source: &str, wide: bool) -> Cow<'_, str> {
    let bytes = source.as_bytes();
    let mut out = String::new();
    let mut done = 0;
    let push = |out: &mut String, before: &str, text: &str| {
        if out.is_empty() {
            out.reserve(source.len());
        }
        out.push_str(before);
        out.push_str(text);
    };
    for i in memchr::memchr3_iter(b'&', b'<', 0xe2, bytes) {
        if i < done {
            continue;
        }
        let length = match bytes[i] {
            b'&' if bytes[i..].starts_with(NBSP.as_bytes()) => {
                push(&mut out, &source[done..i], " ");
                NBSP.len()
            }
            b'<' => {
                let Some((name, length)) = empty_tag(&source[i..], wide) else { continue };
                push(&mut out, &source[done..i], "<");
                push(&mut out, name, ">");
                length
            }
            0xe2 if matches!(bytes.get(i + 1..i + 3), Some([0x80, 0x9c | 0x9d])) => {
                push(&mut out, &source[done..i], "\"");
                3
            }
            _ => continue,
        };
        done = i + length;
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
    // Most tags are excluded by their ASCII bytes alone.
    let word = |b: &u8| b.is_ascii_alphanumeric() || *b == b'_';
    let letters = rest.bytes().take_while(|b| word(b)).count();
    match rest.as_bytes().get(letters..)? {
        [b' ', next, ..] if next.is_ascii_alphabetic() => return None,
        [b' ' | b'/' | b'&' | b'\t'..=b'\r', ..] if letters > 0 => {}
        [next, ..] if !next.is_ascii() => {}
        _ => return None,
    }
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
        assert_eq!(prepare("<é/><br\u{a0}/><br\t/></br/>", true), "<é><br><br></br/>");
        assert_eq!(prepare("<é/><br\u{a0}/>", false), "<é/><br\u{a0}/>");
        assert!(matches!(prepare("<p>a &amp; b</p>", false), Cow::Borrowed(_)));
    }
}
