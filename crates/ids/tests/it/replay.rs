//! Rules over captures that are composed here.

#[path = "../../../gateway/tests/countries/mmdb.rs"]
mod mmdb;

use std::fs;

use gauntlet_ids::config::Settings;
use gauntlet_ids::replay::{Options, replay};
use serde_json::Value;

use mmdb::{database, map, string};

const CLIENT: [u8; 4] = [192, 0, 2, 1];
const SERVER: [u8; 4] = [192, 0, 2, 2];

/// A capture: packets a millisecond apart, of one flow.
struct Talk {
    capture: Vec<u8>,
    count: u32,
    /// Seconds from the first packet to the next one.
    seconds: u32,
    ports: [u16; 2],
    /// Sequence numbers of the client and of the server.
    next: [u32; 2],
}

impl Talk {
    fn new(server_port: u16) -> Self {
        let mut capture = Vec::new();
        // Microseconds, version 2.4, Ethernet.
        for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, 1] {
            capture.extend_from_slice(&word.to_le_bytes());
        }
        Self { capture, count: 0, seconds: 0, ports: [40_000, server_port], next: [1_000, 2_000] }
    }

    fn packet(&mut self, from_client: bool, protocol: u8, segment: &[u8]) {
        let (from, to) = if from_client { (CLIENT, SERVER) } else { (SERVER, CLIENT) };
        let len = u16::try_from(20 + segment.len()).unwrap();
        let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0];
        frame.extend_from_slice(&len.to_be_bytes());
        frame.extend_from_slice(&[0, 1, 0, 0, 64, protocol, 0, 0]);
        frame.extend_from_slice(&from);
        frame.extend_from_slice(&to);
        frame.extend_from_slice(segment);
        self.frame(&frame);
    }

    fn frame(&mut self, frame: &[u8]) {
        let size = u32::try_from(frame.len()).unwrap();
        for word in [1_700_000_000 + self.seconds, self.count * 1_000, size, size] {
            self.capture.extend_from_slice(&word.to_le_bytes());
        }
        self.capture.extend_from_slice(frame);
        self.count += 1;
    }

    fn ends(&self, from_client: bool) -> Vec<u8> {
        let [client, server] = self.ports;
        let ports = if from_client { [client, server] } else { [server, client] };
        ports.iter().flat_map(|port| port.to_be_bytes()).collect()
    }

    fn udp(&mut self, from_client: bool, payload: &[u8]) {
        let mut segment = self.ends(from_client);
        segment.extend_from_slice(&u16::try_from(8 + payload.len()).unwrap().to_be_bytes());
        segment.extend_from_slice(&[0, 0]);
        segment.extend_from_slice(payload);
        self.packet(from_client, 17, &segment);
    }

    fn tcp(&mut self, from_client: bool, flags: u8, payload: &[u8]) {
        self.tcp_with(from_client, flags, &[], payload);
    }

    /// With options, a multiple of four bytes.
    fn tcp_with(&mut self, from_client: bool, flags: u8, options: &[u8], payload: &[u8]) {
        let (own, other) = if from_client { (0, 1) } else { (1, 0) };
        let mut segment = self.ends(from_client);
        segment.extend_from_slice(&self.next[own].to_be_bytes());
        segment.extend_from_slice(&self.next[other].to_be_bytes());
        let words = u8::try_from(5 + options.len() / 4).unwrap();
        segment.extend_from_slice(&[words << 4, flags, 0xff, 0xff, 0, 0, 0, 0]);
        segment.extend_from_slice(options);
        segment.extend_from_slice(payload);
        let len = u32::try_from(payload.len()).unwrap();
        self.next[own] += len + u32::from(flags & 3 != 0);
        self.packet(from_client, 6, &segment);
    }

    fn handshake(&mut self) {
        self.tcp(true, 0x02, b"");
        self.tcp(false, 0x12, b"");
        self.tcp(true, 0x10, b"");
    }

    /// Data, and its acknowledgement.
    fn says(&mut self, from_client: bool, payload: &[u8]) {
        self.tcp(from_client, 0x18, payload);
        self.tcp(!from_client, 0x10, b"");
    }

    /// Packet numbers and ids of the alerts; those of made-up packets have number 0.
    fn alerts(&self, rules: &str, settings: &[&str], inline: bool) -> Vec<(u64, u64)> {
        self.alerts_beside(rules, settings, inline, &[])
    }

    /// The same, with a file beside the rules, or none.
    fn alerts_beside(
        &self,
        rules: &str,
        settings: &[&str],
        inline: bool,
        file: &[u8],
    ) -> Vec<(u64, u64)> {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("file"), file).unwrap();
        fs::write(path("a.pcap"), &self.capture).unwrap();
        fs::write(path("a.rules"), rules).unwrap();
        let mut options = Options {
            settings: Settings::stock(),
            directory: folder.path().to_owned(),
            rules: vec![path("a.rules")],
            inline,
            checksums: Some(false),
        };
        for line in settings {
            options.settings.assign(line).unwrap();
        }
        let mut found = Vec::new();
        let summary = replay(&path("a.pcap"), &options, &mut |line| {
            let value: Value = serde_json::from_str(line).unwrap();
            let sid = value["alert"]["signature_id"].as_u64();
            if let Some(sid) = sid {
                found.push((value["pcap_cnt"].as_u64().unwrap_or_default(), sid));
            }
        });
        let summary = summary.unwrap();
        assert_eq!((summary.left_out, summary.damage), (0, None));
        found.sort_unstable();
        found
    }
}

