//! Records of transactions: one type for each protocol, with the fields that its parser knows.

mod dns;
mod http;
mod mail;
mod tls;

use gauntlet_packet::{Direction, Packet, Transport};
use gauntlet_protocols::{Conversation, Fields, Protocol, Value};

use super::forwarded;
use super::head::{self, Way};
use super::line::Line;
use super::settings::{Alerts, Options, Settings};
use crate::config::parse_size;
use crate::pipeline::observer::TransactionEvent;
use crate::rule::RuleSet;

/// How the transactions of a protocol are told.
struct Kind {
    protocol: Protocol,
    /// The setting that turns them on.
    setting: &'static str,
    /// `event_type`.
    name: &'static str,
    way: Way,
    /// The head names the transaction.
    has_number: bool,
}

const fn kind(protocol: Protocol, setting: &'static str, way: Way) -> Kind {
    Kind { protocol, setting, name: setting, way, has_number: false }
}

const KINDS: &[Kind] = &[
    Kind { has_number: true, ..kind(Protocol::Http1, "http", Way::Flow) },
    Kind { name: "http", ..kind(Protocol::Http2, "http2", Way::Flow) },
    Kind { name: "dns", ..kind(Protocol::Doh2, "doh2", Way::Flow) },
    kind(Protocol::Ftp, "ftp", Way::Flow),
    Kind { name: "ftp_data", ..kind(Protocol::FtpData, "ftp", Way::Flow) },
    Kind { has_number: true, ..kind(Protocol::Smtp, "smtp", Way::Flow) },
    kind(Protocol::Tls, "tls", Way::Flow),
    kind(Protocol::Ssh, "ssh", Way::Flow),
    kind(Protocol::Pop3, "pop3", Way::Flow),
    Kind { has_number: true, ..kind(Protocol::Smb, "smb", Way::Flow) },
    kind(Protocol::Dcerpc, "dcerpc", Way::Flow),
    kind(Protocol::Dns, "dns", Way::Packet),
    kind(Protocol::Mdns, "mdns", Way::Flow),
    kind(Protocol::Modbus, "modbus", Way::Flow),
    kind(Protocol::Enip, "enip", Way::Flow),
    kind(Protocol::Nfs, "nfs", Way::Packet),
    kind(Protocol::Ntp, "ntp", Way::Packet),
    kind(Protocol::Tftp, "tftp", Way::Packet),
    kind(Protocol::Ike, "ike", Way::Packet),
    kind(Protocol::Krb5, "krb5", Way::Packet),
    kind(Protocol::Quic, "quic", Way::Packet),
    kind(Protocol::Dhcp, "dhcp", Way::Packet),
    kind(Protocol::Sip, "sip", Way::Packet),
    kind(Protocol::Rfb, "rfb", Way::Packet),
    kind(Protocol::Mqtt, "mqtt", Way::Flow),
    kind(Protocol::Websocket, "websocket", Way::Packet),
    kind(Protocol::Ldap, "ldap", Way::Flow),
    kind(Protocol::Rdp, "rdp", Way::Packet),
    kind(Protocol::Snmp, "snmp", Way::Packet),
];

/// Whether transactions of a protocol are written: only then are their anomalies.
pub(super) fn is_written(settings: &Settings, protocol: Protocol) -> bool {
    let kind = KINDS.iter().find(|kind| kind.protocol == protocol);
    kind.is_some_and(|kind| settings.of(kind.setting).is_some())
}

/// The record of a transaction that ended, if there is one to write.
pub(super) fn record(
    settings: &Settings,
    rules: &RuleSet,
    event: &TransactionEvent<'_>,
) -> Option<Line> {
    let kind = KINDS.iter().find(|kind| kind.protocol == event.protocol)?;
    let options = settings.of(kind.setting)?;
    let mut fields = event.conversation.record(event.place);
    if !choose(event, options, &mut fields) || fields.0.is_empty() {
        return None;
    }
    let name = match event.protocol {
        Protocol::Doh2 if !fields.0.iter().any(|(key, _)| *key == "dns") => "http",
        _ => kind.name,
    };
    let way = way(kind, event.moment.packet, &fields);
    let mut line = head::of_packet(settings, rules, &event.moment, (name, way), None);
    if kind.has_number {
        line.number("tx_id", event.state.id);
    }
    line.fields(&fields);
    if event.protocol == Protocol::Http1 {
        client(settings, event, &mut line);
    }
    Some(line)
}

fn client(settings: &Settings, event: &TransactionEvent<'_>, line: &mut Line) {
    let Some(behind) = settings.forwarded_of("http") else { return };
    let address = forwarded::address(&behind, event.conversation, event.place);
    if let Some(address) = address.filter(|_| !behind.overwrites) {
        line.string("xff", &address);
    }
}

fn way(kind: &Kind, packet: &Packet, fields: &Fields) -> Way {
    match kind.protocol {
        Protocol::Dns if matches!(packet.transport, Transport::Tcp(_)) => {
            if dns::is_request(fields) { Way::Flow } else { Way::ToClient }
        }
        Protocol::Mqtt if is_mqtt_answer(fields) => Way::ToClient,
        _ => kind.way,
    }
}

/// Packets that only servers send.
fn is_mqtt_answer(fields: &Fields) -> bool {
    let Some(mqtt) = object(fields, "mqtt") else { return false };
    let answers = ["connack", "suback", "unsuback", "pingresp"];
    mqtt.0.first().is_some_and(|(key, _)| answers.contains(key))
}

