//! Services: other programs have mail judged that they keep. The same facts, scan pool and judge as
//! mail that comes by SMTP.

mod api;
mod edits;
mod http;
mod http_server;
mod learn_limits;
mod milter;
mod points;
mod rspamd;
mod socket;
mod spamd;

use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use gauntlet_mail::Envelope;
use gauntlet_mail::trace::of_raw;
use gauntlet_store::{Delivery, LogRecord, Outcome, Stage};
use tokio::io::AsyncWriteExt;
use tokio::sync::{Semaphore, watch};

use self::learn_limits::LearnLimits;
use self::socket::Socket;
use crate::busy::{Timed, Work};
use crate::clock::Clock;
use crate::config::{ServiceProtocol, ServiceSettings};
use crate::ids::Ids;
use crate::inbound::admission::{Admission, Admitted, SessionLimits};
use crate::inbound::intake::Intake;
use crate::memory::{Holder, MemoryBudget, MemoryShare, network_of};
use crate::network::Network;
use crate::scan::scan_pool::NoVerdict;
use crate::wire::Wire;

/// Time that a refused client has to read the response.
const REFUSAL_TIME_MAX: Duration = Duration::from_secs(1);

/// What judges for services.
#[derive(Debug)]
pub struct ServiceCore {
    /// Facts and scan pool.
    pub intake: Arc<Intake>,
    /// Makes the ids of messages: unique, ordered by time.
    pub ids: Arc<Ids>,
    /// Memory for bodies, shared with the Receiver.
    pub memory: Arc<MemoryBudget>,
    /// Host name of this node, as HELO and trace fields have it.
    pub host: String,
    /// The data folder, where corrections are written down.
    pub data: PathBuf,
    /// The service's index in the configuration.
    pub index: usize,
    /// A connection that brings no request for so long leaves when all are taken.
    pub idle_min: Duration,
}

impl ServiceCore {
    fn clock(&self) -> &Clock {
        &self.intake.clock
    }

    /// Judges a message of which nothing is known but itself.
    ///
    /// # Errors
    /// [`NoVerdict`]: the client may try again later.
    pub async fn judge_alone(&self, raw: Bytes) -> Result<LogRecord, NoVerdict> {
        let now = self.clock().unix_ms();
        let envelope: Envelope = of_raw(&raw, now / 1_000);
        self.judge(raw, envelope).await
    }

    /// Judges a message whose envelope the client sent.
    async fn judge(&self, raw: Bytes, envelope: Envelope) -> Result<LogRecord, NoVerdict> {
        self.intake.judge(self.ids.next(self.clock().unix_ms()), raw, envelope).await
    }

    fn recipients_max(&self) -> usize {
        self.intake.settings.get().receiver.recipients_max
    }

    /// Largest message in bytes.
    fn bytes_max(&self) -> usize {
        let bytes = self.intake.settings.get().receiver.message_bytes_max;
        usize::try_from(bytes).unwrap_or(usize::MAX)
    }
}

/// A service that is bound.
#[derive(Debug)]
pub struct Service {
    socket: Socket,
    settings: ServiceSettings,
    networks: Vec<Network>,
    outbound: Vec<Network>,
    address: String,
}

/// What the connections of a service share.
#[derive(Debug)]
struct ServiceContext {
    core: ServiceCore,
    settings: ServiceSettings,
    outbound: Vec<Network>,
    /// The node stops: connections end after the message under way.
    stopping: watch::Receiver<bool>,
    /// Verdicts by class, for rspamd's `/stat`.
    counts: rspamd::Counts,
    began: Instant,
    /// Corrections are written down one after the other.
    learning: Semaphore,
    /// How many corrections clients may send.
    learn_limits: LearnLimits,
}

