//! A file of YARA rules, cut into its statements, so that one that does not compile costs no other.

/// A statement of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Statement<'t> {
    /// Another file, at this line.
    Include { line: usize, path: &'t str },
    /// An import or a rule with its modifiers, from this line on.
    Code { line: usize, text: &'t str },
}

/// The statements of a file, in their order. What is no statement is one of its own, so that the
/// compiler reports it.
pub(super) fn statements(text: &str) -> Vec<Statement<'_>> {
    let mut found = Vec::new();
    let mut at = skip_blank(text, 0);
    let (mut line, mut counted) = (1, 0);
    while at < text.len() {
        line += text.as_bytes()[counted..at].iter().filter(|b| **b == b'\n').count();
        counted = at;
        let rest = &text[at..];
        let word = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_alphanumeric()).len();
        let end = match &rest[..word] {
            "import" | "include" => end_of_quotation(text, at + word),
            _ => end_of_rule(text, at),
        };
        let statement = &text[at..end];
        match statement.strip_prefix("include") {
            Some(path) if word == "include".len() => {
                let path = path.trim().trim_matches('"');
                found.push(Statement::Include { line, path });
            }
            _ => found.push(Statement::Code { line, text: statement }),
        }
        at = skip_blank(text, end);
    }
    found
}

/// The place behind white space and comments.
fn skip_blank(text: &str, mut at: usize) -> usize {
    loop {
        let rest = &text[at..];
        let blank = rest.len() - rest.trim_start().len();
        at += blank;
        match comment(&text[at..]) {
            Some(bytes) => at += bytes,
            None => return at,
        }
    }
}

/// Bytes of a comment that stands here.
fn comment(text: &str) -> Option<usize> {
    if text.starts_with("//") {
        return Some(text.find('\n').unwrap_or(text.len()));
    }
    let inside = text.strip_prefix("/*")?;
    Some(inside.find("*/").map_or(text.len(), |end| end + 4))
}

/// The place behind the next text in quotes.
fn end_of_quotation(text: &str, at: usize) -> usize {
    match text[at..].find('"') {
        Some(open) => delimited(text, at + open),
        None => text.len(),
    }
}

/// The place behind what begins here with a quote or a slash and ends with the same, or with its
/// line.
fn delimited(text: &str, at: usize) -> usize {
    let bytes = text.as_bytes();
    let mut end = at + 1;
    while let Some(&byte) = bytes.get(end) {
        match byte {
            b'\\' => end += 1,
            b'\n' => return end,
            _ if byte == bytes[at] => return end + 1,
            _ => {}
        }
        end += 1;
    }
    bytes.len()
}

/// The place behind the closing brace of a rule.
fn end_of_rule(text: &str, mut at: usize) -> usize {
    let bytes = text.as_bytes();
    let mut depth = 0u32;
    while let Some(&byte) = bytes.get(at) {
        if byte == b'/'
            && let Some(skipped) = comment(&text[at..])
        {
            at += skipped;
            continue;
        }
        match byte {
            // YARA divides by a backslash: a slash begins a regular expression.
            b'"' | b'/' => {
                at = delimited(text, at);
                continue;
            }
            b'{' => depth += 1,
            b'}' if depth <= 1 => return at + 1,
            b'}' => depth -= 1,
            _ => {}
        }
        at += 1;
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_comments_and_strings() {
        let text = "// }\nimport \"pe\"\n\nglobal rule a { /* } */ strings: $a = \"}\\\"\" $r = /\\/}/ \
                    $h = { 00 } condition: true }\ninclude \"x.yar\"rule b{}";
        let found = statements(text);
        assert_eq!(found.len(), 4, "{found:?}");
        assert_eq!(found[0], Statement::Code { line: 2, text: "import \"pe\"" });
        let Statement::Code { line: 4, text: rule } = found[1] else { panic!("{found:?}") };
        assert!(rule.starts_with("global rule a") && rule.ends_with("true }"));
        assert_eq!(found[2], Statement::Include { line: 5, path: "x.yar" });
        assert_eq!(found[3], Statement::Code { line: 5, text: "rule b{}" });
    }

    #[test]
    fn nasty_texts_end() {
        for text in
            ["", "/*", "//", "import", "import \"", "rule", "rule a {", "}", "\"", "/", "ä}", "\\"]
        {
            for end in 0..=text.len() {
                if text.is_char_boundary(end) {
                    statements(&text[..end]);
                }
            }
        }
        let deep = "{".repeat(100_000);
        assert_eq!(statements(&deep).len(), 1);
        assert_eq!(statements(&"}".repeat(1_000)).len(), 1_000);
    }
}
