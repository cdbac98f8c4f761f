//! `rules_matching(GLOB)` in the expressions of metas.

/// Replaces `rules_matching(GLOB)` by the sum of the rules it matches, itself left out.
pub(crate) fn expand_matching(text: &str, own_name: &str, names: &[&str]) -> String {
    const CALL: &str = "rules_matching(";
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(CALL) {
        let (before, after) = rest.split_at(at);
        out.push_str(before);
        let inner = &after[CALL.len()..];
        let Some(end) = inner.find(')') else { break };
        let glob = inner[..end].trim();
        let found: Vec<&str> =
            names.iter().copied().filter(|n| *n != own_name && matches(glob, n)).collect();
        let sum = if found.is_empty() { "0".to_owned() } else { found.join(" + ") };
        out.push_str(&format!(" ({sum}) "));
        rest = &inner[end + 1..];
    }
    out.push_str(rest);
    out
}

/// Glob with `*` and `?`.
fn matches(glob: &str, name: &str) -> bool {
    let (glob, name) = (glob.as_bytes(), name.as_bytes());
    let (mut g, mut n, mut star) = (0, 0, None);
    while n < name.len() {
        match glob.get(g) {
            Some(b'*') => {
                star = Some((g, n));
                g += 1;
            }
            Some(b) if *b == b'?' || *b == name[n] => {
                g += 1;
                n += 1;
            }
            _ => match star {
                Some((at, taken)) => {
                    star = Some((at, taken + 1));
                    g = at + 1;
                    n = taken + 1;
                }
                None => return false,
            },
        }
    }
    glob[g..].iter().all(|b| *b == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs() {
        assert!(matches("__FOO_*", "__FOO_1"));
        assert!(matches("A?C*E", "ABCDDE"));
        assert!(!matches("A?C", "ABBC"));
        let names = ["__A_1", "__A_2", "B"];
        let text = expand_matching("rules_matching(__A_*) >= 2", "__A_2", &names);
        assert_eq!(text, " (__A_1)  >= 2");
    }
}
