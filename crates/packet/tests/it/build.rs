//! Packets composed of bytes, layer by layer, the innermost last: `ethernet(0x0800, &ipv4(6,
//! &tcp(b"data")))`.

use std::sync::Arc;

use gauntlet_packet::{Decoder, Frame, Link, Packet, Settings, Time, event};

pub(crate) fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

pub(crate) fn sum(bytes: &[u8], begun: u32) -> u32 {
    let words = bytes
        .chunks(2)
        .map(|pair| u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or_default()));
    words.fold(begun, |all, word| all + word)
}

pub(crate) fn checksum(mut sum: u32) -> [u8; 2] {
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    (!(sum as u16)).to_be_bytes()
}

fn join(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

pub(crate) fn ethernet(kind: u16, inner: &[u8]) -> Vec<u8> {
    join(&[&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1], &kind.to_be_bytes(), inner])
}

pub(crate) fn vlan(id: u16, kind: u16, inner: &[u8]) -> Vec<u8> {
    join(&[&id.to_be_bytes(), &kind.to_be_bytes(), inner])
}

/// IPv4 from 10.0.0.1 to 10.0.0.2 with options and fragment fields.
pub(crate) fn ipv4_with(protocol: u8, fragment: u16, options: &[u8], inner: &[u8]) -> Vec<u8> {
    let words = (20 + options.len()) / 4;
    let total = (words * 4 + inner.len()) as u16;
    let mut header = join(&[
        &[0x40 | words as u8, 0],
        &total.to_be_bytes(),
        &[0x12, 0x34],
        &fragment.to_be_bytes(),
        &[64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2],
        options,
    ]);
    let right = checksum(sum(&header, 0));
    header[10..12].copy_from_slice(&right);
    join(&[&header, inner])
}

pub(crate) fn ipv4(protocol: u8, inner: &[u8]) -> Vec<u8> {
    ipv4_with(protocol, 0x4000, &[], inner)
}

/// IPv6 from fd00::1 to fd00::2.
pub(crate) fn ipv6(next_header: u8, inner: &[u8]) -> Vec<u8> {
    let mut address = [0; 16];
    address[0] = 0xfd;
    let (mut source, mut destination) = (address, address);
    (source[15], destination[15]) = (1, 2);
    let len = inner.len() as u16;
    let fixed = [0x60, 0, 0, 0];
    join(&[&fixed, &len.to_be_bytes(), &[next_header, 64], &source, &destination, inner])
}

/// TCP from port 40000 to 80, SYN and ACK, with options (a multiple of four bytes).
pub(crate) fn tcp_with(options: &[u8], payload: &[u8]) -> Vec<u8> {
    let words = ((20 + options.len()) / 4) as u8;
    let fixed = hex("9c40 0050 00000001 00000002");
    join(&[&fixed, &[words << 4, 0x12, 0xff, 0xff, 0, 0, 0, 0], options, payload])
}

pub(crate) fn tcp(payload: &[u8]) -> Vec<u8> {
    tcp_with(&[], payload)
}

pub(crate) fn udp(source: u16, destination: u16, payload: &[u8]) -> Vec<u8> {
    let len = (8 + payload.len()) as u16;
    let fields = [source, destination, len, 0].map(u16::to_be_bytes).concat();
    join(&[&fields, payload])
}

pub(crate) fn icmp(kind: u8, code: u8, rest: &[u8]) -> Vec<u8> {
    let mut message = join(&[&[kind, code, 0, 0], rest]);
    let right = checksum(sum(&message, 0));
    message[2..4].copy_from_slice(&right);
    message
}

pub(crate) fn frame(link: Link, bytes: &[u8]) -> Frame {
    Frame {
        number: 1,
        time: Time { seconds: 1_000_000, micros: 0 },
        link,
        bytes: Arc::from(bytes),
        original_len: bytes.len() as u32,
    }
}

pub(crate) fn decode_with(settings: Settings, link: Link, bytes: &[u8]) -> Vec<Packet> {
    let mut packets = Vec::new();
    Decoder::new(settings).decode(&frame(link, bytes), &mut packets);
    packets
}

/// The packets of an Ethernet frame, innermost first.
pub(crate) fn decode(bytes: &[u8]) -> Vec<Packet> {
    decode_with(Settings::default(), Link::Ethernet, bytes)
}

/// The only packet of an Ethernet frame.
pub(crate) fn decode_one(bytes: &[u8]) -> Packet {
    let mut packets = decode(bytes);
    assert_eq!(packets.len(), 1);
    packets.remove(0)
}

/// The names of a packet's events, without `decoder.`.
pub(crate) fn events(packet: &Packet) -> Vec<&'static str> {
    let name = |number: &u16| event::name(*number).unwrap();
    packet.events.iter().map(|number| name(number).trim_start_matches("decoder.")).collect()
}
