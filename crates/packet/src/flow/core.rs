//! What is kept of a flow, beside what upper layers keep.

use crate::address::{Direction, Time};
use crate::packet::{IpVersion, Packet, PacketSource, TcpFlags, Transport};
use crate::tcp::{self, Engine, FlowAction, Outcome, Session, State, StreamSink};

use super::admission::Admission;
use super::key::{self, Common, End, Key, Wanted};
use super::settings::Settings;
use super::state::FlowState;

/// What a made-up packet is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pseudo {
    /// The flow ends ([`super::Ended::final_packets`]); `last` of its packets.
    End {
        /// No other follows.
        last: bool,
    },
    /// What has come is to be inspected before the protocol changes ([`super::flush_packets`]).
    /// It does not go to the stream engine.
    Flush,
}

/// What its flow says of a packet: the keyword `flow`, and what is done with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacketFacts {
    /// Which way it goes. The stream engine may turn it.
    pub direction: Direction,
    /// The first of its direction.
    pub first: bool,
    /// `flow:established`.
    pub established: bool,
    /// The flow's packets are dropped.
    pub drops: bool,
    /// The flow's packets pass without inspection.
    pub passes: bool,
    /// The flow's payload is not inspected any more.
    pub no_payload_inspection: bool,
    /// It took the place of a flow that was over (TCP).
    pub reused: bool,
    /// Made up.
    pub pseudo: Option<Pseudo>,
}

/// What is kept of a flow.
#[derive(Debug)]
pub struct FlowCore {
    /// Its number, from 1, in the order of flows' beginnings.
    pub number: u64,
    /// Where its first packet came from.
    pub source: End,
    /// Where it went to.
    pub destination: End,
    /// IP version.
    pub version: IpVersion,
    /// Protocol number.
    pub protocol: u8,
    /// Numbers of VLANs, outermost first; 0: none.
    pub vlan: [u16; 3],
    /// Packets around its packets.
    pub depth: u8,
    /// Security parameters index, of ESP.
    pub index: u32,
    /// Of ICMP: type and code of the first packet.
    pub icmp: Option<(u8, u8)>,
    /// Time of its first packet.
    pub first: Time,
    /// Time of its last packet.
    pub last: Time,
    /// State.
    pub state: FlowState,
    /// Packets by direction.
    pub packets: [u64; 2],
    /// Bytes of them, frames and all.
    pub bytes: [u64; 2],
    /// Least and greatest time to live of them by direction; 0 without packets.
    pub ttl: [[u8; 2]; 2],
    /// Alerts on its packets; for upper layers to count.
    pub alerts: u32,
    /// Its packets are dropped; upper layers may set it.
    pub drops: bool,
    /// Its packets pass without inspection; upper layers may set it.
    pub passes: bool,
    /// Its payload is not inspected any more; upper layers may set it.
    pub no_payload_inspection: bool,
    /// The first packet was the server's.
    pub reversed: bool,
    /// The session, of TCP.
    pub tcp: Option<Box<Session>>,
    /// What a policy decided about it; for upper layers to set.
    pub admission: Option<Admission>,
    seen: [bool; 2],
    /// By direction: its last packet was seen, of a connection that is not inspected.
    closing: [bool; 2],
}

/// A flow, and what upper layers keep of it.
#[derive(Debug)]
pub struct Flow<S> {
    /// What the packet layer keeps.
    pub core: FlowCore,
    /// What upper layers keep.
    pub upper: S,
}

impl FlowCore {
    pub(crate) fn new(number: u64, packet: &Packet, wanted: &Wanted) -> Self {
        let icmp = match &packet.transport {
            Transport::Icmp(icmp) => Some((icmp.kind, icmp.code)),
            _ => None,
        };
        Self {
            number,
            source: wanted.source,
            destination: wanted.destination,
            version: packet.ip.as_ref().map_or(IpVersion::V4, |ip| ip.version),
            protocol: wanted.common.protocol,
            vlan: wanted.common.vlan,
            depth: wanted.common.depth,
            index: wanted.common.index,
            icmp,
            first: packet.time,
            last: packet.time,
            state: FlowState::New,
            packets: [0; 2],
            bytes: [0; 2],
            ttl: [[0; 2]; 2],
            alerts: 0,
            drops: false,
            passes: false,
            no_payload_inspection: false,
            reversed: false,
            tcp: None,
            admission: None,
            seen: [false; 2],
            closing: [false; 2],
        }
    }

    /// What all its packets have in common.
    pub(crate) fn key(&self, settings: &Settings) -> Key {
        let &Self { protocol, depth, vlan, index, .. } = self;
        let common = Common { protocol, depth, vlan, index };
        Key::new([self.source, self.destination], common, settings)
    }

    /// The client.
    pub fn client(&self) -> End {
        if self.reversed { self.destination } else { self.source }
    }

    /// The server.
    pub fn server(&self) -> End {
        if self.reversed { self.source } else { self.destination }
    }

