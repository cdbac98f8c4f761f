//! `hosts` files (hosts(5)): `0.0.0.0 ads.example other.example # comment`.
//!
//! What is led to an address of this machine, or to none, is blocked: each name alone, not what is
//! below it. Names of the machine itself and of its networks say nothing.

use std::net::IpAddr;

use super::{LineFormat, plain};
use crate::entry::Entry;
use crate::limits::NAMES_A_LINE_MAX;
use crate::pattern;
use crate::problem::Fault;

pub(super) struct Hosts;

/// What every system has in its own file.
const OWN_NAMES: [&str; 12] = [
    "localhost",
    "localhost.localdomain",
    "localhost4",
    "localhost6",
    "local",
    "broadcasthost",
    "ip6-localhost",
    "ip6-loopback",
    "ip6-localnet",
    "ip6-mcastprefix",
    "ip6-allnodes",
    "0.0.0.0",
];

pub(super) fn is_sink(address: IpAddr) -> bool {
    address.is_unspecified() || address.is_loopback()
}

impl LineFormat for Hosts {
    fn line(&mut self, line: &str, out: &mut Vec<Entry>) -> Result<(), Fault> {
        let text = plain::without_comment(line);
        let text = text.split('#').next().unwrap_or_default();
        let mut words = text.split_ascii_whitespace();
        let Some(first) = words.next() else { return Ok(()) };
        let address = first.split('%').next().unwrap_or_default();
        let Ok(address) = address.parse::<IpAddr>() else {
            return Err(Fault::bad("no address first", "write 0.0.0.0 and the host"));
        };
        let mut names = words.by_ref().take(NAMES_A_LINE_MAX).peekable();
        if names.peek().is_none() {
            return Err(Fault::bad("no host behind the address", "write 0.0.0.0 and the host"));
        }
        let is_own = |name: &&str| OWN_NAMES.contains(name) || name.starts_with("ip6-");
        let mut names = names.filter(|name| !is_own(name)).peekable();
        if names.peek().is_some() && !is_sink(address) {
            return Err(Fault::skipped(
                "a host at another address",
                "only hosts at 0.0.0.0, ::, 127.0.0.0/8 and ::1 are blocked",
            ));
        }
        let mut fault = None;
        for name in names {
            match pattern::exact_host(name) {
                Ok(pattern) => out.push(Entry::new(pattern)),
                Err(error) => fault = Some(error),
            }
        }
        if words.next().is_some() {
            return Err(Fault::bad("too many hosts in a line", "write at most 256 in a line"));
        }
        fault.map_or(Ok(()), Err)
    }
}
