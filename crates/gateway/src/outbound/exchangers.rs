//! Mail exchangers of a domain (RFC 5321 section 5.1).
//!
//! ```text
//! MX ─▶ by preference, equal ones in random order ─▶ cut at ourselves ─▶ addresses of each ─▶
//! tried └─ no MX: the domain itself     └─ a lone "." takes no mail (RFC 7505)
//! ```
//!
//! Where the DNS gives no certain answer, the message waits; only what it says for certain gives a
//! message up. With `dns.dnssec`, each host also says whether its certificates are named in the DNS
//! (DANE, RFC 7672).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use gauntlet_mail::address::ascii_domain;

use crate::net::resolver::{Answer, Data, Kind, Outcome, Resolver};
use crate::network::Reach;
use crate::outbound::mta_sts::Policy;
use crate::random::Random;

/// Hosts of one domain that are tried.
const HOSTS_MAX: usize = 16;
/// Addresses of one host that are tried.
const ADDRESSES_MAX: usize = 8;

/// A host that takes mail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exchanger {
    /// Its name, in ASCII without a final dot.
    pub host: String,
    /// Its addresses, those of IPv4 first: fewer networks are broken there.
    pub addresses: Vec<SocketAddr>,
    /// What the DNS says, signed, about its certificates.
    pub pins: Pins,
    /// Its domain asks for a certificate that is valid for its name (MTA-STS).
    pub verified: bool,
}

impl Exchanger {
    /// A host with these addresses, about which nothing more is known.
    pub fn named(host: String, addresses: Vec<SocketAddr>) -> Self {
        Exchanger { host, addresses, pins: Pins::None, verified: false }
    }
}

/// Leaves the hosts that a policy allows (MTA-STS, RFC 8461 section 4.1), and asks for valid
/// certificates there. Hosts whose certificates the DNS names are none of its business.
///
/// # Errors
/// If none is left: the message waits, for the policy may be new.
pub fn follow(policy: &Policy, hosts: Vec<Exchanger>) -> Result<Vec<Exchanger>, RouteError> {
    let allowed = |host: &Exchanger| host.pins != Pins::None || policy.names(&host.host);
    let left: Vec<Exchanger> = hosts
        .into_iter()
        .filter(allowed)
        .map(|host| Exchanger { verified: host.pins == Pins::None, ..host })
        .collect();
    match left.is_empty() {
        true => {
            Err(RouteError::Later("none of the hosts is in the domain's MTA-STS policy".to_owned()))
        }
        false => Ok(left),
    }
}

/// Certificates that the DNS names for a host (DANE, RFC 7672 section 2).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Pins {
    /// The DNS says nothing that is signed.
    #[default]
    None,
    /// There are signed TLSA records, and TLS is a must; a certificate that fits one of these, if
    /// there are any that can be used.
    Signed(Vec<Data>),
}

/// Why there is no host to hand mail to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RouteError {
    /// A passing error: try again later.
    Later(String),
    /// There never will be: the reply for the report, an enhanced code first.
    Never(String),
}

impl RouteError {
    /// The reason as the text of a reply.
    pub fn into_text(self) -> String {
        let (RouteError::Later(text) | RouteError::Never(text)) = self;
        text
    }
}

/// Who we are, so that mail does not go round in circles.
#[derive(Debug, Clone, Default)]
pub struct Ourselves {
    /// Our name in the DNS.
    pub host: String,
    /// Where we take mail from the internet.
    pub listeners: Vec<SocketAddr>,
}

impl Ourselves {
    /// The host is we: it bears our name.
    fn is_called(&self, host: &str) -> bool {
        host.eq_ignore_ascii_case(self.host.trim_end_matches('.'))
    }

    /// One of our listeners takes what is sent to this address.
    fn listens_at(&self, address: SocketAddr) -> bool {
        let here = |listener: &&SocketAddr| {
            listener.port() == address.port()
                && (listener.ip() == address.ip()
                    || (listener.ip().is_unspecified() && is_of_this_machine(address.ip())))
        };
        self.listeners.iter().any(|listener| here(&listener))
    }
}

/// The address belongs to this machine: only then can a socket have it.
fn is_of_this_machine(address: IpAddr) -> bool {
    UdpSocket::bind((address, 0)).is_ok()
}

