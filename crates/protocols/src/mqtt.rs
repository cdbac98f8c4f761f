//! MQTT 3.1, 3.1.1 and 5 over TCP. A transaction is a packet with those that answer it.

mod record;
pub mod wire;

use gauntlet_packet::Direction;

use crate::buffer::{Buffer, Bytes, Engine, Kind, Number, to_client, to_server};
use crate::parser::{At, Guess, Input, Module, Outcome, Parser, Probe, Question, Wishes};
use crate::protocol::{Carrier, Protocol};
use crate::record::Fields;
use crate::rooms;
use crate::tables::{TWO_STATES, number_row, row, transactions_in};
use crate::transaction::{Transaction, Transactions};
use wire::{Body, Connect, Defect, Head, Packet, kind};

/// The longest body that is read.
const BODY_BYTES_MAX: usize = 1024 * 1024;

/// More open transactions than this end the oldest.
const TRANSACTIONS_MAX: usize = 1024;

/// The most packets of one transaction.
const PACKETS_MAX: usize = 1024;

/// The most topics that are looked at.
const TOPICS_MAX: usize = 100;

const MISSING_CONNECT: u8 = 0;
const MISSING_PUBLISH: u8 = 1;
const MISSING_SUBSCRIBE: u8 = 2;
const MISSING_UNSUBSCRIBE: u8 = 3;
const DOUBLE_CONNECT: u8 = 4;
const UNINTRODUCED: u8 = 5;
const INVALID_QOS: u8 = 6;
const MISSING_ID: u8 = 7;
const UNASSIGNED: u8 = 8;
const TOO_MANY_TRANSACTIONS: u8 = 9;
const MALFORMED: u8 = 10;
const TOO_MANY_PACKETS: u8 = 11;

const fn buffer(place: u8) -> Buffer {
    Buffer::new(rooms::MQTT, place)
}

const fn number(place: u8) -> Number {
    Number::new(rooms::MQTT, place)
}

const UNSUBSCRIBE_TOPIC: Buffer = buffer(0);
const SUBSCRIBE_TOPIC: Buffer = buffer(1);
const PUBLISH_TOPIC: Buffer = buffer(2);
const PUBLISH_MESSAGE: Buffer = buffer(3);
const WILL_TOPIC: Buffer = buffer(4);
const WILL_MESSAGE: Buffer = buffer(5);
const USER: Buffer = buffer(6);
const PASSWORD: Buffer = buffer(7);
const PROTOCOL_NAME: Buffer = buffer(8);
const CLIENT: Buffer = buffer(9);

const TYPE: Number = number(0);
const REASON: Number = number(1);
const SESSION_PRESENT: Number = number(2);
const QOS: Number = number(3);
const VERSION: Number = number(4);
const FLAGS: Number = number(5);
const CONNECT_FLAGS: Number = number(6);

const REQUEST: &[Engine] = &[to_server(Protocol::Mqtt, 0)];
const RESPONSE: &[Engine] = &[to_client(Protocol::Mqtt, 0)];
const BOTH: &[Engine] = &[to_server(Protocol::Mqtt, 0), to_client(Protocol::Mqtt, 0)];

