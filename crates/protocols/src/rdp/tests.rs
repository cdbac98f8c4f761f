use super::MODULE;
use crate::parser::{Guess, Outcome};
use crate::protocol::Carrier::Tcp;
use crate::record::{Fields, Value};
use crate::testing::{DOWN, UP, guess, play, walk};

const REQUEST: &[u8] = b"\x03\x00\x00\x2d\x28\xe0\x00\x00\x00\x00\x00Cookie: mstshash=user123\r\n\
    \x01\x01\x08\x00\x03\x00\x00\x00";
const CONFIRM: &[u8] =
    b"\x03\x00\x00\x13\x0e\xd0\x00\x00\x12\x34\x00\x02\x03\x08\x00\x02\x00\x00\x00";
const CONNECTED: &[u8] = b"\x03\x00\x00\x09\x02\xf0\x80\x7f\x66";

fn field<'a>(fields: &'a Fields, name: &str) -> Option<&'a Value> {
    fields.0.iter().find(|(other, _)| *other == name).map(|(_, value)| value)
}

#[test]
fn messages_become_transactions() {
    let connect = {
        let mut all = b"\x02\xf0\x80\x7f\x65..Duca\x18".to_vec();
        all.extend(b"\x03\xc0\x14\x00\x01\x00\x00\x00rdpdr\0\0\0\0\0\0\0");
        all.extend(b"\x09\xc0\x04\x00");
        let mut whole = vec![3, 0, 0, all.len() as u8 + 4];
        whole.extend(all);
        whole
    };
    let pieces = [(UP, REQUEST), (DOWN, CONFIRM), (UP, &connect), (DOWN, CONNECTED)];
    let (parser, outcome) = play(&MODULE, Tcp, &pieces);
    assert_eq!((outcome, parser.count()), (Outcome::Done, 4));
    let mut fields = Fields::default();
    for place in 0..4 {
        parser.record(place, &mut fields);
    }
    let Fields(all) = fields;
    let inner = |place: usize| match &all[place].1 {
        Value::Object(fields) => fields.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(field(&inner(0), "cookie"), Some(&Value::Text("user123".to_owned())));
    assert_eq!(field(&inner(1), "protocol"), Some(&Value::Text("hybrid".to_owned())));
    let channels = Value::List(vec![Value::Text("rdpdr".to_owned())]);
    assert_eq!(field(&inner(2), "channels"), Some(&channels));
    for end in 1..=pieces.len() {
        walk(&MODULE, Tcp, &pieces[..end]);
    }
}

#[test]
fn messages_may_come_in_parts_and_in_one() {
    let (parser, outcome) = play(&MODULE, Tcp, &[(UP, &REQUEST[..20])]);
    assert_eq!(outcome, Outcome::Incomplete { consumed: 0, needed: 21 });
    assert_eq!(parser.count(), 0);
    let (parser, _) = play(&MODULE, Tcp, &[(UP, &REQUEST.repeat(3))]);
    assert_eq!(parser.count(), 3);
    let (_, outcome) = play(&MODULE, Tcp, &[(UP, b"\x04\x00\x00\x09")]);
    assert_eq!(outcome, Outcome::Failed);
}

#[test]
fn tls_is_followed_up_to_the_certificate() {
    let hello = b"\x16\x03\x01\x00\x06\x01\x00\x00\x02ab";
    let chain = b"\x16\x03\x01\x00\x0c\x0b\x00\x00\x08\x00\x00\x05\x00\x00\x02xy";
    let pieces: [(_, &[u8]); 3] = [(UP, hello), (DOWN, chain), (UP, b"anything")];
    let (parser, outcome) = play(&MODULE, Tcp, &pieces);
    assert_eq!((outcome, parser.count()), (Outcome::Done, 1));
    walk(&MODULE, Tcp, &pieces[..2]);
}

#[test]
fn the_first_byte_is_enough() {
    assert_eq!(guess(&MODULE, Tcp, UP, b"\x03"), Guess::Yes);
    assert_eq!(guess(&MODULE, Tcp, UP, b"\x04"), Guess::Unsure);
}
