//! Records of SSL 2.0, and hellos of later versions that have its form (RFC 5246 appendix E.2).

use super::event::Event;
use super::session::{ClientProgress, Sender, ServerProgress, Session, Step, flag};
use super::version;
use crate::reader::Reader;

const ERROR: u8 = 0;
const CLIENT_HELLO: u8 = 1;
const CLIENT_MASTER_KEY: u8 = 2;
const CLIENT_FINISHED: u8 = 3;
const SERVER_HELLO: u8 = 4;
const CLIENT_CERTIFICATE: u8 = 8;

/// A record, or what there is of one.
pub(super) fn step(session: &mut Session, sender: Sender, input: &[u8]) -> Step {
    let mut parsed = 0;
    let place = session.place(sender);
    if place.processed == 0 {
        let is_short = input.first().is_some_and(|first| first & 0x80 != 0);
        place.ssl2_length_bytes = if is_short { 2 } else { 3 };
        // A header that ends within the input; the type is read with it.
        place.record_length = 0;
        let header_bytes = place.ssl2_length_bytes + 1;
        session.marks.push(("ssl2.hdr", 0, header_bytes));
    }
    let place = session.place(sender);
    let header_bytes = place.ssl2_length_bytes + 1;
    if place.processed < header_bytes {
        let wanted = header_bytes - place.processed;
        let taken = input.get(..wanted).unwrap_or(input);
        place.header.extend_from_slice(taken);
        place.processed += taken.len();
        parsed = taken.len();
        read_header(session, sender);
        let place = session.place(sender);
        let whole = place.ssl2_length_bytes + place.record_length;
        session.marks.push(("ssl2.pdu", 0, whole));
    }
    let place = session.place(sender);
    let rest = input.get(parsed..).unwrap_or_default();
    let whole = place.ssl2_length_bytes + place.record_length;
    if whole > rest.len() + place.processed {
        return Step::Wait { consumed: parsed, needed: place.record_length };
    }
    if rest.is_empty() {
        return Step::Took(parsed);
    }
    if place.record_length == 0 {
        session.events.push(Event::InvalidSslv2Header);
        return Step::Failed;
    }
    let content_type = place.content_type;
    let Some(read) = message(session, sender, content_type, rest) else { return Step::Failed };
    session.flags |= session.current;
    let place = session.place(sender);
    place.processed += read;
    let missing = whole.saturating_sub(place.processed);
    place.reset();
    Step::Took(parsed + (read + missing).min(rest.len()))
}

fn read_header(session: &mut Session, sender: Sender) {
    let place = session.place(sender);
    let mask = if place.ssl2_length_bytes == 2 { 0x7f } else { 0x3f };
    let mut reader = Reader::new(&place.header);
    if let Some(high) = reader.u8() {
        place.record_length = usize::from(high & mask) << 8;
    }
    if let Some(low) = reader.u8() {
        place.record_length |= usize::from(low);
    }
    if let Some(kind) = place.header.get(place.ssl2_length_bytes) {
        place.content_type = *kind;
        session.side(sender).version = version::SSL2;
    }
}

/// Reads a message; says how many bytes of its body it took.
fn message(session: &mut Session, sender: Sender, kind: u8, body: &[u8]) -> Option<usize> {
    match kind {
        ERROR => session.events.push(Event::ErrorMessageEncountered),
        CLIENT_HELLO => {
            let mut reader = Reader::new(body);
            let fields = reader.be16().zip(reader.be16()).zip(reader.be16());
            let Some(((number, _ciphers), session_id_bytes)) = fields else {
                session.events.push(Event::InvalidSslRecord);
                return None;
            };
            session.current = flag::CLIENT_HELLO | flag::SSL2_CLIENT_HELLO;
            session.client_progress = ClientProgress::HelloDone;
            session.side(sender).version = number;
            if session_id_bytes == 0 {
                session.current |= flag::SSL2_NO_SESSION_ID;
            }
            return Some(reader.position());
        }
        CLIENT_MASTER_KEY => session.current = flag::SSL2_MASTER_KEY,
        SERVER_HELLO => {
            session.current = flag::SERVER_HELLO | flag::SSL2_SERVER_HELLO;
            session.server_progress = ServerProgress::Hello;
        }
        CLIENT_FINISHED..=CLIENT_CERTIFICATE => {
            if kind == CLIENT_CERTIFICATE {
                if sender == Sender::Client {
                    session.current = flag::CLIENT_KEY_EXCHANGE;
                }
                session.server_progress = ServerProgress::CertificateDone;
            }
            encryption_begins(session, sender);
        }
        _ => {}
    }
    Some(0)
}

/// Once both hellos were seen, what follows them is encrypted.
fn encryption_begins(session: &mut Session, sender: Sender) {
    let both = flag::SSL2_CLIENT_HELLO | flag::SSL2_SERVER_HELLO;
    if session.flags & both != both {
        return;
    }
    match sender {
        Sender::Client if session.flags & flag::SSL2_NO_SESSION_ID != 0 => {
            session.current |= flag::SSL2_CLIENT_ENCRYPTS;
        }
        Sender::Client if session.flags & flag::SSL2_MASTER_KEY != 0 => {
            session.current = flag::SSL2_CLIENT_ENCRYPTS;
        }
        Sender::Client => {}
        Sender::Server => session.current = flag::SSL2_SERVER_ENCRYPTS,
    }
    let encrypted = flag::SSL2_CLIENT_ENCRYPTS | flag::SSL2_SERVER_ENCRYPTS;
    session.is_ssl2_encrypted |= session.flags & encrypted == encrypted;
}
