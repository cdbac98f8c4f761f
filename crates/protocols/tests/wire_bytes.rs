//! Any bytes for the readers of single protocols. Shared by the fuzz targets and the tests.

use std::sync::Arc;

use gauntlet_packet::Direction;
use gauntlet_protocols::{
    Buffer, Carrier, Conversation, Expectation, Flow, Number, Protocol, Settings, dns, ldap, mqtt,
    sip,
};

/// The longest name of DNS in text, escapes included.
const NAME_BYTES_MAX: usize = 8 * 1025;

/// Messages that stand alone: DNS, SIP, MQTT, LDAP.
pub(crate) fn messages(input: &[u8]) {
    if let Some(message) = dns::wire::Message::read(input) {
        for question in &message.questions {
            assert!(question.name.len() <= NAME_BYTES_MAX, "names are bounded");
        }
    }
    for read in [sip::wire::Message::read_request, sip::wire::Message::read_response] {
        if let Ok((_, taken)) = read(input) {
            assert!(taken <= input.len(), "no more is taken than there is");
        }
    }
    for version in [3, 4, 5] {
        if let Ok(packet) = mqtt::wire::Packet::read(input, version, 1 << 20) {
            let _ = packet.head.head_bytes + packet.head.body_bytes;
        }
    }
    if let Ok((_, taken)) = ldap::wire::Message::read(input) {
        assert!(taken <= input.len(), "no more is taken than there is");
    }
}

/// A stream of this protocol: the first byte of each piece is direction and length.
pub(crate) fn stream(protocol: Protocol, port: u16, input: &[u8]) {
    let mut settings = Settings::default();
    settings.tls.want_ja3();
    settings.tls.want_ja4();
    let flow =
        Flow { carrier: Carrier::Tcp, ports: (40_000, port), midstream: false, inline: false };
    let mut conversation = Conversation::new(Arc::new(settings), flow);
    conversation.expect(&Expectation {
        address: Vec::new(),
        port,
        protocol,
        direction: Direction::ToServer,
        about: Vec::new(),
        upload: false,
    });
    let mut rest = input;
    while let [head, after @ ..] = rest {
        let (piece, next) = after.split_at(usize::from(head & 0x7f).min(after.len()));
        rest = next;
        let way = if head & 0x80 == 0 { Direction::ToServer } else { Direction::ToClient };
        conversation.data(way, piece, false);
        look(&conversation, way);
    }
    for way in [Direction::ToServer, Direction::ToClient] {
        conversation.data(way, b"", true);
        look(&conversation, way);
    }
}

fn look(conversation: &Conversation, way: Direction) {
    let count = conversation.count();
    for place in (0..count).filter(|place| *place < 2 || place + 2 > count) {
        for buffer in Buffer::all().map(|spec| spec.buffer) {
            conversation.buffer(place, buffer, way, 0);
        }
        for number in Number::all().map(|spec| spec.number) {
            conversation.number(place, number, way, 0);
        }
        conversation.record(place);
    }
}
