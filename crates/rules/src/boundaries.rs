//! Where a host name ends and the registered domain begins, as the rule files say.
//!
//! Rule files list top-level domains (`util_rb_tld`) and registries below them (`util_rb_2tld`,
//! `util_rb_3tld`); SpamAssassin knows no others, so neither does this. Only if the files list none
//! at all, as our own rules do, the public suffix list stands in.

use psl::Psl as _;

use crate::hash::HashSet;
use crate::settings::Settings;

/// The registry boundaries of a set of rule files.
#[derive(Debug, Clone, Default)]
pub struct Boundaries {
    top: HashSet<Box<[u8]>>,
    second: HashSet<Box<[u8]>>,
    third: HashSet<Box<[u8]>>,
}

/// Two-letter states and territories under `.us`, each with delegations of its own (RFC 1480).
const US_STATES: &[u8] =
    b"ak al ar az ca co ct dc de fl ga gu hi ia id il in ks ky la ma md me mi \
    mn mo ms mt nc nd ne nh nj nm nv ny oh ok or pa pr ri sc sd tn tx ut va vi vt wa wi wv wy";

impl Boundaries {
    /// Reads `util_rb_tld`, `util_rb_2tld` and `util_rb_3tld`; `clear_util_rb` forgets those before.
    pub fn from_settings(settings: &Settings) -> Self {
        let cleared = settings.all("clear_util_rb").last().map_or(0, |line| line.order);
        let words = |name: &str| {
            let lines = settings.all(name).iter().filter(|line| line.order >= cleared);
            let words = lines.flat_map(|line| line.value.split_ascii_whitespace());
            words.map(|w| w.to_ascii_lowercase().into_bytes().into_boxed_slice()).collect()
        };
        Boundaries {
            top: words("util_rb_tld"),
            second: words("util_rb_2tld"),
            third: words("util_rb_3tld"),
        }
    }

    /// Whether this label (lower case, without dot) is a known top-level domain.
    pub fn is_top(&self, label: &[u8]) -> bool {
        if self.top.is_empty() {
            return psl::List.suffix(label).is_some_and(|s| s.is_known());
        }
        self.top.contains(label)
    }

    /// Whether a host name has at least one dot, no white space and a known top-level domain.
    pub fn is_valid(&self, host: &[u8]) -> bool {
        let host = host.to_ascii_lowercase();
        let Some(dot) = memchr::memrchr(b'.', &host) else { return false };
        !host.iter().any(u8::is_ascii_whitespace) && self.is_top(&host[dot + 1..])
    }

    /// The registered domain of a host name, in lower case: `foo.co.uk` of `www.foo.co.uk`. A name
    /// that is itself a boundary stays whole.
    pub fn trim(&self, host: &[u8]) -> Vec<u8> {
        self.split(host).1
    }

    /// What stands before the registered domain, and the registered domain; both in lower case.
    pub fn split(&self, host: &[u8]) -> (Vec<u8>, Vec<u8>) {
        let host = host.to_ascii_lowercase();
        let labels: Vec<&[u8]> = host.split(|&b| b == b'.').filter(|l| !l.is_empty()).collect();
        let start = if self.top.is_empty() {
            listed_start(&labels)
        } else {
            let boundary = (0..labels.len()).find(|&i| self.is_boundary(&labels[i..]));
            boundary.unwrap_or_default().saturating_sub(1)
        };
        (labels[..start].join(&b'.'), labels[start..].join(&b'.'))
    }

    /// Whether these labels are a registry under which names are registered.
    fn is_boundary(&self, labels: &[&[u8]]) -> bool {
        let is_state = |label: &[u8]| US_STATES.split(|&b| b == b' ').any(|s| s == label);
        match labels {
            [_] => true,
            [_, _] => self.second.contains(labels.join(&b'.').as_slice()),
            [_, state, us] if *us == b"us" => is_state(state),
            [_, _, _] => self.third.contains(labels.join(&b'.').as_slice()),
            [first, second, state, us] if *us == b"us" => {
                let school = *first == b"pvt" && *second == b"k12";
                (school || *first == b"ci" || *first == b"co") && is_state(state)
            }
            _ => false,
        }
    }
}

