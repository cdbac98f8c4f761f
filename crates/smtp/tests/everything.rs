//! Any bytes through every parser of the crate; for the smoke test and the fuzz target.

use std::sync::Arc;

use gauntlet_smtp::milter;
use gauntlet_smtp::spamd::{self, RequestReader, Response};
use gauntlet_smtp::{
    Client, ClientConfig, ClientEvent, Command, DataDecoder, DataStep, Event, Features, Outgoing,
    OutgoingRecipient, Reply, ReplyReader, Session, SessionConfig, SessionLimits, dot_stuff,
};

/// Runs everything on these bytes. The first byte chooses the listener and the host's decisions;
/// the others are what the peer sends, in pieces of a length that it chooses too.
///
/// # Panics
/// If an invariant is broken: progress, bounds, and that sent data has one end of data only.
pub(crate) fn ask(input: &[u8]) {
    let Some((&choice, bytes)) = input.split_first() else { return };
    let config = SessionConfig {
        host: "mx.test".into(),
        limits: SessionLimits { message_bytes_max: 64, ..SessionLimits::default() },
        features: Features {
            starttls: choice & 1 != 0,
            auth: true,
            scram: true,
            auth_required: choice & 2 != 0,
            lmtp: choice & 4 != 0,
        },
    };
    let mut session = Session::new(Arc::new(config), choice & 8 != 0);
    if choice & 16 != 0 {
        session.trust_xclient();
    }
    let piece = 1 + usize::from(choice >> 4) * 7;
    for chunk in bytes.chunks(piece) {
        if !serve(&mut session, chunk, choice, bytes.len()) {
            break;
        }
    }
    client(bytes);
    if let Some((head, rest)) = bytes.split_first_chunk() {
        let _ = gauntlet_smtp::proxy::client(head, rest);
    }
    spamd(bytes, piece);
    filter(bytes, piece);
    filter(&as_packets(bytes), piece);
    let _ = Command::parse(bytes);
    let _ = ReplyReader::default().read(&mut &bytes[..]);
    let mut wire = Vec::new();
    dot_stuff(bytes, &mut wire);
    let end = DataDecoder::default().decode(&wire, &mut Vec::new());
    assert_eq!(end, DataStep::End(wire.len()), "what is sent has one end of data");
}

/// Feeds a piece; false when the session is closed.
fn serve(session: &mut Session, piece: &[u8], choice: u8, total: usize) -> bool {
    let (mut rest, mut out) = (piece, Vec::new());
    for _ in 0..=2 * piece.len() + 2 {
        let mut event = Some(session.next(&mut rest, &mut out));
        while let Some(now) = event.take() {
            event = match now {
                Event::More => return true,
                Event::Close(_) => return false,
                Event::Mail(_) | Event::Rcpt(_) => {
                    let code = if choice.is_multiple_of(3) && rest.len().is_multiple_of(2) {
                        550
                    } else {
                        250
                    };
                    let class = if code == 550 { 5 } else { 2 };
                    session.answer(&Reply::new(code, (class, 0, 0), "x"), &mut out)
                }
                Event::Data if choice.is_multiple_of(5) => {
                    session.refuse_data(Reply::new(452, (4, 3, 1), "full"), &mut out)
                }
                Event::Data => session.start_body(b"Received: x\r\n".to_vec(), &mut out),
                Event::Message => {
                    let message = session.take_message().expect("a message");
                    assert!(message.body.len() <= total + 16, "the body is what was sent");
                    assert!(!message.recipients.is_empty(), "somebody gets it");
                    session.answer_message(&[Reply::new(250, (2, 0, 0), "x")], &mut out);
                    None
                }
                Event::Auth { .. } => session.answer_auth(choice.is_multiple_of(2), &mut out),
                Event::Credentials(_) => {
                    let kept = gauntlet_smtp::scram::Credentials::derive("secret", b"salt", 1);
                    session.challenge(kept, "nonce", &mut out);
                    None
                }
                Event::LoggedIn(_) | Event::LoginFailed(_) | Event::Client(_) => None,
                Event::StartTls => {
                    session.tls_started();
                    None
                }
            };
        }
    }
    panic!("the session makes no progress");
}

