use super::*;

fn read(bytes: &[u8]) -> Result<Option<Request>, ProtocolError> {
    RequestReader::new(Limits::default()).push(bytes)
}

#[test]
fn every_method_is_read_whatever_the_pieces() {
    for method in Method::ALL {
        let bytes = request_bytes(method, Some("ann"), b"Subject: x\r\n\r\nbody\r\n");
        let whole = read(&bytes).unwrap().expect("complete");
        assert_eq!((whole.method, whole.user.as_deref()), (method, Some("ann")));
        assert_eq!(whole.body.is_empty(), !method.has_body());
        let mut reader = RequestReader::new(Limits::default());
        let (last, before) = bytes.split_last().unwrap();
        for byte in before {
            assert_eq!(reader.push(&[*byte]).unwrap(), None);
        }
        assert_eq!(reader.push(&[*last]).unwrap(), Some(whole));
    }
}

#[test]
fn old_clients_get_verdict_or_length_never_both() {
    let score = Some(Score { spam: true, points: 7.0, threshold: 6.0 });
    let body = Some(b"report\n".to_vec());
    let response = Response { score, body, ..Response::new(Status::Ok) };
    let written = |method, minor| {
        String::from_utf8(response.to_bytes_for(method, minor)).expect("plain text")
    };
    // Exim reads "SPAMD/%7s 0 EX_OK\r\nSpam: %*s ; %lf / %lf\r\n\r\n".
    assert_eq!(
        written(Method::Report, 2),
        "SPAMD/1.1 0 EX_OK\r\nSpam: True ; 7.0 / 6.0\r\n\r\nreport\n"
    );
    assert_eq!(
        written(Method::Process, 2),
        "SPAMD/1.1 0 EX_OK\r\nContent-length: 7\r\n\r\nreport\n"
    );
    assert_eq!(
        written(Method::Report, 3),
        "SPAMD/1.1 0 EX_OK\r\nContent-length: 7\r\nSpam: True ; 7.0 / 6.0\r\n\r\nreport\n"
    );
    assert_eq!(response.to_bytes(), response.to_bytes_for(Method::Report, 5));
}

#[test]
fn without_a_length_the_end_of_input_ends_the_message() {
    let mut reader = RequestReader::new(Limits::default());
    assert_eq!(reader.push(b"CHECK SPAMC/1.2\r\n\r\nhello").unwrap(), None);
    assert_eq!(reader.push(b" there").unwrap(), None);
    assert_eq!(reader.end().unwrap().body, b"hello there");
    let mut short = RequestReader::new(Limits::default());
    assert_eq!(short.push(b"CHECK SPAMC/1.2\r\nContent-length: 9\r\n\r\nhello").unwrap(), None);
    assert_eq!(short.end(), Err(ProtocolError::Length));
    assert_eq!(RequestReader::new(Limits::default()).end(), Err(ProtocolError::FirstLine));
}

#[test]
fn an_old_ping_is_one_line() {
    let ping = read(b"PING SPAMC/1.2\r\n").unwrap().expect("complete");
    assert_eq!((ping.method, ping.minor), (Method::Ping, 2));
    assert_eq!(read(b"PING SPAMC/1.5\r\n").unwrap(), None, "header lines follow");
    assert!(read(b"PING SPAMC/1.5\r\n\r\n").unwrap().is_some());
}

#[test]
fn arguments_of_tell() {
    let text = b"TELL SPAMC/1.3\r\nMessage-class: spam\r\nSet: local, remote\r\n\
                 Remove: local\r\nCompress: zlib\r\nContent-length: 1\r\n\r\nx";
    let request = read(text).unwrap().unwrap();
    let both = Destinations { local: true, remote: true };
    let local = Destinations { local: true, remote: false };
    assert_eq!(request.tell, Tell { spam: Some(true), set: both, remove: local });
    assert!(request.compressed);
}

