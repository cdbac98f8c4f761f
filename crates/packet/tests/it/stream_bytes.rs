//! Any bytes as segments of one conversation, for the fuzzer and for tests.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use gauntlet_packet::Direction::{self, ToClient, ToServer};
use gauntlet_packet::flow::{self, FlowCore, FlowTable, Lookup, PacketFacts, flush_packets};
use gauntlet_packet::tcp::{
    Chunk, Engine, ExceptionPolicy, Orders, RawPacket, Settings, StreamSink, UrgentPolicy,
};
use gauntlet_packet::{HostPolicies, Ip, IpVersion, Packet, Tcp, TcpFlags, Time, Transport};

/// Bytes of settings, and of one segment.
const SETTINGS: usize = 4;
const SEGMENT: usize = 14;

/// A protocol layer that orders what the fuzzer wants.
#[derive(Default)]
struct Contrary {
    orders: u8,
    swapped: bool,
    given: [u64; 2],
}

impl StreamSink for Contrary {
    fn data(&mut self, chunk: &Chunk<'_>) -> Orders {
        let index = chunk.direction.index();
        assert!(chunk.gap.is_none() || chunk.bytes.is_empty());
        let len = chunk.gap.unwrap_or(chunk.bytes.len() as u32);
        let consumed = if self.orders & 1 == 0 { len } else { len / 2 };
        assert!(chunk.offset >= self.given[index] || self.swapped, "data comes in order");
        self.given[index] = chunk.offset;
        let swap = self.orders & 0x80 != 0 && chunk.session.midstream;
        self.swapped |= swap;
        Orders {
            consumed,
            updated: true,
            needed: if self.orders & 2 == 0 { 0 } else { len + 3 },
            detection_completed: Some(self.orders & 4 == 0),
            opposing_first: self.orders & 8 != 0 && chunk.resumed.is_none(),
            swap,
            disable: self.orders == 0x55,
            stop: [self.orders == 0x66, self.orders == 0x67],
            trigger_raw: [self.orders & 16 != 0; 2],
            inspect_depth: [(self.orders & 32 != 0).then_some(100); 2],
            protocol_changes: self.orders & 64 != 0,
            depth: (self.orders == 0x77).then_some(0),
            ..Orders::default()
        }
    }
}

fn settings(bytes: &[u8]) -> Settings {
    let at = |place: usize| bytes.get(place).copied().unwrap_or(0);
    let bit = |place: u8| at(0) >> place & 1 == 1;
    const SYSTEMS: [&str; 8] =
        ["bsd", "linux", "old-linux", "solaris", "hpux11", "windows", "vista", "last"];
    const URGENT: [UrgentPolicy; 4] =
        [UrgentPolicy::Inline, UrgentPolicy::Drop, UrgentPolicy::OutOfBand, UrgentPolicy::Gap];
    let mut hosts = HostPolicies::none();
    hosts.set(&format!("{}.0", SYSTEMS[usize::from(at(1) & 7)]), "0.0.0.0/0");
    Settings {
        inline: bit(0),
        ips: bit(1),
        midstream: bit(2),
        async_oneside: bit(3),
        check_overlaps: bit(4),
        liberal_timestamps: bit(5),
        midstream_policy: if bit(6) { ExceptionPolicy::PassFlow } else { ExceptionPolicy::Ignore },
        depth: if bit(7) { 3000 } else { 0 },
        urgent: URGENT[usize::from(at(2) & 3)],
        urgent_limit: URGENT[usize::from(at(2) >> 2 & 3)],
        reassembly_bytes_max: if at(3) & 1 == 1 { 20_000 } else { 4 << 20 },
        regions_max: u16::from(at(3) >> 1 & 7),
        hosts,
        ..Settings::default()
    }
}

/// A segment of its bytes; sequence numbers are near to where the conversation is.
fn packet(bytes: &[u8; SEGMENT], places: &mut [u32; 2], number: u64) -> (Packet, u8) {
    let [
        kind,
        flags,
        seq0,
        seq1,
        ack0,
        ack1,
        window0,
        window1,
        len0,
        len1,
        fill,
        time,
        stamp,
        orders,
    ] = *bytes;
    let from: Direction = if kind & 1 == 0 { ToServer } else { ToClient };
    let far = |shift: u8| if kind & shift != 0 { 14 } else { 0 };
    let near = |place: u32, high: u8, low: u8, shift: u32| {
        let offset = i32::from(i16::from_be_bytes([high, low])) << shift;
        place.wrapping_add_signed(offset)
    };
    let seq = near(places[from.index()], seq0, seq1, far(2));
    let ack = near(places[from.reverse().index()], ack0, ack1, far(4));
    let len = usize::from(u16::from_be_bytes([len0, len1]) % 1461);
    let tcp = Tcp {
        source: if from == ToServer { 40_000 } else { 80 },
        destination: if from == ToServer { 80 } else { 40_000 },
        sequence: seq,
        acknowledgement: ack,
        flags: TcpFlags(flags),
        window: u16::from_be_bytes([window0, window1]),
        urgent: u16::from(fill & 3),
        header: 20..40,
        window_scale: (kind & 8 != 0).then_some(stamp),
        timestamp: (kind & 16 != 0).then_some((u32::from(stamp), 0)),
        fast_open: (kind & 32 != 0).then_some(8),
        sack: if kind & 64 != 0 {
            vec![(ack.wrapping_add(10), ack.wrapping_add(20))]
        } else {
            vec![]
        },
        md5: kind & 128 != 0,
        checksum_ok: true,
        ..Tcp::default()
    };
    if orders & 3 == 0 {
        let counted = u32::from(flags & (TcpFlags::SYN | TcpFlags::FIN) != 0);
        places[from.index()] = seq.wrapping_add(len as u32 + counted);
    }
    (frame(from, tcp, len, fill, time, number), orders)
}

