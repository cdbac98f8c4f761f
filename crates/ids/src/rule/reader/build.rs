//! Makes the rule of a draft that was read and checked.

use super::choice;
use super::draft::{Draft, Entry, Outcome};
use super::meta::PRIORITY;
use super::{check, text};
use crate::rule::buffers;
use crate::rule::header::{Direction, Hook};
use crate::rule::matches::{Dsize, Match, PacketCheck, PacketNumber};
use crate::rule::number::Compare;
use crate::rule::{BufferMatches, Engine, Needs, Place, Rule, protocol};

fn items(entries: Vec<Entry>) -> Vec<Match> {
    entries.into_iter().map(|entry| entry.item).collect()
}

/// Checks the draft and makes the rule.
pub(super) fn build(mut draft: Draft<'_>, place: &Place, rule: &str) -> Outcome<Rule> {
    let kind = check::finish(&mut draft)?;
    let fast_pattern = choice::choose(&draft);
    let engines = engines(&draft, fast_pattern.as_ref().and_then(|pattern| pattern.key));
    let prefilter = draft.prefilter.and_then(|spot| draft.packet_index(spot));
    let needs = needs(&draft);
    let dsize = draft.packet.iter().find_map(|entry| match entry.item {
        Match::Number(PacketNumber::PayloadSize, compare) => Some(Dsize(compare)),
        _ => None,
    });
    let buffers = std::mem::take(&mut draft.buffers);
    let buffers = buffers.into_iter().map(|buffer| BufferMatches {
        key: buffer.key,
        only: buffer.only,
        is_multi: buffer.is_multi,
        matches: items(buffer.entries),
    });
    let buffers: Vec<BufferMatches> = buffers.collect();
    debug_assert!(rule.len() <= text::RULE_BYTES_MAX);
    Ok(Rule {
        place: place.clone(),
        text: rule.to_owned(),
        action: draft.action,
        scope: draft.scope,
        gid: draft.gid,
        sid: draft.sid,
        rev: draft.rev,
        message: std::mem::take(&mut draft.message),
        class: draft.class.take(),
        priority: draft.priority.unwrap_or(PRIORITY),
        references: std::mem::take(&mut draft.references),
        metadata: std::mem::take(&mut draft.metadata),
        target: draft.target,
        header: draft.header.clone(),
        hook: draft.hook.take(),
        app_protocols: match draft.protocol {
            Some(one) => vec![one],
            None => std::mem::take(&mut draft.protocols),
        },
        is_app_layer: draft.is_app_layer,
        towards: draft.towards,
        flow: draft.flow,
        is_bidirectional: draft.is_bidirectional,
        kind,
        needs,
        needs_packet: draft.needs_packet,
        needs_stream: draft.needs_stream,
        dsize,
        packet: items(std::mem::take(&mut draft.packet)),
        payload: items(std::mem::take(&mut draft.payload)),
        base64: items(std::mem::take(&mut draft.base64)),
        buffers,
        engines,
        post: items(std::mem::take(&mut draft.post)),
        tag: draft.tag,
        threshold: draft.threshold.take(),
        fast_pattern,
        prefilter,
        no_alert: draft.no_alert,
    })
}

/// What a packet must have at least.
fn needs(draft: &Draft<'_>) -> Needs {
    let mut needs = Needs {
        real_packet: draft.needs_packet && !draft.needs_stream,
        payload: !draft.payload.is_empty(),
        flow: draft.has_flow || draft.is_app_layer,
        ..Needs::default()
    };
    for entry in &draft.packet {
        match &entry.item {
            Match::FlowBits(_) | Match::FlowInt(_) => needs.flow = true,
            Match::Packet(PacketCheck::TcpFlags { flags, .. }) => {
                needs.tcp_begin_or_end |= flags & 0x07 != 0;
                needs.tcp_unusual |= flags & 0xe0 != 0;
            }
            Match::Number(PacketNumber::PayloadSize, compare) => match compare {
                Compare::Between(..)
                | Compare::More(_)
                | Compare::NotEqual(_)
                | Compare::AtLeast(_) => needs.payload = true,
                Compare::Equal(0) => needs.no_payload = true,
                Compare::Equal(_) => needs.payload = true,
                _ => {}
            },
            Match::EngineEvent(_) | Match::AppEvent { .. } => needs.event = true,
            _ => {}
        }
    }
    needs
}

/// The steps of inspecting a transaction: that of the fast pattern first, then by progress.
fn engines(draft: &Draft<'_>, fast: Option<crate::rule::BufferKey>) -> Vec<Engine> {
    let mut out: Vec<Engine> = Vec::new();
    let mut head_is_fast = false;
    for (list, buffer) in draft.buffers.iter().enumerate() {
        let Some(used) = draft.shared.buffer_use(buffer.key) else { continue };
        let Some(info) = buffers::buffer(used.name) else { continue };
        for engine in &info.engines {
            let only = buffer.only.is_none_or(|only| only == engine.direction);
            if draft.is_bidirectional && !only {
                continue;
            }
            let engine = Engine {
                protocol: engine.protocol,
                direction: engine.direction,
                progress: engine.progress,
                list: Some(list),
                is_prefilter: fast == Some(buffer.key),
            };
            push(draft, &mut out, engine, &mut head_is_fast);
        }
        if info.name == "hook" {
            push_hook(draft, &mut out, Some(list), &mut head_is_fast);
        }
    }
    if draft.buffers.is_empty() {
        push_hook(draft, &mut out, None, &mut head_is_fast);
    }
    out
}

fn push_hook(draft: &Draft<'_>, out: &mut Vec<Engine>, list: Option<usize>, fast: &mut bool) {
    if let (Some(Hook::Transaction { direction, progress }), Some(protocol)) =
        (&draft.hook, draft.protocol)
    {
        let engine = Engine {
            protocol,
            direction: *direction,
            progress: *progress,
            list,
            is_prefilter: false,
        };
        push(draft, out, engine, fast);
    }
}

fn push(draft: &Draft<'_>, out: &mut Vec<Engine>, engine: Engine, head_is_fast: &mut bool) {
    let applies = match draft.protocol {
        _ if engine.protocol.is_empty() => true,
        Some(own) if matches!(draft.hook, Some(Hook::Transaction { .. })) => own == engine.protocol,
        Some(own) => protocol::applies(own, engine.protocol),
        None => true,
    };
    let towards = draft.towards;
    let wrong_side = match engine.direction {
        Direction::ToServer => towards.client && !towards.server,
        Direction::ToClient => towards.server && !towards.client,
    };
    if !applies || wrong_side {
        return;
    }
    *head_is_fast |= engine.is_prefilter;
    let goes_first = engine.is_prefilter
        || !*head_is_fast && out.first().is_some_and(|first| first.progress > engine.progress);
    if goes_first {
        out.insert(0, engine);
        return;
    }
    // Behind the head, by progress.
    let later = out.iter().skip(1).position(|other| other.progress > engine.progress);
    let at = later.map_or(out.len(), |at| at + 1);
    out.insert(at, engine);
}