pub(crate) static MODULE: Module = Module {
    protocol: Protocol::Mqtt,
    events: &[
        "missing_connect",
        "missing_publish",
        "missing_subscribe",
        "missing_unsubscribe",
        "double_connect",
        "unintroduced_message",
        "invalid_qos_level",
        "missing_msg_id",
        "unassigned_msg_type",
        "too_many_transactions",
        "malformed_traffic",
        "too_many_messages",
    ],
    states: TWO_STATES,
    buffers: &[
        row(UNSUBSCRIBE_TOPIC, "mqtt.unsubscribe.topic", Kind::Multi, REQUEST),
        row(SUBSCRIBE_TOPIC, "mqtt.subscribe.topic", Kind::Multi, REQUEST),
        row(PUBLISH_TOPIC, "mqtt.publish.topic", Kind::Single, BOTH),
        row(PUBLISH_MESSAGE, "mqtt.publish.message", Kind::Single, BOTH),
        row(WILL_TOPIC, "mqtt.connect.willtopic", Kind::Single, REQUEST),
        row(WILL_MESSAGE, "mqtt.connect.willmessage", Kind::Single, REQUEST),
        row(USER, "mqtt.connect.username", Kind::Single, REQUEST),
        row(PASSWORD, "mqtt.connect.password", Kind::Single, REQUEST),
        row(PROTOCOL_NAME, "mqtt.connect.protocol_string", Kind::Single, REQUEST),
        row(CLIENT, "mqtt.connect.clientid", Kind::Single, REQUEST),
    ],
    numbers: &[
        number_row(TYPE, "mqtt.type", BOTH),
        number_row(REASON, "mqtt.reason_code", BOTH),
        number_row(SESSION_PRESENT, "mqtt.connack.session_present", RESPONSE),
        number_row(QOS, "mqtt.qos", REQUEST),
        number_row(VERSION, "mqtt.protocol_version", REQUEST),
        number_row(FLAGS, "mqtt.flags", REQUEST),
        number_row(CONNECT_FLAGS, "mqtt.connect.flags", REQUEST),
    ],
    patterns: &[],
    probes: &[Probe {
        carrier: Carrier::Tcp,
        ports: &[1883],
        direction: Direction::ToServer,
        min: 0,
        max: 16,
        to_port: Some(probe),
        from_port: Some(probe),
    }],
    accepts_gaps: false,
    first: None,
    make: |_, _| Some(Box::new(Mqtt::default())),
};

fn probe(question: &Question<'_>) -> Guess {
    match Head::read(question.bytes) {
        Ok(head) if head.kind == 0 || head.quality > 2 => Guess::No,
        Ok(_) => Guess::Yes,
        Err(Defect::Incomplete) => Guess::Unsure,
        Err(Defect::Invalid) => Guess::No,
    }
}

/// What a transaction waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wait {
    Nothing,
    Connack,
    Number(u16),
}

struct Exchange {
    packets: Vec<Packet>,
    wait: Wait,
    is_complete: bool,
}

#[derive(Default)]
struct Mqtt {
    version: u8,
    is_connected: bool,
    /// Bytes of packets that are too long, by direction.
    skip: [usize; 2],
    exchanges: Transactions<Exchange>,
}

/// Marks a packet. As in Suricata, header and data are counted from the beginning of the bytes at
/// hand, a header has two bytes, and a packet that is too long has neither.
fn mark(packet: &Packet, at: usize, len: usize, wishes: &mut Wishes) {
    if matches!(packet.body, Body::TooLong(_)) {
        return;
    }
    wishes.open_frame("pdu", at, Some(len as u64), None);
    wishes.open_frame("header", 0, Some(2), None);
    wishes.open_frame("data", 2, Some(packet.head.body_bytes as u64), None);
}

fn complete(exchange: &mut Transaction<Exchange>) {
    exchange.data.is_complete = true;
    exchange.data.wait = Wait::Nothing;
    exchange.state.progress = [1, 1];
}

impl Mqtt {
    fn make_room(&mut self) {
        if self.exchanges.len() <= TRANSACTIONS_MAX {
            return;
        }
        if let Some(old) = self.exchanges.iter_mut().find(|old| !old.data.is_complete) {
            complete(old);
            old.state.updated = [true, true];
            old.state.event(TOO_MANY_TRANSACTIONS);
        }
    }

    fn begin(&mut self, direction: Direction, packets: Vec<Packet>, wait: Wait, event: Option<u8>) {
        self.make_room();
        let exchange = Exchange { packets, wait, is_complete: wait == Wait::Nothing };
        let Some(exchange) = self.exchanges.push(exchange) else { return };
        exchange.state.touch(direction);
        let other = direction.reverse();
        exchange.state.advance(other, 1);
        if exchange.data.is_complete {
            exchange.state.progress = [1, 1];
        }
        if let Some(skip) = exchange.state.skip.get_mut(other.index()) {
            *skip = true;
        }
        if let Some(event) = event {
            exchange.state.event(event);
        }
    }

    /// The open transaction that waits for this.
    fn waiting(&mut self, wait: Wait) -> Option<&mut Transaction<Exchange>> {
        let found = self.exchanges.iter_mut().find(|exchange| exchange.data.wait == wait)?;
        found.state.updated = [true, true];
        Some(found)
    }

    fn event_of_stranger(&mut self) {
        if !self.is_connected
            && let Some(last) = self.exchanges.last_mut()
        {
            last.state.event(UNINTRODUCED);
        }
    }

