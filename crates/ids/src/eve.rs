//! Records as Suricata's EVE log has them, a JSON object a line.

mod names;

use std::net::IpAddr;

use gauntlet_packet::{IpVersion, Packet, PacketSource, Time, Transport, Tunnel};
use serde::Serialize;

use crate::detect::{Alert, Program};
use crate::rule::{Action, Rule};

/// TCP, UDP and SCTP: records have ports, 0 if the packet is too short for them.
const PROTOCOLS_WITH_PORTS: [u8; 3] = [6, 17, 132];

/// The part that all records have.
#[derive(Serialize)]
struct Head<'a> {
    timestamp: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    flow_id: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pcap_cnt: Option<u64>,
    event_type: &'static str,
    #[serde(skip_serializing_if = "<[u16]>::is_empty")]
    vlan: &'a [u16],
    #[serde(flatten)]
    ends: Ends,
    #[serde(skip_serializing_if = "Option::is_none")]
    ip_v: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    icmp_type: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    icmp_code: Option<u8>,
    pkt_src: &'static str,
}

/// Addresses, ports and protocol.
#[derive(Serialize, Default)]
struct Ends {
    #[serde(skip_serializing_if = "Option::is_none")]
    src_ip: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    src_port: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dest_ip: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dest_port: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    proto: Option<String>,
}

#[derive(Serialize)]
struct AlertRecord<'a> {
    #[serde(flatten)]
    head: Head<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tx_id: Option<u64>,
    alert: AlertFields<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tunnel: Option<TunnelFields>,
    #[serde(skip_serializing_if = "Option::is_none")]
    app_proto: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    direction: Option<&'static str>,
}

#[derive(Serialize)]
struct AlertFields<'a> {
    action: &'static str,
    gid: u32,
    signature_id: u32,
    rev: u32,
    signature: &'a str,
    category: &'a str,
    severity: i32,
    #[serde(skip_serializing_if = "serde_json::Map::is_empty")]
    metadata: serde_json::Map<String, serde_json::Value>,
}

#[derive(Serialize)]
struct TunnelFields {
    #[serde(flatten)]
    ends: Ends,
    depth: u8,
    pkt_src: &'static str,
}

/// What an alert's record says of its flow.
#[derive(Debug, Clone, Copy, Default)]
pub struct FlowFields<'a> {
    /// A number for the flow.
    pub id: Option<u64>,
    /// Its protocol; `failed` if that will not be known.
    pub protocol: Option<&'a str>,
    /// Whether the packet goes to the server.
    pub to_server: Option<bool>,
    /// The packet is dropped.
    pub is_dropped: bool,
    /// Where the packet comes from, if not what it says itself.
    pub source: Option<&'static str>,
}

/// An alert as a line, without its end.
///
/// # Errors
///
/// None but those of memory: all fields can be written.
pub fn alert(
    program: &Program,
    packet: &Packet,
    alert: &Alert,
    flow: &FlowFields<'_>,
) -> serde_json::Result<String> {
    let Some(rule) = program.rules.rules.get(alert.rule as usize) else {
        return Ok(String::new());
    };
    let record = AlertRecord {
        head: head(packet, "alert", flow),
        tx_id: alert.transaction.filter(|_| alert.names_transaction),
        alert: AlertFields {
            action: action(program, alert, flow.is_dropped),
            gid: rule.gid,
            signature_id: rule.sid,
            rev: rule.rev,
            signature: &rule.message,
            category: rule.class.as_ref().map_or("", |class| &class.description),
            severity: rule.priority,
            metadata: metadata(rule),
        },
        tunnel: packet.tunnel.as_deref().map(tunnel),
        app_proto: flow.protocol,
        direction: flow.to_server.map(|to| if to { "to_server" } else { "to_client" }),
    };
    serde_json::to_string(&record)
}

fn action(program: &Program, alert: &Alert, is_dropped: bool) -> &'static str {
    let blocked = match alert.action {
        _ if alert.is_rate_filtered => is_dropped,
        Action::Reject(_) => true,
        Action::Drop => program.settings.inline,
        _ => false,
    };
    if blocked { "blocked" } else { "allowed" }
}

/// Keys of a rule's metadata with all their values, in order of the keys.
fn metadata(rule: &Rule) -> serde_json::Map<String, serde_json::Value> {
    let mut map = serde_json::Map::new();
    for (key, value) in &rule.metadata {
        let values = map.entry(key.clone()).or_insert_with(|| serde_json::Value::Array(Vec::new()));
        if let serde_json::Value::Array(values) = values {
            values.push(value.clone().into());
        }
    }
    map
}

fn head<'a>(packet: &'a Packet, event_type: &'static str, flow: &FlowFields<'_>) -> Head<'a> {
    let icmp = match &packet.transport {
        Transport::Icmp(icmp) => Some(icmp),
        _ => None,
    };
    Head {
        timestamp: timestamp(packet.time),
        flow_id: flow.id,
        pcap_cnt: packet.number.filter(|_| packet.source == PacketSource::Wire),
        event_type,
        vlan: &packet.vlan,
        ends: ends(packet),
        ip_v: packet.ip.as_ref().map(|ip| if ip.version == IpVersion::V4 { 4 } else { 6 }),
        icmp_type: icmp.map(|icmp| icmp.kind),
        icmp_code: icmp.map(|icmp| icmp.code),
        pkt_src: flow.source.unwrap_or_else(|| source(packet.source)),
    }
}

fn ends(packet: &Packet) -> Ends {
    let Some(ip) = &packet.ip else { return Ends::default() };
    let has_ports = PROTOCOLS_WITH_PORTS.contains(&ip.protocol);
    let (source, destination) = packet.ports();
    Ends {
        src_ip: Some(address(ip.source)),
        src_port: has_ports.then_some(source),
        dest_ip: Some(address(ip.destination)),
        dest_port: has_ports.then_some(destination),
        proto: Some(names::protocol(ip.protocol)),
    }
}

fn tunnel(tunnel: &Tunnel) -> TunnelFields {
    let has_ports = PROTOCOLS_WITH_PORTS.contains(&tunnel.protocol);
    TunnelFields {
        ends: Ends {
            src_ip: Some(address(tunnel.source)),
            src_port: has_ports.then_some(tunnel.ports.0),
            dest_ip: Some(address(tunnel.destination)),
            dest_port: has_ports.then_some(tunnel.ports.1),
            proto: Some(names::protocol(tunnel.protocol)),
        },
        depth: tunnel.depth,
        pkt_src: source(PacketSource::Wire),
    }
}

fn source(source: PacketSource) -> &'static str {
    match source {
        PacketSource::Wire => "wire/pcap",
        PacketSource::Tunnel(kind) => kind,
        PacketSource::Defragmented => "defrag",
        PacketSource::FlowEnd => "stream (flow timeout)",
    }
}

/// Addresses of IPv6 are written in full, as EVE does.
fn address(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => {
            let groups = address.segments().map(|group| format!("{group:04x}"));
            groups.join(":")
        }
    }
}

/// A time as records have it: in UTC, with microseconds.
pub fn timestamp(time: Time) -> String {
    let days = time.seconds.div_euclid(86_400);
    let second = time.seconds.rem_euclid(86_400);
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    let micros = time.micros;
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}+0000")
}

/// Year, month and day of a day since 1970-01-01, in the proleptic Gregorian calendar: years are
/// counted from March, so that leap days come last (H. Hinnant, "chrono-Compatible Low-Level Date
/// Algorithms").
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + era * 400 + i64::from(month <= 2), month, day)
}
