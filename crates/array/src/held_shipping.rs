//! Shipping a node's held mail: bodies into the object store, then rows into the database.
//!
//! ```text
//! read changes ─▶ what is known? ─▶ announce object ─▶ put object ─▶ rows, object whole ─▶ forget
//!   node's disk     database          database           store        one transaction     disk
//! ```
//!
//! No row names a body before its object is durable. A crash anywhere repeats the step: what the
//! database knows already is not sent again, and an object that no row came to name is removed by
//! [`crate::held_sweep`]. What waits is on the node's disk (`store::quarantine`, its feed): with
//! database or object store away, held mail waits there, and mail flows.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use gauntlet_store::quarantine::{ChangedItem, HeldChanges};
use gauntlet_store::{Quarantine, StoreError, random};

use crate::bodies::BodyBatch;
use crate::database::Session;
use crate::error::ArrayError;
use crate::held_batch::{ChangedRow, HeldBatch, HeldSink, NewRow};
use crate::held_rows::ToArray;
use crate::nodes::Identity;
use crate::objects::Objects;

/// Most changes of a step.
pub const CHANGES_MAX: usize = 1_000;
/// Most bytes of messages in an object, as received; one that is larger has its own.
pub const OBJECT_BYTES_MAX: u64 = 8 << 20;

/// What a step shipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HeldShipped {
    /// Items whose rows were written, changed or removed.
    pub items: u64,
    /// Bodies sent.
    pub bodies: u64,
    /// Bytes of the object that they became; 0 if none was needed.
    pub object_bytes: u64,
    /// A limit ended the step: more is waiting.
    pub is_full: bool,
}

/// Ships the held mail of one node.
#[derive(Debug)]
pub struct HeldShipper {
    quarantine: Arc<Quarantine>,
    /// What this node's objects are named by.
    identity: String,
    has_begun: bool,
}

impl HeldShipper {
    /// Ships this quarantine as this node.
    pub fn new(quarantine: Arc<Quarantine>, own: &Identity) -> Self {
        HeldShipper { quarantine, identity: own.identity.clone(), has_begun: false }
    }

    /// Ships the oldest changes that wait; none if nothing does. `node` is the number by which the
    /// array knows this node. The first step begins the quarantine's feed.
    ///
    /// # Errors
    /// If the quarantine cannot be read, or database or object store do not take it: everything
    /// waits on.
    pub async fn step(
        &mut self,
        node: i16,
        session: &Session,
        objects: &Objects,
    ) -> Result<Option<HeldShipped>, ArrayError> {
        self.step_to(&mut ToArray { node, session, objects }).await
    }

    /// The same into any sink.
    ///
    /// # Errors
    /// As [`HeldShipper::step`].
    pub async fn step_to(
        &mut self,
        sink: &mut impl HeldSink,
    ) -> Result<Option<HeldShipped>, ArrayError> {
        let (quarantine, has_begun) = (self.quarantine.clone(), self.has_begun);
        let read = blocking(move || next_changes(&quarantine, has_begun)).await?;
        self.has_begun = true;
        let Some((changes, items)) = read else { return Ok(None) };
        let known = sink.known(&changes.ids).await?;
        let quarantine = self.quarantine.clone();
        let (mut batch, bodies) = blocking(move || gather(&quarantine, items, &known)).await?;
        let mut shipped = HeldShipped {
            items: changes.ids.len() as u64,
            bodies: bodies.bodies() as u64,
            object_bytes: 0,
            is_full: changes.is_full,
        };
        if !bodies.is_empty() {
            let name = self.name_of_object()?;
            let number = sink.announce(&name).await?;
            let object = bodies.finish();
            shipped.object_bytes = object.len() as u64;
            batch.object = Some((number, shipped.object_bytes));
            sink.put(&name, object.into()).await?;
        }
        sink.commit(&batch).await?;
        let quarantine = self.quarantine.clone();
        let forgotten = blocking(move || Ok(quarantine.shipped(&changes)?)).await;
        if let Err(error) = forgotten {
            tracing::warn!(%error, "changes of held mail that the array has are sent to it again");
        }
        Ok(Some(shipped))
    }

    /// A name that no other object has, of this node or another.
    fn name_of_object(&self) -> Result<String, ArrayError> {
        let random: [u8; 16] = random::array().map_err(|error| ArrayError::Damaged {
            what: "the system's source of random numbers".to_owned(),
            cause: error.to_string(),
        })?;
        let digits = format!("{:032x}", u128::from_le_bytes(random));
        let (folder, rest) = digits.split_at(2);
        Ok(format!("held/{}/{folder}/{rest}", self.identity))
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ArrayError> + Send + 'static,
) -> Result<T, ArrayError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| ArrayError::Damaged {
        what: "the batch of held mail for the array".to_owned(),
        cause: error.to_string(),
    })?
}

/// The oldest changes with their items.
fn next_changes(
    quarantine: &Quarantine,
    has_begun: bool,
) -> Result<Option<(HeldChanges, Vec<ChangedItem>)>, ArrayError> {
    if !has_begun {
        let waiting = quarantine.begin_feed()?;
        if waiting > CHANGES_MAX as u64 {
            tracing::info!(waiting, "held mail waits for the array");
        }
    }
    let Some(changes) = quarantine.unshipped(CHANGES_MAX, OBJECT_BYTES_MAX)? else {
        return Ok(None);
    };
    let items = quarantine.changed(&changes)?;
    Ok(Some((changes, items)))
}

/// What is to be sent of these items, beside what the array knows.
fn gather(
    quarantine: &Quarantine,
    items: Vec<ChangedItem>,
    known: &BTreeMap<String, bool>,
) -> Result<(HeldBatch, BodyBatch), ArrayError> {
    let (mut batch, mut bodies) = (HeldBatch::default(), BodyBatch::default());
    let mut unreadable = BTreeSet::new();
    for ChangedItem { id, held, body } in items {
        let Some(held) = held else {
            if known.contains_key(&id) {
                batch.forgotten.push(id);
            }
            continue;
        };
        if let Some(has_body) = known.get(&id)
            && (*has_body || body.is_none())
        {
            let (state, changed_ms, has_body) = (held.state, held.changed_ms, body.is_some());
            batch.changed.push(ChangedRow { id, state, changed_ms, has_body });
            continue;
        }
        let mut span = None;
        if let Some(hash) = body.filter(|hash| !unreadable.contains(hash)) {
            match quarantine.stored_body(hash) {
                Ok(Some(stored)) => span = Some(bodies.push(hash, &stored)?),
                // Removed since; a later change says so.
                Ok(None) => {}
                // The rest must not wait for it.
                Err(error @ (StoreError::Damaged { .. } | StoreError::Invalid { .. })) => {
                    tracing::error!(item = id, %error, "a held message goes to the array without its body");
                    unreadable.insert(hash);
                }
                Err(error) => return Err(error.into()),
            }
        }
        batch.new.push(NewRow { held, body: span });
    }
    Ok((batch, bodies))
}
