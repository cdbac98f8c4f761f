//! What the detection engine asks of a conversation.

use gauntlet_packet::Direction;

use super::Conversation;
use crate::buffer::{Buffer, Bytes, Number};
use crate::file_buffers;
use crate::files::Look;
use crate::frames::Frame;
use crate::parser::At;
use crate::protocol::{Carrier, Protocol};
use crate::record::Fields;
use crate::registry;
use crate::transaction::State;

/// Progress of HTTP/1 in which bodies are transferred, in either direction.
const HTTP_BODY: u8 = 3;

impl Conversation {
    /// How many transactions there are.
    pub fn count(&self) -> usize {
        self.parser.as_ref().map_or(0, |parser| parser.count())
    }

    /// The state of the transaction at this place (oldest first; places change with
    /// [`Self::clean`], ids do not).
    pub fn state(&self, place: usize) -> Option<&State> {
        self.parser.as_ref()?.state(place)
    }

    /// The same, to be changed.
    pub fn state_mut(&mut self, place: usize) -> Option<&mut State> {
        self.parser.as_mut()?.state_mut(place)
    }

    /// The place of the transaction of this number.
    pub fn place(&self, id: u64) -> Option<usize> {
        (0..self.count()).find(|place| self.state(*place).is_some_and(|state| state.id == id))
    }

    /// Progress of a transaction.
    pub fn progress(&self, place: usize, direction: Direction) -> u8 {
        if self.side(direction).disrupted {
            return self.complete(direction);
        }
        self.state(place).map_or(0, |state| state.progress(direction))
    }

    /// The progress at which a transaction is complete in this direction.
    pub fn complete(&self, direction: Direction) -> u8 {
        let module = self.protocol().and_then(registry::module);
        let states = module.and_then(|module| module.states.get(direction.index()));
        states.map_or(1, |states| u8::try_from(states.len().max(1) - 1).unwrap_or(u8::MAX))
    }

    /// Whether buffers are asked for because the flow is over: what bodies and files have is then
    /// handed out, little as it may be. That a side has closed does not count, as its data may wait
    /// for more packets.
    pub fn look_at_end(&mut self, at_end: bool) {
        self.at_end = at_end;
    }

    /// No more data comes in this direction.
    pub fn ended(&self, direction: Direction) -> bool {
        self.side(direction).ended
    }

