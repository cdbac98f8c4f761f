//! Each layer: what is known of it, and what it says when something is wrong.

use std::net::{IpAddr, Ipv4Addr};

use gauntlet_packet::{IpVersion, Link, Packet, Settings, TcpFlags, Transport, event};

use crate::build::{
    decode, decode_one, decode_with, ethernet, events, hex, icmp, ipv4, ipv4_with, ipv6, tcp,
    tcp_with, udp, vlan,
};

fn tcp_of(packet: &Packet) -> &gauntlet_packet::Tcp {
    match &packet.transport {
        Transport::Tcp(tcp) => tcp,
        other => panic!("{other:?}"),
    }
}

#[test]
fn tcp_over_ipv4_is_known_to_the_last_field() {
    let packet = decode_one(&ethernet(0x0800, &ipv4(6, &tcp(b"hello"))));
    let ip = packet.ip.as_ref().unwrap();
    assert_eq!((ip.version, ip.protocol, ip.ttl, ip.id), (IpVersion::V4, 6, 64, 0x1234));
    assert_eq!(ip.source, IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)));
    assert!(ip.dont_fragment && ip.checksum_ok && !ip.is_fragment());
    assert_eq!((ip.header.clone(), ip.payload.clone()), (14..34, 34..59));
    let tcp = tcp_of(&packet);
    assert_eq!((tcp.source, tcp.destination, tcp.sequence), (40000, 80, 1));
    assert!(tcp.flags.has(TcpFlags::SYN | TcpFlags::ACK) && !tcp.checksum_ok);
    assert_eq!(packet.payload(), b"hello");
    assert_eq!(packet.ethernet, Some(0..14));
    assert!(packet.wants_flow && !packet.invalid && packet.events.is_empty());
}

#[test]
fn padding_behind_the_ip_packet_is_no_payload() {
    let mut frame = ethernet(0x0800, &ipv4(17, &udp(1, 2, b"x")));
    frame.extend([0xee; 17]);
    assert_eq!(decode_one(&frame).payload(), b"x");
    let frame = ethernet(0x86dd, &[ipv6(17, &udp(1, 2, b"y")), vec![0xee; 9]].concat());
    assert_eq!(decode_one(&frame).payload(), b"y");
}

#[test]
fn options_of_tcp_are_read() {
    let options = hex("020405b4 0402 080a 00000007 00000009 01 03030f 0000");
    let packet = decode_one(&ethernet(0x0800, &ipv4(6, &tcp_with(&options, b""))));
    let tcp = tcp_of(&packet);
    assert_eq!((tcp.mss, tcp.window_scale, tcp.sack_permitted), (Some(1460), Some(0), true));
    assert_eq!(tcp.timestamp, Some((7, 9)));
    let sack = hex("0101 050a 00000001 00000005 2204 abcd fe04 f989 0000");
    let packet = decode_one(&ethernet(0x0800, &ipv4(6, &tcp_with(&sack, b""))));
    let tcp = tcp_of(&packet);
    assert_eq!((tcp.sack.clone(), tcp.fast_open), (vec![(1, 5)], Some(2)));
    assert_eq!(events(&packet), ["tcp.opt_duplicate"]);
}

#[test]
fn wrong_options_of_tcp_are_told() {
    for (options, expected, invalid) in [
        ("02 03 05 01", vec!["tcp.opt_invalid_len"], false),
        ("02 04 05 b4 02 04 05 b4", vec!["tcp.opt_duplicate"], false),
        ("02 09 05 b4", vec!["tcp.opt_invalid_len"], true),
        ("13 04 00 00", vec!["tcp.opt_invalid_len"], true),
        ("1d 03 00 00", vec!["tcp.opt_invalid_len"], true),
        ("00 09 09 09", vec![], false),
        ("05 02 01 01", vec![], false),
    ] {
        let packet = decode_one(&ethernet(0x0800, &ipv4(6, &tcp_with(&hex(options), b""))));
        assert_eq!((events(&packet), packet.invalid), (expected, invalid), "{options}");
        assert!(packet.wants_flow, "{options}");
    }
    let mut short = tcp(b"");
    for (offset, expected) in
        [(0x40, "tcp.invalid_optlen"), (0x60, "tcp.hlen_too_small"), (0xf0, "tcp.hlen_too_small")]
    {
        short[12] = offset;
        let packet = decode_one(&ethernet(0x0800, &ipv4(6, &short)));
        assert_eq!(events(&packet), [expected]);
        assert!(packet.invalid && !packet.wants_flow);
        assert!(matches!(packet.transport, Transport::None));
    }
}

