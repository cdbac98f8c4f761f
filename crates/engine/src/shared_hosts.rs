//! Hosts that good and bad mail share: platforms, shorteners, hosting, trackers of mailing
//! services, firms that are imitated. An entry of a list for one of them would block what everybody
//! reads.
//!
//! Limits: who is large is written down (`data/shared_hosts.txt` and the lists beside it), not
//! measured. A site that is not in it is known by the good mail of a node.

use std::collections::HashSet;
use std::sync::LazyLock;

use crate::lookalike::Brands;

static SHARED: LazyLock<HashSet<String>> = LazyLock::new(|| {
    let lists = [
        include_str!("../data/shared_hosts.txt"),
        include_str!("../data/shorteners.txt"),
        include_str!("../data/freemail.txt"),
    ];
    let lines = lists.iter().flat_map(|list| list.lines());
    let named = lines.filter(|l| !l.is_empty() && !l.starts_with('#')).map(str::to_owned);
    named.chain(Brands::shipped().domains().map(str::to_owned)).collect()
});

/// Below these each customer has a name of its own.
static HOSTING: LazyLock<HashSet<&str>> = LazyLock::new(|| {
    let lines = include_str!("../data/free_hosting.txt").lines();
    lines.filter(|l| !l.is_empty() && !l.starts_with('#')).collect()
});

/// Whether a host in lower case is shared: it or a domain above it is a platform, or it is the
/// name below which a hosting service gives its customers names. A customer's own name is not.
pub fn is_shared(host: &str) -> bool {
    let mut domains = domains_above(host);
    domains.any(|domain| SHARED.contains(domain)) || HOSTING.contains(host)
}

/// The host, and every domain above it.
fn domains_above(host: &str) -> impl Iterator<Item = &str> {
    let above = host.match_indices('.').filter_map(|(at, _)| host.get(at + 1..));
    std::iter::once(host).chain(above)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn platforms_are_shared_and_customers_of_hosting_are_not() {
        for shared in [
            "google.com",
            "docs.google.com",
            "bit.ly",
            "www.facebook.com",
            "github.io",
            "gmail.com",
            "www.paypal.com",
            "u123.ct.sendgrid.net",
            "www.w3.org",
        ] {
            assert!(is_shared(shared), "{shared}");
        }
        for single in ["evil.github.io", "parcels.example", "notgoogle.com", "com", ""] {
            assert!(!is_shared(single), "{single}");
        }
    }

    #[test]
    fn the_lists_are_hosts_in_lower_case_each_once() {
        let text = include_str!("../data/shared_hosts.txt");
        let mut seen = HashSet::new();
        for line in text.lines().filter(|l| !l.starts_with('#')) {
            let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || ".-".contains(c);
            assert!(line.contains('.') && line.chars().all(plain), "{line}");
            assert!(seen.insert(line), "{line} twice");
        }
    }
}
