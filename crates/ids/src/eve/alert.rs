//! Records of alerts.

use gauntlet_packet::{Direction, Packet, Transport};
use gauntlet_protocols::Protocol;

use super::head::{self, Ends, Way};
use super::line::Line;
use super::settings::{Alerts, Settings};
use super::{file, flow, forwarded, link, transaction};
use crate::detect::{Alert, Program, Verdict};
use crate::pipeline::Event;
use crate::pipeline::observer::{FlowView, Moment};
use crate::rule::{Action, RejectTo, Rule, Target};

/// TCP: alerts on streams show the stream.
const TCP: u8 = 6;

/// The record of one alert of a packet.
pub(super) fn alert(settings: &Settings, event: &Event<'_>, alert: &Alert) -> Option<Line> {
    let options = settings.alerts.as_ref()?;
    let rule = event.program.rules.rules.get(alert.rule as usize)?;
    let moment = event.moment();
    let packet = moment.packet;
    let direction = moment.flow.map(|flow| flow.direction);
    let mut ends = Ends::of(packet, direction, Way::Packet);
    let forwarded = client(options, &moment, alert);
    let overwrites = options.forwarded.as_ref().is_some_and(|it| it.overwrites);
    if let Some(address) = forwarded.clone().filter(|_| overwrites) {
        if direction == Some(Direction::ToClient) {
            ends.destination = Some(address);
        } else {
            ends.source = Some(address);
        }
    }
    let rules = &event.program.rules;
    let kind = ("alert", Way::Packet);
    let mut line = head::of_packet(settings, rules, &moment, kind, Some(&ends));
    if let Some(id) = alert.transaction.filter(|_| alert.names_transaction) {
        line.number("tx_id", id);
    }
    line.object("alert", |line| {
        rule_fields(event.program, (rule, alert), event.flow.is_dropped, line);
        if let Some(target) = rule.target {
            sides(&ends, target, line);
        }
        details(options, rule, line);
        line.optional("xff", forwarded.as_deref().filter(|_| !overwrites));
    });
    if let Some(tunnel) = &packet.tunnel {
        head::tunnel(tunnel, packet.number, &mut line);
    }
    if let Some(view) = moment.flow {
        of_flow(options, &view, alert, &ends, &mut line);
    }
    payload(options, &moment, alert, &mut line);
    if options.packet {
        link::packet(packet, moment.link, packet.bytes.len(), &mut line);
    }
    if options.verdict {
        verdict(event.program, packet, event.verdict, &mut line);
    }
    Some(line)
}

