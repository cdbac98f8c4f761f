use super::{MODULE, Service};
use crate::frames::FrameNote;
use crate::parser::{Guess, Input, Outcome, Parser, Wishes};
use crate::protocol::Carrier::{Tcp, Udp};
use crate::testing::{DOWN, UP, events, guess, number, play, text, walk};

fn message(command: u16, body: &[u8]) -> Vec<u8> {
    let mut all = command.to_le_bytes().to_vec();
    all.extend((body.len() as u16).to_le_bytes());
    all.extend([7, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 0]);
    all.extend(body);
    all
}

fn item(kind: u16, data: &[u8]) -> Vec<u8> {
    let mut all = kind.to_le_bytes().to_vec();
    all.extend((data.len() as u16).to_le_bytes());
    all.extend(data);
    all
}

/// CIP as connected data.
fn connected(number: u8, cip: &[u8]) -> Vec<u8> {
    let mut body = vec![0, 0, 0, 0, 0, 0, 2, 0];
    body.extend(item(0xa1, &[1, 2, 3, 4]));
    body.extend(item(0xb1, &[&[number, 0], cip].concat()));
    message(0x70, &body)
}

/// Get_Attribute_List of class 0x8b, instance 1, attributes 6 and 7, in a Multiple_Service_Packet.
const LIST: &[u8] = &[3, 2, 0x20, 0x8b, 0x24, 1, 2, 0, 6, 0, 7, 0];

fn multiple() -> Vec<u8> {
    [&[10, 2, 0x20, 2, 0x24, 1, 1, 0, 4, 0], LIST].concat()
}

fn identity() -> Vec<u8> {
    let mut data = vec![1, 0];
    data.extend([0; 16]);
    data.extend([5, 0, 12, 0, 58, 0, 4, 3, 0x30, 0, 0x8e, 0x4d, 0x52, 0]);
    data.extend([3, b'a', b'b', b'c', 3]);
    message(0x63, &[&[1, 0], &item(0xc, &data)[..]].concat())
}

#[test]
fn a_request_finds_its_response() {
    let (one, two) = (connected(1, &multiple()), connected(2, LIST));
    let answer = connected(2, &[0x83, 0, 8, 2, 1, 2]);
    let pieces = [(UP, &one[..]), (UP, &two[..]), (DOWN, &answer[..])];
    let (parser, outcome) = play(&MODULE, Tcp, &pieces);
    assert_eq!((outcome, parser.count()), (Outcome::Done, 2));
    let parser = parser.as_ref();
    assert_eq!(number(parser, 0, "enip.cip_class"), Some(2));
    assert_eq!(number(parser, 0, "enip.cip_attribute"), Some(6));
    assert_eq!(number(parser, 0, "enip.cip_status"), None);
    assert_eq!(number(parser, 1, "enip.cip_status"), Some(8));
    assert_eq!(number(parser, 1, "enip.cip_extendedstatus"), Some(0x201));
    assert_eq!(number(parser, 1, "enip_command"), Some(0x70));
    // A response after them shows that the first one stays without.
    assert_eq!(parser.state(0).map(|state| state.progress), Some([1, 1]));
    for end in 1..=pieces.len() {
        walk(&MODULE, Tcp, &pieces[..end]);
    }
}

#[test]
fn services_are_asked_for_with_class_and_attribute() {
    let bytes = connected(1, &multiple());
    let (parser, _) = play(&MODULE, Tcp, &[(UP, &bytes)]);
    let buffer = text(parser.as_ref(), 0, "enip.cip", 0).expect("there is CIP");
    for condition in ["10", "3", "3,139", "3, 139, 6", "3,139,7", "3,139,!6", "10,2"] {
        assert!(Service::of_text(condition).expect("it is one").holds(&buffer), "{condition}");
    }
    for condition in ["4", "3,2", "3,139,8", "10,139"] {
        assert!(!Service::of_text(condition).expect("it is one").holds(&buffer), "{condition}");
    }
    for wrong in ["", "128", "x", "1,", "1,2,3,4", "1,2,!", "1,x"] {
        assert_eq!(Service::of_text(wrong), None, "{wrong}");
    }
}

