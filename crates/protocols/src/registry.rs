//! All protocols of this crate.

use gauntlet_packet::Direction;

use crate::buffer::{Buffer, Engine, Number, NumberSpec, Spec};
use crate::event::Event;
use crate::file_buffers;
use crate::parser::Module;
use crate::protocol::{Protocol, ProtocolSet};

/// The order is that in which protocols are detected where several would fit.
pub(crate) static MODULES: &[&Module] = &[
    &crate::http::MODULE,
    &crate::tls::MODULE,
    &crate::dcerpc::MODULE,
    &crate::smb::MODULE,
    &crate::ftp::MODULE,
    &crate::ftp::DATA_MODULE,
    &crate::ssh::MODULE,
    &crate::smtp::MODULE,
    &crate::dns::MODULE,
    &crate::modbus::MODULE,
    &crate::enip::MODULE,
    &crate::nfs::MODULE,
    &crate::ntp::MODULE,
    &crate::tftp::MODULE,
    &crate::ike::MODULE,
    &crate::krb5::MODULE,
    &crate::dhcp::MODULE,
    &crate::snmp::MODULE,
    &crate::sip::MODULE,
    &crate::quic::MODULE,
    &crate::websocket::MODULE,
    &crate::ldap::MODULE,
    &crate::dns::MULTICAST_MODULE,
    &crate::rfb::MODULE,
    &crate::mqtt::MODULE,
    &crate::pop3::MODULE,
    &crate::rdp::MODULE,
    &crate::http2::MODULE,
    &crate::telnet::MODULE,
    &crate::imap::MODULE,
];

/// The module of a protocol. DNS over HTTP/2 is HTTP/2.
pub(crate) fn module(protocol: Protocol) -> Option<&'static Module> {
    let protocol = if protocol == Protocol::Doh2 { Protocol::Http2 } else { protocol };
    MODULES.iter().find(|module| module.protocol == protocol).copied()
}

/// All buffers.
pub(crate) fn buffers() -> impl Iterator<Item = &'static Spec> {
    MODULES.iter().flat_map(|module| module.buffers).chain(file_buffers::BUFFERS)
}

/// All numbers.
pub(crate) fn numbers() -> impl Iterator<Item = &'static NumberSpec> {
    MODULES.iter().flat_map(|module| module.numbers).chain(file_buffers::NUMBERS)
}

/// A buffer of a handle.
pub(crate) fn buffer_spec(buffer: Buffer) -> &'static Spec {
    const NONE: Spec = Spec {
        buffer: Buffer::new(0, 0),
        name: "",
        aliases: &[],
        kind: crate::buffer::Kind::Single,
        engines: &[],
    };
    buffers().find(|spec| spec.buffer == buffer).unwrap_or(&NONE)
}

/// A number of a handle.
pub(crate) fn number_spec(number: Number) -> &'static NumberSpec {
    const NONE: NumberSpec =
        NumberSpec { number: Number::new(0, 0), name: "", aliases: &[], engines: &[] };
    numbers().find(|spec| spec.number == number).unwrap_or(&NONE)
}

impl Protocol {
    /// Names of the states of a transaction, by direction (to the server, to the client).
    pub fn states(self) -> [&'static [&'static str]; 2] {
        module(self).map_or([&[], &[]], |module| module.states)
    }
}

impl Buffer {
    /// Of a sticky buffer's name (`http.uri`), the old name of one (`http_uri`, `file_data`) or a
    /// content modifier's.
    pub fn of_keyword(keyword: &str) -> Option<Self> {
        buffers().find(|spec| spec.has_name(keyword)).map(|spec| spec.buffer)
    }

    /// All buffers of all protocols.
    pub fn all() -> impl Iterator<Item = &'static Spec> {
        buffers()
    }

    /// What is known of it.
    pub fn spec(self) -> &'static Spec {
        buffer_spec(self)
    }

    /// Where fast patterns in this buffer are searched for in such transactions, and at which
    /// progress: mostly there alone, once what a rule asks of it can be checked.
    pub fn searches(self, engine: &Engine) -> Vec<(Self, u8)> {
        let own = || vec![(self, engine.progress)];
        if engine.protocol != Protocol::Http1 {
            return own();
        }
        crate::http::buffers::searches(engine, self).map_or_else(own, Vec::from)
    }

    /// The progress that a transaction of this protocol must have reached in this direction before
    /// the buffer is looked at, or `None` if it is not looked at there.
    pub fn progress(self, protocol: Protocol, direction: Direction) -> Option<u8> {
        progress_of(self.spec().engines, protocol, direction)
    }

    /// All protocols that have it.
    pub fn protocols(self) -> ProtocolSet {
        protocols_of(self.spec().engines)
    }

    /// Whether it is looked at in this direction for any protocol.
    pub fn has_direction(self, direction: Direction) -> bool {
        self.spec().engines.iter().any(|engine| engine.direction == direction)
    }
}

impl Number {
    /// All numbers of all protocols.
    pub fn all() -> impl Iterator<Item = &'static NumberSpec> {
        numbers()
    }

    /// Of a keyword (`dns.opcode`).
    pub fn of_keyword(keyword: &str) -> Option<Self> {
        numbers().find(|spec| spec.has_name(keyword)).map(|spec| spec.number)
    }

    /// What is known of it.
    pub fn spec(self) -> &'static NumberSpec {
        number_spec(self)
    }

    /// As [`Buffer::progress`].
    pub fn progress(self, protocol: Protocol, direction: Direction) -> Option<u8> {
        progress_of(self.spec().engines, protocol, direction)
    }

    /// All protocols that have it.
    pub fn protocols(self) -> ProtocolSet {
        protocols_of(self.spec().engines)
    }
}

/// What is looked at in HTTP/2 is looked at in DNS over HTTP/2, too.
fn progress_of(engines: &[Engine], protocol: Protocol, direction: Direction) -> Option<u8> {
    let find = |protocol| {
        let mut engines = engines.iter().filter(|engine| engine.direction == direction);
        engines.find(|engine| engine.protocol == protocol).map(|engine| engine.progress)
    };
    let of_http2 = || (protocol == Protocol::Doh2).then(|| find(Protocol::Http2)).flatten();
    find(protocol).or_else(of_http2)
}

fn protocols_of(engines: &[Engine]) -> ProtocolSet {
    let all = engines
        .iter()
        .fold(ProtocolSet::default(), |all, engine| all.union(ProtocolSet::of(&[engine.protocol])));
    if all.has(Protocol::Http2) { all.union(ProtocolSet::of(&[Protocol::Doh2])) } else { all }
}

impl Event {
    /// Of the name behind `app-layer-event:` (`http.invalid_response_chunk_len`). The letters' case
    /// does not count.
    pub fn of_name(name: &str) -> Option<Self> {
        let (protocol, event) = name.split_once('.')?;
        let protocol = Protocol::of_name(if protocol == "http" { "http1" } else { protocol })?;
        let events = module(protocol)?.events;
        let number = events.iter().position(|other| other.eq_ignore_ascii_case(event))?;
        Some(Self { protocol, number: u8::try_from(number).ok()? })
    }

    /// Its name without the protocol.
    pub fn name(self) -> &'static str {
        let events = module(self.protocol).map_or(&[][..], |module| module.events);
        events.get(usize::from(self.number)).copied().unwrap_or_default()
    }
}