#[test]
fn options_of_ipv4_are_checked() {
    for (options, expected, known) in [
        ("94040000 00000000", vec![], vec![148, 0]),
        ("01010101", vec!["ipv4.opt_pad_required"], vec![1]),
        ("94030000 00000000", vec!["ipv4.opt_invalid_len"], vec![0]),
        ("07070400 00000000", vec![], vec![7, 0]),
        ("07070500 00000000", vec!["ipv4.opt_malformed"], vec![0]),
        ("44080500 00000000", vec![], vec![68]),
        ("44080400 00000000", vec!["ipv4.opt_malformed"], vec![]),
        ("0d040000 00000000", vec!["ipv4.opt_invalid"], vec![0]),
        ("94040000 94040000", vec!["ipv4.opt_duplicate"], vec![148]),
        ("86 0a 00000001 0104 0000 0000 0000 0000", vec![], vec![134, 0]),
        ("86 0a 00000001 0104 0100 0000 0000 0000", vec!["ipv4.opt_malformed"], vec![0]),
        ("01010101 01010107", vec!["ipv4.opt_eol_required"], vec![1]),
    ] {
        let ip = ipv4_with(17, 0, &hex(options), &udp(1, 2, b""));
        let packet = decode_one(&ethernet(0x0800, &ip));
        assert_eq!(events(&packet), expected, "{options}");
        assert_eq!(packet.ip.as_ref().unwrap().options, known, "{options}");
        assert!(packet.wants_flow, "{options}");
    }
    // A length that lies ends the packet.
    let ip = ipv4_with(17, 0, &hex("94ff0000 00000000"), &udp(1, 2, b""));
    let packet = decode_one(&ethernet(0x0800, &ip));
    assert_eq!(events(&packet), ["ipv4.opt_invalid_len"]);
    assert!(packet.ip.is_none() && packet.invalid);
}

#[test]
fn wrong_headers_of_ip_are_told() {
    let good = ipv4(6, &tcp(b""));
    let with = |at: usize, value: u8| {
        let mut changed = good.clone();
        changed[at] = value;
        events(&decode_one(&ethernet(0x0800, &changed)))
    };
    assert_eq!(with(0, 0x55), ["ipv4.wrong_ip_version"]);
    assert_eq!(with(0, 0x44), ["ipv4.hlen_too_small"]);
    assert_eq!(with(3, 19), ["ipv4.iplen_smaller_than_hlen"]);
    assert_eq!(with(3, 41), ["ipv4.trunc_pkt"]);
    assert_eq!(with(9, 58), ["ipv4.icmpv6"]);
    assert_eq!(events(&decode_one(&ethernet(0x0800, &good[..19]))), ["ipv4.pkt_too_small"]);
    let mut six = ipv6(6, &tcp(b""));
    assert_eq!(events(&decode_one(&ethernet(0x86dd, &six[..59]))), ["ipv6.trunc_pkt"]);
    six[0] = 0x50;
    assert_eq!(events(&decode_one(&ethernet(0x86dd, &six))), ["ipv6.wrong_ip_version"]);
    assert_eq!(events(&decode_one(&ethernet(0x86dd, &ipv6(1, b"")))), ["ipv6.icmpv4"]);
    let unknown = decode_one(&ethernet(0x86dd, &ipv6(200, b"")));
    assert_eq!(events(&unknown), ["ipv6.unknown_next_header"]);
}

