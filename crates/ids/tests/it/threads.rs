//! A capture on one thread and on several: the same alerts in the same order.

use std::fs;
use std::net::Ipv4Addr;
use std::num::NonZeroUsize;
use std::path::Path;

use gauntlet_ids::config::Settings;
use gauntlet_ids::replay::{Options, Replayer};
use serde_json::Value;

const RULES: &str = r#"
alert tcp any any -> any 80 (msg:"a request"; flow:established,to_server; content:"evil"; sid:1;)
alert http any any -> any any (msg:"a path"; http.uri; content:"/evil"; startswith; sid:2;)
alert http any any -> any any (msg:"an answer"; flow:to_client; file.data; content:"pay"; sid:3;)
alert udp any any -> any 5000 (msg:"put together"; content:"beginning and end"; sid:4;)
alert udp any any -> any any (msg:"both ways"; content:"x"; xbits:isset,seen,track ip_pair; sid:5;)
alert udp any any -> any 6000 (content:"y"; xbits:set,seen,track ip_pair; noalert; sid:6;)
alert icmp any any -> any any (msg:"unreachable"; itype:3; flowbits:isset,asked; sid:7;)
alert udp any any -> any 7000 (content:"z"; flowbits:set,asked; noalert; sid:8;)
alert tcp any any -> any any (msg:"cut off"; flow:to_server; content:"unacknowledged"; sid:9;)
"#;

const ACK: u8 = 0x10;
const SYN: u8 = 0x02;
const FIN: u8 = 0x01;

fn checksum(parts: &[&[u8]]) -> [u8; 2] {
    let bytes = parts.concat();
    let words = bytes
        .chunks(2)
        .map(|pair| u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or_default()));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    (!(sum as u16)).to_be_bytes()
}

/// An IPv4 packet; `fragment` is the field with flags and offset.
fn ip(from: Ipv4Addr, to: Ipv4Addr, protocol: u8, fragment: u16, data: &[u8]) -> Vec<u8> {
    let len = (20 + data.len()) as u16;
    let mut header = vec![0x45, 0];
    header.extend(len.to_be_bytes());
    header.extend([0x12, 0x34]);
    header.extend(fragment.to_be_bytes());
    header.extend([64, protocol, 0, 0]);
    header.extend(from.octets());
    header.extend(to.octets());
    let sum = checksum(&[&header]);
    header[10..12].copy_from_slice(&sum);
    header.extend(data);
    header
}

fn udp(ports: (u16, u16), data: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for word in [ports.0, ports.1, (8 + data.len()) as u16, 0] {
        bytes.extend(word.to_be_bytes());
    }
    bytes.extend(data);
    bytes
}

/// A TCP segment with its checksum.
fn segment(
    (from, to): (Ipv4Addr, Ipv4Addr),
    ports: (u16, u16),
    flags: u8,
    (sequence, acknowledgement): (u32, u32),
    data: &[u8],
) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend(ports.0.to_be_bytes());
    bytes.extend(ports.1.to_be_bytes());
    bytes.extend(sequence.to_be_bytes());
    bytes.extend(acknowledgement.to_be_bytes());
    bytes.extend([0x50, flags, 0x20, 0, 0, 0, 0, 0]);
    bytes.extend(data);
    let len = (bytes.len() as u16).to_be_bytes();
    let pseudo = [&from.octets()[..], &to.octets(), &[0, 6], &len].concat();
    let sum = checksum(&[&pseudo, &bytes]);
    bytes[16..18].copy_from_slice(&sum);
    ip(from, to, 6, 0x4000, &bytes)
}

/// Packets of one client, in order.
fn of_client(client: Ipv4Addr, server: Ipv4Addr, port: u16, turn: u32) -> Vec<Vec<u8>> {
    let forth =
        |flags, places, data: &[u8]| segment((client, server), (port, 80), flags, places, data);
    let back =
        |flags, places, data: &[u8]| segment((server, client), (80, port), flags, places, data);
    let path = if turn.is_multiple_of(2) { "/evil" } else { "/fine" };
    let request = format!("GET {path} HTTP/1.1\r\nHost: example.com\r\n\r\n");
    let body = if turn.is_multiple_of(3) { "pay" } else { "not" };
    let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n{body}");
    let (asked, told) = (101 + request.len() as u32, 501 + answer.len() as u32);
    let whole = udp((port, 5000), b"beginning and end of a datagram");
    let (first, last) = whole.split_at(16);
    let question = ip(client, server, 17, 0, &udp((port, 7000), b"z"));
    let mut unreachable = vec![3, 3, 0, 0, 0, 0, 0, 0];
    unreachable.extend(&question);
    let sum = checksum(&[&unreachable]);
    unreachable[2..4].copy_from_slice(&sum);
    let router = Ipv4Addr::new(198, 51, 100, 1);
    vec![
        forth(SYN, (100, 0), b""),
        back(SYN | ACK, (500, 101), b""),
        forth(ACK, (101, 501), b""),
        forth(ACK, (101, 501), request.as_bytes()),
        ip(client, server, 17, 0x2000, first),
        back(ACK, (501, asked), answer.as_bytes()),
        forth(ACK, (asked, told), b""),
        ip(client, server, 17, 0x0002, last),
        ip(client, server, 17, 0, &udp((port, 6000), b"y")),
        ip(server, client, 17, 0, &udp((9, port), b"x")),
        question,
        ip(router, client, 1, 0, &unreachable),
        forth(ACK | FIN, (asked, told), b""),
        forth(ACK, (asked + 1, told), b"unacknowledged"),
    ]
}