/// Applies the settings of the type; whether a record is to be written.
fn choose(event: &TransactionEvent<'_>, options: &Options, fields: &mut Fields) -> bool {
    match event.protocol {
        Protocol::Http1 => http::choose(event.conversation, event.place, options, fields),
        Protocol::Dns | Protocol::Doh2 => return dns::choose(options, fields),
        Protocol::Tls => return tls::choose(event, options, fields),
        Protocol::Smtp => mail::choose(event.conversation, event.place, options, fields),
        Protocol::Dhcp => return dhcp(options, fields),
        Protocol::Mqtt => mqtt(options, fields),
        Protocol::Ike if !options.flag("extended", false) => {
            for_object(fields, "ike", |ike| ike.0.retain(|(key, _)| !IKE_EXTENDED.contains(key)));
        }
        _ => {}
    }
    true
}

/// What only extended records of IKE have.
const IKE_EXTENDED: [&str; 2] = ["client", "server"];

/// Acknowledgements alone, and of them the addresses, unless everything is asked for.
fn dhcp(options: &Options, fields: &mut Fields) -> bool {
    if options.flag("extended", false) {
        return true;
    }
    let kept = ["type", "id", "client_mac", "assigned_ip", "client_id", "renewal_time", "hostname"];
    let mut is_wanted = false;
    for_object(fields, "dhcp", |dhcp| {
        is_wanted = text(dhcp, "dhcp_type") == Some("ack");
        dhcp.0.retain(|(key, _)| kept.contains(key) || *key == "dhcp_type");
    });
    is_wanted
}

/// Longest text of a record of MQTT, unless set.
const MQTT_TEXT_BYTES: u64 = 1_024;

fn mqtt(options: &Options, fields: &mut Fields) {
    let limit = options.get("string-log-limit").and_then(parse_size).unwrap_or(MQTT_TEXT_BYTES);
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let passwords = options.flag("passwords", true);
    for_object(fields, "mqtt", |mqtt| {
        if !passwords {
            for_object(mqtt, "connect", |connect| {
                connect
                    .0
                    .retain(|(key, value)| *key != "password" || matches!(value, Value::Bool(_)));
            });
        }
        if limit > 0 {
            cut(mqtt, limit);
        }
    });
}

fn cut(fields: &mut Fields, limit: usize) {
    for (_, value) in &mut fields.0 {
        cut_value(value, limit);
    }
}

fn cut_value(value: &mut Value, limit: usize) {
    match value {
        Value::Text(text) if text.len() > limit => {
            let more = text.len() - limit;
            let plural = if more == 1 { "" } else { "s" };
            let end = (0..=limit).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
            text.truncate(end);
            text.push_str(&format!("[truncated {more} additional byte{plural}]"));
        }
        Value::List(values) => values.iter_mut().for_each(|value| cut_value(value, limit)),
        Value::Object(fields) => cut(fields, limit),
        _ => {}
    }
}

/// What an alert says of its transaction.
pub(super) fn of_alert(
    conversation: &Conversation,
    place: usize,
    options: &Alerts,
    line: &mut Line,
) {
    let (Some(protocol), Some(state)) = (conversation.protocol(), conversation.state(place)) else {
        return;
    };
    for (key, direction) in
        [("ts_progress", Direction::ToServer), ("tc_progress", Direction::ToClient)]
    {
        let names = protocol.states().get(direction.index()).copied().unwrap_or_default();
        line.optional(key, names.get(usize::from(state.progress(direction))).copied());
    }
    if protocol == Protocol::Dhcp {
        return;
    }
    let fields = of_file_fields(conversation, place);
    if protocol != Protocol::Http1 || !(options.http_body || options.http_body_printable) {
        line.fields(&fields);
        return;
    }
    for (key, value) in &fields.0 {
        match value {
            Value::Object(inner) => line.object(key, |line| {
                line.fields(inner);
                http::bodies(options, conversation, place, line);
            }),
            value => line.field(key, value),
        }
    }
}

/// What the record of a file says of its transaction.
pub(super) fn of_file(conversation: &Conversation, place: usize, line: &mut Line) {
    line.fields(&of_file_fields(conversation, place));
}

fn of_file_fields(conversation: &Conversation, place: usize) -> Fields {
    let mut fields = conversation.record(place);
    if conversation.protocol() == Some(Protocol::Tls) {
        tls::plain(&mut fields);
    }
    fields
}

/// The object of this name.
fn object<'f>(fields: &'f Fields, name: &str) -> Option<&'f Fields> {
    fields.0.iter().find_map(|(key, value)| match value {
        Value::Object(inner) if *key == name => Some(inner),
        _ => None,
    })
}

fn for_object(fields: &mut Fields, name: &str, change: impl FnOnce(&mut Fields)) {
    let found = fields.0.iter_mut().find(|(key, _)| *key == name);
    if let Some((_, Value::Object(inner))) = found {
        change(inner);
    }
}

fn text<'f>(fields: &'f Fields, name: &str) -> Option<&'f str> {
    fields.0.iter().find_map(|(key, value)| match value {
        Value::Text(text) if *key == name => Some(text.as_str()),
        _ => None,
    })
}

fn flag(fields: &Fields, name: &str) -> bool {
    fields.0.iter().any(|(key, value)| *key == name && *value == Value::Bool(true))
}
