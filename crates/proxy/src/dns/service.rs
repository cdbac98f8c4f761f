//! One query: judged, answered, logged.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use gauntlet_web::DNS_SCHEME;
use gauntlet_web::settings::{DnsSettings, LoggedQueries};
use hickory_resolver::proto::op::{Message, ResponseCode};
use tokio::time::Instant;

use crate::access_log::{AccessLog, AccessRecord, Outcome, Peer};
use crate::dns::cache::Cache;
use crate::dns::counters::DnsCounters;
use crate::dns::message::{self, Asked, NotAsked};
use crate::dns::upstream::Upstream;
use crate::judge::{BlockReason, Decision, Judge, Note};
use crate::request::WebRequest;

/// In the log of a query that no resolver answered.
const NO_ANSWER: &str = "dns_no_answer";

/// What answers queries.
pub(crate) struct DnsService {
    pub(crate) settings: DnsSettings,
    pub(crate) counters: Arc<DnsCounters>,
    judge: Arc<dyn Judge>,
    log: Arc<dyn AccessLog>,
    cache: Cache,
    upstream: Upstream,
}

/// How a query came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transport {
    /// As a datagram: answers have a limit.
    Udp,
    /// On a connection.
    Tcp,
}

impl DnsService {
    pub(crate) fn new(
        settings: DnsSettings,
        servers: Vec<SocketAddr>,
        judge: Arc<dyn Judge>,
        log: Arc<dyn AccessLog>,
        counters: Arc<DnsCounters>,
    ) -> Self {
        let wait_max = Duration::from_secs(settings.upstream_seconds_max);
        let upstream = Upstream::new(servers, wait_max, Arc::clone(&counters));
        let cache = Cache::new(&settings);
        DnsService { settings, counters, judge, log, cache, upstream }
    }

    /// The answer to a query; none if it gets none.
    pub(crate) async fn answer(
        &self,
        client: IpAddr,
        query: &[u8],
        transport: Transport,
    ) -> Option<Vec<u8>> {
        let counter = match transport {
            Transport::Udp => &self.counters.udp,
            Transport::Tcp => &self.counters.tcp,
        };
        counter.add(1);
        let asked = match Asked::read(query) {
            Ok(asked) => asked,
            Err(not) => {
                self.counters.malformed.add(1);
                return match not {
                    NotAsked::Ignored => None,
                    NotAsked::Answered(answer) => answer.to_vec().ok(),
                };
            }
        };
        let begun = Instant::now();
        let mut record = self.record(client, &asked);
        let answer = self.resolve(client, &asked, &mut record).await;
        record.took = begun.elapsed();
        record.status = answer.metadata.response_code.into();
        record.bytes_in = query.len() as u64;
        let bytes = match transport {
            Transport::Tcp => answer.to_vec().ok(),
            Transport::Udp => asked.datagram(&answer).map(|(bytes, is_cut)| {
                self.counters.truncated.add(is_cut.into());
                bytes
            }),
        };
        record.bytes_out = bytes.as_ref().map_or(0, Vec::len) as u64;
        if self.is_logged(&record) {
            self.log.record(&record);
        }
        bytes
    }

    async fn resolve(&self, client: IpAddr, asked: &Asked, record: &mut AccessRecord) -> Message {
        let name = message::host(&asked.question.name);
        let (blocked, note) = self.judge(client, name.as_deref());
        record.note = note;
        if let Some(reason) = blocked {
            return self.blocked(asked, &reason, record);
        }
        let key = asked.key().filter(|_| self.settings.cache_entries_max > 0);
        let answer = match key.as_ref().and_then(|key| self.cache.get(key)) {
            Some(answer) => {
                self.counters.cached.add(1);
                answer
            }
            None => {
                record.peer = Peer::Parent("dns".to_owned());
                let Some(mut answer) = self.upstream.ask(asked).await else {
                    self.counters.failed.add(1);
                    record.outcome = Outcome::Failed;
                    record.refusal = Some(NO_ANSWER);
                    return asked.failed();
                };
                if self.settings.remove_ech {
                    message::remove_ech(&mut answer);
                }
                key.into_iter().for_each(|key| self.cache.put(key, &answer));
                answer
            }
        };
        if let Some((name, reason)) = self.blocked_alias(client, &answer, record) {
            record.notes.push(format!("it is an alias of {name}"));
            return self.blocked(asked, &reason, record);
        }
        let has_failed = answer.metadata.response_code == ResponseCode::ServFail;
        record.outcome = if has_failed { Outcome::Failed } else { Outcome::Passed };
        asked.finish(answer)
    }

    /// An alias in the answer that a rule blocks: a tracker behind a name of the site itself.
    fn blocked_alias(
        &self,
        client: IpAddr,
        answer: &Message,
        record: &mut AccessRecord,
    ) -> Option<(String, BlockReason)> {
        for (count, name) in message::aliases(answer).enumerate() {
            let Some(name) = message::host(name) else { continue };
            if count >= self.settings.aliases_max {
                let text = "Its answer has more aliases than dns.aliases_max.".to_owned();
                return Some((name, BlockReason { rule: "dns.aliases_max".to_owned(), text }));
            }
            if let (Some(reason), note) = self.judge(client, Some(&name)) {
                record.note = note;
                return Some((name, reason));
            }
        }
        None
    }

    /// Why a name is blocked, if it is, and what the log says.
    fn judge(&self, client: IpAddr, name: Option<&str>) -> (Option<BlockReason>, Note) {
        // What is the name of no host is on no list.
        let request = name.and_then(|name| WebRequest::lookup(client, name).ok());
        let Some(request) = request else { return (None, Note::default()) };
        let (decision, note) = self.judge.request(&request).into_parts();
        let blocked = match decision {
            Decision::Allow | Decision::Inspect(_) | Decision::Noted(..) => None,
            // Nobody sees a page, so that nobody can go on from there.
            Decision::Block(reason) | Decision::Warn(reason, _) => Some(reason),
            Decision::Redirect(to) => {
                let text = "It is redirected, which only requests by the proxy can be.".to_owned();
                Some(BlockReason { rule: format!("redirect: {to}"), text })
            }
        };
        (blocked, note)
    }

    fn blocked(&self, asked: &Asked, reason: &BlockReason, record: &mut AccessRecord) -> Message {
        self.counters.blocked.add(1);
        record.outcome = Outcome::Denied;
        record.refusal = Some("blocked");
        record.rule = Some(reason.rule.clone());
        asked.blocked(&self.settings, &format!("rule {}: {}", reason.rule, reason.text))
    }

    fn record(&self, client: IpAddr, asked: &Asked) -> AccessRecord {
        let mut record = AccessRecord::begun(client, "DNS".to_owned(), "DNS", String::new());
        // RFC 4501.
        let name = asked.question.name.to_ascii().to_ascii_lowercase();
        let name = name.strip_suffix('.').unwrap_or(&name);
        record.url = format!("{DNS_SCHEME}{name}?type={}", asked.question.query_type);
        record
    }

    fn is_logged(&self, record: &AccessRecord) -> bool {
        match self.settings.log {
            LoggedQueries::All => true,
            LoggedQueries::Blocked => record.outcome != Outcome::Passed,
            LoggedQueries::None => false,
        }
    }
}
