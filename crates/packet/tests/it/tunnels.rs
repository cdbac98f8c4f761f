//! Packets in packets: their order, what they know of each other, and how deep it goes.

use gauntlet_packet::{IpVersion, Link, Packet, PacketSource, Settings, TunnelPorts};

use crate::build::{
    decode, decode_one, decode_with, ethernet, events, hex, ipv4, ipv6, tcp, udp, vlan,
};

fn sources(packets: &[Packet]) -> Vec<PacketSource> {
    packets.iter().map(|packet| packet.source).collect()
}

const WIRE: PacketSource = PacketSource::Wire;

fn tunnel(name: &'static str) -> PacketSource {
    PacketSource::Tunnel(name)
}

#[test]
fn the_innermost_packet_comes_first() {
    let innermost = ipv4(6, &tcp(b"deep"));
    let packets = decode(&ethernet(0x0800, &ipv4(4, &ipv4(41, &ipv6(4, &innermost)))));
    assert_eq!(
        sources(&packets),
        [tunnel("ipv6 tunnel"), tunnel("ipv4 tunnel"), tunnel("ipv4 tunnel"), WIRE]
    );
    assert_eq!(packets[0].payload(), b"deep");
    assert_eq!(packets[0].bytes.len(), innermost.len());
    let depths: Vec<u8> = packets.iter().map(Packet::recursion_level).collect();
    assert_eq!(depths, [3, 2, 1, 0]);
    // All know of the captured one, whose payload they are.
    for inner in &packets[..3] {
        let around = inner.tunnel.as_ref().unwrap();
        assert_eq!((around.protocol, around.source), (4, packets[3].ip.as_ref().unwrap().source));
        assert_eq!(inner.number, Some(1));
    }
    assert!(packets[1..].iter().all(|packet| packet.no_payload_inspection && packet.wants_flow));
}

#[test]
fn gre_carries_many_things_and_has_no_flow() {
    let ip = ipv4(17, &udp(1, 2, b"found"));
    let six = ipv6(17, &udp(1, 2, b"found"));
    let with = |head: &str, inner: &[u8]| [&hex(head), inner].concat();
    for gre in [
        with("0000 0800", &ip),
        with("0000 86dd", &six),
        with("b000 0800 00000000 00000001 00000002", &ip),
        with("4000 0800 00000000 0800 00 04 0a000001 00000000", &ip),
        with("0000 6558", &ethernet(0x0800, &ip)),
        with("0000 8100", &vlan(9, 0x0800, &ip)),
        with("2001 880b 0025 0001", &with("ff03 0021", &ip)),
        with("3081 880b 0025 0001 00000001 00000002", &with("21", &ip)),
        with("0000 88be", &ethernet(0x86dd, &six)),
        with("1000 88be 00000001", &with("1005 0000 00000000", &ethernet(0x0800, &ip))),
    ] {
        let packets = decode(&ethernet(0x0800, &ipv4(47, &gre)));
        assert_eq!(sources(&packets), [tunnel("gre tunnel"), WIRE], "{:02x?}", &gre[..8]);
        assert_eq!(packets[0].payload(), b"found");
        assert!(!packets[1].wants_flow);
    }
    let erspan = with("1000 88be 00000001", &with("1005 0000 00000000", &ethernet(0x0800, &ip)));
    assert_eq!(decode(&ethernet(0x0800, &ipv4(47, &erspan)))[0].vlan, [5]);
}

#[test]
fn wrong_headers_of_gre_are_told() {
    for (gre, expected) in [
        ("0002 0800", "gre.wrong_version"),
        ("0100 0800", "gre.version0_recur"),
        ("0008 0800", "gre.version0_flags"),
        ("2000 0800", "gre.version0_hdr_too_big"),
        ("4000 0800 00000000", "gre.version0_malformed_sre_hdr"),
        ("4000 0800 00000000 0800 00 05 0a000001", "gre.version0_malformed_sre_hdr"),
        ("a001 880b 00000000", "gre.version1_chksum"),
        ("6001 880b 00000000", "gre.version1_route"),
        ("2801 880b 00000000", "gre.version1_ssr"),
        ("2101 880b 00000000", "gre.version1_recur"),
        ("2009 880b 00000000", "gre.version1_flags"),
        ("2001 0800 00000000", "gre.version1_wrong_protocol"),
        ("0001 880b 00000000", "gre.version1_no_key"),
        ("3001 880b 00000000", "gre.version1_hdr_too_big"),
    ] {
        let packet = decode_one(&ethernet(0x0800, &ipv4(47, &hex(gre))));
        assert_eq!(events(&packet), [expected], "{gre}");
        assert!(packet.invalid);
    }
    let inner = "1000 88be 00000001 2005 0000 00000000";
    // An inner packet that is none is gone with its events.
    assert!(decode_one(&ethernet(0x0800, &ipv4(47, &hex(inner)))).events.is_empty());
}

