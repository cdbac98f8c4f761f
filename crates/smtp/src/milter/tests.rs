use super::action::CHUNK_BYTES;
use super::*;

fn wire(packets: &[(u8, &[u8])]) -> Vec<u8> {
    let mut out = Vec::new();
    packets.iter().for_each(|(command, data)| packet(*command, &[data], &mut out));
    out
}

fn offer(version: u32, actions: u32, steps: u32) -> Vec<u8> {
    [version.to_be_bytes(), actions.to_be_bytes(), steps.to_be_bytes()].concat()
}

fn open(steps: u32) -> (Session, Vec<u8>) {
    let mut session = Session::new(Limits { message_bytes_max: 200, ..Limits::default() });
    let mut out = Vec::new();
    let event = session.push(&wire(&[(b'O', &offer(6, 0x1ff, steps))]), &mut out);
    assert_eq!(event, Ok(Event::More));
    (session, out)
}

const MAIL: [(u8, &[u8]); 9] = [
    (b'D', b"C{daemon_name}\0mx\0j\0mx.test\0"),
    (b'C', b"client.example\x004\x00\x19192.0.2.7\0"),
    (b'H', b"client.example\0"),
    (b'D', b"Mi\0QUEUE1\0{auth_authen}\0ann\0"),
    (b'M', b"<ann@example.org>\0SIZE=9\0"),
    (b'R', b"<bob@example.net>\0"),
    (b'L', b"Subject\0 hello\n\tyou\0"),
    (b'N', b""),
    (b'B', b"body\r\n"),
];

#[test]
fn names_and_addresses_are_bounded() {
    let mut session = Session::new(Limits::default());
    let mut out = Vec::new();
    let mut bytes = Vec::new();
    packet(b'O', &[&[0, 0, 0, 6, 0, 0, 1, 0xff, 0, 0x0f, 0xf0, 0x80]], &mut bytes);
    packet(b'D', &[b"M", &vec![b'n'; 900_000], b"\0v\0"], &mut bytes);
    packet(b'M', &[b"<a@b>\0"], &mut bytes);
    packet(b'R', &[b"<", &vec![b'x'; 4_000], b">\0"], &mut bytes);
    session.push(&bytes, &mut out).unwrap();
    assert!(session.macros.values().flatten().all(|(name, _)| name.len() <= MACRO_BYTES_MAX));
    assert!(session.bytes() >= 4_000, "recipients count: {}", session.bytes());
    for command in [b'R', b'M', b'H', b'C'] {
        let mut wire = Vec::new();
        packet(command, &[&vec![b'x'; TEXT_BYTES_MAX + 1]], &mut wire);
        let mut session = Session::new(Limits::default());
        session.push(&bytes, &mut out).unwrap();
        assert!(session.push(&wire, &mut out).is_err(), "{}", char::from(command));
    }
}

#[test]
fn a_message_is_collected_and_nothing_is_answered_before_its_end() {
    let (mut session, out) = open(0x1f_ffff);
    let steps = NO_REPLIES | UNWANTED | LEADING_SPACE;
    assert_eq!(out, wire(&[(b'O', &offer(6, Allowed::ALL, steps))]));
    let mut out = Vec::new();
    let mut bytes = wire(&MAIL);
    bytes.extend(wire(&[(b'E', b"")]));
    // In pieces of any size.
    let mut events = bytes.chunks(7).map(|piece| session.push(piece, &mut out).unwrap());
    assert!(events.any(|event| event == Event::Message));
    assert!(out.is_empty());
    let message = session.take().unwrap();
    assert_eq!(message.raw, b"Subject: hello\r\n\tyou\r\n\r\nbody\r\n");
    assert_eq!(message.peer.address, Some("192.0.2.7".parse().unwrap()));
    assert_eq!(
        (message.mail_from.as_str(), &*message.rcpt_to[0]),
        ("ann@example.org", "bob@example.net")
    );
    assert_eq!((&*message.macros["i"], &*message.macros["auth_authen"]), ("QUEUE1", "ann"));
    assert_eq!((&*message.macros["j"], message.fault), ("mx.test", None));
    // The next message of the connection knows the client, not the last one's login.
    let mut out = Vec::new();
    let next = wire(&[(b'M', b"<>\0"), (b'R', b"<c@d>\0"), (b'E', b"")]);
    assert_eq!(session.push(&next, &mut out), Ok(Event::Message));
    let message = session.take().unwrap();
    assert_eq!((message.mail_from.as_str(), message.raw.as_slice()), ("", &b"\r\n"[..]));
    assert!(!message.macros.contains_key("auth_authen") && message.macros.contains_key("j"));
    assert_eq!(message.peer.helo, "client.example");
    assert_eq!(session.push(&wire(&[(b'K', b""), (b'Q', b"")]), &mut out), Ok(Event::Close));
}

#[test]
fn an_old_mta_gets_its_answers() {
    let (mut session, _) = open(0);
    let mut out = Vec::new();
    assert_eq!(session.push(&wire(&MAIL), &mut out), Ok(Event::More));
    assert_eq!(out, wire(&[(b'c', &b""[..]); 7]));
    let mut again = Vec::new();
    let abort = wire(&[(b'A', b""), (b'E', b"")]);
    assert_eq!(session.push(&abort, &mut again), Err(ProtocolError::Order(b'E')));
}

