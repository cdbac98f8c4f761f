use super::*;

fn session() -> Session {
    let config = SessionConfig {
        host: "mx.test".into(),
        limits: SessionLimits::default(),
        features: Features::default(),
    };
    Session::new(Arc::new(config), false)
}

#[test]
fn an_idle_session_is_small() {
    let session = session();
    assert!(std::mem::size_of_val(&session) < 512);
    assert_eq!(session.body_bytes() + session.line.capacity(), 0);
}

#[test]
fn a_body_that_is_taken_away_in_pieces_is_whole_and_held_to_the_limit() {
    let (mut session, mut out) = (session(), Vec::new());
    let mut say = |session: &mut Session, text: &[u8]| {
        let mut rest = text;
        let event = session.next(&mut rest, &mut out);
        assert!(rest.is_empty(), "{event:?}");
        event
    };
    let ok = Reply::new(250, (2, 0, 0), "Ok");
    say(&mut session, b"EHLO a\r\n");
    assert!(matches!(say(&mut session, b"MAIL FROM:<a@b>\r\n"), Event::Mail(_)));
    session.answer(&ok, &mut Vec::new());
    assert!(matches!(say(&mut session, b"RCPT TO:<c@d>\r\n"), Event::Rcpt(_)));
    session.answer(&ok, &mut Vec::new());
    assert_eq!(say(&mut session, b"DATA\r\n"), Event::Data);
    session.start_body(b"Received: x\r\n".to_vec(), &mut Vec::new());
    let mut whole = Vec::new();
    for piece in [&b"one\r\n.."[..], b"two", b"\r", b"\nthree\r\n"] {
        assert_eq!(say(&mut session, piece), Event::More);
        whole.extend(session.drain_body());
        assert!(session.body_bytes() <= 64, "{}", session.body_bytes());
    }
    assert_eq!(session.drained_bytes() as usize, whole.len() - b"Received: x\r\n".len());
    assert_eq!(say(&mut session, b".\r\n"), Event::Message);
    whole.extend(session.take_message().unwrap().body);
    assert_eq!(whole, b"Received: x\r\none\r\n.two\r\nthree\r\n");
}

#[test]
fn a_line_in_pieces_is_one_line() {
    let (mut session, mut out) = (session(), Vec::new());
    for byte in b"EHLO client.test\r\n" {
        assert_eq!(session.next(&mut &[*byte][..], &mut out), Event::More);
    }
    assert_eq!(session.helo(), "client.test");
    assert!(out.starts_with(b"250-mx.test\r\n250-PIPELINING\r\n"));
}

#[test]
fn an_endless_line_costs_no_memory() {
    let (mut session, mut out) = (session(), Vec::new());
    for _ in 0..1_000 {
        assert_eq!(session.next(&mut &[b'a'; 4096][..], &mut out), Event::More);
        assert!(session.line.capacity() <= 2 * session.config.limits.line_bytes_max);
    }
    assert_eq!(session.next(&mut &b"\r\n"[..], &mut out), Event::More);
    assert_eq!(out, b"500 5.5.2 line too long\r\n");
}
