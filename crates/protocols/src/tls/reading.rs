//! Reading of a TLS session, record by record (RFC 5246 section 6.2, RFC 8446 section 5).
//!
//! ```text
//! bytes ─▶ record header ─▶ whole record ─▶ handshake messages ─▶ hello, certificates
//!                 └─▶ SSL 2.0 record (ssl2.rs)    (kept over records in `Pending`)
//! ```
//!
//! What is encrypted is counted and stepped over. Records of at most 17,408 bytes are waited for;
//! a message of the handshake is kept up to [`MESSAGE_BYTES_MAX`].

use super::chain;
use super::event::Event;
use super::hello::{HelloReader, Kind};
use super::session::{
    ClientProgress, Parsed, Pending, Sender, ServerProgress, Session, Step, flag,
};
use super::{ssl2, version};
use crate::reader::Reader;

/// Longest record: 2^14 bytes and 1,024 of expansion.
const RECORD_BYTES_MAX: usize = (1 << 14) + 1024;

/// Longest handshake message that is put together of several records; of longer ones the rest is
/// stepped over.
const MESSAGE_BYTES_MAX: usize = 1 << 20;

const RECORD_HEADER_BYTES: usize = 5;

/// Fewest bytes that a record takes; more records than fit in the input are a loop.
const RECORD_BYTES_MIN: usize = 6;

impl Session {
    /// Takes bytes. `input` begins where the last call's `consumed` ended.
    pub fn parse(&mut self, sender: Sender, input: &[u8]) -> Parsed {
        if self.place(sender).processed == 0 {
            self.current = 0;
        }
        self.marks.clear();
        let records_max = (input.len() / RECORD_BYTES_MIN).max(1);
        let mut rest = input;
        let mut records = 0;
        while let Some(&first) = rest.first() {
            if records > records_max {
                self.place(sender).reset();
                self.events.push(Event::TooManyRecordsInPacket);
                return Parsed::Failed;
            }
            if self.place(sender).processed == 0 {
                let side = self.side(sender);
                if first & 0xc0 != 0 {
                    side.version = version::SSL2;
                } else if side.version == version::SSL2 {
                    side.version = version::UNKNOWN;
                }
            }
            let is_ssl2 = self.side(sender).version == version::SSL2;
            let marked = self.marks.len();
            let step =
                if is_ssl2 { ssl2::step(self, sender, rest) } else { self.record(sender, rest) };
            for (_, at, _) in self.marks.iter_mut().skip(marked) {
                *at += input.len() - rest.len();
            }
            match step {
                Step::Took(count) => rest = rest.get(count..).unwrap_or_default(),
                Step::Wait { consumed, needed } => {
                    let consumed = input.len() - rest.len() + consumed;
                    return Parsed::Incomplete { consumed, needed };
                }
                Step::Failed => {
                    self.place(sender).reset();
                    if is_ssl2 {
                        self.events.push(Event::InvalidSslRecord);
                    }
                    return Parsed::Failed;
                }
            }
            records += 1;
        }
        self.note_certificates();
        Parsed::Done
    }

    /// With the certificate that is asked for the handshake counts as done.
    fn note_certificates(&mut self) {
        let needs_client = self.flags & flag::CLIENT_CERTIFICATE_NEEDED != 0;
        let side = if needs_client { &self.client } else { &self.server };
        if side.certificate.is_some() {
            self.client_progress = ClientProgress::HandshakeDone;
            self.server_progress = ServerProgress::HandshakeDone;
        }
    }

