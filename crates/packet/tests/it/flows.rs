//! Flows: which packets belong together, which way they go, when flows end.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use gauntlet_packet::Direction::{ToClient, ToServer};
use gauntlet_packet::flow::{
    self, EndReason, FlowId, FlowState, FlowTable, Lookup, PacketFacts, Pseudo, Settings,
    flush_packets,
};
use gauntlet_packet::tcp::{self, Discard, Engine, ExceptionPolicy, State};
use gauntlet_packet::{
    Embedded, Esp, Icmp, IpVersion, Packet, PacketSource, Time, Transport, Tunnel, Udp,
};

use super::talk::{
    ACK, CLIENT, CLIENT_ADDRESS, FIN, RST, SERVER, SERVER_ADDRESS, SYN, Wire, acknowledges,
    after_handshake, handshake, ip_header, segment, sends,
};

fn packet(
    source: IpAddr,
    destination: IpAddr,
    protocol: u8,
    transport: Transport,
    seconds: i64,
) -> Packet {
    Packet {
        number: Some(1),
        time: Time { seconds, micros: 0 },
        ip: Some(ip_header(source, destination, protocol, 40)),
        transport,
        wants_flow: true,
        ..Packet::new(Arc::from(vec![0; 40]))
    }
}

fn udp(forth: bool, port: u16, seconds: i64) -> Packet {
    let header = |source, destination| {
        Transport::Udp(Udp { source, destination, checksum_ok: true, ..Udp::default() })
    };
    if forth {
        packet(CLIENT_ADDRESS, SERVER_ADDRESS, 17, header(port, 53), seconds)
    } else {
        packet(SERVER_ADDRESS, CLIENT_ADDRESS, 17, header(53, port), seconds)
    }
}

fn icmp(source: IpAddr, destination: IpAddr, kind: u8, embedded: Option<Embedded>) -> Packet {
    let protocol = if source.is_ipv4() { 1 } else { 58 };
    let header = Icmp { kind, embedded: embedded.map(Box::new), ..Icmp::default() };
    packet(source, destination, protocol, Transport::Icmp(header), 1)
}

fn table() -> FlowTable<()> {
    FlowTable::new(Settings::default())
}