/// Why a correction was refused.
#[derive(Debug)]
enum NotLearned {
    /// The settings do not allow it.
    Forbidden(&'static str),
    /// The client or its user sent too many corrections lately.
    TooOften(&'static str),
    /// It could not be written down.
    Failed(String),
}

impl ServiceContext {
    /// Wait for the next piece of a request.
    fn io_timeout(&self) -> Duration {
        Duration::from_secs(self.settings.seconds_max)
    }

    /// An empty share of the memory for a body of this client.
    fn memory_of(&self, client: Option<IpAddr>) -> MemoryShare {
        let percent_max = self.settings.memory_percent_max;
        let mut holders = vec![Holder::Service { index: self.core.index, percent_max }];
        if let Some(client) =
            client.filter(|ip| !self.core.intake.settings.get().rates.is_exempt(*ip))
        {
            holders.extend([Holder::Client(client), Holder::Network(network_of(client))]);
        }
        self.core.memory.share_of(holders)
    }

    /// When a request that begins now has to be there.
    fn request_end(&self) -> tokio::time::Instant {
        tokio::time::Instant::now() + Duration::from_secs(self.settings.request_seconds_max)
    }

    /// What the client shows is the token, or none is requested. Takes as long whatever it shows.
    fn knows(&self, shown: Option<&str>) -> bool {
        let token = &self.settings.token;
        token.is_empty()
            || blake3::hash(shown.unwrap_or_default().as_bytes()) == blake3::hash(token.as_bytes())
    }

    /// Writes the line of the log of a message that stays with its client, which got this answer.
    fn note(&self, mut record: LogRecord, outcome: Outcome, answer: &str) {
        if !self.settings.log {
            return;
        }
        let (at_ms, protocol) = (self.core.clock().unix_ms(), self.settings.protocol.name());
        // A client that names no recipient still gets an answer: the stage says by which socket.
        let after_us = at_ms.saturating_sub(record.received_ms).saturating_mul(1_000);
        record.stages.push(Stage {
            name: "answered".to_owned(),
            at_us: u64::try_from(after_us).unwrap_or(0),
            detail: format!("{protocol}: {answer}"),
        });
        let delivery = |address: &String| Delivery {
            address: address.clone(),
            outcome,
            at_ms,
            attempts: 0,
            next_hop: protocol.to_owned(),
            reply: format!("answered: {answer}"),
        };
        record.deliveries = record.envelope.rcpt_to.iter().map(delivery).collect();
        self.core.intake.log.append_or_tell(vec![record], Vec::new());
    }

    /// Writes down what a client says of a message; whether it was news. Each user is a reporter
    /// whose word is bounded; without a user, the protocol is. Users are what a client calls them,
    /// so their number and their corrections are bounded for each client ([`LearnLimits`]).
    async fn learn(
        &self,
        raw: Bytes,
        spam: bool,
        user: Option<&str>,
        client: Option<IpAddr>,
    ) -> Result<bool, NotLearned> {
        if !self.settings.learn {
            return Err(NotLearned::Forbidden("this service does not learn"));
        }
        let is_near = client.is_none_or(|ip| ip.is_loopback());
        let has_tokens = self.settings.protocol != ServiceProtocol::Spamd;
        if has_tokens && self.settings.token.is_empty() && !is_near {
            return Err(NotLearned::Forbidden(
                "without a token only this machine may send corrections",
            ));
        }
        let protocol = self.settings.protocol.name();
        let admitted =
            self.learn_limits.admit(&self.settings, client, user, self.core.clock().unix_s());
        let who = match admitted {
            Ok(Some(user)) => format!("{protocol}:{user}"),
            Ok(None) => protocol.to_owned(),
            Err(why) => {
                tracing::warn!(?client, protocol, why, "a correction was refused");
                return Err(NotLearned::TooOften(why));
            }
        };
        let Ok(_turn) = self.learning.acquire().await else {
            return Err(NotLearned::Failed("the node stops".to_owned()));
        };
        let (data, now_s) = (self.core.data.clone(), self.core.clock().unix_s());
        let judge = self.core.intake.settings.get().judge.clone();
        let written = tokio::task::spawn_blocking(move || {
            let said = (spam, &*who, now_s);
            crate::scan::corrections::correct(&data, &judge.snapshot, (&raw, None), said)
        });
        match written.await {
            Ok(Ok(news)) => Ok(news),
            Ok(Err(error)) => {
                tracing::error!(%error, "a correction could not be written");
                Err(NotLearned::Failed(error.to_string()))
            }
            Err(error) => Err(NotLearned::Failed(error.to_string())),
        }
    }
}

fn read_networks(key: &str, texts: &[String]) -> io::Result<Vec<Network>> {
    let networks = texts.iter().map(|n| n.parse::<Network>()).collect::<Result<Vec<_>, _>>();
    networks.map_err(|e| io::Error::new(io::ErrorKind::InvalidInput, format!("service.{key}: {e}")))
}

impl Service {
    /// Binds the address of these settings.
    ///
    /// # Errors
    /// If it cannot be bound or a network is malformed; the message names the setting.
    pub fn bind(settings: &ServiceSettings) -> io::Result<Self> {
        let networks = read_networks("networks", &settings.networks)?;
        let outbound = read_networks("outbound_networks", &settings.outbound_networks)?;
        let (socket, address) = Socket::bind(settings)?;
        if let Some(problem) = settings.lacks_token() {
            let text = format!("service.address {problem}");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        Ok(Service { socket, settings: settings.clone(), networks, outbound, address })
    }

    /// The protocol that its clients use.
    pub fn protocol(&self) -> ServiceProtocol {
        self.settings.protocol
    }

    /// Where it listens, as it is shown.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Answers until the node stops.
    pub async fn run(self, core: ServiceCore, stopping: watch::Receiver<bool>) {
        // A client that finds all connections taken waits in the system's queue: back-pressure. A
        // connection that brings no request becomes free meanwhile, and every request has an end:
        // no client waits for ever.
        let (max, own) = (self.settings.connections_max, self.settings.connections_per_client_max);
        let limits = SessionLimits::of_connections(max, own, core.idle_min);
        let admission = Arc::new(Admission::new(limits, core.intake.clock.clone()));
        let (settings, outbound) = (self.settings, self.outbound);
        let context = Arc::new(ServiceContext {
            core,
            settings,
            outbound,
            stopping: stopping.clone(),
            counts: rspamd::Counts::default(),
            began: Instant::now(),
            learning: Semaphore::new(1),
            learn_limits: LearnLimits::default(),
        });
        let mut stopping = stopping;
        loop {
            let next = async {
                admission.wait_for_capacity().await;
                self.socket.accept().await
            };
            let accepted = tokio::select! {
                accepted = next => accepted,
                _ = stopping.wait_for(|stop| *stop) => return,
            };
            let (wire, client) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            };
            if let Some(client) = client
                && !self.networks.iter().any(|n| n.contains(client))
            {
                tracing::warn!(%client, "connection refused: not in service.networks");
                continue;
            }
            // Programs of this machine share one address: they are held to the whole number only.
            let counted = client.filter(|ip| !ip.is_loopback());
            let Ok(admitted) = admission.admit(counted, false, || true) else {
                tracing::warn!(?client, "connection refused: service.connections_per_client_max");
                tokio::spawn(context.clone().refuse(wire));
                continue;
            };
            let (context, metrics) = (context.clone(), context.core.intake.metrics.clone());
            let serve = async move {
                if let Err(error) = context.serve(wire, client, admitted).await {
                    let protocol = context.settings.protocol.name();
                    tracing::debug!(protocol, ?client, %error, "a service connection was aborted");
                }
            };
            tokio::spawn(Timed::new(serve, Work::Receiving, metrics));
        }
    }
}

impl ServiceContext {
    async fn serve(
        self: &Arc<Self>,
        wire: Wire,
        client: Option<IpAddr>,
        admitted: Admitted,
    ) -> io::Result<()> {
        match self.settings.protocol {
            ServiceProtocol::Spamd => spamd::serve(wire, self, client, &admitted).await,
            ServiceProtocol::Milter => milter::serve(wire, self, client, &admitted).await,
            ServiceProtocol::Rspamd | ServiceProtocol::Http => {
                http_server::serve(wire, client, self, &admitted).await
            }
        }
    }

    /// Tells a client to come again later, in its protocol's words. A milter has none for that
    /// before an MTA spoke: the MTA then does what it does without its filter (Postfix:
    /// milter_default_action).
    async fn refuse(self: Arc<Self>, mut wire: Wire) {
        let response: &[u8] = match self.settings.protocol {
            ServiceProtocol::Spamd => b"SPAMD/1.1 75 too many connections, try again later\r\n\r\n",
            ServiceProtocol::Milter => b"",
            ServiceProtocol::Rspamd | ServiceProtocol::Http => {
                b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 10\r\nContent-Length: 0\r\n\
                  Connection: close\r\n\r\n"
            }
        };
        let send = async {
            wire.write_all(response).await?;
            wire.shutdown().await
        };
        // Best effort: the buffer of a new connection has room for a few words.
        let _sent_or_not = tokio::time::timeout(REFUSAL_TIME_MAX, send).await;
    }
}
