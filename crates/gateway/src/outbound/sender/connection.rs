//! One connection to a next hop: whom to call, TLS, the conversation.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::Buf;
use futures_util::FutureExt;
use gauntlet_smtp::{
    Client, ClientConfig, ClientError, ClientEvent, Outgoing, Reply, dot_stuff, needs_dot_stuffing,
};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::connection_limits::{ConnectionPermit, Purpose};
use super::{SenderContext, describe};
use crate::config::{HopTlsPolicy, SenderSettings};
use crate::message::OutgoingMessage;
use crate::net::tls::Certificate;
use crate::network::Reach;
use crate::outbound::exchangers::{self, Exchanger, Pins, RouteError};
use crate::outbound::mta_sts::{Mode, Policy};
use crate::outbound::route::{NextHop, Route};
use crate::outbound::settings::OutboundSettings;
use crate::outbound::tls_outcomes::{Failed, PolicySeen, kind_of};
use crate::random::Random;
use crate::wire::{Wire, read_with};

/// Addresses that are tried for one connection.
const ATTEMPTS_MAX: usize = 10;
/// Somebody on the way wrote commands into the plain part of the conversation.
const INJECTED: &str = "the server said more than its answer to STARTTLS";

/// Other next hops have all connections that this one may have.
const NO_PLACE: &str = "no connection was free in time (sender.connections_max and its shares)";

/// What a connection is opened with, and the settings of this attempt.
type With<'a> = (&'a SenderContext, &'a OutboundSettings);

/// How long a next hop may take.
#[derive(Debug, Clone, Copy)]
pub(super) struct TimeLimits {
    /// For one reply, from its first byte to its last.
    reply: Duration,
    /// For a message, from MAIL to the last reply.
    transaction: Duration,
}

impl TimeLimits {
    pub(super) fn of(settings: &SenderSettings) -> Self {
        TimeLimits {
            reply: Duration::from_secs(settings.reply_seconds_max),
            transaction: Duration::from_secs(settings.transaction_seconds_max),
        }
    }
}

/// What kept a message from being handed on.
#[derive(Debug)]
pub(super) struct DeliveryError {
    /// Nothing was said on the connection yet.
    pub(super) stale: bool,
    pub(super) text: String,
}

/// How one address is called.
struct Attempt<'a> {
    host: &'a str,
    peer: SocketAddr,
    lmtp: bool,
    purpose: Purpose,
    /// Use TLS when it is offered.
    tls: bool,
    /// Go no further without.
    tls_required: bool,
    certificate: Certificate,
}

/// Why there is no connection.
#[derive(Debug)]
enum Failure {
    /// The TLS handshake failed.
    Handshake(String),
    /// Another error, in words.
    Other(String),
}

impl Failure {
    fn into_text(self) -> String {
        let (Failure::Handshake(text) | Failure::Other(text)) = self;
        text
    }
}

impl From<String> for Failure {
    fn from(text: String) -> Self {
        Failure::Other(text)
    }
}

/// A conversation with a next hop that is ready for messages.
pub(super) struct Connection {
    pub(super) wire: Wire,
    pub(super) client: Client,
    pub(super) peer: SocketAddr,
    pub(super) messages: usize,
    /// Whether the connection is under TLS.
    secured: bool,
    /// What is to be written after the replies.
    body: Option<OutgoingMessage>,
    /// One of those over all next hops.
    _permit: ConnectionPermit,
}

impl Connection {
    /// Connects to the first of the route's hosts that can be reached.
    pub(super) async fn open(
        route: &Route,
        with: With<'_>,
        report: bool,
    ) -> Result<Self, RouteError> {
        let purpose = match route {
            Route::Exchangers { .. } if report => Purpose::Report,
            Route::Exchangers { .. } => Purpose::Exchanger,
            Route::Maildir | Route::Hop(_) | Route::Hops(_) => Purpose::Named,
        };
        let (hosts, watch) = hosts(route, with).await?;
        let mut why = format!("{}: no address", describe(route));
        let mut attempts = 0;
        for host in &hosts {
            for &peer in &host.addresses {
                attempts += 1;
                if attempts > ATTEMPTS_MAX {
                    break;
                }
                match Connection::open_at(host, peer, (route, purpose), with, &watch).await {
                    Ok(connection) => return Ok(connection),
                    Err(error) => why = format!("{} [{peer}]: {error}", host.host),
                }
            }
        }
        Err(RouteError::Later(why))
    }

