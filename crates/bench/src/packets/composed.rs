//! Captures for the experiment: HTTP over TCP over IPv4, the packet that counts 1,000 bytes long.

use std::io::{BufWriter, Write};
use std::path::Path;

/// Bytes of the packet that is looked at, with its headers of IP and TCP.
pub(super) const PACKET_BYTES: usize = 1_000;
/// Headers of IPv4 and TCP without options.
const HEADER_BYTES: usize = 40;
/// Link type of raw IPv4 or IPv6 in a pcap (LINKTYPE_RAW).
const LINK_RAW: u32 = 101;
/// Flags of TCP (RFC 9293, 3.1).
const SYN: u8 = 2;
const PUSH: u8 = 8;
const ACK: u8 = 16;
const FIN: u8 = 1;

/// What a client asks, and what it gets.
pub(super) struct Exchange {
    pub(super) request: Vec<u8>,
    pub(super) response: Vec<u8>,
}

/// The request for a URL, filled up to a packet of 1,000 bytes; its answer is empty.
pub(super) fn request(url: &str) -> Exchange {
    let rest = url.strip_prefix("http://").unwrap_or(url);
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let head = format!("GET /{path} HTTP/1.1\r\nHost: {host}\r\nX-Fill: ");
    let end = b"\r\n\r\n";
    let fill = (PACKET_BYTES - HEADER_BYTES).saturating_sub(head.len() + end.len());
    let request = [head.as_bytes(), &vec![b'x'; fill], end].concat();
    Exchange { request, response: b"HTTP/1.1 204 No Content\r\n\r\n".to_vec() }
}

/// A page with this text, cut so that its packet has 1,000 bytes.
pub(super) fn page(text: &[u8]) -> Exchange {
    let room = PACKET_BYTES - HEADER_BYTES;
    let head = |len: usize| {
        format!("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {len}\r\n\r\n")
    };
    let len = text.len().min(room - head(room).len());
    let body = text.get(..len).unwrap_or_default();
    let response = [head(len).as_bytes(), body].concat();
    Exchange { request: b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n".to_vec(), response }
}

/// Writes a capture of these exchanges, `copies` times, each a connection of its own between hosts
/// of its own. Returns its frames.
pub(super) fn write(file: &Path, exchanges: &[Exchange], copies: u32) -> std::io::Result<u64> {
    let mut capture = Capture { out: BufWriter::new(std::fs::File::create(file)?), frames: 0 };
    for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, LINK_RAW] {
        capture.out.write_all(&word.to_le_bytes())?;
    }
    let mut number = 0;
    for _ in 0..copies {
        for exchange in exchanges {
            capture.connection(number, exchange)?;
            number += 1;
        }
    }
    capture.out.flush()?;
    Ok(u64::from(capture.frames))
}

struct Capture<W> {
    out: W,
    frames: u32,
}

impl<W: Write> Capture<W> {
    fn connection(&mut self, number: u32, exchange: &Exchange) -> std::io::Result<()> {
        let Exchange { request, response } = exchange;
        let [_, a, b, c] = number.to_be_bytes();
        let (client, server) = ([10, a, b, c], [198, 18 + (a & 1), b, c]);
        let (asked, got) = (request.len() as u32 + 1, response.len() as u32 + 1);
        for (from_client, flags, sequence, acknowledged, payload) in [
            (true, SYN, 0, 0, &[][..]),
            (false, SYN | ACK, 0, 1, &[]),
            (true, ACK, 1, 1, &[]),
            (true, PUSH | ACK, 1, 1, request),
            (false, PUSH | ACK, 1, asked, response),
            (true, FIN | ACK, asked, got, &[]),
            (false, FIN | ACK, got, asked + 1, &[]),
            (true, ACK, asked + 1, got + 1, &[]),
        ] {
            let (from, to) = if from_client { (client, server) } else { (server, client) };
            let ports: [u16; 2] = if from_client { [40_000, 80] } else { [80, 40_000] };
            let len = (HEADER_BYTES + payload.len()) as u16;
            let mut packet = vec![0x45, 0];
            packet.extend(len.to_be_bytes());
            packet.extend([0, 0, 0x40, 0, 64, 6, 0, 0]);
            packet.extend([from, to].concat());
            packet.extend(ports.map(u16::to_be_bytes).concat());
            packet.extend(u32::to_be_bytes(sequence));
            packet.extend(u32::to_be_bytes(acknowledged));
            packet.extend([0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
            packet.extend(payload);
            self.frame(&packet)?;
        }
        Ok(())
    }

    fn frame(&mut self, packet: &[u8]) -> std::io::Result<()> {
        // A millisecond from one to the next.
        let (seconds, micros) = (self.frames / 1_000, self.frames % 1_000 * 1_000);
        let len = packet.len() as u32;
        for word in [1_700_000_000 + seconds, micros, len, len] {
            self.out.write_all(&word.to_le_bytes())?;
        }
        self.frames += 1;
        self.out.write_all(packet)
    }
}
