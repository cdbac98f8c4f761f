//! Connections to servers: look-up, check of every address, and a race between those that may be
//! reached (Happy Eyeballs, RFC 8305).

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::destination::Reach;
use crate::recent::Recent;
use crate::refusal::Refusal;
use crate::resolve::Resolve;

/// How long one attempt is ahead of the next (RFC 8305 section 5).
const ATTEMPT_DELAY: Duration = Duration::from_millis(250);
/// Where `localhost` leads.
const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Makes connections.
pub(crate) struct Connector {
    pub(crate) reach: Reach,
    pub(crate) resolver: Arc<dyn Resolve>,
    pub(crate) wait_max: Duration,
    pub(crate) addresses_max: usize,
    /// Our own connections, by which loops are seen; none if there is no need.
    pub(crate) recent: Option<Recent>,
}

/// Who named a destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NamedBy {
    /// A client: addresses are checked.
    Client,
    /// The settings.
    Settings,
}

impl Connector {
    /// Connects to one of the host's addresses that may be reached. Those of a name that a client
    /// says are asked about one by one: `judge` says why not.
    ///
    /// # Errors
    /// Why not.
    pub(crate) async fn connect(
        &self,
        host: &str,
        port: u16,
        named_by: NamedBy,
        judge: impl Fn(IpAddr) -> Result<(), Refusal>,
    ) -> Result<TcpStream, Refusal> {
        let connecting = async {
            let addresses = self.addresses(host, named_by, judge).await?;
            race(addresses.into_iter().map(|ip| SocketAddr::new(ip, port)).collect())
                .await
                .map_err(|error| refusal_of(&error))
        };
        let stream = timeout(self.wait_max, connecting).await;
        let stream = stream.unwrap_or(Err(Refusal::ConnectTimeout))?;
        // Without it, small pieces would wait for acknowledgements; an error changes nothing else.
        let _ = stream.set_nodelay(true);
        if let (Some(recent), Ok(from)) = (&self.recent, stream.local_addr()) {
            recent.note(from);
        }
        Ok(stream)
    }

    /// Whether a host that another proxy connects to may be reached: addresses are checked, names
    /// are the other's to look up.
    ///
    /// # Errors
    /// If it may not.
    pub(crate) fn check_literal(&self, host: &str) -> Result<(), Refusal> {
        let is_local = host == "localhost" || host.ends_with(".localhost");
        match host.parse::<IpAddr>() {
            Ok(address) if !self.reach.allows(address) => Err(Refusal::Destination(address)),
            Err(_) if is_local && !self.reach.allows(LOOPBACK) => {
                Err(Refusal::Destination(LOOPBACK))
            }
            _ => Ok(()),
        }
    }

    /// Whether the host has this address. A name that cannot be looked up has none.
    pub(crate) async fn has_address(&self, host: &str, address: IpAddr) -> bool {
        if let Ok(literal) = host.parse::<IpAddr>() {
            return literal.to_canonical() == address;
        }
        let found = timeout(self.wait_max, self.resolver.resolve(host)).await;
        let found = found.ok().and_then(Result::ok).unwrap_or_default();
        found.into_iter().any(|ip| ip.to_canonical() == address)
    }

    async fn addresses(
        &self,
        host: &str,
        named_by: NamedBy,
        judge: impl Fn(IpAddr) -> Result<(), Refusal>,
    ) -> Result<Vec<IpAddr>, Refusal> {
        let literal = host.parse::<IpAddr>().ok();
        let all = match literal {
            Some(address) => vec![address],
            None => self.resolver.resolve(host).await.map_err(|_| Refusal::NameNotFound)?,
        };
        let Some(first) = all.first().copied() else { return Err(Refusal::NameNotFound) };
        let may = |ip: &IpAddr| named_by == NamedBy::Settings || self.reach.allows(*ip);
        let mut refusal = Refusal::Destination(first);
        let mut addresses = in_turn(all.into_iter().filter(may).collect());
        addresses.truncate(self.addresses_max);
        // An address in a URL was judged with it.
        if literal.is_none() && named_by == NamedBy::Client {
            addresses.retain(|ip| judge(*ip).map_err(|why| refusal = why).is_ok());
        }
        match addresses.is_empty() {
            true => Err(refusal),
            false => Ok(addresses),
        }
    }
}

/// Families in turn, beginning with that of the first address (RFC 8305 section 4).
fn in_turn(addresses: Vec<IpAddr>) -> Vec<IpAddr> {
    let Some(first) = addresses.first().map(IpAddr::is_ipv6) else { return addresses };
    let (mut ours, mut others): (Vec<_>, Vec<_>) =
        addresses.into_iter().rev().partition(|ip| ip.is_ipv6() == first);
    let mut turns = Vec::with_capacity(ours.len() + others.len());
    while !(ours.is_empty() && others.is_empty()) {
        turns.extend(ours.pop());
        turns.extend(others.pop());
    }
    turns
}

/// The first connection that is made; the other attempts are given up.
async fn race(addresses: Vec<SocketAddr>) -> io::Result<TcpStream> {
    let mut rest = addresses.into_iter();
    let mut attempts = JoinSet::new();
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    loop {
        if let Some(address) = rest.next() {
            attempts.spawn(TcpStream::connect(address));
        }
        tokio::select! {
            ended = attempts.join_next() => match ended {
                Some(Ok(Ok(stream))) => return Ok(stream),
                Some(Ok(Err(error))) => last = error,
                Some(Err(error)) => last = io::Error::other(error),
                None => return Err(last),
            },
            () = sleep(ATTEMPT_DELAY), if rest.len() > 0 => {}
        }
    }
}

fn refusal_of(error: &io::Error) -> Refusal {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => Refusal::ConnectRefused,
        io::ErrorKind::TimedOut => Refusal::ConnectTimeout,
        _ => Refusal::Unreachable,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_take_turns() {
        let parse = |text: &str| text.split(' ').map(|a| a.parse().unwrap()).collect::<Vec<_>>();
        let turns = in_turn(parse("::1 ::2 ::3 1.1.1.1 2.2.2.2"));
        assert_eq!(turns, parse("::1 1.1.1.1 ::2 2.2.2.2 ::3"));
        assert_eq!(in_turn(parse("1.1.1.1 ::1")), parse("1.1.1.1 ::1"));
    }
}
