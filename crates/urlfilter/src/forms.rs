//! Other forms of a URL by which it is looked up, too.
//!
//! - Its path as servers read it ([`CanonicalUrl::path_for_look_up`]), which entries have, too. The
//!   path as it was written is asked for as well: lists that were compiled by earlier versions have
//!   it, and so do expressions. It cannot undo anything, since what is read decides.
//! - Its path as other servers read it ([`CanonicalUrl::other_paths_for_look_up`]): without
//!   parameters of segments, for one. What undoes others has to be found by each reading.
//! - The IPv4 address within a literal of NAT64 (RFC 6052) or 6to4 (RFC 3056), which such a
//!   connection leads to.

use std::borrow::Cow;
use std::net::{Ipv4Addr, Ipv6Addr};

use gauntlet_mail::url::{CanonicalUrl, UrlTraits};

/// A form of a URL.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Form {
    pub(crate) whole: String,
    pub(crate) host: String,
    pub(crate) path: String,
    pub(crate) reading: Reading,
}

/// Who has the path of a form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reading {
    /// Some servers: what undoes others has to be found by this, too. It stands before the form
    /// that most have.
    Some,
    /// Most servers: an entry that is found by it may undo others.
    Most,
    /// None, perhaps.
    Written,
}

/// All forms of a URL; none if it has no other than its own.
pub(crate) fn of(url: &CanonicalUrl) -> Option<Vec<Form>> {
    let (written, read) = (url.path_and_query(), url.path_for_look_up());
    let carried = match url.traits().has(UrlTraits::IP) {
        true => carried_ipv4(url.host()),
        false => None,
    };
    let others = url.other_paths_for_look_up();
    let is_same = matches!(read, Cow::Borrowed(_)) && written == read;
    if is_same && others.is_empty() && carried.is_none() {
        return None;
    }
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    let carried = carried.map(|address| address.to_string());
    let mut forms = Vec::new();
    for host in [Some(url.host()), carried.as_deref()].into_iter().flatten() {
        let mut add = |path: &str, reading| {
            let whole = format!("{}://{host}{port}{path}", url.scheme());
            forms.push(Form { whole, host: host.to_owned(), path: path.to_owned(), reading });
        };
        others.iter().for_each(|other| add(other, Reading::Some));
        add(&read, Reading::Most);
        if !is_same {
            add(written, Reading::Written);
        }
    }
    Some(forms)
}

/// The IPv4 address in `[64:ff9b::192.0.2.1]` and `[2002:c000:201::1]`.
fn carried_ipv4(host: &str) -> Option<Ipv4Addr> {
    let address: Ipv6Addr = host.strip_prefix('[')?.strip_suffix(']')?.parse().ok()?;
    match address.segments() {
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0x2002, high, low, ..] => {
            Some(Ipv4Addr::from(u32::from(high) << 16 | u32::from(low)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gauntlet_mail::url::canonical;

    #[test]
    fn most_urls_have_one_form() {
        for url in ["http://a.example/x?y//z", "http://192.0.2.1/", "http://[2001:db8::1]/"] {
            assert_eq!(of(&canonical(url).unwrap()), None, "{url}");
        }
    }

    #[test]
    fn others_have_several() {
        let of = |url: &str| -> Vec<(String, Reading)> {
            let forms = super::of(&canonical(url).unwrap()).unwrap();
            forms.into_iter().map(|form| (form.whole, form.reading)).collect()
        };
        assert_eq!(
            of("https://a.example:81//x%2fy?z"),
            [
                ("https://a.example:81/x/y?z".to_owned(), Reading::Most),
                ("https://a.example:81//x%2Fy?z".to_owned(), Reading::Written),
            ]
        );
        assert_eq!(
            of("http://[64:ff9b::192.0.2.1]/x"),
            [
                ("http://[64:ff9b::c000:201]/x".to_owned(), Reading::Most),
                ("http://192.0.2.1/x".to_owned(), Reading::Most),
            ]
        );
        assert_eq!(
            of("http://a.example/x;y/..;/z"),
            [
                ("http://a.example/z".to_owned(), Reading::Some),
                ("http://a.example/x;y/..;/z".to_owned(), Reading::Most),
            ]
        );
        assert_eq!(of("http://[64:ff9b::192.0.2.1]//x").len(), 4);
        assert_eq!(of("http://[2002:c000:201::1]/x")[1].0, "http://192.0.2.1/x");
    }
}
