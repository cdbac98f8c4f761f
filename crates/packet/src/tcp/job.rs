//! One packet on its way through the stream engine.

use crate::address::Direction;
use crate::packet::{Packet, PacketSource, Tcp, TcpFlags};

use super::engine::Engine;
use super::event::Event;
use super::outcome::{DropReason, Outcome};
use super::session::Session;
use super::settings::ExceptionPolicy;
use super::sink::StreamSink;
use super::state::State;

/// Events of a packet; more are not noted.
const EVENTS_MAX: usize = 15;

/// The packet is invalid where the session stands; its event is set.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Invalid;

/// What a state makes of a packet.
pub(crate) type Judged = Result<(), Invalid>;

/// One packet, what belongs to it, and what is said of it.
pub(crate) struct Job<'a> {
    pub(crate) packet: &'a Packet,
    pub(crate) tcp: &'a Tcp,
    pub(crate) payload: &'a [u8],
    /// Which way the packet goes; swapped with the flow.
    pub(crate) direction: Direction,
    /// Made up at the end of the flow.
    pub(crate) pseudo: bool,
    /// The other side's data is being handed over before that of one side.
    pub(crate) nested: bool,
    pub(crate) engine: &'a mut Engine,
    pub(crate) sink: &'a mut dyn StreamSink,
    pub(crate) outcome: Outcome,
}

impl<'a> Job<'a> {
    pub(crate) fn new(
        packet: &'a Packet,
        tcp: &'a Tcp,
        direction: Direction,
        engine: &'a mut Engine,
        sink: &'a mut dyn StreamSink,
    ) -> Self {
        Self {
            packet,
            tcp,
            payload: packet.payload(),
            direction,
            pseudo: packet.source == PacketSource::FlowEnd,
            nested: false,
            engine,
            sink,
            outcome: Outcome::default(),
        }
    }

    pub(crate) fn has(&self, flags: u8) -> bool {
        self.tcp.flags.has(flags)
    }

    pub(crate) fn has_any(&self, flags: u8) -> bool {
        self.tcp.flags.0 & flags != 0
    }

    pub(crate) fn is_syn_ack(&self) -> bool {
        self.has(TcpFlags::SYN | TcpFlags::ACK)
    }

    pub(crate) fn to_server(&self) -> bool {
        self.direction == Direction::ToServer
    }

    pub(crate) fn seq(&self) -> u32 {
        self.tcp.sequence
    }

    pub(crate) fn ack(&self) -> u32 {
        self.tcp.acknowledgement
    }

    /// Bytes of payload; a packet has at most 65,535.
    pub(crate) fn len(&self) -> u32 {
        u32::try_from(self.payload.len().min(usize::from(u16::MAX))).unwrap_or(0)
    }

    /// The sequence number behind the payload.
    pub(crate) fn end(&self) -> u32 {
        self.seq().wrapping_add(self.len())
    }

    /// The window, shifted.
    pub(crate) fn window(&self, scale: u8) -> u32 {
        u32::from(self.tcp.window) << scale.min(14)
    }

    /// Seconds of the packet's time, as timestamps are compared with.
    pub(crate) fn seconds(&self) -> u32 {
        u32::try_from(self.packet.time.seconds & i64::from(u32::MAX)).unwrap_or(0)
    }

    pub(crate) fn event(&mut self, event: Event) {
        if self.outcome.events.len() < EVENTS_MAX {
            self.outcome.events.push(event);
        }
    }

    /// Sets an event and calls the packet invalid.
    pub(crate) fn invalid(&mut self, event: Event) -> Judged {
        self.event(event);
        Err(Invalid)
    }

    pub(crate) fn drop(&mut self, reason: DropReason) {
        self.outcome.drop.get_or_insert(reason);
    }

    pub(crate) fn set_state(&mut self, session: &mut Session, state: State) {
        if session.state == state || self.pseudo {
            return;
        }
        session.previous = session.state;
        session.state = state;
        if state >= State::Established {
            self.outcome.state = Some(state);
        }
    }

    /// Does what an exception policy says.
    pub(crate) fn apply_policy(&mut self, policy: ExceptionPolicy, reason: DropReason) {
        let ips = self.engine.settings.ips;
        self.outcome.apply_policy(policy, reason, ips);
    }
}