#[test]
fn bad_requests_are_refused() {
    for (text, bad) in [
        ("GET / HTTP/1.1\r\n\r\n", ProtocolError::FirstLine),
        ("CHECK\r\n\r\n", ProtocolError::FirstLine),
        ("check SPAMC/1.5\r\n\r\n", ProtocolError::FirstLine),
        ("CHECK SPAMC/2.0\r\n\r\n", ProtocolError::FirstLine),
        ("\r\n", ProtocolError::FirstLine),
        ("CHECK SPAMC/1.5\r\nnonsense\r\n\r\n", ProtocolError::Header),
        ("CHECK SPAMC/1.5\r\nContent-length: -1\r\n\r\n", ProtocolError::Value),
        ("CHECK SPAMC/1.5\r\nContent-length: +1\r\n\r\nx", ProtocolError::Value),
        (
            "CHECK SPAMC/1.5\r\nContent-length: 1\r\nContent-Length: 1\r\n\r\n",
            ProtocolError::LengthTwice,
        ),
        ("CHECK SPAMC/1.5\r\nContent-length: 1\r\n\r\nxy", ProtocolError::Length),
        ("CHECK SPAMC/1.5\r\nContent-length: 99999999999\r\n\r\n", ProtocolError::BodyTooLong),
        ("CHECK SPAMC/1.5\r\nCompress: lzma\r\n\r\n", ProtocolError::Value),
        ("TELL SPAMC/1.5\r\nSet: everywhere\r\n\r\n", ProtocolError::Value),
        ("CHECK SPAMC/1.5\r\nUser: \r\n\r\n", ProtocolError::Value),
    ] {
        assert_eq!(read(text.as_bytes()), Err(bad), "{text:?}");
    }
}

#[test]
fn heads_and_bodies_have_limits() {
    let limits = Limits { head_bytes_max: 64, body_bytes_max: 8 };
    let mut reader = RequestReader::new(limits);
    assert_eq!(reader.push(&[b'x'; 64]).unwrap(), None);
    assert_eq!(reader.push(b"x"), Err(ProtocolError::HeadTooLong));
    let mut reader = RequestReader::new(limits);
    assert_eq!(reader.push(b"CHECK SPAMC/1.5\r\n\r\n12345678").unwrap(), None);
    assert_eq!(reader.push(b"9"), Err(ProtocolError::BodyTooLong));
    assert_eq!(ProtocolError::BodyTooLong.status().wire().0, 65);
}

#[test]
fn responses_are_read_as_they_were_written() {
    let score = Score { spam: true, points: 12.3, threshold: 6.0 };
    let mut response = Response {
        score: Some(score),
        did_set: Destinations { local: true, remote: false },
        body: Some(b"A,B".to_vec()),
        ..Response::new(Status::Ok)
    };
    let limits = Limits::default();
    assert_eq!(Response::read(&response.to_bytes(), &limits).unwrap(), response);
    let text = String::from_utf8(response.to_bytes()).unwrap();
    assert!(text.starts_with("SPAMD/1.1 0 EX_OK\r\nContent-length: 3\r\n"), "{text}");
    assert!(text.contains("\r\nSpam: True ; 12.3 / 6.0\r\nDidSet: local\r\n\r\nA,B"), "{text}");
    response.text = "no\r\nSpam: False ; 0 / 0".to_owned();
    let injected = Response::read(&response.to_bytes(), &limits).unwrap();
    assert_eq!((injected.text.as_str(), injected.score), ("no", Some(score)));
}

#[test]
fn a_status_line_alone_is_a_response() {
    let pong = Response::read(b"SPAMD/1.5 0 PONG\r\n", &Limits::default()).unwrap();
    assert_eq!((pong.code, pong.text.as_str(), pong.body), (0, "PONG", None));
    let error = b"SPAMD/1.0 76 Bad header line: (EOF during headers)\r\n";
    assert_eq!(Response::read(error, &Limits::default()).unwrap().code, 76);
    for bad in [&b""[..], b"HTTP/1.1 200 OK\r\n\r\n", b"SPAMD/1.1 999 x\r\n", b"\xff\n\n"] {
        assert_eq!(
            Response::read(bad, &Limits::default()),
            Err(ProtocolError::FirstLine),
            "{bad:?}"
        );
    }
    let short = b"SPAMD/1.1 0 EX_OK\r\nContent-length: 5\r\n\r\nabc";
    assert_eq!(Response::read(short, &Limits::default()), Err(ProtocolError::Length));
}
