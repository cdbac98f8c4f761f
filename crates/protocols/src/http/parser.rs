//! HTTP/1 as a parser of a conversation.

use std::sync::Arc;

use gauntlet_packet::Direction;

use super::connection::{Chunk, Connection, Status};
use super::event::Event;
use super::shared::Shared;
use super::{buffers, record};
use crate::buffer::Bytes;
use crate::frames::FrameNote;
use crate::parser::{At, Flow, Input, Outcome, Parser, Upgrade, Wishes};
use crate::protocol::Protocol;
use crate::record::Fields;
use crate::settings::Settings;
use crate::transaction::State;

/// HTTP/1 of one flow.
pub(super) struct Http {
    connection: Connection,
    inline: bool,
    /// The stream engine knows how much it shall show again.
    begun: bool,
    /// Protocols that an upgrade may lead to.
    upgrades: Vec<(&'static [u8], Protocol)>,
}

/// Makes one.
pub(super) fn make(settings: &Settings, flow: &Flow) -> Option<Box<dyn Parser>> {
    let own = Arc::new(settings.http.clone());
    let known = [(b"h2c".as_slice(), Protocol::Http2), (b"websocket", Protocol::Websocket)];
    let enabled = |upgrade: &(&[u8], Protocol)| !settings.disabled.contains(&upgrade.1);
    Some(Box::new(Http {
        inline: own.inline(flow.inline),
        begun: false,
        connection: Connection::new(own, settings.hashes),
        upgrades: known.into_iter().filter(enabled).collect(),
    }))
}

impl Http {
    fn take_request(&mut self, input: Input<'_>) -> Outcome {
        let mut failed = false;
        if !input.bytes.is_empty() {
            let status = self.connection.request_data(&mut Chunk::new(input.bytes));
            failed = status == Status::Error;
            self.connection.deliver(Direction::ToServer);
        }
        if input.end && !std::mem::replace(&mut self.connection.request.closed, true) {
            let before = self.connection.wishes.frames.len();
            self.connection.request_close();
            self.end_frames(before, input.bytes.len());
        }
        outcome(failed)
    }

    fn take_response(&mut self, input: Input<'_>) -> Outcome {
        let mut failed = false;
        if !input.bytes.is_empty() {
            let mut chunk = Chunk::new(input.bytes);
            let status = self.connection.response_data(&mut chunk);
            failed = status == Status::Error;
            if status == Status::Tunnel
                && let Some(protocol) = self.upgrade_to()
            {
                return self.upgrade_now(protocol, chunk.consumed(), input.bytes.len());
            }
            self.connection.deliver(Direction::ToClient);
        }
        if input.end && !std::mem::replace(&mut self.connection.response.closed, true) {
            let before = self.connection.wishes.frames.len();
            self.connection.close();
            self.end_frames(before, input.bytes.len());
        }
        outcome(failed)
    }

    /// Frames that end with the connection end behind the bytes at hand.
    fn end_frames(&mut self, before: usize, end: usize) {
        for note in self.connection.wishes.frames.iter_mut().skip(before) {
            if let FrameNote::Close { at, .. } = note {
                *at = end;
            }
        }
    }

    /// The protocol that the server has switched to.
    fn upgrade_to(&mut self) -> Option<Protocol> {
        let exchange = self.connection.response_mut().ok()?;
        let response = &exchange.data.response;
        if response.status != Some(101) {
            return None;
        }
        let value = response.headers.value(b"upgrade")?;
        let mut upgrades = self.upgrades.iter();
        let found = upgrades.find(|(name, protocol)| match protocol {
            Protocol::Http2 => value == *name,
            _ => value.eq_ignore_ascii_case(name),
        });
        found.map(|(_, protocol)| *protocol)
    }

    fn upgrade_now(&mut self, protocol: Protocol, consumed: usize, len: usize) -> Outcome {
        let port = self.connection.response_mut().ok().and_then(|found| found.data.request.port);
        if !self.connection.change(Some(protocol), port)
            && let Ok(exchange) = self.connection.response_mut()
        {
            exchange.state.event(Event::FAILED_PROTOCOL_CHANGE.0);
        }
        if consumed > 0 && consumed < len {
            return Outcome::Incomplete { consumed, needed: len - consumed };
        }
        Outcome::Done
    }

