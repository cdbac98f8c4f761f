//! The public suffix list (<https://publicsuffix.org>): under which names anybody can register one.
//!
//! The library `psl` has the list as generic code, some 700 kB, and each crate that calls it
//! compiles a copy of that, and its tests another. So this crate has nothing else, and everybody
//! asks here.

use psl::Psl;

/// The end of a host name under which names are registered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Suffix<'a> {
    /// `co.uk` of `a.example.co.uk`; the last label of a name under no registry of the list.
    pub name: &'a [u8],
    /// The list has it.
    pub is_known: bool,
    /// A registry sells names under it, such as `com` and `co.uk`; false of names that belong to
    /// somebody who gives out names below, such as `github.io`.
    pub is_registry: bool,
}

/// The public suffix of a host name in lower case; none of an empty one.
// Not inlined: the list would be copied to where it is called.
#[inline(never)]
pub fn suffix(host: &[u8]) -> Option<Suffix<'_>> {
    let suffix = psl::List.suffix(host)?;
    let is_registry = suffix.typ() == Some(psl::Type::Icann);
    Some(Suffix { name: suffix.as_bytes(), is_known: suffix.is_known(), is_registry })
}

impl<'a> Suffix<'a> {
    /// The registrable domain of `host`, whose suffix this is: the suffix and one label more,
    /// `example.co.uk` of `a.example.co.uk`. None if there is no such label.
    pub fn domain_of(&self, host: &'a [u8]) -> Option<&'a [u8]> {
        let above = host.len().checked_sub(self.name.len() + 1).filter(|above| *above > 0)?;
        let label = memchr::memrchr(b'.', host.get(..above)?).map_or(0, |dot| dot + 1);
        host.get(label..)
    }
}

/// The registrable domain of a host name in lower case. None of a name that is a suffix itself.
pub fn domain(host: &[u8]) -> Option<&[u8]> {
    suffix(host)?.domain_of(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn domains_are_those_of_the_library() {
        for host in [
            "",
            ".",
            "a",
            "com",
            "a.com",
            "b.a.com",
            ".com",
            "..com",
            "a..com",
            "a.com.",
            "com.",
            "a.co.uk",
            "co.uk",
            "x.y.co.uk",
            "a.unlisted",
            "b.a.unlisted",
            "www.ck",
            "a.b.ck",
            "city.kawasaki.jp",
            "x.city.kawasaki.jp",
            "a.github.io",
            "-.-",
            "a.b.c.d.e.f.g",
        ] {
            let host = host.as_bytes();
            let expected = psl::List.domain(host);
            assert_eq!(domain(host), expected.map(|d| d.as_bytes()), "{host:?}");
        }
    }

    #[test]
    fn suffixes_of_no_registry_are_known_as_such() {
        let of = |host: &'static str| suffix(host.as_bytes()).map(|s| (s.name, s.is_known));
        assert_eq!(of("a.example.co.uk"), Some((&b"co.uk"[..], true)));
        assert_eq!(of("a.unlisted"), Some((&b"unlisted"[..], false)));
        assert_eq!(of(""), None);
    }

    #[test]
    fn a_registry_is_told_from_a_host_of_names() {
        let of = |host: &'static str| suffix(host.as_bytes()).map(|s| s.is_registry);
        assert_eq!(of("a.co.uk"), Some(true));
        assert_eq!(of("com"), Some(true));
        assert_eq!(of("a.github.io"), Some(false));
        assert_eq!(of("a.unlisted"), Some(false));
    }
}
