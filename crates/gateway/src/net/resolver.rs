//! Questions to the DNS, with a bounded cache.
//!
//! ```text
//! ask ─▶ cache ─▶ the same question under way? wait for it ─▶ a permit for one more ─▶ server
//! ```
//!
//! Every answer is kept as long as its records say, within bounds; that there is nothing is kept
//! too (RFC 2308), and so, for a few seconds, is that no server answered (RFC 9520), so that a dead
//! server costs each message its wait once. A question that was begun runs to its end even if no
//! caller waits for it any more: the next message finds its answer. No question takes longer than
//! `dns.wait_ms_max`, no more than `dns.questions_max` are under way.

mod answer;

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context;
use arc_swap::ArcSwap;
use hickory_resolver::TokioResolver;
use hickory_resolver::config::{
    ConnectionConfig, NameServerConfig, ResolveHosts, ResolverConfig, ResolverOpts,
};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::dnssec::TrustAnchors;
use hickory_resolver::proto::rr::{Name, RecordType};
use tokio::sync::{Semaphore, watch};

pub use self::answer::{ANSWER_BYTES_MAX, Answer, Data, Kind, Outcome, RECORDS_MAX};
use crate::clock::Clock;
use crate::config::{DNS_PORT, DnsSettings, server_address};

/// Answers that `hickory` itself keeps: parts of chains only, ours are above it.
const PARTS_KEPT: u64 = 256;
/// Aliases of one chain that `hickory` follows.
const ALIASES_MAX: usize = 8;
/// Bytes of one UDP answer that are requested: what passes every network unfragmented.
const UDP_BYTES: u16 = 1_232;

/// An answer with how it came.
#[derive(Debug, Clone)]
pub struct Asked {
    /// The answer, or how the question ended.
    pub answer: Arc<Answer>,
    /// It was known already.
    pub cached: bool,
    /// How long it took.
    pub took: Duration,
}

/// Counts of a resolver since its start.
#[derive(Debug, Default)]
pub struct ResolverCounts {
    /// Answers from the cache.
    pub cached: AtomicU64,
    /// Questions sent to servers.
    pub sent: AtomicU64,
    /// Of those, questions that no server answered.
    pub timeouts: AtomicU64,
    /// Questions not sent because too many were under way.
    pub not_asked: AtomicU64,
}

/// The way to the DNS. Share it as `Arc<Resolver>`.
pub struct Resolver {
    clock: Clock,
    shared: ArcSwap<Shared>,
}

struct Shared {
    clock: Clock,
    plain: TokioResolver,
    /// Verifies signatures; none unless `dns.dnssec` is set.
    validating: Option<TokioResolver>,
    settings: DnsSettings,
    servers: Vec<SocketAddr>,
    cache: moka::sync::Cache<Arc<str>, Kept>,
    under_way: Mutex<HashMap<Arc<str>, Waiting>>,
    permits: Arc<Semaphore>,
    counts: Arc<ResolverCounts>,
}

/// Wakes all tasks that wait for an answer.
type Waiting = watch::Receiver<Option<Arc<Answer>>>;

#[derive(Clone)]
struct Kept {
    answer: Arc<Answer>,
    until: Instant,
}

impl std::fmt::Debug for Resolver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Resolver").field("servers", &self.servers()).finish_non_exhaustive()
    }
}

impl Resolver {
    /// A resolver of these settings. Asks nothing yet. Questions need a Tokio runtime.
    ///
    /// # Errors
    /// If a server is no address, or the trust anchor cannot be read.
    pub fn new(settings: &DnsSettings) -> anyhow::Result<Self> {
        Self::with_clock(settings, Clock::system())
    }

