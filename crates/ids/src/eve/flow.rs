//! Records of flows that ended, both ways (`flow`) and each by itself (`netflow`), and what other
//! records say of their flow.

use gauntlet_packet::flow::{FlowCore, FlowState};
use gauntlet_packet::{Direction, Time};
use gauntlet_protocols::Conversation;

use super::head::{flow_options, of_flow, timestamp};
use super::line::Line;
use super::settings::Settings;
use crate::detect::FlowActions;
use crate::pipeline::observer::FlowEnd;
use crate::rule::RuleSet;

const TCP: u8 = 6;

/// Flags of TCP, in the order in which records have them.
const FLAGS: [(u8, &str); 8] = [
    (0x02, "syn"),
    (0x01, "fin"),
    (0x04, "rst"),
    (0x08, "psh"),
    (0x10, "ack"),
    (0x20, "urg"),
    (0x40, "ecn"),
    (0x80, "cwr"),
];

/// Names of the application protocol: of the flow, and of each side where that differs.
pub(super) fn protocols(
    conversation: Option<&Conversation>,
    original: Option<gauntlet_protocols::Protocol>,
    line: &mut Line,
) {
    let Some(conversation) = conversation else { return };
    let name = |protocol: Option<gauntlet_protocols::Protocol>| match protocol {
        Some(protocol) => Some(protocol.eve_name()),
        None if conversation.is_unknown() => Some("failed"),
        None => None,
    };
    let whole = name(conversation.protocol());
    line.optional("app_proto", whole);
    let sides = [("app_proto_ts", Direction::ToServer), ("app_proto_tc", Direction::ToClient)];
    for (key, direction) in sides {
        let side = name(conversation.protocol_of(direction));
        line.optional(key, side.filter(|_| side != whole));
    }
    let original = original.map(|protocol| protocol.eve_name());
    line.optional("app_proto_orig", original.filter(|_| original != whole));
}

/// Packets, bytes and the first packet's time.
pub(super) fn counts(core: &FlowCore, line: &mut Line) {
    let [to_server, to_client] = core.packets;
    line.number("pkts_toserver", to_server);
    line.number("pkts_toclient", to_client);
    let [to_server, to_client] = core.bytes;
    line.number("bytes_toserver", to_server);
    line.number("bytes_toclient", to_client);
    line.string("start", &timestamp(core.first));
}

fn age(core: &FlowCore) -> i64 {
    core.last.seconds.saturating_sub(core.first.seconds).max(0)
}

/// The record `flow`.
pub(super) fn flow(settings: &Settings, rules: &RuleSet, end: &FlowEnd<'_>, now: Time) -> Line {
    let core = end.core;
    let mut line = of_flow(core, "flow", now, false);
    protocols(end.conversation, end.original, &mut line);
    line.object("flow", |line| {
        counts(core, line);
        line.string("end", &timestamp(core.last));
        line.number("age", age(core));
        line.string("state", core.state.name());
        if core.state == FlowState::Bypassed {
            line.string("bypass", "local");
        }
        line.string("reason", end.reason.name());
        line.truth("alerted", core.alerts > 0);
        if core.drops || end.state.action == FlowActions::Drop {
            line.string("action", "drop");
        } else if core.passes || end.state.action == FlowActions::Pass {
            line.string("action", "pass");
        }
        if end.transactions > 0 {
            line.number("tx_cnt", end.transactions);
        }
    });
    flow_options(settings, rules, end.state, core, &mut line);
    if core.protocol == TCP {
        line.object("tcp", |line| tcp(core, line));
    }
    line
}

fn tcp(core: &FlowCore, line: &mut Line) {
    let session = core.tcp.as_deref();
    let of = |direction| session.map_or(0, |session| session.flags_of(direction));
    let flags = session.map_or(0, |session| session.flags());
    let (client, server) = (Direction::ToServer, Direction::ToClient);
    line.string("tcp_flags", &format!("{flags:02x}"));
    line.string("tcp_flags_ts", &format!("{:02x}", of(client)));
    line.string("tcp_flags_tc", &format!("{:02x}", of(server)));
    flag_names(flags, line);
    let Some(session) = session else { return };
    line.string("state", session.state().name());
    for (key, direction) in [("tc_gap", server), ("ts_gap", client)] {
        if session.has_gap(direction) {
            line.truth(key, true);
        }
    }
    line.number("ts_max_regions", session.regions_max(client));
    line.number("tc_max_regions", session.regions_max(server));
    for (key, direction) in [("ts_urgent_oob_data", client), ("tc_urgent_oob_data", server)] {
        let count = session.urgent_bytes(direction);
        if count > 0 {
            line.number(key, count);
        }
    }
}

fn flag_names(flags: u8, line: &mut Line) {
    for (_, name) in FLAGS.iter().filter(|(bit, _)| flags & bit != 0) {
        line.truth(name, true);
    }
}

/// Records `netflow`: one for each direction that had packets, the client's even if it had none.
pub(super) fn netflow(
    settings: &Settings,
    rules: &RuleSet,
    end: &FlowEnd<'_>,
    now: Time,
) -> Vec<Line> {
    let core = end.core;
    let mut lines = Vec::new();
    for (side, direction) in [Direction::ToServer, Direction::ToClient].into_iter().enumerate() {
        let packets = core.packets.get(side).copied().unwrap_or_default();
        if side == 1 && packets == 0 {
            continue;
        }
        let mut line = of_flow(core, "netflow", now, side == 1);
        let conversation = end.conversation;
        let protocol = conversation.and_then(|conversation| {
            conversation.protocol_of(direction).or(conversation.protocol())
        });
        line.string("app_proto", protocol.map_or("unknown", |protocol| protocol.eve_name()));
        line.object("netflow", |line| {
            line.number("pkts", packets);
            line.number("bytes", core.bytes.get(side).copied().unwrap_or_default());
            line.string("start", &timestamp(core.first));
            line.string("end", &timestamp(core.last));
            line.number("age", age(core));
            let [shortest, longest] = core.ttl.get(side).copied().unwrap_or_default();
            line.number("min_ttl", shortest);
            line.number("max_ttl", longest);
            if end.transactions > 0 {
                line.number("tx_cnt", end.transactions);
            }
        });
        flow_options(settings, rules, end.state, core, &mut line);
        if core.protocol == TCP {
            let flags = core.tcp.as_deref().map_or(0, |session| session.flags_of(direction));
            line.object("tcp", |line| {
                line.string("tcp_flags", &format!("{flags:02x}"));
                flag_names(flags, line);
            });
        }
        lines.push(line);
    }
    lines
}