    /// A record, or what there is of one.
    fn record(&mut self, sender: Sender, input: &[u8]) -> Step {
        let mut parsed = 0;
        let processed = self.place(sender).processed;
        if processed < RECORD_HEADER_BYTES {
            let version_before = self.side(sender).version;
            parsed = self.record_header(sender, input);
            if processed == 0 {
                self.marks.push(("hdr", 0, RECORD_HEADER_BYTES));
            }
            if self.place(sender).processed < RECORD_HEADER_BYTES {
                return Step::Took(parsed);
            }
            let whole = self.place(sender).record_length + parsed;
            self.marks.push(("pdu", 0, whole));
            if let Some(step) = self.check_header(sender, version_before, input.len()) {
                return step;
            }
        }
        let place = self.place(sender);
        let content_type = place.content_type;
        let whole = place.record_length;
        let missing = (whole + RECORD_HEADER_BYTES).saturating_sub(place.processed);
        let rest = input.get(parsed..).unwrap_or_default();
        // Application data is not looked at, so that it need not be waited for.
        if whole > rest.len() && content_type != APPLICATION_DATA {
            return Step::Wait { consumed: parsed, needed: whole };
        }
        let body = rest.get(..missing).unwrap_or(rest);
        if body.is_empty() {
            return Step::Took(parsed);
        }
        self.marks.push(("data", parsed, whole));
        if let Some(name) = match content_type {
            ALERT => Some("alert"),
            HEARTBEAT => Some("heartbeat"),
            _ => None,
        } {
            self.marks.push((name, parsed, whole));
        }
        if self.body(sender, content_type, body).is_none() {
            return Step::Failed;
        }
        let place = self.place(sender);
        place.processed += body.len();
        if place.processed >= whole + RECORD_HEADER_BYTES {
            place.reset();
            self.record_ended = true;
        }
        Step::Took(parsed + body.len())
    }

    /// Gathers the header's five bytes; says how many it took.
    fn record_header(&mut self, sender: Sender, input: &[u8]) -> usize {
        let hello = match sender {
            Sender::Client => flag::CLIENT_HELLO,
            Sender::Server => flag::SERVER_HELLO,
        };
        let hello_seen = self.flags & hello != 0;
        let place = self.place(sender);
        let wanted = RECORD_HEADER_BYTES - place.processed;
        let taken = input.get(..wanted).unwrap_or(input);
        place.header.extend_from_slice(taken);
        place.processed += taken.len();
        let mut reader = Reader::new(&place.header);
        let fields = reader.u8().zip(reader.be16()).zip(reader.be16());
        if let Some(((kind, number), length)) = fields {
            place.content_type = kind;
            place.record_length = usize::from(length);
            let side = self.side(sender);
            if !hello_seen || side.version == version::UNKNOWN {
                side.version = number;
            }
        }
        taken.len()
    }

    /// Judges a header that is complete.
    fn check_header(&mut self, sender: Sender, before: u16, input: usize) -> Option<Step> {
        let place = self.place(sender);
        let length = place.record_length;
        if !(CHANGE_CIPHER_SPEC..=HEARTBEAT).contains(&place.content_type) {
            // TLS 1.0 and 1.1 ask to ignore unknown types (RFC 4346 section 6); later it is
            // fatal.
            let ignored = before == version::TLS10 || before == version::TLS11;
            if ignored {
                place.reset();
                place.content_type = 0;
                place.record_length = 0;
                self.side(sender).version = before;
            }
            self.events.push(Event::InvalidRecordType);
            return Some(if ignored { Step::Took(input) } else { Step::Failed });
        }
        let event = if length == 0 {
            Event::InvalidRecordLength
        } else if !version::is_valid(self.side(sender).version) {
            Event::InvalidRecordVersion
        } else if length > RECORD_BYTES_MAX {
            Event::InvalidRecordLength
        } else {
            return None;
        };
        self.events.push(event);
        Some(Step::Failed)
    }

    fn body(&mut self, sender: Sender, content_type: u8, body: &[u8]) -> Option<()> {
        match content_type {
            CHANGE_CIPHER_SPEC => {
                self.flags |= flag::CIPHER_CHANGED;
                match sender {
                    Sender::Client => {
                        self.flags |= flag::CLIENT_CIPHER_CHANGED;
                        self.client_progress = ClientProgress::HandshakeDone;
                    }
                    Sender::Server => self.flags |= flag::SERVER_CIPHER_CHANGED,
                }
            }
            ALERT => match body {
                // Longer ones are encrypted.
                [ALERT_FATAL, _] => {
                    self.finish(Sender::Client);
                    self.finish(Sender::Server);
                }
                [] | [_] => {
                    self.events.push(Event::InvalidAlertMessage);
                    return None;
                }
                _ => {}
            },
            HANDSHAKE => {
                if self.is_handshake_encrypted() {
                    return Some(());
                }
                if self.place(sender).record_length < 4 {
                    self.events.push(Event::InvalidSslRecord);
                    return None;
                }
                if self.handshake(sender, body).is_none() {
                    self.events.push(Event::InvalidHandshakeMessage);
                    return None;
                }
            }
            APPLICATION_DATA => self.application_data(sender),
            _ => return self.heartbeat(sender, body),
        }
        Some(())
    }