const REQUEST: &[u8] = b"INVITE sip:a@192.0.2.2 SIP/2.0\r\nCall-ID: 1\r\n\r\n";

#[test]
fn a_protocol_that_cannot_be_parsed_has_a_policy() {
    let mut talk = Talk::new(5060);
    talk.udp(true, REQUEST);
    talk.udp(true, b"SIP/2.0 200 OK\r\nCall-ID: 1\r\n\r\n");
    talk.udp(true, REQUEST);
    let rules = "alert udp any any -> any any (flow:to_server; ttl:64; sid:1;)\n\
        alert sip any any -> any any (sip.method; content:\"INVITE\"; sid:2;)\n";
    let all = [(1, 1), (1, 2), (2, 1), (3, 1), (3, 2)];
    assert_eq!(talk.alerts(rules, &[], false), all, "no policy when nothing can be dropped");
    let packet = ["app-layer.error-policy=drop-packet"];
    assert_eq!(talk.alerts(rules, &packet, true), [(1, 1), (1, 2), (3, 1), (3, 2)]);
    assert_eq!(talk.alerts(rules, &[], true), [(1, 1), (1, 2)], "inline, the flow is dropped");
}

#[test]
fn a_flow_that_is_passed_by_is_not_looked_at() {
    let mut talk = Talk::new(5000);
    for _ in 0..3 {
        talk.udp(true, b"a word");
    }
    let rules = "alert udp any any -> any any (content:\"word\"; bypass; sid:1;)\n";
    assert_eq!(talk.alerts(rules, &[], false), [(1, 1)]);
    let rules = rules.replace(" bypass;", "");
    assert_eq!(talk.alerts(&rules, &[], false), [(1, 1), (2, 1), (3, 1)]);
}

#[test]
fn the_place_of_a_fast_pattern_may_be_a_variable() {
    let mut talk = Talk::new(5000);
    talk.udp(true, b"\x04...word");
    let rules = "alert udp any any -> any any (byte_extract:1,0,at; content:\"word\"; offset:at; \
        depth:4; sid:1;)\n";
    assert_eq!(talk.alerts(rules, &[], false), [(1, 1)]);
}

#[test]
fn transactions_are_asked_how_far_they_are() {
    let mut talk = Talk::new(80);
    talk.handshake();
    talk.says(true, b"GET / HTTP/1.1\r\nHost: a\r\n");
    talk.says(true, b"\r\n");
    let rules = "alert http1 any any -> any any (app-layer-state:<request_headers; sid:1;)\n\
        alert http1 any any -> any any (app-layer-state:>request_headers; sid:2;)\n";
    let found = talk.alerts(rules, &[], false);
    assert!(found.contains(&(0, 2)), "{found:?}");
    assert!(found.iter().all(|(_, sid)| *sid == 2), "{found:?}");
}