    /// Which way a packet of the flow goes.
    pub(crate) fn direction_of(&self, packet: &Packet) -> Direction {
        let Some(ip) = &packet.ip else {
            return Direction::ToServer;
        };
        let ports = match &packet.transport {
            Transport::Tcp(tcp) => Some((tcp.source, tcp.destination)),
            Transport::Udp(udp) => Some((udp.source, udp.destination)),
            Transport::Sctp(sctp) => Some((sctp.source, sctp.destination)),
            Transport::Icmp(_) => None,
            Transport::Esp(_) | Transport::None => return Direction::ToServer,
        };
        let forth = match ports {
            Some((source, destination)) if source != destination => source == self.source.port,
            _ => ip.source == self.source.address,
        };
        if forth == self.reversed { Direction::ToClient } else { Direction::ToServer }
    }

    /// Counts a packet.
    pub(crate) fn update(&mut self, packet: &Packet, reused: bool) -> PacketFacts {
        let direction = self.direction_of(packet);
        if packet.time > self.last {
            self.last = packet.time;
        }
        let [to_server, to_client] = &mut self.packets;
        *if direction == Direction::ToServer { to_server } else { to_client } += 1;
        let [to_server, to_client] = &mut self.bytes;
        *if direction == Direction::ToServer { to_server } else { to_client } +=
            packet.bytes.len() as u64;
        if let (Some(ip), Some([least, greatest])) =
            (&packet.ip, self.ttl.get_mut(direction.index()))
        {
            *least = if *least == 0 { ip.ttl } else { ip.ttl.min(*least) };
            *greatest = ip.ttl.max(*greatest);
        }
        let counts = !matches!(
            (&packet.ip, &packet.transport),
            (Some(ip), Transport::Icmp(icmp)) if key::is_error(ip, icmp)
        );
        let mut first = false;
        if let Some(seen) = self.seen.get_mut(direction.index())
            && counts
        {
            first = !*seen;
            *seen = true;
        }
        let established = self.is_established();
        PacketFacts {
            direction,
            first,
            established,
            drops: self.drops,
            passes: self.passes,
            no_payload_inspection: self.no_payload_inspection,
            reused,
            pseudo: None,
        }
    }

    /// Follows a flow that passes uninspected as far as its time-outs need: both directions were
    /// seen, the connection is over (FIN both ways, or a reset).
    pub fn follow(&mut self, packet: &Packet, direction: Direction) {
        if let Transport::Tcp(tcp) = &packet.transport {
            if let Some(closing) = self.closing.get_mut(direction.index()) {
                *closing |= tcp.flags.has(TcpFlags::FIN);
            }
            if tcp.flags.has(TcpFlags::RST) || self.closing == [true; 2] {
                self.state = FlowState::Closed;
            } else if self.state == FlowState::New && self.seen == [true; 2] {
                self.state = FlowState::Established;
            }
        }
    }

    fn is_established(&mut self) -> bool {
        if self.state == FlowState::Established {
            return true;
        }
        if let Some(session) = &self.tcp {
            return session.state() >= State::Established;
        }
        let both = self.protocol != 6 && self.seen == [true; 2];
        if both && self.state != FlowState::Bypassed {
            self.state = FlowState::Established;
        }
        both
    }

    /// Takes a TCP packet of the flow (made up or not, but for [`Pseudo::Flush`]) into the
    /// session. Data goes to `sink`; `facts` may be turned.
    pub fn handle_tcp(
        &mut self,
        packet: &Packet,
        facts: &mut PacketFacts,
        engine: &mut Engine,
        sink: &mut dyn StreamSink,
    ) -> Outcome {
        let outcome = tcp::handle(&mut self.tcp, packet, facts.direction, self.drops, engine, sink);
        if outcome.swapped {
            self.swap();
            facts.direction = facts.direction.reverse();
        }
        match outcome.state {
            Some(State::LastAck | State::TimeWait | State::Closed) => {
                self.set_state(FlowState::Closed);
            }
            Some(_) => self.set_state(FlowState::Established),
            None => {}
        }
        facts.established |= outcome.flow_established;
        self.obey(&outcome);
        if outcome.bypass && packet.source != PacketSource::FlowEnd {
            self.state = FlowState::Bypassed;
        }
        outcome
    }

    /// Does what an exception policy wants of the flow.
    pub fn obey(&mut self, outcome: &Outcome) {
        match outcome.flow {
            Some(FlowAction::Drop) => {
                self.drops = true;
                self.no_payload_inspection = true;
                if let Some(session) = &mut self.tcp {
                    session.disable_app();
                }
            }
            Some(FlowAction::Pass) => self.passes = true,
            None => {}
        }
    }

    fn set_state(&mut self, state: FlowState) {
        self.state = state;
    }

    /// Client and server were taken for each other.
    pub fn swap(&mut self) {
        self.reversed = true;
        self.seen.reverse();
        self.packets.reverse();
        self.bytes.reverse();
        self.ttl.reverse();
    }
}