    /// After a change of ciphers handshakes are encrypted, unless the change is there for
    /// middleboxes alone (RFC 8446 appendix D.4).
    fn is_handshake_encrypted(&self) -> bool {
        let for_middleboxes = self.flags & flag::CLIENT_HELLO != 0
            && self.client.version > version::TLS12
            && self.flags & flag::SERVER_HELLO == 0;
        self.flags & flag::CIPHER_CHANGED != 0 && !for_middleboxes
    }

    fn application_data(&mut self, sender: Sender) {
        // Early data (0-RTT) comes before the handshake is done (RFC 8446 section 2.3).
        if self.flags & flag::EARLY_DATA != 0 && self.flags & flag::SERVER_HELLO == 0 {
            return;
        }
        match sender {
            Sender::Client => self.client_progress = ClientProgress::HandshakeDone,
            Sender::Server => self.server_progress = ServerProgress::HandshakeDone,
        }
        self.is_encrypted = true;
    }

    /// Messages of the handshake in one record.
    fn handshake(&mut self, sender: Sender, record: &[u8]) -> Option<()> {
        let mut reader = Reader::new(record);
        while !reader.is_empty() {
            if let Some(mut pending) = self.place(sender).message.take() {
                let wanted = pending.length - pending.seen;
                let added = reader.take(wanted.min(reader.left()))?;
                let room = MESSAGE_BYTES_MAX.saturating_sub(pending.bytes.len());
                pending.bytes.extend_from_slice(added.get(..room).unwrap_or(added));
                pending.seen += added.len();
                if pending.seen < pending.length {
                    self.place(sender).message = Some(pending);
                } else {
                    self.message(sender, pending.kind, &pending.bytes);
                }
                continue;
            }
            let Some((kind, length)) = reader.u8().zip(reader.be24()) else {
                self.events.push(Event::InvalidSslRecord);
                return None;
            };
            let length = usize::try_from(length).ok()?;
            if !is_known_message(kind) {
                reader.skip(length.min(reader.left()))?;
                let changed = match sender {
                    Sender::Client => flag::CLIENT_CIPHER_CHANGED,
                    Sender::Server => flag::SERVER_CIPHER_CHANGED,
                };
                // Encrypted messages look like this.
                if self.flags & changed == 0 {
                    self.events.push(Event::InvalidHandshakeMessage);
                }
            } else if length > reader.left() {
                let bytes = reader.take_rest().to_vec();
                let seen = bytes.len();
                self.place(sender).message = Some(Pending { kind, length, seen, bytes });
            } else {
                let message = reader.take(length)?;
                self.message(sender, kind, message);
            }
        }
        Some(())
    }

    fn message(&mut self, sender: Sender, kind: u8, message: &[u8]) {
        match kind {
            1 => self.hello(sender, Kind::Client, message),
            2 => self.hello(sender, Kind::Server, message),
            11 => {
                let side =
                    if sender == Sender::Client { &mut self.client } else { &mut self.server };
                chain::read(message, side, &mut self.events);
                match sender {
                    Sender::Client => self.client_progress = ClientProgress::CertificateDone,
                    Sender::Server => self.server_progress = ServerProgress::CertificateDone,
                }
            }
            12 => self.current = flag::SERVER_KEY_EXCHANGE,
            13 if sender == Sender::Server => self.current = flag::CLIENT_CERTIFICATE_NEEDED,
            14 if sender == Sender::Server => self.server_progress = ServerProgress::HelloDone,
            16 => self.current = flag::CLIENT_KEY_EXCHANGE,
            _ => {}
        }
        self.flags |= self.current;
    }