    /// Connects to one address, with TLS as the settings and the DNS ask for it.
    async fn open_at(
        host: &Exchanger,
        peer: SocketAddr,
        (route, purpose): (&Route, Purpose),
        with: With<'_>,
        watch: &Watch<'_>,
    ) -> Result<Self, String> {
        let asked = match route {
            Route::Hops(hop) => hop.tls,
            Route::Exchangers { tls, .. } => *tls,
            Route::Maildir | Route::Hop(_) => None,
        };
        let policy = asked.unwrap_or(with.1.sender.tls);
        let mut attempt = Attempt {
            host: &host.host,
            peer,
            lmtp: matches!(route, Route::Hops(hop) if hop.lmtp),
            purpose,
            tls: policy != HopTlsPolicy::Off,
            tls_required: policy >= HopTlsPolicy::Required,
            certificate: match policy {
                HopTlsPolicy::Verified => Certificate::Valid,
                _ => Certificate::Any,
            },
        };
        if host.verified {
            (attempt.tls, attempt.tls_required) = (true, true);
            attempt.certificate = Certificate::Valid;
        }
        if let Pins::Signed(records) = &host.pins {
            // RFC 7672 section 2.2: TLS is a must even if no record can be used.
            (attempt.tls, attempt.tls_required) = (true, true);
            if policy != HopTlsPolicy::Verified {
                attempt.certificate = Certificate::pinned(records);
            }
        }
        // RFC 8461 section 5: what is only tested is verified and reported, and the mail goes all
        // the same.
        let mut counts = attempt.tls;
        if watch.tests(host) && attempt.certificate == Certificate::Any && attempt.tls {
            attempt.certificate = Certificate::Valid;
            let tested = Connection::attempt(&attempt, with).await;
            watch.count(with, host, peer, &tested);
            match tested {
                Err(Failure::Handshake(_)) => attempt.certificate = Certificate::Any,
                other => return other.map_err(Failure::into_text),
            }
            counts = false;
        }
        let attempted = Connection::attempt(&attempt, with).await;
        if counts {
            watch.count(with, host, peer, &attempted);
        }
        match attempted {
            // RFC 7435: encryption that does not work is no reason to keep the mail.
            Err(Failure::Handshake(why)) if !attempt.tls_required => {
                tracing::info!(%peer, why, "TLS failed; continuing without it");
                attempt.tls = false;
                Connection::attempt(&attempt, with).await.map_err(Failure::into_text)
            }
            other => other.map_err(Failure::into_text),
        }
    }

    async fn attempt(attempt: &Attempt<'_>, with: With<'_>) -> Result<Self, Failure> {
        let limit = Duration::from_secs(with.1.sender.connect_seconds_max);
        let permit = with.0.connection_limits.take(attempt.purpose, attempt.peer.ip());
        let permit = match tokio::time::timeout(limit, permit).await {
            Ok(permit) => permit.map_err(|_| "the node stops".to_owned())?,
            Err(_) => return Err(NO_PLACE.to_owned().into()),
        };
        let connect = async {
            let stream = TcpStream::connect(attempt.peer).await.map_err(|e| e.to_string())?;
            let _latency_is_all_that_is_lost = stream.set_nodelay(true);
            let wire: Wire = Box::new(stream);
            let config = ClientConfig {
                helo: with.0.us.host.clone(),
                lmtp: attempt.lmtp,
                tls: attempt.tls,
                tls_required: attempt.tls_required,
                ..ClientConfig::default()
            };
            let client = Client::new(config, false);
            let (peer, messages, secured, _permit) = (attempt.peer, 0, false, permit);
            let body = None;
            let mut connection =
                Connection { wire, client, peer, messages, secured, body, _permit };
            connection.greet(attempt, with).await?;
            Ok(connection)
        };
        match tokio::time::timeout(limit, connect).await {
            Ok(connected) => connected,
            Err(_) => Err(Failure::Other(format!("no answer within {} s", limit.as_secs()))),
        }
    }

