//! From the stream engine to the application layer.

use std::sync::Arc;

use gauntlet_packet::Direction;
use gauntlet_packet::tcp::{Chunk, Orders, StreamSink};
use gauntlet_protocols::{Carrier, Conversation, Expectation, Flow, PacketEvent, Settings, Wishes};

/// Hands data of a stream to the flow's conversation.
pub(super) struct Sink<'a> {
    conversation: &'a mut Option<Box<Conversation>>,
    settings: &'a Arc<Settings>,
    /// Of client and server.
    ports: (u16, u16),
    /// Events of detection.
    pub(super) events: Vec<PacketEvent>,
    /// Connections that were announced.
    pub(super) expected: Vec<Expectation>,
    /// Ports that were agreed on for connections, and who connects.
    pub(super) agreed: Vec<(u16, Direction)>,
    /// Payload is not to be inspected any more.
    pub(super) no_payload_inspection: bool,
    /// Nothing is to be inspected any more, once what is there has been.
    pub(super) no_inspection: bool,
}

impl<'a> Sink<'a> {
    pub(super) fn new(
        conversation: &'a mut Option<Box<Conversation>>,
        settings: &'a Arc<Settings>,
        ports: (u16, u16),
    ) -> Self {
        Self {
            conversation,
            settings,
            ports,
            events: Vec::new(),
            expected: Vec::new(),
            agreed: Vec::new(),
            no_payload_inspection: false,
            no_inspection: false,
        }
    }
}

impl Sink<'_> {
    /// While the protocol changes, the next packet asks again what bytes are that the old one left:
    /// a server may begin with HTTP/2 in the segment of its upgrade. Whether they were parsed.
    pub(super) fn again(&mut self, direction: Direction) -> bool {
        let Some(conversation) = self.conversation.as_mut().filter(|c| c.is_changing()) else {
            return false;
        };
        let done = conversation.data(direction, &[], false);
        self.take(&done);
        done.updated
    }

    /// Takes what is for the packet at hand.
    fn take(&mut self, done: &gauntlet_protocols::Orders) {
        self.events.extend(done.events.iter().copied());
        self.expected.extend(done.wishes.expected.iter().cloned());
        self.agreed.extend_from_slice(&done.wishes.agreed);
        self.no_payload_inspection |= done.wishes.no_payload_inspection;
        self.no_inspection |= done.wishes.no_parsing;
    }
}

impl StreamSink for Sink<'_> {
    fn data(&mut self, chunk: &Chunk<'_>) -> Orders {
        let midstream = chunk.session.midstream;
        let new = || conversation(self.settings, Carrier::Tcp, self.ports, midstream);
        let conversation = self.conversation.get_or_insert_with(new);
        if let Some(direction) = chunk.session.first_data {
            conversation.first_data(direction);
        }
        if waits_for_first(conversation, chunk) {
            return Orders { opposing_first: true, ..Orders::default() };
        }
        if chunk.depth {
            conversation.disrupt(chunk.direction);
        }
        let done = match chunk.gap {
            Some(len) => conversation.gap(chunk.direction, len.into()),
            None => {
                let end = chunk.end || chunk.depth;
                conversation.data(chunk.direction, chunk.bytes, end)
            }
        };
        let known = conversation.protocol_of(chunk.direction).is_some();
        let completed = known || conversation.is_unknown();
        let (is_over, is_tapped) = (conversation.is_over(), conversation.is_tapped());
        let first_data_handled = conversation.protocol().is_some();
        let waiting = conversation.is_undecided(chunk.direction);
        // A gap where nothing is known of the protocol stays, and is met again.
        let is_stuck = chunk.gap.is_some() && done.failed && !done.updated;
        self.take(&done);
        let all = Orders::consumed(chunk);
        Orders {
            consumed: if is_stuck { 0 } else { all.consumed },
            waiting,
            updated: done.updated,
            failed: done.failed,
            // Without a parser nothing of it can fail.
            parser_failed: done.failed && is_over,
            swap: done.reverse,
            disable: is_over && !is_tapped,
            first_data_handled,
            detection_completed: completed.then_some(true),
            // A change by force begins no new detection, and transactions stay.
            protocol_changes: done.wishes.change.is_some_and(|change| !change.forced),
            ..all
        }
        .with(&done.wishes)
    }
}

/// Whether the side that spoke first is to be heard first: its data could not be handed over yet,
/// as with the data of a SYN.
fn waits_for_first(conversation: &Conversation, chunk: &Chunk<'_>) -> bool {
    let other = chunk.direction.reverse();
    chunk.resumed.is_none()
        && !chunk.bytes.is_empty()
        && chunk.session.first_data == Some(other)
        && !conversation.has_data(other)
        && !conversation.is_over()
}

/// What parsers wish of the stream.
trait With {
    fn with(self, wishes: &Wishes) -> Self;
}

impl With for Orders {
    fn with(self, wishes: &Wishes) -> Self {
        Self {
            trigger_raw: wishes.inspect_raw,
            no_raw: [wishes.no_payload_inspection; 2],
            stop: [wishes.no_reassembly; 2],
            bypass: wishes.no_reassembly,
            depth: wishes.depth.map(|depth| u32::try_from(depth).unwrap_or(u32::MAX)),
            ..self
        }
    }
}

/// A conversation of a new flow.
pub(super) fn conversation(
    settings: &Arc<Settings>,
    carrier: Carrier,
    ports: (u16, u16),
    midstream: bool,
) -> Box<Conversation> {
    let flow = Flow { carrier, ports, inline: settings.inline, midstream };
    Box::new(Conversation::new(settings.clone(), flow))
}
