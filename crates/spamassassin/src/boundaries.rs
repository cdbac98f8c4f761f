//! Registry boundaries: where the registered domain of a host name begins, by the rule files.
//!
//! Rule files list top-level domains (`util_rb_tld`) and registries below them (`util_rb_2tld`,
//! `util_rb_3tld`); SpamAssassin uses no others, so neither does this. Only if the files list none
//! at all, as Gauntlet's own rules do, the public suffix list is used.

use gauntlet_mail::public_suffix;
use gauntlet_rules::hash::HashSet;
use gauntlet_rules::settings::Settings;

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
    /// Reads `util_rb_tld`, `util_rb_2tld` and `util_rb_3tld`; `clear_util_rb` discards those
    /// before it.
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
            return public_suffix::suffix(label).is_some_and(|s| s.is_known);
        }
        self.top.contains(label)
    }

    /// Whether a host name has at least one dot, no white space and a known top-level domain.
    pub fn is_valid(&self, host: &[u8]) -> bool {
        let Some(dot) = memchr::memrchr(b'.', host) else { return false };
        let top = &host[dot + 1..];
        let is_top = || match top.iter().any(u8::is_ascii_uppercase) {
            true => self.is_top(&top.to_ascii_lowercase()),
            false => self.is_top(top),
        };
        !host.iter().any(u8::is_ascii_whitespace) && is_top()
    }

    /// The registered domain of a host name, in lower case: `foo.co.uk` of `www.foo.co.uk`. A name
    /// that is itself a boundary stays whole.
    pub fn trim(&self, host: &[u8]) -> Vec<u8> {
        let host = without_empty_labels(host);
        host[self.registered(&host)..].to_vec()
    }

    /// What precedes the registered domain, and the registered domain; both in lower case.
    pub fn split(&self, host: &[u8]) -> (Vec<u8>, Vec<u8>) {
        let host = without_empty_labels(host);
        let (before, domain) = host.split_at(self.registered(&host));
        (before.strip_suffix(b".").unwrap_or(before).to_vec(), domain.to_vec())
    }

    /// Where the registered domain begins in a host name of no empty labels, in lower case.
    fn registered(&self, host: &[u8]) -> usize {
        if self.top.is_empty() {
            let labels: Vec<&[u8]> = host.split(|&b| b == b'.').collect();
            let before = &labels[..listed_start(&labels)];
            return before.iter().map(|label| label.len() + 1).sum();
        }
        // Where the last labels begin, from the right; no boundary has more than four.
        let mut starts = [0; LABELS_MAX + 1];
        let mut dots = memchr::memrchr_iter(b'.', host);
        let mut count = 1;
        for start in &mut starts {
            let Some(dot) = dots.next() else { break };
            *start = dot + 1;
            count += 1;
        }
        let boundary = (1..=count.min(LABELS_MAX)).rev().find(|&labels| {
            let start = starts[labels - 1];
            self.is_boundary(&host[start..], labels)
        });
        // The registered domain has one label more, if there is one.
        starts[boundary.unwrap_or(1).min(count - 1)]
    }

    /// Whether a name of so many labels is a registry under which names are registered.
    fn is_boundary(&self, name: &[u8], labels: usize) -> bool {
        let is_state = |label: &[u8]| US_STATES.split(|&b| b == b' ').any(|s| s == label);
        match labels {
            1 => true,
            2 => self.second.contains(name),
            3 if name.ends_with(b".us") => {
                let mut labels = name.split(|&b| b == b'.');
                labels.nth(1).is_some_and(is_state)
            }
            3 => self.third.contains(name),
            4 if name.ends_with(b".us") => {
                let mut labels = name.split(|&b| b == b'.');
                let first = labels.next().unwrap_or_default();
                let school = first == b"pvt" && labels.clone().next() == Some(b"k12");
                (school || first == b"ci" || first == b"co") && labels.nth(1).is_some_and(is_state)
            }
            _ => false,
        }
    }
}

/// Labels of the longest boundary.
const LABELS_MAX: usize = 4;

/// A host name in lower case, without repeated dots and dots at the ends.
fn without_empty_labels(host: &[u8]) -> Vec<u8> {
    let mut host = host.to_ascii_lowercase();
    let is_empty = |pair: &[u8]| pair == b"..";
    if host.starts_with(b".") || host.ends_with(b".") || host.windows(2).any(is_empty) {
        let labels: Vec<&[u8]> = host.split(|&b| b == b'.').filter(|l| !l.is_empty()).collect();
        host = labels.join(&b'.');
    }
    host
}

