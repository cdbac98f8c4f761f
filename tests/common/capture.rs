//! Captures that tests compose: whole TCP connections and datagrams of IPv4 (RFC 791, 768, 9293).

use std::net::SocketAddrV4;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// Bytes of a segment.
const SEGMENT: usize = 1_400;
const FIN: u8 = 1;
const SYN: u8 = 2;
const PSH: u8 = 8;
const ACK: u8 = 16;

/// Who says something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum By {
    Client,
    Server,
}

/// Packets a millisecond apart, from now on.
pub(crate) struct Capture {
    begun: u32,
    packets: Vec<Vec<u8>>,
}

impl Capture {
    pub(crate) fn new() -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        Capture { begun: u32::try_from(now.as_secs()).unwrap(), packets: Vec::new() }
    }

    /// A whole connection; each segment is acknowledged.
    pub(crate) fn tcp(&mut self, ends: [SocketAddrV4; 2], talk: &[(By, &[u8])]) {
        let mut next = [1_000_u32, 9_000];
        let mut send = |by: By, flags: u8, payload: &[u8]| {
            let (own, other) = if by == By::Client { (0, 1) } else { (1, 0) };
            let acknowledged = if flags & ACK == 0 { 0 } else { next[other] };
            let segment = tcp([ends[own], ends[other]], (next[own], acknowledged), flags, payload);
            let taken = payload.len() as u32 + u32::from(flags & (SYN | FIN) != 0);
            next[own] = next[own].wrapping_add(taken);
            self.packets.push(segment);
        };
        send(By::Client, SYN, b"");
        send(By::Server, SYN | ACK, b"");
        send(By::Client, ACK, b"");
        for (by, bytes) in talk {
            let other = if *by == By::Client { By::Server } else { By::Client };
            for piece in bytes.chunks(SEGMENT) {
                send(*by, PSH | ACK, piece);
                send(other, ACK, b"");
            }
        }
        send(By::Client, FIN | ACK, b"");
        send(By::Server, FIN | ACK, b"");
        send(By::Client, ACK, b"");
    }

    /// A datagram.
    pub(crate) fn udp(&mut self, ends: [SocketAddrV4; 2], payload: &[u8]) {
        let mut datagram = Vec::new();
        let len = u16::try_from(8 + payload.len()).unwrap();
        for word in [ends[0].port(), ends[1].port(), len, 0] {
            datagram.extend(word.to_be_bytes());
        }
        datagram.extend(payload);
        self.packets.push(ip(ends, 17, &datagram));
    }

    /// Writes it (pcap, raw IP).
    pub(crate) fn write(&self, file: &Path) {
        let mut out = Vec::new();
        for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, 101] {
            out.extend(word.to_le_bytes());
        }
        for (number, packet) in (0_u32..).zip(&self.packets) {
            let len = u32::try_from(packet.len()).unwrap();
            let (seconds, micros) = (self.begun + number / 1_000, number % 1_000 * 1_000);
            for word in [seconds, micros, len, len] {
                out.extend(word.to_le_bytes());
            }
            out.extend(packet);
        }
        std::fs::write(file, out).unwrap();
    }
}

fn tcp(ends: [SocketAddrV4; 2], (seq, ack): (u32, u32), flags: u8, payload: &[u8]) -> Vec<u8> {
    let mut segment = Vec::new();
    segment.extend(ends[0].port().to_be_bytes());
    segment.extend(ends[1].port().to_be_bytes());
    segment.extend(seq.to_be_bytes());
    segment.extend(ack.to_be_bytes());
    segment.extend([0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
    segment.extend(payload);
    let mut pseudo = [ends[0].ip().octets(), ends[1].ip().octets()].concat();
    pseudo.extend([0, 6]);
    pseudo.extend(u16::try_from(segment.len()).unwrap().to_be_bytes());
    let sum = checksum(&[pseudo, segment.clone()].concat());
    segment[16..18].copy_from_slice(&sum.to_be_bytes());
    ip(ends, 6, &segment)
}

fn ip(ends: [SocketAddrV4; 2], protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x45, 0];
    packet.extend(u16::try_from(20 + payload.len()).unwrap().to_be_bytes());
    packet.extend([0, 1, 0x40, 0, 64, protocol, 0, 0]);
    packet.extend(ends[0].ip().octets());
    packet.extend(ends[1].ip().octets());
    let sum = checksum(&packet);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet.extend(payload);
    packet
}

/// The checksum of the internet (RFC 1071).
fn checksum(bytes: &[u8]) -> u16 {
    let words = bytes
        .chunks(2)
        .map(|pair| u32::from(u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)])));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}
