//! What a node sends of its held mail at once, and what takes it.

use std::collections::BTreeMap;
use std::future::Future;

use bytes::Bytes;
use gauntlet_store::quarantine::{Held, State};

use crate::bodies::Span;
use crate::error::ArrayError;

/// An item that the array does not have.
#[derive(Debug, Clone, PartialEq)]
pub struct NewRow {
    /// The item.
    pub held: Held,
    /// Where its body is in the batch's object; none if it has none, or it cannot be read.
    pub body: Option<Span>,
}

/// A change of an item that the array has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedRow {
    /// Id of the item.
    pub id: String,
    /// Its state.
    pub state: State,
    /// When it came into it, in Unix milliseconds.
    pub changed_ms: i64,
    /// Its body is still kept.
    pub has_body: bool,
}

/// Rows of one transaction.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct HeldBatch {
    /// Number of the object with the bodies, and its bytes.
    pub object: Option<(i64, u64)>,
    /// Items to enter.
    pub new: Vec<NewRow>,
    /// Items to change.
    pub changed: Vec<ChangedRow>,
    /// Ids of items to remove.
    pub forgotten: Vec<String>,
}

/// The array as shipping sees it; a simulation has another.
pub trait HeldSink: Send {
    /// Which of these items the array has, and whether with a body.
    fn known(
        &mut self,
        ids: &[String],
    ) -> impl Future<Output = Result<BTreeMap<String, bool>, ArrayError>> + Send;

    /// Announces an object of this name. Returns its number.
    fn announce(&mut self, name: &str) -> impl Future<Output = Result<i64, ArrayError>> + Send;

    /// Stores an object durably.
    fn put(
        &mut self,
        name: &str,
        object: Bytes,
    ) -> impl Future<Output = Result<(), ArrayError>> + Send;

    /// Writes all rows, or none.
    fn commit(&mut self, batch: &HeldBatch) -> impl Future<Output = Result<(), ArrayError>> + Send;
}
