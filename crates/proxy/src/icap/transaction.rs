//! One ICAP request from its header to the last byte of its answer: what the log and the counters
//! get.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::SystemTime;

use hyper::Version;
use tokio::time::Instant;

use crate::access_log::{AccessLog, AccessRecord, Outcome, Peer};
use crate::exchange::Notes;
use crate::icap::counters::IcapCounters;
use crate::reason::Note;
use crate::refusal::Refusal;
use crate::request::{Kind, WebRequest};

/// A request in progress. It is logged when dropped: whoever leaves early is logged, too.
pub(crate) struct Transaction {
    pub(crate) record: AccessRecord,
    /// What is answered is not what came: a body that was changed, or a redirection.
    pub(crate) is_changed: bool,
    pub(crate) notes: Notes,
    begun: Instant,
    log: Arc<dyn AccessLog>,
    counters: Arc<IcapCounters>,
}

impl Transaction {
    pub(crate) fn new(
        request: &hyper::Request<()>,
        client: IpAddr,
        user: Option<String>,
        log: Arc<dyn AccessLog>,
        counters: Arc<IcapCounters>,
        reference: String,
    ) -> Self {
        let record = AccessRecord {
            at: SystemTime::now(),
            took: std::time::Duration::ZERO,
            client,
            user,
            method: request.method().to_string(),
            url: request.uri().to_string(),
            version: match request.version() {
                Version::HTTP_10 => "HTTP/1.0",
                _ => "HTTP/1.1",
            },
            status: 0,
            bytes_out: 0,
            bytes_in: 0,
            outcome: Outcome::Aborted,
            peer: Peer::None,
            content_type: None,
            referer: None,
            user_agent: None,
            refusal: None,
            tunnel: None,
            rule: None,
            reference,
            note: Note::default(),
            notes: Vec::new(),
        };
        let (begun, notes) = (Instant::now(), Notes::default());
        Transaction { record, is_changed: false, notes, begun, log, counters }
    }

    /// Notes what the log says about the request.
    pub(crate) fn note(&mut self, web: &WebRequest) {
        self.record.url = match web.kind {
            Kind::Connect => web.authority(),
            Kind::Plain | Kind::Upgrade => web.url.as_str().to_owned(),
        };
        self.record.referer = web.fields.referer.clone();
        self.record.user_agent = web.fields.user_agent.clone();
    }

    /// Notes why it is refused; the outcome is that of a page, unless the answer is cut.
    pub(crate) fn refused(&mut self, refusal: &Refusal) {
        if matches!(refusal, Refusal::Blocked(_) | Refusal::Warned(..)) {
            self.counters.blocked.add(1);
        }
        self.record.refusal = Some(refusal.name());
        self.record.rule = refusal.rule().map(str::to_owned);
    }

    /// The answer has been sent whole.
    pub(crate) fn ended(&mut self) {
        self.record.outcome = match self.record.refusal {
            None if self.is_changed => Outcome::Passed,
            None => Outcome::Unmodified,
            Some("blocked" | "warned") => Outcome::Denied,
            Some(_) => Outcome::Failed,
        };
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        self.record.took = self.begun.elapsed();
        self.record.notes = self.notes.take();
        self.counters.bytes_from_clients.add(self.record.bytes_in);
        self.counters.bytes_to_clients.add(self.record.bytes_out);
        self.log.record(&self.record);
    }
}
