//! Digests of an array: one node makes the round of a day for all of them.
//!
//! The round is a duty that one node takes; each address is another, which is never taken again for
//! the same round: who dies between the two costs somebody this digest, and the next one has what
//! it would have had. So nobody gets two, and no held message stays unmentioned.

use std::time::Duration;

use gauntlet_array::{Duties, Duty};
use gauntlet_console::digest::{Digest, DigestMail};
use gauntlet_store::StoreError;
use gauntlet_store::quarantine::{Held, HeldMail};

use gauntlet_array::SharedQuarantine;
use gauntlet_store::{Quarantine, Users};

/// A round whose node shows no sign of life for so long is gone on with by another.
pub(crate) const AGAIN_AFTER: Duration = Duration::from_secs(15 * 60);
/// Name of the round among the duties.
const ROUND: &str = "digests";

/// Takes the round that is due since then.
///
/// # Errors
/// If the database cannot be asked.
pub(crate) fn take_round(duties: &Duties, due_ms: i64) -> Result<Duty, StoreError> {
    duties.take(ROUND, due_ms, Some(AGAIN_AFTER))
}

/// The round is made.
///
/// # Errors
/// If the database cannot be asked.
pub(crate) fn end_round(duties: &Duties, due_ms: i64) -> Result<(), StoreError> {
    duties.done(ROUND, due_ms)?;
    duties.forget()
}

/// The held mail of an array for its digests.
pub(crate) struct ArrayMail<'a> {
    pub(crate) duties: &'a Duties,
    pub(crate) held: &'a SharedQuarantine,
    /// This node's own, with its marks from the time before it was in the array.
    pub(crate) own: &'a Quarantine,
    pub(crate) users: &'a Users,
    /// Name of this node.
    pub(crate) name: &'a str,
    /// Since when the round is due; of one by hand, when it began.
    pub(crate) due_ms: i64,
    /// It is the round of the schedule, which another node takes over if this one dies.
    pub(crate) is_scheduled: bool,
}

impl DigestMail for ArrayMail<'_> {
    fn recipients(&self, after: &str, limit: usize) -> Result<Vec<String>, StoreError> {
        self.held.recipients_with_held(after, limit)
    }

    fn fresh(&self, address: &str) -> Result<Vec<Held>, StoreError> {
        let mark = self.users.digest_mark(address)?;
        let mut held = self.duties.fresh(address)?;
        if mark > 0 {
            let mut fresh = Vec::with_capacity(held.len());
            for one in held {
                let own = match one.node == self.name {
                    true => self.own.get(&one.item.id)?,
                    false => None,
                };
                if own.is_none_or(|own| own.seq > mark) {
                    fresh.push(one);
                }
            }
            held = fresh;
        }
        Ok(held)
    }

    fn take(&self, address: &str) -> Result<bool, StoreError> {
        if self.is_scheduled && !self.duties.keep(ROUND, self.due_ms)? {
            let cause = "another node goes on with this round of digests".to_owned();
            return Err(StoreError::Invalid { what: "digests", cause });
        }
        let name = format!("digest to {}", address.to_lowercase());
        Ok(self.duties.take(&name, self.due_ms, None)? == Duty::Ours)
    }

    fn sent(&self, digest: &Digest, _: i64) -> Result<(), StoreError> {
        self.duties.digested(&digest.address, &digest.items)
    }
}
