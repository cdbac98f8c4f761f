//! What is judged equals what is sent, over all ways in; for the short walk and the fuzz target.
//!
//! An input is a choice of the way in and the bytes of a message. Whatever is taken by SMTP, LMTP
//! (DATA or BDAT) or a milter must be, byte for byte, what its sender sent and what every server
//! behind us decodes, strict or lenient, before and after the policy's changes. What is refused is
//! refused for a byte that readers disagree about. Files may hold such bytes: of their readings the
//! worst counts.

use std::sync::{Arc, OnceLock};

use gauntlet_engine::{Scratch, Snapshot, scan};
use gauntlet_mail::{Envelope, Facts, Message};
use gauntlet_policy::rewrite;
use gauntlet_smtp::{
    Event, Features, Reply, Session, SessionConfig, SessionLimits, dot_stuff, milter,
};
use gauntlet_verdict::{Change, Class};

/// Bytes of a message; more are cut off.
const BYTES_MAX: usize = 4_096;
/// What stands before the message, as our Received field does.
const PREFIX: &[u8] = b"Received: x\r\n";

/// Sends the message the way that the first byte says.
///
/// # Panics
/// If what is judged is not what is sent.
pub(crate) fn ask(input: &[u8]) {
    let Some((&choice, message)) = input.split_first() else { return };
    let message = &message[..message.len().min(BYTES_MAX)];
    let lmtp = choice & 1 != 0;
    match choice >> 1 & 3 {
        0 => by_data(message, lmtp),
        1 => by_chunks(message, lmtp, usize::from(choice >> 3)),
        2 => by_milter(message, usize::from(choice >> 3)),
        _ => as_file(message),
    }
}

/// Readers disagree about it: a NUL, a CR or LF on its own.
fn is_odd(message: &[u8]) -> bool {
    let mut before = 0;
    for (at, byte) in message.iter().enumerate() {
        match *byte {
            0 => return true,
            b'\n' if before != b'\r' => return true,
            b'\r' if message.get(at + 1) != Some(&b'\n') => return true,
            _ => {}
        }
        before = *byte;
    }
    false
}

/// The message with an end behind its last line.
fn ended(message: &[u8]) -> Vec<u8> {
    let end: &[u8] = if message.is_empty() || message.ends_with(b"\r\n") { b"" } else { b"\r\n" };
    [message, end].concat()
}

fn by_data(message: &[u8], lmtp: bool) {
    let mut wire = b"DATA\r\n".to_vec();
    let mut line_start = true;
    for (at, byte) in ended(message).iter().enumerate() {
        if line_start && *byte == b'.' {
            wire.push(b'.');
        }
        wire.push(*byte);
        line_start = *byte == b'\n' && at > 0 && wire[wire.len() - 2] == b'\r';
    }
    wire.extend_from_slice(b".\r\n");
    let (data, rest) = wire.split_at(6);
    judge_taken(message, converse(&[data, rest], lmtp));
}

fn by_chunks(message: &[u8], lmtp: bool, size: usize) {
    // 0: one chunk, and the end by itself.
    let size = if size == 0 { BYTES_MAX } else { size.max(message.len() / 64 + 1) };
    let mut wire = Vec::new();
    for chunk in message.chunks(size) {
        wire.extend_from_slice(format!("BDAT {}\r\n", chunk.len()).as_bytes());
        wire.extend_from_slice(chunk);
    }
    wire.extend_from_slice(b"BDAT 0 LAST\r\n");
    let pieces: Vec<&[u8]> = wire.chunks(size % 17 + 1).collect();
    judge_taken(message, converse(&pieces, lmtp));
}

/// What a session takes of these bytes behind an envelope; none if it refuses them and closes.
fn converse(pieces: &[&[u8]], lmtp: bool) -> Option<Vec<u8>> {
    let config = SessionConfig {
        host: "mx.test".into(),
        limits: SessionLimits::default(),
        features: Features { lmtp, ..Features::default() },
    };
    let mut session = Session::new(Arc::new(config), false);
    let (hello, mut out) = (if lmtp { "LHLO" } else { "EHLO" }, Vec::new());
    let head = [format!("{hello} x\r\n"), "MAIL FROM:<a@b>\r\nRCPT TO:<c@d>\r\n".into()];
    let head = head.iter().map(String::as_bytes);
    for piece in head.chain(pieces.iter().copied()) {
        let mut rest = piece;
        loop {
            let mut event = Some(session.next(&mut rest, &mut out));
            let mut more = false;
            while let Some(now) = event.take() {
                event = match now {
                    Event::More => {
                        more = true;
                        None
                    }
                    Event::Close(_) => {
                        let text = String::from_utf8_lossy(&out);
                        assert!(text.contains("521 5.5.2"), "closed for another reason: {text}");
                        return None;
                    }
                    Event::Data => session.start_body(PREFIX.to_vec(), &mut out),
                    Event::Message => {
                        let taken = session.take_message().expect("a message").body;
                        return Some(taken);
                    }
                    _ => session.answer(&Reply::new(250, (2, 0, 0), "Ok"), &mut out),
                };
            }
            if more {
                break;
            }
        }
    }
    panic!("neither taken nor refused: {}", String::from_utf8_lossy(&out));
}

