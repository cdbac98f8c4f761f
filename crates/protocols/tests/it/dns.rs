//! DNS as rules see it.

use gauntlet_packet::Direction::{ToClient, ToServer};

use super::talk::Talk;

/// A question for the address of www.example.com, and its answer.
pub(super) const QUESTION: &[u8] = b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\
    \x03www\x07example\x03com\x00\x00\x01\x00\x01";
pub(super) const ANSWER: &[u8] = b"\x12\x34\x81\x80\x00\x01\x00\x02\x00\x00\x00\x00\
    \x03www\x07example\x03com\x00\x00\x01\x00\x01\
    \xc0\x0c\x00\x05\x00\x01\x00\x00\x00\x3c\x00\x04\x01a\xc0\x10\
    \xc0\x2d\x00\x01\x00\x01\x00\x00\x00\x3c\x00\x04\x0a\x00\x00\x01";

#[test]
fn a_question_and_its_answer_have_their_names() {
    let mut talk = Talk::udp(53);
    talk.say(ToServer, QUESTION).say(ToClient, ANSWER);
    assert_eq!(talk.protocol(), "dns");
    assert_eq!(talk.texts(0, "dns.query", ToServer), ["www.example.com"]);
    assert_eq!(talk.texts(1, "dns.answers.rrname", ToClient), ["www.example.com", "a.example.com"]);
    assert_eq!(talk.numbers(1, "dns.rcode", ToClient), [0]);
    assert!(talk.numbers(1, "dns.rrtype", ToClient).contains(&5));
}

#[test]
fn over_tcp_messages_have_their_length_before_them() {
    let mut talk = Talk::tcp(53);
    let mut bytes = (QUESTION.len() as u16).to_be_bytes().to_vec();
    bytes.extend_from_slice(QUESTION);
    let both = [bytes.clone(), bytes].concat();
    for piece in both.chunks(7) {
        talk.say(ToServer, piece);
    }
    assert_eq!(talk.conversation.count(), 2);
    assert_eq!(talk.texts(1, "dns.query", ToServer), ["www.example.com"]);
}

#[test]
fn names_that_run_in_circles_end() {
    let mut talk = Talk::udp(53);
    let circle = b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\xc0\x0c\x00\x01\x00\x01";
    talk.say(ToServer, QUESTION).say(ToServer, circle);
    assert!(talk.conversation.count() >= 1);
}

#[test]
fn reserved_bits_are_an_event() {
    let mut talk = Talk::udp(53);
    let mut bytes = QUESTION.to_vec();
    bytes[3] |= 0x40;
    talk.say(ToServer, QUESTION).say(ToServer, &bytes);
    assert_eq!(talk.events(1), ["z_flag_set"]);
}
