//! Settings of all protocols; defaults are those of Suricata's stock file.

pub(crate) mod ftp;
pub(crate) mod http;
pub(crate) mod http2;
pub(crate) mod smtp;
pub(crate) mod ssh;
pub(crate) mod tls;

use std::collections::{BTreeMap, BTreeSet};

use crate::files::HashSettings;
use crate::protocol::{Carrier, Protocol};

/// What becomes of a flow once its data is encrypted (`encryption-handling`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Encrypted {
    /// Payload is not inspected any more; TLS records are still followed.
    #[default]
    TrackOnly,
    /// Nothing more is looked at.
    Bypass,
    /// As anything else.
    Full,
}

impl Encrypted {
    fn of_name(name: &str) -> Self {
        match name {
            "bypass" => Self::Bypass,
            "full" => Self::Full,
            _ => Self::TrackOnly,
        }
    }
}

/// All settings.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Protocols that are neither parsed nor detected.
    pub disabled: BTreeSet<Protocol>,
    /// Protocols that are detected and not parsed (`detection-only`).
    pub detected_only: BTreeSet<Protocol>,
    /// HTTP/1.
    pub http: http::Settings,
    /// HTTP/2.
    pub http2: http2::Settings,
    /// FTP.
    pub ftp: ftp::Settings,
    /// SSH.
    pub ssh: ssh::Settings,
    /// SMTP.
    pub smtp: smtp::Settings,
    /// TLS.
    pub tls: tls::Settings,
    /// Transactions of EtherNet/IP that wait in one flow (`enip.max-tx`).
    pub enip_transactions_max: usize,
    /// Ports that replace those of a protocol's probing functions (`detection-ports.dp`), for one
    /// carrier (`dns.tcp.detection-ports.dp`) or for all, which goes before.
    pub ports: BTreeMap<(Protocol, Option<Carrier>), Vec<u16>>,
    /// Bytes of a stream that are put together once it is known to be of this protocol
    /// (`stream-depth`), 0 for no limit; of others the stream's own depth holds.
    pub stream_depths: BTreeMap<Protocol, u64>,
    /// Frames are kept, with their bytes: there are rules about them.
    pub frames: bool,
    /// Names of the frames that are kept, without their protocols; empty: all.
    pub frame_names: BTreeSet<String>,
    /// Hashes of files.
    pub hashes: HashSettings,
    /// Connections whose beginning was not seen are followed (`stream.midstream`).
    pub midstream: bool,
    /// Bytes of one direction that a parser may leave for later.
    pub pending_bytes_max: usize,
    /// Whether streams are inspected before they are acknowledged.
    pub inline: bool,
    /// Whole messages of mail protocols are wanted ([`crate::Conversation::take_mail`]).
    pub mail: Option<crate::mail::Settings>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            disabled: [Protocol::Modbus, Protocol::Dnp3, Protocol::Enip, Protocol::Pgsql].into(),
            detected_only: BTreeSet::new(),
            http: http::Settings::default(),
            http2: http2::Settings::default(),
            ftp: ftp::Settings::default(),
            ssh: ssh::Settings::default(),
            smtp: smtp::Settings::default(),
            tls: tls::Settings::default(),
            enip_transactions_max: 1024,
            ports: BTreeMap::new(),
            stream_depths: [(Protocol::Smb, 0), (Protocol::Pgsql, 0)].into(),
            frames: false,
            frame_names: BTreeSet::new(),
            hashes: HashSettings::default(),
            midstream: false,
            pending_bytes_max: 1024 * 1024,
            inline: false,
            mail: None,
        }
    }
}

impl Settings {
    /// Sets one by its key in suricata.yaml (`app-layer.protocols.http.libhtp....`). `false`: the
    /// key is not known here, or the value cannot be read.
    pub fn set(&mut self, key: &str, value: &str) -> bool {
        let Some(rest) = key.strip_prefix("app-layer.protocols.") else { return false };
        if let Some(rest) = rest.strip_prefix("http.libhtp.default-config.") {
            return self.http.set(rest, value);
        }
        let by_protocol = match rest.split_once('.') {
            Some(("http2", name)) => self.http2.set(name, value),
            Some(("tls", name)) => self.tls.set(name, value),
            Some(("ftp", name)) => self.ftp.set(name, value),
            Some(("ssh", name)) => self.ssh.set(name, value),
            Some(("smtp", name)) => self.smtp.set(name, value),
            Some(("enip", "max-tx")) => match value.parse() {
                Ok(most) => {
                    self.enip_transactions_max = most;
                    true
                }
                Err(_) => false,
            },
            _ => false,
        };
        if by_protocol {
            return true;
        }
        if let Some(rest) = rest.strip_suffix(".detection-ports.dp") {
            let (protocol, carrier) = match rest.split_once('.') {
                Some((protocol, "tcp")) => (protocol, Some(Carrier::Tcp)),
                Some((protocol, "udp")) => (protocol, Some(Carrier::Udp)),
                Some(_) => return false,
                None => (rest, None),
            };
            return self.set_ports(protocol, carrier, value);
        }
        if let Some(protocol) = rest.strip_suffix(".stream-depth") {
            return self.set_depth(protocol, value);
        }
        let rest = rest.replace(".tcp.", ".").replace(".udp.", ".");
        rest.strip_suffix(".enabled").is_some_and(|protocol| self.enable(protocol, value))
    }

    /// Whether frames of this name are kept.
    pub(crate) fn wants_frame(&self, name: &str) -> bool {
        self.frame_names.is_empty() || self.frame_names.contains(name)
    }

    fn set_ports(&mut self, protocol: &str, carrier: Option<Carrier>, value: &str) -> bool {
        let Some(protocol) = Protocol::of_name(protocol) else { return false };
        let list = value.trim_matches(['[', ']']).split(',');
        let Ok(ports) = list.map(|port| port.trim().parse()).collect() else { return false };
        self.ports.insert((protocol, carrier), ports);
        true
    }

    /// Only these three have a depth of their own.
    fn set_depth(&mut self, protocol: &str, value: &str) -> bool {
        let protocol = Protocol::of_name(protocol);
        let has_one = |p: &Protocol| matches!(p, Protocol::Smb | Protocol::Pop3 | Protocol::Pgsql);
        let (Some(protocol), Some(bytes)) =
            (protocol.filter(has_one), gauntlet_packet::units::bytes(value))
        else {
            return false;
        };
        self.stream_depths.insert(protocol, bytes);
        true
    }

    fn enable(&mut self, protocol: &str, value: &str) -> bool {
        let name = if protocol == "http" { "http1" } else { protocol };
        let Some(protocol) = Protocol::of_name(name) else { return false };
        self.detected_only.remove(&protocol);
        match value {
            "yes" | "true" | "1" | "on" => self.disabled.remove(&protocol),
            "detection-only" => {
                self.detected_only.insert(protocol);
                self.disabled.remove(&protocol)
            }
            _ => self.disabled.insert(protocol),
        };
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protocols_with_a_stream_depth_of_their_own() {
        let mut settings = Settings::default();
        assert_eq!(settings.stream_depths.get(&Protocol::Smb), Some(&0), "no limit");
        assert!(settings.set("app-layer.protocols.smb.stream-depth", "2 MiB"));
        assert_eq!(settings.stream_depths.get(&Protocol::Smb), Some(&(2 << 20)));
        assert!(!settings.set("app-layer.protocols.ssh.stream-depth", "0"));
        assert!(!settings.set("app-layer.protocols.smb.stream-depth", "much"));
    }
}