/// A pcap of raw IP packets, so many a second.
fn pcap(packets: &[Vec<u8>], a_second: u32) -> Vec<u8> {
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, 101] {
        file.extend(word.to_le_bytes());
    }
    for (number, packet) in (0_u32..).zip(packets) {
        let len = packet.len() as u32;
        let micros = number % a_second * (1_000_000 / a_second);
        for word in [1_700_000_000 + number / a_second, micros, len, len] {
            file.extend(word.to_le_bytes());
        }
        file.extend(packet);
    }
    file
}

/// Alerts without the numbers of flows.
fn alerts(capture: &Path, rules: &Path, settings: Settings, threads: usize) -> Vec<String> {
    let options = Options {
        settings,
        directory: rules.parent().expect("a folder").to_owned(),
        rules: vec![rules.to_owned()],
        inline: false,
        checksums: None,
    };
    let threads = NonZeroUsize::new(threads).expect("a thread");
    let replayer = Replayer::new(&options).expect("rules").on_threads(threads);
    let mut lines = Vec::new();
    let summary = replayer
        .run(capture, &mut |line| {
            let mut record: Value = serde_json::from_str(line).expect("JSON");
            record.as_object_mut().expect("a record").remove("flow_id");
            lines.push(record.to_string());
        })
        .expect("a capture");
    assert_eq!((summary.left_out, summary.rules), (0, 9));
    assert_eq!(summary.alerts, lines.len() as u64);
    lines
}

#[test]
fn threads_tell_what_one_tells() {
    let work = tempfile::tempdir().expect("a folder");
    let (capture, rules) = (work.path().join("a.pcap"), work.path().join("a.rules"));
    fs::write(&rules, RULES).expect("rules");
    let mut packets = Vec::new();
    // Sixteen clients at a time, their packets in turn.
    for round in 0..12_u32 {
        let talks: Vec<Vec<Vec<u8>>> = (0..16_u32)
            .map(|i| {
                let client = Ipv4Addr::from(0x0a00_0001 + i);
                let server = Ipv4Addr::from(0xc000_0201 + (i + round) % 5);
                of_client(client, server, 40_000 + round as u16, i + round)
            })
            .collect();
        for step in 0..talks[0].len() {
            packets.extend(talks.iter().map(|talk| talk[step].clone()));
        }
    }
    fs::write(&capture, pcap(&packets, 1000)).expect("a capture");
    let alerts = |threads| alerts(&capture, &rules, Settings::stock(), threads);
    let one = alerts(1);
    for sid in [1, 2, 3, 4, 5, 7, 9] {
        let count = one.iter().filter(|line| line.contains(&format!("\"signature_id\":{sid}}}")));
        assert!(count.count() >= 32, "sid {sid}");
    }
    for threads in [2, 4] {
        let several = alerts(threads);
        assert_eq!(several.len(), one.len(), "{threads} threads");
        for (several, one) in several.iter().zip(&one) {
            assert_eq!(several, one, "{threads} threads");
        }
    }
}

/// Sessions that are over, but were never closed, are kept until their time is over; what they
/// hold must not be missing to those that come.
#[test]
fn memory_of_old_sessions_is_given_back() {
    let work = tempfile::tempdir().expect("a folder");
    let (capture, rules) = (work.path().join("a.pcap"), work.path().join("a.rules"));
    fs::write(&rules, RULES).expect("rules");
    let mut packets = Vec::new();
    let server = Ipv4Addr::new(192, 0, 2, 1);
    for round in 0..200_u32 {
        for i in 0..16_u32 {
            let client = Ipv4Addr::from(0x0a00_0001 + i);
            packets.extend(of_client(client, server, 20_000 + round as u16, 0));
        }
    }
    // A round takes 224 seconds, and so many sessions would need four times this memory.
    fs::write(&capture, pcap(&packets, 1)).expect("a capture");
    for threads in [1, 4] {
        let mut settings = Settings::stock();
        settings.assign("stream.reassembly.memcap=256kb").expect("a setting");
        let lines = alerts(&capture, &rules, settings, threads);
        for sid in [1, 2, 3] {
            let id = format!("\"signature_id\":{sid}}}");
            let count = lines.iter().filter(|line| line.contains(&id)).count();
            assert_eq!(count, 200 * 16, "sid {sid} with {threads} threads");
        }
    }
}
