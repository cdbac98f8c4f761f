//! HTTP/2 as rules see it. Blocks of header fields are those of RFC 7541, appendix C.4.

use std::sync::Arc;

use gauntlet_packet::Direction::{self, ToClient, ToServer};
use gauntlet_protocols::{Buffer, Carrier, Conversation, Flow, Protocol, Settings};

const MAGIC: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

fn frame(kind: u8, flags: u8, stream: u32, body: &[u8]) -> Vec<u8> {
    let len = u32::try_from(body.len()).expect("a short frame").to_be_bytes();
    let mut bytes = vec![len[1], len[2], len[3], kind, flags];
    bytes.extend(stream.to_be_bytes());
    bytes.extend(body);
    bytes
}

fn request(stream: u32, block: &[u8]) -> Vec<u8> {
    frame(HEADERS, END_HEADERS | END_STREAM, stream, block)
}

fn requests() -> Vec<u8> {
    let first = b"\x82\x86\x84\x41\x8c\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff".as_slice();
    let second = b"\x82\x86\x84\xbe\x58\x86\xa8\xeb\x10\x64\x9c\xbf".as_slice();
    let third = b"\x82\x87\x85\xbf\x40\x88\x25\xa8\x49\xe9\x5b\xa9\x7d\x7f\x89\x25\xa8\x49\xe9\
        \x5b\xb8\xe8\xb4\xbf"
        .as_slice();
    let settings = frame(SETTINGS, 0, 0, &[0, 4, 0, 1, 0, 0]);
    [MAGIC.to_vec(), settings, request(1, first), request(3, second), request(5, third)].concat()
}

fn conversation() -> Conversation {
    let flow = Flow { carrier: Carrier::Tcp, ports: (40_000, 80), midstream: false, inline: false };
    Conversation::new(Arc::new(Settings::default()), flow)
}

fn texts(conversation: &Conversation, name: &str, way: Direction) -> Vec<String> {
    let buffer = Buffer::of_keyword(name).unwrap_or_else(|| panic!("{name} is a buffer"));
    let of = |place| conversation.buffer(place, buffer, way, 0);
    let bytes = (0..conversation.count()).filter_map(of);
    bytes.map(|bytes| String::from_utf8_lossy(&bytes.data).into_owned()).collect()
}

#[test]
fn streams_have_the_buffers_of_http() {
    let mut flow = conversation();
    flow.data(ToServer, &requests(), false);
    assert_eq!(flow.protocol(), Some(Protocol::Http2));
    assert_eq!(texts(&flow, "http.method", ToServer), ["GET"; 3]);
    assert_eq!(texts(&flow, "http.uri", ToServer), ["/", "/", "/index.html"]);
    assert_eq!(texts(&flow, "http.host", ToServer), ["www.example.com"; 3]);

    let body = frame(DATA, END_STREAM, 3, b"hello");
    let answer = [frame(SETTINGS, 0, 0, &[]), frame(HEADERS, END_HEADERS, 3, b"\x88"), body];
    flow.data(ToClient, &answer.concat(), false);
    assert_eq!(texts(&flow, "http.stat_code", ToClient), ["200"]);
    assert_eq!(texts(&flow, "file.data", ToClient), ["hello"]);
    let closed = |place: &usize| flow.progress(*place, ToClient) >= flow.complete(ToClient);
    let over = (0..flow.count()).filter(closed).count();
    assert_eq!(over, 2, "stream 3 is over, and the settings, of which empty ones are none");
}

#[test]
fn pieces_of_frames_do_not_matter() {
    let bytes = requests();
    for size in [1, 2, 7, 24, 33] {
        let mut flow = conversation();
        for piece in bytes.chunks(size) {
            flow.data(ToServer, piece, false);
        }
        assert_eq!(texts(&flow, "http.host", ToServer), ["www.example.com"; 3], "pieces of {size}");
    }
}
