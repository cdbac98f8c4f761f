//! What is known of the connection about a message, as distinct from what the message says of
//! itself.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

/// Which way a message travels, by the listener's role (not by what the message claims).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// From the internet to our users.
    #[default]
    Inbound,
    /// From our servers or users to the internet.
    Outbound,
}

/// The TLS session a message came in by.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TlsSession {
    /// Version of the protocol, e.g. `TLSv1.3`.
    pub version: String,
    /// Cipher suite, e.g. `TLS13_AES_256_GCM_SHA384`.
    pub cipher: String,
    /// Server name the client asked for (SNI).
    pub server_name: Option<String>,
}

/// Client address, HELO, MAIL FROM, RCPT TOs, TLS and authentication state (RFC 5321).
///
/// Addresses are without angle brackets and as the client wrote them; an empty `mail_from` is the
/// null sender `<>`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Envelope {
    /// Which way the message travels.
    pub direction: Direction,
    /// Address of the SMTP client; none for a message read from a file.
    pub client_ip: Option<IpAddr>,
    /// Forward-confirmed name of the client, when known.
    pub client_name: Option<String>,
    /// The argument of HELO, EHLO or LHLO.
    pub helo: String,
    /// Reverse path; empty is the null sender.
    pub mail_from: String,
    /// Forward paths, in the order they were accepted.
    pub rcpt_to: Vec<String>,
    /// Login of the client, if it authenticated.
    pub auth_user: Option<String>,
    /// TLS of the connection, if any.
    pub tls: Option<TlsSession>,
    /// Unix time in seconds at which the item was received; the engine's only clock.
    pub received_at: i64,
}
