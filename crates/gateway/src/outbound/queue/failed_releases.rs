//! A message that was released from quarantine and could not be delivered.
//!
//! Nobody but the person who released it waits for it: its sender gets no report, unless they sent
//! it through us. Where it reached nobody, it is held again, so that it can be released once the
//! cause is gone.

use gauntlet_store::quarantine::Held;
use gauntlet_store::{Delivery, Event, Outcome};

use super::Queue;

/// What is known of a released message whose outcomes are final.
#[derive(Debug)]
pub(super) struct ReleasedMessage {
    /// Token of its release.
    pub token: String,
    /// Its own id: a release goes out as a message of its own.
    pub id: String,
    /// What became of it.
    pub deliveries: Vec<Delivery>,
}

impl Queue {
    /// Tells of a release that failed, and holds the message again if it reached nobody. Blocks.
    pub(super) fn conclude_release(&self, released: &ReleasedMessage) {
        let (id, deliveries) = (&released.id, &released.deliveries);
        let is_failed = |delivery: &&Delivery| delivery.outcome == Outcome::Failed;
        let Some(first) = deliveries.iter().find(is_failed) else { return };
        // Some who wanted it may have it: nobody shall get it twice.
        let again = deliveries.iter().all(|delivery| is_failed(&delivery));
        let why = format!("as {id}: {} {}", first.next_hop, first.reply);
        let now = self.parts.clock.clock().unix_ms();
        let quarantine = self.parts.arrivals.quarantine();
        let held = match quarantine.release_failed(&released.token, &why, again, now) {
            Ok(held) => held,
            Err(error) => {
                tracing::error!(%error, id, "a message could not be held again");
                None
            }
        };
        let item = held.as_ref().map(|held| held.item.id.as_str()).unwrap_or_default();
        let hint = match again && held.is_some() {
            true => "it is held again: release it once the cause is gone",
            false => "see `gauntlet trace`; others may have got it",
        };
        for delivery in deliveries.iter().filter(is_failed) {
            let (to, next_hop, reply) = (&delivery.address, &delivery.next_hop, &delivery.reply);
            tracing::warn!(item, id, to, next_hop, reply, hint, "a release could not be delivered");
        }
        if let Some(held) = held {
            let events = deliveries.iter().filter(is_failed).map(|d| event(&held, id, d, now));
            self.parts.log.append_or_tell(Vec::new(), events.collect());
        }
    }
}

/// The failure, in the life of the message that was held.
fn event(held: &Held, id: &str, delivery: &Delivery, now_ms: i64) -> Event {
    Event {
        id: held.item.message.clone(),
        received_ms: held.item.received_ms,
        at_ms: now_ms,
        kind: "release_failed".to_owned(),
        recipient: delivery.address.clone(),
        detail: format!("as {id}: {} {}", delivery.next_hop, delivery.reply),
    }
}
