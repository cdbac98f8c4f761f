//! Reading held mail, wherever it is kept.

use super::{FolderSummary, Held, HeldPage, HeldQuery, Quarantine};
use crate::error::StoreError;

/// Held mail as pages, the API and digests read it: a node's own ([`Quarantine`]) or that of an
/// array. What changes an item is done by the node that has it. An item is named by its reference
/// ([`Held::reference`]), or by its id alone where one node has it. All methods block.
pub trait HeldMail: Send + Sync {
    /// The newest items that match the query.
    ///
    /// # Errors
    /// If the index cannot be read.
    fn search(&self, query: &HeldQuery) -> Result<HeldPage, StoreError>;

    /// The item; none if it does not exist, or retention removed it.
    ///
    /// # Errors
    /// If the index cannot be read.
    fn get(&self, id: &str) -> Result<Option<Held>, StoreError>;

    /// What [`HeldMail::get`] gives for each of these, in their order; asked at once where that is
    /// a way to another machine.
    ///
    /// # Errors
    /// As [`HeldMail::get`], for the first that has one.
    fn get_all(&self, ids: &[&str]) -> Result<Vec<Option<Held>>, StoreError> {
        ids.iter().map(|id| self.get(id)).collect()
    }

    /// The message as received, verified; none if the item is unknown or its body is deleted.
    ///
    /// # Errors
    /// If the body cannot be read or decrypted, or is damaged.
    fn body(&self, id: &str) -> Result<Option<Vec<u8>>, StoreError>;

    /// The folders with held items, by name.
    ///
    /// # Errors
    /// If the index cannot be read.
    fn folders(&self) -> Result<Vec<FolderSummary>, StoreError>;

    /// Recipients of held items in lower case, sorted, after `after`.
    ///
    /// # Errors
    /// If the index cannot be read.
    fn recipients_with_held(&self, after: &str, limit: usize) -> Result<Vec<String>, StoreError>;
}

impl HeldMail for Quarantine {
    fn search(&self, query: &HeldQuery) -> Result<HeldPage, StoreError> {
        Quarantine::search(self, query)
    }

    fn get(&self, id: &str) -> Result<Option<Held>, StoreError> {
        Quarantine::get(self, id)
    }

    fn body(&self, id: &str) -> Result<Option<Vec<u8>>, StoreError> {
        Quarantine::body(self, id)
    }

    fn folders(&self) -> Result<Vec<FolderSummary>, StoreError> {
        Quarantine::folders(self)
    }

    fn recipients_with_held(&self, after: &str, limit: usize) -> Result<Vec<String>, StoreError> {
        Quarantine::recipients_with_held(self, after, limit)
    }
}
