//! What a rule with `reject` sends.

use gauntlet_netio::{ReplyTo, reject};
use gauntlet_packet::{Checksums, Link, Packet, Settings, TcpFlags, Transport};

use crate::build::{decode_with, ethernet, icmp, ipv4, ipv4_with, ipv6, tcp, udp, vlan};

fn decode(link: Link, bytes: &[u8]) -> Packet {
    let settings = Settings { checksums: Checksums::All, ..Settings::default() };
    decode_with(settings, link, bytes).pop().expect("a packet")
}

/// The reply, decoded.
fn reply(link: Link, bytes: &[u8], to: ReplyTo) -> Option<Packet> {
    let packet = decode(link, bytes);
    Some(decode(link, &reject::reply(&packet, to)?.bytes))
}

#[test]
fn resets_go_both_ways_with_the_numbers_that_each_side_takes() {
    // From port 40000, sequence 1, SYN and ACK of 2, four bytes.
    let frame = ethernet(0x0800, &ipv4(6, &tcp(b"data")));
    let sent = decode(Link::Ethernet, &frame);
    for (to, ports, sequence, acknowledgement) in
        [(ReplyTo::Source, (80, 40_000), 2, 1 + 4 + 1), (ReplyTo::Destination, (40_000, 80), 1, 2)]
    {
        let found = reply(Link::Ethernet, &frame, to).expect("a reply");
        let Transport::Tcp(tcp) = &found.transport else { panic!("{found:?}") };
        assert_eq!((tcp.source, tcp.destination), ports);
        assert_eq!((tcp.sequence, tcp.acknowledgement), (sequence, acknowledgement));
        assert_eq!(tcp.flags.0, TcpFlags::RST | TcpFlags::ACK);
        let (ip, whole) = (found.ip.as_ref().unwrap(), sent.ip.as_ref().unwrap());
        assert!(tcp.checksum_ok && ip.checksum_ok, "{found:?}");
        let turned = to == ReplyTo::Source;
        let ends = (ip.source == whole.source, ip.destination == whole.destination);
        assert_eq!(ends, (!turned, !turned));
        let addresses =
            if turned { [&frame[6..12], &frame[..6]].concat() } else { frame[..12].to_vec() };
        assert_eq!(found.bytes[..12], addresses);
    }
}

#[test]
fn tags_and_ipv6_are_kept_and_raw_packets_have_no_frame() {
    let tagged = ethernet(0x8100, &vlan(7, 0x86dd, &ipv6(6, &tcp(b""))));
    let found = reply(Link::Ethernet, &tagged, ReplyTo::Source).expect("a reply");
    assert_eq!(found.vlan, [7]);
    assert!(matches!(&found.transport, Transport::Tcp(tcp) if tcp.checksum_ok));
    let found = reply(Link::Raw, &ipv4(6, &tcp(b"")), ReplyTo::Source).expect("a reply");
    assert_eq!(found.ip.as_ref().unwrap().header.start, 0);
}

#[test]
fn other_protocols_get_icmp() {
    for (bytes, kind, code) in [
        (ipv4(17, &udp(5_000, 53, b"question")), 3, 10),
        (ipv6(17, &udp(5_000, 53, b"question")), 1, 1),
    ] {
        let found = reply(Link::Raw, &bytes, ReplyTo::Source).expect("a reply");
        let Transport::Icmp(icmp) = &found.transport else { panic!("{found:?}") };
        assert_eq!((icmp.kind, icmp.code), (kind, code));
        assert!(icmp.checksum_ok, "{found:?}");
        let about = icmp.embedded.as_ref().expect("the packet that it is about");
        assert_eq!(about.ports, (5_000, 53));
    }
}

#[test]
fn no_reply_to_resets_errors_fragments_and_groups() {
    let mut reset = tcp(b"");
    reset[13] = TcpFlags::RST;
    let mut group = ipv4(17, &udp(5_000, 53, b"x"));
    group[16] = 224;
    let of_error = icmp(3, 1, &[&[0; 4], ipv4(17, &udp(1, 2, b"")).as_slice()].concat());
    for bytes in [ipv4(6, &reset), group, ipv4(1, &of_error), ipv4_with(17, 0x2000, &[], &[0; 16])]
    {
        for to in [ReplyTo::Source, ReplyTo::Destination] {
            assert_eq!(reject::reply(&decode(Link::Raw, &bytes), to), None, "{bytes:02x?}");
        }
    }
}
