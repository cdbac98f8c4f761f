//! From a received message to its answer: scan, policy, spool.
//!
//! Design invariants 2 and 3 are kept here: 250 comes after the spool said that the message is
//! durable; 5xx comes only if every recipient is refused.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use gauntlet_mail::{Direction, Envelope, Facts};
use gauntlet_policy::Rates;
use gauntlet_smtp::{MailCommand, RcptCommand, Reply};
use gauntlet_store::record::Stage;
use gauntlet_store::{Delivery, Log, LogRecord, Outcome, Spool};
use gauntlet_verdict::{Disposition, Final};
use tokio::sync::oneshot;

use crate::clock::Clock;
use crate::current::Current;
use crate::facts::auth_results::{stamp_in, without_return_path_in};
use crate::facts::rules::CachedViews;
use crate::ids;
use crate::inbound::deferrals::DeferralsLogged;
use crate::inbound::originals::Originals;
use crate::inbound::policy_actions::{Ordered, PolicyActions};
use crate::inbound::rate_limiter::RateLimiter;
use crate::inbound::settings::InboundSettings;
use crate::message::ReceivedMessage;
use crate::metrics::Metrics;
use crate::outbound::queue::accept::AcceptError;
use crate::outbound::queue::{CutThrough, NextHopAnswer, Queue};
use crate::outbound::queued_message::{Answer, QueuedMessage, answer, with_reference};
use crate::outbound::sender::Settled;
use crate::scan::good_mail::GoodMailSamples;
use crate::scan::judge::Work;
use crate::scan::scan_pool::{NoVerdict, ScanPool};
use crate::trace_fields::count_received;

/// A message that is complete.
#[derive(Debug)]
pub struct Arrival {
    /// Id of the message in spool and log.
    pub id: u64,
    /// What the connection said.
    pub envelope: Envelope,
    /// Arguments of the MAIL command.
    pub mail: MailCommand,
    /// RCPTs that were accepted.
    pub recipients: Vec<RcptCommand>,
    /// Our Received field and the message.
    pub body: ReceivedMessage,
    /// Unix time in milliseconds at which it began.
    pub received_ms: i64,
    /// The same on the other clock.
    pub began: Instant,
    /// Each recipient gets a reply of its own.
    pub lmtp: bool,
}

/// A message that is on its way now, before anything was asked about it.
#[derive(Debug)]
pub(super) struct Passing {
    pub(super) id: u64,
    pub(super) envelope: Envelope,
    pub(super) body: ReceivedMessage,
    pub(super) received_ms: i64,
    pub(super) began: Instant,
}

/// Where the way of a message ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ends {
    /// Where the policy says.
    ByPolicy,
    /// Here, for all recipients.
    InTrap,
}

/// Takes a received message to its answer: scan, policy, spool, queue.
#[derive(Debug)]
pub struct Intake {
    /// Dates what is judged and refused.
    pub clock: Clock,
    /// The settings in force: one generation for each message.
    pub settings: Current<InboundSettings>,
    /// Rates of senders, which conditions of the policy read.
    pub rate_limiter: Arc<RateLimiter>,
    /// Notifications and model updates that policies ask for.
    pub actions: PolicyActions,
    /// Takes samples of good mail.
    pub good_mail: GoodMailSamples,
    /// Says where the originals of changed messages are.
    pub originals: Originals,
    /// Threads that judge messages.
    pub scan_pool: ScanPool,
    /// Where an accepted message is durable before its 250.
    pub spool: Arc<Spool>,
    /// Delivers what is in the spool.
    pub queue: Arc<Queue>,
    /// Message log, for what is refused or deferred here.
    pub log: Arc<Log>,
    /// How many deferred attempts the message log has taken lately.
    pub deferrals: DeferralsLogged,
    /// Counters and gauges, which `/metrics` shows.
    pub metrics: Arc<Metrics>,
    /// The spool keeps nothing.
    pub null: bool,
}

impl Intake {
    /// A message of this size can be taken: checked before its body is read.
    pub fn has_room(&self, bytes: u64) -> bool {
        self.null || self.spool.reserve(bytes).is_ok()
    }