#[test]
fn changes_and_answers() {
    let (session, _) = open(0x1f_ffff);
    let mut out = Vec::new();
    let insert = Action::InsertHeader { index: 1, name: "A".into(), value: b" b\r\n\tc".to_vec() };
    session.act(&insert, &mut out);
    session.act(&Action::ChangeHeader { index: 2, name: "S".into(), value: None }, &mut out);
    session.act(&Action::AddRecipient("a@b".into()), &mut out);
    session.act(&Action::ReplaceBody(vec![b'x'; CHUNK_BYTES + 1]), &mut out);
    session.reply(&Reply::ReplyCode(550, (5, 7, 1), "100 % spam\n".into()), &mut out);
    let (full, one) = (vec![b'x'; CHUNK_BYTES], [b'x']);
    let expected = wire(&[
        (b'i', b"\0\0\0\x01A\0 b\n\tc\0"),
        (b'm', b"\0\0\0\x02S\0\0"),
        (b'+', b"<a@b>\0"),
        (b'b', &full),
        (b'b', &one),
        (b'y', b"550 5.7.1 100 %% spam \0"),
    ]);
    assert_eq!(out, expected);
    let mut old = Session::new(Limits::default());
    let mut out = Vec::new();
    old.push(&wire(&[(b'O', &offer(2, 0x1, 0))]), &mut out).unwrap();
    out.clear();
    old.act(&insert, &mut out);
    old.act(&Action::Quarantine("x".into()), &mut out);
    assert_eq!(out, wire(&[(b'i', b"\0\0\0\x01A\0b\n\tc\0")]), "not allowed, not sent");
}

#[test]
fn nonsense_ends_the_session() {
    let fail = |packets: &[(u8, &[u8])]| {
        let (mut session, _) = open(0x1f_ffff);
        session.push(&wire(packets), &mut Vec::new()).unwrap_err()
    };
    assert_eq!(fail(&[(b'R', b"<a@b>\0")]), ProtocolError::Order(b'R'));
    assert_eq!(fail(&[(b'M', b"")]), ProtocolError::Data(b'M'));
    assert_eq!(fail(&[(b'C', b"x\x004\0")]), ProtocolError::Data(b'C'));
    assert_eq!(fail(&[(b'?', b"")]), ProtocolError::Command(b'?'));
    let late = [(b'M', &b"<>\0"[..]), (b'N', b""), (b'L', b"A\0b\0")];
    assert_eq!(fail(&late), ProtocolError::Order(b'L'));
    let mut new = Session::new(Limits::default());
    let (zero, giant) = ([0; 4], [0xff; 4]);
    assert_eq!(new.push(&zero, &mut Vec::new()), Err(ProtocolError::Length(0)));
    let mut new = Session::new(Limits::default());
    assert_eq!(new.push(&giant, &mut Vec::new()), Err(ProtocolError::Length(u32::MAX)));
    let mut new = Session::new(Limits::default());
    let early = new.push(&wire(&[(b'M', b"<>\0")]), &mut Vec::new());
    assert_eq!(early, Err(ProtocolError::Order(b'M')));
}

#[test]
fn limits_hold_and_fields_stay_fields() {
    let (mut session, _) = open(0x1f_ffff);
    let big = [b'x'; 300];
    let packets = [(b'M', &b"<>\0"[..]), (b'R', b"<a@b>\0"), (b'B', &big), (b'E', b"")];
    assert_eq!(session.push(&wire(&packets), &mut Vec::new()), Ok(Event::Message));
    let message = session.take().unwrap();
    assert_eq!((message.fault, message.raw.len()), (Some(Fault::TooLarge), 0));
    let packets = [
        (b'M', &b"<>\0"[..]),
        (b'L', b"A:\r\nB\0 1\n\nX: forged\r\0"),
        (b'L', b"\0nameless\0"),
        (b'E', b"late"),
    ];
    assert_eq!(session.push(&wire(&packets), &mut Vec::new()), Ok(Event::Message));
    assert_eq!(session.take().unwrap().raw, b"AB: 1\r\n\t\r\n\tX: forged\r\n\r\nlate");
}

#[test]
fn what_the_mta_would_pass_on_otherwise_is_a_fault() {
    let fault = |packets: &[(u8, &[u8])]| {
        let (mut session, _) = open(0x1f_ffff);
        let mut all = vec![(b'M', &b"<>\0"[..]), (b'R', b"<a@b>\0")];
        all.extend_from_slice(packets);
        all.push((b'E', b""));
        assert_eq!(session.push(&wire(&all), &mut Vec::new()), Ok(Event::Message));
        session.take().unwrap().fault
    };
    let (cr, lf, nul) = (DataError::BareCr, DataError::BareLf, DataError::Nul);
    for (packets, bad) in [
        (&[(b'B', &b"a\0b\r\n"[..])][..], nul),
        (&[(b'B', b"a\rb\r\n")], cr),
        (&[(b'B', b"a\nb\r\n")], lf),
        (&[(b'B', b"a\r"), (b'B', b"b\r\n")], cr),
        (&[(b'B', b"a\r")], cr),
        (&[(b'B', b"a\r\r\n")], cr),
        (&[(b'L', b"A\0 1\rX: forged\0")], cr),
        (&[(b'L', b"A\0 1\r\0")], cr),
        (&[(b'L', b"A\0 1\r\r\n 2\0")], cr),
        (&[(b'L', b"A\0 1\nX: forged\0")], lf),
        (&[(b'L', b"A\0 1\0X: forged\0")], nul),
        (&[(b'L', b"A\rX\0 1\0")], cr),
    ] {
        assert_eq!(fault(packets), Some(Fault::Bytes(bad)), "{packets:?}");
    }
    for packets in [
        &[(b'B', &b"a\r"[..]), (b'B', b"\nb\r\n")][..],
        &[(b'B', b"no end")],
        &[(b'L', b"A\0 1\r\n 2\n\t3\0"), (b'L', b"B \0\0"), (b'L', b"\xe9\0 1\0")],
    ] {
        assert_eq!(fault(packets), None, "{packets:?}");
    }
}