    async fn greet(&mut self, attempt: &Attempt<'_>, with: With<'_>) -> Result<(), Failure> {
        let mut out = Vec::new();
        loop {
            match self.step(&mut out).await? {
                ClientEvent::Ready => return Ok(()),
                ClientEvent::More => {}
                ClientEvent::StartTls => {
                    let plain = std::mem::replace(&mut self.wire, Box::new(tokio::io::empty()));
                    let tls = &with.1.hop_tls;
                    let secured = tls.connect(plain, attempt.host, &attempt.certificate).await;
                    self.wire = secured.map_err(|error| Failure::Handshake(error.to_string()))?;
                    self.secured = true;
                    self.client.tls_started(&mut out);
                }
                event => return Err(format!("unexpected: {event:?}").into()),
            }
        }
    }

    /// Sends `out`, reads and takes one step.
    async fn step(&mut self, out: &mut Vec<u8>) -> Result<ClientEvent, String> {
        if !out.is_empty() {
            self.wire.write_all(out).await.map_err(|e| e.to_string())?;
            out.clear();
        }
        if let Some(message) = self.body.take() {
            // From where it lies: one write for header, body and end.
            let mut bytes = message.header().chain(message.body()).chain(&b".\r\n"[..]);
            self.wire.write_all_buf(&mut bytes).await.map_err(|e| e.to_string())?;
        }
        let client = &mut self.client;
        let event = read_with(&mut self.wire, |mut input| {
            let event = client.next(&mut input, out);
            // What came behind the answer to STARTTLS came before the handshake (injection).
            match event {
                Ok(ClientEvent::StartTls) if !input.is_empty() => Err(INJECTED.to_owned()),
                event => event.map_err(|e| e.to_string()),
            }
        });
        match event.await {
            Err(error) => Err(error.to_string()),
            Ok(None) => Err("the connection was closed".to_owned()),
            Ok(Some(event)) => event,
        }
    }

    /// The next hop has said nothing since its last answer. What it said would be taken for the
    /// answer to the next command; one that closed the connection is not asked in vain.
    pub(super) fn is_in_step(&mut self) -> bool {
        read_with(&mut self.wire, |_| ()).now_or_never().is_none()
    }

    /// Hands a message on: one reply for each recipient.
    pub(super) async fn transact(
        &mut self,
        outgoing: &Outgoing,
        body: &OutgoingMessage,
        limits: TimeLimits,
    ) -> Result<Vec<Reply>, DeliveryError> {
        if let Some(reply) = self.client.cannot_take(outgoing, body.header()) {
            return Ok(vec![reply; outgoing.recipients.len()]);
        }
        let mut out = Vec::new();
        self.client.send(outgoing.clone(), &mut out);
        match self.converse(Some(body), out, limits).await {
            Err(error) if !error.stale => {
                // For whom it was answered already, nothing is done again.
                let lost = Reply::new(421, (4, 4, 2), error.text.clone());
                self.client.break_off(&lost).ok_or(error)
            }
            done => done,
        }
    }

    /// The next hop's answer to RCPT with this address; no message follows.
    pub(super) async fn ask(
        &mut self,
        address: &str,
        limits: TimeLimits,
    ) -> Result<Reply, DeliveryError> {
        let mut out = Vec::new();
        self.client.ask(address, &mut out);
        let replies = self.converse(None, out, limits).await?;
        replies
            .into_iter()
            .next()
            .ok_or_else(|| DeliveryError { stale: false, text: "no answer".to_owned() })
    }

