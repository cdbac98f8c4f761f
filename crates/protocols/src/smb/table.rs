//! How SMB is recognised, what rules may look at, and its record.

use gauntlet_packet::Direction;

use super::session::{About, EVENTS, Exchange, Session};
use super::wire::{self, NETBIOS_BYTES, SESSION_MESSAGE};
use crate::buffer::{Buffer, Bytes, Engine, Kind, Number, to_client, to_server};
use crate::dcerpc::shared as rpc;
use crate::dcerpc::wire::kind;
use crate::parser::{At, Guess, Input, Module, Outcome, Parser, Pattern, Probe, Question, Wishes};
use crate::protocol::{Carrier, Protocol};
use crate::record::{Fields, Value};
use crate::rooms;
use crate::tables::{TWO_STATES, number_row, row_with_aliases, stream_begins};
use crate::transaction::State;

/// Bytes that recognition needs.
const PROBE_BYTES: u16 = 36;

const SHARE: Buffer = Buffer::new(rooms::SMB, 0);
const NAMED_PIPE: Buffer = Buffer::new(rooms::SMB, 1);
const NTLMSSP_USER: Buffer = Buffer::new(rooms::SMB, 2);
const NTLMSSP_DOMAIN: Buffer = Buffer::new(rooms::SMB, 3);

/// 1 or 2 (3 counts as 2).
const VERSION: Number = Number::new(rooms::SMB, 0);

const REQUEST: &[Engine] = &[to_server(Protocol::Smb, 0)];
const BOTH: &[Engine] = &[to_server(Protocol::Smb, 0), to_client(Protocol::Smb, 0)];

pub(crate) static MODULE: Module = Module {
    protocol: Protocol::Smb,
    events: EVENTS,
    states: TWO_STATES,
    buffers: &[
        row_with_aliases(SHARE, "smb.share", &["smb_share"], Kind::Single, REQUEST),
        row_with_aliases(NAMED_PIPE, "smb.named_pipe", &["smb_named_pipe"], Kind::Single, REQUEST),
        row_with_aliases(
            NTLMSSP_USER,
            "smb.ntlmssp_user",
            &["smb_ntlmssp_user"],
            Kind::Single,
            REQUEST,
        ),
        row_with_aliases(
            NTLMSSP_DOMAIN,
            "smb.ntlmssp_domain",
            &["smb_ntlmssp_domain"],
            Kind::Single,
            REQUEST,
        ),
    ],
    numbers: &[number_row(VERSION, "smb.version", BOTH)],
    patterns: &[
        record(Direction::ToServer, b"\xffSMB"),
        record(Direction::ToClient, b"\xffSMB"),
        record(Direction::ToServer, b"\xfeSMB"),
        record(Direction::ToClient, b"\xfeSMB"),
        record(Direction::ToServer, b"\xfdSMB"),
        record(Direction::ToClient, b"\xfdSMB"),
    ],
    probes: &[Probe {
        carrier: Carrier::Tcp,
        ports: &[139, 445],
        direction: Direction::ToServer,
        min: 0,
        max: PROBE_BYTES,
        to_port: Some(probe_stream),
        from_port: Some(probe_stream),
    }],
    accepts_gaps: true,
    first: None,
    make: |settings, flow| {
        let mut session = Session::new(settings.hashes);
        session.after_gap = [flow.midstream; 2];
        Some(Box::new(Smb { session }))
    },
};

const fn record(direction: Direction, bytes: &'static [u8]) -> Pattern {
    Pattern {
        case: true,
        offset: 4,
        depth: 8,
        confirm: Some((probe_record, PROBE_BYTES, PROBE_BYTES)),
        ..stream_begins(direction, bytes)
    }
}

fn probe_record(asked: &Question<'_>) -> Guess {
    let begins = asked.bytes.first() == Some(&SESSION_MESSAGE);
    probe(asked, begins.then_some(NETBIOS_BYTES))
}

fn probe_stream(asked: &Question<'_>) -> Guess {
    let found = wire::search(asked.bytes);
    probe(asked, found)
}

