//! Patterns of web rules that fit nothing: they read, and the rule does nothing.

use gauntlet_mail::url::canonical;

use super::condition::WebCondition;
use crate::pattern::{OneOrMany, Pattern};

/// What is wrong with each pattern of a condition that fits no request, whatever is asked for.
pub(super) fn of(when: &WebCondition) -> Vec<String> {
    let mut found = Vec::new();
    add(when, &mut found);
    found
}

fn add(when: &WebCondition, found: &mut Vec<String>) {
    fn all(patterns: Option<&OneOrMany<Pattern>>) -> impl Iterator<Item = &str> {
        patterns.into_iter().flat_map(OneOrMany::as_slice).map(Pattern::as_str)
    }
    if let Some(url) = &when.url {
        found.extend(all(url.host.as_ref()).filter_map(host));
        found.extend(all(url.path.as_ref()).filter_map(path));
    }
    if let Some(content) = &when.content {
        found.extend(all(content.kind.as_ref()).filter_map(media_type));
    }
    when.inner().for_each(|inner| add(inner, found));
}

fn host(pattern: &str) -> Option<String> {
    let fits_none = |hint: &str| Some(format!("url.host = {pattern:?} fits no host: {hint}"));
    if let Some((_, rest)) = pattern.split_once("://") {
        let host = rest.split(['/', ':']).next().unwrap_or_default();
        return fits_none(&format!("a host has no scheme; write {host:?}"));
    }
    if let Some((host, _)) = pattern.split_once('/') {
        return fits_none(&format!("paths are asked for with url.path; write {host:?}"));
    }
    let bare = pattern.trim_end_matches('.');
    if bare.len() < pattern.len() {
        return fits_none(&format!("hosts are compared without the last dot; write {bare:?}"));
    }
    if let Some(domain) = pattern.strip_prefix('.') {
        return fits_none(&format!("write {domain:?} and {:?}", format!("*.{domain}")));
    }
    if pattern.contains('*') {
        let is_odd = |c: char| !c.is_ascii_alphanumeric() && !"*.-_[]:".contains(c);
        let odd = pattern.chars().find(|c| is_odd(*c))?;
        let hint = if odd.is_ascii() { "none has it" } else { "international names are xn--" };
        return fits_none(&format!("{odd:?}: {hint}"));
    }
    match canonical(&format!("http://{pattern}/")) {
        Some(url) if url.host() == pattern => None,
        Some(url) if url.host() != pattern && url.port().is_none() => {
            fits_none(&format!("hosts are in canonical form; write {:?}", url.host()))
        }
        Some(_) => fits_none("ports are asked for with url.port"),
        None => fits_none("it is none"),
    }
}

fn path(pattern: &str) -> Option<String> {
    let fits_none = |hint: String| Some(format!("url.path = {pattern:?} fits no path: {hint}"));
    if !pattern.starts_with(['/', '*']) {
        return fits_none(format!("paths begin with a slash; write {:?}", format!("/{pattern}")));
    }
    if pattern.contains('#') {
        return fits_none("servers do not get what follows a #".to_owned());
    }
    if pattern.contains('*') {
        return None;
    }
    let url = canonical(&format!("http://a.example{pattern}"))?;
    let read = url.path_for_look_up().to_lowercase();
    match read == pattern {
        true => None,
        false => fits_none(format!("it is compared as servers read it; write {read:?}")),
    }
}

fn media_type(pattern: &str) -> Option<String> {
    let why = match pattern.split_once('/') {
        _ if pattern.contains([';', ' ']) => "types are compared without parameters",
        None if !pattern.contains('*') => "a type is such as video/mp4 or video/*",
        _ => return None,
    };
    Some(format!("content.type = {pattern:?} fits no type: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_that_fit_nothing_are_told_apart() {
        for (pattern, hint) in [
            (".a.example", "write \"a.example\" and \"*.a.example\""),
            ("https://a.example/x", "write \"a.example\""),
            ("a.example/x", "write \"a.example\""),
            ("a.example.", "write \"a.example\""),
            ("*.a.example.", "write \"*.a.example\""),
            ("b\u{fc}cher.example", "write \"xn--bcher-kva.example\""),
            ("*.b\u{fc}cher.example", "international names are xn--"),
            ("2130706433", "write \"127.0.0.1\""),
            ("a.example:8080", "ports are asked for with url.port"),
            ("a b", "it is none"),
            ("*.a@b", "none has it"),
        ] {
            let found = host(pattern).unwrap_or_default();
            assert!(found.contains(hint), "{pattern}: {found}");
        }
        for fine in ["a.example", "*.a.example", "*", "10.*", "[::1]", "xn--bcher-kva.example"] {
            assert_eq!(host(fine), None, "{fine}");
        }
        for (pattern, hint) in [
            ("x/y", "write \"/x/y\""),
            ("/x//y", "write \"/x/y\""),
            ("/x/../y", "write \"/y\""),
            ("/x#y", "what follows a #"),
        ] {
            let found = path(pattern).unwrap_or_default();
            assert!(found.contains(hint), "{pattern}: {found}");
        }
        for fine in ["/", "/x?y=z", "*x", "/a%20b", "/x//*"] {
            assert_eq!(path(fine), None, "{fine}");
        }
        assert!(media_type("exe").is_some() && media_type("text/html; x").is_some());
        for fine in ["video/*", "*", "*html*", "text/html"] {
            assert_eq!(media_type(fine), None, "{fine}");
        }
    }
}