fn flow(table: &mut FlowTable<()>, packet: &Packet) -> (FlowId, PacketFacts) {
    match table.handle(packet, &tcp::Settings::default()) {
        Lookup::Flow(id, facts) => (id, facts),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_question_and_its_answer_are_one_flow() {
    let mut table = table();
    let (id, facts) = flow(&mut table, &udp(true, 4000, 1));
    assert_eq!((facts.direction, facts.first, facts.established), (ToServer, true, false));
    let (again, facts) = flow(&mut table, &udp(true, 4000, 2));
    assert_eq!((again, facts.first, facts.established), (id, false, false));
    let (answer, facts) = flow(&mut table, &udp(false, 4000, 3));
    assert_eq!(answer, id);
    assert_eq!((facts.direction, facts.first, facts.established), (ToClient, true, true));
    let kept = &table.get(id).unwrap().core;
    assert_eq!((kept.packets, kept.bytes, kept.state), ([2, 1], [80, 40], FlowState::Established));
    assert_eq!(kept.client().port, 4000);
    assert_ne!(flow(&mut table, &udp(true, 4001, 3)).0, id);
    assert_eq!((table.counters.total, table.counters.udp), (2, 2));
}

#[test]
fn a_flow_times_out_by_the_time_of_its_next_packet() {
    for (answered, idle, gone) in [(false, 29, false), (false, 30, true), (true, 299, false)] {
        let mut table = table();
        let (id, _) = flow(&mut table, &udp(true, 4000, 100));
        if answered {
            flow(&mut table, &udp(false, 4000, 100));
        }
        let (next, facts) = flow(&mut table, &udp(true, 4000, 100 + idle));
        assert_eq!(next != id, gone, "answered {answered}, idle {idle}");
        assert_eq!(facts.first, gone);
        let ended = table.next_ended();
        assert_eq!(ended.is_some(), gone);
        assert!(ended.is_none_or(|ended| ended.reason == EndReason::TimedOut));
    }
}

#[test]
fn flows_of_others_time_out_meanwhile() {
    let mut table = table();
    table.settings.sweep_flows_min = 50;
    for port in 0..100 {
        flow(&mut table, &udp(true, 10_000 + port, 100));
    }
    for _ in 0..60 {
        flow(&mut table, &udp(true, 4000, 1000));
    }
    let mut order = Vec::new();
    while let Some(ended) = table.next_ended() {
        order.push(ended.flow.core.number);
    }
    assert_eq!((order.len(), table.len()), (52, 49), "as long as there are many");
}

#[test]
fn vlans_and_tunnels_are_worlds_of_their_own_unless_they_do_not_count() {
    let tunnel = Tunnel {
        source: CLIENT_ADDRESS,
        destination: SERVER_ADDRESS,
        ports: (0, 0),
        protocol: 47,
        depth: 1,
    };
    for counts in [true, false] {
        let settings = Settings { vlan: counts, depth: counts, ..Settings::default() };
        let mut table = FlowTable::<()>::new(settings);
        let plain = flow(&mut table, &udp(true, 4000, 1)).0;
        let tagged = Packet { vlan: vec![7], ..udp(true, 4000, 1) };
        assert_eq!(flow(&mut table, &tagged).0 != plain, counts);
        let inner = Packet { tunnel: Some(Box::new(tunnel.clone())), ..udp(true, 4000, 1) };
        assert_eq!(flow(&mut table, &inner).0 != plain, counts);
    }
}

#[test]
fn pings_pair_up_and_errors_belong_to_what_they_are_about() {
    let mut table = table();
    let ask = icmp(CLIENT_ADDRESS, SERVER_ADDRESS, 8, None);
    let answer = icmp(SERVER_ADDRESS, CLIENT_ADDRESS, 0, None);
    let (ping, _) = flow(&mut table, &ask);
    let (pong, facts) = flow(&mut table, &answer);
    assert_eq!((ping, facts.direction, facts.established), (pong, ToClient, true));
    let other = icmp(SERVER_ADDRESS, CLIENT_ADDRESS, 13, None);
    assert_ne!(flow(&mut table, &other).0, ping);

    let about = Embedded {
        source: CLIENT_ADDRESS,
        destination: SERVER_ADDRESS,
        protocol: 17,
        ports: (4000, 53),
    };
    let router = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
    let unreachable = icmp(router, CLIENT_ADDRESS, 3, Some(about.clone()));
    let streams = tcp::Settings::default();
    assert_eq!(table.handle(&unreachable, &streams), Lookup::None, "it begins no flow");
    let (lookup, _) = flow(&mut table, &udp(true, 4000, 1));
    let (told, facts) = flow(&mut table, &unreachable);
    assert_eq!((told, facts.direction, facts.first), (lookup, ToClient, false));
    let exceeded = icmp(router, CLIENT_ADDRESS, 11, Some(about.clone()));
    assert_eq!(table.handle(&exceeded, &streams), Lookup::None);
    let invalid = Packet { invalid: true, ..unreachable };
    assert_eq!(table.handle(&invalid, &streams), Lookup::None);

    let v6 = |last| IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, last));
    let (ping, _) = flow(&mut table, &icmp(v6(1), v6(2), 128, None));
    let (pong, facts) = flow(&mut table, &icmp(v6(2), v6(1), 129, None));
    assert_eq!((ping, facts.direction), (pong, ToClient));
    assert_eq!((table.counters.icmpv4, table.counters.icmpv6), (2, 1));
}

#[test]
fn esp_flows_one_way_by_its_index() {
    let mut table = table();
    let esp = |source, destination, spi| {
        packet(source, destination, 50, Transport::Esp(Esp { spi, ..Esp::default() }), 1)
    };
    let (one, _) = flow(&mut table, &esp(CLIENT_ADDRESS, SERVER_ADDRESS, 7));
    assert_eq!(flow(&mut table, &esp(CLIENT_ADDRESS, SERVER_ADDRESS, 7)).0, one);
    assert_ne!(flow(&mut table, &esp(CLIENT_ADDRESS, SERVER_ADDRESS, 8)).0, one);
    assert_ne!(flow(&mut table, &esp(SERVER_ADDRESS, CLIENT_ADDRESS, 7)).0, one);
}