/// A response of HTTP whose file is larger than bodies that are inspected.
fn download(name: &str, start: &[u8], len: usize) -> Talk {
    let mut talk = Talk::new(80);
    talk.handshake();
    talk.says(true, format!("GET /{name} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes());
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {len}\r\n\r\n");
    talk.says(false, head.as_bytes());
    let mut body = start.to_vec();
    body.resize(len, b'a');
    for piece in body.chunks(1_400) {
        talk.says(false, piece);
    }
    talk
}

#[test]
fn files_are_known_by_their_first_bytes() {
    let rules = "alert http any any -> any any (filemagic:\"pdf document\"; sid:1;)\n\
        alert http any any -> any any (file.magic; content:\"version 1.6\"; endswith; sid:2;)\n\
        alert http any any -> any any (filemagic:\"PE32\"; sid:3;)\n\
        alert http any any -> any any (filemagic:!\"PE32\"; sid:4;)\n";
    let talk = download("a.pdf", b"%PDF-1.6\n", 2_000);
    let found: Vec<u64> = talk.alerts(rules, &[], false).iter().map(|(_, sid)| *sid).collect();
    assert_eq!(found, [1, 2, 4]);
}

#[test]
fn files_that_are_stored_are_read_whole() {
    let limit = ["app-layer.protocols.http.libhtp.default-config.response-body-limit=4096"];
    let talk = download("a.exe", b"MZ", 9_000);
    let rule = "alert http any any -> any any (filesize:9000; sid:1;)\n";
    let stores = "alert http any any -> any any (fileext:\"exe\"; filestore; sid:2;)\n";
    assert_eq!(talk.alerts(rule, &limit, false), []);
    let found = talk.alerts(&format!("{rule}{stores}"), &limit, false);
    assert!(found.iter().any(|(_, sid)| *sid == 1), "{found:?}");
}

#[test]
fn data_of_a_syn_is_no_part_of_its_packet() {
    let mut talk = Talk::new(80);
    // Half of all sequence numbers lie behind the number 0 that nothing acknowledged yet.
    talk.next = [0xc000_0000, 2_000];
    let request = b"GET /word HTTP/1.1\r\nHost: a\r\n\r\n";
    let mut segment = talk.ends(true);
    segment.extend_from_slice(&0xc000_0000_u32.to_be_bytes());
    segment.extend_from_slice(&0_u32.to_be_bytes());
    // A header of 32 bytes: fast open with a cookie of 8 (RFC 7413, section 4.1.1), and 2 of NOP.
    segment.extend_from_slice(&[0x80, 0x02, 0xff, 0xff, 0, 0, 0, 0]);
    segment.extend_from_slice(&[34, 10, 1, 2, 3, 4, 5, 6, 7, 8, 1, 1]);
    segment.extend_from_slice(request);
    talk.packet(true, 6, &segment);
    talk.next[0] += 1 + u32::try_from(request.len()).unwrap();
    talk.tcp(false, 0x12, b"");
    talk.tcp(true, 0x10, b"");
    talk.says(false, b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    let rules = "alert tcp any any -> any any (content:\"word\"; sid:1;)\n\
        alert http any any -> any any (http.uri; content:\"word\"; sid:2;)\n";
    let found = talk.alerts(rules, &[], false);
    assert!(found.iter().all(|(packet, _)| *packet != 1), "{found:?}");
    assert_eq!(found.iter().map(|(_, sid)| *sid).collect::<Vec<_>>(), [1, 2], "{found:?}");
}

#[test]
fn each_keyword_of_buffers_finds_its_buffer() {
    // What no parser provides.
    let lacking = ["dnp3", "enip", "pgsql", "template", "http2.header_name"];
    let settings = Settings::stock();
    let mut rules = String::new();
    for (sid, keyword) in (1..).zip(gauntlet_ids::rule::buffers::sticky_keywords()) {
        let is_modifier =
            gauntlet_ids::rule::buffers::sticky(keyword).is_some_and(|it| it.is_modifier);
        let options = match is_modifier {
            true => format!("content:\"a\"; {keyword};"),
            false => format!("{keyword}; content:\"a\";"),
        };
        rules.push_str(&format!("alert ip any any -> any any ({options} sid:{sid};)\n"));
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.rules");
    fs::write(&path, rules).unwrap();
    let directory = folder.path().to_owned();
    let options =
        Options { settings, directory, rules: vec![path], inline: false, checksums: None };
    let program = gauntlet_ids::replay::program(&options).unwrap();
    assert!(program.rules.rules.len() > 150, "{}", program.rules.rules.len());
    let lost: Vec<&str> = program
        .unsupported()
        .map(|(rule, _)| rule.text.as_str())
        .filter(|text| !lacking.iter().any(|part| text.contains(part)))
        .collect();
    assert!(lost.is_empty(), "{}", lost.join("\n"));
}

#[test]
fn addresses_are_in_countries() {
    let mut talk = Talk::new(5000);
    talk.udp(true, b"word");
    let rules: String = [
        "geoip:src,SE",
        "geoip:dst,SE",
        "geoip:NO,SE",
        "geoip:both,SE",
        "geoip:any,!SE",
        "geoip:src,!NO",
    ]
    .iter()
    .zip(1..)
    .map(|(check, sid)| format!("alert udp any any -> any any ({check}; ttl:64; sid:{sid};)\n"))
    .collect();
    let settings = ["geoip-database=file"];
    let country = map(&[("country", map(&[("iso_code", string("SE"))]))]);
    let database = database(CLIENT, 32, &country);
    let found = talk.alerts_beside(&rules, &settings, false, &database);
    assert_eq!(found, [(1, 1), (1, 3), (1, 6)]);
}

/// An `ip` rule that drops must not cut the network off: ARP has no addresses that it could mean.
#[test]
fn frames_without_an_ip_header_are_for_rules_of_events_and_links() {
    let mut talk = Talk::new(53);
    let arp = [
        &[0xff_u8; 6][..],
        &[2, 0, 0, 0, 0, 1, 8, 6, 0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 1],
        &CLIENT,
        &[0; 6],
        &SERVER,
    ];
    talk.frame(&arp.concat());
    talk.udp(true, b"x");
    let rules = "drop ip ![10.0.0.0/8] any -> 192.0.2.0/24 any (dsize:<9; sid:1;)\n\
                 alert ip any any -> any any (dsize:<9; sid:2;)\n";
    assert_eq!(talk.alerts(rules, &[], true), [(2, 1), (2, 2)]);
}

/// A receiver ignores an option that it cannot read, and takes the payload.
#[test]
fn a_segment_with_bad_options_stays_in_its_stream() {
    let mut talk = Talk::new(80);
    talk.handshake();
    talk.tcp_with(true, 0x18, &[2, 0, 1, 1], b"alpha");
    talk.says(true, b"bravo");
    let rules =
        "alert tcp any any -> any any (flow:established,to_server; content:\"alphabravo\"; sid:1;)";
    let found = talk.alerts(rules, &[], false);
    assert_eq!(found.len(), 1, "{found:?}");
}

/// As Suricata has it: setting a bit again does not prolong it.
#[test]
fn bits_of_addresses_end_when_they_were_first_set_to() {
    let mut talk = Talk::new(53);
    for (seconds, payload) in [(0, "set"), (20, "set"), (35, "ask"), (100, "turn"), (300, "ask")] {
        talk.seconds = seconds;
        talk.udp(true, payload.as_bytes());
    }
    let rules = "alert udp any any -> any any (content:\"set\"; xbits:set,a,track ip_src,expire 30; sid:1;)\n\
                 alert udp any any -> any any (content:\"ask\"; xbits:isset,a,track ip_src; sid:2;)\n\
                 alert udp any any -> any any (content:\"turn\"; hostbits:toggle,b,src; sid:3;)\n\
                 alert udp any any -> any any (content:\"ask\"; hostbits:isset,b,src; sid:4;)\n";
    assert_eq!(talk.alerts(rules, &[], false), [(1, 1), (2, 1), (4, 3), (5, 4)]);
}