    /// Goes on until the message is settled: one reply for each recipient.
    async fn converse(
        &mut self,
        body: Option<&OutgoingMessage>,
        mut out: Vec<u8>,
        limits: TimeLimits,
    ) -> Result<Vec<Reply>, DeliveryError> {
        let mut heard = false;
        let began = Instant::now();
        let (mut replies, mut waiting_since) = (self.client.replies(), began);
        loop {
            // A server that sends a byte of a reply now and then must not hold the connection: the
            // time goes on until the reply is whole, and all replies together have a limit, too.
            let (of_reply, of_all) = (waiting_since.elapsed(), began.elapsed());
            let left = limits.reply.saturating_sub(of_reply);
            let left = left.min(limits.transaction.saturating_sub(of_all));
            let step = tokio::time::timeout(left, self.step(&mut out)).await;
            let event = match step {
                Ok(Ok(event)) => event,
                Ok(Err(text)) => return Err(DeliveryError { stale: !heard, text }),
                Err(_) => {
                    let text = match began.elapsed() >= limits.transaction {
                        true => format!("not done within {} s", limits.transaction.as_secs()),
                        false => format!("no answer within {} s", limits.reply.as_secs()),
                    };
                    return Err(DeliveryError { stale: false, text });
                }
            };
            heard = true;
            if self.client.replies() != replies {
                (replies, waiting_since) = (self.client.replies(), Instant::now());
            }
            match event {
                ClientEvent::More => {}
                ClientEvent::Body => match body {
                    Some(body) if !goes_as_it_is(body) => dot_stuff(&body.to_vec(), &mut out),
                    body => self.body = body.cloned(),
                },
                ClientEvent::Done(replies) => return Ok(replies),
                ClientEvent::Ready | ClientEvent::StartTls => {
                    let text = "the conversation is out of step".to_owned();
                    return Err(DeliveryError { stale: false, text });
                }
            }
        }
    }
}

/// Nothing in the message has to be escaped on its way over the wire.
fn goes_as_it_is(message: &OutgoingMessage) -> bool {
    !needs_dot_stuffing(message.header())
        && !needs_dot_stuffing(message.body())
        && message.size() > 0
}

/// Whose connections are counted, and under which policy (RFC 8460).
#[derive(Debug, Default)]
struct Watch<'r> {
    /// None where the domain does not decide how it is reached.
    domain: Option<&'r str>,
    policy: Option<Policy>,
}

impl Watch<'_> {
    /// The host is to be verified, though nothing hangs on it.
    fn tests(&self, host: &Exchanger) -> bool {
        let testing = self.policy.as_ref().filter(|policy| policy.mode == Mode::Testing);
        host.pins == Pins::None && testing.is_some_and(|policy| policy.names(&host.host))
    }

    /// The policy that a connection to this host was made under.
    fn seen(&self, host: &Exchanger) -> PolicySeen {
        match (&host.pins, &self.policy) {
            (Pins::Signed(records), _) => PolicySeen {
                kind: "tlsa".to_owned(),
                lines: records.iter().map(ToString::to_string).collect(),
                hosts: Vec::new(),
            },
            (Pins::None, Some(policy)) => sts_seen(policy),
            (Pins::None, None) => {
                PolicySeen { kind: "no-policy-found".to_owned(), ..PolicySeen::default() }
            }
        }
    }

    /// Counts how a connection was encrypted; one that failed for another reason says nothing.
    fn count(
        &self,
        with: With<'_>,
        host: &Exchanger,
        peer: SocketAddr,
        opened: &Result<Connection, Failure>,
    ) {
        let Some(domain) = self.domain else { return };
        let policy = self.seen(host);
        let no_tls = ClientError::NoTls.to_string();
        let kind_and_reason = match opened {
            Ok(connection) if connection.secured => None,
            Ok(_) => Some(("starttls-not-supported", no_tls)),
            Err(Failure::Handshake(why)) => Some((kind_of(why, &policy), why.clone())),
            Err(Failure::Other(why)) if *why == no_tls => Some(("starttls-not-supported", no_tls)),
            Err(Failure::Other(_)) => return,
        };
        let failed = kind_and_reason.map(|(kind, reason)| Failed {
            kind: kind.to_owned(),
            host: host.host.clone(),
            address: Some(peer.ip()),
            reason,
            count: 0,
        });
        with.0.outcomes.count(domain, &policy, failed, with.0.clock.unix_ms());
    }
}

fn sts_seen(policy: &Policy) -> PolicySeen {
    let (lines, hosts) = (policy.lines(), policy.hosts.clone());
    PolicySeen { kind: "sts".to_owned(), lines, hosts }
}

