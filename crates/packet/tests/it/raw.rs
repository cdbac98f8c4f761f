//! Raw inspection: with which packet which bytes of a stream are looked at.

use gauntlet_packet::Direction::{ToClient, ToServer};
use gauntlet_packet::flow::{Lookup, Settings as FlowSettings};
use gauntlet_packet::tcp::{Chunk, Engine, Orders, RawPacket, Settings, StreamSink};

use super::talk::{
    ACK, CLIENT, RST, SERVER, Segment, acknowledges, after_handshake, handshake, segment, sends,
};

/// A protocol layer that orders one thing with the first data.
#[derive(Default)]
struct Orderly(Option<Orders>);

impl StreamSink for Orderly {
    fn data(&mut self, chunk: &Chunk<'_>) -> Orders {
        let orders = self.0.take().unwrap_or_default();
        let done = Orders::consumed(chunk);
        Orders { consumed: done.consumed, detection_completed: Some(true), ..orders }
    }
}

/// Number of the segment, offset, bytes.
type Seen = Vec<(usize, u64, Vec<u8>)>;

fn inspected(settings: Settings, orders: Option<Orders>, segments: &[Segment]) -> Seen {
    let mut engine = Engine::new(settings);
    let mut flows = gauntlet_packet::flow::FlowTable::<()>::new(FlowSettings::default());
    let mut sink = Orderly(orders);
    let mut seen = Seen::new();
    for (number, segment) in segments.iter().enumerate() {
        let packet = segment.packet();
        let Lookup::Flow(id, mut facts) = flows.handle(&packet, &engine.settings) else { continue };
        let core = &mut flows.get_mut(id).unwrap().core;
        let outcome = core.handle_tcp(&packet, &mut facts, &mut engine, &mut sink);
        let session = core.tcp.as_mut().unwrap();
        let raw = RawPacket::new(&packet, facts.direction, &outcome);
        if outcome.established && session.raw_ready(&raw, &engine.settings) {
            let progress = session.raw_data(&raw, &engine.settings, true, &mut |offset, bytes| {
                seen.push((number, offset, bytes.to_vec()));
            });
            session.raw_done(facts.direction, progress);
        }
        if outcome.established {
            session.prune(facts.direction, None, &engine.settings);
        }
    }
    seen
}

/// The client's packet that only acknowledges, with which its own data may be looked at.
fn client_ack(bytes: u32) -> Segment {
    segment(ToServer, ACK, CLIENT + bytes, SERVER, b"")
}

#[test]
fn a_chunk_is_looked_at_when_it_was_acknowledged() {
    let first = vec![b'a'; 1400];
    let second = vec![b'b'; 1400];
    let segments = after_handshake(&[
        sends(0, &first),
        acknowledges(1400),
        sends(1400, &second),
        acknowledges(2800),
        sends(2800, b"more"),
    ]);
    let seen = inspected(Settings::default(), None, &segments);
    let whole = [first, second].concat();
    assert_eq!(seen, [(7, 0, whole)], "with the next packet of the sender");
    let small = Settings { chunk_bytes: [1000, 1000], ..Settings::default() };
    let places: Vec<_> =
        inspected(small, None, &segments).iter().map(|(at, from, _)| (*at, *from)).collect();
    assert_eq!(places, [(5, 0), (7, 1400)]);
}

#[test]
fn little_data_is_looked_at_when_something_says_so() {
    let segments = after_handshake(&[sends(0, b"hello"), acknowledges(5), client_ack(5)]);
    assert_eq!(inspected(Settings::default(), None, &segments), []);
    let trigger = Orders { trigger_raw: [true, false], ..Orders::default() };
    let seen = inspected(Settings::default(), Some(trigger), &segments);
    assert_eq!(seen, [(5, 0, b"hello".to_vec())]);
    let reset = segment(ToServer, RST, CLIENT + 5, 0, b"");
    let ends = after_handshake(&[sends(0, b"hello"), acknowledges(5), reset]);
    assert_eq!(inspected(Settings::default(), None, &ends), [(5, 0, b"hello".to_vec())]);
    let shallow = Settings { depth: 8, ..Settings::default() };
    let deep = after_handshake(&[sends(0, b"hello"), acknowledges(5), sends(5, b"world")]);
    assert_eq!(inspected(shallow, None, &deep), [(5, 0, b"hello".to_vec())]);
}