#[test]
fn tunnels_over_udp_go_by_their_ports() {
    let six = ipv6(17, &udp(1, 2, b"found"));
    let ip = ipv4(17, &udp(1, 2, b"found"));
    let vxlan = [&hex("0800 0000 000001 00"), &ethernet(0x0800, &ip)[..]].concat();
    let geneve = [&hex("0140 6558 000001 00 0102 80 00"), &ethernet(0x0800, &ip)[..]].concat();
    let origin = [&hex("0000 1234 0a000001"), &six[..]].concat();
    for (source, destination, payload, expected) in [
        (3544, 9, &six, Some("teredo tunnel")),
        (9, 3544, &origin, Some("teredo tunnel")),
        (9, 3545, &six, None),
        (9, 4789, &vxlan, Some("vxlan encapsulation")),
        (4789, 9, &vxlan, None),
        (9, 6081, &geneve, Some("geneve encapsulation")),
        (6081, 9, &geneve, Some("geneve encapsulation")),
        (9, 6082, &geneve, None),
    ] {
        let packets = decode(&ethernet(0x0800, &ipv4(17, &udp(source, destination, payload))));
        let outer = packets.last().unwrap();
        assert!(outer.wants_flow);
        match expected {
            Some(name) => {
                assert_eq!(sources(&packets), [tunnel(name), WIRE]);
                assert_eq!(packets[0].payload(), b"found");
                let around = packets[0].tunnel.as_ref().unwrap();
                assert_eq!((around.ports, around.protocol), ((source, destination), 17));
            }
            None => assert_eq!(sources(&packets), [WIRE]),
        }
    }
}

#[test]
fn what_only_looks_like_a_tunnel_is_let_be() {
    let mut six = ipv6(17, &udp(1, 2, b"x"));
    six[7] = 0;
    let teredo = ethernet(0x0800, &ipv4(17, &udp(3544, 9, &six)));
    assert!(decode_one(&teredo).events.is_empty());
    // An invalid packet in Teredo was none.
    let invalid = ipv6(6, &[0; 3]);
    let packet = decode_one(&ethernet(0x0800, &ipv4(17, &udp(3544, 9, &invalid))));
    assert!(!packet.no_payload_inspection && packet.events.is_empty());
    let unknown = [&hex("0800 0000 000001 00"), &ethernet(0x1234, b"")[..]].concat();
    let packet = decode_one(&ethernet(0x0800, &ipv4(17, &udp(9, 4789, &unknown))));
    assert_eq!(events(&packet), ["vxlan.unknown_payload_type"]);
    let packet = decode_one(&ethernet(0x0800, &ipv4(17, &udp(9, 6081, &hex("0000123400000100")))));
    assert_eq!(events(&packet), ["geneve.unknown_payload_type"]);
    let too_small = decode_one(&ethernet(0x86dd, &ipv6(4, b"")));
    assert_eq!(events(&too_small), ["ipv6.ipv4_in_ipv6_too_small"]);
    let wrong = decode_one(&ethernet(0x86dd, &ipv6(41, &[0x45; 40])));
    assert_eq!(events(&wrong), ["ipv6.ipv6_in_ipv6_wrong_version"]);
}

#[test]
fn ports_of_tunnels_are_settings() {
    let six = ipv6(17, &udp(1, 2, b"found"));
    let frame = ethernet(0x0800, &ipv4(17, &udp(7, 8, &six)));
    let count = |settings: Settings| decode_with(settings, Link::Ethernet, &frame).len();
    let mut settings = Settings::default();
    assert_eq!(count(settings.clone()), 1);
    assert!(settings.set("decoder.teredo.ports", "[8, 9]"));
    assert_eq!(count(settings.clone()), 2);
    assert!(settings.set("decoder.teredo.enabled", "no"));
    assert_eq!((count(settings.clone()), settings.teredo.clone()), (1, TunnelPorts::Off));
    assert_eq!(count(Settings::built_in()), 2);
    assert!(!settings.set("decoder.vxlan.ports", "$VXLAN_PORTS"));
    assert!(!settings.set("decoder.unknown", "1"));
}

#[test]
fn fifty_packets_in_each_other_are_too_many() {
    let mut bytes = ipv4(17, &udp(1, 2, b"deep"));
    for _ in 0..50 {
        bytes = ipv4(4, &bytes);
    }
    // Ethernet is the first of 16 layers, and each packet takes two; the one that does not fit is
    // gone with its event.
    let packets = decode(&ethernet(0x0800, &bytes));
    assert_eq!(packets.len(), 7);
    assert!(packets.iter().all(|packet| packet.events.is_empty()));
    // With a VLAN, it is the packet around it that cannot have it.
    let packets = decode(&ethernet(0x8100, &vlan(1, 0x0800, &bytes)));
    assert_eq!(packets.len(), 7);
    assert_eq!(events(&packets[0]), ["too_many_layers"]);
    assert!(packets[1..].iter().all(|packet| packet.events.is_empty()));
    let many = (0..20).fold(ethernet(0x0800, &ipv4(6, &tcp(b""))), |inner, _| {
        ethernet(0x8903, &[&[0, 0], &inner[..]].concat())
    });
    assert_eq!(events(&decode_one(&many)), ["too_many_layers"]);
}

#[test]
fn tunnels_do_not_inherit_vlans() {
    let frame = ethernet(0x8100, &vlan(5, 0x0800, &ipv4(4, &ipv4(6, &tcp(b"")))));
    let packets = decode(&frame);
    assert_eq!((packets[0].vlan.len(), packets[1].vlan.clone()), (0, vec![5]));
    assert_eq!(packets[0].ip.as_ref().unwrap().version, IpVersion::V4);
}