    /// Judges a message, makes it durable, starts its delivery, and says what to answer: one reply,
    /// or with LMTP one for each recipient.
    pub async fn take(&self, arrival: Arrival) -> Vec<Reply> {
        let count = if arrival.lmtp { arrival.recipients.len() } else { 1 };
        let id = ids::to_text(arrival.id);
        let settings = self.settings.get();
        if count_received(arrival.body.bytes()) > settings.receiver.received_headers_max {
            self.metrics.rejected.add_one();
            return vec![Reply::new(554, (5, 4, 6), "too many hops: the message loops"); count];
        }
        let received = Stage::now("received", arrival.began);
        let Arrival { envelope, body, received_ms, began, .. } = arrival;
        let passing = Passing { id: arrival.id, envelope, body, received_ms, began };
        let judged = self.judge_with(&settings, passing).await;
        let (mut record, body) = match judged {
            Ok(judged) => judged,
            Err(why) => {
                self.metrics.answered_later.add_one();
                let text = format!("cannot judge the message now ({why}), try again later");
                return vec![Reply::new(451, (4, 7, 1), text); count];
            }
        };
        record.stages.insert(0, received);
        let verdict = answer(&record.dispositions);
        let each: Vec<Option<Reply>> = if arrival.lmtp {
            record.dispositions.iter().map(|d| refusal_of(&d.end, &id)).collect()
        } else {
            vec![None]
        };
        match verdict {
            Answer::Reject(text) => {
                self.metrics.rejected.add_one();
                let ordered = self.order(&settings, &mut record, &body, began);
                self.log_refused(record, &text);
                self.carry_out(ordered).await;
                let reply = Reply::new(550, (5, 7, 1), with_reference(&text, &id));
                vec![reply; count]
            }
            Answer::Defer(text) => {
                self.metrics.answered_later.add_one();
                let reply = Reply::new(451, (4, 7, 1), with_reference(&text, &id));
                self.log_deferred(record, &reply.one_line());
                vec![reply; count]
            }
            Answer::Accept if holds(&record.dispositions) && self.queue.is_hold_backlog_full() => {
                self.metrics.hold_overload.add_one();
                self.metrics.answered_later.add_one();
                vec![Reply::new(451, (4, 3, 2), "too much mail waits, try again later"); count]
            }
            Answer::Accept => {
                let size = body.len() as u64;
                let ordered = self.order(&settings, &mut record, &body, began);
                let mut message = QueuedMessage::new(record, &arrival.mail, &arrival.recipients);
                let tried = match self.cut_through(arrival.lmtp, &mut message, &body, began).await {
                    CutThrough::Open(tried) => tried,
                    CutThrough::Answered(said) => {
                        self.carry_out(ordered).await;
                        return vec![self.pass_on(&said, &id, size)];
                    }
                };
                let accepted = self.accept(arrival.id, message, body, (tried, began)).await;
                let reply = self.reply_to(accepted, &id, size);
                if reply.is_positive() {
                    self.carry_out(ordered).await;
                    each.into_iter().map(|own| own.unwrap_or_else(|| reply.clone())).collect()
                } else {
                    vec![reply; count]
                }
            }
        }
    }

    /// What the policy asks for beside the dispositions; noted in the record.
    pub(crate) fn order(
        &self,
        settings: &InboundSettings,
        record: &mut LogRecord,
        body: &Bytes,
        began: Instant,
    ) -> Ordered {
        self.actions.order((&settings.policy, &settings.judge), &self.queue, record, body, began)
    }

    /// Carries it out once the message itself is durable, or refused for good.
    pub(crate) async fn carry_out(&self, ordered: Ordered) {
        self.actions.carry_out(&self.queue, ordered).await;
    }

    /// Judges a message that is on its way now: asks the network, counts, and remembers its sender.
    /// The body comes back as it was judged, with what the network said in its header.
    ///
    /// # Errors
    /// [`NoVerdict`]: the client may try again later.
    pub async fn judge_in_transit(
        &self,
        id: u64,
        envelope: Envelope,
        body: ReceivedMessage,
        received_ms: i64,
        began: Instant,
    ) -> Result<(LogRecord, Bytes), NoVerdict> {
        let passing = Passing { id, envelope, body, received_ms, began };
        self.judge_with(&self.settings.get(), passing).await
    }

    async fn judge_with(
        &self,
        settings: &InboundSettings,
        passing: Passing,
    ) -> Result<(LogRecord, Bytes), NoVerdict> {
        let began = passing.began;
        let (work, body) = self.work(settings, passing, Ends::ByPolicy).await;
        let mut record = self.scan_pool.judge(&settings.judge, work).await?;
        let spam = record.verdict.class >= gauntlet_verdict::Class::Spam;
        settings.facts.remember(&record.envelope, &record.facts, spam);
        settings.facts.apply(&record.verdict);
        self.good_mail.notice(&record, &body);
        self.originals.name(&settings.digest, &mut record).await;
        record.latency_ms = milliseconds_since(began);
        Ok((record, body))
    }

    /// What judges a message on its way: it, with what the network said, which also is in its
    /// header.
    pub(super) async fn work(
        &self,
        settings: &InboundSettings,
        passing: Passing,
        ends: Ends,
    ) -> (Work, Bytes) {
        let Passing { id, mut envelope, mut body, received_ms, began } = passing;
        let (facts, text) = self.facts(settings, &mut envelope, &mut body).await;
        let body = body.freeze();
        let work = Work {
            id: ids::to_text(id),
            raw: body.clone(),
            rates: self.rate_limiter.policy_rates(&settings.rates, &envelope),
            envelope,
            facts,
            text,
            received_ms,
            began,
            unpacked: None,
            is_trap: ends == Ends::InTrap,
        };
        (work, body)
    }