#[test]
fn what_wants_no_flow_gets_none() {
    let mut table = table();
    let streams = tcp::Settings::default();
    let fragment = Packet { wants_flow: false, ..udp(true, 4000, 1) };
    assert_eq!(table.handle(&fragment, &streams), Lookup::None);
    let arp = Packet { wants_flow: true, ..Packet::new(Arc::from(vec![0; 10])) };
    assert_eq!(table.handle(&arp, &streams), Lookup::None);
    assert!(table.is_empty());
}

#[test]
fn a_handshake_on_a_closed_session_begins_a_new_flow() {
    let mut wire = Wire::new(tcp::Settings::default());
    wire.send_all(&after_handshake(&[segment(ToServer, RST, CLIENT, 0, b"")]));
    assert_eq!(wire.state(), State::Closed);
    let same = segment(ToServer, SYN, CLIENT - 1, 0, b"");
    assert!(!wire.send(&same).0.reused, "the same sequence number is the old SYN again");
    let (facts, _) = wire.send(&segment(ToServer, SYN, 70_000, 0, b""));
    assert!(facts.reused && facts.first);
    assert_eq!(wire.state(), State::SynSent);
    assert_eq!(wire.replay.flows.counters.tcp_reuse, 1);
    assert_eq!(wire.replay.flows.len(), 1);
}

#[test]
fn a_session_makes_its_flow_established_then_closed() {
    let mut wire = Wire::new(tcp::Settings::default());
    let states: Vec<(bool, bool)> = after_handshake(&[
        sends(0, b"hello"),
        segment(ToServer, FIN | ACK, CLIENT + 5, SERVER, b""),
        segment(ToClient, FIN | ACK, SERVER, CLIENT + 6, b""),
    ])
    .iter()
    .map(|segment| wire.send(segment))
    .map(|(facts, outcome)| (facts.established, outcome.established))
    .collect();
    // The flow is established from the packet after the handshake on, the session with its end.
    let expected = [(false, false), (false, false), (false, true), (true, true), (true, true)];
    assert_eq!(states[..5], expected);
    assert_eq!(wire.state(), State::LastAck);
    let late = segment(ToServer, ACK, CLIENT + 6, SERVER + 1, b"").at(1061);
    wire.send(&late);
    assert_eq!(wire.replay.flows.counters.total, 2, "closed flows are kept for a minute");
}

#[test]
fn a_pick_up_at_the_syn_ack_turns_the_flow() {
    let mut wire = Wire::new(tcp::Settings { midstream: true, ..tcp::Settings::default() });
    let (facts, outcome) = wire.send(&segment(ToClient, SYN | ACK, SERVER - 1, CLIENT, b""));
    assert!(outcome.swapped);
    assert_eq!(facts.direction, ToClient);
    let (facts, _) = wire.send(&segment(ToServer, ACK, CLIENT, SERVER, b"GET"));
    assert_eq!(facts.direction, ToServer);
    wire.send(&acknowledges(3));
    assert_eq!(wire.taken().bytes[0], b"GET");
    assert_eq!(wire.replay.engine.counters.midstream_pickups, 1);
}

#[test]
fn at_the_end_each_open_direction_is_asked_once_more() {
    let ask = |segments: &[super::talk::Segment], waits: [bool; 2]| {
        let mut wire = Wire::new(tcp::Settings::default());
        wire.send_all(segments);
        wire.replay.flows.end();
        let ended = wire.replay.flows.next_ended().unwrap();
        assert_eq!(ended.reason, EndReason::Shutdown);
        let now = Time { seconds: 2000, micros: 5 };
        let packets = ended.final_packets(waits, now);
        for (packet, facts) in &packets {
            assert_eq!(packet.source, PacketSource::FlowEnd);
            assert_eq!((packet.number, packet.time), (None, now));
            assert!(packet.payload().is_empty() && facts.established);
            let to_server = facts.direction == ToServer;
            let source = packet.ip.as_ref().unwrap().source;
            assert_eq!(source == CLIENT_ADDRESS, to_server);
        }
        packets.iter().map(|(_, facts)| (facts.direction, facts.pseudo)).collect::<Vec<_>>()
    };
    let last = |last| Some(Pseudo::End { last });
    let both = vec![(ToServer, last(false)), (ToClient, last(true))];
    assert_eq!(ask(&handshake(), [false; 2]), both);
    let syn = &handshake()[..1];
    assert_eq!(ask(syn, [false; 2]), vec![(ToServer, last(true))]);
    let reset = after_handshake(&[segment(ToServer, RST | ACK, CLIENT, SERVER, b"")]);
    // Without data, Suricata's arithmetic takes both directions for uninspected.
    assert_eq!(ask(&reset, [false; 2]), both);
    let spoken = after_handshake(&[
        sends(0, b"hello"),
        segment(ToClient, ACK, SERVER, CLIENT + 5, b"world"),
        segment(ToServer, ACK, CLIENT + 5, SERVER + 5, b""),
        segment(ToClient, RST | ACK, SERVER + 5, CLIENT + 5, b""),
        segment(ToServer, RST | ACK, CLIENT + 5, SERVER + 5, b""),
    ]);
    assert_eq!(ask(&spoken, [false; 2]), vec![]);
    assert_eq!(ask(&spoken, [false, true]), vec![(ToClient, last(true))]);
}

