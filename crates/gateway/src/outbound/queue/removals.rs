//! Messages that go out without some of their files: the original is in quarantine before the
//! changed message leaves.
//!
//! ```text
//! active ─▶ disarm ─▶ hold the original: durable ─▶ send the changed message ─▶ settle
//!              └─ nothing to take out ───────────────────▲
//! ```
//!
//! A crash in between leaves the message in the spool: it is held again under the same id, which
//! changes nothing, and sent.

use std::sync::Arc;

use bytes::Bytes;
use gauntlet_policy::rewrite::{DisarmOutcome, DisarmedPart};
use gauntlet_store::QuarantineItem;
use gauntlet_verdict::Change;

use super::groups::settled;
use super::{Active, Queue};
use crate::outbound::disarming::DisarmJob;
use crate::outbound::hold::{HoldError, HoldJob};
use crate::outbound::queued_message::QueuedMessage;
use crate::outbound::route::Route;

impl Queue {
    /// Sends a message on, without what the changes take out of it.
    pub(super) fn send_without(
        self: &Arc<Self>,
        active: &Arc<Active>,
        route: Route,
        changes: Vec<Change>,
        targets: Vec<usize>,
    ) {
        if !changes.iter().any(|change| matches!(change, Change::Disarm(_))) {
            return self.hold_and_send(active, route, changes, targets, Vec::new());
        }
        let (queue, held, asked) = (self.clone(), active.clone(), changes.clone());
        let done = Box::new(move |disarmed| {
            queue.hold_and_send(&held, route, changes, targets, disarmed);
        });
        let tools = active.settings.disarming.clone();
        let job = DisarmJob { tools, body: active.body.clone(), changes: asked, done };
        self.parts.disarming.disarm(job);
    }

    /// What becomes of the parts of a message that does not go through the queue and that are to
    /// be disarmed.
    pub(crate) async fn disarmed(&self, body: &Bytes, changes: &[Change]) -> Vec<DisarmedPart> {
        if !changes.iter().any(|change| matches!(change, Change::Disarm(_))) {
            return Vec::new();
        }
        let (sender, disarmed) = tokio::sync::oneshot::channel();
        let done = Box::new(move |parts| {
            let _the_session_may_have_gone = sender.send(parts);
        });
        let tools = self.settings().disarming.clone();
        let (body, changes) = (body.clone(), changes.to_vec());
        self.parts.disarming.disarm(DisarmJob { tools, body, changes, done });
        // A thread that failed has disarmed nothing: the parts are stripped.
        disarmed.await.unwrap_or_default()
    }

    fn hold_and_send(
        self: &Arc<Self>,
        active: &Arc<Active>,
        route: Route,
        changes: Vec<Change>,
        targets: Vec<usize>,
        disarmed: Vec<DisarmedPart>,
    ) {
        let Some(item) = original(&active.message, &changes, &disarmed) else {
            return self.send_changed(active, &route, targets, (&changes, &disarmed));
        };
        let (queue, held) = (self.clone(), active.clone());
        let done = Box::new(move |result: Result<(), HoldError>| match result {
            Ok(()) => queue.send_changed(&held, &route, targets, (&changes, &disarmed)),
            Err(error) => {
                let why = format!("the original cannot be kept: {error}");
                tracing::error!(id = held.message.record.id, why, "a message waits");
                let all = targets.iter().map(|t| settled(*t, None, "", &why));
                queue.settle(held, all.collect());
            }
        });
        self.parts.holder.hold(HoldJob { item, body: active.body.clone(), done });
    }

    /// Puts the originals of a message that does not go through the queue into quarantine; on disk
    /// when it returns. `disarmed` says which parts stay as they are.
    ///
    /// # Errors
    /// Why one could not be held.
    pub(crate) async fn keep_originals(
        &self,
        message: &QueuedMessage,
        body: &Bytes,
        disarmed: &[DisarmedPart],
    ) -> Result<(), HoldError> {
        for target in &message.targets {
            let Some(item) = original(message, &target.changes, disarmed) else { continue };
            let (sender, held) = tokio::sync::oneshot::channel();
            let done = Box::new(move |result| {
                let _the_session_may_have_gone = sender.send(result);
            });
            self.parts.holder.hold(HoldJob { item, body: body.clone(), done });
            held.await.unwrap_or(Err(HoldError::Ended))?;
        }
        Ok(())
    }
}

/// The quarantine's line of the original; none if nothing is taken out of it.
fn original(
    message: &QueuedMessage,
    changes: &[Change],
    disarmed: &[DisarmedPart],
) -> Option<QuarantineItem> {
    let is_clean = |part: u16| {
        let clean = |d: &DisarmedPart| d.part == part && d.outcome == DisarmOutcome::Clean;
        disarmed.iter().any(clean)
    };
    let takes_out = |change: &&Change| match change {
        Change::Disarm(removal) => !removal.parts.iter().all(|p| is_clean(p.part)),
        other => other.removal().is_some(),
    };
    let removal = changes.iter().find(takes_out)?.removal()?;
    let original = &removal.original;
    Some(QuarantineItem {
        id: original.item.clone(),
        folder: removal.folder.clone(),
        recipients: original.recipients.clone(),
        release: Some(removal.release),
        ..message.held()
    })
}
