//! Releases of held mail, and corrections by users.

use gauntlet_engine::site_model::good_mail::SampleKind;
use gauntlet_engine::{Scratch, scan};
use gauntlet_mail::{Direction, Message};
use gauntlet_smtp::address::is_mailbox;
use gauntlet_store::quarantine::{Begin, QuarantineItem, ReleaseOrder, State};
use gauntlet_store::record::RELEASED;
use gauntlet_store::{Event, LogRecord, Stage, StoreError};

use super::Node;
use crate::ids;
use crate::outbound::queue::accept::AcceptError;
use crate::outbound::queued_message::QueuedMessage;
use crate::scan::corrections::{self, Circumstances};
use crate::scan::good_mail::is_judged;

/// Why a held message could not be released or corrected; it is still held.
#[derive(Debug, thiserror::Error)]
pub enum ReleaseError {
    /// The quarantine cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The quarantine has no body any more.
    #[error("the message's body is gone")]
    BodyGone,
    /// It is to go to what is no address.
    #[error("{0:?} is no address that mail can be released to")]
    NotAnAddress(String),
    /// The queue did not take the message.
    #[error(transparent)]
    NotAccepted(#[from] AcceptError),
    /// The correction could not be written down.
    #[error(transparent)]
    Correction(#[from] gauntlet_learning::CorrectionsError),
}

/// What became of a request to release.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Release {
    /// It is in the queue, for these addresses.
    Done(Vec<String>),
    /// It was not held any more.
    NotHeld(State),
    /// Who asked may not release it.
    NotAllowed,
    /// There is no such message.
    Unknown,
}

impl Node {
    /// Hands a held message to the queue, once. Blocks.
    ///
    /// # Errors
    /// A sentence for the person who asked; the message is then still held.
    pub fn release(&self, id: &str, order: &ReleaseOrder) -> Result<Release, ReleaseError> {
        let now = self.clock.unix_ms();
        // Before it counts as released, which it does once.
        if let Some(odd) = order.to.iter().find(|to| !is_mailbox(to.as_bytes())) {
            return Err(ReleaseError::NotAnAddress(odd.clone()));
        }
        let begun = self.quarantine.begin_release(id, order, now)?;
        match begun {
            Begin::Unknown => Ok(Release::Unknown),
            Begin::NotAllowed => Ok(Release::NotAllowed),
            Begin::NotHeld(state) => Ok(Release::NotHeld(state)),
            Begin::Started(release) => {
                let recipients = release.recipients.clone();
                if order.learn
                    && let Err(error) = self.correct(id, false, &order.who)
                {
                    // The message is what was requested first; it goes out all the same.
                    tracing::error!(item = id, %error, "a correction could not be written");
                }
                self.spool_release(&release)?;
                let item = &release.held.item;
                self.know_author(id, now / 1_000);
                if !order.learn {
                    self.sample_released(item, id, now);
                }
                let released = Event {
                    id: item.message.clone(),
                    received_ms: item.received_ms,
                    at_ms: now,
                    kind: "released".to_owned(),
                    recipient: recipients.join(", "),
                    detail: format!("by {}", order.who),
                };
                self.log.append_or_tell(Vec::new(), vec![released]);
                Ok(Release::Done(recipients))
            }
        }
    }

    /// Remembers the author of a released message: somebody here wanted their mail.
    fn know_author(&self, id: &str, now_s: i64) {
        let Ok(Some(body)) = self.quarantine.body(id) else { return };
        if let [author] = &*Message::parse(&body).authors().mailboxes {
            self.history.know(std::slice::from_ref(&author.address), now_s);
        }
    }

    /// Somebody wanted the message and did not ask that it be learned from: a sample of good mail,
    /// judged by what the log keeps of how it came.
    fn sample_released(&self, item: &QuarantineItem, id: &str, now_ms: i64) {
        let (Ok(Some(logged)), Ok(Some(body))) =
            (self.log.get(&item.message), self.quarantine.body(id))
        else {
            return;
        };
        let (record, judge) = (logged.record, self.judge());
        let message = Message::parse_with(&body, &judge.limits);
        if record.envelope.direction == Direction::Inbound
            && is_judged(&record.verdict)
            && let [author] = &*message.authors().mailboxes
        {
            let (snapshot, scratch) = (&judge.snapshot, &mut Scratch::default());
            let verdict = scan(&message, &record.envelope, &record.facts, snapshot, scratch);
            self.good_mail.add(SampleKind::Released, &verdict, &author.address, now_ms);
        }
    }

