//! Records of packets: anomalies and drops.

use gauntlet_packet::flow::Passage;
use gauntlet_packet::{Direction, IpVersion, Packet, TcpFlags, Transport};
use gauntlet_protocols::Protocol;

use super::alert::{rule_fields, verdict};
use super::head::{self, Way};
use super::line::Line;
use super::settings::{Options, Settings};
use super::{link, transaction};
use crate::detect::Program;
use crate::pipeline::observer::{Anomaly, AnomalyLayer, Dropped, GateDecision};
use crate::rule::{Action, RuleSet};

/// Bytes of a packet that the record of an anomaly has.
const HEADER_BYTES: usize = 32;

/// The record of an anomaly, if such are told.
pub(super) fn anomaly(settings: &Settings, rules: &RuleSet, it: &Anomaly<'_>) -> Option<Line> {
    let wanted = settings.anomalies;
    let conversation = it.moment.flow.and_then(|flow| flow.conversation);
    let protocol = conversation.and_then(|conversation| conversation.protocol());
    let is_wanted = match it.layer {
        AnomalyLayer::Decode => wanted.decode,
        AnomalyLayer::Stream => wanted.stream,
        AnomalyLayer::ProtocolDetection => wanted.app_layer,
        AnomalyLayer::Transaction { .. } => {
            let is_written = protocol.is_some_and(|it| transaction::is_written(settings, it));
            wanted.app_layer && is_written
        }
    };
    if !is_wanted {
        return None;
    }
    let kind = ("anomaly", Way::Packet);
    let mut line = head::of_packet(settings, rules, &it.moment, kind, None);
    let name = protocol.map_or("unknown", |protocol| protocol.eve_name());
    match it.layer {
        AnomalyLayer::Decode | AnomalyLayer::Stream => {
            let is_stream = it.layer == AnomalyLayer::Stream;
            line.object("anomaly", |line| {
                line.string("type", if is_stream { "stream" } else { "decode" });
                line.string("event", it.event);
            });
            if wanted.packet_header {
                link::packet(it.moment.packet, it.moment.link, HEADER_BYTES, &mut line);
            }
        }
        AnomalyLayer::ProtocolDetection => line.object("anomaly", |line| {
            line.string("app_proto", name);
            line.string("type", "applayer");
            line.string("event", &it.event.to_ascii_uppercase());
            line.string("layer", "proto_detect");
        }),
        AnomalyLayer::Transaction { id } => {
            line.number("tx_id", id);
            line.object("anomaly", |line| {
                line.string("app_proto", name);
                line.string("type", "applayer");
                let upper = protocol.is_some_and(has_capital_events);
                let event = it.event;
                let shown = if upper { event.to_ascii_uppercase() } else { event.to_owned() };
                line.string("event", &shown);
                line.string("layer", "proto_parser");
            });
        }
    }
    Some(line)
}

/// Suricata writes the events of some protocols in capital letters.
fn has_capital_events(protocol: Protocol) -> bool {
    use Protocol::{Dnp3, Http1, Smtp, Tls};
    matches!(protocol, Dnp3 | Http1 | Smtp | Tls)
}

/// The record of a packet that is dropped.
pub(super) fn dropped(
    settings: &Settings,
    options: &Options,
    program: &Program,
    drop: &Dropped<'_>,
) -> Line {
    let moment = &drop.moment;
    let packet = moment.packet;
    let kind = ("drop", Way::Packet);
    let mut line = head::of_packet(settings, &program.rules, moment, kind, None);
    if let Some(flow) = moment.flow {
        let to_client = flow.direction == Direction::ToClient;
        line.string("direction", if to_client { "to_client" } else { "to_server" });
    }
    line.object("drop", |line| {
        network(packet, line);
        transport(packet, line);
        line.string("reason", drop.reason);
    });
    if options.flag("verdict", false) {
        match drop.verdict {
            Some(said) => verdict(program, packet, said, &mut line),
            None => line.object("verdict", |line| line.string("action", "drop")),
        }
    }
    if options.flag("alerts", false)
        && let Some(said) = drop.verdict
    {
        let blocks = |action| matches!(action, Action::Drop | Action::Reject(_));
        let alert = said.alerts.iter().find(|alert| blocks(alert.action));
        if let Some(alert) = alert
            && let Some(rule) = program.rules.rules.get(alert.rule as usize)
        {
            if let Some(id) = alert.transaction.filter(|_| alert.names_transaction) {
                line.number("tx_id", id);
            }
            line.object("alert", |line| rule_fields(program, (rule, alert), true, line));
        }
    }
    line
}