    /// Hands over what bodies and responses asked for.
    fn hand_over(&mut self, wishes: &mut Wishes) {
        let Shared { inspect_raw, raw_depth, .. } = &mut self.connection.shared;
        for (theirs, mine) in wishes.inspect_raw.iter_mut().zip(std::mem::take(inspect_raw)) {
            *theirs |= mine;
        }
        let own = std::mem::take(&mut self.connection.wishes);
        let of_bodies = std::mem::take(raw_depth);
        for (place, theirs) in wishes.raw_depth.iter_mut().enumerate() {
            let of_body = of_bodies.get(place).copied().flatten();
            let of_message = own.raw_depth.get(place).copied().flatten();
            *theirs = of_message.or(of_body);
        }
        wishes.change = own.change.or(wishes.change);
        wishes.frames.extend(own.frames);
    }
}

fn outcome(failed: bool) -> Outcome {
    if failed { Outcome::Failed } else { Outcome::Done }
}

impl Parser for Http {
    fn parse(&mut self, input: Input<'_>, wishes: &mut Wishes) -> Outcome {
        if !std::mem::replace(&mut self.begun, true) {
            let settings = self.connection.settings.clone();
            self.connection.set_raw_depth(Direction::ToServer, settings.request_inspect_min);
            self.connection.set_raw_depth(Direction::ToClient, settings.response_inspect_min);
        }
        if let Some(since) = self.connection.shared.since_last.get_mut(input.direction.index()) {
            *since += input.bytes.len() as u64;
        }
        if input.direction == Direction::ToServer {
            self.connection.stream_end += input.bytes.len() as u64;
        }
        self.connection.wishes.changing = wishes.changing;
        self.connection.wishes.frames_wanted = wishes.frames_wanted;
        let outcome = match input.direction {
            Direction::ToServer => self.take_request(input),
            Direction::ToClient => self.take_response(input),
        };
        self.hand_over(wishes);
        outcome
    }

    fn gap(&mut self, direction: Direction, len: u64, wishes: &mut Wishes) -> Outcome {
        self.connection.wishes.changing = wishes.changing;
        let mut chunk = Chunk::gap(len);
        let status = match direction {
            Direction::ToServer => self.connection.request_data(&mut chunk),
            Direction::ToClient => self.connection.response_data(&mut chunk),
        };
        self.connection.deliver(direction);
        self.hand_over(wishes);
        outcome(status == Status::Error)
    }

    fn count(&self) -> usize {
        self.connection.count()
    }

    fn state(&self, place: usize) -> Option<&State> {
        self.connection.exchanges.at(place).map(|exchange| &exchange.state)
    }

    fn state_mut(&mut self, place: usize) -> Option<&mut State> {
        self.connection.exchanges.at_mut(place).map(|exchange| &mut exchange.state)
    }

    fn remove(&mut self, place: usize) {
        self.connection.exchanges.remove(place);
    }

    fn buffer(&self, place: usize, at: At, i: usize) -> Option<Bytes<'_>> {
        let exchange = self.connection.exchanges.at(place)?;
        buffers::buffer(exchange, at, i, &self.connection.settings, self.inline)
    }

    fn number(
        &self,
        place: usize,
        number: crate::buffer::Number,
        _: Direction,
        i: usize,
    ) -> Option<i64> {
        buffers::number(self.connection.exchanges.at(place)?, number, i)
    }

    fn inspected(&mut self, place: usize, direction: Direction) {
        let Some(exchange) = self.connection.exchanges.at_mut(place) else { return };
        if direction == Direction::ToServer {
            let body = &mut exchange.data.request.body;
            body.inspected = body.inspected.max(body.handed.get());
        }
    }

    fn upgrade(&self) -> Option<Upgrade> {
        let request = &self.connection.exchanges.iter().next_back()?.data.request;
        let pair =
            |header: &super::transaction::Header| (header.name.clone(), header.value.clone());
        Some(Upgrade {
            method: request.method_text.clone().unwrap_or_default(),
            uri: request.uri.clone().unwrap_or_default(),
            headers: request.headers.list.iter().map(pair).collect(),
        })
    }

    fn record(&self, place: usize, fields: &mut Fields) {
        if let Some(exchange) = self.connection.exchanges.at(place) {
            record::write(exchange, fields);
        }
    }
}
