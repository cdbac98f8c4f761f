//! What happens to a group of targets: next hop, Maildir, quarantine, or nothing more.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use gauntlet_policy::rewrite::DisarmedPart;
use gauntlet_store::Outcome;
use gauntlet_verdict::Change;

use super::groups::{Group, outgoing, settled};
use super::{Active, Queue};
use crate::message::OutgoingMessage;
use crate::outbound::hold::{HoldError, HoldJob};
use crate::outbound::maildir::MaildirJob;
use crate::outbound::queued_message::{Action, QueuedMessage};
use crate::outbound::route::Route;
use crate::outbound::sender::DeliveryJob;

impl Queue {
    pub(super) fn start(self: &Arc<Self>, active: &Arc<Active>, group: Group, targets: Vec<usize>) {
        let (queue, held) = (self.clone(), active.clone());
        match group {
            Group::Settle(outcome, reply) => {
                let all = targets.iter().map(|t| settled(*t, Some(outcome), "", &reply));
                queue.settle(held, all.collect());
            }
            Group::Hold(folder) => {
                let item = active.message.item(&folder, &targets);
                let done = Box::new(move |result: Result<(), HoldError>| {
                    let (outcome, reply) = match result {
                        Ok(()) => (Some(Outcome::Quarantined), String::new()),
                        Err(error) => (None, error.to_string()),
                    };
                    let all = targets.iter().map(|t| settled(*t, outcome, &folder, &reply));
                    queue.settle(held, all.collect());
                });
                self.parts.holder.hold(HoldJob { item, body: active.body.clone(), done });
            }
            Group::Send(route, changes) => self.send_without(active, route, changes, targets),
        }
    }

    /// Sends a message on with these changes.
    pub(super) fn send_changed(
        self: &Arc<Self>,
        active: &Arc<Active>,
        route: &Route,
        targets: Vec<usize>,
        (changes, disarmed): (&[Change], &[DisarmedPart]),
    ) {
        let (queue, held) = (self.clone(), active.clone());
        let record = &active.message.record;
        let changed = self.changed(&active.settings, record, &active.body, changes, disarmed);
        let body = match changed {
            Ok(body) => body,
            Err(why) => {
                let all = targets.iter().map(|t| settled(*t, None, "", &why));
                return queue.settle(held, all.collect());
            }
        };
        if *route == Route::Maildir {
            for target in targets {
                self.into_maildir(active, target, body.clone());
            }
            return;
        }
        let outgoing = outgoing(&active.message, &targets, body.size());
        let done = Box::new(move |all| queue.settle(held, all));
        self.parts.sender.send(route, DeliveryJob { outgoing, targets, body, done });
    }

    fn into_maildir(self: &Arc<Self>, active: &Arc<Active>, target: usize, body: OutgoingMessage) {
        let (queue, held) = (self.clone(), active.clone());
        let record = &active.message.record;
        let seconds = record.received_ms / 1_000;
        let addressed = active.message.targets.get(target);
        let recipient = addressed.map(|t| t.address.clone());
        let routes = &active.settings.routes;
        let folder = addressed.filter(|t| t.spam_folder).and(routes.maildir_spam_folder());
        let filed = folder.map(|name| format!("in {name}")).unwrap_or_default();
        self.parts.maildir.deliver(MaildirJob {
            name: format!("{seconds}.{}_{target}.{}", record.id, self.parts.host),
            sender: record.envelope.mail_from.clone(),
            recipient: recipient.unwrap_or_default(),
            subfolder: folder.map(str::to_owned),
            body,
            done: Box::new(move |result| {
                let one = match result {
                    Ok(()) => settled(target, Some(Outcome::Delivered), "maildir", &filed),
                    Err(error) => settled(target, None, "maildir", &error.to_string()),
                };
                queue.settle(held, vec![one]);
            }),
        });
    }

    /// Puts a message that does not go through the queue into quarantine, for those of its targets
    /// that are to be held; on disk when it returns.
    ///
    /// # Errors
    /// Why it could not be held. Folders before the one that failed may hold it; held again under
    /// the same id it is there once.
    pub(crate) async fn quarantine(
        &self,
        message: &QueuedMessage,
        body: &Bytes,
    ) -> Result<(), HoldError> {
        let mut folders: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (i, target) in message.targets.iter().enumerate() {
            if let Action::Quarantine { folder } = &target.action {
                folders.entry(folder).or_default().push(i);
            }
        }
        for (folder, targets) in folders {
            let (sender, held) = tokio::sync::oneshot::channel();
            let done = Box::new(move |result| {
                let _the_session_may_have_gone = sender.send(result);
            });
            let item = message.item(folder, &targets);
            self.parts.holder.hold(HoldJob { item, body: body.clone(), done });
            held.await.unwrap_or(Err(HoldError::Ended))?;
        }
        Ok(())
    }
}