/// Hosts of a route with their addresses, in the order they are tried.
async fn hosts<'r>(
    route: &'r Route,
    with: With<'_>,
) -> Result<(Vec<Exchanger>, Watch<'r>), RouteError> {
    let names = match route {
        Route::Maildir => return Err(RouteError::Later("the Maildir is no next hop".to_owned())),
        Route::Exchangers { domain, .. } => {
            let (port, reach) = {
                let settings = &with.1.sender;
                // Checked when the configuration was read.
                let reach = Reach::new(&settings.exchanger_networks_allowed).unwrap_or_default();
                (settings.exchanger_port, reach)
            };
            let found = exchangers::find(
                &with.0.resolver,
                domain,
                &with.0.us,
                port,
                &with.0.random,
                &reach,
            );
            let (found, policy) = follow_policy(domain, found.await?, &reach, with).await?;
            return Ok((found, Watch { domain: Some(domain), policy }));
        }
        Route::Hop(address) => vec![address.as_str()],
        Route::Hops(hop) => by_weight(hop, &with.0.random),
    };
    let mut hosts = Vec::new();
    let mut why = String::new();
    for name in names {
        match tokio::net::lookup_host(name).await {
            Ok(addresses) => {
                let host = name.rsplit_once(':').map_or(name, |(host, _)| host);
                let host = host.trim_matches(['[', ']']).to_owned();
                hosts.push(Exchanger::named(host, addresses.collect()));
            }
            Err(error) => why = format!("{name}: {error}"),
        }
    }
    if hosts.is_empty() { Err(RouteError::Later(why)) } else { Ok((hosts, Watch::default())) }
}

/// What the domain's MTA-STS policy leaves of these hosts, and the policy.
async fn follow_policy(
    domain: &str,
    found: Vec<Exchanger>,
    reach: &Reach,
    with: With<'_>,
) -> Result<(Vec<Exchanger>, Option<Policy>), RouteError> {
    let wanted = with.1.sender.mta_sts && with.1.hop_tls.can_verify();
    if !wanted || found.iter().all(|host| host.pins != Pins::None) {
        return Ok((found, None));
    }
    let policy = with.0.sts.policy(domain, reach).await.filter(|policy| policy.mode != Mode::None);
    let failed = |kind: &str, host: &str, reason: &str| Failed {
        kind: kind.to_owned(),
        host: host.to_owned(),
        reason: reason.to_owned(),
        ..Failed::default()
    };
    let Some(policy) = policy else {
        if with.0.sts.has_failed(domain) {
            let seen = PolicySeen { kind: "sts".to_owned(), ..PolicySeen::default() };
            let failed = failed("sts-policy-fetch-error", "", "the policy cannot be had");
            with.0.outcomes.count(domain, &seen, Some(failed), with.0.clock.unix_ms());
        }
        return Ok((found, None));
    };
    for host in found.iter().filter(|h| h.pins == Pins::None && !policy.names(&h.host)) {
        let failed = failed("validation-failure", &host.host, "the policy does not name the host");
        with.0.outcomes.count(domain, &sts_seen(&policy), Some(failed), with.0.clock.unix_ms());
    }
    let left = match policy.mode {
        Mode::Enforce => exchangers::follow(&policy, found)?,
        Mode::Testing | Mode::None => found,
    };
    Ok((left, Some(policy)))
}

/// The hosts in random order: each comes first as often as its share of the weights says; those of
/// weight 0 come last.
fn by_weight<'h>(hop: &'h NextHop, random: &Random) -> Vec<&'h str> {
    let mut left: Vec<&(String, u32)> = hop.hosts.iter().collect();
    let mut order = Vec::with_capacity(left.len());
    while !left.is_empty() {
        let sum: u64 = left.iter().map(|(_, weight)| u64::from(*weight)).sum();
        let mut point = random.below(sum);
        let hit = |(_, weight): &&(String, u32)| {
            let here = point < u64::from(*weight);
            point = point.saturating_sub(u64::from(*weight));
            here
        };
        let index = left.iter().position(hit).unwrap_or(0);
        order.push(left.remove(index).0.as_str());
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_come_first_by_their_weights() {
        let host = |name: &str, weight| (name.to_owned(), weight);
        let hosts = vec![host("a", 3), host("spare", 0), host("b", 1)];
        let hop = NextHop { hosts, tls: None, lmtp: false };
        let random = Random::seeded(3);
        let mut first = std::collections::BTreeMap::new();
        for _ in 0..400 {
            let order = by_weight(&hop, &random);
            assert_eq!((order.len(), order[2]), (3, "spare"));
            *first.entry(order[0].to_owned()).or_insert(0) += 1;
        }
        assert!((260..=340).contains(&first["a"]), "{first:?}");
    }
}
