//! Tokens of VBA (MS-VBAL section 3.3), as many as folding constants needs.

/// Tokens of one module that are read.
const TOKENS_MAX: usize = 400_000;

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token<'t> {
    /// The content of a string.
    Text(String),
    Number(f64),
    /// A name or keyword; `Xor` is the sign `^`.
    Word(&'t str),
    Sign(char),
    /// The end of a statement.
    End,
}

/// The tokens of a source; comments and continued lines are left out.
pub(super) fn tokens(source: &str) -> Vec<Token<'_>> {
    let (mut out, mut rest) = (Vec::new(), source);
    while let Some(c) = rest.chars().next() {
        if out.len() >= TOKENS_MAX {
            break;
        }
        let (token, length) = match c {
            '"' => string(rest),
            '\'' => (None, rest.find('\n').unwrap_or(rest.len())),
            '_' if rest[1..].trim_start_matches([' ', '\t', '\r']).starts_with('\n') => {
                (None, rest.find('\n').map_or(rest.len(), |end| end + 1))
            }
            '\n' | ':' => (Some(Token::End), 1),
            '&' if rest[1..].starts_with(['h', 'H']) => hexadecimal(rest),
            '0'..='9' => number(rest),
            c if c.is_alphabetic() || c == '_' => word(rest),
            c if c.is_whitespace() => (None, c.len_utf8()),
            c => (Some(Token::Sign(c)), c.len_utf8()),
        };
        out.extend(token);
        rest = &rest[length.max(1).min(rest.len())..];
    }
    out
}

/// A string; two quotation marks in it are one.
fn string(rest: &str) -> (Option<Token<'_>>, usize) {
    let mut text = String::new();
    let mut chars = rest.char_indices().skip(1).peekable();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' if chars.peek().is_some_and(|(_, next)| *next == '"') => {
                chars.next();
                text.push('"');
            }
            '"' => return (Some(Token::Text(text)), at + 1),
            // A string ends with its line at the latest.
            '\n' => return (Some(Token::Text(text)), at),
            c => text.push(c),
        }
    }
    (Some(Token::Text(text)), rest.len())
}

fn hexadecimal(rest: &str) -> (Option<Token<'_>>, usize) {
    let digits = &rest[2..];
    let end = digits.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(digits.len());
    if end == 0 {
        return (Some(Token::Sign('&')), 1);
    }
    let number = u32::from_str_radix(&digits[..end], 16).map_or(0.0, f64::from);
    // A type character may follow.
    let typed = usize::from(digits[end..].starts_with('&'));
    (Some(Token::Number(number)), 2 + end + typed)
}

fn number(rest: &str) -> (Option<Token<'_>>, usize) {
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
    let typed = usize::from(rest[end..].starts_with(['#', '!', '%', '@']));
    (Some(Token::Number(rest[..end].parse().unwrap_or(0.0))), end + typed)
}

fn word(rest: &str) -> (Option<Token<'_>>, usize) {
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
    let word = &rest[..end];
    let token = match word {
        _ if word.eq_ignore_ascii_case("xor") => Token::Sign('^'),
        // The rest of the line is a comment.
        _ if word.eq_ignore_ascii_case("rem") => {
            return (None, rest.find('\n').unwrap_or(rest.len()));
        }
        _ => Token::Word(word),
    };
    let typed = usize::from(rest[end..].starts_with('$'));
    (Some(token), end + typed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_numbers_and_comments() {
        let found = tokens("a = \"b\"\"c\" & &H41 ' no\nRem no\n: Chr$(9)");
        let expected = [
            Token::Word("a"),
            Token::Sign('='),
            Token::Text("b\"c".to_owned()),
            Token::Sign('&'),
            Token::Number(65.0),
            Token::End,
            Token::End,
            Token::End,
            Token::Word("Chr"),
            Token::Sign('('),
            Token::Number(9.0),
            Token::Sign(')'),
        ];
        assert_eq!(found, expected);
    }
}
