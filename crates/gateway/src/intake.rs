//! From a received message to its answer: scan, policy, spool.
//!
//! Design invariants 2 and 3 are kept here: 250 comes after the spool said that the message is
//! durable; 5xx comes only if every recipient is refused.

use std::sync::Arc;
use std::time::Instant;

use arc_swap::ArcSwap;
use gauntlet_mail::{Direction, Envelope, Facts};
use gauntlet_policy::{Final, Rates};
use gauntlet_smtp::{MailCommand, RcptCommand, Reply};
use gauntlet_store::record::Stage;
use gauntlet_store::{Delivery, Log, LogRecord, Outcome, Spool};
use tokio::sync::oneshot;

use crate::clock::now_ms;
use crate::config::ReceiverSettings;
use crate::facts::Gatherer;
use crate::facts::auth_results::{stamp, without_return_path};
use crate::facts::rules::KnownText;
use crate::gate::Gate;
use crate::ids;
use crate::metrics::Metrics;
use crate::queue::{CutThrough, Queue};
use crate::scan_pool::{NoVerdict, ScanPool, Work};
use crate::trace_fields::count_received;
use crate::transit::{Answer, Transit, answer, with_reference};

/// A message that is complete.
#[derive(Debug)]
pub struct Arrival {
    /// Its id.
    pub id: u64,
    /// What the connection said.
    pub envelope: Envelope,
    /// MAIL.
    pub mail: MailCommand,
    /// RCPTs that were accepted.
    pub recipients: Vec<RcptCommand>,
    /// Our Received field and the message.
    pub body: Vec<u8>,
    /// Unix time in milliseconds at which it began.
    pub received_ms: i64,
    /// The same on the other clock.
    pub began: Instant,
    /// Each recipient gets a reply of its own.
    pub lmtp: bool,
}