    /// A packet that others may answer.
    fn request(&mut self, direction: Direction, packet: Packet, number: Option<u16>) {
        let (wait, event) = match (packet.head.quality, number) {
            (0, _) => (Some(Wait::Nothing), None),
            (1..=2, Some(number)) => (Some(Wait::Number(number)), None),
            (1..=2, None) => (None, Some(MISSING_ID)),
            _ => (None, Some(INVALID_QOS)),
        };
        self.begin(direction, vec![packet], wait.unwrap_or(Wait::Nothing), event);
        if wait.is_none()
            && let Some(last) = self.exchanges.last_mut()
        {
            // It stays open, though nothing can end it.
            last.data.is_complete = false;
            last.state.progress = [0, 0];
            last.state.advance(direction.reverse(), 1);
        }
        self.event_of_stranger();
    }

    /// A packet that answers others; `missing` is the event where there is none.
    fn answer(&mut self, direction: Direction, packet: Packet, wait: Wait, missing: u8) {
        let is_last = !matches!(packet.head.kind, kind::PUBREC | kind::PUBREL);
        let Some(exchange) = self.waiting(wait) else {
            self.begin(direction, vec![packet], Wait::Nothing, Some(missing));
            if missing != MISSING_CONNECT {
                self.event_of_stranger();
            }
            return;
        };
        if !is_last && exchange.data.packets.len() >= PACKETS_MAX {
            exchange.state.event(TOO_MANY_PACKETS);
            return;
        }
        exchange.data.packets.push(packet);
        if is_last {
            complete(exchange);
        }
    }

    fn take(&mut self, direction: Direction, packet: Packet) {
        match &packet.body {
            Body::TooLong(_) => {
                self.begin(Direction::ToClient, vec![packet], Wait::Nothing, None);
            }
            Body::Connect(connect) => {
                self.version = connect.version;
                let event = self.is_connected.then_some(DOUBLE_CONNECT);
                self.begin(direction, vec![packet], Wait::Connack, event);
            }
            Body::Connack(..) => {
                let known = self.exchanges.iter().any(|old| old.data.wait == Wait::Connack);
                self.is_connected |= known;
                self.answer(direction, packet, Wait::Connack, MISSING_CONNECT);
            }
            Body::Publish(_, number, _) => {
                let number = *number;
                self.request(direction, packet, number);
            }
            Body::Topics(number, _) => {
                let number = Some(*number);
                self.request(direction, packet, number);
            }
            Body::Number(number, _) => {
                let wait = Wait::Number(*number);
                self.answer(direction, packet, wait, MISSING_PUBLISH);
            }
            Body::Codes(number, _) => {
                let wait = Wait::Number(*number);
                let is_subscription = packet.head.kind == kind::SUBACK;
                let missing = if is_subscription { MISSING_SUBSCRIBE } else { MISSING_UNSUBSCRIBE };
                self.answer(direction, packet, wait, missing);
            }
            Body::Empty if packet.head.kind == 0 => {
                self.begin(direction, vec![packet], Wait::Nothing, Some(UNASSIGNED));
            }
            Body::Reason(_) | Body::Empty => {
                self.begin(direction, vec![packet], Wait::Nothing, None);
                self.event_of_stranger();
            }
        }
    }

    fn step_over(&mut self, direction: Direction, available: usize) -> usize {
        let Some(skip) = self.skip.get_mut(direction.index()) else { return 0 };
        let taken = (*skip).min(available);
        *skip -= taken;
        taken
    }
}

impl Parser for Mqtt {
    fn parse(&mut self, input: Input<'_>, wishes: &mut Wishes) -> Outcome {
        let direction = input.direction;
        let mut consumed = self.step_over(direction, input.bytes.len());
        while let Some(rest) = input.bytes.get(consumed..).filter(|rest| !rest.is_empty()) {
            let packet = match Packet::read(rest, self.version, BODY_BYTES_MAX) {
                Ok(packet) => packet,
                Err(Defect::Incomplete) => {
                    return Outcome::Incomplete { consumed, needed: rest.len() + 1 };
                }
                Err(Defect::Invalid) => {
                    self.begin(direction, Vec::new(), Wait::Nothing, Some(MALFORMED));
                    return Outcome::Failed;
                }
            };
            let whole = packet.head.head_bytes + packet.head.body_bytes;
            mark(&packet, consumed, whole, wishes);
            let before = self.exchanges.total();
            self.take(direction, packet);
            if self.exchanges.total() > before {
                wishes.inspect(direction);
            }
            consumed += whole.min(rest.len());
            if let Some(skip) = self.skip.get_mut(direction.index()) {
                *skip = whole.saturating_sub(rest.len());
            }
        }
        Outcome::Done
    }

