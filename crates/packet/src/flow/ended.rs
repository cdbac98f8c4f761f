//! Flows that have ended, and the packets that are made up for them.

use std::net::IpAddr;
use std::sync::Arc;

use crate::address::{Direction, Time};
use crate::checksum::Sum;
use crate::packet::{Ip, IpVersion, Packet, PacketSource, Tcp, TcpFlags, Transport};
use crate::tcp::{Engine, State};

use super::core::{Flow, FlowCore, PacketFacts, Pseudo};
use super::key::End;
use super::state::FlowState;

/// Why a flow ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndReason {
    /// No packet came for too long.
    TimedOut,
    /// Its addresses and ports are used by a new TCP session.
    Reused,
    /// It was given up for want of memory; nothing is inspected any more.
    Evicted,
    /// The capture ended.
    Shutdown,
}

impl EndReason {
    /// As EVE names it (`flow.reason`).
    pub fn name(self) -> &'static str {
        match self {
            EndReason::TimedOut => "timeout",
            EndReason::Reused => "tcp_reuse",
            EndReason::Evicted => "forced",
            EndReason::Shutdown => "shutdown",
        }
    }
}

/// A flow that has ended.
#[derive(Debug)]
pub struct Ended<S> {
    /// The flow.
    pub flow: Flow<S>,
    /// Why.
    pub reason: EndReason,
}

impl<S> Ended<S> {
    /// Packets without payload, one to the server, then one to the client, where something of that
    /// direction may not have been inspected yet. Each goes through [`FlowCore::handle_tcp`], then
    /// detection, then [`crate::tcp::Session::prune`].
    ///
    /// `app_waits`: by direction, the application layer has transactions that were not inspected.
    /// `now`: time of the packets, that of the last packet of the capture.
    pub fn final_packets(&self, app_waits: [bool; 2], now: Time) -> Vec<(Packet, PacketFacts)> {
        let core = &self.flow.core;
        let Some(session) = &core.tcp else {
            return Vec::new();
        };
        let passed = core.drops || core.state == FlowState::Bypassed;
        if passed || self.reason == EndReason::Evicted {
            return Vec::new();
        }
        let open = session.state() >= State::Established && session.state() != State::Closed;
        let [client_waits, server_waits] = app_waits;
        let to_server = open || client_waits || session.has_uninspected(Direction::ToServer);
        let to_client = open || server_waits || session.has_uninspected(Direction::ToClient);
        let mut packets = Vec::new();
        if to_server {
            let last = !to_client;
            packets.push(made_up(core, Direction::ToServer, Pseudo::End { last }, now));
        }
        if to_client {
            packets.push(made_up(core, Direction::ToClient, Pseudo::End { last: true }, now));
        }
        packets
    }
}

/// Packets with which detection and log run for both directions before something changes: the
/// protocol, or nothing is inspected any more. To be called after [`FlowCore::handle_tcp`] said
/// so, and to be inspected before the packet itself.
pub fn flush_packets(
    core: &mut FlowCore,
    packet: &Packet,
    facts: &PacketFacts,
    engine: &mut Engine,
) -> Vec<(Packet, PacketFacts)> {
    let Some(session) = &mut core.tcp else {
        return Vec::new();
    };
    session.trigger_raw(Direction::ToServer);
    session.trigger_raw(Direction::ToClient);
    engine.counters.pseudo += 2;
    let first = if engine.settings.inline { facts.direction.reverse() } else { facts.direction };
    [first, first.reverse()]
        .map(|direction| made_up(core, direction, Pseudo::Flush, packet.time))
        .into()
}