#[test]
fn unacknowledged_data_comes_at_the_end() {
    let mut wire = Wire::new(tcp::Settings::default());
    wire.send_all(&after_handshake(&[sends(0, b"hello")]));
    assert_eq!(wire.taken().bytes[0], b"");
    wire.replay.flows.end();
    let mut ended = wire.replay.flows.next_ended().unwrap();
    for (packet, mut facts) in ended.final_packets([false; 2], Time::default()) {
        let (core, upper) = (&mut ended.flow.core, &mut ended.flow.upper);
        core.handle_tcp(&packet, &mut facts, &mut wire.replay.engine, upper);
    }
    assert_eq!(ended.flow.upper.bytes[0], b"hello");
    assert_eq!(ended.flow.upper.ends, [true; 2]);
}

#[test]
fn a_flush_asks_the_other_side_first_inline() {
    for (inline, first) in [(false, ToServer), (true, ToClient)] {
        let settings = tcp::Settings { inline, ..tcp::Settings::default() };
        let mut engine = Engine::new(settings);
        let mut table = table();
        let mut last = None;
        for segment in handshake() {
            let packet = segment.packet();
            let (id, mut facts) = flow(&mut table, &packet);
            let core = &mut table.get_mut(id).unwrap().core;
            core.handle_tcp(&packet, &mut facts, &mut engine, &mut Discard);
            last = Some((id, packet, facts));
        }
        let (id, packet, facts) = last.unwrap();
        let core = &mut table.get_mut(id).unwrap().core;
        let flushed = flush_packets(core, &packet, &facts, &mut engine);
        let order: Vec<_> = flushed.iter().map(|(_, facts)| facts.direction).collect();
        assert_eq!(order, [first, first.reverse()]);
        assert!(flushed.iter().all(|(_, facts)| facts.pseudo == Some(Pseudo::Flush)));
    }
}

#[test]
fn made_up_packets_are_sound() {
    for version in [IpVersion::V4, IpVersion::V6] {
        let mut wire = Wire::new(tcp::Settings::default());
        let mut packets: Vec<Packet> = handshake().iter().map(|one| one.packet()).collect();
        if version == IpVersion::V6 {
            for packet in &mut packets {
                let ip = packet.ip.as_mut().unwrap();
                for address in [&mut ip.source, &mut ip.destination] {
                    if let IpAddr::V4(v4) = *address {
                        *address = IpAddr::V6(v4.to_ipv6_mapped());
                    }
                }
                ip.version = version;
            }
        }
        for packet in &packets {
            wire.replay.packet(packet);
        }
        wire.replay.flows.end();
        let ended = wire.replay.flows.next_ended().unwrap();
        for (made_up, _) in ended.final_packets([false; 2], Time::default()) {
            let settings = gauntlet_packet::Settings {
                checksums: gauntlet_packet::Checksums::All,
                ..Default::default()
            };
            let frame = gauntlet_packet::Frame {
                bytes: made_up.bytes.clone(),
                link: gauntlet_packet::Link::Raw,
                number: 1,
                original_len: 60,
                time: Time::default(),
            };
            let mut decoded = Vec::new();
            gauntlet_packet::Decoder::new(settings).decode(&frame, &mut decoded);
            let [decoded] = decoded.as_slice() else { panic!("{decoded:?}") };
            assert!(decoded.events.is_empty(), "{:?}", decoded.events);
            let (Transport::Tcp(ours), Transport::Tcp(read)) =
                (&made_up.transport, &decoded.transport)
            else {
                panic!("no TCP");
            };
            assert!(read.checksum_ok && decoded.ip.as_ref().unwrap().checksum_ok);
            assert_eq!((ours.sequence, ours.source), (read.sequence, read.source));
        }
    }
}