/// Who a rule is, and what it does with the packet.
pub(super) fn rule_fields(
    program: &Program,
    (rule, alert): (&Rule, &Alert),
    is_dropped: bool,
    line: &mut Line,
) {
    line.string("action", action(program, alert, is_dropped));
    line.number("gid", rule.gid);
    line.number("signature_id", rule.sid);
    line.number("rev", rule.rev);
    line.string("signature", &rule.message);
    line.string("category", rule.class.as_ref().map_or("", |class| &class.description));
    line.number("severity", rule.priority);
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

/// Attacker and target, of rules that say which is which.
fn sides(ends: &Ends, target: Target, line: &mut Line) {
    let ports = ends.ports.map_or((None, None), |(source, to)| (Some(source), Some(to)));
    let source = (ends.source.as_deref(), ports.0);
    let destination = (ends.destination.as_deref(), ports.1);
    let [attacker, target] = match target {
        Target::Destination => [source, destination],
        Target::Source => [destination, source],
    };
    for (key, (address, port)) in [("source", attacker), ("target", target)] {
        line.object(key, |line| {
            line.optional("ip", address);
            if let Some(port) = port {
                line.number("port", port);
            }
        });
    }
}

fn details(options: &Alerts, rule: &Rule, line: &mut Line) {
    if options.references && !rule.references.is_empty() {
        let all = rule.references.iter().map(|(kind, value)| format!("{kind}{value}"));
        let all: Vec<String> = all.collect();
        line.strings("references", all.iter().map(String::as_str));
    }
    if options.metadata && !rule.metadata.is_empty() {
        line.object("metadata", |line| {
            let mut keys: Vec<&str> = Vec::new();
            for (key, _) in &rule.metadata {
                if !keys.contains(&key.as_str()) {
                    keys.push(key);
                }
            }
            for key in keys {
                let values = rule.metadata.iter().filter(|(other, _)| other == key);
                line.strings(key, values.map(|(_, value)| value.as_str()));
            }
        });
    }
    if options.rule {
        line.string("rule", &rule.text);
    }
}

fn of_flow(options: &Alerts, view: &FlowView<'_>, alert: &Alert, ends: &Ends, line: &mut Line) {
    let named = alert.transaction.filter(|_| alert.names_transaction);
    if let Some((conversation, id)) = view.conversation.zip(named)
        && let Some(place) = conversation.place(id)
    {
        if options.app_layer {
            transaction::of_alert(conversation, place, options, line);
        }
        if let Some(state) = conversation.state(place).filter(|_| options.metadata) {
            let files = state.files(view.direction);
            if !files.is_empty() {
                line.objects("files", files, |line, file| file::fields(file, id, None, line));
            }
        }
    }
    flow::protocols(view.conversation, view.original, line);
    let to_client = view.direction == Direction::ToClient;
    line.string("direction", if to_client { "to_client" } else { "to_server" });
    if options.flow {
        line.object("flow", |line| {
            flow::counts(view.core, line);
            let ends = ends.clone();
            let mut ends = if to_client { ends.turned() } else { ends };
            ends.ports = ends.ports.filter(|ports| *ports != (0, 0));
            ends.write(line);
        });
    }
}

/// The client behind a proxy, as a request of the flow says.
fn client(options: &Alerts, moment: &Moment<'_>, alert: &Alert) -> Option<String> {
    let settings = options.forwarded.as_ref()?;
    let conversation = moment.flow?.conversation?;
    if conversation.protocol() != Some(Protocol::Http1) {
        return None;
    }
    match alert.transaction.filter(|_| alert.names_transaction) {
        Some(id) => forwarded::address(settings, conversation, conversation.place(id)?),
        None => (0..conversation.count())
            .find_map(|place| forwarded::address(settings, conversation, place)),
    }
}

fn payload(options: &Alerts, moment: &Moment<'_>, alert: &Alert, line: &mut Line) {
    if !(options.payload || options.payload_printable || options.payload_length) {
        return;
    }
    let packet = moment.packet;
    let is_tcp = matches!(packet.transport, Transport::Tcp(_))
        || packet.ip.as_ref().is_some_and(|ip| ip.protocol == TCP);
    let is_stream = is_tcp && alert.is_of_stream();
    let streamed = moment.flow.filter(|_| is_stream).map(|flow| stream(options, &flow));
    let bytes = match streamed {
        Some(bytes) if !bytes.is_empty() => Some(bytes),
        Some(_) if packet.payload().is_empty() => None,
        _ => Some(packet.payload().to_vec()),
    };
    if let Some(bytes) = bytes {
        if options.payload {
            line.base64("payload", &bytes);
        }
        if options.payload_length {
            line.number("payload_length", bytes.len() as u64);
        }
        if options.payload_printable {
            line.printable("payload_printable", &bytes);
        }
    }
    line.number("stream", u8::from(is_stream));
}

/// What is kept of the stream and was acknowledged, with a note where bytes are missing.
fn stream(options: &Alerts, view: &FlowView<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    let Some(session) = view.core.tcp.as_deref() else { return out };
    if session.is_stopped(view.direction) {
        return out;
    }
    let mut end = session.base_offset(view.direction);
    session.acknowledged_data(view.direction, &mut |offset, bytes| {
        let room = options.payload_bytes_max.saturating_sub(out.len());
        if offset > end {
            let note = format!("[{} bytes missing]", offset - end);
            out.extend(note.bytes().take(room));
        }
        let room = options.payload_bytes_max.saturating_sub(out.len());
        out.extend(bytes.iter().take(room));
        end = offset + bytes.len() as u64;
    });
    out
}

/// What becomes of the packet, whatever single rules say.
pub(super) fn verdict(program: &Program, packet: &Packet, verdict: &Verdict, line: &mut Line) {
    let by = verdict.dropped_by.and_then(|rule| program.rules.rules.get(rule as usize));
    let rejects = verdict.alerts.iter().find_map(|alert| match alert.action {
        Action::Reject(to) => Some(to),
        _ => None,
    });
    let rejects = rejects.or(match by.map(|rule| rule.action) {
        Some(Action::Reject(to)) if verdict.reject.is_some() => Some(to),
        _ => None,
    });
    let inline = program.settings.inline;
    line.object("verdict", |line| {
        if let Some(to) = rejects {
            line.string("action", if inline { "drop" } else { "alert" });
            let target = match to {
                RejectTo::Source => "to_client",
                RejectTo::Destination => "to_server",
                RejectTo::Both => "both",
            };
            line.string("reject-target", target);
            let how: &[&str] = match &packet.transport {
                Transport::Udp(_) | Transport::Icmp(_) => &["icmp-prohib"],
                Transport::Tcp(_) => &["tcp-reset"],
                _ => &[],
            };
            line.strings("reject", how.iter().copied());
        } else if verdict.dropped_by.is_some() && inline {
            line.string("action", "drop");
        } else if verdict.passes {
            line.string("action", "pass");
        } else {
            line.string("action", "alert");
        }
    });
}
