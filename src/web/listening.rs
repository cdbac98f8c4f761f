//! A listener of the web path, by its role.

use std::future::Future;
use std::net::{SocketAddr, TcpListener, UdpSocket};

use gauntlet_gateway::config::ListenerRole;
use gauntlet_proxy::dns::DnsServer;
use gauntlet_proxy::icap::IcapServer;
use gauntlet_proxy::settings::Settings;
use gauntlet_proxy::tls::OriginTrust;
use gauntlet_proxy::{Parts, Server, StartError};

/// A listener that is ready to run.
pub(super) enum Listening {
    Proxy(Server),
    Icap(IcapServer),
    Dns(Box<DnsServer>),
}

/// Asks for numbers by their names.
pub(super) type Numbers = Box<dyn Fn() -> Vec<(String, u64)> + Send + Sync>;

impl Listening {
    pub(super) fn new(
        role: ListenerRole,
        (socket, datagrams): (TcpListener, Option<UdpSocket>),
        settings: Settings,
        parts: Parts,
    ) -> Result<Self, StartError> {
        let sockets = vec![socket];
        Ok(match role {
            ListenerRole::Icap => {
                Listening::Icap(IcapServer::with_sockets(sockets, settings, parts)?)
            }
            ListenerRole::Dns => {
                let datagrams = datagrams.into_iter().collect();
                let server = DnsServer::with_sockets(sockets, datagrams, settings, parts)?;
                Listening::Dns(Box::new(server))
            }
            ListenerRole::Transparent => {
                Listening::Proxy(Server::with_sockets(vec![], sockets, settings, parts)?)
            }
            _ => Listening::Proxy(Server::with_sockets(sockets, vec![], settings, parts)?),
        })
    }

    /// Where it listens, by the role.
    pub(super) fn addresses(&self) -> Vec<(&'static str, SocketAddr)> {
        let named = |name, all: Vec<SocketAddr>| all.into_iter().map(move |a| (name, a));
        match self {
            Listening::Icap(server) => named("icap", server.addresses()).collect(),
            Listening::Dns(server) => named("dns", server.addresses()).collect(),
            Listening::Proxy(server) => {
                let transparent = named("transparent", server.transparent_addresses());
                named("proxy", server.addresses()).chain(transparent).collect()
            }
        }
    }

    /// Whom it trusts among servers, if it connects to any.
    pub(super) fn trust(&self) -> Option<OriginTrust> {
        match self {
            Listening::Proxy(server) => Some(server.trust()),
            Listening::Icap(_) | Listening::Dns(_) => None,
        }
    }

    /// What happens, in numbers.
    pub(super) fn numbers(&self) -> Numbers {
        match self {
            Listening::Icap(server) => {
                let counters = server.counters();
                Box::new(move || counters.all())
            }
            Listening::Dns(server) => {
                let counters = server.counters();
                Box::new(move || counters.all())
            }
            Listening::Proxy(server) => {
                let counters = server.counters();
                Box::new(move || counters.all())
            }
        }
    }

    pub(super) async fn run(self, until: impl Future<Output = ()>) -> Result<(), StartError> {
        match self {
            Listening::Icap(server) => server.run(until).await,
            Listening::Dns(server) => server.run(until).await,
            Listening::Proxy(server) => server.run(until).await,
        }
    }
}
