//! Events, application protocols as facts of a flow, states, and frames.

use super::draft::{Draft, List, Outcome, Refusal};
use super::keyword::{Keyword, keyword};
use super::text::Quotes;
use crate::rule::buffers::names;
use crate::rule::header::{Direction, Hook};
use crate::rule::matches::{AppProtocolCheck, Match, ProtocolCheck, ProtocolOf, ProtocolValue};
use crate::rule::number::Compare;
use crate::rule::protocol;

pub(super) const KEYWORDS: &[Keyword] = &[
    keyword("decode-event", |draft, value| packet_event(draft, &format!("decoder.{value}"))),
    keyword("stream-event", stream_event),
    keyword("engine-event", packet_event),
    keyword("app-layer-event", app_event),
    keyword("app-layer-protocol", app_protocol).quotes(Quotes::Optional).negatable(),
    keyword("app-layer-state", app_state),
    keyword("frame", frame),
];

fn packet_event(draft: &mut Draft<'_>, value: &str) -> Outcome {
    let name = value.trim().to_ascii_lowercase();
    if !names().packet_events.contains(&name.as_str()) {
        return Err(format!("unknown event {value:?}").into());
    }
    draft.append(List::Packet, Match::EngineEvent(name)).map(|_| ())
}

fn stream_event(draft: &mut Draft<'_>, value: &str) -> Outcome {
    let name = match value.trim() {
        "est_synack_resend_with_different_ack" => "est_synack_resend_with_diff_ack",
        "3whs_synack_resend_with_different_ack" => "3whs_synack_resend_with_diff_ack",
        name => name,
    };
    packet_event(draft, &format!("stream.{name}"))
}

fn app_event(draft: &mut Draft<'_>, value: &str) -> Outcome {
    let text = value.trim();
    let Some((protocol, event)) = text.split_once('.') else {
        let event = text.to_ascii_lowercase();
        let known = names().app_events.get("applayer");
        if !known.is_some_and(|known| known.contains(&event.as_str())) {
            return Err(format!("unknown event {value:?}").into());
        }
        return draft.append(List::Packet, Match::AppEvent { protocol: None, event }).map(|_| ());
    };
    if !draft.header.protocols.contains(6) && !draft.header.protocols.contains(17) {
        return Err("such events are of TCP and UDP only".into());
    }
    let event = event.to_ascii_lowercase();
    check_case(protocol)?;
    let known = match protocol {
        "file" => None,
        "http1" => Some("http1"),
        "http" => Some("http"),
        name => {
            let found = protocol::find(name).filter(|info| draft.shared.is_enabled(info.name));
            let found = found.ok_or_else(|| format!("unknown or disabled protocol {name:?}"))?;
            Some(found.name)
        }
    };
    let table = match known {
        Some("http1") => "http",
        Some("doh2") => "http2",
        Some("mdns") => "dns",
        Some(name) => name,
        None => "file",
    };
    let is_known = |events: &Vec<&str>| events.contains(&event.as_str());
    if !names().app_events.get(table).is_none_or(is_known) {
        // Suricata leaves out such rules without calling them wrong.
        return Err(Refusal::Skip(format!("protocol {protocol} has no event {event:?}")));
    }
    // Events of "http" are those of version 1.
    let known = known.map(|name| if name == "http" { "http1" } else { name });
    if let Some(known) = known {
        draft.set_protocol(known)?;
    }
    let key = draft.key("app-layer-events");
    draft.is_app_layer = true;
    let item = Match::AppEvent { protocol: known, event };
    draft.append(List::Buffer(key), item).map(|_| ())
}

/// Names of protocols are in lower case; only the header's first word may be in any.
fn check_case(protocol: &str) -> Outcome {
    match protocol.bytes().any(|byte| byte.is_ascii_uppercase()) {
        true => Err(format!("unknown protocol {protocol:?}: names are in lower case").into()),
        false => Ok(()),
    }
}