#[test]
fn extension_headers_of_ipv6_lead_to_the_transport() {
    // Hop-by-hop with padding, destination options, routing (type 2), authentication, TCP.
    let headers = hex("3c 00 0104 00000000   2b 00 0502 0000 0100   33 00 02 00 00000000
         06 02 0000 00000001 00000002 00000003");
    let packet = decode_one(&ethernet(0x86dd, &ipv6(0, &[headers, tcp(b"hi")].concat())));
    let ip = packet.ip.as_ref().unwrap();
    assert_eq!((ip.protocol, ip.extensions), (6, 40));
    assert_eq!(packet.payload(), b"hi");
    // The second option of the second header is an empty padding.
    assert_eq!(events(&packet), ["ipv6.hopopts_only_padding", "ipv6.zero_len_padn"]);
}

#[test]
fn wrong_extension_headers_are_told() {
    for (first, headers, expected) in [
        (0, "3b 01 0104 00000000", vec!["ipv6.trunc_exthdr"]),
        (0, "3b 00 0109 00000000", vec!["ipv6.exthdr_invalid_optlen"]),
        (0, "3b 00 7f04 00000000", vec!["ipv6.hopopts_unknown_opt"]),
        (0, "00 00 0502 00000000 3b 00 0502 00000000", vec!["ipv6.exthdr_dupl_hh"]),
        (60, "3b 00 7f04 00000000", vec!["ipv6.dstopts_unknown_opt"]),
        (60, "3b 00 0104 00000000", vec!["ipv6.dstopts_only_padding"]),
        (43, "3b 00 0000 00000000", vec!["ipv6.rh_type_0"]),
        (43, "2b 00 0200 00000000 3b 00 0200 00000000", vec!["ipv6.exthdr_dupl_rh"]),
        (44, "3b 00 0000 00000001", vec!["ipv6.exthdr_useless_fh"]),
        (
            44,
            "3b 01 0000 00000001",
            vec!["ipv6.fh_non_zero_reserved_field", "ipv6.exthdr_useless_fh"],
        ),
        (51, "3b 01 0001 00000000 00000000", vec!["ipv6.exthdr_ah_res_not_null"]),
        (59, "00", vec!["ipv6.data_after_none_header"]),
        (135, "3b 00 000000000000", vec![]),
        (50, "000000", vec!["esp.pkt_too_small"]),
    ] {
        let packet = decode_one(&ethernet(0x86dd, &ipv6(first, &hex(headers))));
        assert_eq!(events(&packet), expected, "{first} {headers}");
    }
}

#[test]
fn icmp_errors_name_the_flow_that_they_are_about() {
    let inner = ipv4(17, &udp(1000, 53, b"question"));
    let message = icmp(3, 3, &[&[0; 4], &inner[..28]].concat());
    let packet = decode_one(&ethernet(0x0800, &ipv4(1, &message)));
    let Transport::Icmp(message) = &packet.transport else { panic!("{packet:?}") };
    let embedded = message.embedded.as_ref().unwrap();
    assert_eq!((embedded.protocol, embedded.ports), (17, (1000, 53)));
    assert!(message.checksum_ok);
    assert_eq!(packet.payload().len(), 28);
    let six = [&[1, 4, 0, 0, 0, 0, 0, 0], &ipv6(6, &tcp(b""))[..]].concat();
    let packet = decode_one(&ethernet(0x86dd, &ipv6(58, &six)));
    let Transport::Icmp(message) = &packet.transport else { panic!("{packet:?}") };
    assert_eq!(message.embedded.as_ref().unwrap().ports, (40000, 80));
}

#[test]
fn types_and_codes_of_icmp_are_known() {
    for (kind, code, rest, expected) in [
        (8, 0, "0001 0002", vec![]),
        (8, 1, "0001 0002", vec!["icmpv4.unknown_code"]),
        (3, 16, "00000000", vec!["icmpv4.unknown_code"]),
        (3, 0, "00000000 45", vec!["icmpv4.ipv4_trunc_pkt"]),
        (13, 0, "0001 0002", vec!["icmpv4.ipv4_trunc_pkt"]),
        (9, 0, "01020000", vec!["icmpv4.ipv4_trunc_pkt"]),
        (10, 0, "00000000", vec!["icmpv4.unknown_type"]),
        (8, 0, "00", vec!["icmpv4.pkt_too_small"]),
    ] {
        let packet = decode_one(&ethernet(0x0800, &ipv4(1, &icmp(kind, code, &hex(rest)))));
        assert_eq!(events(&packet), expected, "{kind} {code}");
    }
    for (kind, code, expected) in [
        (128, 0, vec![]),
        (128, 9, vec!["icmpv6.unknown_code"]),
        (130, 0, vec!["icmpv6.mld_message_with_invalid_hl"]),
        (1, 7, vec!["icmpv6.unknown_code"]),
        (1, 0, vec!["icmpv6.ipv6_trunc_pkt"]),
        (5, 0, vec!["icmpv6.unassigned_type"]),
        (100, 0, vec!["icmpv6.experimentation_type"]),
        (127, 0, vec!["icmpv6.unknown_type"]),
        (255, 0, vec!["icmpv6.unassigned_type"]),
        (155, 4, vec!["icmpv6.unknown_code"]),
        (155, 128, vec![]),
    ] {
        let packet = decode_one(&ethernet(0x86dd, &ipv6(58, &icmp(kind, code, &[0; 4]))));
        assert_eq!(events(&packet), expected, "{kind} {code}");
    }
}

#[test]
fn other_transports_have_their_fields() {
    let packet = decode_one(&ethernet(0x0800, &ipv4(132, &hex("0001 0002 00000000 00000000 aa"))));
    assert_eq!((packet.ports(), packet.payload()), ((1, 2), &[0xaa][..]));
    let packet = decode_one(&ethernet(0x0800, &ipv4(50, &hex("00000005 00000006 bb"))));
    let Transport::Esp(esp) = &packet.transport else { panic!("{packet:?}") };
    assert_eq!((esp.spi, esp.sequence, packet.payload()), (5, 6, &[0xbb][..]));
    assert!(packet.wants_flow);
    for (protocol, bytes, expected) in [
        (132, "00", "sctp.pkt_too_small"),
        (17, "0001", "udp.hlen_too_small"),
        (17, "0001 0002 0009 0000", "udp.pkt_too_small"),
        (17, "0001 0002 0007 0000", "udp.len_invalid"),
        (47, "00", "gre.pkt_too_small"),
    ] {
        let packet = decode_one(&ethernet(0x0800, &ipv4(protocol, &hex(bytes))));
        assert_eq!(events(&packet), [expected]);
        assert!(!packet.wants_flow);
    }
    // A protocol that is not decoded has no payload for rules and no flow.
    let packet = decode_one(&ethernet(0x0800, &ipv4(112, b"vrrp")));
    assert!(packet.payload().is_empty() && !packet.wants_flow && packet.events.is_empty());
}

#[test]
fn link_layers_lead_to_ip() {
    let ip = ipv4(17, &udp(1, 2, b"found"));
    let six = ipv6(17, &udp(1, 2, b"found"));
    let found = |link, bytes: &[u8]| {
        let packets = decode_with(Settings::default(), link, bytes);
        packets.last().unwrap().payload().to_vec()
    };
    let with = |head: &str, ip: &[u8]| [&hex(head), ip].concat();
    for (link, bytes) in [
        (Link::Raw, ip.clone()),
        (Link::Raw, six.clone()),
        (Link::Null, with("02000000", &ip)),
        (Link::Null, with("1e000000", &six)),
        (Link::Loop, with("00000002", &ip)),
        (Link::Hdlc, with("0f00 0800", &ip)),
        (Link::Ppp, with("ff03 0021", &ip)),
        (Link::Ppp, with("21", &ip)),
        (Link::Ppp, with("0057", &six)),
        (Link::Ppp, with("ff03 57", &six)),
        (Link::LinuxCooked, with("0000 0001 0006 000000000000 0000 0800", &ip)),
        (Link::LinuxCooked2, with("0800 0000 00000001 0001 00 06 0000000000000000", &ip)),
        (Link::Ethernet, ethernet(0x8100, &vlan(5, 0x0800, &ip))),
        (Link::Ethernet, ethernet(0x88a8, &vlan(5, 0x8100, &vlan(6, 0x86dd, &six)))),
        (Link::Ethernet, ethernet(0x88e7, &[&[0; 16], &hex("0800")[..], &ip].concat())),
        (Link::Ethernet, ethernet(0x8926, &with("00000000 0800", &ip))),
        (Link::Ethernet, ethernet(0x8903, &with("0000", &ethernet(0x0800, &ip)))),
        (Link::Ethernet, ethernet(0x8847, &with("00010040 00000100", &ip))),
        (Link::Ethernet, ethernet(0x8847, &with("00010100", &six))),
        (Link::Ethernet, ethernet(0x8847, &with("00010100 00000000", &ethernet(0x0800, &ip)))),
        (Link::Ethernet, ethernet(0x8864, &with("1100 0001 0030 0021", &ip))),
        (Link::Ethernet, ethernet(0x8864, &with("1100 0001 0030 57", &six))),
        (Link::Ethernet, ethernet(0x894f, &with("0002 0201 00000000", &ip))),
        (Link::Ethernet, ethernet(0x894f, &with("0002 0203 00000000", &ethernet(0x86dd, &six)))),
    ] {
        assert_eq!(found(link, &bytes), b"found", "{link:?} {:02x?}", &bytes[..16]);
    }
}

#[test]
fn wrong_link_layers_are_told() {
    for (kind, inner, expected) in [
        (0x1234, "", vec!["ethernet.unknown_ethertype"]),
        (0x8100, "0001", vec!["vlan.header_too_small"]),
        (0x8100, "0001 1234", vec!["ethernet.unknown_ethertype", "vlan.unknown_type"]),
        (0x8100, "0001 8100 0002 8100 0003 8100 0004 8100", vec!["vlan.too_many_layers"]),
        (0x88e7, "00", vec!["ieee8021ah.header_too_small"]),
        (0x8926, "00", vec!["vntag.header_too_small"]),
        (0x8926, "00000000 1234", vec!["ethernet.unknown_ethertype", "vntag.unknown_type"]),
        (0x8903, "00", vec!["dce.pkt_too_small"]),
        (0x8847, "000100", vec!["mpls.header_too_small"]),
        (0x8847, "00010100 00", vec!["mpls.pkt_too_small"]),
        (0x8847, "00001100", vec!["mpls.bad_label_router_alert"]),
        (0x8847, "00003100", vec!["mpls.bad_label_implicit_null"]),
        (0x8847, "0000e100", vec!["mpls.bad_label_reserved"]),
        (0x8847, "00010100 f0000000", vec!["mpls.unknown_payload_type"]),
        (0x8863, "11 09 0000 0004 0000", vec!["pppoe.malformed_tags"]),
        (0x8863, "11 00 0000 0000", vec!["pppoe.wrong_code"]),
        (0x8863, "11 09 0000", vec!["pppoe.pkt_too_small"]),
        (0x8864, "11 00 0001 0002 c021", vec![]),
        (0x8864, "11 00 0001 0002 002b", vec!["ppp.unsup_proto"]),
        (0x8864, "11 00 0001 0002 0099", vec!["ppp.wrong_type"]),
        (0x8864, "11 00 0001 0002 0021", vec!["ppp.ip4_pkt_too_small"]),
        (0x8864, "11 00 0001 0002 0057", vec!["ppp.ip6_pkt_too_small"]),
        (0x8864, "11 00 0001 0002 002f", vec!["ppp.vju_pkt_too_small"]),
        (0x894f, "00", vec!["nsh.header_too_small"]),
        (0x894f, "4002 0201 00000000 00", vec!["nsh.unsupported_version"]),
        (0x894f, "0003 0201 00000000 00", vec!["nsh.bad_header_length"]),
        (0x894f, "0002 0001 00000000 00", vec!["nsh.reserved_type"]),
        (0x894f, "0002 0301 00000000 00", vec!["nsh.unsupported_type"]),
        (0x894f, "0002 0204 00000000 00", vec!["nsh.unknown_payload"]),
        (0x0806, "0001", vec!["arp.pkt_too_small"]),
        (0x0806, "0006 0800 06 04 0001", vec!["arp.unsupported_hardware"]),
        (0x0806, "0001 0801 06 04 0001", vec!["arp.unsupported_protocol"]),
        (0x0806, "0001 0800 06 04 0001", vec!["arp.invalid_pkt"]),
    ] {
        let packet = decode_one(&ethernet(kind, &hex(inner)));
        assert_eq!(events(&packet), expected, "{kind:04x} {inner}");
    }
    for (link, bytes, expected) in [
        (Link::Ethernet, "00", "ethernet.pkt_too_small"),
        (Link::LinuxCooked, "00", "sll.pkt_too_small"),
        (Link::LinuxCooked2, "00", "sll2.pkt_too_small"),
        (Link::Hdlc, "00", "chdlc.pkt_too_small"),
        (Link::Null, "00", "ltnull.pkt_too_small"),
        (Link::Null, "00000002", "ltnull.unsupported_type"),
        (Link::Ppp, "", "ppp.pkt_too_small"),
        (Link::Ppp, "0099", "ppp.wrong_type"),
        (Link::Raw, "45", "ipv4.pkt_too_small"),
        (Link::Raw, "5500000000000000000000000000000000000000", "ipraw.invalid_ip_version"),
    ] {
        let packets = decode_with(Settings::default(), link, &hex(bytes));
        assert_eq!(events(&packets[0]), [expected], "{link:?} {bytes}");
    }
}

#[test]
fn arp_is_read() {
    let message = "0001 0800 06 04 0002 020000000001 0a000001 020000000002 0a000002";
    let packet = decode_one(&ethernet(0x0806, &hex(message)));
    let arp = packet.arp.as_ref().unwrap();
    assert_eq!((arp.operation, arp.sender), (2, Ipv4Addr::new(10, 0, 0, 1)));
    assert_eq!((arp.target_mac, arp.target), ([2, 0, 0, 0, 0, 2], Ipv4Addr::new(10, 0, 0, 2)));
    assert!(packet.events.is_empty());
}

#[test]
fn vlans_are_told_outermost_first() {
    let inner = vlan(7, 0x8100, &vlan(8, 0x0800, &ipv4(6, &tcp(b""))));
    let packet = &decode(&ethernet(0x88a8, &vlan(0xf006, 0x9100, &inner)))[0];
    assert_eq!(packet.vlan, [6, 7, 8]);
}

#[test]
fn names_and_numbers_of_events_agree() {
    for (at, name) in event::NAMES.iter().enumerate() {
        assert_eq!(event::number(name), Some(at as u16));
        assert_eq!(event::name(at as u16), Some(*name));
    }
    assert_eq!(event::number("ipv4.trunc_pkt"), Some(event::IPV4_TRUNC_PKT));
    assert_eq!(event::number("too_many_layers"), Some(event::TOO_MANY_LAYERS));
    assert_eq!(event::stream_number("3whs_ack_in_wrong_dir"), Some(event::DECODE_LAST + 1));
    assert_eq!(event::number("3whs_ack_in_wrong_dir"), None);
}
