//! Rules for packets: an ordered list that decides about a flow by its first packet, before
//! anything looks into it.
//!
//! ```text
//! PacketSettings (TOML) -> PacketPolicy::compile -> PacketPolicy::decide(Opening) -> Decision
//!                                                -> PacketPolicy::explain         -> Explanation
//! ```
//!
//! The first rule whose conditions all hold decides; without one, the default does. Nothing here
//! knows a flow table: whoever has one keeps the decision with the flow.

mod address;
mod compile;
mod condition;
mod explain;
mod service;
mod settings;
mod zone;

use std::net::IpAddr;

pub use compile::{PacketPolicy, Problem};
pub use explain::{Explanation, Failed, RuleReport};
pub use settings::{
    Action, Carry, Function, LinkProtocol, PacketRule, PacketSettings, ZoneSettings,
};

/// A country (ISO 3166-1), two capital letters.
pub type Country = [u8; 2];

/// Countries of addresses; none of those that the database does not know.
pub type Countries<'a> = &'a dyn Fn(IpAddr) -> Option<Country>;

/// What the policy sees of a flow's first packet.
#[derive(Debug, Clone, Copy)]
pub struct Opening<'a> {
    /// Who sent it.
    pub source: IpAddr,
    /// Whom it is for.
    pub destination: IpAddr,
    /// Number of the protocol behind IP's headers (IANA).
    pub protocol: u8,
    /// Ports or what stands in their place.
    pub carried: Carried,
    /// The interface by which it came; none if that is not known (captures).
    pub incoming: Option<&'a str>,
    /// The interface by which it goes on; none if that is not known.
    pub outgoing: Option<&'a str>,
    /// When it came, in seconds since 1970.
    pub unix: i64,
}

/// What a packet has beside addresses and protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Carried {
    /// Ports of TCP, UDP, SCTP.
    Ports {
        /// Of the sender.
        source: u16,
        /// Of the receiver.
        destination: u16,
    },
    /// ICMP and ICMPv6.
    Icmp {
        /// Type.
        kind: u8,
        /// Code.
        code: u8,
    },
    /// Nothing of the kind.
    Nothing,
}

/// What was decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decision {
    /// Place of the rule in the list; none: the default decided.
    pub rule: Option<u16>,
    /// What is done.
    pub action: Action,
    /// What looks at an inspected flow.
    pub functions: Functions,
}

/// A set of [`Function`]s.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Functions(pub u8);

impl Functions {
    /// All there are.
    pub const ALL: Functions = Functions(0b1_1111);

    /// Whether it is one of them.
    pub fn has(self, function: Function) -> bool {
        self.0 & function.bit() != 0
    }

    /// The set of these.
    pub fn of(list: &[Function]) -> Self {
        Functions(list.iter().fold(0, |bits, function| bits | function.bit()))
    }

    /// Their names.
    pub fn names(self) -> Vec<&'static str> {
        let all = Function::ALL.iter().filter(|function| self.has(**function));
        all.map(|function| function.name()).collect()
    }
}

#[cfg(test)]
mod tests;
