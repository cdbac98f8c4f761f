//! Services: other programs have mail judged that they keep. The same facts, scan pool and judge as
//! mail that comes by SMTP; nothing is delivered, held or logged.

mod spamd;

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use gauntlet_mail::trace::of_trace;
use gauntlet_mail::{Envelope, Message};
use gauntlet_store::LogRecord;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};

use crate::clock::now_ms;
use crate::config::{ServiceProtocol, ServiceSettings};
use crate::ids::Ids;
use crate::intake::Intake;
use crate::judge::CurrentJudge;
use crate::network::Network;
use crate::receiver::mend_of;
use crate::scan_pool::NoVerdict;

/// What judges for services.
#[derive(Debug)]
pub struct Bench {
    /// Facts and scan pool.
    pub intake: Arc<Intake>,
    /// Makes ids.
    pub ids: Arc<Ids>,
    /// For the thresholds that answers name.
    pub judge: CurrentJudge,
    /// Our name.
    pub host: String,
    /// Largest message in bytes.
    pub bytes_max: u64,
}

impl Bench {
    /// Judges a message of which nothing is known but itself.
    ///
    /// # Errors
    /// [`NoVerdict`]: the client may try again later.
    pub async fn judge_alone(&self, raw: Arc<Vec<u8>>) -> Result<LogRecord, NoVerdict> {
        let now = now_ms();
        let envelope: Envelope = of_trace(&Message::parse(&raw), now / 1_000);
        self.intake.judge(self.ids.next(now), raw, envelope).await
    }
}

/// A service that is bound.
#[derive(Debug)]
pub struct Service {
    socket: TcpListener,
    settings: ServiceSettings,
    networks: Vec<Network>,
    address: SocketAddr,
}

impl Service {
    /// Binds the address of these settings.
    ///
    /// # Errors
    /// If it cannot be bound or a network is malformed; the message names the setting.
    pub fn bind(settings: &ServiceSettings) -> io::Result<Self> {
        let named = |e: io::Error| {
            let mend = mend_of(&e);
            io::Error::new(e.kind(), format!("service.address {}: {e}{mend}", settings.address))
        };
        let networks = settings.networks.iter().map(|n| n.parse::<Network>());
        let networks = networks.collect::<Result<Vec<_>, _>>().map_err(|e| {
            io::Error::new(io::ErrorKind::InvalidInput, format!("service.networks: {e}"))
        })?;
        let addresses = settings.address.to_socket_addrs().map_err(named)?;
        let mut last = io::Error::new(io::ErrorKind::InvalidInput, "no such address");
        for address in addresses {
            match std::net::TcpListener::bind(address) {
                Ok(socket) => {
                    socket.set_nonblocking(true)?;
                    let socket = TcpListener::from_std(socket)?;
                    let address = socket.local_addr()?;
                    return Ok(Service { socket, settings: settings.clone(), networks, address });
                }
                Err(error) => last = error,
            }
        }
        Err(named(last))
    }

    /// What it speaks.
    pub fn protocol(&self) -> ServiceProtocol {
        self.settings.protocol
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers until the node stops.
    pub async fn run(self, bench: Arc<Bench>, stopping: watch::Receiver<bool>) {
        // Who finds all places taken waits in the system's queue: back-pressure.
        let room = Arc::new(Semaphore::new(self.settings.connections_max));
        let patience = Duration::from_secs(self.settings.seconds_max);
        let (protocol, mut stopping) = (self.settings.protocol, stopping);
        loop {
            let next = async {
                let place = room.clone().acquire_owned().await;
                (place, self.socket.accept().await)
            };
            let (place, accepted) = tokio::select! {
                next = next => next,
                _ = stopping.wait_for(|stop| *stop) => return,
            };
            let (stream, peer) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            };
            let client = peer.ip().to_canonical();
            if !self.networks.iter().any(|n| n.contains(client)) {
                tracing::warn!(%client, "turned away: not in service.networks");
                continue;
            }
            let bench = bench.clone();
            tokio::spawn(async move {
                let served = match protocol {
                    ServiceProtocol::Spamd => spamd::serve(stream, &bench, patience).await,
                };
                if let Err(error) = served {
                    tracing::debug!(%client, %error, "a client of a service broke off");
                }
                drop(place);
            });
        }
    }
}
