//! Rules over captures that are composed here.

#[path = "../../../gateway/tests/countries/mmdb.rs"]
mod mmdb;

use std::fs;

use gauntlet_ids::config::Settings;
use gauntlet_ids::replay::{Options, replay};

use super::talk::{CLIENT, SERVER, Talk};
use mmdb::{database, map, string};

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

/// A kept connection: responses beyond the stream's depth are not seen, and the transactions that
/// wait for them are over nevertheless. They were kept, were too many, and inline the flow ended.
#[test]
fn requests_go_on_when_the_depth_of_responses_is_reached() {
    let mut talk = Talk::new(80);
    talk.handshake();
    let response = format!("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{}", "a".repeat(100));
    for n in 0..60 {
        talk.says(true, format!("GET /{n} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes());
        talk.says(false, response.as_bytes());
    }
    let rules = "alert http any any -> any any (http.uri; content:\"/59\"; endswith; sid:1;)\n";
    let max = "app-layer.protocols.http.libhtp.default-config.max-tx=8";
    let settings = ["stream.reassembly.depth=4096", max];
    for inline in [false, true] {
        let sids: Vec<_> =
            talk.alerts(rules, &settings, inline).iter().map(|alert| alert.1).collect();
        assert_eq!(sids, [1], "inline: {inline}");
    }
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

/// Sids of a connection on port 22 in which each says something in turn.
fn ssh_sids(lines: &[(bool, &str)]) -> Vec<u64> {
    let mut talk = Talk::new(22);
    talk.handshake();
    for (from_client, line) in lines {
        talk.says(*from_client, line.as_bytes());
    }
    let rules = "alert ssh any any -> any any (ssh.software; content:\"client\"; sid:1;)\n\
        alert ssh any any -> any any (ssh.software; content:\"server\"; sid:2;)\n\
        alert ssh any any -> any any (app-layer-event:ssh.invalid_banner; flow:to_client; sid:3;)\n\
        alert ssh any any -> any any (app-layer-event:ssh.long_banner; flow:to_server; sid:4;)\n";
    let mut sids: Vec<u64> =
        talk.alerts(rules, &[], false).into_iter().map(|(_, sid)| sid).collect();
    sids.sort_unstable();
    sids.dedup();
    sids
}

/// What a server says before its version is an event; the client's version is read nevertheless.
#[test]
fn ssh_servers_that_greet_before_their_version() {
    let (client, server) = ("SSH-2.0-client\r\n", "SSH-2.0-server\r\n");
    let long = format!("SSH-2.0-{}\r\n", "s".repeat(300));
    for (lines, wanted) in [
        (vec![(false, server), (true, client), (true, "\n")], &[1, 2][..]),
        (vec![(false, "Hello\r\nSSH-2.0-server\r\n"), (true, client), (false, "\n")], &[1, 3]),
        (vec![(false, "Hello\r\n"), (false, server), (true, client), (false, "\n")], &[1, 3]),
        (vec![(true, client), (false, "Hello\r\nSSH-2.0-server\r\n"), (false, "\n")], &[1, 3]),
        (vec![(false, &long), (true, "\n")], &[4]),
    ] {
        assert_eq!(ssh_sids(&lines), wanted, "{lines:?}");
    }
}

/// A packet whose IP options are wrong is for rules of its addresses, whatever it carries.
#[test]
fn packets_with_wrong_ip_options_have_addresses() {
    let mut talk = Talk::new(53);
    let datagram = [&talk.ends(true)[..], &[0, 12, 0, 0], b"word"].concat();
    talk.packet_with(true, 17, &[7, 0, 1, 1], &datagram);
    talk.packet_with(true, 17, &[1, 1, 1, 0], &datagram);
    let rules = "alert ip any any -> any any (sid:1;)\n\
        alert ip 192.0.2.1 any -> 192.0.2.2 any (sid:2;)\n\
        alert ip 192.0.2.2 any -> any any (sid:3;)\n\
        alert ip any any -> any any (ip_proto:!6; sid:4;)\n\
        alert udp any any -> any any (sid:5;)\n\
        alert ip any any -> any any (ttl:64; sid:6;)\n\
        alert ip any any -> any any (content:\"word\"; sid:7;)\n\
        alert ip any any -> any 53 (sid:8;)\n\
        alert ip any any -> any any (decode-event:ipv4.opt_invalid_len; sid:9;)\n";
    let of = |number: u64| {
        let found = talk.alerts(rules, &[], false).into_iter();
        found.filter(|(packet, _)| *packet == number).map(|(_, sid)| sid).collect::<Vec<_>>()
    };
    assert_eq!(of(1), [1, 2, 4, 9]);
    assert_eq!(of(2), [1, 2, 4, 5, 6, 7, 8]);
    let dropped = talk.alerts("drop ip any any -> 192.0.2.0/24 any (sid:1;)\n", &[], true);
    assert_eq!(dropped, [(1, 1), (2, 1)]);
}

/// A fragment belongs to no flow; with nothing but a direction, `flow` looks at it all the same.
#[test]
fn fragments_go_to_the_server() {
    let mut talk = Talk::new(5000);
    talk.udp(true, b"hello");
    let datagram = [&talk.ends(false)[..], &[0, 20, 0, 0], b"AAAAAAAAword"].concat();
    let (first, rest) = datagram.split_at(16);
    talk.ip(false, [0, 9, 0x20, 0, 64, 17, 0, 0], &[], first);
    talk.ip(false, [0, 9, 0, 2, 64, 17, 0, 0], &[], rest);
    let rules = "alert ip any any -> any any (flow:to_server; fragoffset:0; sid:1;)\n\
        alert ip any any -> any any (flow:to_server; fragoffset:2; sid:2;)\n\
        alert ip any any -> any any (flow:to_client; fragoffset:0; sid:3;)\n\
        alert ip any any -> any any (flow:stateless; fragoffset:>0; sid:4;)\n\
        alert ip any any -> any any (flow:only_frag; content:\"AAAAword\"; sid:5;)\n\
        alert ip any any -> any any (flow:to_server; content:\"word\"; sid:6;)\n\
        alert ip any any -> any any (flow:to_client; content:\"word\"; sid:7;)\n\
        alert ip any any -> any any (fragbits:M; sid:8;)\n";
    // What the fragments make is a packet to the client, and has no number of its own.
    let wanted = [(0, 3), (0, 5), (0, 7), (1, 1), (2, 1), (2, 8), (3, 2)];
    assert_eq!(talk.alerts(rules, &[], false), wanted);
}

const UPGRADE: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\n\
    Upgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n\r\n";
const UPGRADED: &[u8] =
    b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n";
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// A frame of HTTP/2 with no settings.
const SETTINGS: [u8; 9] = [0, 0, 0, 4, 0, 0, 0, 0, 0];

/// What the server sends behind its answer waits for the next packet, not for more of its data.
#[test]
fn http2_begins_in_the_segment_of_the_upgrade() {
    let mut talk = Talk::new(80);
    talk.handshake();
    talk.says(true, UPGRADE);
    talk.tcp(false, 0x18, &[UPGRADED, &SETTINGS].concat());
    talk.tcp(true, 0x18, PREFACE);
    talk.tcp(true, 0x18, &SETTINGS);
    talk.tcp(true, 0x18, &SETTINGS);
    let rule = "alert http2 any any -> any any (http.method; content:\"GET\"; sid:1;)\n";
    assert_eq!(talk.alerts(rule, &[], false), [(8, 1)]);
}

/// Before a flow's protocol changes, what was acknowledged is inspected; what the client has begun
/// to say in the next one waits for its acknowledgement.
#[test]
fn what_is_not_acknowledged_is_not_inspected_before_a_change() {
    let body = [&[3, 3][..], &[7; 32], &[0, 0, 2, 0xc0, 0x2f, 1, 0, 0, 0]].concat();
    let message = [&[1, 0, 0, u8::try_from(body.len()).unwrap()][..], &body].concat();
    let hello = [&[22, 3, 1, 0, u8::try_from(message.len()).unwrap()][..], &message].concat();
    let mut talk = Talk::new(8080);
    talk.handshake();
    talk.says(true, b"CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:443\r\n\r\n");
    talk.says(false, b"HTTP/1.1 200 OK\r\n\r\n");
    talk.tcp(true, 0x18, &hello);
    talk.tcp(false, 0x10, b"");
    talk.tcp(true, 0x10, b"");
    let rule = "alert tcp any any -> any any (flow:to_server; content:\"|c0 2f|\"; sid:1;)\n";
    assert_eq!(talk.alerts(rule, &[], false), [(10, 1)]);
}

/// The request of HTTP/1 that asks for HTTP/2 is the first transaction, its settings are the next.
#[test]
fn an_upgraded_request_is_the_first_transaction() {
    let mut talk = Talk::new(80);
    talk.handshake();
    talk.says(true, UPGRADE);
    talk.says(false, UPGRADED);
    // Status 200, and a field in plain text (RFC 7541).
    let fields = b"\x88\x00\x0daccept-ranges\x05bytes";
    let head = [0, 0, u8::try_from(fields.len()).unwrap(), 1, 5, 0, 0, 0, 1];
    talk.says(true, &[PREFACE, &SETTINGS].concat());
    talk.says(false, &[&SETTINGS[..], &head, fields].concat());
    let rule = "alert http2 any any -> any any (http.header; content:\"accept-ranges\"; sid:1;)\n";
    let found = talk.records(rule, &[], false, &[]);
    let ids: Vec<_> = found.iter().map(|alert| alert["tx_id"].as_u64()).collect();
    assert_eq!(ids, [Some(0)]);
}

/// A rule whose flags name SYN, RST or FIN sees packets with one of them alone, also with `!` and
/// `*`; the same with URG, ECE and CWR.
#[test]
fn flags_that_are_named_ask_for_one_of_their_kind() {
    let mut talk = Talk::new(80);
    // SYN, RST, FIN, ACK, PSH, URG, URG with PSH, CWR.
    for flags in [0x02, 0x04, 0x01, 0x10, 0x08, 0x20, 0x28, 0x80] {
        talk.tcp(true, flags, b"");
    }
    let seen = |flags: &str| {
        let rule = format!("alert tcp any any -> any any (flags:{flags}; sid:1;)\n");
        talk.alerts(&rule, &[], false).iter().map(|(packet, _)| *packet).collect::<Vec<_>>()
    };
    assert_eq!(seen("!S"), [2, 3]);
    assert_eq!(seen("!U"), [8]);
    assert_eq!(seen("*UP"), [6, 7]);
    assert_eq!(seen("*SA"), [1]);
    assert_eq!(seen("!A"), [1, 2, 3, 5, 6, 7, 8]);
    assert_eq!(seen("P"), [5]);
}

/// A pcapng with an Ethernet interface and one of 802.11 (105), and a packet of each that is named.
fn interfaces(packets: &[u32]) -> Vec<u8> {
    let block = |kind: u32, body: &[u32]| {
        let len = u32::try_from(12 + 4 * body.len()).unwrap();
        let words = [&[kind, len][..], body, &[len]].concat();
        words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>()
    };
    let mut file = block(0x0a0d_0d0a, &[0x1a2b_3c4d, 1, u32::MAX, u32::MAX]);
    file.extend(block(1, &[1, 0]));
    file.extend(block(1, &[105, 0]));
    for interface in packets {
        file.extend(block(6, &[*interface, 0, 0, 16, 16, 0, 0, 0, 0]));
    }
    file
}

#[test]
fn link_types_that_are_not_decoded_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pcapng");
    let options = Options {
        settings: Settings::stock(),
        directory: folder.path().to_owned(),
        rules: Vec::new(),
        inline: false,
        checksums: None,
    };
    let told = |packets: &[u32]| {
        fs::write(&path, interfaces(packets)).unwrap();
        replay(&path, &options, &mut |_| {}).map_err(|error| error.to_string())
    };
    assert_eq!(told(&[0, 0]).unwrap().damage, None);
    let some = told(&[0, 1, 0]).unwrap();
    assert_eq!((some.frames, some.undecoded), (3, 1));
    let damage = some.damage.unwrap();
    assert!(
        damage.starts_with("1 of 3 frames are not decoded: link type 105 (802.11)"),
        "{damage}"
    );
    let none = told(&[1, 1]).unwrap_err();
    assert!(none.contains("its frames are of link type 105 (802.11)"), "{none}");
}