/// The hosts that take mail for a domain, in the order in which they are to be tried.
///
/// # Errors
/// If there are none, none that can be found now, or none but ourselves.
pub async fn find(
    resolver: &Resolver,
    domain: &str,
    us: &Ourselves,
    port: u16,
    random: &Random,
    reach: &Reach,
) -> Result<Vec<Exchanger>, RouteError> {
    if let Some(address) = literal(domain) {
        let address = SocketAddr::new(address, port);
        if us.listens_at(address) {
            return Err(loops(domain));
        }
        if !reach.allows(address.ip()) {
            return Err(not_of_the_internet(domain, address.ip()));
        }
        return Ok(vec![Exchanger::named(address.ip().to_string(), vec![address])]);
    }
    let Some(name) = ascii_domain(domain).filter(|name| !name.is_empty()) else {
        return Err(RouteError::Never(format!("5.1.2 {domain} is no domain")));
    };
    let answer = resolver.ask_secure(&name, Kind::Mx).await.answer;
    let hosts = hosts(&name, &answer, us, random)?;
    let mut found = Vec::new();
    let (mut unknown, mut refused) = (None, None);
    for host in hosts.into_iter().take(HOSTS_MAX) {
        match look_up(resolver, &host, port, answer.secure || answer.outcome.is_nothing()).await {
            Ok(exchanger) if exchanger.addresses.iter().any(|a| us.listens_at(*a)) => {
                // Ours by its address; those behind it would hand the mail back to us.
                if found.is_empty() && unknown.is_none() {
                    return Err(loops(domain));
                }
                break;
            }
            Ok(mut exchanger) => {
                let mut all = exchanger.addresses.iter().map(SocketAddr::ip);
                refused = refused.or_else(|| all.find(|ip| !reach.allows(*ip)));
                exchanger.addresses.retain(|address| reach.allows(address.ip()));
                if !exchanger.addresses.is_empty() {
                    found.push(exchanger);
                }
            }
            Err(why) => unknown = unknown.or(Some(why)),
        }
    }
    match (found.is_empty(), unknown, refused) {
        (false, ..) => Ok(found),
        (true, Some(why), _) => Err(RouteError::Later(why)),
        (true, None, Some(address)) => Err(not_of_the_internet(&name, address)),
        (true, None, None) if answer.outcome == Outcome::NoName => {
            Err(RouteError::Never(format!("5.1.2 there is no domain {name}")))
        }
        (true, None, None) => Err(RouteError::Never(format!(
            "5.4.4 no host takes mail for {name}: none has an address"
        ))),
    }
}

/// An address literal: `[192.0.2.1]`, `[IPv6:2001:db8::1]`.
fn literal(domain: &str) -> Option<IpAddr> {
    let inner = domain.strip_prefix('[')?.strip_suffix(']')?;
    match inner.get(..5) {
        Some(tag) if tag.eq_ignore_ascii_case("ipv6:") => {
            inner.get(5..)?.parse::<Ipv6Addr>().ok().map(IpAddr::V6)
        }
        _ => inner.parse::<Ipv4Addr>().ok().map(IpAddr::V4),
    }
}

/// The log names the setting; the report, which a stranger may read, does not.
fn not_of_the_internet(domain: &str, address: IpAddr) -> RouteError {
    tracing::warn!(
        domain,
        %address,
        "its mail exchangers are no hosts of the internet, so mail for it is given up; if they should be \
         gone to, name their network in sender.exchanger_networks_allowed"
    );
    RouteError::Never(format!(
        "5.4.4 no host takes mail for {domain}: {address} is no address of the internet"
    ))
}

fn loops(domain: &str) -> RouteError {
    RouteError::Never(format!(
        "5.4.6 mail for {domain} would come back to us: our own name or address is its best mail \
         exchanger, but it is not one of domains.local"
    ))
}

/// Names of the hosts, best first; equal preferences in random order.
fn hosts(
    domain: &str,
    answer: &Answer,
    us: &Ourselves,
    random: &Random,
) -> Result<Vec<String>, RouteError> {
    match answer.outcome {
        Outcome::Answered => {}
        // No MX is no "no": the domain itself may be a host. A name that does not exist has no
        // address either, which the look-up of the address says.
        Outcome::NoData | Outcome::NoName => return Ok(vec![domain.to_owned()]),
        other => return Err(RouteError::Later(format!("MX of {domain}: {}", other.name()))),
    }
    let exchangers = answer.data.iter().filter_map(|data| match data {
        Data::Exchanger { preference, host } => Some((*preference, host.as_str())),
        _ => None,
    });
    let mut ranked: Vec<(u16, u64, &str)> =
        exchangers.map(|(preference, host)| (preference, random.next(), host)).collect();
    if ranked.iter().all(|(_, _, host)| host.trim_end_matches('.').is_empty()) {
        return Err(RouteError::Never(format!(
            "5.1.10 {domain} takes no mail (null MX, RFC 7505)"
        )));
    }
    ranked.retain(|(_, _, host)| !host.trim_end_matches('.').is_empty());
    let own = ranked.iter().filter(|(_, _, host)| us.is_called(host)).map(|r| r.0).min();
    if let Some(own) = own {
        ranked.retain(|(preference, _, _)| *preference < own);
    }
    if ranked.is_empty() {
        return Err(loops(domain));
    }
    ranked.sort_unstable();
    Ok(ranked.into_iter().map(|(_, _, host)| host.trim_end_matches('.').to_owned()).collect())
}

