//! URLs in texts of messages.

use memchr::memmem;

/// Longest line that is waited for.
const LINE_BYTES_MAX: usize = 8192;

/// The most URLs that are kept of one message.
pub(super) const URLS_MAX: usize = 4096;

/// Gathers URLs from decoded text that comes in parts.
#[derive(Debug, Clone, Default)]
pub(super) struct UrlFinder {
    /// The last line so far, if a URL could go on behind it.
    line: Vec<u8>,
}

impl UrlFinder {
    /// Takes text.
    pub(super) fn text(&mut self, text: &[u8], schemes: &[Vec<u8>], urls: &mut Vec<Vec<u8>>) {
        let had_line = !self.line.is_empty();
        if had_line {
            self.line.extend_from_slice(text);
        }
        let whole = if had_line { self.line.as_slice() } else { text };
        let Some(&last) = whole.last() else { return };
        if last == b'\n' || whole.len() > LINE_BYTES_MAX {
            find(whole, schemes, urls);
            self.line.clear();
            return;
        }
        let new = whole.len() - text.len();
        let end = memchr::memrchr(b'\n', text).map(|end| new + end);
        match end {
            Some(end) => {
                find(whole.get(..end).unwrap_or_default(), schemes, urls);
                self.line = whole.get(end..).unwrap_or_default().to_vec();
            }
            None if !had_line => self.line.extend_from_slice(text),
            None => {}
        }
    }

    /// Forgets the last line.
    pub(super) fn clear(&mut self) {
        self.line.clear();
    }
}

/// All URLs of a text, without their schemes.
fn find(text: &[u8], schemes: &[Vec<u8>], urls: &mut Vec<Vec<u8>>) {
    let lower = text.to_ascii_lowercase();
    for scheme in schemes {
        let finder = memmem::Finder::new(scheme);
        let mut from = 0;
        while let Some(found) = lower.get(from..).and_then(|rest| finder.find(rest)) {
            let begin = from + found;
            let rest = text.get(begin..).unwrap_or_default();
            let end = rest.iter().position(|byte| b" \"'<>]\t".contains(byte));
            let url = rest.get(..end.unwrap_or(rest.len())).unwrap_or_default();
            if urls.len() < URLS_MAX {
                urls.push(url.get(scheme.len()..).unwrap_or_default().to_vec());
            }
            from = begin + url.len().max(1);
        }
    }
}