    /// The same; `clock` says how long answers are kept.
    ///
    /// # Errors
    /// As [`Resolver::new`].
    pub fn with_clock(settings: &DnsSettings, clock: Clock) -> anyhow::Result<Self> {
        let config = servers(settings)?;
        let servers = config
            .name_servers()
            .iter()
            .map(|s| SocketAddr::new(s.ip, s.connections.first().map_or(DNS_PORT, |c| c.port)))
            .collect();
        let build = |validate: bool| -> anyhow::Result<TokioResolver> {
            let provider = TokioRuntimeProvider::default();
            let mut builder = TokioResolver::builder_with_config(config.clone(), provider)
                .with_options(options(settings, validate));
            let path = &settings.trust_anchor;
            if validate && !path.as_os_str().is_empty() {
                let anchors = TrustAnchors::from_file(path)
                    .map_err(|e| anyhow::anyhow!("dns.trust_anchor {}: {e}", path.display()))?;
                builder = builder.with_trust_anchor(Arc::new(anchors));
            }
            builder.build().context("dns")
        };
        let validating = if settings.dnssec { Some(build(true)?) } else { None };
        let cache = moka::sync::Cache::builder()
            .max_capacity(settings.cache_bytes_max)
            .weigher(|key: &Arc<str>, kept: &Kept| {
                u32::try_from(key.len() + kept.answer.weight()).unwrap_or(u32::MAX)
            })
            .time_to_live(Duration::from_secs(settings.ttl_seconds_max))
            .build();
        let shared = Shared {
            clock: clock.clone(),
            plain: build(false)?,
            validating,
            settings: settings.clone(),
            servers,
            cache,
            under_way: Mutex::default(),
            permits: Arc::new(Semaphore::new(settings.questions_max)),
            counts: Arc::default(),
        };
        Ok(Resolver { clock, shared: ArcSwap::from_pointee(shared) })
    }

    /// Asks as `next` would from now on; what is under way ends as it was begun. With the settings
    /// and servers that it has already, everything stays, what is known too.
    pub fn apply(&self, next: Resolver) {
        let (now, next) = (self.shared.load(), next.shared.into_inner());
        if next.settings != now.settings || next.servers != now.servers {
            self.shared.store(next);
        }
    }

    /// The clock that answers expire by.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// The servers that are queried.
    pub fn servers(&self) -> Vec<SocketAddr> {
        self.shared.load().servers.clone()
    }

    /// Counts since the start, or since other settings were applied.
    pub fn counts(&self) -> Arc<ResolverCounts> {
        self.shared.load().counts.clone()
    }

    /// Answers are verified (DNSSEC) by [`Resolver::ask_secure`].
    pub fn validates(&self) -> bool {
        self.shared.load().validating.is_some()
    }

    /// The records of a name. Never an error: [`Answer::outcome`] says how it ended.
    ///
    /// The name is read as text (a backslash escapes a byte); a final dot makes no difference.
    pub async fn ask(&self, name: &str, kind: Kind) -> Asked {
        self.ask_by(name, kind, false).await
    }

    /// The same with verified signatures (DNSSEC), for what trust hangs on, as DANE. Without
    /// `dns.dnssec` the answer is that of [`Resolver::ask`], which is never [`Answer::secure`].
    pub async fn ask_secure(&self, name: &str, kind: Kind) -> Asked {
        self.ask_by(name, kind, self.validates()).await
    }

    /// The names of an address (PTR).
    pub async fn ask_names(&self, address: IpAddr) -> Asked {
        self.ask(&reverse_name(address), Kind::Ptr).await
    }

    /// What is known already, without asking a server.
    pub fn known(&self, name: &str, kind: Kind) -> Option<Arc<Answer>> {
        self.shared.load().known(&key(name, kind, false))
    }

    async fn ask_by(&self, name: &str, kind: Kind, secure: bool) -> Asked {
        let start = Instant::now();
        let shared = self.shared.load_full();
        let key = key(name, kind, secure);
        if let Some(answer) = shared.known(&key) {
            shared.counts.cached.fetch_add(1, Ordering::Relaxed);
            return Asked { answer, cached: true, took: Duration::ZERO };
        }
        let wait = Duration::from_millis(shared.settings.wait_ms_max);
        let answer = match shared.begin(&key, kind) {
            Some(mut waiting) => {
                let answered = waiting.wait_for(Option::is_some);
                match tokio::time::timeout(wait, answered).await {
                    Ok(Ok(answer)) => answer.clone(),
                    // The task is gone without a word: it panicked, or the runtime ends.
                    Ok(Err(_)) => {
                        shared.under_way().remove(&key);
                        None
                    }
                    Err(_) => None,
                }
                .unwrap_or_else(|| Arc::new(Answer::empty(Outcome::Timeout)))
            }
            None => Arc::new(Answer::empty(Outcome::NotAsked)),
        };
        Asked { answer, cached: false, took: start.elapsed() }
    }
}

impl Shared {
    fn known(&self, key: &str) -> Option<Arc<Answer>> {
        let kept = self.cache.get(key)?;
        (kept.until > self.clock.now()).then_some(kept.answer)
    }

