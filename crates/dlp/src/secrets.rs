//! Private keys and access tokens: found by their beginning, checked by form and checksum.

mod private_key;
mod token;

use aho_corasick::{AhoCorasick, MatchKind};

use crate::detector::{Detector, Family};
use token::Shape;

/// A secret that was found: the detector's place in the list, bytes of the text, and how many bytes
/// of its beginning say what it is and may be shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Match {
    pub(crate) detector: usize,
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) prefix: usize,
}

const fn secret(name: &'static str, title: &'static str, source: &'static str) -> Detector {
    // What is looked for stands in `token` and `private_key`.
    let check = |_: &[u8]| false;
    Detector {
        name,
        family: Family::Secret,
        title,
        source,
        layouts: &[],
        context: &[],
        check,
        shown: (0, 0),
    }
}

const PRIVATE_KEY: &str = "private_key";

pub(crate) const DETECTORS: &[Detector] = &[
    secret(
        PRIVATE_KEY,
        "Private key in PEM, OpenSSH, OpenPGP or PuTTY form",
        "RFC 7468; OpenSSH PROTOCOL.key; RFC 9580 section 6.2; PuTTY appendix C",
    ),
    secret("aws_key", "Amazon Web Services access key", "AWS IAM User Guide, IAM identifiers"),
    secret("github_token", "GitHub token, with its checksum", "GitHub, token formats (April 2021)"),
    secret("jwt", "JSON Web Token", "RFC 7519, RFC 7515 section 7.1"),
    secret(
        "access_token",
        "Token or key of GitLab, Slack, Stripe, Google, SendGrid, npm, PyPI, Hugging Face, DigitalOcean, \
         Shopify, Docker, Vault, Azure Storage and others",
        "the services' own documentation of their prefixes",
    ),
];

/// Finds secrets by their prefixes, in one pass over the text.
#[derive(Debug)]
pub(crate) struct Secrets {
    prefixes: AhoCorasick,
    /// Detector and form behind each prefix; a private key has none.
    found: Vec<(usize, Option<&'static Shape>)>,
}

impl Secrets {
    /// None if no detector of secrets is on.
    pub(crate) fn new(detectors: &[&'static Detector]) -> Option<Self> {
        let place = |name: &str| detectors.iter().position(|d| d.name == name);
        let (mut prefixes, mut found) = (Vec::new(), Vec::new());
        for shape in token::SHAPES {
            if let Some(detector) = place(shape.detector) {
                prefixes.push(shape.prefix);
                found.push((detector, Some(shape)));
            }
        }
        if let Some(detector) = place(PRIVATE_KEY) {
            for marker in private_key::MARKERS {
                prefixes.push(marker);
                found.push((detector, None));
            }
        }
        if prefixes.is_empty() {
            return None;
        }
        let built = AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(prefixes);
        // A few dozen short prefixes never exceed the automaton's limits.
        built.ok().map(|prefixes| Secrets { prefixes, found })
    }

    /// Every secret of a text, in order.
    pub(crate) fn find(&self, text: &str) -> Vec<Match> {
        let (mut all, mut free_from) = (Vec::new(), 0);
        for prefix in self.prefixes.find_iter(text) {
            if prefix.start() < free_from {
                continue;
            }
            let (detector, shape) = self.found[prefix.pattern().as_usize()];
            let range = match shape {
                Some(shape) => shape.find(text, prefix.start(), prefix.end(), &mut free_from),
                None => private_key::find(text, prefix.start(), prefix.end(), free_from),
            };
            if let Some((start, end, prefix)) = range {
                all.push(Match { detector, start, end, prefix });
                free_from = end;
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::detectors;

    pub(super) fn found(text: &str) -> Vec<(&'static str, String)> {
        let all: Vec<&'static Detector> = detectors::all().collect();
        let secrets = Secrets::new(&all).unwrap();
        let shown = |m: &Match| (all[m.detector].name, text[m.start..m.end].to_owned());
        secrets.find(text).iter().map(shown).collect()
    }

    #[test]
    fn without_detectors_there_is_nothing_to_build() {
        assert!(Secrets::new(&[]).is_none());
    }

    #[test]
    fn no_prefix_of_a_text_panics() {
        let text = "é-----BEGIN RSA PRIVATE KEY-----\nMIIE\u{fffd} ghp_ eyJhbGciOiJIUzI1NiJ9.e30. AKIAé SG.a.b";
        for (end, _) in text.char_indices() {
            let _ = found(&text[..end]);
        }
        assert_eq!(found(text), []);
    }
}
