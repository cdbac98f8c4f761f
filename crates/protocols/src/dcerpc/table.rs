//! How DCE/RPC is recognised, what rules may look at, and its record.

use gauntlet_packet::Direction;

use super::call::{Call, Connection, Interfaces};
use super::wire::{DatagramHeader, Header, Interface, Order, kind, kind_name};
use crate::buffer::{Buffer, Bytes, Engine, Kind, Number, to_client, to_server};
use crate::parser::{At, Flow, Guess, Input, Module, Outcome, Parser, Pattern, Question, Wishes};
use crate::protocol::{Carrier, Protocol};
use crate::reader::Reader;
use crate::record::{Fields, Value};
use crate::rooms;
use crate::tables::{TWO_STATES, row_with_aliases, stream_begins};
use crate::transaction::State;

/// What SMB answers, too.
pub(crate) mod shared {
    use super::{Buffer, Number, rooms};

    /// Accepted interfaces of a request: see `Interface::key`.
    pub(crate) const IFACE: Buffer = Buffer::new(rooms::DCERPC, 0);
    /// The call's data in this direction.
    pub(crate) const STUB_DATA: Buffer = Buffer::new(rooms::DCERPC, 1);
    /// The operation.
    pub(crate) const OPNUM: Number = Number::new(rooms::DCERPC, 0);
    /// 1 if the call's numbers are little-endian.
    pub(crate) const LITTLE_ENDIAN: Number = Number::new(rooms::DCERPC, 1);
}

const ENGINES: &[Engine] = &[
    to_server(Protocol::Dcerpc, 0),
    to_client(Protocol::Dcerpc, 0),
    to_server(Protocol::Smb, 0),
    to_client(Protocol::Smb, 0),
];

pub(crate) static MODULE: Module = Module {
    protocol: Protocol::Dcerpc,
    events: &[],
    states: TWO_STATES,
    buffers: &[
        row_with_aliases(shared::IFACE, "dcerpc.iface", &["dce_iface"], Kind::Multi, ENGINES),
        row_with_aliases(
            shared::STUB_DATA,
            "dcerpc.stub_data",
            &["dce_stub_data"],
            Kind::Single,
            ENGINES,
        ),
    ],
    numbers: &[
        crate::buffer::NumberSpec {
            number: shared::OPNUM,
            name: "dcerpc.opnum",
            aliases: &["dce_opnum"],
            engines: ENGINES,
        },
        crate::buffer::NumberSpec {
            number: shared::LITTLE_ENDIAN,
            name: "dcerpc.little_endian",
            aliases: &[],
            engines: ENGINES,
        },
    ],
    patterns: &[
        Pattern {
            confirm: Some((probe_stream, 0, 0)),
            case: true,
            ..stream_begins(Direction::ToServer, &[5, 0])
        },
        Pattern {
            confirm: Some((probe_stream, 0, 0)),
            case: true,
            ..stream_begins(Direction::ToClient, &[5, 0])
        },
        Pattern {
            carrier: Carrier::Udp,
            confirm: Some((probe_datagram, 0, 0)),
            case: true,
            ..stream_begins(Direction::ToServer, &[4, 0])
        },
    ],
    probes: &[],
    accepts_gaps: true,
    first: None,
    make: |_, flow| Some(Box::new(Dcerpc::new(flow))),
};

fn guess(is_request: bool, direction: Direction) -> Guess {
    if is_request == (direction == Direction::ToServer) { Guess::Yes } else { Guess::Reversed }
}

fn probe_stream(asked: &Question<'_>) -> Guess {
    let Some(header) = Header::read(&mut Reader::new(asked.bytes)) else { return Guess::No };
    let [first, second, ..] = header.representation;
    if header.version != 5 || header.minor != 0 || first & 0xee != 0 || second > 3 {
        return Guess::No;
    }
    let is_request = matches!(header.kind, kind::REQUEST | kind::ALTER_CONTEXT);
    guess(is_request, asked.direction)
}

fn probe_datagram(asked: &Question<'_>) -> Guess {
    let mut reader = Reader::new(asked.bytes);
    let Some(header) = DatagramHeader::read(&mut reader) else { return Guess::No };
    let [first, second, _] = header.representation;
    let [_, flags] = header.flags;
    let fits = header.version == 4
        && header.fragment == 0
        && reader.left() >= usize::from(header.length)
        && flags & 0xfc == 0
        && first & 0xee == 0
        && second <= 3;
    if fits { guess(header.kind == kind::REQUEST, asked.direction) } else { Guess::No }
}

struct Dcerpc {
    carrier: Carrier,
    connection: Connection,
}