    /// Judges a message that stays with its client: nothing is delivered here. The facts
    /// are those that the envelope allows.
    ///
    /// # Errors
    /// [`NoVerdict`]: the client may try again later.
    pub async fn judge(
        &self,
        id: u64,
        raw: Bytes,
        envelope: Envelope,
    ) -> Result<LogRecord, NoVerdict> {
        let settings = self.settings.get();
        let (facts, text) = settings.facts.collect_for_scan(&envelope, &raw).await;
        let rates = Rates::default();
        let (id, received_ms, began) = (ids::to_text(id), self.clock.unix_ms(), Instant::now());
        let (unpacked, is_trap) = (None, false);
        let work =
            Work { id, raw, envelope, facts, text, rates, received_ms, began, unpacked, is_trap };
        let record = self.scan_pool.judge(&settings.judge, work).await?;
        settings.facts.apply(&record.verdict);
        Ok(record)
    }

    /// The answer to a message that was to be made durable.
    fn reply_to(&self, accepted: Result<(), AcceptError>, id: &str, bytes: u64) -> Reply {
        match accepted {
            Ok(()) => {
                self.metrics.accepted.add_one();
                self.metrics.accepted_bytes.add(bytes);
                Reply::new(250, (2, 0, 0), format!("Ok: queued as {id}"))
            }
            Err(error) => {
                self.metrics.no_room.add_one();
                tracing::error!(%error, id, "a message could not be made durable");
                Reply::new(452, (4, 3, 1), "insufficient storage, try again later")
            }
        }
    }

    /// Asks the network about the message; its answers also go into the envelope and the header.
    async fn facts(
        &self,
        settings: &InboundSettings,
        envelope: &mut Envelope,
        body: &mut ReceivedMessage,
    ) -> (Facts, CachedViews) {
        let start = Instant::now();
        let (facts, text) = settings.facts.collect_for_scan(envelope, body.bytes()).await;
        self.metrics.facts_time.record(start.elapsed());
        if facts.reverse_confirmed == Some(true) {
            envelope.client_name.clone_from(&facts.reverse_name);
        }
        // Signatures were verified over what came.
        if envelope.direction == Direction::Inbound {
            without_return_path_in(body);
            stamp_in(body, settings.facts.host(), &facts, envelope);
        }
        (facts, text)
    }

    /// Asks the next hop while the client waits, unless each recipient gets a reply of its own.
    async fn cut_through(
        &self,
        lmtp: bool,
        message: &mut QueuedMessage,
        body: &Bytes,
        began: Instant,
    ) -> CutThrough {
        match lmtp {
            true => CutThrough::Open(Vec::new()),
            false => self.queue.cut_through(message, body, began).await,
        }
    }

    /// The answer to a message that the next hop took or refused while the client waited.
    fn pass_on(&self, said: &NextHopAnswer, id: &str, bytes: u64) -> Reply {
        if said.taken {
            self.metrics.accepted.add_one();
            self.metrics.accepted_bytes.add(bytes);
            return Reply::new(250, (2, 0, 0), format!("Ok: passed on as {id}"));
        }
        self.metrics.rejected.add_one();
        let text = format!("refused by the next hop (reference {id}): {}", said.reply);
        Reply::new(550, said.enhanced().unwrap_or((5, 0, 0)), text)
    }

    /// Has the queue take a message over, with what cut-through came to.
    async fn accept(
        &self,
        id: u64,
        message: QueuedMessage,
        body: Bytes,
        (tried, began): (Vec<Settled>, Instant),
    ) -> Result<(), AcceptError> {
        let (sender, durable) = oneshot::channel();
        let start = Instant::now();
        let note = move |message: &mut QueuedMessage| {
            message.record.stages.push(Stage::now("spooled", began));
            message.record.latency_ms = milliseconds_since(began);
        };
        let done = move |result| {
            let _the_session_may_have_gone = sender.send(result);
        };
        self.queue.accept_tried(id, message, body, tried, note, done);
        let result = durable.await;
        self.metrics.spool_time.record(start.elapsed());
        result.unwrap_or(Err(AcceptError::Ended))
    }

    /// A message that the policy defers has a line in the log, as long as there are not too many:
    /// the reference code leads to it. It has no deliveries: nobody got it, and nobody is refused.
    pub(crate) fn log_deferred(&self, record: LogRecord, reply: &str) {
        if let Some(event) = self.deferrals.event(&record, reply, self.clock.unix_ms()) {
            self.log.append_or_tell(vec![record], vec![event]);
        }
    }