fn frame(from: Direction, tcp: Tcp, len: usize, fill: u8, time: u8, number: u64) -> Packet {
    let client = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
    let server = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));
    let mut bytes = vec![0; 40];
    bytes.resize(40 + len, fill);
    let ip = Ip {
        version: IpVersion::V4,
        source: if from == ToServer { client } else { server },
        destination: if from == ToServer { server } else { client },
        protocol: 6,
        ttl: 64,
        tos: 0,
        id: 0,
        more_fragments: false,
        dont_fragment: false,
        reserved: false,
        fragment_offset: 0,
        header: 0..20,
        options: Vec::new(),
        extensions: 0,
        payload: 20..40 + len,
        checksum_ok: true,
    };
    Packet {
        number: Some(number),
        time: Time { seconds: i64::from(time) * 4, micros: 0 },
        ip: Some(ip),
        transport: Transport::Tcp(tcp),
        payload: 40..40 + len,
        wants_flow: true,
        ..Packet::new(Arc::from(bytes))
    }
}

fn inspect(
    core: &mut FlowCore,
    packet: &Packet,
    facts: &mut PacketFacts,
    engine: &mut Engine,
    sink: &mut Contrary,
) {
    let outcome = core.handle_tcp(packet, facts, engine, sink);
    if outcome.protocol_changes {
        flush_packets(core, packet, facts, engine);
    }
    let Some(session) = &mut core.tcp else { return };
    let raw = RawPacket::new(packet, facts.direction, &outcome);
    if session.raw_ready(&raw, &engine.settings) {
        let progress = session.raw_data(&raw, &engine.settings, true, &mut |_, bytes| {
            assert!(!bytes.is_empty());
        });
        session.raw_done(facts.direction, progress);
    }
    session.for_each_segment(facts.direction, true, |_, _| {});
    session.prune(facts.direction, None, &engine.settings);
}

/// Settings, then segments.
pub(crate) fn feed(input: &[u8]) {
    let Some((first, rest)) = input.split_at_checked(SETTINGS) else { return };
    let settings = settings(first);
    let max = settings.reassembly_bytes_max;
    let mut engine = Engine::new(settings);
    let mut table: FlowTable<Contrary> = FlowTable::new(flow::Settings::default());
    let mut places = [u32::MAX - 2000, 5000];
    for (number, bytes) in rest.as_chunks::<SEGMENT>().0.iter().enumerate() {
        let (packet, orders) = packet(bytes, &mut places, number as u64);
        if let Lookup::Flow(id, mut facts) = table.handle(&packet, &engine.settings)
            && let Some(flow) = table.get_mut(id)
        {
            flow.upper.orders = orders;
            inspect(&mut flow.core, &packet, &mut facts, &mut engine, &mut flow.upper);
        }
        end(&mut table, &mut engine);
        assert!(engine.reassembly_bytes() <= 2 * max + (1 << 20));
    }
    table.end();
    end(&mut table, &mut engine);
    assert_eq!((engine.reassembly_bytes(), engine.session_bytes()), (0, 0));
}

fn end(table: &mut FlowTable<Contrary>, engine: &mut Engine) {
    while let Some(mut ended) = table.next_ended() {
        for (packet, mut facts) in ended.final_packets([true; 2], table.now()) {
            let flow = &mut ended.flow;
            inspect(&mut flow.core, &packet, &mut facts, engine, &mut flow.upper);
        }
    }
}

#[cfg(test)]
#[test]
fn any_bytes_are_a_conversation() {
    let mut state: u64 = 0x9e37_79b9_7f4a_7c15;
    for _ in 0..600 {
        let bytes: Vec<u8> = (0..SETTINGS + 120 * SEGMENT)
            .map(|_| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                (state >> 32) as u8
            })
            .collect();
        // As they are, and tame: mostly acknowledgements near to each other.
        feed(&bytes);
        let mut tame = bytes;
        for segment in tame[SETTINGS..].as_chunks_mut::<SEGMENT>().0 {
            segment[0] &= 1;
            segment[1] = if segment[1] < 40 { segment[1] } else { 0x10 };
            (segment[2], segment[4]) = (0, 0);
            segment[3] &= 1;
            segment[5] &= 3;
            segment[8] &= 1;
            segment[11] = 1;
        }
        tame[SETTINGS + 1] = 0x02;
        feed(&tame);
    }
}
