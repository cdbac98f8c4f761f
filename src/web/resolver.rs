//! Names to addresses, as the node looks them up: its DNS servers and its cache; before them the
//! machine's file of hosts.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use gauntlet_gateway::net::resolver::{Kind, Resolver};
use gauntlet_proxy::resolve::Resolve;

/// The machine's own names (hosts(5)).
const HOSTS: &str = "/etc/hosts";
/// Bytes of it that are read.
const HOSTS_BYTES_MAX: usize = 1 << 20;

/// The node's resolver.
pub(super) struct NodeResolver {
    resolver: Arc<Resolver>,
    hosts: HashMap<String, Vec<IpAddr>>,
}

impl NodeResolver {
    pub(super) fn new(resolver: Arc<Resolver>) -> Self {
        // Without the file, the DNS alone is asked.
        let text = std::fs::read_to_string(HOSTS).unwrap_or_default();
        NodeResolver { resolver, hosts: hosts(&text) }
    }
}

impl Resolve for NodeResolver {
    fn resolve<'a>(&'a self, host: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        Box::pin(async move {
            if let Some(known) = self.hosts.get(&host.to_ascii_lowercase()) {
                return Ok(known.clone());
            }
            let (six, four) =
                tokio::join!(self.resolver.ask(host, Kind::Aaaa), self.resolver.ask(host, Kind::A));
            let (six, four) = (six.answer, four.answer);
            let found: Vec<IpAddr> = six.addresses().chain(four.addresses()).collect();
            if !found.is_empty() {
                return Ok(found);
            }
            let why = if four.outcome.is_nothing() { six.outcome } else { four.outcome };
            let kind = match why.is_nothing() {
                true => io::ErrorKind::NotFound,
                false => io::ErrorKind::Other,
            };
            Err(io::Error::new(kind, format!("{host}: {}", why.name())))
        })
    }
}

fn hosts(text: &str) -> HashMap<String, Vec<IpAddr>> {
    let mut all: HashMap<String, Vec<IpAddr>> = HashMap::new();
    let text = text.get(..text.floor_char_boundary(HOSTS_BYTES_MAX)).unwrap_or_default();
    for line in text.lines() {
        let mut words = line.split('#').next().unwrap_or_default().split_whitespace();
        let Some(address) = words.next().and_then(|word| word.parse::<IpAddr>().ok()) else {
            continue;
        };
        for name in words {
            let addresses = all.entry(name.to_ascii_lowercase()).or_default();
            if !addresses.contains(&address) {
                addresses.push(address);
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_of_hosts_is_read() {
        let all = hosts("127.0.0.1 localhost # us\n::1 localhost ip6\n# 10.0.0.1 no\nx y\n");
        let localhost: [IpAddr; 2] = ["127.0.0.1".parse().unwrap(), "::1".parse().unwrap()];
        assert_eq!(all["localhost"], localhost);
        assert_eq!((all.len(), all["ip6"].len()), (2, 1));
    }
}