    /// A refused message has a line in the log too: the reference code leads to it.
    pub(crate) fn log_refused(&self, mut record: LogRecord, text: &str) {
        let at_ms = self.clock.unix_ms();
        let deliveries = record.dispositions.iter().map(|d| Delivery {
            address: d.recipient.clone(),
            outcome: Outcome::Rejected,
            at_ms,
            reply: text.to_owned(),
            ..Delivery::default()
        });
        record.deliveries = deliveries.collect();
        self.log.append_or_tell(vec![record], Vec::new());
    }
}

/// The message is held for somebody.
fn holds(dispositions: &[Disposition]) -> bool {
    dispositions.iter().any(|d| matches!(d.end, Final::Hold { .. } | Final::Quarantine { .. }))
}

fn milliseconds_since(began: Instant) -> u32 {
    u32::try_from(began.elapsed().as_millis()).unwrap_or(u32::MAX)
}

/// The reply that refuses a single recipient (LMTP).
fn refusal_of(end: &Final, id: &str) -> Option<Reply> {
    match end {
        Final::Reject { text } => Some(Reply::new(550, (5, 7, 1), with_reference(text, id))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use gauntlet_store::{Outcome, Query};

    use crate::node::test_node::{TestNode, id_in};

    const FROM: &str = "ann@example.org";
    const REJECTS: &str = "[[rule]]\nname = \"no\"\ndo = { reject = \"not here\" }\n";
    const DEFERS: &str = "[[rule]]\nname = \"wait\"\ndo = { defer = \"come again\" }\n";

    #[tokio::test]
    async fn a_message_is_durable_before_its_client_hears_of_it() {
        // Its next hop refuses connections, so that it stays.
        let node = TestNode::start("[route]\nnext_hop = \"127.0.0.1:1\"\ncut_through = false\n");
        let mut client = node.client().await;
        let id = id_in(&client.send(FROM, &["bob@example.net"], "\r\nHello").await);
        assert_eq!(node.node.queue.count(), 1);
        let record = node.node.queue.show(crate::ids::parse(&id).unwrap()).unwrap();
        assert_eq!(
            (record.envelope.mail_from.as_str(), record.received_ms),
            (FROM, node.clock.unix_ms())
        );
        assert_eq!(node.node.metrics.accepted.get(), 1);
    }

    #[tokio::test]
    async fn a_message_that_loops_is_refused() {
        let node = TestNode::start("[receiver]\nreceived_headers_max = 30\n");
        let hops = "Received: from a by b; Sat, 21 Nov 2026 04:05:06 +0000\r\n".repeat(31);
        let mut client = node.client().await;
        let reply = client.send(FROM, &["bob@example.net"], &format!("{hops}\r\nHello")).await;
        assert!(reply.starts_with("554 5.4.6 too many hops"), "{reply}");
        assert_eq!(node.node.queue.count(), 0, "nothing is kept");
    }

    #[tokio::test]
    async fn a_message_that_every_recipient_refuses_gets_550_and_a_line_in_the_log() {
        let node = TestNode::with_policy("", REJECTS);
        let mut client = node.client().await;
        let reply = client.send(FROM, &["bob@example.net"], "\r\nHello").await;
        assert!(reply.starts_with("550 5.7.1 not here (reference "), "{reply}");
        let id = reply.trim_end().rsplit_once("reference ").unwrap().1.trim_end_matches(')');
        assert_eq!(node.logged(id).await.deliveries[0].outcome, Outcome::Rejected);
        assert_eq!(node.node.queue.count(), 0);
    }

    #[tokio::test]
    async fn a_policy_that_defers_gets_451_and_keeps_nothing() {
        let node = TestNode::with_policy("", DEFERS);
        let mut client = node.client().await;
        let reply = client.send(FROM, &["bob@example.net"], "\r\nHello").await;
        assert!(reply.starts_with("451 4.7.1 come again (reference "), "{reply}");
        assert_eq!(node.node.queue.count(), 0);
        // Nothing is kept but what the reference leads to.
        let id = reply.trim_end().rsplit_once("reference ").unwrap().1.trim_end_matches(')');
        let logged = node.until(|n| n.log.get(id).unwrap()).await;
        assert_eq!(logged.record.deliveries, [], "nobody got it or was refused");
        assert_eq!(logged.record.dispositions[0].end.name(), "defer");
        let [event] = &logged.events[..] else { panic!("{:?}", logged.events) };
        assert_eq!(event.kind, "deferred");
        assert!(event.detail.starts_with("451 4.7.1 come again (reference "), "{event:?}");
        let query = Query { action: "defer".to_owned(), ..Query::default() };
        assert_eq!(node.node.log.search(&query).unwrap().messages[0].id, id);
    }
}