fn judge_taken(message: &[u8], taken: Option<Vec<u8>>) {
    assert_eq!(taken.is_none(), is_odd(message), "refused for odd bytes, and for nothing else");
    let Some(body) = taken else { return };
    assert_eq!(body.strip_prefix(PREFIX), Some(&*ended(message)), "judged is what was sent");
    passes_as_it_is(&body);
    let changes = [
        Change::AddHeader { name: "X-Gauntlet-Class".into(), value: "hám\r\nX: \0".into() },
        Change::RemoveHeader { name: "X-Gauntlet-*".into() },
        Change::TagSubject { tag: "[t\ra\ng]".into() },
        Change::Disclaimer { text: "small\rprint\n\0".into() },
    ];
    let changed = rewrite::apply(&Message::parse(&body), &changes);
    passes_as_it_is(&changed);
    // However a reader splits lines, the one field of that name is ours.
    let text = String::from_utf8_lossy(&changed).to_ascii_lowercase();
    let header = text.split("\r\n\r\n").next().unwrap_or_default();
    let lines = header.split(['\r', '\n', '\0']);
    let marks = lines.filter(|line| line.starts_with("x-gauntlet-") && line.contains(':'));
    assert_eq!(marks.count(), 1, "{header}");
}

/// Every server decodes the same message from what the sender writes.
fn passes_as_it_is(body: &[u8]) {
    let mut wire = Vec::new();
    dot_stuff(body, &mut wire);
    assert_eq!(decoded(&wire), body, "strict");
    // Lenient ones take CR or LF alone for the end of a line and drop NULs.
    let lenient: Vec<u8> = wire.iter().copied().filter(|b| *b != 0 && *b != b'\r').collect();
    let lenient = String::from_utf8_lossy(&lenient).replace('\n', "\r\n").into_bytes();
    assert_eq!(decoded(&lenient), String::from_utf8_lossy(body).as_bytes(), "lenient");
    // A Maildir file and back.
    let file = String::from_utf8_lossy(body).replace("\r\n", "\n");
    assert_eq!(file.replace('\n', "\r\n").as_bytes(), String::from_utf8_lossy(body).as_bytes());
}

/// A server of few lines (RFC 5321 section 4.5.2): the message, which nothing may follow.
fn decoded(wire: &[u8]) -> Vec<u8> {
    let (mut body, mut rest) = (Vec::new(), wire);
    loop {
        let end = rest.windows(2).position(|w| w == b"\r\n").expect("the end of data") + 2;
        let (line, after) = rest.split_at(end);
        rest = after;
        if line == b".\r\n" {
            assert!(rest.is_empty(), "a second message");
            return body;
        }
        body.extend_from_slice(line.strip_prefix(b".").unwrap_or(line));
    }
}

/// An MTA's own copy is header lines and body as it has them, in records that it ends with CRLF.
fn by_milter(message: &[u8], size: usize) {
    let packet = |command: u8, data: &[u8]| {
        let length = u32::try_from(data.len() + 1).unwrap().to_be_bytes();
        [&length[..], &[command], data].concat()
    };
    let (header, body) = match message.iter().position(|b| *b == b'|') {
        Some(at) => (&message[..at], &message[at + 1..]),
        None => (&message[..0], message),
    };
    let mut wire = packet(b'O', b"\0\0\0\x06\0\0\x01\xff\0\x1f\xff\xff");
    wire.extend(packet(b'M', b"<a@b>\0"));
    wire.extend(packet(b'R', b"<c@d>\0"));
    wire.extend(packet(b'L', &[b"Subject\0", header, b"\0"].concat()));
    wire.extend(packet(b'N', b""));
    for chunk in body.chunks(size + 1) {
        wire.extend(packet(b'B', chunk));
    }
    wire.extend(packet(b'E', b""));
    let mut session = milter::Session::new(milter::Limits::default());
    let event = session.push(&wire, &mut Vec::new());
    assert_eq!(event, Ok(milter::Event::Message));
    let judged = session.take().expect("a message");
    // A value may be folded, with LF or CRLF; a line of it begins with white space.
    let value = String::from_utf8_lossy(header).replace("\r\n", "\n");
    let mut lines = value.split('\n');
    let unfolded = lines.next().is_some_and(|line| !line.contains(['\r', '\0']));
    let folded = lines.all(|l| l.starts_with([' ', '\t']) && !l.contains(['\r', '\0']));
    let sound = unfolded && folded && !is_odd(body);
    assert_eq!(judged.fault.is_none(), sound, "{:?}", judged.fault);
    if sound {
        let copy =
            [b"Subject:", value.replace('\n', "\r\n").as_bytes(), b"\r\n\r\n", body].concat();
        assert_eq!(String::from_utf8_lossy(&judged.raw), String::from_utf8_lossy(&copy));
        passes_as_it_is(&ended(&judged.raw));
    }
}

fn class_of(raw: &[u8]) -> Class {
    static SNAPSHOT: OnceLock<Snapshot> = OnceLock::new();
    let snapshot = SNAPSHOT.get_or_init(Snapshot::default_rules);
    let (message, envelope) = (Message::parse(raw), Envelope::default());
    scan(&message, &envelope, &Facts::default(), snapshot, &mut Scratch::default()).class
}

/// No reading of a file is worse than its verdict.
fn as_file(message: &[u8]) {
    let judged = class_of(message);
    let without_nul: Vec<u8> = message.iter().copied().filter(|b| *b != 0).collect();
    let mut readings = Vec::new();
    for bytes in [message, &without_nul] {
        let mut lines = Vec::new();
        for (at, byte) in bytes.iter().enumerate() {
            lines.push(*byte);
            if *byte == b'\r' && bytes.get(at + 1) != Some(&b'\n') {
                lines.push(b'\n');
            }
        }
        readings.push(lines);
    }
    for reading in readings {
        let read = class_of(&reading);
        let held = judged >= Class::Spam;
        assert!(held || read < Class::Spam, "{judged:?}, and {read:?} as read by others");
    }
}