#[test]
fn a_flood_of_syns_stays_within_its_memory() {
    let flows = Settings { bytes_max: 1 << 20, ..Settings::default() };
    let streams = tcp::Settings { session_bytes_max: 1 << 20, ..tcp::Settings::default() };
    let mut replay = super::replay::Replay::new(flows, streams);
    let mut most = 0;
    for number in 0..200_000u32 {
        let mut syn = segment(ToServer, SYN, number, 0, b"").at(i64::from(number / 50_000));
        syn.tcp.source = number as u16;
        let mut packet = syn.packet();
        let address = Ipv4Addr::from_bits(0x0a00_0000 | number >> 16 | number << 8 & 0x00ff_0000);
        packet.ip.as_mut().unwrap().source = IpAddr::V4(address);
        replay.packet(&packet);
        most = most.max(replay.flows.len());
        assert!(replay.engine.session_bytes() <= 1 << 20);
    }
    assert!(replay.flows.is_emergency());
    let bytes = most * size_of::<flow::FlowCore>();
    eprintln!(
        "{most} flows of {}, sessions of {}",
        size_of::<flow::FlowCore>(),
        size_of::<tcp::Session>()
    );
    assert!(most > 1000 && bytes <= 1 << 20, "{most} flows in 1 MiB");
    let counters = &replay.flows.counters;
    assert!(counters.refused > 0 && counters.evicted > 0, "{counters:?}");
    assert_eq!(counters.total + counters.refused, 200_000);
}

#[test]
fn settings_have_their_names() {
    let mut streams = tcp::Settings::built_in();
    for (key, value) in [
        ("stream.reassembly.depth", "8kb"),
        ("stream.midstream", "true"),
        ("stream.midstream-policy", "pass-flow"),
        ("stream.reassembly.urgent.policy", "oob"),
        ("stream.reassembly.toserver-chunk-size", "1000"),
        ("stream.inline", "auto"),
        ("exception-policy", "auto"),
        ("host-os-policy.linux.0", "10.0.0.0/8, 192.168.0.0/16"),
    ] {
        assert!(streams.set(key, value), "{key}");
    }
    for (key, value) in [("stream.depth", "1"), ("stream.midstream", "perhaps")] {
        assert!(!streams.set(key, value), "{key}");
    }
    streams.resolve(true);
    assert!(streams.inline && streams.midstream);
    assert_eq!((streams.depth, streams.chunk_bytes), (8192, [950, 2432]));
    assert!(streams.set("stream.reassembly.randomize-chunk-range", "20"));
    streams.resolve(true);
    assert_eq!(streams.chunk_bytes, [900, 2304]);
    assert!(streams.set("stream.reassembly.randomize-chunk-size", "no"));
    streams.resolve(true);
    assert_eq!(streams.chunk_bytes, [1000, 2560]);
    assert_eq!(streams.midstream_policy, ExceptionPolicy::PassFlow);
    assert_eq!(streams.session_memory_policy, ExceptionPolicy::DropFlow);
    let mut flows = flow::Settings::built_in();
    assert_eq!(flows.tcp.usual.established, 300);
    assert!(flows.set("flow-timeouts.tcp.emergency-established", "7"));
    assert!(flows.set("flow.memcap", "64 MiB"));
    assert!(!flows.set("flow-timeouts.tcp.later", "7"));
    flows.resolve(&streams);
    assert_eq!((flows.tcp.emergency.established, flows.bytes_max), (7, 64 << 20));
    assert_eq!(flows.memory_policy, ExceptionPolicy::DropPacket);
    streams.resolve(false);
    assert_eq!(streams.session_memory_policy, ExceptionPolicy::Ignore);
}
