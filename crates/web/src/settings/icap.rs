//! What an administrator sets for the ICAP service: defaults, and bounds.

use std::net::SocketAddr;

use gauntlet_mail::Network;
use serde::{Deserialize, Serialize};

use super::{Limits, SettingsError, Times};

/// Settings of the ICAP service, `[icap]`. Sizes are bytes, times are seconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct IcapSettings {
    /// Where ICAP clients (Squid) connect; none: there is no ICAP service. Not part of a file.
    #[serde(skip)]
    pub listen: Vec<SocketAddr>,
    /// Networks of ICAP clients whose `X-Client-IP`, `X-Client-Username` and `X-Authenticated-User`
    /// are believed. For all others, the client is the one that connects.
    pub trusted_networks: Vec<String>,
    /// How they write names of users.
    pub user_encoding: UserEncoding,
    /// Answer by the method on every path; without it, only `/reqmod` and `/respmod` exist.
    pub any_path: bool,
    /// Bytes of a body that clients are asked to send with the header, and the most that is taken.
    pub preview_bytes: usize,
    /// How long a client may go by what OPTIONS said.
    pub options_ttl_seconds: u64,
    /// Bytes of an ICAP header, of the HTTP headers in a request together, and of trailers.
    pub header_bytes_max: usize,
    /// Fields of each of them.
    pub header_fields_max: usize,
    /// Bytes of a line that begins a chunk, with its extensions.
    pub chunk_line_bytes_max: usize,
    /// Connections.
    pub connections_max: usize,
    /// From a request's first byte to the end of its ICAP header.
    pub header_seconds_max: u64,
    /// A connection without a request.
    pub keep_alive_seconds_max: u64,
    /// A request in progress of which nothing passes; an inspector must have answered by then.
    pub idle_seconds_max: u64,
}

/// How ICAP clients write names of users.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum UserEncoding {
    /// As the field has it: `X-Authenticated-User` in Base64, `X-Client-Username` as it is.
    #[default]
    Header,
    /// Both in Base64 (Squid's `icap_client_username_encode on`).
    Base64,
    /// Both as they are (Squid's `icap_client_username_encode off`).
    Plain,
}

impl Default for IcapSettings {
    fn default() -> Self {
        IcapSettings {
            listen: Vec::new(),
            trusted_networks: vec!["127.0.0.0/8".to_owned(), "::1".to_owned()],
            user_encoding: UserEncoding::Header,
            any_path: true,
            // Requests and responses are judged by their headers. A preview would make the header
            // of a response wait for its body, which an event stream may not send for minutes.
            preview_bytes: 0,
            options_ttl_seconds: 600,
            header_bytes_max: 64 * 1024,
            header_fields_max: 200,
            chunk_line_bytes_max: 256,
            connections_max: 1000,
            header_seconds_max: 15,
            keep_alive_seconds_max: 300,
            idle_seconds_max: 120,
        }
    }
}

impl IcapSettings {
    /// Whether every value is within its bounds.
    ///
    /// # Errors
    /// The first that is not.
    pub fn check(&self) -> Result<(), SettingsError> {
        const DAY: u64 = 24 * 3600;
        self.networks()?;
        let size = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
        for (name, value, min, max) in [
            ("icap.preview_bytes", size(self.preview_bytes), 0, 65_536),
            ("icap.options_ttl_seconds", self.options_ttl_seconds, 1, 30 * DAY),
            ("icap.header_bytes_max", size(self.header_bytes_max), 1024, 1 << 20),
            ("icap.header_fields_max", size(self.header_fields_max), 10, 1000),
            ("icap.chunk_line_bytes_max", size(self.chunk_line_bytes_max), 20, 8192),
            ("icap.connections_max", size(self.connections_max), 1, 1_000_000),
            ("icap.header_seconds_max", self.header_seconds_max, 1, 600),
            ("icap.keep_alive_seconds_max", self.keep_alive_seconds_max, 1, DAY),
            ("icap.idle_seconds_max", self.idle_seconds_max, 1, DAY),
        ] {
            if value < min || value > max {
                return Err(SettingsError::Bounds { name, value, min, max });
            }
        }
        Ok(())
    }

    /// The networks of clients that are believed.
    ///
    /// # Errors
    /// If one is no network.
    pub fn networks(&self) -> Result<Vec<Network>, SettingsError> {
        let parse = |text: &String| text.parse().map_err(SettingsError::TrustedNetwork);
        self.trusted_networks.iter().map(parse).collect()
    }

    /// What the watch over a connection goes by: a request in progress has one stage here.
    pub fn times(&self) -> Times {
        Times {
            header_seconds_max: self.header_seconds_max,
            keep_alive_seconds_max: self.keep_alive_seconds_max,
            connect_seconds_max: 0,
            response_seconds_max: 0,
            idle_seconds_max: self.idle_seconds_max,
            ..Times::default()
        }
    }

    /// How many connections there may be, all of them of one client perhaps.
    pub fn admission(&self) -> Limits {
        Limits {
            connections_max: self.connections_max,
            client_connections_max: self.connections_max,
            ..Limits::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_within_their_bounds_and_others_are_named() {
        assert_eq!(IcapSettings::default().check(), Ok(()));
        let settings = IcapSettings { connections_max: 0, ..IcapSettings::default() };
        let error = settings.check().unwrap_err().to_string();
        assert_eq!(error, "icap.connections_max = 0 is out of its bounds: from 1 to 1000000");
        let trusted_networks = vec!["squid".to_owned()];
        let settings = IcapSettings { trusted_networks, ..IcapSettings::default() };
        let error = settings.check().unwrap_err().to_string();
        assert!(error.starts_with("icap.trusted_networks: 'squid' is no network"), "{error}");
    }
}
