//! Proofs that an authority asks for (RFC 8555 section 8.3), while there is an order.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// What the authority is to be shown, by token.
#[derive(Debug, Default)]
pub struct Proofs(Mutex<BTreeMap<String, String>>);

impl Proofs {
    /// The proof of this token.
    pub(crate) fn get(&self, token: &str) -> Option<String> {
        self.all().get(token).cloned()
    }

    fn all(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Shows these from now on, until what is returned is dropped.
    pub(super) fn show(self: &Arc<Self>) -> Shown {
        Shown { proofs: self.clone(), tokens: Vec::new() }
    }
}

/// Proofs of one order; they go when it goes.
#[derive(Debug)]
pub(super) struct Shown {
    proofs: Arc<Proofs>,
    tokens: Vec<String>,
}

impl Shown {
    pub(super) fn add(&mut self, token: &str, proof: &str) {
        self.proofs.all().insert(token.to_owned(), proof.to_owned());
        self.tokens.push(token.to_owned());
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        let mut all = self.proofs.all();
        self.tokens.iter().for_each(|token| drop(all.remove(token)));
    }
}
