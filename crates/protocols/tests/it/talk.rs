//! Conversations of all protocols but HTTP, and what tests ask them.

use std::sync::Arc;

use gauntlet_packet::Direction;
use gauntlet_protocols::{
    Buffer, Carrier, Conversation, Event, Expectation, Flow, Kind, Number, Orders, Settings, Value,
};

/// The most items of a buffer that are asked for.
const ITEMS_MAX: usize = 64;

/// A conversation with what it ordered.
pub(super) struct Talk {
    pub(super) conversation: Conversation,
    pub(super) orders: Vec<Orders>,
    carrier: Carrier,
}

impl Talk {
    /// One over TCP.
    pub(super) fn tcp(port: u16) -> Self {
        Self::new(Carrier::Tcp, port, &[])
    }

    /// One over UDP.
    pub(super) fn udp(port: u16) -> Self {
        Self::new(Carrier::Udp, port, &[])
    }

    pub(super) fn new(carrier: Carrier, port: u16, set: &[(&str, &str)]) -> Self {
        let mut settings = Settings::default();
        for (name, value) in set {
            let key = format!("app-layer.protocols.{name}");
            assert!(settings.set(&key, value), "{name} is a setting");
        }
        let flow = Flow { carrier, ports: (40_000, port), midstream: false, inline: false };
        let conversation = Conversation::new(Arc::new(settings), flow);
        Self { conversation, orders: Vec::new(), carrier }
    }

    /// The client or the server says something.
    pub(super) fn say(&mut self, way: Direction, bytes: &[u8]) -> &mut Self {
        let orders = match self.carrier {
            Carrier::Tcp => self.conversation.data(way, bytes, false),
            Carrier::Udp => self.conversation.datagram(way, bytes),
        };
        self.orders.push(orders);
        self
    }

    /// Nothing more comes in either direction.
    pub(super) fn end(&mut self) -> &mut Self {
        for way in [Direction::ToServer, Direction::ToClient] {
            self.conversation.data(way, b"", true);
        }
        self
    }

    pub(super) fn protocol(&self) -> &'static str {
        self.conversation.protocol().map_or("none", |protocol| protocol.name())
    }

    /// The items of a buffer.
    pub(super) fn texts(&self, place: usize, name: &str, way: Direction) -> Vec<String> {
        let buffer = Buffer::of_keyword(name).unwrap_or_else(|| panic!("{name} is a buffer"));
        let text = |i| {
            let bytes = self.conversation.buffer(place, buffer, way, i)?;
            Some(String::from_utf8_lossy(&bytes.data).into_owned())
        };
        let is_single = buffer.spec().kind == Kind::Single;
        let most = if is_single { 1 } else { ITEMS_MAX };
        let count = self.conversation.buffers(place, buffer, way).unwrap_or(most);
        (0..count).map_while(text).collect()
    }

    /// The values of a number.
    pub(super) fn numbers(&self, place: usize, name: &str, way: Direction) -> Vec<i64> {
        let number = Number::of_keyword(name).unwrap_or_else(|| panic!("{name} is a number"));
        (0..16).map_while(|i| self.conversation.number(place, number, way, i)).collect()
    }

    /// Names of a transaction's events.
    pub(super) fn events(&self, place: usize) -> Vec<&'static str> {
        let state = self.conversation.state(place).expect("there is such a transaction");
        let protocol = self.conversation.protocol().expect("it is known");
        let name = |number: &u8| Event { protocol, number: *number }.name();
        state.events.iter().map(name).collect()
    }

    /// A field of a transaction's record, by its path.
    pub(super) fn field(&self, place: usize, path: &str) -> Option<String> {
        let mut value = Value::Object(self.conversation.record(place));
        for name in path.split('.') {
            value = match value {
                Value::Object(fields) => fields.0.into_iter().find(|(n, _)| *n == name)?.1,
                Value::List(list) => list.into_iter().nth(name.parse().ok()?)?,
                _ => return None,
            };
        }
        Some(match value {
            Value::Text(text) => text,
            Value::Number(number) => number.to_string(),
            Value::Bool(truth) => truth.to_string(),
            other => format!("{other:?}"),
        })
    }

    /// Connections that were announced.
    pub(super) fn expected(&self) -> Vec<Expectation> {
        self.orders.iter().flat_map(|orders| orders.wishes.expected.clone()).collect()
    }
}