/// Index of the first label of the registered domain by the public suffix list.
fn listed_start(labels: &[&[u8]]) -> usize {
    let host = labels.join(&b'.');
    let suffix = public_suffix::suffix(&host);
    let suffix = suffix.map(|s| s.name.iter().filter(|&&b| b == b'.').count() + 1);
    labels.len().saturating_sub(suffix.unwrap_or(1) + 1)
}

/// Whether a name can be a host name with at least two labels: letters, digits and inner hyphens;
/// underscores only from the third label on (counted from the right).
pub fn is_host_name(host: &[u8]) -> bool {
    const PLAIN: u8 = 1;
    const UNDERSCORE: u8 = 2;
    const HYPHEN: u8 = 4;
    const KINDS: [u8; 256] = {
        let (mut kinds, mut i) = ([0; 256], 0);
        while i < 256 {
            kinds[i] = match i as u8 {
                b'_' => UNDERSCORE,
                b'-' => HYPHEN,
                b if b.is_ascii_alphanumeric() => PLAIN,
                _ => 0,
            };
            i += 1;
        }
        kinds
    };
    let end = host.iter().rposition(|&b| b != b'.').map_or(0, |last| last + 1);
    let host = &host[..end];
    let mut labels = 0;
    let is_label = |label: &[u8]| {
        labels += 1;
        let plain = if labels > 2 { PLAIN | UNDERSCORE } else { PLAIN };
        let is = |b: &u8, kinds: u8| KINDS[usize::from(*b)] & kinds != 0;
        label.len() <= 63
            && label.first().is_some_and(|b| is(b, plain))
            && label.last().is_some_and(|b| is(b, plain))
            && label.iter().all(|b| is(b, plain | HYPHEN))
    };
    host.len() <= 253 && host.rsplit(|&b| b == b'.').all(is_label) && labels > 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use gauntlet_rules::rule::Source;

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

    /// The plain algorithm: label by label, from the left.
    fn split_slowly(listed: &Boundaries, host: &[u8]) -> (Vec<u8>, Vec<u8>) {
        let host = host.to_ascii_lowercase();
        let labels: Vec<&[u8]> = host.split(|&b| b == b'.').filter(|l| !l.is_empty()).collect();
        let boundary = (0..labels.len())
            .find(|&i| listed.is_boundary(&labels[i..].join(&b'.'), labels.len() - i));
        let start = boundary.unwrap_or_default().saturating_sub(1);
        (labels[..start].join(&b'.'), labels[start..].join(&b'.'))
    }

    #[test]
    fn names_are_split_as_label_by_label() {
        let listed = boundaries(&[
            ("util_rb_tld", "com uk us"),
            ("util_rb_2tld", "co.uk a.com"),
            ("util_rb_3tld", "b.co.uk b.a.com"),
        ]);
        let pieces = ["com", "uk", "us", "co", "a", "B", "ca", "ny", "ci", "pvt", "k12", "", "."];
        let mut seed = 1u32;
        for _ in 0..50_000 {
            let mut host: Vec<&str> = Vec::new();
            for _ in 0..seed >> 16 & 7 {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                host.push(pieces[(seed >> 16) as usize % pieces.len()]);
            }
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let host = host.join(".");
            let (before, domain) = split_slowly(&listed, host.as_bytes());
            assert_eq!(listed.trim(host.as_bytes()), domain, "{host}");
            assert_eq!(listed.split(host.as_bytes()), (before, domain), "{host}");
        }
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
        fn slowly(host: &str) -> bool {
            let labels: Vec<&str> = host.trim_end_matches('.').split('.').rev().collect();
            let is_label = |(place, label): (usize, &&str)| {
                let is_plain = |c: char| c.is_ascii_alphanumeric() || (c == '_' && place > 1);
                (1..=63).contains(&label.len())
                    && label.starts_with(is_plain)
                    && label.ends_with(is_plain)
                    && label.chars().all(|c| is_plain(c) || c == '-')
            };
            host.trim_end_matches('.').len() <= 253
                && labels.len() > 1
                && labels.iter().enumerate().all(is_label)
        }
        let long = "x".repeat(62);
        let pieces = ["a", "Z9", "_", "-", ".", ".", "com", "\u{e9}", " ", &long];
        let mut seed = 11u32;
        for _ in 0..50_000 {
            let mut host = String::new();
            for _ in 0..7 {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                host.push_str(pieces[(seed >> 16) as usize % pieces.len()]);
            }
            assert_eq!(is_host_name(host.as_bytes()), slowly(&host), "{host}");
        }
    }
}
