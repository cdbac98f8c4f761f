//! A conversation behind the stream engine: it takes chunks and gives the engine's orders.
//!
//! The engine keeps what was not consumed and gives it again. A conversation keeps it too, so only
//! what is new is taken of a chunk; what counts as consumed is what detection or a parser took.

use gauntlet_packet::Direction;
use gauntlet_packet::tcp::{self, Chunk, StreamSink};

use super::{Conversation, First, Orders};

/// What a call may change.
struct Before {
    completed: [bool; 2],
    positions: [u64; 2],
    parsed: bool,
    disabled: bool,
}

impl Conversation {
    /// What has come together since the last call: what the stream engine does not need to know.
    pub fn take_orders(&mut self) -> Orders {
        std::mem::take(&mut self.outbox)
    }

    /// Progress in this direction cannot be told any more (the stream's depth was reached, or only
    /// the other side is seen): transactions count as complete there, files are cut off.
    pub fn disrupt(&mut self, direction: Direction) {
        self.side_mut(direction).disrupted = true;
    }

    fn before(&self) -> Before {
        Before {
            completed: self.sides.each_ref().map(|side| side.completed),
            positions: self.sides.each_ref().map(|side| side.position),
            parsed: self.first == First::Parsed,
            disabled: self.disabled,
        }
    }

    /// Takes what is new in a chunk.
    fn take_chunk(&mut self, chunk: &Chunk<'_>) -> Orders {
        let way = chunk.direction;
        if let Some(len) = chunk.gap {
            let orders = self.gap(way, u64::from(len));
            self.side_mut(way).position = chunk.offset + u64::from(len);
            return orders;
        }
        let side = self.side_mut(way);
        if side.pending.is_empty() && side.position < chunk.offset {
            side.position = chunk.offset;
        }
        let here = side.position + side.pending.len() as u64;
        let skip = usize::try_from(here.saturating_sub(chunk.offset)).unwrap_or(usize::MAX);
        self.data(way, chunk.bytes.get(skip..).unwrap_or_default(), chunk.end)
    }

    /// How many bytes of a chunk are done with.
    fn consumed(&self, chunk: &Chunk<'_>, way: Direction) -> u32 {
        let all = u32::try_from(chunk.bytes.len()).unwrap_or(u32::MAX);
        match chunk.gap {
            Some(len) => len,
            None if self.disabled => all,
            None => {
                let taken = self.side(way).position.saturating_sub(chunk.offset);
                u32::try_from(taken).unwrap_or(u32::MAX).min(all)
            }
        }
    }

    /// The engine's orders, of what was done.
    fn engine_orders(&self, orders: &Orders, before: &Before, way: Direction) -> tcp::Orders {
        let wishes = &orders.wishes;
        let place = way.index();
        let completed = self.sides.each_ref().map(|side| side.completed);
        let changed = completed.get(place) != before.completed.get(place);
        let ended = self.disabled && !before.disabled;
        let other = way.reverse();
        let moved = before.positions.get(other.index()) != Some(&self.side(other).position);
        tcp::Orders {
            consumed: 0,
            needed: u32::try_from(self.side(way).needed).unwrap_or(u32::MAX),
            waiting: self.is_undecided(way),
            failed: orders.failed || ended,
            parser_failed: orders.failed && ended,
            updated: orders.updated,
            detection_completed: changed.then(|| self.side(way).completed),
            detection_reset: before.completed == [true; 2] && completed != [true; 2],
            first_data_handled: self.first == First::Parsed && !before.parsed,
            opposing_first: moved && !orders.reverse && !self.disabled,
            swap: orders.reverse,
            disable: ended,
            depth: wishes.depth.map(|depth| u32::try_from(depth).unwrap_or(u32::MAX)),
            stop: [wishes.no_reassembly; 2],
            no_raw: [wishes.no_payload_inspection; 2],
            trigger_raw: wishes.inspect_raw,
            inspect_depth: wishes.raw_depth,
            bypass: false,
            protocol_changes: self.change.is_some(),
        }
    }
}

impl StreamSink for Conversation {
    fn data(&mut self, chunk: &Chunk<'_>) -> tcp::Orders {
        if let (Some(_), Some(again)) = (chunk.resumed, self.again.take()) {
            return tcp::Orders { consumed: self.consumed(chunk, chunk.direction), ..again };
        }
        let session = &chunk.session;
        self.flow.midstream = session.midstream && !session.midstream_synack;
        if chunk.depth {
            self.disrupt(chunk.direction);
        }
        let before = self.before();
        let orders = self.take_chunk(chunk);
        let way = if orders.reverse { chunk.direction.reverse() } else { chunk.direction };
        let mut given = self.engine_orders(&orders, &before, way);
        given.consumed = self.consumed(chunk, way);
        self.outbox.merge(orders);
        if given.opposing_first {
            self.again = Some(tcp::Orders { opposing_first: false, ..given });
        }
        given
    }
}