fn made_up(
    core: &FlowCore,
    direction: Direction,
    pseudo: Pseudo,
    time: Time,
) -> (Packet, PacketFacts) {
    // A flush knows the ends as the flow's first packet had them, whoever is the client.
    let (client, server) = match pseudo {
        Pseudo::Flush => (core.source, core.destination),
        Pseudo::End { .. } => (core.client(), core.server()),
    };
    let (source, destination) = match direction {
        Direction::ToServer => (client, server),
        Direction::ToClient => (server, client),
    };
    let (sequence, acknowledgement) =
        core.tcp.as_ref().map_or((0, 0), |session| session.place(direction));
    let flush = pseudo == Pseudo::Flush;
    let tcp = Tcp {
        source: source.port,
        destination: destination.port,
        sequence,
        acknowledgement: if flush { acknowledgement } else { 0 },
        flags: TcpFlags(if flush { TcpFlags::ACK } else { 0 }),
        window: 10,
        checksum_ok: true,
        ..Tcp::default()
    };
    let facts = PacketFacts {
        direction,
        first: false,
        established: true,
        drops: core.drops,
        passes: core.passes,
        no_payload_inspection: core.no_payload_inspection,
        reused: false,
        pseudo: Some(pseudo),
    };
    let made_for = if flush { PacketSource::Flush } else { PacketSource::FlowEnd };
    (Packet { source: made_for, ..frame(core, source, destination, tcp, time) }, facts)
}

/// Headers of IP and TCP with right checksums, and no payload.
fn frame(core: &FlowCore, source: End, destination: End, mut tcp: Tcp, time: Time) -> Packet {
    const TCP_LEN: usize = 20;
    const TCP_PROTOCOL: u8 = 6;
    const TTL: u8 = 64;
    let mut bytes = Vec::with_capacity(60);
    match (source.address, destination.address) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            bytes.extend_from_slice(&[0x45, 0, 0, 40, 0, 0, 0, 0, TTL, TCP_PROTOCOL, 0, 0]);
            bytes.extend_from_slice(&from.octets());
            bytes.extend_from_slice(&to.octets());
            let sum = Sum::default().bytes(&bytes).checksum();
            put(&mut bytes, 10, sum);
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            bytes.extend_from_slice(&[0x60, 0, 0, 0, 0, 20, TCP_PROTOCOL, TTL]);
            bytes.extend_from_slice(&from.octets());
            bytes.extend_from_slice(&to.octets());
        }
        _ => {}
    }
    let header = bytes.len();
    let len = header + TCP_LEN;
    tcp.header = header..len;
    for part in [tcp.source, tcp.destination] {
        bytes.extend_from_slice(&part.to_be_bytes());
    }
    for part in [tcp.sequence, tcp.acknowledgement] {
        bytes.extend_from_slice(&part.to_be_bytes());
    }
    bytes.extend_from_slice(&[0x50, tcp.flags.0, 0, 10, 0, 0, 0, 0]);
    let sum = Sum::default()
        .pseudo(source.address, destination.address, TCP_PROTOCOL, TCP_LEN)
        .bytes(bytes.get(header..).unwrap_or_default())
        .checksum();
    put(&mut bytes, header + 16, sum);
    let ip = Ip {
        version: if header == 20 { IpVersion::V4 } else { IpVersion::V6 },
        source: source.address,
        destination: destination.address,
        protocol: 6,
        ttl: TTL,
        tos: 0,
        id: 0,
        more_fragments: false,
        dont_fragment: false,
        reserved: false,
        fragment_offset: 0,
        header: 0..header,
        options: Vec::new(),
        extensions: 0,
        payload: header..len,
        checksum_ok: true,
    };
    Packet {
        time,
        vlan: core.vlan.iter().copied().take_while(|&id| id != 0).collect(),
        ip: Some(ip),
        transport: Transport::Tcp(tcp),
        payload: len..len,
        wants_flow: true,
        ..Packet::new(Arc::from(bytes))
    }
}

fn put(bytes: &mut [u8], at: usize, value: u16) {
    if let Some(place) = bytes.get_mut(at..at + 2) {
        place.copy_from_slice(&value.to_be_bytes());
    }
}