fn app_protocol(draft: &mut Draft<'_>, value: &str) -> Outcome {
    if draft.protocol.is_some() {
        return Err("the rule has an application protocol already".into());
    }
    let (name, of) = value.split_once(',').unwrap_or((value, "direction"));
    let negated = draft.is_negated;
    check_case(name)?;
    match name {
        "unknown" if negated => return Err("unknown cannot be negated".into()),
        "unknown" | "failed" => {}
        _ => {
            let found = protocol::find(name).filter(|info| draft.shared.is_enabled(info.name));
            found.ok_or_else(|| format!("unknown protocol {name:?}"))?;
        }
    }
    let of = match of {
        "direction" => ProtocolOf::Direction,
        "final" => ProtocolOf::Final,
        "original" => ProtocolOf::Original,
        "either" => ProtocolOf::Either,
        "to_server" => ProtocolOf::ToServer,
        "to_client" => ProtocolOf::ToClient,
        _ => return Err(format!("unknown mode {of:?}").into()),
    };
    let clashes = |item: &Match| match item {
        Match::AppProtocol(other) if other.of == of => {
            !(other.negated && negated) || other.protocol == name
        }
        _ => false,
    };
    if draft.packet.iter().any(|entry| clashes(&entry.item)) {
        return Err("several app-layer-protocol exclude each other".into());
    }
    let check = AppProtocolCheck { protocol: name.to_ascii_lowercase(), negated, of };
    draft.append(List::Packet, Match::AppProtocol(check)).map(|_| ())
}

fn app_state(draft: &mut Draft<'_>, value: &str) -> Outcome {
    let own = draft.protocol.ok_or("the rule needs an application protocol")?;
    let (mode, name) = match value.split_at_checked(1) {
        Some((mode @ ("<" | ">"), name)) => (mode, name),
        _ => ("", value),
    };
    let hook = protocol::hook(own, name);
    let (direction, progress) = hook.ok_or_else(|| format!("{own} has no state {name:?}"))?;
    match direction {
        Direction::ToServer => draft.towards.server = true,
        Direction::ToClient => draft.towards.client = true,
    }
    let compare = match mode {
        "<" => Compare::Less(progress.into()),
        ">" => Compare::More(progress.into()),
        _ => {
            draft.hook = Some(Hook::Transaction { direction, progress });
            return Ok(());
        }
    };
    draft.is_app_layer = true;
    let key = draft.key("app-layer-state");
    let value = ProtocolValue::Number(compare);
    let item = Match::Protocol(ProtocolCheck { keyword: "app-layer-state", value });
    draft.append(List::Buffer(key), item).map(|_| ())
}

fn frame(draft: &mut Draft<'_>, value: &str) -> Outcome {
    let protocols = &draft.header.protocols;
    let (tcp, udp) = (protocols.contains(6), protocols.contains(17));
    if !tcp && !udp {
        return Err("frames are of TCP and UDP only".into());
    }
    let text = value.trim().to_ascii_lowercase();
    let own = draft.protocol;
    let named = text.split_once('.').and_then(|(name, rest)| {
        let found = protocol::find(name).map(|info| info.name);
        found.map(|name| (name, rest))
    });
    let (name, frame) = match (named, own) {
        (Some((name, rest)), _) => (name, rest),
        (None, Some(own)) => (own, text.as_str()),
        (None, None) => return Err("the rule's protocol is not known".into()),
    };
    match own {
        None => draft.set_protocol(name)?,
        Some(own) if protocol::applies(own, name) => {}
        Some(own) => return Err(format!("a frame of {name} in a rule for {own}").into()),
    }
    let table = if matches!(name, "http1") { "http" } else { name };
    let known = names().frames.get(table);
    let is_known = known.is_none_or(|known| known.contains(&frame));
    if !(is_known || frame == "stream" && tcp) {
        return Err(format!("unknown frame {frame:?} of {name}").into());
    }
    let full = format!("{name}.{frame}");
    draft.activate("frame", Some(full))
}