    fn hello(&mut self, sender: Sender, kind: Kind, message: &[u8]) {
        self.current = match kind {
            Kind::Client => flag::CLIENT_HELLO,
            Kind::Server => flag::SERVER_HELLO,
        };
        let reader = HelloReader {
            kind,
            side: if sender == Sender::Client { &mut self.client } else { &mut self.server },
            events: &mut self.events,
            versions_were_offered: self.flags & flag::VERSIONS_OFFERED != 0,
            certificates_hidden: self.flags & flag::CERTIFICATES_HIDDEN != 0,
            ja3: self.options.ja3,
        };
        let notes = reader.read(message);
        let noted = [
            (notes.offers_versions, flag::VERSIONS_OFFERED),
            (notes.hides_certificates, flag::CERTIFICATES_HIDDEN),
            (notes.early_data, flag::EARLY_DATA),
            (notes.has_ticket, flag::RESUMED),
        ];
        for (_, flag) in noted.iter().filter(|(holds, _)| *holds) {
            self.flags |= flag;
        }
        if kind == Kind::Server
            && self.client.session_id.is_some()
            && self.client.session_id == self.server.session_id
        {
            self.flags |= flag::RESUMED;
        }
        if notes.complete {
            match sender {
                Sender::Client => self.client_progress = ClientProgress::HelloDone,
                Sender::Server => self.server_progress = ServerProgress::Hello,
            }
        }
    }

    /// Heartbeats (RFC 6520): a request that asks for more than it brings is an attack
    /// (CVE-2014-0160), and so is an encrypted answer that is longer than its request.
    fn heartbeat(&mut self, sender: Sender, body: &[u8]) -> Option<()> {
        let record_length = self.place(sender).record_length;
        let mut reader = Reader::new(body);
        let Some((kind, payload)) = reader.u8().zip(reader.be16()) else { return Some(()) };
        let payload = usize::from(payload);
        let encrypted = self.flags & flag::CIPHER_CHANGED != 0;
        if !encrypted && !matches!(kind, 1 | 2) {
            self.events.push(Event::InvalidHeartbeatMessage);
            return None;
        }
        let own = match sender {
            Sender::Client => flag::HEARTBEAT_OF_CLIENT,
            Sender::Server => flag::HEARTBEAT_OF_SERVER,
        };
        if self.flags & flag::HEARTBEAT_PENDING == 0 {
            self.flags |= flag::HEARTBEAT_PENDING | own;
            if encrypted {
                self.heartbeat_length = record_length;
            } else if payload + 3 > record_length {
                self.events.push(Event::OverflowHeartbeatMessage);
                return None;
            } else if record_length - payload - 3 < 16 {
                self.events.push(Event::InvalidHeartbeatMessage);
                return None;
            }
            return Some(());
        }
        if self.flags & own != 0 {
            // A second one before the answer.
            self.events.push(Event::InvalidHeartbeatMessage);
            return None;
        }
        self.flags &=
            !(flag::HEARTBEAT_PENDING | flag::HEARTBEAT_OF_CLIENT | flag::HEARTBEAT_OF_SERVER);
        let asked = std::mem::take(&mut self.heartbeat_length);
        if encrypted && asked > 0 && asked < record_length {
            self.events.push(Event::DataleakHeartbeatMismatch);
            return None;
        }
        Some(())
    }
}

const CHANGE_CIPHER_SPEC: u8 = 20;
const ALERT: u8 = 21;
const HANDSHAKE: u8 = 22;
const APPLICATION_DATA: u8 = 23;
const HEARTBEAT: u8 = 24;
const ALERT_FATAL: u8 = 2;

/// Messages of the handshake that TLS up to 1.2 has.
fn is_known_message(kind: u8) -> bool {
    matches!(kind, 0 | 1 | 2 | 4 | 11..=16 | 20..=22)
}