    fn under_way(&self) -> MutexGuard<'_, HashMap<Arc<str>, Waiting>> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Joins the question if it is under way, else begins it. None if too many are.
    fn begin(self: &Arc<Self>, key: &str, kind: Kind) -> Option<Waiting> {
        let mut under_way = self.under_way();
        if let Some(waiting) = under_way.get(key) {
            return Some(waiting.clone());
        }
        let Ok(permit) = self.permits.clone().try_acquire_owned() else {
            self.counts.not_asked.fetch_add(1, Ordering::Relaxed);
            return None;
        };
        let (answered, waiting) = watch::channel(None);
        under_way.insert(key.into(), waiting.clone());
        drop(under_way);
        let (shared, key) = (self.clone(), Arc::<str>::from(key));
        tokio::spawn(async move {
            let answer = shared.send(&key, kind).await;
            shared.under_way().remove(&key);
            answered.send_replace(Some(answer));
            drop(permit);
        });
        Some(waiting)
    }

    /// Asks the servers, and keeps the answer.
    async fn send(&self, key: &str, kind: Kind) -> Arc<Answer> {
        self.counts.sent.fetch_add(1, Ordering::Relaxed);
        let secure = key.starts_with('!');
        let name = key.get(2..).unwrap_or_default();
        let resolver = match &self.validating {
            Some(validating) if secure => validating,
            _ => &self.plain,
        };
        let settings = &self.settings;
        let (answer, seconds) = match Name::from_ascii(format!("{name}.")) {
            Err(_) => (Answer::empty(Outcome::Failed), settings.failure_seconds),
            Ok(name) => {
                let wait = Duration::from_millis(settings.wait_ms_max);
                let looked_up = resolver.lookup(name.clone(), kind.record_type());
                match tokio::time::timeout(wait, looked_up).await {
                    Ok(Ok(found)) => {
                        let verified =
                            |r: &hickory_resolver::proto::rr::Record| r.proof.is_secure();
                        let all =
                            !found.answers().is_empty() && found.answers().iter().all(verified);
                        let left = found.valid_until().saturating_duration_since(Instant::now());
                        let answer = answer::read(kind, found.answers(), secure && all);
                        let bounds = settings.ttl_seconds_min..=settings.ttl_seconds_max;
                        (answer, left.as_secs().clamp(*bounds.start(), *bounds.end()))
                    }
                    Ok(Err(error)) if answer::lacks_authority(&error) => {
                        match tokio::time::timeout(wait, has_no_end(resolver, name)).await {
                            Ok(false) => self.failure(&error),
                            _ => (Answer::empty(Outcome::Looping), settings.failure_seconds),
                        }
                    }
                    Ok(Err(error)) => self.failure(&error),
                    Err(_) => (Answer::empty(Outcome::Timeout), settings.failure_seconds),
                }
            }
        };
        if answer.outcome == Outcome::Timeout {
            self.counts.timeouts.fetch_add(1, Ordering::Relaxed);
        }
        let answer = Arc::new(answer);
        let until = self.clock.now() + Duration::from_secs(seconds);
        self.cache.insert(key.into(), Kept { answer: answer.clone(), until });
        answer
    }

    /// What an error means and how long it is remembered.
    fn failure(&self, error: &hickory_resolver::net::NetError) -> (Answer, u64) {
        let (outcome, ttl) = answer::read_error(error);
        let seconds = match outcome.is_nothing() {
            true => u64::from(ttl.unwrap_or(0))
                .clamp(self.settings.ttl_seconds_min, self.settings.negative_seconds_max),
            false => self.settings.failure_seconds,
        };
        (Answer::empty(outcome), seconds)
    }
}

/// Whether a name is an alias whose chain does not end: the resolver takes that for "there is
/// nothing".
async fn has_no_end(resolver: &TokioResolver, mut name: Name) -> bool {
    for _ in 0..ALIASES_MAX {
        let asked = resolver.lookup(name.clone(), RecordType::CNAME).await;
        match asked.as_ref().ok().and_then(|found| answer::alias(found.answers())) {
            Some(target) => name = target.clone(),
            None => return false,
        }
    }
    true
}