#[test]
fn devices_say_what_they_are() {
    let request = message(0x63, &[]);
    let pieces = [(UP, &request[..]), (DOWN, &identity()[..])];
    let (parser, outcome) = play(&MODULE, Udp, &pieces);
    assert_eq!((outcome, parser.count()), (Outcome::Done, 1));
    let parser = parser.as_ref();
    assert_eq!(text(parser, 0, "enip.product_name", 0), Some(b"abc".to_vec()));
    for (name, value) in [
        ("enip.vendor_id", 5),
        ("enip.device_type", 12),
        ("enip.product_code", 58),
        ("enip.revision", 0x403),
        ("enip.identity_status", 0x30),
        ("enip.serial", 0x52_4d8e),
        ("enip.state", 3),
    ] {
        assert_eq!(number(parser, 0, name), Some(value), "{name}");
    }
    walk(&MODULE, Udp, &pieces);
    let mut data = vec![1, 0, 0x20, 1];
    data.extend(b"Communications\0\0");
    let services = message(4, &[&[1, 0], &item(0x100, &data)[..]].concat());
    let (parser, _) = play(&MODULE, Udp, &[(DOWN, &services)]);
    let name = text(parser.as_ref(), 0, "enip.service_name", 0);
    assert_eq!(name, Some(b"Communications\0\0".to_vec()));
    assert_eq!(number(parser.as_ref(), 0, "enip.capabilities"), Some(0x120));
    walk(&MODULE, Udp, &[(DOWN, &services)]);
}

#[test]
fn all_parts_are_frames() {
    let mut wishes = Wishes { frames_wanted: true, ..Wishes::default() };
    let bytes = connected(1, &multiple());
    let (mut parser, _) = play(&MODULE, Tcp, &[]);
    parser.parse(Input { direction: UP, bytes: &bytes, end: false }, &mut wishes);
    let frame = |name, at, len| FrameNote::Open { name, at, len: Some(len), transaction: Some(0) };
    let all = bytes.len() as u64;
    assert_eq!(
        wishes.frames,
        [
            frame("hdr", 0, 24),
            frame("data", 24, all - 24),
            frame("pdu", 0, all),
            frame("enip.item", 32, 8),
            frame("enip.item", 40, 28),
            frame("cip", 46, 24),
            frame("cip", 56, 12),
        ]
    );
}

#[test]
fn what_is_nonsense_is_bounded_and_told() {
    // An item that is longer than the message.
    let (parser, outcome) =
        play(&MODULE, Tcp, &[(UP, &message(0x70, &[0, 0, 0, 0, 0, 0, 9, 0, 1]))]);
    assert_eq!(outcome, Outcome::Done);
    assert_eq!(events(&MODULE, parser.as_ref(), 0), ["invalid_pdu"]);
    // The same list of attributes, named by each of the messages in one.
    let mut cip = vec![10, 0, 0xff, 0x3f];
    for _ in 0..0x3fff {
        cip.extend(0x8000_u16.to_le_bytes());
    }
    cip.extend([3, 0, 0xff, 0x1f]);
    cip.resize(0x8000 + 0x4100, 1);
    let big = connected(1, &cip);
    let (parser, outcome) = play(&MODULE, Tcp, &[(UP, &big)]);
    assert_eq!((outcome, parser.count()), (Outcome::Done, 1));
    // A flood of requests that nobody answers.
    let flood = message(0, &[]).repeat(1100);
    let (parser, outcome) = play(&MODULE, Tcp, &[(UP, &flood)]);
    assert_eq!((outcome, parser.count()), (Outcome::Done, 1024));
    assert_eq!(events(&MODULE, parser.as_ref(), 0), ["too_many_transactions"]);
    // After a gap, whatever does not look like a message is passed over.
    let (mut parser, _) = play(&MODULE, Tcp, &[(UP, &identity())]);
    parser.gap(UP, 100, &mut Wishes::default());
    let take = |parser: &mut dyn Parser, bytes: &[u8]| {
        parser.parse(Input { direction: UP, bytes, end: false }, &mut Wishes::default())
    };
    assert_eq!(take(parser.as_mut(), &[0xff; 40]), Outcome::Done);
    assert_eq!((take(parser.as_mut(), &identity()), parser.count()), (Outcome::Done, 2));
}

#[test]
fn it_is_recognised() {
    assert_eq!(guess(&MODULE, Tcp, UP, &identity()), Guess::Yes);
    assert_eq!(guess(&MODULE, Tcp, UP, &identity()[..20]), Guess::Unsure);
    assert_eq!(guess(&MODULE, Udp, UP, &identity()[..20]), Guess::No);
    assert_eq!(guess(&MODULE, Tcp, UP, &message(0x65, &[1, 0])), Guess::No);
    assert_eq!(guess(&MODULE, Tcp, UP, &message(0x64, &[2, 0, 1, 0])), Guess::No);
}
