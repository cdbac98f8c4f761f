//! How TLS is recognised, and what rules may look at.

use gauntlet_packet::Direction;

use super::event;
use super::fingerprint::ja4;
use super::session::Session;
use super::side::Side;
use super::{Tls, version};
use crate::buffer::{Buffer, Bytes, Engine, Kind, Number, NumberSpec, to_client, to_server};
use crate::parser::{At, Guess, Module, Pattern, Probe, Question};
use crate::protocol::{Carrier, Protocol};
use crate::rooms;
use crate::tables::{number_row, row, row_with_aliases, stream_begins};

const SNI: Buffer = Buffer::new(rooms::TLS, 0);
const ALPN: Buffer = Buffer::new(rooms::TLS, 1);
const CERT_SUBJECT: Buffer = Buffer::new(rooms::TLS, 2);
const CERT_ISSUER: Buffer = Buffer::new(rooms::TLS, 3);
const CERT_SERIAL: Buffer = Buffer::new(rooms::TLS, 4);
const CERT_FINGERPRINT: Buffer = Buffer::new(rooms::TLS, 5);
const CERTS: Buffer = Buffer::new(rooms::TLS, 6);
const SUBJECT_ALT_NAME: Buffer = Buffer::new(rooms::TLS, 7);
const RANDOM: Buffer = Buffer::new(rooms::TLS, 8);
const RANDOM_TIME: Buffer = Buffer::new(rooms::TLS, 9);
const RANDOM_BYTES: Buffer = Buffer::new(rooms::TLS, 10);
const JA3_HASH: Buffer = Buffer::new(rooms::TLS, 11);
const JA3_STRING: Buffer = Buffer::new(rooms::TLS, 12);
const JA3S_HASH: Buffer = Buffer::new(rooms::TLS, 13);
const JA3S_STRING: Buffer = Buffer::new(rooms::TLS, 14);
const JA4_HASH: Buffer = Buffer::new(rooms::TLS, 15);

/// Version of the side that sends.
const VERSION: Number = Number::new(rooms::TLS, 0);
/// Flags of the current record, see [`super::flag`].
const STATE: Number = Number::new(rooms::TLS, 1);
/// Seconds of the epoch from which the server's certificate is valid.
const NOT_BEFORE: Number = Number::new(rooms::TLS, 2);
/// Seconds of the epoch until which the server's certificate is valid.
const NOT_AFTER: Number = Number::new(rooms::TLS, 3);
/// Certificates of the server's chain.
const CHAIN_LENGTH: Number = Number::new(rooms::TLS, 4);

const ANY_PROGRESS: &[Engine] = &[to_server(Protocol::Tls, 0), to_client(Protocol::Tls, 0)];
const HELLOS: &[Engine] = &[to_server(Protocol::Tls, 1), to_client(Protocol::Tls, 1)];
const CLIENT_HELLO: &[Engine] = &[to_server(Protocol::Tls, 1)];
const CERTIFICATES: &[Engine] = &[to_server(Protocol::Tls, 2), to_client(Protocol::Tls, 2)];
const SERVER_CERTIFICATES: &[Engine] = &[to_client(Protocol::Tls, 2)];
const CLIENT_HELLO_OR_QUIC: &[Engine] =
    &[to_server(Protocol::Tls, 1), to_server(Protocol::Quic, 1)];
const SERVER_HELLO_OR_QUIC: &[Engine] =
    &[to_client(Protocol::Tls, 1), to_client(Protocol::Quic, 1)];

/// QUIC answers these of TLS's buffers, too.
pub(crate) mod shared {
    use super::Buffer;

    pub(crate) const JA3_HASH: Buffer = super::JA3_HASH;
    pub(crate) const JA3_STRING: Buffer = super::JA3_STRING;
    pub(crate) const JA3S_HASH: Buffer = super::JA3S_HASH;
    pub(crate) const JA3S_STRING: Buffer = super::JA3S_STRING;
    pub(crate) const JA4_HASH: Buffer = super::JA4_HASH;
}

