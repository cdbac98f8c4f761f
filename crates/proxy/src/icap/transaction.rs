//! One ICAP request from its header to the last byte of its answer: what the log and the counters
//! get.

use std::net::IpAddr;
use std::sync::Arc;

use hyper::Version;
use tokio::time::Instant;

use crate::access_log::{AccessLog, AccessRecord, Outcome};
use crate::exchange::Notes;
use crate::icap::counters::IcapCounters;
use crate::refusal::Refusal;
use crate::request::{Kind, WebRequest, without_user};

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
        let version = match request.version() {
            Version::HTTP_10 => "HTTP/1.0",
            _ => "HTTP/1.1",
        };
        let method = request.method().to_string();
        let record = AccessRecord {
            user,
            url: without_user(request.uri()),
            ..AccessRecord::begun(client, method, version, reference)
        };
        let (begun, notes) = (Instant::now(), Notes::default());
        Transaction { record, is_changed: false, notes, begun, log, counters }
    }

    /// Notes what the log says about the request.
    pub(crate) fn note(&mut self, web: &WebRequest) {
        self.record.url = match web.kind {
            Kind::Connect => web.authority(),
            Kind::Plain | Kind::Upgrade | Kind::Lookup => web.url.as_str().to_owned(),
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

    /// Notes an error of ICAP that the client is told of instead of an answer.
    pub(crate) fn failed(&mut self, status: u16, why: String) {
        self.record.status = status;
        self.record.outcome = Outcome::Failed;
        self.malformed(why);
    }

    /// Notes that its body does not come as it should.
    pub(crate) fn malformed(&mut self, why: String) {
        self.record.refusal = Some("malformed");
        self.notes.add(vec![why]);
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
