//! Bytes that nobody should send, for all protocols but HTTP.

use gauntlet_packet::Direction::{self, ToClient, ToServer};
use gauntlet_protocols::Protocol;

use super::talk::Talk;
use super::{dns, mail, messages, shells, tls};
use crate::wire_bytes::{messages as read_messages, stream};

/// Port, whether it is UDP, what the client says, what the server says.
const EXCHANGES: [(u16, bool, &[u8], &[u8]); 10] = [
    (53, true, dns::QUESTION, dns::ANSWER),
    (443, false, tls::CLIENT_HELLO, tls::SERVER_HELLO),
    (25, false, mail::CLIENT, mail::SERVER),
    (445, false, shells::SMB_NEGOTIATE, shells::SMB_NEGOTIATE),
    (21, false, b"USER a\r\nEPRT |2|::1|1025|\r\nSTOR a\r\n", b"220 a\r\n229 (|||9|)\r\n"),
    (22, false, b"SSH-2.0-a b\r\n\x00\x00\x00\x0c\x04\x14aaaaaaaaaa", b"SSH-1.99-b\n"),
    (5060, true, messages::SIP, b"SIP/2.0 200 OK\r\nVia: a\r\n\r\n"),
    (1883, false, messages::MQTT, messages::MQTT_ANSWERS),
    (161, true, messages::SNMP, messages::SNMP),
    (389, false, messages::LDAP, messages::LDAP_ANSWERS),
];

fn play(port: u16, is_udp: bool, pieces: &[(Direction, &[u8])]) {
    let mut talk = if is_udp { Talk::udp(port) } else { Talk::tcp(port) };
    for (way, bytes) in pieces {
        talk.say(*way, bytes);
    }
    for place in 0..talk.conversation.count() {
        talk.conversation.record(place);
    }
}

#[test]
fn every_prefix_is_taken() {
    for (port, is_udp, client, server) in EXCHANGES {
        for end in 0..=client.len() {
            let (first, rest) = client.split_at(end);
            play(port, is_udp, &[(ToServer, first), (ToServer, rest), (ToClient, server)]);
            play(port, is_udp, &[(ToServer, first), (ToClient, server)]);
        }
        for end in 0..=server.len() {
            let (first, rest) = server.split_at(end);
            play(port, is_udp, &[(ToServer, client), (ToClient, first), (ToClient, rest)]);
            play(port, is_udp, &[(ToClient, first), (ToServer, client)]);
        }
    }
}

#[test]
fn every_byte_may_be_another() {
    for (port, is_udp, client, server) in EXCHANGES {
        for value in [0, 1, 0x7f, 0x80, 0xff, b'\n', b'"'] {
            for place in 0..client.len() {
                let mut bytes = client.to_vec();
                bytes[place] = value;
                play(port, is_udp, &[(ToServer, &bytes), (ToClient, server)]);
            }
            for place in 0..server.len() {
                let mut bytes = server.to_vec();
                bytes[place] = value;
                play(port, is_udp, &[(ToServer, client), (ToClient, &bytes)]);
            }
        }
    }
}

#[test]
fn readers_take_noise() {
    let mut noise = 7_u64;
    for round in 0..2000_u32 {
        let (_, _, client, server) = EXCHANGES[round as usize % EXCHANGES.len()];
        let mut bytes = if round & 1 == 0 { client.to_vec() } else { server.to_vec() };
        for _ in 0..1 + round % 7 {
            noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let place = (noise >> 33) as usize % bytes.len();
            bytes[place] = (noise >> 25) as u8;
        }
        read_messages(&bytes);
    }
    for (protocol, port, client) in
        [(Protocol::Tls, 443, tls::CLIENT_HELLO), (Protocol::Smtp, 25, mail::CLIENT)]
    {
        for place in 0..client.len() {
            let mut bytes = vec![0x7f];
            bytes.extend_from_slice(client);
            bytes[place] ^= 0x55;
            stream(protocol, port, &bytes);
        }
    }
}