fn probe(asked: &Question<'_>, record: Option<usize>) -> Guess {
    if asked.bytes.len() < usize::from(PROBE_BYTES) {
        return Guess::Unsure;
    }
    if asked.flow.midstream
        && let Some(bytes) = record.and_then(|begin| asked.bytes.get(begin..))
        && let Some(version) = wire::version(bytes)
    {
        let place = if version == 0xff { 9 } else { 16 };
        let mask = if version == 0xff { 0x80 } else { 0x01 };
        let is_response = bytes.get(place).is_some_and(|flags| flags & mask != 0);
        let fits = is_response == (asked.direction == Direction::ToClient);
        return if fits || version == 0xfd { Guess::Yes } else { Guess::Reversed };
    }
    let Some((kind, length)) = wire::netbios(asked.bytes) else { return Guess::Unsure };
    let data = asked.bytes.get(NETBIOS_BYTES..).unwrap_or_default();
    let is_netbios = wire::is_netbios_type(kind);
    if is_netbios && wire::version(data).is_some() {
        return Guess::Yes;
    }
    if !is_netbios || kind == SESSION_MESSAGE {
        return Guess::No;
    }
    // A small message of NetBIOS may come before SMB.
    match data.get(length..) {
        Some(next) if next.len() >= 8 => {
            let is_smb = next.get(NETBIOS_BYTES..).and_then(wire::version).is_some();
            let fits = is_smb && next.first().is_some_and(|kind| wire::is_netbios_type(*kind));
            if fits { Guess::Yes } else { Guess::No }
        }
        _ if length < 256 => Guess::Unsure,
        _ => Guess::No,
    }
}

struct Smb {
    session: Session,
}

impl Parser for Smb {
    fn parse(&mut self, input: Input<'_>, wishes: &mut Wishes) -> Outcome {
        if input.bytes.is_empty() {
            return Outcome::Done;
        }
        self.session.stream(input.direction, input.bytes, wishes)
    }

    fn gap(&mut self, direction: Direction, len: u64, _: &mut Wishes) -> Outcome {
        self.session.missing(direction, len);
        Outcome::Done
    }

    fn count(&self) -> usize {
        self.session.exchanges.len()
    }

    fn state(&self, place: usize) -> Option<&State> {
        self.session.exchanges.at(place).map(|exchange| &exchange.state)
    }

    fn state_mut(&mut self, place: usize) -> Option<&mut State> {
        self.session.exchanges.at_mut(place).map(|exchange| &mut exchange.state)
    }

    fn remove(&mut self, place: usize) {
        self.session.exchanges.remove(place);
    }

    fn buffer(&self, place: usize, at: At, i: usize) -> Option<Bytes<'_>> {
        let exchange = &self.session.exchanges.at(place)?.data;
        match (at.buffer, &exchange.about) {
            (SHARE, About::TreeConnect { share, is_pipe: false })
            | (NAMED_PIPE, About::TreeConnect { share, is_pipe: true }) => {
                Some(Bytes::whole(share))
            }
            (NTLMSSP_USER, About::SessionSetup(Some(found))) => Some(Bytes::whole(&found.user)),
            (NTLMSSP_DOMAIN, About::SessionSetup(Some(found))) => Some(Bytes::whole(&found.domain)),
            (rpc::STUB_DATA, About::Rpc(call)) => {
                let stub = call.stubs.get(at.direction.index())?;
                (!stub.is_empty()).then(|| Bytes::whole(stub))
            }
            (rpc::IFACE, About::Rpc(call)) if call.request == Some(kind::REQUEST) => {
                let interfaces = self.session.interfaces.iter();
                let mut accepted = interfaces.filter(|interface| interface.is_accepted());
                // Fragments do not count here.
                let mut key = accepted.nth(i)?.key().to_vec();
                if let Some(last) = key.last_mut() {
                    *last = 1;
                }
                Some(Bytes::made(key))
            }
            _ => None,
        }
    }

    fn number(&self, place: usize, number: Number, _: Direction, i: usize) -> Option<i64> {
        let exchange = &self.session.exchanges.at(place)?.data;
        match (number, &exchange.about) {
            (VERSION, _) if i == 0 => Some(i64::from(exchange.version)),
            (rpc::OPNUM, About::Rpc(call)) if i == 0 && call.request == Some(kind::REQUEST) => {
                Some(i64::from(call.operation))
            }
            (rpc::LITTLE_ENDIAN, About::Rpc(_)) if i == 0 => Some(1),
            _ => None,
        }
    }

    fn record(&self, place: usize, fields: &mut Fields) {
        if let Some(exchange) = self.session.exchanges.at(place) {
            let id = exchange.state.id + 1;
            let mut smb = Fields::default();
            smb.number("id", i64::try_from(id).unwrap_or(i64::MAX));
            smb.text("dialect", dialect(&self.session).as_bytes());
            write(&exchange.data, &mut smb);
            fields.object("smb", smb);
        }
    }
}

fn dialect(session: &Session) -> String {
    if session.dialect != 0 {
        return match session.dialect {
            0x02ff => "2.??".to_owned(),
            number => format!("{}.{:02x}", number >> 8, number & 0xff),
        };
    }
    if session.dialect_name.is_empty() {
        return "unknown".to_owned();
    }
    String::from_utf8_lossy(&session.dialect_name).into_owned()
}