fn client(bytes: &[u8]) {
    let mut client = Client::new(ClientConfig { tls: true, ..ClientConfig::default() }, false);
    let (mut input, mut out) = (bytes, Vec::new());
    let recipient = OutgoingRecipient { to: "c@d".into(), ..OutgoingRecipient::default() };
    let message = Outgoing { recipients: vec![recipient; 2], ..Outgoing::default() };
    loop {
        match client.next(&mut input, &mut out) {
            Ok(ClientEvent::Ready) => client.send(message.clone(), &mut out),
            Ok(ClientEvent::StartTls) => client.tls_started(&mut out),
            Ok(ClientEvent::Body) => dot_stuff(bytes, &mut out),
            Ok(ClientEvent::Done(replies)) => {
                assert_eq!(replies.len(), 2, "one reply for each recipient");
                client.send(message.clone(), &mut out);
            }
            Ok(ClientEvent::More) | Err(_) => return,
        }
    }
}

/// A request in pieces is the request as a whole; a response that reads is written and read alike.
fn spamd(bytes: &[u8], piece: usize) {
    let limits = spamd::Limits { head_bytes_max: 128, body_bytes_max: 64 };
    let whole = RequestReader::new(limits).push(bytes);
    let mut reader = RequestReader::new(limits);
    let mut pieces = bytes.chunks(piece);
    let found = pieces.find_map(|chunk| reader.push(chunk).transpose());
    if let Ok(Some(request)) = &whole {
        assert!(request.body.len() <= limits.body_bytes_max, "the body is within its limit");
        // More than was announced is refused only while it is read.
        assert_eq!(found, Some(Ok(request.clone())), "pieces do not matter");
    }
    if let Ok(response) = Response::read(bytes, &limits) {
        let again = Response::read(&response.to_bytes(), &spamd::Limits::default());
        assert_eq!(again.map(|r| r.code), Ok(response.code), "what is written can be read");
    }
}

/// The bytes as milter packets behind a negotiation, so that they get past it: a command that MTAs
/// send, a length, that much data, repeated.
pub(crate) fn as_packets(bytes: &[u8]) -> Vec<u8> {
    let mut wire = b"\0\0\0\x0dO\0\0\0\x06\0\0\x01\xff\0\x1f\xff\xff".to_vec();
    let mut rest = bytes;
    while let [command, length, after @ ..] = rest {
        let command = b"CHMRLNBEADKTUQ?"[usize::from(*command) % 15];
        let (data, after) = after.split_at(after.len().min(usize::from(*length) % 32));
        wire.extend_from_slice(&(data.len() as u32 + 1).to_be_bytes());
        wire.push(command);
        wire.extend_from_slice(data);
        rest = after;
    }
    wire
}

/// Milter packets in pieces give the same messages as in one; memory is bounded; what is written
/// are packets.
pub(crate) fn filter(bytes: &[u8], piece: usize) {
    let whole = messages_of(bytes, bytes.len().max(1));
    assert_eq!(messages_of(bytes, piece), whole, "pieces do not matter");
    for message in whole {
        assert!(message.raw.len() <= 64 + 2 && message.rcpt_to.len() <= 3, "limits hold");
        let header = message.raw.split(|b| *b == b'\n').take_while(|l| *l != b"\r");
        assert!(message.fault.is_some() || header.count() < message.raw.len(), "a header ends");
    }
}

fn messages_of(bytes: &[u8], piece: usize) -> Vec<milter::Message> {
    let limits = milter::Limits { packet_bytes_max: 96, message_bytes_max: 64, recipients_max: 3 };
    let (mut session, mut out, mut found) = (milter::Session::new(limits), Vec::new(), Vec::new());
    for chunk in bytes.chunks(piece) {
        let mut chunk = chunk;
        loop {
            match session.push(std::mem::take(&mut chunk), &mut out) {
                Ok(milter::Event::Message) => {
                    found.extend(session.take());
                    let why = milter::Action::Quarantine("x\0y".into());
                    session.act(&why, &mut out);
                    let end = milter::Reply::ReplyCode(550, (5, 7, 1), "%\0\r\n".into());
                    session.reply(&end, &mut out);
                }
                Ok(milter::Event::More) => break,
                Ok(milter::Event::Close) | Err(_) => return found,
            }
            assert!(session.bytes() <= 64 * 1024, "nothing grows");
        }
    }
    let mut rest = out.as_slice();
    while let Some((length, after)) = rest.split_first_chunk::<4>() {
        let length = u32::from_be_bytes(*length) as usize;
        assert!(length > 0 && length <= after.len(), "what is written are packets");
        rest = &after[length..];
    }
    assert!(rest.is_empty(), "whole packets");
    found
}