/// Index of the first label of the registered domain by the public suffix list.
fn listed_start(labels: &[&[u8]]) -> usize {
    let host = labels.join(&b'.');
    let suffix =
        psl::List.suffix(&host).map(|s| s.as_bytes().iter().filter(|&&b| b == b'.').count() + 1);
    labels.len().saturating_sub(suffix.unwrap_or(1) + 1)
}

/// Whether a name can be a host name with at least two labels: letters, digits and inner hyphens;
/// underscores only from the third label on (counted from the right).
pub fn is_host_name(host: &[u8]) -> bool {
    let end = host.iter().rposition(|&b| b != b'.').map_or(0, |last| last + 1);
    let host = &host[..end];
    let labels = host.split(|&b| b == b'.').count();
    host.len() <= 253
        && labels > 1
        && host.split(|&b| b == b'.').zip((1..=labels).rev()).all(|(label, from_right)| {
            let is_plain = |b: &u8| b.is_ascii_alphanumeric() || (*b == b'_' && from_right > 2);
            (1..=63).contains(&label.len())
                && label.first().is_some_and(is_plain)
                && label.last().is_some_and(is_plain)
                && label.iter().all(|b| is_plain(b) || *b == b'-')
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::Source;

    fn boundaries(lines: &[(&str, &str)]) -> Boundaries {
        let mut settings = Settings::default();
        for (name, value) in lines {
            settings.add(name, value, Source::default());
        }
        Boundaries::from_settings(&settings)
    }

    #[test]
    fn domains_are_cut_at_the_registry() {
        let listed = boundaries(&[
            ("util_rb_tld", "com uk us"),
            ("util_rb_2tld", "co.uk"),
            ("util_rb_3tld", "demon.co.uk"),
        ]);
        for (host, domain) in [
            ("www.Foo.com", "foo.com"),
            ("www.foo.co.uk", "foo.co.uk"),
            ("a.b.demon.co.uk", "b.demon.co.uk"),
            ("co.uk", "co.uk"),
            ("fire-dept.ci.los-angeles.ca.us", "fire-dept.ci.los-angeles.ca.us"),
            ("shop.example.ca.us", "shop.example.ca.us"),
            ("a.pvt.k12.ca.us", "a.pvt.k12.ca.us"),
            ("..www..foo.com.", "foo.com"),
            ("com", "com"),
            ("", ""),
        ] {
            assert_eq!(listed.trim(host.as_bytes()), domain.as_bytes(), "{host}");
        }
        assert!(listed.is_valid(b"x.COM"));
        assert!(!listed.is_valid(b"com") && !listed.is_valid(b"x.nonsense"));
        assert_eq!(listed.split(b"a.b.foo.com"), (b"a.b".to_vec(), b"foo.com".to_vec()));
    }

    #[test]
    fn cleared_lists_are_forgotten() {
        let listed =
            boundaries(&[("util_rb_tld", "com"), ("clear_util_rb", "all"), ("util_rb_tld", "org")]);
        assert!(listed.is_valid(b"x.org") && !listed.is_valid(b"x.com"));
    }

    #[test]
    fn without_lists_the_public_suffixes_count() {
        let none = Boundaries::default();
        assert_eq!(none.trim(b"www.foo.co.uk"), b"foo.co.uk");
        assert!(none.is_valid(b"foo.de") && !none.is_valid(b"foo.nonsense"));
    }

    #[test]
    fn host_names() {
        assert!(is_host_name(b"a_b.example.com") && is_host_name(b"x-y.com."));
        assert!(!is_host_name(b"com") && !is_host_name(b"-x.com") && !is_host_name(b"x_y.com"));
        assert!(!is_host_name(b"a..com"));
    }
}
