//! Application protocols by their names in rules, and which of them a rule's protocol stands for.

use gauntlet_protocols::Protocol;

/// A protocol that rules can name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProtocolInfo {
    /// Its name in rules.
    pub name: &'static str,
    /// Its name in the configuration (`app-layer.protocols.NAME`).
    pub setting: &'static str,
    /// Detected if the configuration does not say.
    pub is_default: bool,
    /// Over TCP.
    pub tcp: bool,
    /// Over UDP.
    pub udp: bool,
    /// It carries files.
    pub has_files: bool,
    /// Progress of a complete request and response, for hooks.
    pub complete: (u8, u8),
}

const fn info(name: &'static str, tcp: bool, udp: bool, complete: (u8, u8)) -> ProtocolInfo {
    ProtocolInfo { name, setting: name, is_default: true, tcp, udp, has_files: false, complete }
}

const fn with_files(info: ProtocolInfo) -> ProtocolInfo {
    ProtocolInfo { has_files: true, ..info }
}

const fn named(info: ProtocolInfo, setting: &'static str) -> ProtocolInfo {
    ProtocolInfo { setting, ..info }
}

const fn off(info: ProtocolInfo) -> ProtocolInfo {
    ProtocolInfo { is_default: false, ..info }
}

/// All of them; `http` is HTTP of any version.
pub const PROTOCOLS: &[ProtocolInfo] = &[
    with_files(info("http", true, false, (5, 5))),
    with_files(named(info("http1", true, false, (5, 5)), "http")),
    with_files(info("http2", true, false, (7, 7))),
    named(info("doh2", true, false, (7, 7)), "doh2"),
    with_files(info("ftp", true, false, (1, 1))),
    with_files(named(info("ftp-data", true, false, (1, 1)), "ftp")),
    with_files(info("smtp", true, false, (1, 1))),
    info("tls", true, false, (4, 5)),
    info("ssh", true, false, (3, 3)),
    info("imap", true, false, (1, 1)),
    with_files(info("smb", true, false, (1, 1))),
    info("dcerpc", true, true, (1, 1)),
    info("dns", true, true, (1, 1)),
    info("mdns", false, true, (1, 1)),
    off(info("modbus", true, false, (1, 1))),
    info("enip", true, true, (1, 1)),
    off(info("dnp3", true, false, (1, 1))),
    with_files(info("nfs", true, true, (1, 1))),
    info("ntp", false, true, (1, 1)),
    info("tftp", false, true, (1, 1)),
    info("ike", false, true, (1, 1)),
    info("krb5", true, true, (1, 1)),
    info("quic", false, true, (1, 1)),
    info("dhcp", false, true, (1, 1)),
    info("sip", true, true, (1, 1)),
    info("rfb", true, false, (1, 1)),
    info("mqtt", true, false, (1, 1)),
    info("pgsql", true, false, (1, 1)),
    info("telnet", true, false, (1, 1)),
    info("websocket", true, false, (1, 1)),
    info("ldap", true, true, (1, 1)),
    info("template", true, false, (1, 1)),
    info("rdp", true, false, (1, 1)),
    info("bittorrent-dht", false, true, (1, 1)),
    info("pop3", true, false, (1, 1)),
    info("snmp", false, true, (1, 1)),
];

/// A protocol by its name in rules.
pub fn find(name: &str) -> Option<&'static ProtocolInfo> {
    let name = if name.eq_ignore_ascii_case("ikev2") { "ike" } else { name };
    PROTOCOLS.iter().find(|info| info.name.eq_ignore_ascii_case(name))
}

/// Whether a rule for one protocol is evaluated on a flow (or list of matches) of another.
pub fn applies(rule: &str, flow: &str) -> bool {
    rule == flow
        || match rule {
            "dns" | "http2" => flow == "doh2",
            "doh2" => matches!(flow, "http2" | "dns" | "http"),
            "http" => matches!(flow, "http1" | "http2"),
            "dcerpc" => flow == "smb",
            _ => false,
        }
}

/// The protocol of a rule for `rule` that uses a keyword of `keyword`; `None` if they exclude each
/// other.
pub fn common(rule: &'static str, keyword: &'static str) -> Option<&'static str> {
    match (rule, keyword) {
        ("smb", "dcerpc") => Some("smb"),
        ("http", "http1" | "http2") => Some(keyword),
        ("http1" | "http2", "http") => Some(rule),
        ("doh2", "http" | "http2" | "dns") => Some("doh2"),
        _ => (rule == keyword).then_some(rule),
    }
}

/// Names of progress for hooks (`http1:request_headers`): whose side and how far.
pub fn hook(protocol: &str, name: &str) -> Option<(super::header::Direction, u8)> {
    use super::header::Direction::{ToClient, ToServer};
    let info = find(protocol)?;
    let [server, client] = match info.name {
        "http" | "http1" => Protocol::Http1.states(),
        "tls" => Protocol::Tls.states(),
        "ssh" => Protocol::Ssh.states(),
        _ => [&[][..]; 2],
    };
    match name {
        "request_started" => Some((ToServer, 0)),
        "response_started" => Some((ToClient, 0)),
        "request_complete" => Some((ToServer, info.complete.0)),
        "response_complete" => Some((ToClient, info.complete.1)),
        _ => {
            let at = |list: &[&str]| list.iter().position(|&hook| hook == name);
            let server = at(server).map(|progress| (ToServer, progress as u8));
            server.or_else(|| at(client).map(|progress| (ToClient, progress as u8)))
        }
    }
}
