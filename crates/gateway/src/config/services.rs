//! Where other programs have mail judged that they keep.

use serde::{Deserialize, Serialize};

use super::address::socket_address;

/// A protocol by which other programs have mail judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServiceProtocol {
    /// That of spamc and spamd.
    Spamd,
    /// That of an MTA and its filters.
    Milter,
    /// That of rspamc and rspamd, over HTTP.
    Rspamd,
    /// Our own, over HTTP.
    Http,
}

impl ServiceProtocol {
    /// The word in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            ServiceProtocol::Spamd => "spamd",
            ServiceProtocol::Milter => "milter",
            ServiceProtocol::Rspamd => "rspamd",
            ServiceProtocol::Http => "http",
        }
    }
}

/// Who keeps what the policy of a milter quarantines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QuarantineOwner {
    /// The MTA, the whole message with all its recipients (Postfix: its hold queue).
    Mta,
    /// Our quarantine, for each recipient by itself; what is released goes to `route`.
    Node,
}

/// Where other programs have mail judged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ServiceSettings {
    /// The protocol that its clients use.
    pub protocol: ServiceProtocol,
    /// Address and port, port 0 takes a free one; or `unix:` and the path of a socket.
    pub address: String,
    /// Permissions of that socket.
    pub socket_mode: u32,
    /// Networks in CIDR form that may ask; others are turned away. A process that reaches a socket
    /// of the file system may ask.
    pub networks: Vec<String>,
    /// Connections at once from all clients.
    pub connections_max: usize,
    /// Connections at once from one address that is not this machine's.
    pub connections_per_client_max: usize,
    /// Wait for the next piece of a request.
    pub seconds_max: u64,
    /// Seconds for a whole request (milter: none, an MTA keeps its connection).
    pub request_seconds_max: u64,
    /// Per cent of `receiver.memory_bytes_max` that bodies of this service may hold.
    pub memory_percent_max: u32,
    /// Milter: wait for the next command while the MTA's client keeps quiet.
    pub idle_seconds_max: u64,
    /// Milter: who keeps what is quarantined.
    pub quarantine: QuarantineOwner,
    /// Milter: clients whose mail goes out; that of logged-in ones does always.
    pub outbound_networks: Vec<String>,
    /// Every message judged has its line in the message log (milter: always).
    pub log: bool,
    /// Clients may say what a message is, for the classifier to learn.
    pub learn: bool,
    /// Messages an hour that one client address may say something of.
    pub learn_per_client_per_hour_max: u32,
    /// Messages an hour that one user of a client may say something of.
    pub learn_per_user_per_hour_max: u32,
    /// Users of one client whose words count apart: the names are the client's to invent.
    pub learn_users_per_client_max: u32,
    /// Http: what clients show as their bearer token; rspamd: the password of its commands that
    /// learn and that show statistics. Empty asks for none.
    pub token: String,
}

impl Default for ServiceSettings {
    fn default() -> Self {
        ServiceSettings {
            protocol: ServiceProtocol::Spamd,
            address: "127.0.0.1:783".into(),
            socket_mode: 0o660,
            networks: vec!["127.0.0.0/8".into(), "::1/128".into()],
            connections_max: 200,
            connections_per_client_max: 100,
            seconds_max: 60,
            request_seconds_max: 300,
            memory_percent_max: 75,
            idle_seconds_max: 7_200,
            quarantine: QuarantineOwner::Mta,
            outbound_networks: Vec::new(),
            log: true,
            learn: false,
            learn_per_client_per_hour_max: 1_000,
            learn_per_user_per_hour_max: 100,
            learn_users_per_client_max: 200,
            token: String::new(),
        }
    }
}

impl ServiceSettings {
    /// What is wrong if others than this machine reach it: whoever may ask there has to prove it.
    pub(crate) fn lacks_token(&self) -> Option<String> {
        let guarded = match self.protocol {
            ServiceProtocol::Http => true,
            ServiceProtocol::Rspamd => self.learn,
            ServiceProtocol::Spamd | ServiceProtocol::Milter => false,
        };
        let is_local = self.address.starts_with("unix:")
            || socket_address(&self.address).is_some_and(|address| address.ip().is_loopback());
        (guarded && self.token.is_empty() && !is_local).then(|| {
            format!("{}: others than this machine reach it; set service.token", self.address)
        })
    }
}
