//! Traces of messages for an OpenTelemetry collector, by OTLP over HTTP in JSON
//! ([specification](https://opentelemetry.io/docs/specs/otlp/#otlphttp)).
//!
//! Spans are made of what the message log gets anyway, by a task of their own. A message never
//! waits for them: what does not fit into the queue, or what the collector does not take, is
//! dropped and counted. Addresses and subjects are not sent.

mod spans;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use gauntlet_store::LogRecord;
use serde_json::Value;
use tokio::sync::mpsc;

pub use spans::trace_id;

use crate::config::TraceSettings;
use crate::metrics::{Counter, line};
use crate::net::tls::HopTls;
use crate::net::web::{Asked, ask};

/// Spans of one request to the collector.
const SPANS_MAX: usize = 1_000;
/// Between two requests, while there is little.
const PAUSE: Duration = Duration::from_secs(1);
/// Between two attempts at a collector that is away or overloaded.
const RETRY_PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(5)];
/// What was sent is remembered for about so many messages.
const REMEMBERED_MAX: usize = 100_000;
/// Answers on which OTLP lets a client try again.
const RETRYABLE: [u16; 4] = [429, 502, 503, 504];

/// What became of spans.
#[derive(Debug, Default)]
pub struct TraceCounts {
    /// Spans that the collector took.
    pub sent: Counter,
    /// Spans, or messages without any yet, that were dropped.
    pub dropped: Counter,
}

impl TraceCounts {
    /// As Prometheus reads them.
    pub fn render(&self, text: &mut String) {
        let help = "Spans that the OpenTelemetry collector took";
        line(text, "trace_spans_sent_total", help, "counter", self.sent.get());
        let help = "Spans dropped: the queue was full, or the collector did not take them";
        line(text, "trace_spans_dropped_total", help, "counter", self.dropped.get());
    }
}

/// Hands records over to the task that sends.
#[derive(Debug, Clone)]
pub struct Traces {
    queue: mpsc::Sender<LogRecord>,
    /// Of 2^32 messages so many are traced.
    share: u64,
    node: Arc<str>,
    counts: Arc<TraceCounts>,
}

impl Traces {
    /// Starts the task that sends, on the runtime of the caller.
    pub fn start(settings: &TraceSettings, node: &str, tls: HopTls) -> Self {
        let (queue, records) = mpsc::channel(settings.queue_max);
        let counts = Arc::new(TraceCounts::default());
        let url = format!("{}/v1/traces", settings.otlp.trim_end_matches('/'));
        let node: Arc<str> = node.into();
        let sender = TraceSender {
            records,
            url,
            tls,
            node: node.clone(),
            counts: counts.clone(),
            seen: HashSet::new(),
            is_failing: false,
        };
        tokio::spawn(sender.run());
        Traces { queue, share: (settings.sample * 4_294_967_296.0) as u64, node, counts }
    }

    /// Takes a record that goes into the message log. Never blocks.
    pub fn observe(&self, record: &LogRecord) {
        let id = trace_id(&self.node, &record.id);
        // The same messages at every append, and of all nodes with one share.
        let place = id.get(..8).and_then(|digits| u64::from_str_radix(digits, 16).ok());
        if place.is_some_and(|place| place < self.share)
            && self.queue.try_send(record.clone()).is_err()
        {
            self.counts.dropped.add_one();
        }
    }

    /// What became of them.
    pub fn counts(&self) -> &TraceCounts {
        &self.counts
    }
}

/// The task that sends.
struct TraceSender {
    records: mpsc::Receiver<LogRecord>,
    url: String,
    tls: HopTls,
    node: Arc<str>,
    counts: Arc<TraceCounts>,
    /// Messages and deliveries whose spans were made.
    seen: HashSet<blake3::Hash>,
    is_failing: bool,
}

impl TraceSender {
    /// Sends until the node ends.
    async fn run(mut self) {
        let mut waiting = Vec::new();
        while let Some(record) = self.records.recv().await {
            self.spans_of(&record, &mut waiting);
            while waiting.len() < SPANS_MAX {
                match tokio::time::timeout(PAUSE, self.records.recv()).await {
                    Ok(Some(record)) => self.spans_of(&record, &mut waiting),
                    Ok(None) | Err(_) => break,
                }
            }
            self.send(std::mem::take(&mut waiting)).await;
        }
    }

    /// Makes the spans that a record adds: it is logged again whenever a delivery changes.
    fn spans_of(&mut self, record: &LogRecord, out: &mut Vec<Value>) {
        if self.seen.len() >= REMEMBERED_MAX {
            // A span that is sent again has the same id, which collectors take once.
            self.seen.clear();
        }
        let key = |what: &str| blake3::hash(format!("{}\n{what}", record.id).as_bytes());
        if self.seen.insert(key("")) {
            out.extend(spans::of_stages(&self.node, record));
        }
        for delivery in record.deliveries.iter().filter(|d| d.outcome.is_final()) {
            if self.seen.insert(key(&delivery.address)) {
                out.push(spans::of_delivery(&self.node, record, delivery));
            }
        }
    }

    async fn send(&mut self, spans: Vec<Value>) {
        if spans.is_empty() {
            return;
        }
        let asked = Asked {
            url: self.url.clone(),
            headers: vec![("Content-Type".to_owned(), "application/json".to_owned())],
            body: Some(spans::request(&self.node, &spans).to_string()),
        };
        let count = spans.len() as u64;
        for pause in RETRY_PAUSES.into_iter().map(Some).chain([None]) {
            let why = match ask(&asked, &self.tls).await {
                Ok((status, _)) if (200..300).contains(&status) => {
                    self.counts.sent.add(count);
                    self.is_failing = false;
                    return;
                }
                Ok((status, answer)) if !RETRYABLE.contains(&status) => {
                    let start: String = answer.chars().take(200).collect();
                    self.give_up(count, &format!("it answered {status}: {start}"));
                    return;
                }
                Ok((status, _)) => format!("it answered {status}"),
                Err(error) => format!("{error:#}"),
            };
            match pause {
                Some(pause) => tokio::time::sleep(pause).await,
                None => self.give_up(count, &why),
            }
        }
    }

    /// Says so once, until a request succeeds again.
    fn give_up(&mut self, count: u64, why: &str) {
        self.counts.dropped.add(count);
        if !std::mem::replace(&mut self.is_failing, true) {
            let hint = "mail is not affected; spans are dropped until the collector takes them";
            tracing::warn!(url = self.url, why, hint, "traces cannot be sent");
        }
    }
}