/// The record of what the gate decided: not Suricata's.
pub(super) fn decided(settings: &Settings, rules: &RuleSet, it: &GateDecision<'_>) -> Line {
    let mut line = head::of_packet(settings, rules, &it.moment, ("gauntlet", Way::Packet), None);
    let verdict = match it.passage {
        Passage::Inspected => "inspect",
        Passage::Free => "allow",
        Passage::Dropped => "drop",
        Passage::Rejected => "reject",
    };
    let is_blocked = it.is_inline && !it.passage.is_open();
    line.object("gauntlet", |line| {
        line.string("kind", "policy");
        line.string("verdict", verdict);
        line.optional("rule", it.rule);
        line.optional("reason", Some(it.reason).filter(|reason| !reason.is_empty()));
        line.string("action", if is_blocked { "blocked" } else { "allowed" });
    });
    line
}

fn network(packet: &Packet, line: &mut Line) {
    let Some(ip) = &packet.ip else { return };
    let header = packet.bytes.get(ip.header.clone()).unwrap_or_default();
    let word = |at: usize| {
        let bytes = header.get(at..at + 2).unwrap_or_default();
        bytes.iter().fold(0_u16, |number, byte| number << 8 | u16::from(*byte))
    };
    if ip.version == IpVersion::V4 {
        line.number("len", word(2));
        line.number("tos", ip.tos);
        line.number("ttl", ip.ttl);
        line.number("ipid", ip.id);
    } else {
        line.number("len", word(4));
        line.number("tc", ip.tos);
        line.number("hoplimit", ip.ttl);
        line.number("flowlbl", u32::from(word(0) & 0x0f) << 16 | u32::from(word(2)));
    }
}

fn transport(packet: &Packet, line: &mut Line) {
    match &packet.transport {
        Transport::Tcp(tcp) => {
            line.number("tcpseq", tcp.sequence);
            line.number("tcpack", tcp.acknowledgement);
            line.number("tcpwin", tcp.window);
            for (key, flag) in [
                ("syn", TcpFlags::SYN),
                ("ack", TcpFlags::ACK),
                ("psh", TcpFlags::PSH),
                ("rst", TcpFlags::RST),
                ("urg", TcpFlags::URG),
                ("fin", TcpFlags::FIN),
            ] {
                line.truth(key, tcp.flags.has(flag));
            }
            let header = packet.bytes.get(tcp.header.clone()).unwrap_or_default();
            line.number("tcpres", header.get(12).map_or(0, |byte| byte & 0x0f));
            line.number("tcpurgp", tcp.urgent);
        }
        Transport::Udp(udp) => {
            let header = packet.bytes.get(udp.header.clone()).unwrap_or_default();
            let length = header.get(4..6).unwrap_or_default();
            line.number("udplen", length.iter().fold(0_u16, |n, byte| n << 8 | u16::from(*byte)));
        }
        Transport::Icmp(icmp) if packet.ip.as_ref().is_some_and(|ip| ip.protocol == 1) => {
            line.number("icmp_id", icmp.id.unwrap_or_default());
            line.number("icmp_seq", icmp.sequence.unwrap_or_default());
        }
        _ => {}
    }
}
