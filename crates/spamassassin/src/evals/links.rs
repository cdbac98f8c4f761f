//! Hosts of links that are looked up in lists.

use super::context::EvalContext;
use super::host_names::{host_name, reversed};
use super::memo::LinkHost;
use super::net;
use super::plan::{LinkHosts, LinkLookup, LinkRules};
use crate::questions::About;

impl LinkHost {
    pub(super) fn is_wanted(&self, only: LinkHosts) -> bool {
        match only {
            LinkHosts::All => true,
            LinkHosts::Names => self.address.is_none(),
            LinkHosts::Addresses => self.address.is_some(),
        }
    }

    pub(super) fn abouts(&self, how: LinkLookup) -> Vec<About> {
        if let Some(address) = self.address {
            return match how {
                LinkLookup::ServerNames { .. } => Vec::new(),
                _ => vec![About::Name(reversed(address))],
            };
        }
        let (host, domain) = (self.host.clone(), self.domain.clone());
        match how {
            LinkLookup::Domain => vec![About::Name(domain)],
            LinkLookup::Host => vec![About::Name(host)],
            LinkLookup::Addresses => vec![About::AddressesOf(host)],
            LinkLookup::Servers => vec![About::ServersOf(domain)],
            LinkLookup::AddressesAndServers => {
                vec![About::AddressesOf(host), About::ServersOf(domain)]
            }
            LinkLookup::ServerNames { whole } => vec![About::ServerNamesOf { domain, whole }],
        }
    }
}

/// Hosts of a message's links that are looked up in lists.
pub(super) fn links<'a>(cx: &'a EvalContext<'_>) -> &'a [LinkHost] {
    cx.memo.links.get_or_init(|| link_hosts(cx, &cx.tables.network.links))
}

/// The hosts of links, up to a number of domains.
fn link_hosts(cx: &EvalContext<'_>, rules: &LinkRules) -> Vec<LinkHost> {
    let mut domains: Vec<String> = Vec::new();
    let mut found: Vec<LinkHost> = Vec::new();
    for host in cx.hosts_of_uris(rules.mailto) {
        let address = net::address(host.trim_ascii());
        let Some(name) = host_name(host) else { continue };
        let domain = match address {
            Some(_) => name.clone(),
            None => match host_name(&cx.boundaries().trim(host)) {
                Some(domain) => domain,
                None => continue,
            },
        };
        if rules.skipped.contains(&domain) || rules.skipped.contains(&name) {
            continue;
        }
        if !domains.contains(&domain) {
            if domains.len() >= rules.domains_max {
                continue;
            }
            domains.push(domain.clone());
        }
        let link = LinkHost { host: name, domain, address };
        if !found.contains(&link) && found.len() < 2 * rules.domains_max {
            found.push(link);
        }
    }
    found
}