/// Name of a question in the cache: two characters, then the name in lower case.
fn key(name: &str, kind: Kind, secure: bool) -> Arc<str> {
    let name = name.strip_suffix('.').unwrap_or(name);
    let letter = match kind {
        Kind::A => 'a',
        Kind::Aaaa => 'q',
        Kind::Mx => 'm',
        Kind::Ns => 'n',
        Kind::Ptr => 'p',
        Kind::Soa => 'z',
        Kind::Tlsa => 's',
        Kind::Txt => 't',
    };
    let mut key = String::with_capacity(name.len() + 2);
    key.push(if secure { '!' } else { ' ' });
    key.push(letter);
    key.push_str(name);
    key.make_ascii_lowercase();
    key.into()
}

/// The name under which an address has its PTR records (RFC 1035 section 3.5, RFC 3596).
pub fn reverse_name(address: IpAddr) -> String {
    match address.to_canonical() {
        IpAddr::V4(_) => format!("{}.in-addr.arpa", reversed(address)),
        IpAddr::V6(_) => format!("{}.ip6.arpa", reversed(address)),
    }
}

/// The address backwards, as reverse zones and DNS lists have it: octets or hexadecimal digits.
pub fn reversed(address: IpAddr) -> String {
    match address.to_canonical() {
        IpAddr::V4(ip) => {
            let [a, b, c, d] = ip.octets();
            format!("{d}.{c}.{b}.{a}")
        }
        IpAddr::V6(ip) => {
            let mut text = String::with_capacity(64);
            for byte in ip.octets().iter().rev() {
                for digit in [byte & 15, byte >> 4] {
                    if !text.is_empty() {
                        text.push('.');
                    }
                    text.push(char::from_digit(u32::from(digit), 16).unwrap_or('0'));
                }
            }
            text
        }
    }
}

/// The servers to ask: those that are set, else the system's.
fn servers(settings: &DnsSettings) -> anyhow::Result<ResolverConfig> {
    if settings.servers.is_empty() {
        return Ok(match hickory_resolver::system_conf::read_system_conf() {
            Ok((system, _)) => ResolverConfig::from_name_servers(system.name_servers().to_vec()),
            Err(error) => {
                tracing::warn!(%error, "/etc/resolv.conf cannot be used: asking 127.0.0.1");
                let here = NameServerConfig::udp_and_tcp(IpAddr::from([127, 0, 0, 1]));
                ResolverConfig::from_name_servers(vec![here])
            }
        });
    }
    let mut servers = Vec::new();
    for text in &settings.servers {
        let address = server_address(text)
            .with_context(|| format!("dns.servers: {text:?} is no address or address:port"))?;
        let connections = [ConnectionConfig::udp(), ConnectionConfig::tcp()].map(|mut way| {
            way.port = address.port();
            way
        });
        servers.push(NameServerConfig::new(address.ip(), true, connections.to_vec()));
    }
    Ok(ResolverConfig::from_name_servers(servers))
}

fn options(settings: &DnsSettings, validate: bool) -> ResolverOpts {
    let mut options = ResolverOpts::default();
    options.timeout = Duration::from_millis(settings.timeout_ms);
    options.attempts = settings.attempts;
    options.cache_size = PARTS_KEPT;
    options.use_hosts_file = ResolveHosts::Never;
    options.edns_payload_len = UDP_BYTES;
    options.max_active_requests = settings.questions_max;
    options.validate = validate;
    // A lone server that loses a packet is no reason to give up: the question is sent again by TCP.
    options.try_tcp_on_error = true;
    options
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_addresses() {
        let name = |text: &str| reverse_name(text.parse().unwrap());
        assert_eq!(name("192.0.2.1"), "1.2.0.192.in-addr.arpa");
        assert_eq!(name("::ffff:192.0.2.1"), "1.2.0.192.in-addr.arpa");
        let v6 = name("2001:db8::ab");
        assert!(v6.starts_with("b.a.0.0.") && v6.ends_with(".8.b.d.0.1.0.0.2.ip6.arpa"), "{v6}");
        assert_eq!(v6.len(), 63 + ".ip6.arpa".len());
    }

    #[test]
    fn keys_tell_questions_apart() {
        assert_eq!(key("A.Example.", Kind::A, false), key("a.example", Kind::A, false));
        assert_ne!(key("a.example", Kind::A, false), key("a.example", Kind::Aaaa, false));
        assert_ne!(key("a.example", Kind::A, false), key("a.example", Kind::A, true));
    }
}