#[test]
fn what_lies_before_is_given_again_if_asked_for() {
    let again =
        Orders { trigger_raw: [true, false], inspect_depth: [Some(3), None], ..Orders::default() };
    let segments = after_handshake(&[
        sends(0, b"hello"),
        acknowledges(5),
        client_ack(5),
        sends(5, b"world"),
        segment(ToClient, RST | ACK, SERVER, CLIENT + 10, b""),
        segment(ToServer, RST, CLIENT + 10, 0, b""),
    ]);
    let seen = inspected(Settings::default(), Some(again), &segments);
    assert_eq!(seen[0], (5, 0, b"hello".to_vec()));
}

#[test]
fn nothing_is_looked_at_where_it_was_forbidden() {
    let segments = after_handshake(&[
        sends(0, &[b'a'; 1400]),
        acknowledges(1400),
        sends(1400, &[b'b'; 1400]),
        acknowledges(2800),
        sends(2800, b"more"),
    ]);
    let off = Settings { raw: false, ..Settings::default() };
    assert_eq!(inspected(off, None, &segments), []);
    let stop = Orders { stop: [true, true], ..Orders::default() };
    let seen = inspected(Settings::default(), Some(stop), &segments);
    // What had come is looked at once more, nothing after it.
    assert_eq!(seen.iter().map(|(at, from, _)| (*at, *from)).collect::<Vec<_>>(), [(5, 0)]);
}

#[test]
fn inline_each_packet_is_looked_at_with_what_is_around_it() {
    let settings = Settings { inline: true, chunk_bytes: [20, 20], ..Settings::default() };
    let segments = after_handshake(&[
        sends(0, b"0123456789"),
        sends(10, b"abcdefghij"),
        sends(20, b"KLMNOPQRST"),
        segment(ToClient, ACK, SERVER, CLIENT + 30, b""),
        sends(40, b"later"),
        sends(30, b"uvwxyzUVWX"),
    ]);
    let seen: Vec<(usize, u64, String)> = inspected(settings, None, &segments)
        .into_iter()
        .map(|(at, from, bytes)| (at, from, String::from_utf8(bytes).unwrap()))
        .collect();
    let expected = [
        (3, 0, "0123456789"),
        (4, 0, "0123456789abcdefghij"),
        (5, 10, "abcdefghijKLMNOPQRST"),
        (7, 40, "later"),
        (8, 25, "PQRSTuvwxyzUVWXlater"),
    ];
    let seen: Vec<_> = seen.iter().map(|(at, from, text)| (*at, *from, text.as_str())).collect();
    assert_eq!(seen, expected);
}

#[test]
fn nothing_is_looked_at_in_a_handshake() {
    assert_eq!(inspected(Settings::default(), None, &handshake()), []);
}

#[test]
fn what_alerts_log_and_frames_may_use_is_what_was_acknowledged() {
    let mut wire = super::talk::Wire::new(Settings::default());
    wire.send_all(&after_handshake(&[sends(0, b"hello "), sends(6, b"world"), acknowledges(8)]));
    let session = wire.session();
    let mut logged = Vec::new();
    session.acknowledged_data(ToServer, &mut |offset, bytes| logged.push((offset, bytes.to_vec())));
    assert_eq!(logged, [(0, b"hello wo".to_vec())]);
    let settings = Settings::default();
    assert_eq!(session.usable(ToServer, false, &settings), 8);
    assert_eq!(session.usable(ToServer, true, &settings), 11);
    assert_eq!(session.usable(ToClient, true, &settings), 0);
    assert_eq!((session.base_offset(ToServer), session.app_progress(ToServer)), (0, 8));
    assert_eq!(session.bytes_from(ToServer, 3), b"lo world");
    assert_eq!((session.size(ToServer), session.size(ToClient)), (12, 1));
}