/// Addresses of a host, and its signed certificates if the way to its name was `signed` too.
async fn look_up(
    resolver: &Resolver,
    host: &str,
    port: u16,
    signed: bool,
) -> Result<Exchanger, String> {
    let (v4, v6) =
        tokio::join!(resolver.ask_secure(host, Kind::A), resolver.ask_secure(host, Kind::Aaaa));
    let (v4, v6) = (v4.answer, v6.answer);
    let addresses: Vec<SocketAddr> = v4
        .addresses()
        .chain(v6.addresses())
        .take(ADDRESSES_MAX)
        .map(|ip| SocketAddr::new(ip, port))
        .collect();
    if addresses.is_empty()
        && let Some(uncertain) = [&v4, &v6].into_iter().find(|a| !a.outcome.is_certain())
    {
        return Err(format!("address of {host}: {}", uncertain.outcome.name()));
    }
    let secure = signed && (v4.secure || v6.secure);
    let pins = if secure { pins(resolver, host, port).await? } else { Pins::None };
    Ok(Exchanger { pins, ..Exchanger::named(host.to_owned(), addresses) })
}

/// RFC 7672 section 2.1: signed records bind, their signed absence does not, and where neither is
/// known the host is not used.
async fn pins(resolver: &Resolver, host: &str, port: u16) -> Result<Pins, String> {
    let name = format!("_{port}._tcp.{host}");
    let answer = resolver.ask_secure(&name, Kind::Tlsa).await.answer;
    match answer.outcome {
        Outcome::Answered if answer.secure => Ok(Pins::Signed(answer.data.clone())),
        Outcome::Answered | Outcome::NoName | Outcome::NoData => Ok(Pins::None),
        other => Err(format!("TLSA of {name}: {}", other.name())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(exchangers: &[(u16, &str)]) -> Answer {
        let one = |(preference, host): &(u16, &str)| Data::Exchanger {
            preference: *preference,
            host: (*host).to_owned(),
        };
        let data = exchangers.iter().map(one).collect();
        Answer { outcome: Outcome::Answered, data, secure: false }
    }

    fn us() -> Ourselves {
        Ourselves { host: "gw.example".into(), listeners: Vec::new() }
    }

    #[test]
    fn better_ones_first_and_nothing_from_ourselves_on() {
        let random = Random::seeded(1);
        let list = |all: &[(u16, &str)]| hosts("d.example", &answer(all), &us(), &random);
        let all = [(30, "c"), (10, "a"), (20, "b")];
        assert_eq!(list(&all).unwrap(), ["a", "b", "c"]);
        let with_us = [(10, "a"), (20, "GW.example"), (20, "b"), (30, "c")];
        assert_eq!(list(&with_us).unwrap(), ["a"]);
        let only_us = [(10, "gw.example"), (20, "b")];
        assert!(matches!(list(&only_us), Err(RouteError::Never(why)) if why.starts_with("5.4.6")));
        assert!(
            matches!(list(&[(0, "")]), Err(RouteError::Never(why)) if why.starts_with("5.1.10"))
        );
        assert_eq!(list(&[(0, ""), (10, "a")]).unwrap(), ["a"], "RFC 7505: a lone dot only");
        let timeout = hosts("d.example", &Answer::empty(Outcome::Timeout), &us(), &random);
        assert!(matches!(timeout, Err(RouteError::Later(_))));
        let none = hosts("d.example", &Answer::empty(Outcome::NoData), &us(), &random);
        assert_eq!(none.unwrap(), ["d.example"]);
    }

    #[test]
    fn equal_preferences_share_the_load() {
        let random = Random::seeded(7);
        let equal = answer(&[(10, "a"), (10, "b"), (10, "c")]);
        let mut first = std::collections::BTreeMap::new();
        for _ in 0..300 {
            let hosts = hosts("d.example", &equal, &us(), &random).unwrap();
            *first.entry(hosts[0].clone()).or_insert(0) += 1;
        }
        assert!(first.values().all(|n| (60..=140).contains(n)), "{first:?}");
    }

    #[test]
    fn literals() {
        assert_eq!(literal("[192.0.2.1]"), "192.0.2.1".parse().ok());
        assert_eq!(literal("[IPv6:2001:db8::1]"), "2001:db8::1".parse().ok());
        for none in ["192.0.2.1", "[]", "[IPv6:]", "[x]", "[ünï:1]", "[2001:db8::1]"] {
            assert_eq!(literal(none), None, "{none}");
        }
    }

    #[test]
    fn our_own_listeners_are_known_by_address() {
        let listeners = ["0.0.0.0:25".parse().unwrap(), "192.0.2.7:26".parse().unwrap()];
        let us = Ourselves { host: "x".into(), listeners: listeners.to_vec() };
        assert!(us.listens_at("127.0.0.1:25".parse().unwrap()));
        assert!(us.listens_at("192.0.2.7:26".parse().unwrap()));
        assert!(!us.listens_at("192.0.2.8:25".parse().unwrap()), "not an address of this machine");
        assert!(!us.listens_at("127.0.0.1:2525".parse().unwrap()));
    }
}