fn write(exchange: &Exchange, smb: &mut Fields) {
    smb.text("command", command_name(exchange).as_bytes());
    if let Some(status) = exchange.status {
        smb.text("status", super::status::name(status).as_bytes());
        smb.text("status_code", format!("{status:#x}").as_bytes());
    }
    if let Some(key) = exchange.key {
        smb.number("session_id", i64::try_from(key.session).unwrap_or(i64::MAX));
        smb.number("tree_id", i64::from(key.tree));
    }
    match &exchange.about {
        About::Transfer(transfer) => {
            smb.text("filename", &transfer.name);
            if !transfer.share.is_empty() {
                smb.text("share", &transfer.share);
            }
        }
        About::TreeConnect { share, is_pipe } => {
            smb.text(if *is_pipe { "named_pipe" } else { "share" }, share);
        }
        About::Negotiate { dialects, .. } => {
            let names = dialects.iter();
            let names = names.map(|name| Value::Text(String::from_utf8_lossy(name).into_owned()));
            smb.list("client_dialects", names.collect());
        }
        About::Create { name } | About::SetInfo { name } => {
            let name: Vec<u8> = name.iter().copied().filter(|byte| *byte != 0).collect();
            smb.text("filename", &name);
        }
        About::SessionSetup(Some(found)) => {
            let mut ntlmssp = Fields::default();
            ntlmssp.text("domain", &found.domain);
            ntlmssp.text("user", &found.user);
            ntlmssp.text("host", &found.host);
            smb.object("ntlmssp", ntlmssp);
        }
        About::Rename { from, to } => {
            let mut rename = Fields::default();
            rename.text("from", from);
            rename.text("to", to);
            smb.object("rename", rename);
        }
        About::Rpc(call) => {
            let mut dcerpc = Fields::default();
            if call.request == Some(kind::REQUEST) {
                dcerpc.number("opnum", i64::from(call.operation));
            }
            dcerpc.number("call_id", i64::from(call.call));
            smb.object("dcerpc", dcerpc);
        }
        About::SessionSetup(None) | About::Generic => {}
    }
}

fn command_name(exchange: &Exchange) -> String {
    const NAMES2: [&str; 19] = [
        "NEGOTIATE_PROTOCOL",
        "SESSION_SETUP",
        "SESSION_LOGOFF",
        "TREE_CONNECT",
        "TREE_DISCONNECT",
        "CREATE",
        "CLOSE",
        "FLUSH",
        "READ",
        "WRITE",
        "LOCK",
        "IOCTL",
        "CANCEL",
        "KEEPALIVE",
        "FIND",
        "CHANGE_NOTIFY",
        "GET_INFO",
        "SET_INFO",
        "OPLOCK_BREAK",
    ];
    if exchange.version == 2 {
        return match NAMES2.get(usize::from(exchange.command)) {
            Some(name) => format!("SMB2_COMMAND_{name}"),
            None => exchange.command.to_string(),
        };
    }
    match NAMES1.iter().find(|(number, _)| *number == exchange.command) {
        Some((_, name)) => format!("SMB1_COMMAND_{name}"),
        None => exchange.command.to_string(),
    }
}

/// Names of SMB 1's commands.
const NAMES1: [(u16, &str); 32] = [
    (0x00, "CREATE_DIRECTORY"),
    (0x01, "DELETE_DIRECTORY"),
    (0x02, "OPEN"),
    (0x03, "CREATE"),
    (0x04, "CLOSE"),
    (0x05, "FLUSH"),
    (0x06, "DELETE"),
    (0x07, "RENAME"),
    (0x08, "QUERY_INFORMATION"),
    (0x09, "SET_INFORMATION"),
    (0x0a, "READ"),
    (0x0b, "WRITE"),
    (0x13, "LOCK_AND_READ"),
    (0x14, "WRITE_AND_UNLOCK"),
    (0x24, "LOCKING_ANDX"),
    (0x25, "TRANS"),
    (0x2b, "ECHO"),
    (0x2c, "WRITE_AND_CLOSE"),
    (0x2d, "OPEN_ANDX"),
    (0x2e, "READ_ANDX"),
    (0x2f, "WRITE_ANDX"),
    (0x32, "TRANS2"),
    (0x33, "TRANS2_SECONDARY"),
    (0x34, "FIND_CLOSE2"),
    (0x71, "TREE_DISCONNECT"),
    (0x72, "NEGOTIATE_PROTOCOL"),
    (0x73, "SESSION_SETUP_ANDX"),
    (0x74, "LOGOFF_ANDX"),
    (0x75, "TREE_CONNECT_ANDX"),
    (0x80, "QUERY_INFO_DISK"),
    (0xa2, "NT_CREATE_ANDX"),
    (0xa4, "NT_CANCEL"),
];
