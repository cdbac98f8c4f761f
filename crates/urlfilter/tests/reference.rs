//! What a look-up means, written down as plainly as can be: every entry is tried on every URL.

use gauntlet_mail::url::CanonicalUrl;
use gauntlet_urlfilter::entry::{
    Case, DomainReach, Entry, Pattern, Prefix, PrefixEnd, PrefixHosts,
};

/// By its path as it was written, or as servers read it.
pub(crate) fn matches(entry: &Entry, url: &CanonicalUrl) -> bool {
    let (written, read) = (url.path_and_query(), url.path_for_look_up());
    matches_with(entry, url, written) || matches_with(entry, url, &read)
}

fn matches_with(entry: &Entry, url: &CanonicalUrl, path: &str) -> bool {
    let host = url.host();
    let below = |domain: &str| host.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.'));
    match &entry.pattern {
        Pattern::ExactHost(name) => host == name,
        Pattern::Domain { domain, reach } => {
            below(domain) || (*reach == DomainReach::WithItself && host == domain)
        }
        Pattern::Prefix(prefix) => {
            let is_host = match prefix.hosts {
                PrefixHosts::Exact => host == prefix.host,
                PrefixHosts::Below => host == prefix.host || below(&prefix.host),
                PrefixHosts::ServerNames => {
                    let name = host.strip_suffix(&prefix.host).unwrap_or("x");
                    let name = name.strip_suffix('.').unwrap_or(name);
                    let digits = name.trim_end_matches(|c: char| c.is_ascii_digit());
                    host == prefix.host || ["www", "web", "ftp"].contains(&digits)
                }
            };
            let is_port = prefix.port.is_none() || prefix.port == url.port();
            is_host && is_port && begins(prefix, path)
        }
        Pattern::Regex(text) => {
            let whole = url.as_str().strip_suffix(url.path_and_query()).unwrap();
            let whole = format!("{whole}{path}");
            let regex = regex::bytes::RegexBuilder::new(text).unicode(false).build().unwrap();
            regex.is_match(whole.as_bytes())
        }
    }
}

fn begins(prefix: &Prefix, path: &str) -> bool {
    let folded = match prefix.case {
        Case::Folded => path.to_ascii_lowercase(),
        Case::Sensitive => path.to_owned(),
    };
    let Some(rest) = folded.strip_prefix(&prefix.path) else { return false };
    let signs = ['/', '?', '&', '=', ';'];
    prefix.end == PrefixEnd::Anywhere
        || rest.is_empty()
        || rest.starts_with(signs)
        || prefix.path.ends_with(signs)
}