    /// Writes down that a held message is unwanted, or not, for the classifier to learn. Blocks.
    ///
    /// # Errors
    /// A sentence for the person who asked.
    pub fn correct(&self, id: &str, spam: bool, who: &str) -> Result<(), ReleaseError> {
        let body = self.quarantine.body(id)?.ok_or(ReleaseError::BodyGone)?;
        let data = self.config().node.data.clone();
        let held = self.quarantine.get(id);
        // The quarantine keeps no facts: what they would prove is not learned from.
        let came = held.as_ref().ok().and_then(Option::as_ref).map(|held| Circumstances {
            envelope: held.item.envelope.clone(),
            ..Circumstances::default()
        });
        let by = (spam, who, self.clock.unix_s());
        corrections::correct(&data, &self.judge().snapshot, (&body, came.as_ref()), by)?;
        if let Ok(Some(held)) = held {
            let corrected = Event {
                id: held.item.message,
                received_ms: held.item.received_ms,
                at_ms: self.clock.unix_ms(),
                kind: if spam { "corrected_spam" } else { "corrected_ham" }.to_owned(),
                recipient: String::new(),
                detail: format!("by {who}"),
            };
            self.log.append_or_tell(Vec::new(), vec![corrected]);
        }
        Ok(())
    }

    /// Spools a release that was begun and finishes it.
    fn spool_release(
        &self,
        release: &gauntlet_store::quarantine::Release,
    ) -> Result<(), ReleaseError> {
        let give_up = |error: ReleaseError| {
            let (why, now) = (error.to_string(), self.clock.unix_ms());
            let _reported_below = self.quarantine.abandon_release(&release.token, &why, now);
            error
        };
        let body = self.quarantine.body(&release.held.item.id).map_err(|e| give_up(e.into()))?;
        let body = body.ok_or_else(|| give_up(ReleaseError::BodyGone))?;
        let now = self.clock.unix_ms();
        let id = self.ids.next(now);
        let item = &release.held.item;
        let record = LogRecord {
            id: ids::to_text(id),
            received_ms: now,
            envelope: item.envelope.clone(),
            size: body.len() as u64,
            from: item.from.clone(),
            subject: item.subject.clone(),
            message_id: Message::parse(&body)
                .header("Message-ID")
                .map(|id| id.decoded().trim_matches(['<', '>', ' ']).to_owned())
                .unwrap_or_default(),
            stages: vec![Stage {
                name: RELEASED.to_owned(),
                at_us: 0,
                detail: format!("it came as {}", item.message),
            }],
            ..LogRecord::default()
        };
        let mut message = QueuedMessage::straight(record, &release.recipients);
        message.eight_bit = body.iter().any(|b| *b >= 128);
        message.release = Some(release.token.clone());
        let accepted = self.queue.accept_blocking(id, message, body.into());
        accepted.map_err(|e| give_up(e.into()))?;
        self.quarantine.finish_release(&release.token, self.clock.unix_ms())?;
        Ok(())
    }

    /// Releases that a crash interrupted: those that reached the spool are finished, the others
    /// done again.
    pub(super) fn finish_releases(&self) -> anyhow::Result<()> {
        let open = self.quarantine.unfinished_releases()?;
        if open.is_empty() {
            return Ok(());
        }
        let mut spooled = std::collections::HashSet::new();
        for message in self.queue.list(usize::MAX) {
            let stored = ids::parse(&message.id).and_then(|id| self.spool.read(id).ok());
            let message =
                stored.and_then(|s| serde_json::from_slice::<QueuedMessage>(&s.meta).ok());
            spooled.extend(message.and_then(|t| t.release));
        }
        for release in open {
            if spooled.contains(&release.token) {
                self.quarantine.finish_release(&release.token, self.clock.unix_ms())?;
            } else if let Err(error) = self.spool_release(&release) {
                tracing::error!(%error, "an interrupted release could not be finished");
            }
        }
        Ok(())
    }
}
