//! The client's name: forward-confirmed reverse DNS.

use std::net::IpAddr;

use super::lookup_context::{Effect, LookupContext};
use crate::net::resolver::Kind;

/// Names of one address that are looked up.
const NAMES_MAX: usize = 3;

/// What the client's address is called.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Reverse {
    /// The confirmed name, else the first; empty if the DNS says that there is none; none if
    /// unknown.
    pub name: Option<String>,
    /// The name has the client's address; none if unknown.
    pub confirmed: Option<bool>,
}

/// Looks the address up, and its names in turn.
pub async fn confirm(lookups: &LookupContext<'_>, client: IpAddr) -> Reverse {
    let client = client.to_canonical();
    let names = lookups.ask_names(Effect::Reverse, client).await;
    if names.outcome.is_nothing() {
        return Reverse { name: Some(String::new()), confirmed: Some(false) };
    }
    if !names.outcome.is_certain() {
        return Reverse::default();
    }
    let kind = if client.is_ipv4() { Kind::A } else { Kind::Aaaa };
    let mut unknown = false;
    for name in names.names().take(NAMES_MAX) {
        let addresses = lookups.ask(Effect::Reverse, name, kind).await;
        if addresses.addresses().any(|ip| ip == client) {
            return Reverse { name: Some(name.to_owned()), confirmed: Some(true) };
        }
        unknown |= !addresses.outcome.is_certain();
    }
    let name = names.names().next().map(str::to_owned);
    Reverse { name, confirmed: (!unknown).then_some(false) }
}