/// Takes messages over.
#[derive(Debug)]
pub struct Intake {
    /// Asks the network.
    pub gatherer: Arc<ArcSwap<Gatherer>>,
    /// Counts for policies.
    pub gate: Arc<Gate>,
    /// Judges.
    pub scan_pool: ScanPool,
    /// Makes durable.
    pub spool: Arc<Spool>,
    /// Delivers.
    pub queue: Arc<Queue>,
    /// Message log, for what is refused here.
    pub log: Arc<Log>,
    /// Limits.
    pub settings: Arc<ArcSwap<ReceiverSettings>>,
    /// Counts.
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
        if count_received(&arrival.body) > self.settings.load().received_headers_max {
            self.metrics.rejected.add_one();
            return vec![Reply::new(554, (5, 4, 6), "too many hops: the message loops"); count];
        }
        let received = Stage::now("received", arrival.began);
        let Arrival { envelope, body, received_ms, began, .. } = arrival;
        let judged = self.weigh(arrival.id, envelope, body, received_ms, began).await;
        let (mut record, body) = match judged {
            Ok(judged) => judged,
            Err(why) => {
                self.metrics.put_off.add_one();
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
                self.log_refused(record, &text);
                let reply = Reply::new(550, (5, 7, 1), with_reference(&text, &id));
                vec![reply; count]
            }
            Answer::Defer(text) => {
                self.metrics.put_off.add_one();
                vec![Reply::new(451, (4, 7, 1), with_reference(&text, &id)); count]
            }
            Answer::Accept => {
                let size = body.len() as u64;
                let mut transit = Transit::new(record, &arrival.mail, &arrival.recipients);
                if !arrival.lmtp
                    && let Some(said) = self.queue.cut_through(&mut transit, &body, began).await
                {
                    return vec![self.pass_on(&said, &id, size)];
                }
                let accepted = self.accept(arrival.id, transit, body, began).await;
                let reply = self.reply_to(accepted, &id, size);
                if reply.is_positive() {
                    each.into_iter().map(|own| own.unwrap_or_else(|| reply.clone())).collect()
                } else {
                    vec![reply; count]
                }
            }
        }
    }

    /// Judges a message that is on its way now: asks the network, counts, and remembers its sender. The
    /// body comes back as it was judged, with what the network said in its header.
    ///
    /// # Errors
    /// [`NoVerdict`]: the client may try again later.
    pub async fn weigh(
        &self,
        id: u64,
        envelope: Envelope,
        body: Vec<u8>,
        received_ms: i64,
        began: Instant,
    ) -> Result<(LogRecord, Arc<Vec<u8>>), NoVerdict> {
        let (mut envelope, mut body) = (envelope, body);
        let (facts, text) = self.facts(&mut envelope, &mut body).await;
        let body = Arc::new(body);
        let work = Work {
            id: ids::to_text(id),
            raw: body.clone(),
            rates: self.gate.policy_rates(&envelope),
            envelope,
            facts,
            text,
            received_ms,
            began,
        };
        let mut record = self.scan_pool.judge(work).await?;
        let spam = record.verdict.class >= gauntlet_engine::Class::Spam;
        let gatherer = self.gatherer.load();
        gatherer.remember(&record.envelope, &record.facts, spam);
        gatherer.heed(&record.verdict);
        record.latency_ms = milliseconds_since(began);
        Ok((record, body))
    }

    /// Judges a message that stays with whoever brought it: nothing is delivered here. The facts
    /// are those that the envelope allows.
    ///
    /// # Errors
    /// [`NoVerdict`]: the client may try again later.
    pub async fn judge(
        &self,
        id: u64,
        raw: Arc<Vec<u8>>,
        envelope: Envelope,
    ) -> Result<LogRecord, NoVerdict> {
        let (facts, text) = self.gatherer.load_full().gather_for_scan(&envelope, &raw).await;
        let rates = Rates::default();
        let (id, received_ms, began) = (ids::to_text(id), now_ms(), Instant::now());
        let work = Work { id, raw, envelope, facts, text, rates, received_ms, began };
        let record = self.scan_pool.judge(work).await?;
        self.gatherer.load().heed(&record.verdict);
        Ok(record)
    }

    /// The answer to a message that was to be made durable.
    fn reply_to(&self, accepted: Result<(), String>, id: &str, bytes: u64) -> Reply {
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
    async fn facts(&self, envelope: &mut Envelope, body: &mut Vec<u8>) -> (Facts, KnownText) {
        let gatherer = self.gatherer.load_full();
        let start = Instant::now();
        let (facts, text) = gatherer.gather_for_scan(envelope, body).await;
        self.metrics.facts_time.record(start.elapsed());
        if facts.reverse_confirmed == Some(true) {
            envelope.client_name.clone_from(&facts.reverse_name);
        }
        // Signatures were verified over what came.
        if envelope.direction == Direction::Inbound
            && let Some(kept) = without_return_path(body)
        {
            *body = kept;
        }
        if envelope.direction == Direction::Inbound
            && let Some(stamped) = stamp(body, gatherer.host(), &facts, envelope)
        {
            *body = stamped;
        }
        (facts, text)
    }

    /// The answer to a message that the next hop took or refused while the client waited.
    fn pass_on(&self, said: &CutThrough, id: &str, bytes: u64) -> Reply {
        if said.taken {
            self.metrics.accepted.add_one();
            self.metrics.accepted_bytes.add(bytes);
            return Reply::new(250, (2, 0, 0), format!("Ok: passed on as {id}"));
        }
        self.metrics.rejected.add_one();
        let text = format!("refused by the next hop (reference {id}): {}", said.reply);
        Reply::new(550, (5, 0, 0), text)
    }

    /// Spools a message and hands it to the queue.
    async fn accept(
        &self,
        id: u64,
        mut transit: Transit,
        body: Arc<Vec<u8>>,
        began: Instant,
    ) -> Result<(), String> {
        if self.null {
            return Ok(());
        }
        let meta = serde_json::to_vec(&transit).map_err(|e| e.to_string())?;
        let (sender, durable) = oneshot::channel();
        let start = Instant::now();
        let done = move |result| {
            let _the_session_may_have_gone = sender.send(result);
        };
        let spooled = body.clone();
        // From here on the message may be durable whatever becomes of this session, so that the
        // queue takes it over on the commit thread's word, not on ours.
        let queue = self.queue.clone();
        let hand_over = move |result: Result<(), gauntlet_store::SpoolError>| {
            if result.is_ok() {
                transit.record.stages.push(Stage::now("spooled", began));
                transit.record.latency_ms = milliseconds_since(began);
                queue.submit(id, transit, body);
            }
            done(result);
        };
        self.spool.put(id, now_ms(), meta, spooled, Box::new(hand_over));
        let result = durable.await;
        self.metrics.spool_time.record(start.elapsed());
        match result {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err("the spool has ended".to_owned()),
        }
    }

    /// A refused message has a line in the log too: the reference code leads to it.
    pub(crate) fn log_refused(&self, mut record: LogRecord, text: &str) {
        let at_ms = now_ms();
        let deliveries = record.dispositions.iter().map(|d| Delivery {
            address: d.recipient.clone(),
            outcome: Outcome::Rejected,
            at_ms,
            reply: text.to_owned(),
            ..Delivery::default()
        });
        record.deliveries = deliveries.collect();
        self.log.append_then(vec![record], Vec::new(), Box::new(|_| {}));
    }
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
