//! What a proxy is asked: objects that are asked for again and again and others that are asked for
//! once, of several sizes, and hosts that its list has.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;

use crate::http::ask::{Ask, Expect};
use crate::urls::composed;

/// Requests of a cycle: shares are exact to a two-thousandth.
const CYCLE: u64 = 2_000;
/// Different objects that are asked for again and again.
const HOT_OBJECTS: u64 = 100;
/// Name of the origin in URLs: every system has it without the network.
pub(crate) const ORIGIN: &str = "localhost";

/// Requests and their shares.
#[derive(Debug, Clone)]
pub struct Workload {
    /// Address of the origin, whose `/bytes/N/NAME` are N bytes.
    pub origin: SocketAddr,
    /// Share of requests for objects that were asked for before.
    pub hot_share: f64,
    /// Share of requests for hosts of `blocked`.
    pub blocked_share: f64,
    /// Hosts that the proxy blocks.
    pub blocked: Vec<String>,
    /// Each request goes through a tunnel (CONNECT) of its own.
    pub is_tunnelled: bool,
    /// Connections are used again; within TLS, tunnels are, too.
    pub keep_alive: bool,
    /// Requests are within TLS: to a proxy through a tunnel, whatever that does with it.
    pub is_secure: bool,
}

/// In which form requests are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// For a proxy.
    Proxy,
    /// For the origin itself. Nothing is blocked then.
    Origin,
}

impl Workload {
    /// The requests of a cycle for objects of a size.
    pub fn asks(&self, bytes: u64, form: Form) -> Arc<[Ask]> {
        let mut spread = Spread(0);
        (0..CYCLE)
            .map(|number| {
                let is_blocked = spread.next() < self.blocked_share && !self.blocked.is_empty();
                let is_hot = spread.next() < self.hot_share;
                let object = match is_hot {
                    true => format!("hot{}", number % HOT_OBJECTS),
                    false => "{}".to_owned(),
                };
                let blocked = self.blocked.get(number as usize % self.blocked.len().max(1));
                let blocked = blocked.filter(|_| is_blocked && form == Form::Proxy);
                self.ask(bytes, &object, form, blocked.map(String::as_str))
            })
            .collect()
    }

    /// One request for an object of a size, which nobody has asked for before.
    pub fn one(&self, bytes: u64, form: Form) -> Arc<[Ask]> {
        [self.ask(bytes, "{}", form, None)].into()
    }

    /// A request for each of these hosts, which are all blocked.
    pub fn blocked_asks(&self, bytes: u64) -> Arc<[Ask]> {
        let ask = |host: &String| self.ask(bytes, "{}", Form::Proxy, Some(host));
        self.blocked.iter().map(ask).collect()
    }

    fn ask(&self, bytes: u64, object: &str, form: Form, blocked: Option<&str>) -> Ask {
        let port = self.origin.port();
        let host = format!("{}:{port}", blocked.unwrap_or(ORIGIN));
        let path = format!("/bytes/{bytes}/{object}");
        let expects = match blocked {
            Some(_) => Expect::Block(bytes),
            None => Expect::Bytes(bytes),
        };
        let is_tunnelled = self.is_tunnelled || self.is_secure;
        let is_plain = form == Form::Proxy && !is_tunnelled;
        let target = if is_plain { format!("http://{host}{path}") } else { path };
        let keep_alive = self.keep_alive && (self.is_secure || !is_tunnelled);
        let ask = Ask::get(&target, &host, keep_alive, expects);
        let ask = match self.is_secure {
            true => ask.within_tls(blocked.unwrap_or(ORIGIN), keep_alive),
            false => ask,
        };
        match is_tunnelled && form == Form::Proxy {
            true => ask.through_tunnel(&host),
            false => ask,
        }
    }
}

/// Numbers from 0 to 1, evenly spread and the same in every run (a van der Corput sequence by the
/// golden ratio).
struct Spread(u64);

impl Spread {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// The domains of a composed list.
pub fn domains(entries: u64) -> impl Iterator<Item = String> {
    (0..entries).map(composed::domain)
}

/// Hosts below `count` domains of a composed list, from everywhere in it.
pub fn blocked_hosts(entries: u64, count: u64) -> Vec<String> {
    let step = (entries / count.max(1)).max(1);
    let numbers = (0..entries).step_by(usize::try_from(step).unwrap_or(usize::MAX));
    numbers.map(|number| format!("www.{}", composed::domain(number))).collect()
}

/// Hosts of a file, one a line.
///
/// # Errors
/// If it cannot be read or has none.
pub fn hosts_of(file: &Path) -> anyhow::Result<Vec<String>> {
    let text = std::fs::read_to_string(file);
    let text = text.with_context(|| format!("cannot read {}", file.display()))?;
    let lines = text.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with('#'));
    let is_host =
        |host: &&str| host.bytes().all(|b| b.is_ascii_alphanumeric() || b"-.".contains(&b));
    let hosts: Vec<String> = lines.filter(is_host).map(str::to_owned).collect();
    anyhow::ensure!(!hosts.is_empty(), "{} names no host", file.display());
    Ok(hosts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workload() -> Workload {
        Workload {
            origin: "127.0.0.1:8900".parse().unwrap(),
            hot_share: 0.75,
            blocked_share: 0.1,
            blocked: blocked_hosts(1_000, 10),
            is_tunnelled: false,
            keep_alive: true,
            is_secure: false,
        }
    }

    #[test]
    fn shares_are_kept() {
        let asks = workload().asks(5, Form::Proxy);
        let count = |of: &dyn Fn(&Ask) -> bool| asks.iter().filter(|ask| of(ask)).count();
        let blocked = count(&|ask| ask.expects == Expect::Block(5));
        assert!((190..=210).contains(&blocked), "{blocked} of 2000");
        let hot = count(&|ask| {
            let mut text = Vec::new();
            ask.write(1, &mut text);
            memchr::memmem::find(&text, b"/hot").is_some()
        });
        assert!((1_450..=1_550).contains(&hot), "{hot} of 2000");
        let direct = workload().asks(5, Form::Origin);
        assert!(direct.iter().all(|ask| ask.expects == Expect::Bytes(5)));
    }

    #[test]
    fn tunnels_are_opened_first() {
        let tunnelled = Workload { is_tunnelled: true, ..workload() };
        let ask = &tunnelled.one(5, Form::Proxy)[0];
        assert!(
            ask.connect.as_deref().unwrap().starts_with(b"CONNECT localhost:8900 HTTP/1.1\r\n")
        );
        assert_eq!(tunnelled.one(5, Form::Origin)[0].connect, None);
        assert!(hosts_of(Path::new("/nowhere")).is_err());
        let secure = Workload { is_secure: true, ..workload() };
        let ask = &secure.one(5, Form::Proxy)[0];
        assert!(ask.connect.is_some() && ask.server_name.is_some() && ask.keeps_tunnel);
        let ask = &secure.one(5, Form::Origin)[0];
        assert!(ask.connect.is_none() && ask.server_name.is_some());
    }
}
