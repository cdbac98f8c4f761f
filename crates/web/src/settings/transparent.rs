//! Settings of the transparent mode.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

/// What is done with connections that a router hands over.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Transparent {
    /// Where the router sends them; none without the transparent mode. Not part of a file.
    #[serde(skip)]
    pub listen: Vec<SocketAddr>,
    /// How they are handed over.
    pub mode: Mode,
    /// Which server gets them.
    pub destination: Destination,
    /// Whether a name that a client says must have the address that it connected to.
    pub verify_names: VerifyNames,
    /// What is done with what is neither TLS nor HTTP.
    pub other: Other,
}

/// How Linux hands connections over.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// By a rule of NAT (`redirect`); the proxy needs no privilege.
    #[default]
    Redirect,
    /// By a rule that finds a socket (`tproxy`); the proxy needs `CAP_NET_ADMIN`.
    Tproxy,
}

/// Where a connection goes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Destination {
    /// To the address that the client connected to. A name that the client makes up then changes
    /// what is judged, but not who answers.
    #[default]
    Original,
    /// To an address of the name that was judged; without a name, to the client's.
    Name,
}

/// What is done with a name whose addresses are others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum VerifyNames {
    /// Names are not looked up.
    #[default]
    Off,
    /// It is counted and logged.
    Log,
    /// It is refused.
    Block,
}

/// What is done with other protocols.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Other {
    /// The connection is closed.
    #[default]
    Block,
    /// It is judged by its address, and passed on.
    Tunnel,
}