    transactions_in!(exchanges);

    fn buffer(&self, place: usize, at: At, i: usize) -> Option<Bytes<'_>> {
        let packets = &self.exchanges.at(place)?.data.packets;
        let bytes = match at.buffer {
            SUBSCRIBE_TOPIC => topic(packets, kind::SUBSCRIBE, i)?,
            UNSUBSCRIBE_TOPIC => topic(packets, kind::UNSUBSCRIBE, i)?,
            other => packets.iter().find_map(|packet| match (&packet.body, other) {
                (Body::Publish(topic, ..), PUBLISH_TOPIC) => some(topic),
                (Body::Publish(.., message), PUBLISH_MESSAGE) => some(message),
                (Body::Connect(connect), _) => of_connect(connect, other),
                _ => None,
            })?,
        };
        Some(Bytes::whole(bytes))
    }

    fn number(&self, place: usize, number: Number, _: Direction, i: usize) -> Option<i64> {
        let packets = &self.exchanges.at(place)?.data.packets;
        match number {
            VERSION => (i == 0).then_some(i64::from(self.version)),
            TYPE => Some(i64::from(packets.get(i)?.head.kind)),
            QOS => Some(i64::from(packets.get(i)?.head.quality)),
            FLAGS => {
                let head = packets.get(i)?.head;
                Some(i64::from(head.is_kept) + 8 * i64::from(head.is_again))
            }
            CONNECT_FLAGS => packets
                .iter()
                .filter_map(|packet| match &packet.body {
                    Body::Connect(connect) => Some(i64::from(connect.flags)),
                    _ => None,
                })
                .nth(i),
            SESSION_PRESENT => packets
                .iter()
                .filter_map(|packet| match packet.body {
                    Body::Connack(present, _) => Some(i64::from(present)),
                    _ => None,
                })
                .nth(i),
            REASON => reason(packets, i),
            _ => None,
        }
    }

    fn record(&self, place: usize, fields: &mut Fields) {
        if let Some(exchange) = self.exchanges.at(place) {
            record::write(&exchange.data.packets, fields);
        }
    }
}

fn some(bytes: &[u8]) -> Option<&[u8]> {
    Some(bytes).filter(|bytes| !bytes.is_empty())
}

fn of_connect(connect: &Connect, buffer: Buffer) -> Option<&[u8]> {
    match buffer {
        WILL_TOPIC => some(connect.will_topic.as_ref()?),
        WILL_MESSAGE => some(connect.will_message.as_ref()?),
        USER => some(connect.user.as_ref()?),
        PASSWORD => some(connect.password.as_ref()?),
        PROTOCOL_NAME => some(&connect.protocol),
        CLIENT => some(&connect.client),
        _ => None,
    }
}

fn topic(packets: &[Packet], kind: u8, i: usize) -> Option<&[u8]> {
    let topics = packets.iter().filter(|packet| packet.head.kind == kind);
    topics
        .filter_map(|packet| match &packet.body {
            Body::Topics(_, topics) => Some(topics),
            _ => None,
        })
        .flatten()
        .take(TOPICS_MAX)
        .nth(i)
        .map(|(topic, _)| topic.as_slice())
}

/// The first packet's reason, then all codes of lists.
fn reason(packets: &[Packet], i: usize) -> Option<i64> {
    let single = packets.iter().find_map(|packet| match packet.body {
        Body::Number(_, reason) | Body::Reason(reason) => reason,
        Body::Connack(_, code) => Some(code),
        _ => None,
    });
    let codes = packets.iter().filter_map(|packet| match &packet.body {
        Body::Codes(_, codes) => Some(codes),
        _ => None,
    });
    single.into_iter().chain(codes.flatten().copied()).nth(i).map(i64::from)
}