    /// The `i`th buffer of a transaction (0 of single ones) in this direction; `None` where there
    /// is none, or no more, or (bodies) nothing to look at yet. Of bodies and files an absent one
    /// may be followed by others: see [`Self::buffers`].
    pub fn buffer(
        &self,
        place: usize,
        buffer: Buffer,
        direction: Direction,
        i: usize,
    ) -> Option<Bytes<'_>> {
        let end = self.at_end;
        let parser = self.parser.as_ref()?;
        let buffer = self.translate(buffer);
        if buffer.room == file_buffers::ROOM {
            let state = parser.state(place)?;
            return file_buffers::buffer(state, buffer, direction, i, self.look(state, direction));
        }
        parser.buffer(place, At { buffer, direction, end }, i)
    }

    /// How many places of a buffer are to be asked: of those of files as many as there are files,
    /// otherwise `None`: ask until the first that is absent.
    pub fn buffers(&self, place: usize, buffer: Buffer, direction: Direction) -> Option<usize> {
        let of_files = self.translate(buffer).room == file_buffers::ROOM;
        of_files.then(|| self.state(place).map_or(0, |state| state.files(direction).len()))
    }

    /// Bodies of requests of HTTP/2 are looked at as files.
    fn translate(&self, buffer: Buffer) -> Buffer {
        let http2 = matches!(self.protocol(), Some(Protocol::Http2 | Protocol::Doh2));
        if http2 && buffer == crate::http::buffers::REQUEST_BODY_TEXT {
            file_buffers::DATA
        } else {
            buffer
        }
    }

    fn look(&self, state: &State, direction: Direction) -> Look {
        let http = self.protocol() == Some(Protocol::Http1);
        let settings = &self.settings.http;
        Look {
            end: self.at_end,
            body_done: http && state.progress(direction) > HTTP_BODY,
            body_limit: if http { settings.response_body_limit } else { 0 },
            inline: http && settings.inline(self.settings.inline),
        }
    }

    /// The `i`th number of a transaction.
    pub fn number(
        &self,
        place: usize,
        number: Number,
        direction: Direction,
        i: usize,
    ) -> Option<i64> {
        let parser = self.parser.as_ref()?;
        if number.room == file_buffers::ROOM {
            return file_buffers::number(parser.state(place)?, number, direction, i);
        }
        parser.number(place, number, direction, i)
    }

    /// Whether rules about this protocol look at a transaction in this direction: about DNS those
    /// over HTTP/2 that carry a message.
    pub fn concerns(&self, place: usize, protocol: Protocol, direction: Direction) -> bool {
        match (self.protocol(), protocol) {
            (Some(Protocol::Doh2), Protocol::Dns | Protocol::Doh2) => {
                self.parser.as_ref().is_some_and(|parser| parser.carries_dns(place, direction))
            }
            (Some(Protocol::Doh2), Protocol::Http2) => true,
            (known, protocol) => known == Some(protocol),
        }
    }

    /// The detection engine has looked at the transaction in this direction: bodies and files that
    /// were handed out move on.
    pub fn inspected(&mut self, place: usize, direction: Direction) {
        let Some(parser) = &mut self.parser else { return };
        parser.inspected(place, direction);
        if let Some(state) = parser.state_mut(place)
            && let Some(files) = state.files.get_mut(direction.index())
        {
            for file in files {
                file.inspected();
            }
        }
    }

    /// Frames of this direction that wait for inspection (with [`crate::Settings::frames`]).
    pub fn frames(&self, direction: Direction) -> impl Iterator<Item = &Frame> {
        self.frames.of(direction)
    }

    /// What [`Frame::look`] gave was looked at; frames that are over go.
    pub fn frames_inspected(&mut self, direction: Direction) {
        let (end, inline) = (self.side(direction).ended, self.settings.inline);
        if self.flow.carrier == Carrier::Udp {
            self.frames.forget(direction);
        } else {
            self.frames.inspected(direction, end, inline);
        }
    }

    /// The EVE record of a transaction.
    pub fn record(&self, place: usize) -> Fields {
        let mut fields = Fields::default();
        if let Some(parser) = &self.parser {
            parser.record(place, &mut fields);
        }
        fields
    }

    /// After a packet of this direction: `updated` is taken back, data of files that was looked at
    /// is forgotten, and transactions go that are complete, inspected (or to be skipped) in both
    /// directions and logged with all their files.
    pub fn clean(&mut self, direction: Direction) {
        let complete = [Direction::ToServer, Direction::ToClient].map(|way| self.complete(way));
        let disrupted = self.sides.each_ref().map(|side| side.disrupted);
        let cut_off = self.side(direction).disrupted;
        let Some(parser) = &mut self.parser else { return };
        let mut place = 0;
        while place < parser.count() {
            let Some(state) = parser.state_mut(place) else { break };
            if let Some(updated) = state.updated.get_mut(direction.index()) {
                *updated = false;
            }
            for file in state.files.get_mut(direction.index()).into_iter().flatten() {
                file.prune();
                if cut_off {
                    file.close(true);
                }
            }
            if is_over(state, complete, disrupted) {
                parser.remove(place);
            } else {
                place += 1;
            }
        }
    }
}

fn is_over(state: &State, complete: [u8; 2], disrupted: [bool; 2]) -> bool {
    let mut sides = state.progress.iter().zip(complete).zip(disrupted);
    let done = sides.all(|((progress, complete), disrupted)| *progress >= complete || disrupted);
    let mut sides = state.inspected.iter().zip(state.skip).zip(disrupted);
    let inspected = sides.all(|((inspected, skip), disrupted)| *inspected || skip || disrupted);
    let files = state.files.iter().flatten().all(|file| file.logged);
    done && inspected && state.logged && files
}
