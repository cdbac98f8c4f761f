//! With which packet an alert comes, where that is not the one with the data.

use std::io::Write;

use flate2::Compression;
use flate2::write::{DeflateEncoder, GzEncoder};

use super::talk::Talk;

/// A request and its acknowledgement: packets 4 and 5 of the flow.
fn request(lines: &[u8]) -> Talk {
    let mut talk = Talk::new(80);
    talk.handshake();
    talk.says(true, lines);
    talk
}

fn close(talk: &mut Talk) {
    talk.tcp(false, 0x11, b"");
    talk.tcp(true, 0x11, b"");
    talk.tcp(false, 0x10, b"");
}

const GET: &[u8] = b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n";

#[test]
fn each_side_tells_once_that_its_protocol_was_decided() {
    let mut talk = request(GET);
    talk.says(false, b"HTTP/1.1 200 OK\r\n\r\nabc");
    close(&mut talk);
    let rule = "alert tcp any any -> any any (app-layer-protocol:http; sid:1;)\n";
    // The request is read with packet 5 and the response with 7, each acknowledged by the other.
    assert_eq!(talk.alerts(rule, &[], false), [(7, 1), (8, 1)]);
}

#[test]
fn a_status_line_alone_is_no_reason_to_look() {
    let mut talk = request(GET);
    talk.says(false, b"HTTP/1.1 200 OK\r");
    talk.says(false, b"\n");
    talk.says(false, b"Server: a\r\n\r\n");
    let rule = "alert http any any -> any any (http.stat_code; content:\"200\"; sid:1;)\n";
    // Packet 10 brings the header fields, which 11 acknowledges.
    close(&mut talk);
    assert_eq!(talk.alerts(rule, &[], false), [(12, 1)]);
}

#[test]
fn header_fields_are_searched_again_at_the_trailers() {
    let mut talk = request(GET);
    talk.says(false, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
    talk.says(false, b"0\r\n\r\n");
    close(&mut talk);
    let rules = "alert http any any -> any any (flow:to_client; http.header; content:\"chunked\"; \
        sid:1;)\n\
        alert http any any -> any any (http.response_header; content:\"chunked\"; sid:2;)\n";
    assert_eq!(talk.alerts(rules, &[], false), [(8, 1), (8, 2), (10, 1)]);
}

#[test]
fn a_colon_without_a_name_counts_as_missing() {
    let mut talk = request(GET);
    talk.says(false, b"HTTP/1.1 200 OK\r\n: b\r\nContent-Length: 0\r\n\r\n");
    let rule = "alert http any any -> any any (app-layer-event:http.response_field_missing_colon; \
        sid:1;)\n";
    let found = talk.alerts(rule, &[], false);
    assert!(!found.is_empty());
}

#[test]
fn a_file_that_was_cut_short_is_not_seen_at_the_end_of_the_flow() {
    let mut talk = request(GET);
    talk.says(false, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
    close(&mut talk);
    let rules = "alert http any any -> any any (file.data; content:\"abc\"; sid:1;)\n\
        alert http any any -> any any (filesize:3; sid:2;)\n";
    // Its rest is still awaited when both sides have closed; then it is cut off and goes.
    assert_eq!(talk.alerts(rules, &[], false), []);
}

#[test]
fn what_is_not_told_waits_for_the_end_of_the_flow_both_ways() {
    let mut talk = request(GET);
    talk.says(false, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
    talk.tcp(false, 0x14, b"");
    let rules = "alert http any any -> any any (file.data; content:\"abc\"; sid:1;)\n\
        alert http any any -> any any (filesize:>2; sid:2;)\n\
        alert http any any -> any any (filesize:3; sid:3;)\n";
    // The file is cut off with what is made up to the server, and seen with what is to the client.
    assert_eq!(talk.alerts(rules, &[], false), [(0, 1), (0, 2)]);
}

fn deflated(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn gzipped(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// What rules see of bodies with this content encoding.
fn finds_word(encoding: &str, body: &[u8]) -> bool {
    let mut talk = request(GET);
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Encoding: {encoding}\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    talk.says(false, &[head.as_bytes(), body].concat());
    close(&mut talk);
    let rule = "alert http any any -> any any (file.data; content:\"word\"; sid:1;)\n";
    !talk.alerts(rule, &[], false).is_empty()
}

#[test]
fn what_is_in_no_encoding_is_taken_as_it_is_by_all_layers() {
    assert!(finds_word("gzip", &gzipped(b"a word")));
    assert!(finds_word("gzip", &deflated(b"a word")));
    assert!(finds_word("gzip, gzip", &gzipped(&gzipped(b"a word"))));
    assert!(finds_word("gzip, gzip", b"(a word)"));
    // Bytes behind a header of gzip that are not compressed are tried without it.
    let header = gzipped(b"").get(..10).unwrap().to_vec();
    assert!(finds_word("gzip", &[header, b"(a word)".to_vec()].concat()));
}

#[test]
fn bodies_of_requests_of_http2_are_kept_for_their_own_keyword() {
    let mut talk = Talk::new(80);
    talk.handshake();
    let mut said = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    said.extend_from_slice(&[0, 0, 0, 4, 0, 0, 0, 0, 0]);
    // POST, http, and the path "/" of the static table.
    said.extend_from_slice(&[0, 0, 3, 1, 4, 0, 0, 0, 1, 0x83, 0x86, 0x84]);
    said.extend_from_slice(&[0, 0, 6, 0, 1, 0, 0, 0, 1]);
    said.extend_from_slice(b"a word");
    talk.says(true, &said);
    talk.says(false, &[0, 0, 0, 4, 0, 0, 0, 0, 0]);
    talk.says(true, &[0, 0, 0, 4, 1, 0, 0, 0, 0]);
    let rule = "alert http2 any any -> any any (http.request_body; content:\"word\"; sid:1;)\n";
    assert!(!talk.alerts(rule, &[], false).is_empty());
}

#[test]
fn rules_of_packets_see_what_is_made_up_before_a_protocol_changes() {
    let mut talk =
        request(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
    talk.says(
        false,
        b"HTTP/1.1 101 Switching\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
    );
    talk.says(true, b"\x81\x81abcd\x00");
    let rule = "alert http any any -> any any (flow:established; sid:1;)\n";
    let found = talk.alerts(rule, &[], false);
    // Both ways before the change, and again before the next packet, which finds nothing yet.
    assert_eq!(found.iter().filter(|(packet, _)| *packet == 0).count(), 4, "{found:?}");
}

#[test]
fn a_gap_before_the_protocol_is_known_is_met_again() {
    let mut talk = Talk::new(9000);
    talk.handshake();
    talk.next[0] += 10;
    talk.says(true, b"abc");
    talk.says(true, b"abc");
    let rule = "alert tcp any any -> any any (stream-event:reassembly_seq_gap; sid:1;)\n";
    assert_eq!(talk.alerts(rule, &[], false), [(5, 1), (7, 1)]);
}

#[test]
fn a_gap_behind_bytes_that_say_nothing_yet_is_none() {
    let mut talk = Talk::new(9000);
    talk.handshake();
    talk.tcp(true, 0x18, b"a");
    talk.next[0] += 10;
    talk.says(true, b"abc");
    let rule = "alert tcp any any -> any any (stream-event:reassembly_seq_gap; sid:1;)\n";
    assert_eq!(talk.alerts(rule, &[], false), []);
}
