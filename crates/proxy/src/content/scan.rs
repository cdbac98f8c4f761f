//! Downloads and what scans them: the trait that the program fills in.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use gauntlet_sniff::FileKind;

/// A file that a client fetches, whole and with its content codings undone.
#[derive(Debug, Clone)]
pub struct Download {
    /// The file.
    pub bytes: Bytes,
    /// The name that a program would save it by; empty if it has none.
    pub name: String,
    /// The media type that the server says; empty if none.
    pub declared_type: String,
    /// What the bytes are.
    pub kind: FileKind,
    /// Where it comes from.
    pub url: String,
}

/// What a scanner says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScanVerdict {
    /// Nothing was found.
    Clean,
    /// It is not to pass.
    Found {
        /// What was found, for the record and the rule on the page.
        name: String,
    },
    /// It unpacks to far more than it is, and where: it does not pass, whatever `fail` says.
    Bomb(String),
    /// The file is such that it cannot be read, now or later, and why: `fail` decides.
    Unreadable(String),
    /// There is no verdict, and why: the setting `fail` decides.
    Failed(String),
}

/// Looks at downloads: it unpacks them, and asks malware engines.
pub trait ScanDownload: Send + Sync {
    /// Whether it has anything to look for now. What has not is as if it were not there.
    fn is_on(&self) -> bool {
        true
    }

    /// Looks at a file. It may take its time; when it is over, the future is dropped.
    fn scan(&self, download: Download) -> BoxFuture<'static, ScanVerdict>;
}

/// Bytes of all responses that are held back.
#[derive(Debug, Default)]
pub(super) struct Held {
    bytes: AtomicU64,
}

/// One response's share of it, given back when dropped.
#[derive(Debug)]
pub(super) struct Share {
    held: Arc<Held>,
    bytes: u64,
}

impl Share {
    pub(super) fn new(held: &Arc<Held>) -> Self {
        Share { held: Arc::clone(held), bytes: 0 }
    }

    /// Takes more. False if all together would be more than `max`: nothing is taken.
    pub(super) fn take(&mut self, more: u64, max: u64) -> bool {
        let before = self.held.bytes.fetch_add(more, Ordering::Relaxed);
        if before.saturating_add(more) > max {
            self.held.bytes.fetch_sub(more, Ordering::Relaxed);
            return false;
        }
        self.bytes = self.bytes.saturating_add(more);
        true
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.held.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_bounded_together_and_given_back() {
        let held = Arc::new(Held::default());
        let (mut one, mut two) = (Share::new(&held), Share::new(&held));
        assert!(one.take(60, 100));
        assert!(!two.take(50, 100));
        assert!(two.take(40, 100));
        drop(one);
        assert!(two.take(60, 100));
        drop(two);
        assert_eq!(held.bytes.load(Ordering::Relaxed), 0);
    }
}
