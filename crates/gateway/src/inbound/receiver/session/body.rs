//! The body of a message while it comes: memory, disk, pace, and its end.

use std::io;
use std::time::{Duration, Instant};

use gauntlet_mail::Envelope;
use gauntlet_smtp::{Event, Reply, Transaction};

use super::super::Client;
use super::super::overflow::Overflow;
use super::super::pace::{LeastRate, Pace};
use super::{Conversation, Incoming};
use crate::config::ListenerRole;
use crate::ids;
use crate::inbound::intake::Arrival;
use crate::message::ReceivedMessage;
use crate::text_log::RECEIVER;
use crate::trace_fields::Received;

/// Once a body is on disk, it goes there in pieces of so many bytes.
const DISK_PIECE_BYTES: u64 = 64 * 1024;

/// Bytes that a body starts with: most messages fit.
const BODY_BYTES_AT_FIRST: u64 = 16 * 1024;

/// There is no memory or disk for a body.
fn no_room() -> Reply {
    Reply::new(452, (4, 3, 1), "too busy, try again later")
}

/// What the text log of the Receiver says about a message.
struct ArrivalLine {
    id: String,
    from: String,
    recipients: usize,
    bytes: usize,
}

impl ArrivalLine {
    fn of(incoming: &Incoming, transaction: &Transaction, bytes: usize) -> Self {
        ArrivalLine {
            id: ids::to_text(incoming.id),
            from: transaction.mail.from.clone(),
            recipients: transaction.recipients.len(),
            bytes,
        }
    }

    fn write(&self, client: &Client, helo: &str, replies: &[Reply]) {
        let reply = replies.first().map(Reply::one_line).unwrap_or_default();
        let ArrivalLine { id, from, recipients, bytes } = self;
        let client = client.address;
        tracing::info!(
            target: RECEIVER, id, %client, helo, from, recipients, bytes, reply, "answered"
        );
    }
}

impl Conversation {
    /// The rate that a body is held to; between two of its chunks, too.
    pub(super) fn least_rate(&self) -> LeastRate {
        let settings = &self.receiver.settings.get().receiver;
        let stress = self.receiver.stress_of(self.client.address);
        let (bytes_per_second, seconds) = match stress {
            Some(s) => (s.body_bytes_per_second_min, s.body_rate_seconds),
            None => (settings.body_bytes_per_second_min, settings.body_rate_seconds),
        };
        LeastRate { bytes_per_second, over: Duration::from_secs(seconds) }
    }

    /// The message that is coming, unless it was given up.
    pub(super) fn coming(&mut self) -> Option<&mut Incoming> {
        self.incoming.as_mut().filter(|_| self.session.in_transaction())
    }

    /// How long until the pace of the body is looked at; none if there is no body. Pressure may
    /// begin at any time, and the pace is then another.
    pub(super) fn pace_left(&mut self) -> Option<Duration> {
        let least = self.least_rate();
        let soon = Duration::from_secs(self.receiver.settings.get().stress.body_rate_seconds);
        self.coming().map(|incoming| incoming.pace.left(least).min(soon))
    }

    pub(super) fn is_too_slow(&mut self) -> bool {
        if self.incoming.is_none() {
            return false;
        }
        let least = self.least_rate();
        let slow = self.coming().is_some_and(|incoming| incoming.pace.is_too_slow(least));
        if slow {
            self.receiver.metrics.slow_bodies.add_one();
        }
        slow
    }

    /// What comes is a chunk (BDAT) that belongs to no message.
    pub(super) fn is_skipping(&self) -> bool {
        self.session.in_body() && self.incoming.is_none()
    }

    /// Books the memory that the body holds by now; what is over goes to disk. Refuses the body if
    /// there is no room for it.
    pub(super) async fn book_body(&mut self) {
        let most = self.receiver.settings.get().receiver.body_memory_bytes_max;
        let bytes = self.session.body_bytes() as u64;
        let on_disk = self.session.drained_bytes() > 0;
        if !on_disk && let Some(incoming) = &mut self.incoming {
            // Refused, or taken back.
            incoming.overflow = None;
        }
        let goes_to_disk = bytes > most || (on_disk && bytes > most.min(DISK_PIECE_BYTES));
        if goes_to_disk && self.session.in_transaction() {
            Box::pin(self.move_to_disk()).await;
        }
        if !self.memory.resize(self.session.body_bytes() as u64) {
            self.refuse_body();
        }
    }

    /// Moves what came of the body to its file. Without a file for it, it stays in memory, in the
    /// client's share.
    pub(super) async fn move_to_disk(&mut self) {
        let (area, client) = (self.receiver.overflow.clone(), self.client.address);
        let Some(incoming) = &mut self.incoming else { return };
        if incoming.overflow.is_none() {
            let begun = area.begin(&self.receiver.holders_of(client));
            let Some(begun) = begun else { return };
            self.receiver.metrics.disk_bodies.add_one();
            incoming.overflow = Some(Box::new(begun));
        }
        let piece = self.session.drain_body();
        if let Some(overflow) = &mut incoming.overflow
            && !overflow.append(&area, piece).await
        {
            self.refuse_body();
        }
    }

