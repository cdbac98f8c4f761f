//! What grows is cut back: the message log and the quarantine.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use gauntlet_mail::date::DAY_MS;
use gauntlet_store::StoreError;
use tokio::sync::Notify;

use super::Node;
use crate::clock::Clock;
use crate::clock::steady::SteadyClock;
use crate::config::Config;

/// Between two rounds of removing what is too old or too much.
const HOUSEKEEPING_PAUSE: Duration = Duration::from_secs(300);
/// Between two times that the steady time is written down.
const STAMP_PAUSE: Duration = Duration::from_secs(60);
/// So many held messages may always go at once: of a few, any is a large share.
const EXPIRE_ALWAYS: u64 = 100;

/// What housekeeping would rather ask before it does it.
#[derive(Debug)]
pub(super) struct Retention {
    /// The time that things age by.
    clock: Arc<SteadyClock>,
    /// What is to be asked.
    question: Mutex<Option<String>>,
    /// The next round may delete what it wants to.
    accepted: AtomicBool,
    wake: Notify,
}

impl Retention {
    /// With the steady time of this node's data folder; `newest_ms` as for [`SteadyClock::open`].
    pub(super) fn open(
        config: &Config,
        clock: Clock,
        newest_ms: impl FnOnce() -> Option<i64>,
    ) -> Self {
        let clock =
            SteadyClock::open(&config.node.data, config.clock.jump_seconds_max, clock, newest_ms);
        let (question, accepted, wake) = (Mutex::default(), AtomicBool::new(false), Notify::new());
        Retention { clock: Arc::new(clock), question, accepted, wake }
    }

    pub(super) fn clock(&self) -> Arc<SteadyClock> {
        self.clock.clone()
    }
}

impl Node {
    /// What keeps the node from taking mail.
    pub fn problems(&self) -> Vec<String> {
        let full = self.spool.reserve(0).err().map(|e| e.to_string());
        let failed = self.spool.last_failure().map(|why| {
            format!("the spool could not write: {why}; it is tried again every few seconds")
        });
        self.drain_problem().into_iter().chain(full).chain(failed).collect()
    }

    /// What an administrator should decide: before anything is deleted for its age, about days of
    /// the log that are damaged, and when to restart a node that lacks a process; nothing is the
    /// rule.
    pub fn questions(&self) -> Vec<String> {
        let of_unpacking = self.judge().unpacking.as_ref().and_then(|u| u.question());
        let asked = self.questions_of_age().into_iter().chain(self.log.damaged_days());
        asked.chain(of_unpacking).collect()
    }

    /// Those that `gauntlet clock --accept` answers.
    fn questions_of_age(&self) -> Vec<String> {
        let of_clock = self.retention.clock.question();
        let question = self.retention.question.lock().unwrap_or_else(PoisonError::into_inner);
        of_clock.into_iter().chain(question.clone()).collect()
    }

    /// An administrator says that the clock is right, and that what is too old may go. Returns how
    /// many questions that answers.
    ///
    /// # Errors
    /// If it cannot be written down.
    pub fn accept_clock(&self) -> std::io::Result<usize> {
        // It repairs nothing that is damaged.
        let questions = self.questions_of_age().len();
        self.retention.clock.accept()?;
        self.retention.accepted.store(true, Ordering::Relaxed);
        self.retention.wake.notify_one();
        Ok(questions)
    }

    /// Retention of log and quarantine, and compaction of the latter, again and again.
    pub(super) async fn housekeeping(self: Arc<Self>) {
        let mut stopping = self.stop.subscribe();
        loop {
            let node = self.clone();
            let kept = tokio::task::spawn_blocking(move || node.keep_house());
            if let Ok(Err(error)) = kept.await {
                tracing::warn!(%error, "old records could not be removed");
            }
            tokio::select! {
                () = tokio::time::sleep(HOUSEKEEPING_PAUSE) => {}
                () = self.retention.wake.notified() => {}
                _ = stopping.wait_for(|stop| *stop) => return,
            }
        }
    }

    fn keep_house(&self) -> Result<(), StoreError> {
        // Not the wall clock: one that is days ahead would make everything too old.
        let (config, now) = (self.config(), self.retention.clock.now_ms());
        self.log.retain(now, config.log.retention_days)?;
        let q = &config.quarantine;
        let before_ms = now - i64::from(q.retention_days) * DAY_MS;
        let mut folders = crate::admin::quarantine::folder_limits(&config);
        let accepted = self.retention.accepted.swap(false, Ordering::Relaxed);
        let (expired, held) = self.quarantine.count_expired(before_ms, &folders, now)?;
        let percent_max = u64::from(q.expire_percent_max);
        let many = expired > EXPIRE_ALWAYS
            && expired.saturating_mul(100) > held.saturating_mul(percent_max);
        let question = (many && !accepted).then(|| {
            format!(
                "{expired} of {held} held messages are older than they are kept, more than \
                 quarantine.expire_percent_max = {percent_max} in a hundred. They are kept until you \
                 say `gauntlet clock --accept`"
            )
        });
        let asks = question.is_some();
        {
            let mut asked = self.retention.question.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(question) = question.as_ref().filter(|_| asked.is_none()) {
                tracing::error!("{question}");
            }
            *asked = question;
        }
        // Room is made whatever the time is: the caps count bytes.
        let before_ms = if asks { i64::MIN } else { before_ms };
        if asks {
            folders.iter_mut().for_each(|folder| folder.retention_days = u32::MAX);
        }
        self.quarantine.retain_folders(&folders, now)?;
        self.quarantine.retain_except(before_ms, Some(q.bytes_max), &folders, now)?;
        self.quarantine.maintain()
    }

    /// Moves held bodies of before the packs into packs, while mail goes on.
    pub(super) async fn move_held_mail(self: Arc<Self>) {
        let (quarantine, stopping) = (self.quarantine.clone(), self.stop.subscribe());
        let moved =
            tokio::task::spawn_blocking(move || quarantine.move_old(|| !*stopping.borrow()));
        match moved.await {
            Ok(Ok(0)) | Err(_) => {}
            Ok(Ok(items)) => tracing::info!(items, "held mail was moved into packs"),
            Ok(Err(error)) => {
                tracing::error!(%error, "held mail could not be moved into packs; the next start goes on");
            }
        }
    }

    /// Writes the steady time down, again and again.
    pub(super) async fn keep_time(self: Arc<Self>) {
        let mut stopping = self.stop.subscribe();
        loop {
            let node = self.clone();
            let written = tokio::task::spawn_blocking(move || {
                node.retention.clock.set_jump_max(node.config().clock.jump_seconds_max);
                node.retention.clock.write()
            });
            if let Ok(Err(error)) = written.await {
                tracing::warn!(%error, "the time cannot be stored");
            }
            tokio::select! {
                () = tokio::time::sleep(STAMP_PAUSE) => {}
                _ = stopping.wait_for(|stop| *stop) => return,
            }
        }
    }
}