pub(crate) static MODULE: Module = Module {
    protocol: Protocol::Tls,
    events: event::NAMES,
    states: [
        &[
            "client_in_progress",
            "client_hello_done",
            "client_cert_done",
            "client_handshake_done",
            "client_finished",
        ],
        &[
            "server_in_progress",
            "server_hello",
            "server_cert_done",
            "server_hello_done",
            "server_handshake_done",
            "server_finished",
        ],
    ],
    buffers: &[
        row_with_aliases(SNI, "tls.sni", &["tls_sni"], Kind::Single, CLIENT_HELLO),
        row(ALPN, "tls.alpn", Kind::Multi, HELLOS),
        row_with_aliases(
            CERT_SUBJECT,
            "tls.cert_subject",
            &["tls_cert_subject"],
            Kind::Single,
            CERTIFICATES,
        ),
        row_with_aliases(
            CERT_ISSUER,
            "tls.cert_issuer",
            &["tls_cert_issuer"],
            Kind::Single,
            CERTIFICATES,
        ),
        row_with_aliases(
            CERT_SERIAL,
            "tls.cert_serial",
            &["tls_cert_serial"],
            Kind::Single,
            CERTIFICATES,
        ),
        row_with_aliases(
            CERT_FINGERPRINT,
            "tls.cert_fingerprint",
            &["tls_cert_fingerprint"],
            Kind::Single,
            CERTIFICATES,
        ),
        row(CERTS, "tls.certs", Kind::Multi, CERTIFICATES),
        row(SUBJECT_ALT_NAME, "tls.subjectaltname", Kind::Multi, SERVER_CERTIFICATES),
        row(RANDOM, "tls.random", Kind::Single, ANY_PROGRESS),
        row(RANDOM_TIME, "tls.random_time", Kind::Single, HELLOS),
        row(RANDOM_BYTES, "tls.random_bytes", Kind::Single, HELLOS),
        row_with_aliases(JA3_HASH, "ja3.hash", &["ja3_hash"], Kind::Single, CLIENT_HELLO_OR_QUIC),
        row_with_aliases(
            JA3_STRING,
            "ja3.string",
            &["ja3_string"],
            Kind::Single,
            CLIENT_HELLO_OR_QUIC,
        ),
        row(JA3S_HASH, "ja3s.hash", Kind::Single, SERVER_HELLO_OR_QUIC),
        row(JA3S_STRING, "ja3s.string", Kind::Single, SERVER_HELLO_OR_QUIC),
        row_with_aliases(JA4_HASH, "ja4.hash", &["ja4_hash"], Kind::Single, CLIENT_HELLO_OR_QUIC),
    ],
    numbers: &[
        number_row(VERSION, "tls.version", ANY_PROGRESS),
        number_row(STATE, "ssl_state", ANY_PROGRESS),
        number_row(NOT_BEFORE, "tls_cert_notbefore", SERVER_CERTIFICATES),
        NumberSpec {
            number: NOT_AFTER,
            name: "tls_cert_notafter",
            aliases: &["tls_cert_expired", "tls_cert_valid"],
            engines: SERVER_CERTIFICATES,
        },
        number_row(CHAIN_LENGTH, "tls.cert_chain_len", SERVER_CERTIFICATES),
    ],
    patterns: &[
        Pattern {
            carrier: Carrier::Tcp,
            direction: Direction::ToServer,
            bytes: &[0x01, 0x00, 0x02],
            case: true,
            offset: 2,
            depth: 5,
            confirm: Some((probe, 0, 3)),
        },
        client(&[0x01, 0x03, 0x00]),
        client(&[0x16, 0x03, 0x00]),
        client(&[0x01, 0x03, 0x01]),
        client(&[0x16, 0x03, 0x01]),
        client(&[0x01, 0x03, 0x02]),
        client(&[0x16, 0x03, 0x02]),
        client(&[0x01, 0x03, 0x03]),
        client(&[0x16, 0x03, 0x03]),
        server(&[0x15, 0x03, 0x00]),
        server(&[0x16, 0x03, 0x00]),
        server(&[0x17, 0x03, 0x00]),
        server(&[0x15, 0x03, 0x01]),
        server(&[0x16, 0x03, 0x01]),
        server(&[0x17, 0x03, 0x01]),
        server(&[0x15, 0x03, 0x02]),
        server(&[0x16, 0x03, 0x02]),
        server(&[0x17, 0x03, 0x02]),
        server(&[0x15, 0x03, 0x03]),
        server(&[0x16, 0x03, 0x03]),
        server(&[0x17, 0x03, 0x03]),
    ],
    probes: &[Probe {
        carrier: Carrier::Tcp,
        ports: &[443],
        direction: Direction::ToServer,
        min: 0,
        max: 3,
        to_port: Some(probe),
        from_port: None,
    }],
    accepts_gaps: false,
    first: Some(Direction::ToServer),
    make: |settings, _| Some(Box::new(Tls::new(&settings.tls))),
};

