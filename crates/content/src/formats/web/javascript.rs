//! JavaScript as tokens, enough to find its strings, numbers and calls.

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token<'a> {
    Word(&'a str),
    Text(String),
    Number(f64),
    Sign(char),
}

/// Tokens of one script.
const TOKENS_MAX: usize = 400_000;

/// Splits a script; stops at [`TOKENS_MAX`].
pub(super) fn tokens(script: &str) -> Vec<Token<'_>> {
    let bytes = script.as_bytes();
    let mut tokens: Vec<Token<'_>> = Vec::new();
    let mut at = 0;
    while let Some(&b) = bytes.get(at) {
        if tokens.len() >= TOKENS_MAX {
            break;
        }
        match b {
            b if b.is_ascii_whitespace() => at += 1,
            b'/' if bytes.get(at + 1) == Some(&b'/') => {
                at += memchr::memchr2(b'\n', b'\r', &bytes[at..]).unwrap_or(bytes.len() - at);
            }
            b'/' if bytes.get(at + 1) == Some(&b'*') => {
                let end = memchr::memmem::find(&bytes[at + 2..], b"*/");
                at = end.map_or(bytes.len(), |end| at + 4 + end);
            }
            b'/' if starts_pattern(tokens.last()) => {
                at = pattern_end(bytes, at + 1);
                // A pattern is no string: nothing is made of it.
                tokens.push(Token::Sign('/'));
            }
            b'"' | b'\'' | b'`' => {
                let (text, end) = string(script, at + 1, b);
                tokens.push(Token::Text(text));
                at = end;
            }
            b'0'..=b'9' => {
                let word = word(script, at);
                tokens.push(Token::Number(number(word)));
                at += word.len();
            }
            b'_' | b'$' | b'a'..=b'z' | b'A'..=b'Z' | 0x80.. => {
                let word = word(script, at);
                tokens.push(Token::Word(word));
                at += word.len().max(1);
            }
            _ => {
                tokens.push(Token::Sign(char::from(b)));
                at += 1;
            }
        }
    }
    tokens
}

fn word(script: &str, at: usize) -> &str {
    let rest = &script[at..];
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '$' | '.') || !c.is_ascii();
    let is_number = rest.starts_with(|c: char| c.is_ascii_digit());
    let end = rest.find(|c| !is_part(c) || (c == '.' && !is_number));
    &rest[..end.unwrap_or(rest.len())]
}

fn number(word: &str) -> f64 {
    let lower = word.to_ascii_lowercase();
    match lower.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).map_or(0.0, |n| n as f64),
        None => lower.parse().unwrap_or(0.0),
    }
}

/// Whether a slash begins a pattern and no division.
fn starts_pattern(before: Option<&Token<'_>>) -> bool {
    match before {
        None => true,
        Some(Token::Sign(sign)) => !matches!(sign, ')' | ']' | '}' | '/'),
        Some(Token::Word(word)) => matches!(*word, "return" | "typeof" | "case"),
        Some(_) => false,
    }
}

fn pattern_end(bytes: &[u8], from: usize) -> usize {
    let mut at = from;
    let mut is_class = false;
    while let Some(&b) = bytes.get(at) {
        at += 1;
        match b {
            b'\\' => at += 1,
            b'[' => is_class = true,
            b']' => is_class = false,
            b'/' if !is_class => break,
            b'\n' => break,
            _ => {}
        }
    }
    while bytes.get(at).is_some_and(u8::is_ascii_alphabetic) {
        at += 1;
    }
    at.min(bytes.len())
}

/// The string that starts at `at`, and where what follows it starts.
fn string(script: &str, at: usize, quote: u8) -> (String, usize) {
    let mut out = String::new();
    let mut chars = script[at..].char_indices();
    while let Some((offset, c)) = chars.next() {
        match c {
            c if c == char::from(quote) => return (out, at + offset + 1),
            // A string in quotation marks ends with its line.
            '\n' if quote != b'`' => return (out, at + offset),
            '\\' => escape(&mut chars, &mut out),
            c => out.push(c),
        }
    }
    (out, script.len())
}

fn escape(chars: &mut std::str::CharIndices<'_>, out: &mut String) {
    let Some((_, c)) = chars.next() else { return };
    let digits = match c {
        'n' => return out.push('\n'),
        'r' => return out.push('\r'),
        't' => return out.push('\t'),
        '0' => return out.push('\0'),
        'x' => 2,
        'u' => 4,
        '\n' | '\r' => return,
        c => return out.push(c),
    };
    let rest = chars.as_str();
    let (digits, skip) = match rest.strip_prefix('{') {
        Some(braced) => {
            let length = braced.find('}').unwrap_or(0).min(6);
            (braced.get(..length), length + 2)
        }
        None => (rest.get(..digits), digits),
    };
    let code = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok());
    match code.and_then(char::from_u32) {
        Some(c) => {
            out.push(c);
            for _ in 0..skip {
                chars.next();
            }
        }
        None => out.push(c),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_and_numbers() {
        let script =
            "var a=\"x\\x41\\u0042\\u{43}\" /* 'c' */ + 'it\\'s'; // d\nb = /[\"/]'/g; 0x10 / 2";
        let found = tokens(script);
        assert!(found.contains(&Token::Text("xABC".to_owned())));
        assert!(found.contains(&Token::Text("it's".to_owned())));
        assert!(found.contains(&Token::Number(16.0)) && found.contains(&Token::Number(2.0)));
        assert_eq!(found.iter().filter(|t| matches!(t, Token::Text(_))).count(), 2);
    }
}
