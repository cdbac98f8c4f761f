//! Certificates of the authority that are kept, by host.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use tokio_rustls::rustls::sign::CertifiedKey;

use super::authority::{Authority, AuthorityError};
use super::lru::Lru;
use crate::counters::Counters;

/// A certificate that ends sooner is made anew.
const LEFT_MIN: Duration = Duration::from_secs(3600);

/// Issues certificates, and keeps those that were used last.
#[derive(Debug)]
pub(crate) struct Certificates {
    authority: Authority,
    days: u64,
    kept: Mutex<Lru<String, Kept>>,
    counters: Arc<Counters>,
}

#[derive(Debug)]
struct Kept {
    key: Arc<CertifiedKey>,
    ends: SystemTime,
}

impl Certificates {
    pub(crate) fn new(
        authority: Authority,
        days: u64,
        max: usize,
        counters: Arc<Counters>,
    ) -> Self {
        Certificates { authority, days, kept: Mutex::new(Lru::new(max)), counters }
    }

    pub(crate) fn authority(&self) -> &Authority {
        &self.authority
    }

    /// The certificate for a host. Two that ask at once may both make one; the later is kept.
    ///
    /// # Errors
    /// If the host cannot stand in a certificate.
    pub(crate) fn get(&self, host: &str) -> Result<Arc<CertifiedKey>, AuthorityError> {
        let key = host.to_owned();
        let good_at = SystemTime::now() + LEFT_MIN;
        if let Some(kept) = self.lock().get(&key).filter(|kept| kept.ends > good_at) {
            return Ok(Arc::clone(&kept.key));
        }
        let (certified, ends) = self.authority.issue(host, self.days)?;
        self.counters.certificates_issued.add(1);
        let mut kept = self.lock();
        kept.insert(key, Kept { key: Arc::clone(&certified), ends });
        self.counters.certificates_kept.set(kept.len() as u64);
        Ok(certified)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Lru<String, Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