const fn client(bytes: &'static [u8]) -> Pattern {
    Pattern { case: true, ..stream_begins(Direction::ToServer, bytes) }
}

const fn server(bytes: &'static [u8]) -> Pattern {
    Pattern { case: true, ..stream_begins(Direction::ToClient, bytes) }
}

/// A hello in a record of SSL 2.0 with a length of two bytes.
fn probe(asked: &Question<'_>) -> Guess {
    match asked.bytes {
        [length, _, kind, ..] if length & 0x80 != 0 && *kind == 1 => Guess::Yes,
        [_, _, _, ..] => Guess::No,
        _ => Guess::Unsure,
    }
}

/// Buffers of TLS.
pub(super) fn buffer<'a>(
    session: &'a Session,
    ja4_on: bool,
    at: At,
    i: usize,
) -> Option<Bytes<'a>> {
    let side = match at.direction {
        Direction::ToServer => &session.client,
        Direction::ToClient => &session.server,
    };
    let certificate = side.certificate.as_ref();
    let bytes = match at.buffer {
        SNI => session.client.sni.as_deref()?,
        ALPN => side.hello.alpn.get(i)?,
        CERT_SUBJECT => certificate?.subject.as_bytes(),
        CERT_ISSUER => certificate?.issuer.as_bytes(),
        CERT_SERIAL => certificate?.serial.as_bytes(),
        CERT_FINGERPRINT => certificate?.fingerprint.as_bytes(),
        CERTS => side.chain.get(i)?,
        SUBJECT_ALT_NAME => alternative_name(&session.server, i)?,
        RANDOM => random(session, at.direction)?,
        RANDOM_TIME => random(session, at.direction)?.get(..4)?,
        RANDOM_BYTES => random(session, at.direction)?.get(4..)?,
        JA3_HASH => session.client.fingerprint.hash()?.as_bytes(),
        JA3_STRING => session.client.fingerprint.text()?.as_bytes(),
        JA3S_HASH => session.server.fingerprint.hash()?.as_bytes(),
        JA3S_STRING => session.server.fingerprint.text()?.as_bytes(),
        JA4_HASH if ja4_on => {
            return Some(Bytes::made(ja4(&session.client.hello, false).into_bytes()));
        }
        _ => return None,
    };
    Some(Bytes::whole(bytes))
}

/// Suricata shows one side's random bytes only once the other side's are known.
fn random(session: &Session, direction: Direction) -> Option<&[u8]> {
    let (own, other) = match direction {
        Direction::ToServer => (session.client.random.as_ref(), session.server.random.as_ref()),
        Direction::ToClient => (session.server.random.as_ref(), session.client.random.as_ref()),
    };
    other?;
    Some(own.map_or(&[0; 32], |random| random.as_slice()))
}

fn alternative_name(side: &Side, i: usize) -> Option<&[u8]> {
    let certificate = side.certificate.as_ref()?;
    certificate.alternative_names.get(i).map(String::as_bytes)
}

/// Numbers of TLS.
pub(super) fn number(
    session: &Session,
    number: Number,
    direction: Direction,
    i: usize,
) -> Option<i64> {
    if i > 0 {
        return None;
    }
    let side = match direction {
        Direction::ToServer => &session.client,
        Direction::ToClient => &session.server,
    };
    let certificate = || session.server.certificate.as_ref();
    Some(match number {
        VERSION if side.version == version::UNKNOWN => return None,
        VERSION => i64::from(side.version),
        STATE => i64::from(session.current),
        NOT_BEFORE => certificate()?.not_before,
        NOT_AFTER => certificate()?.not_after,
        CHAIN_LENGTH => i64::try_from(session.server.chain.len()).ok()?,
        _ => return None,
    })
}
