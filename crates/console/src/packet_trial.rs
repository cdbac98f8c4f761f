//! Rules for packets tried on kept alerts: what would have become of the flows that they are about.
//!
//! An alert keeps the ends, the protocol and the time of its flow, but no interface: zones are told
//! by their networks alone, and countries are not known.

use std::collections::BTreeMap;
use std::net::IpAddr;

use gauntlet_policy::packets::{Carried, Country, Opening, PacketPolicy};
use gauntlet_store::alert_log::AlertRecord;
use serde_json::Value;

/// Flows that stand for each change.
const EXAMPLES_MAX: usize = 5;

/// The first packet of a flow, as far as an alert tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Flow {
    pub(crate) source: (IpAddr, u16),
    pub(crate) destination: (IpAddr, u16),
    protocol: u8,
    carried: Carried,
    at_ms: i64,
}

impl Flow {
    /// Of an alert; none if it is about no packet of IP. An answer's alert says who began.
    pub(crate) fn of(alert: &AlertRecord) -> Option<Self> {
        let record: Value = serde_json::from_str(&alert.record).ok()?;
        let flow = &record["flow"];
        let end = |address: &Value, port: &Value, other: (&str, u16)| {
            let port = port.as_u64().and_then(|port| u16::try_from(port).ok());
            match address.as_str() {
                Some(address) => Some((address.parse().ok()?, port.unwrap_or(0))),
                None => Some((other.0.parse().ok()?, other.1)),
            }
        };
        let source = end(&flow["src_ip"], &flow["src_port"], (&alert.source, alert.source_port))?;
        let destination = end(
            &flow["dest_ip"],
            &flow["dest_port"],
            (&alert.destination, alert.destination_port),
        )?;
        let name = record["proto"].as_str()?.to_ascii_lowercase();
        let of_icmp = |name: &str| match (&record["icmp_type"], &record["icmp_code"]) {
            (Value::Number(kind), Value::Number(code)) => format!("{name}/{kind}.{code}"),
            _ => name.to_owned(),
        };
        let name = match name.as_str() {
            "icmp" => of_icmp("icmp"),
            "ipv6-icmp" => of_icmp("icmpv6"),
            _ => name,
        };
        let (protocol, carried) = Carried::read(&name, (source.1, destination.1)).ok()?;
        Some(Flow { source, destination, protocol, carried, at_ms: alert.at_ms })
    }

    fn opening(&self) -> Opening<'static> {
        Opening {
            source: self.source.0,
            destination: self.destination.0,
            protocol: self.protocol,
            carried: self.carried,
            incoming: None,
            outgoing: None,
            unix: self.at_ms.div_euclid(1_000),
        }
    }
}

/// What is decided: the action, and the rule that decides.
type Decided = (&'static str, String);

/// A decision that would have been another.
#[derive(Debug, Default)]
pub(crate) struct Change {
    pub(crate) alerts: u64,
    pub(crate) examples: Vec<Flow>,
}

/// What a trial found.
#[derive(Debug, Default)]
pub(crate) struct Trial {
    /// Alerts of flows that were looked at.
    pub(crate) alerts: u64,
    /// Alerts about no flow of IP.
    pub(crate) others: u64,
    /// By what was decided, and what would be.
    pub(crate) changes: BTreeMap<(Decided, Decided), Change>,
}

impl Trial {
    /// Alerts of flows about which another decision would have been made.
    pub(crate) fn different(&self) -> u64 {
        self.changes.values().map(|change| change.alerts).sum()
    }

    /// Adds an alert. Without a policy, everything is inspected.
    pub(crate) fn add(
        &mut self,
        alert: &AlertRecord,
        now: Option<&PacketPolicy>,
        tried: Option<&PacketPolicy>,
    ) {
        let Some(flow) = Flow::of(alert) else {
            self.others += 1;
            return;
        };
        self.alerts += 1;
        let opening = flow.opening();
        let [was, would_be] = [now, tried].map(|policy| decided(policy, &opening));
        if was == would_be {
            return;
        }
        let change = self.changes.entry((was, would_be)).or_default();
        change.alerts += 1;
        if change.examples.len() < EXAMPLES_MAX && !change.examples.contains(&flow) {
            change.examples.push(flow);
        }
    }
}

fn decided(policy: Option<&PacketPolicy>, opening: &Opening<'_>) -> Decided {
    let Some(policy) = policy else { return ("inspect", String::new()) };
    let decision = policy.decide(opening, &no_country);
    (decision.action.name(), policy.name(decision.rule).to_owned())
}

/// Nobody has a country here: the node's process that inspects packets has the database.
pub(crate) fn no_country(_: IpAddr) -> Option<Country> {
    None
}