    pub(super) fn refuse_body(&mut self) {
        self.receiver.metrics.no_room.add_one();
        self.session.refuse_body(no_room());
        let _freed = self.memory.resize(0);
        if let Some(incoming) = &mut self.incoming {
            incoming.overflow = None;
        }
    }

    /// The whole body of a message that has come, in memory that is booked for it. None if there is
    /// no room.
    pub(super) async fn whole_body(
        &mut self,
        tail: Vec<u8>,
        overflow: Option<Box<Overflow>>,
    ) -> Option<Vec<u8>> {
        let wait = self.receiver.settings.get().receiver.memory_wait_seconds_max;
        let written = overflow.as_ref().map_or(0, |o| o.written());
        let bytes = tail.capacity() as u64 + written;
        let (wait, clock) = (Duration::from_secs(wait), &self.receiver.clock);
        if !self.memory.resize_for_whole(bytes, wait, clock).await {
            return None;
        }
        let Some(overflow) = overflow else { return Some(tail) };
        match overflow.read_back(tail).await {
            Ok(body) => Some(body),
            Err(error) => {
                tracing::error!(%error, "a large body could not be read back from disk");
                None
            }
        }
    }

    pub(super) fn begin_body(&mut self) -> Option<Event> {
        if !self.receiver.intake.has_room(0) || !self.memory.has_room(BODY_BYTES_AT_FIRST) {
            self.receiver.metrics.no_room.add_one();
            let reply = Reply::new(452, (4, 3, 1), "insufficient storage, try again later");
            return self.session.refuse_data(reply, &mut self.out);
        }
        let received_ms = self.receiver.clock.unix_ms();
        let id = self.receiver.ids.next(received_ms);
        let recipient = self.session.only_recipient();
        let protocol = self.protocol();
        let field = Received {
            helo: self.session.helo(),
            client: self.client.address,
            host: &self.receiver.host,
            protocol,
            id: &ids::to_text(id),
            recipient,
            at_ms: received_ms,
        }
        .field();
        let announced = self.session.announced_bytes().min(BODY_BYTES_AT_FIRST * 4);
        let announced = usize::try_from(announced).unwrap_or_default();
        let prefix = ReceivedMessage::begin(&field, announced);
        let (began, pace) = (self.receiver.clock.now(), Pace::begin());
        let trace_bytes = field.len();
        self.incoming =
            Some(Incoming { id, began, received_ms, pace, trace_bytes, overflow: None });
        self.session.start_body(prefix, &mut self.out)
    }

    /// Hands the message over and answers for it.
    pub(super) async fn finish_body(&mut self) -> io::Result<()> {
        let began = Instant::now();
        let (Some(mut transaction), Some(mut incoming)) =
            (self.session.take_message(), self.incoming.take())
        else {
            return Err(io::Error::other("a message that was not begun"));
        };
        self.flush().await?;
        let recipients = transaction.recipients.len();
        let (tail, overflow) = (std::mem::take(&mut transaction.body), incoming.overflow.take());
        let Some(body) = self.whole_body(tail, overflow).await else {
            self.receiver.metrics.no_room.add_one();
            let _freed = self.memory.resize(0);
            let count = if self.session.is_lmtp() { recipients } else { 1 };
            self.session.answer_message(&vec![no_room(); count], &mut self.out);
            return Ok(());
        };
        let body = ReceivedMessage::of_buffer(body, incoming.trace_bytes);
        if let Some(reply) = self.refuse_author(body.bytes()) {
            self.session.answer_message(&[reply], &mut self.out);
            let _freed = self.memory.resize(0);
            return Ok(());
        }
        let logged = tracing::enabled!(target: RECEIVER, tracing::Level::INFO);
        let line = logged.then(|| ArrivalLine::of(&incoming, &transaction, body.bytes().len()));
        let envelope = Envelope {
            direction: self.client.role.direction(),
            client_ip: Some(self.client.address),
            client_name: None,
            helo: self.session.helo().to_owned(),
            mail_from: transaction.mail.from.clone(),
            rcpt_to: transaction.recipients.iter().map(|r| r.to.clone()).collect(),
            auth_user: self.session.user().map(str::to_owned),
            tls: self.tls.clone(),
            received_at: incoming.received_ms / 1_000,
        };
        let arrival = Arrival {
            id: incoming.id,
            envelope,
            mail: transaction.mail,
            recipients: transaction.recipients,
            body,
            received_ms: incoming.received_ms,
            began: incoming.began,
            lmtp: self.session.is_lmtp(),
        };
        let replies = match self.client.role {
            ListenerRole::Trap => self.receiver.intake.take_in_trap(arrival).await,
            _ => self.receiver.intake.take(arrival).await,
        };
        debug_assert!(!self.session.is_lmtp() || replies.len() == recipients);
        if let Some(line) = line {
            line.write(&self.client, self.session.helo(), &replies);
        }
        self.session.answer_message(&replies, &mut self.out);
        self.messages += 1;
        if self.messages >= self.receiver.settings.get().receiver.messages_per_session_max {
            self.session.refuse_further_messages();
        }
        self.admitted.progress();
        let _freed = self.memory.resize(0);
        self.receiver.metrics.answer_time.record(began.elapsed());
        Ok(())
    }
}
