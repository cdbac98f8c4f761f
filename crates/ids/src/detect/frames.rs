//! Rules on frames: parts of a stream that the protocol's parser marks.

use gauntlet_protocols::{Bytes, Conversation, Frame};

use super::alert::Alert;
use super::header;
use super::packet::Facts;
use super::program::Program;
use super::rules::{self, Scene};
use crate::inspect::Buffer;

/// Whether frames are looked at with this packet.
fn may_inspect(facts: &Facts<'_>) -> bool {
    use gauntlet_packet::Transport;
    match &facts.packet.transport {
        Transport::Tcp(_) => facts.in_session && facts.has_new_frames,
        Transport::Udp(_) => true,
        _ => false,
    }
}

/// Inspects the frames of the packet's direction.
pub(crate) fn inspect(
    program: &Program,
    scene: &mut Scene<'_>,
    conversation: &mut Conversation,
    queue: &mut Vec<Alert>,
) {
    let Some(direction) = scene.facts.direction else { return };
    if program.frames.is_empty() || !may_inspect(scene.facts) {
        return;
    }
    let end = scene.facts.is_made || scene.facts.is_closed;
    for frame in conversation.frames(direction) {
        let pieces = frame.look(end, scene.facts.is_inline);
        if !pieces.is_empty() {
            inspect_frame(program, scene, frame, &pieces, queue);
        }
    }
    conversation.frames_inspected(direction);
}

/// Inspects what is there of a frame: a rule matches it once.
fn inspect_frame(
    program: &Program,
    scene: &mut Scene<'_>,
    frame: &Frame,
    pieces: &[Bytes<'_>],
    queue: &mut Vec<Alert>,
) {
    for user in &program.frames {
        let Some(rule) = program.rules.rules.get(user.number as usize) else { continue };
        let (protocol, name) = (&user.frame.0, &user.frame.1);
        if frame.name != name || !is_of(frame.protocol, protocol) {
            continue;
        }
        let Some(list) = rule.buffers.get(user.list) else { continue };
        let faces = rules::faces(rule, scene.facts);
        if !faces || !header::holds(&rule.header, scene.facts.packet) {
            continue;
        }
        let steps = program.rules.buffers.get(usize::from(list.key.0));
        let steps = steps.map_or(&[][..], |used| used.transforms.as_slice());
        let begun = scene.begin();
        let matches = pieces.iter().any(|piece| {
            let looked = Buffer {
                bytes: &piece.data,
                offset: piece.offset,
                is_start: piece.begin,
                is_end: piece.end,
            };
            scene.inspector.begin();
            rules::transformed_match(rule, list, steps, &looked, scene)
        });
        scene.tried(user.number, begun, matches);
        if matches {
            rules::after_match(program, user.number, scene);
            queue.push(Alert {
                rule: user.number,
                action: rules::action(program, user.number),
                transaction: frame.transaction,
                names_transaction: frame.transaction.is_some(),
                of_state: true,
                of_stream: false,
                is_rate_filtered: false,
            });
        }
    }
}

fn is_of(protocol: gauntlet_protocols::Protocol, name: &str) -> bool {
    gauntlet_protocols::ProtocolSet::of_name(name).is_some_and(|set| set.has(protocol))
}
