//! Patterns of the names that engines give to what they find, such as `Heuristics.*`.

/// Patterns with `*` for any characters; letters match in either case.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NamePatterns(Vec<String>);

impl NamePatterns {
    /// Patterns as a site writes them; they are compared in lower case.
    pub fn new(patterns: &[String]) -> Self {
        NamePatterns(patterns.iter().map(|p| p.to_lowercase()).collect())
    }

    /// Whether one of them matches all of a name.
    pub fn match_name(&self, name: &str) -> bool {
        let name = name.to_lowercase();
        self.0.iter().any(|pattern| matches(pattern, &name))
    }
}

/// The first piece stands at the beginning, the last at the end, the others in order between.
fn matches(pattern: &str, name: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut name) = name.strip_prefix(first) else { return false };
    let mut pieces: Vec<&str> = rest.split('*').collect();
    let last = pieces.pop().unwrap_or_default();
    for piece in pieces {
        match name.find(piece) {
            Some(at) => name = &name[at + piece.len()..],
            None => return false,
        }
    }
    name.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars() {
        let patterns = |text: &str| NamePatterns::new(&[text.to_owned()]);
        assert!(patterns("Heuristics.*").match_name("Heuristics.Encrypted.Zip"));
        assert!(patterns("*.unofficial").match_name("Sane.Spam.1.UNOFFICIAL"));
        assert!(patterns("a*b*c").match_name("a-b-b-c"));
        assert!(patterns("*").match_name(""));
        assert!(!patterns("a*b*c").match_name("a-c-b"));
        assert!(!patterns("ab*b").match_name("ab"), "pieces do not overlap");
        assert!(!patterns("PUA").match_name("PUA.Win"));
        assert!(!NamePatterns::default().match_name("x"));
    }
}
