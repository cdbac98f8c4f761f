//! Conversations composed by hand: segments as packets, through flows and streams.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use gauntlet_packet::Direction::{self, ToClient, ToServer};
use gauntlet_packet::flow::{self, PacketFacts};
use gauntlet_packet::tcp::{self, Outcome, Session, State};
use gauntlet_packet::{Ip, IpVersion, Packet, Tcp, TcpFlags, Time, Transport};

use super::replay::{Replay, Taken};

pub(crate) const SYN: u8 = TcpFlags::SYN;
pub(crate) const ACK: u8 = TcpFlags::ACK;
pub(crate) const FIN: u8 = TcpFlags::FIN;
pub(crate) const RST: u8 = TcpFlags::RST;
pub(crate) const URG: u8 = TcpFlags::URG;

/// The client's first data has this sequence number, the server's the other.
pub(crate) const CLIENT: u32 = 1001;
pub(crate) const SERVER: u32 = 5001;

pub(crate) const CLIENT_ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
pub(crate) const SERVER_ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));

/// One segment.
#[derive(Debug, Clone)]
pub(crate) struct Segment {
    pub(crate) from: Direction,
    pub(crate) tcp: Tcp,
    pub(crate) payload: Vec<u8>,
    pub(crate) seconds: i64,
}

/// A segment of the client (`ToServer`) or the server.
pub(crate) fn segment(from: Direction, flags: u8, seq: u32, ack: u32, payload: &[u8]) -> Segment {
    let (source, destination) = if from == ToServer { (40_000, 80) } else { (80, 40_000) };
    let tcp = Tcp {
        source,
        destination,
        sequence: seq,
        acknowledgement: ack,
        flags: TcpFlags(flags),
        window: 8192,
        header: 20..40,
        checksum_ok: true,
        ..Tcp::default()
    };
    Segment { from, tcp, payload: payload.to_vec(), seconds: 1000 }
}

impl Segment {
    pub(crate) fn with(mut self, change: impl FnOnce(&mut Tcp)) -> Self {
        change(&mut self.tcp);
        self
    }

    pub(crate) fn at(mut self, seconds: i64) -> Self {
        self.seconds = seconds;
        self
    }

    pub(crate) fn packet(&self) -> Packet {
        let mut bytes = vec![0; 40];
        bytes.extend_from_slice(&self.payload);
        let (source, destination) = match self.from {
            ToServer => (CLIENT_ADDRESS, SERVER_ADDRESS),
            ToClient => (SERVER_ADDRESS, CLIENT_ADDRESS),
        };
        let len = bytes.len();
        let ip = ip_header(source, destination, 6, len);
        Packet {
            number: Some(1),
            time: Time { seconds: self.seconds, micros: 0 },
            ip: Some(ip),
            transport: Transport::Tcp(self.tcp.clone()),
            payload: 40..len,
            wants_flow: true,
            ..Packet::new(Arc::from(bytes))
        }
    }
}

pub(crate) fn ip_header(source: IpAddr, destination: IpAddr, protocol: u8, len: usize) -> Ip {
    Ip {
        version: if source.is_ipv4() { IpVersion::V4 } else { IpVersion::V6 },
        source,
        destination,
        protocol,
        ttl: 64,
        tos: 0,
        id: 1,
        more_fragments: false,
        dont_fragment: true,
        reserved: false,
        fragment_offset: 0,
        header: 0..20,
        options: Vec::new(),
        extensions: 0,
        payload: 20..len,
        checksum_ok: true,
    }
}

/// SYN, SYN/ACK, ACK.
pub(crate) fn handshake() -> Vec<Segment> {
    vec![
        segment(ToServer, SYN, CLIENT - 1, 0, b""),
        segment(ToClient, SYN | ACK, SERVER - 1, CLIENT, b""),
        segment(ToServer, ACK, CLIENT, SERVER, b""),
    ]
}

/// A handshake, and more.
pub(crate) fn after_handshake(more: &[Segment]) -> Vec<Segment> {
    let mut all = handshake();
    all.extend_from_slice(more);
    all
}

/// Data of the client, and that of the server.
pub(crate) fn sends(offset: u32, payload: &[u8]) -> Segment {
    segment(ToServer, ACK, CLIENT.wrapping_add(offset), SERVER, payload)
}

/// The server acknowledges so many bytes of the client.
pub(crate) fn acknowledges(bytes: u32) -> Segment {
    segment(ToClient, ACK, SERVER, CLIENT.wrapping_add(bytes), b"")
}

/// A conversation on the wire.
pub(crate) struct Wire {
    pub(crate) replay: Replay,
    last: Option<gauntlet_packet::flow::FlowId>,
}

impl Wire {
    pub(crate) fn new(streams: tcp::Settings) -> Self {
        Self { replay: Replay::new(flow::Settings::default(), streams), last: None }
    }

    pub(crate) fn send(&mut self, segment: &Segment) -> (PacketFacts, Outcome) {
        let packet = segment.packet();
        let (_, facts, outcome) = self.replay.packet(&packet).unwrap();
        self.last = self.replay.last;
        (facts, outcome)
    }

    /// A segment that may be refused.
    pub(crate) fn try_send(&mut self, segment: &Segment) {
        self.replay.packet(&segment.packet());
    }

    pub(crate) fn send_all(&mut self, segments: &[Segment]) -> Outcome {
        let mut last = Outcome::default();
        for segment in segments {
            last = self.send(segment).1;
        }
        last
    }

    /// The session of the last packet.
    pub(crate) fn session(&self) -> &Session {
        let flow = self.replay.flows.get(self.last.unwrap()).unwrap();
        flow.core.tcp.as_deref().unwrap()
    }

    pub(crate) fn state(&self) -> State {
        self.session().state()
    }

    /// What the application layer has got.
    pub(crate) fn taken(&self) -> &Taken {
        &self.replay.flows.get(self.last.unwrap()).unwrap().upper
    }
}
