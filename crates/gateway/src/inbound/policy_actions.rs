//! What a policy asks for beside the disposition: notifications (`notify`) and model updates
//! (`learn`).
//!
//! ```text
//! disposition ─▶ order: what is done, and what not and why, goes into the message's log record
//! (stages)
//!             ─▶ the message is durable, or refused for good
//!             ─▶ carry_out: notifications are durable before the client gets its answer
//! ```
//!
//! A crash before the answer has the client send the message again, and with it the notification:
//! at least once, as the message itself. Model updates are written by a thread of their own after
//! the answer.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use crossbeam_channel::{Receiver, Sender, bounded};
use gauntlet_engine::corrections::policy_reporter_id;
use gauntlet_store::LogRecord;
use gauntlet_store::record::Stage;
use gauntlet_verdict::Change;

use crate::config::PolicySettings;
use crate::inbound::rates::Window;
use crate::outbound::notification::{Notification, unsafe_reason, wanted};
use crate::outbound::queue::Queue;
use crate::scan::corrections::{Circumstances, Opinion, correct_many};
use crate::scan::judge::Judge;

const HOUR: i64 = 3_600;
/// Addresses and rules remembered in each count.
const KEYS_MAX: usize = 20_000;
/// Messages that wait to be learned; their bodies stay in memory.
const UPDATES_MAX: usize = 64;

/// Limits, and the way to the corrections journal.
#[derive(Debug)]
pub struct PolicyActions {
    notifications: Window,
    learned: Window,
    updates: Sender<Opinion>,
}

/// What is to be carried out for one message.
#[derive(Debug, Default)]
pub struct Ordered {
    /// Notifications with the ids that they will be queued under.
    notifications: Vec<(u64, Notification)>,
    /// The message's line of the log as far as it is known; only if somebody is notified.
    record: Option<Box<LogRecord>>,
    update: Option<Opinion>,
}

impl PolicyActions {
    /// Starts the thread that writes to the corrections journal of this data folder.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start(data: PathBuf) -> std::io::Result<Self> {
        let (updates, waiting) = bounded(UPDATES_MAX);
        std::thread::Builder::new()
            .name("policy-learn".to_owned())
            .spawn(move || write(&data, &waiting))?;
        let (notifications, learned) = (Window::new(HOUR, KEYS_MAX), Window::new(HOUR, KEYS_MAX));
        Ok(PolicyActions { notifications, learned, updates })
    }

    /// What the dispositions of a message ask for. What is done and what is not is added to its
    /// stages.
    pub(crate) fn order(
        &self,
        (settings, judge): (&PolicySettings, &Arc<Judge>),
        queue: &Queue,
        record: &mut LogRecord,
        body: &Bytes,
        began: Instant,
    ) -> Ordered {
        let is_one = |c: &Change| matches!(c, Change::Notify { .. } | Change::Learn { .. });
        if !record.dispositions.iter().flat_map(|d| &d.changes).any(is_one) {
            return Ordered::default();
        }
        let mut stages = Vec::new();
        let mut stage = |name: &str, detail: String| {
            stages.push(Stage { detail, ..Stage::now(name, began) });
        };
        let (now_s, mut notifications) = (queue.now_ms() / 1_000, Vec::new());
        let unsafe_reason = unsafe_reason(record, body);
        let most = settings.notifications_per_address_per_hour_max;
        for notification in wanted(&record.dispositions) {
            let (to, rules) = (notification.to.to_lowercase(), notification.rules.join(", "));
            if let Some(why) = unsafe_reason {
                stage("not notified", format!("{to}: {why} ({rules})"));
            } else if self.notifications.count(&to, now_s) > most {
                let limit = "policy.notifications_per_address_per_hour_max";
                stage("not notified", format!("{to}: over {limit} ({rules})"));
            } else {
                let id = queue.own_id();
                stage("notified", format!("{to} by {} ({rules})", crate::ids::to_text(id)));
                notifications.push((id, notification));
            }
        }
        let update = self.update((settings, judge), record, body, now_s, &mut stage);
        record.stages.extend(stages);
        let copy = (!notifications.is_empty()).then(|| Box::new(record.clone()));
        Ordered { notifications, record: copy, update }
    }

    /// What the policy says of the message's class; nothing if its rules contradict each other.
    fn update(
        &self,
        (settings, judge): (&PolicySettings, &Arc<Judge>),
        record: &LogRecord,
        body: &Bytes,
        now_s: i64,
        stage: &mut impl FnMut(&str, String),
    ) -> Option<Opinion> {
        let mut said =
            record.dispositions.iter().flat_map(|d| &d.changes).filter_map(|c| match c {
                Change::Learn { spam, rule } => Some((*spam, rule)),
                _ => None,
            });
        let (spam, rule) = said.next()?;
        let who = format!("policy:{rule}");
        if let Some((_, other)) = said.find(|(other, _)| *other != spam) {
            stage("not learned", format!("{who} and policy:{other} contradict each other"));
        } else if self.learned.count(rule, now_s) > settings.learned_per_rule_per_hour_max {
            stage("not learned", format!("{who}: over policy.learned_per_rule_per_hour_max"));
        } else if self.updates.is_full() {
            stage("not learned", format!("{who}: too many messages wait to be learned"));
        } else {
            stage("learned", format!("as {} by {who}", if spam { "spam" } else { "ham" }));
            let reporter = policy_reporter_id(rule);
            let (envelope, facts) = (record.envelope.clone(), record.facts.clone());
            return Some(Opinion {
                raw: body.clone(),
                came: Circumstances { envelope, facts },
                judge: judge.clone(),
                spam,
                reporter,
                at_s: now_s,
                who,
            });
        }
        None
    }

    /// Queues the notifications, and has the message learned. The message's own fate is decided:
    /// what fails here is logged.
    pub(crate) async fn carry_out(&self, queue: &Arc<Queue>, ordered: Ordered) {
        let Ordered { notifications, record, update } = ordered;
        for (id, notification) in &notifications {
            let Some(record) = &record else { break };
            let (about, to) = (&record.id, &notification.to);
            let rules = notification.rules.join(", ");
            match queue.notify(*id, notification, record).await {
                Ok(()) => {
                    let id = crate::ids::to_text(*id);
                    tracing::info!(id, about, to, rules, "notification of the policy");
                }
                Err(error) => {
                    tracing::error!(%error, about, to, rules, "a notification could not be queued");
                }
            }
        }
        if let Some(update) = update
            && let Err(unsent) = self.updates.try_send(update)
        {
            let who = unsent.into_inner().who;
            tracing::warn!(who, "a message was not learned: too many wait");
        }
    }
}

/// Writes what comes, all that waits with one opening of the journal.
fn write(data: &Path, waiting: &Receiver<Opinion>) {
    while let Ok(first) = waiting.recv() {
        let all: Vec<Opinion> = std::iter::once(first).chain(waiting.try_iter()).collect();
        match correct_many(data, &all) {
            Ok(added) => {
                let who = all.first().map(|one| one.who.as_str());
                tracing::info!(messages = all.len(), added, who, "corrections by the policy");
            }
            Err(error) => tracing::error!(%error, "corrections by the policy could not be written"),
        }
    }
}