impl Dcerpc {
    fn new(flow: &Flow) -> Self {
        Self { carrier: flow.carrier, connection: Connection::new(flow.midstream) }
    }
}

impl Parser for Dcerpc {
    fn parse(&mut self, input: Input<'_>, wishes: &mut Wishes) -> Outcome {
        if self.carrier == Carrier::Tcp {
            return self.connection.stream(input.direction, input.bytes, wishes);
        }
        let _ = self.connection.datagram(input.bytes);
        Outcome::Done
    }

    fn count(&self) -> usize {
        self.connection.calls.len()
    }

    fn state(&self, place: usize) -> Option<&State> {
        self.connection.calls.at(place).map(|call| &call.state)
    }

    fn state_mut(&mut self, place: usize) -> Option<&mut State> {
        self.connection.calls.at_mut(place).map(|call| &mut call.state)
    }

    fn remove(&mut self, place: usize) {
        self.connection.calls.remove(place);
    }

    fn buffer(&self, place: usize, at: At, i: usize) -> Option<Bytes<'_>> {
        let call = &self.connection.calls.at(place)?.data;
        match at.buffer {
            shared::IFACE => {
                let of_call = call.has_request
                    && (call.request_kind == kind::REQUEST || call.response_kind == kind::RESPONSE);
                let mut accepted = self.connection.interfaces.iter().filter(|interface| {
                    of_call && interface.is_accepted() && interface.context == call.context
                });
                accepted.nth(i).map(|interface| Bytes::made(interface.key().to_vec()))
            }
            shared::STUB_DATA => {
                let stub = call.stubs.get(at.direction.index())?;
                (!stub.is_empty()).then(|| Bytes::whole(stub))
            }
            _ => None,
        }
    }

    fn number(&self, place: usize, number: Number, _: Direction, i: usize) -> Option<i64> {
        let call = &self.connection.calls.at(place)?.data;
        match number {
            shared::OPNUM if i == 0 && call.has_request => Some(i64::from(call.operation)),
            shared::LITTLE_ENDIAN if i == 0 => Some(i64::from(call.order == Order::Little)),
            _ => None,
        }
    }

    fn record(&self, place: usize, fields: &mut Fields) {
        if let Some(call) = self.connection.calls.at(place) {
            let udp = self.carrier == Carrier::Udp;
            write(&call.data, &self.connection.interfaces, udp, fields);
        }
    }
}

fn write(call: &Call, interfaces: &Interfaces, is_udp: bool, fields: &mut Fields) {
    let mut dcerpc = Fields::default();
    let [request_done, response_done] = call.done;
    if request_done {
        dcerpc.text("request", kind_name(call.request_kind).as_bytes());
        if call.request_kind == kind::REQUEST {
            let mut request = Fields::default();
            request.number("opnum", i64::from(call.operation));
            side(call, 0, &mut request);
            dcerpc.object("req", request);
        }
        let listed = |interface: &&Interface| match call.request_kind {
            kind::REQUEST => interface.context == call.context,
            kind::BIND => interface.call == call.number,
            _ => false,
        };
        let list: Vec<Value> = interfaces.iter().filter(listed).map(describe).collect();
        if !list.is_empty() {
            dcerpc.list("interfaces", list);
        }
    } else {
        dcerpc.text("request", b"REQUEST_LOST");
    }
    if response_done {
        dcerpc.text("response", kind_name(call.response_kind).as_bytes());
        if call.response_kind == kind::RESPONSE {
            let mut response = Fields::default();
            side(call, 1, &mut response);
            dcerpc.object("res", response);
        }
    } else {
        dcerpc.text("response", b"UNREPLIED");
    }
    if !is_udp {
        dcerpc.number("call_id", i64::from(call.number));
    }
    let version = if is_udp { "4.0".to_owned() } else { format!("5.{}", call.minor) };
    dcerpc.text("rpc_version", version.as_bytes());
    fields.object("dcerpc", dcerpc);
}

fn side(call: &Call, side: usize, fields: &mut Fields) {
    let fragments = call.fragments.get(side).copied().unwrap_or_default();
    fields.number("frag_cnt", i64::from(fragments));
    let size = call.stubs.get(side).map_or(0, Vec::len);
    fields.number("stub_data_size", i64::try_from(size).unwrap_or(i64::MAX));
}

fn describe(interface: &Interface) -> Value {
    let mut fields = Fields::default();
    fields.text("uuid", interface.uuid_text().as_bytes());
    fields.text("version", format!("{}.{}", interface.version, interface.minor).as_bytes());
    if let Some(result) = interface.result {
        fields.number("ack_result", i64::from(result));
    }
    Value::Object(fields)
}
