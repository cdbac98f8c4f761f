//! Redirectors: sites with the target URI inside theirs, by the `redirector_pattern` lines.

use memchr::memmem::Finder;
use regex::bytes::Regex;

use gauntlet_rules::pattern::Pattern;

/// Most strings that are searched.
const STRINGS_MAX: usize = 8;

/// Patterns of `redirector_pattern`: each captures a target.
#[derive(Debug, Default)]
pub(in crate::views) struct Redirectors {
    all: Vec<Redirector>,
    /// Strings of which each URI that a pattern matches contains one, in lower case; `None` if
    /// unknown.
    any: Option<Regex>,
}

impl Redirectors {
    pub(in crate::views) fn new(all: Vec<Redirector>) -> Self {
        let any = if all.iter().any(|r| r.strings.is_empty()) {
            None
        } else {
            let strings = all.iter().flat_map(|r| &r.strings);
            let escaped = strings.map(|string| {
                string.needle().iter().map(|byte| format!("\\x{byte:02x}")).collect::<String>()
            });
            let pattern = escaped.collect::<Vec<String>>().join("|");
            Regex::new(&format!("(?s-u){pattern}")).ok()
        };
        Redirectors { all, any }
    }

    /// The target of a URI: the first result of the patterns that `is_wanted` accepts.
    pub(super) fn target<'u>(
        &self,
        uri: &'u [u8],
        is_wanted: impl Fn(&&'u [u8]) -> bool,
    ) -> Option<&'u [u8]> {
        if self.all.is_empty() {
            return None;
        }
        let lower = uri.to_ascii_lowercase();
        if self.any.as_ref().is_some_and(|any| !any.is_match(&lower)) {
            return None;
        }
        self.all.iter().find_map(|r| r.target(uri, &lower).filter(&is_wanted))
    }
}

/// One pattern, whose first group is the target.
#[derive(Debug)]
pub(in crate::views) struct Redirector {
    pattern: Pattern,
    /// Strings of which each URI that it matches contains one, in lower case; `None` if unknown.
    strings: Vec<Finder<'static>>,
}

impl Redirector {
    pub(in crate::views) fn new(pattern: Pattern) -> Self {
        let strings = pattern.required_strings().filter(|all| all.len() <= STRINGS_MAX);
        let finder = |string: Vec<u8>| Finder::new(&string).into_owned();
        let strings = strings.unwrap_or_default().into_iter().map(finder).collect();
        Redirector { pattern, strings }
    }

    /// The target of a URI; `lower` is the URI in lower case. Most URIs are no redirector's.
    fn target<'u>(&self, uri: &'u [u8], lower: &[u8]) -> Option<&'u [u8]> {
        let may = self.strings.is_empty() || self.strings.iter().any(|s| s.find(lower).is_some());
        // Only a match needs memory for its groups.
        if !may || !self.pattern.is_match(uri) {
            return None;
        }
        let groups = self.pattern.captures(uri, 0).ok()??;
        uri.get(groups.get(1)?.clone()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_at_once_lead_where_each_leads() {
        let patterns = ["(?i)/redirect\\.php\\?goto=(.*)", "(?i)^https?://go\\.example/l/;(.*)"];
        let each = || patterns.iter().map(|p| Redirector::new(Pattern::new(p).unwrap()));
        let all = Redirectors::new(each().collect());
        assert!(all.any.is_some());
        for uri in [
            "http://a.example/REDIRECT.php?goto=http://b.example",
            "http://go.example/L/;http://c.example",
            "http://go.example/x",
        ] {
            let uri = uri.as_bytes();
            let found =
                each().find_map(|r| r.target(uri, &uri.to_ascii_lowercase()).map(<[u8]>::to_vec));
            assert_eq!(all.target(uri, |_| true), found.as_deref());
        }
        assert_eq!(all.target(b"http://go.example/l/;http://c", |u| u.contains(&b'.')), None);
        let unknown = Redirectors::new(vec![Redirector::new(Pattern::new("x*(.*)").unwrap())]);
        assert!(unknown.any.is_none());
        assert!(Redirectors::default().target(b"x", |_| true).is_none());
    }
}
