//! Mail that is accepted and to be held, until the quarantine has it: how much there is, and when
//! no more of it is accepted.
//!
//! Acceptance writes to the spool, the quarantine to packs and a database. Where the latter is
//! slower (a full or slow disk), what waits is in the spool, and would fill it. Beyond
//! `quarantine.backlog_max` mail that would be held gets 451; other mail passes.

use gauntlet_store::Delivery;

use super::Queue;
use crate::outbound::queued_message::{Action, Target};

impl Queue {
    /// Messages that are to be held and are not yet.
    pub fn hold_backlog(&self) -> u64 {
        (self.state().to_hold.len() as u64).max(self.parts.holder.waiting())
    }

    /// So many wait that no more mail is accepted that would be held.
    pub fn is_hold_backlog_full(&self) -> bool {
        self.hold_backlog() >= self.parts.settings.get().hold_backlog_max
    }

    /// Counts a message while it is to be held, or no more.
    pub(super) fn note_backlog(&self, id: u64, targets: &[Target], deliveries: &[Delivery]) {
        let mut open = deliveries.iter().zip(targets).filter(|(d, _)| !d.outcome.is_final());
        let is_to_hold = open.any(|(_, t)| matches!(t.action, Action::Quarantine { .. }));
        let mut state = self.state();
        if is_to_hold {
            state.to_hold.insert(id);
        } else {
            state.to_hold.remove(&id);
        }
    }

    /// A message waits for no quarantine any more.
    pub(super) fn leave_backlog(&self, id: u64) {
        self.state().to_hold.remove(&id);
    }
}
