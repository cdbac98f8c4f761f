//! Patterns with `*` and `?` on addresses, subjects and domains.

/// A file-glob over bytes: `*` is any text without a line feed, `?` one such byte.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::evals) struct Glob(pub(super) Box<[u8]>);

impl Glob {
    pub(in crate::evals) fn new(text: &str) -> Self {
        Glob(text.to_ascii_lowercase().into_bytes().into())
    }

    /// Whether the whole text (in lower case) matches.
    pub(in crate::evals) fn matches(&self, text: &[u8]) -> bool {
        // The bytes after the last wildcard must end the text; this rejects most texts at once.
        for (wanted, byte) in self.0.iter().rev().zip(text.iter().rev().chain([&b'\n'])) {
            if matches!(wanted, b'*' | b'?') {
                break;
            }
            if wanted != byte {
                return false;
            }
        }
        let (mut p, mut t) = (0, 0);
        // Where to resume if the text after the last star does not match.
        let mut retry: Option<(usize, usize)> = None;
        while t < text.len() {
            let fits = match self.0.get(p) {
                Some(b'*') => {
                    retry = Some((p + 1, t));
                    p += 1;
                    continue;
                }
                Some(b'?') => text[t] != b'\n',
                Some(&b) => b == text[t],
                None => false,
            };
            if fits {
                (p, t) = (p + 1, t + 1);
            } else if let Some((after_star, at)) = retry.filter(|&(_, at)| text[at] != b'\n') {
                retry = Some((after_star, at + 1));
                (p, t) = (after_star, at + 1);
            } else {
                return false;
            }
        }
        self.0[p.min(self.0.len())..].iter().all(|&b| b == b'*')
    }

    /// Whether any piece of the text (in lower case) matches.
    pub(in crate::evals) fn is_within(&self, text: &[u8]) -> bool {
        Glob([b"*", &*self.0, b"*"].concat().into()).matches(text)
    }

    /// The last byte of every text that matches; `None` if it varies.
    pub(super) fn last_byte(&self) -> Option<u8> {
        self.0.last().copied().filter(|b| !matches!(b, b'*' | b'?'))
    }

    pub(super) fn is_plain(&self) -> bool {
        !self.0.iter().any(|b| matches!(b, b'*' | b'?'))
    }
}

/// A domain pattern, whose `*` does not cross a dot.
#[derive(Debug)]
pub(super) struct DomainGlob(pub(super) Box<[u8]>);

impl DomainGlob {
    pub(super) fn matches(&self, domain: &[u8]) -> bool {
        // Nearly all differ before the first wildcard, or after the last.
        let is_plain = |b: &&u8| !matches!(b, b'*' | b'?');
        let mut head = self.0.iter().take_while(is_plain);
        let mut tail = self.0.iter().rev().take_while(is_plain);
        let (mut bytes, mut backwards) = (domain.iter(), domain.iter().rev());
        head.all(|wanted| bytes.next() == Some(wanted))
            && tail.all(|wanted| backwards.next() == Some(wanted))
            && domain_glob(&self.0, domain)
    }
}

/// Whether a domain matches a pattern whose `*` does not cross a dot (and whose `?` is any byte).
fn domain_glob(pattern: &[u8], domain: &[u8]) -> bool {
    match (pattern.split_first(), domain.split_first()) {
        (None, None) => true,
        (Some((b'*', rest)), _) => {
            let label = domain.iter().take_while(|&&b| b != b'.').count();
            (0..=label).any(|n| domain_glob(rest, &domain[n..]))
        }
        (Some((b'?', p)), Some((_, d))) => domain_glob(p, d),
        (Some((a, p)), Some((b, d))) => a == b && domain_glob(p, d),
        _ => false,
    }
}
