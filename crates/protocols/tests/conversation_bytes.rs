//! Any bytes as a conversation: they choose carrier, protocol, directions and pieces. Shared by
//! the fuzz target and the tests.

use std::sync::Arc;

use gauntlet_packet::Direction;
use gauntlet_protocols::{
    Buffer, Carrier, Conversation, Expectation, Flow, HashSettings, Number, Protocol, Settings,
    mail,
};

const PORTS: [u16; 17] =
    [80, 443, 53, 25, 21, 445, 8080, 5060, 22, 161, 123, 67, 44818, 2049, 502, 389, 110];
/// Bytes of messages that are kept: of one, and of all.
const MAIL_BYTES_MAX: (u64, u64) = (2_000, 3_000);

/// Plays the bytes; panics if a promise of the conversation is broken.
pub(crate) fn play(input: &[u8]) {
    let [head, port, protocol, rest @ ..] = input else { return };
    let settings = Arc::new(Settings {
        midstream: head & 2 != 0,
        inline: head & 4 != 0,
        hashes: HashSettings { magic: head & 32 != 0, ..HashSettings::default() },
        frames: head & 32 != 0,
        disabled: Default::default(),
        mail: Some(mail::Settings::new(MAIL_BYTES_MAX.0, MAIL_BYTES_MAX.1)),
        ..Settings::default()
    });
    let flow = Flow {
        carrier: if head & 1 == 0 { Carrier::Tcp } else { Carrier::Udp },
        ports: (40_000, PORTS[usize::from(*port) % PORTS.len()]),
        midstream: head & 2 != 0,
        inline: head & 4 != 0,
    };
    let mut conversation = Conversation::new(settings.clone(), flow);
    if head & 8 != 0 {
        let all: Vec<Protocol> = Protocol::all().collect();
        conversation.expect(&Expectation {
            address: Vec::new(),
            port: *port as u16,
            protocol: all[usize::from(*protocol) % all.len()],
            direction: Direction::ToServer,
            about: b"name".to_vec(),
            upload: head & 16 != 0,
        });
    }
    let mut rest = rest;
    let mut ended = [false; 2];
    while let [action, len, after @ ..] = rest {
        let len = usize::from(*len).min(after.len());
        let (bytes, next) = after.split_at(len);
        rest = next;
        let way = if action & 1 == 0 { Direction::ToServer } else { Direction::ToClient };
        if ended[way.index()] {
            continue;
        }
        match (flow.carrier, action >> 1 & 7) {
            (Carrier::Udp, _) => conversation.datagram(way, bytes),
            (Carrier::Tcp, 6) => conversation.gap(way, len as u64 * 100),
            (Carrier::Tcp, 7) => {
                ended[way.index()] = true;
                conversation.data(way, bytes, true)
            }
            (Carrier::Tcp, _) => conversation.data(way, bytes, false),
        };
        look(&mut conversation, &settings, way, action & 16 != 0);
        take_mail(&mut conversation, false);
    }
    take_mail(&mut conversation, true);
    assert!(!conversation.is_tapped(), "nothing is read after the end");
}

fn take_mail(conversation: &mut Conversation, at_end: bool) {
    for mail in conversation.take_mail(at_end) {
        let kept = mail.bytes.len() as u64;
        assert!(kept <= mail.size && kept <= MAIL_BYTES_MAX.0, "messages are bounded");
    }
}

/// Asks everything that a detection engine may ask.
fn look(conversation: &mut Conversation, settings: &Settings, way: Direction, done: bool) {
    let count = conversation.count();
    assert!(count <= settings.http2.streams_max.max(4096), "transactions are bounded");
    let mut before = None;
    // A few are enough: the first and the last.
    for place in (0..count).filter(|place| *place < 4 || place + 4 > count) {
        let state = conversation.state(place).expect("it is there");
        assert!(before < Some(state.id), "ids grow");
        before = Some(state.id);
        assert!(state.events.len() <= 64, "events are bounded");
        for buffer in Buffer::all().map(|spec| spec.buffer) {
            for i in 0..conversation.buffers(place, buffer, way).unwrap_or(2).min(3) {
                if let Some(bytes) = conversation.buffer(place, buffer, way, i) {
                    assert_eq!(bytes.begin, bytes.offset == 0, "{}", buffer.spec().name);
                }
            }
        }
        for number in Number::all().map(|spec| spec.number) {
            conversation.number(place, number, way, 0);
        }
        conversation.record(place);
        conversation.inspected(place, way);
        if done && let Some(state) = conversation.state_mut(place) {
            state.inspected = [true; 2];
            state.logged = true;
            for file in state.files.iter_mut().flatten() {
                file.logged = true;
            }
        }
    }
    for frame in conversation.frames(way) {
        for piece in frame.look(done, settings.inline) {
            assert!(piece.data.len() <= 1024 * 1024, "frames are bounded");
        }
    }
    conversation.frames_inspected(way);
    conversation.clean(way);
}
