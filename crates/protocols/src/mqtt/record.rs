//! The EVE record `mqtt`.

use super::wire::{Body, Connect, Packet, Property, connect, kind};
use crate::record::{Fields, Value};

/// Names of the kinds of packets, by number.
const NAMES: [&str; 16] = [
    "reserved",
    "connect",
    "connack",
    "publish",
    "puback",
    "pubrec",
    "pubrel",
    "pubcomp",
    "subscribe",
    "suback",
    "unsubscribe",
    "unsuback",
    "pingreq",
    "pingresp",
    "disconnect",
    "auth",
];

pub(super) fn write(packets: &[Packet], fields: &mut Fields) {
    let mut mqtt = Fields::default();
    for packet in packets {
        let Some(name) = NAMES.get(usize::from(packet.head.kind)).copied() else { continue };
        if packet.head.kind != 0 || matches!(packet.body, Body::TooLong(_)) {
            mqtt.object(name, describe(packet));
        }
    }
    fields.object("mqtt", mqtt);
}

fn describe(packet: &Packet) -> Fields {
    let mut fields = Fields::default();
    fields.number("qos", i64::from(packet.head.quality));
    fields.truth("retain", packet.head.is_kept);
    fields.truth("dup", packet.head.is_again);
    let mut has_properties = true;
    match &packet.body {
        Body::Connect(body) => describe_connect(body, &mut fields),
        Body::Connack(present, code) => {
            fields.truth("session_present", *present);
            fields.number("return_code", i64::from(*code));
        }
        Body::Publish(topic, number, message) => {
            fields.text("topic", topic);
            if let Some(number) = number {
                fields.number("message_id", i64::from(*number));
            }
            fields.text("message", message);
        }
        Body::Number(number, reason) => {
            fields.number("message_id", i64::from(*number));
            if let Some(reason) = reason {
                fields.number("reason_code", i64::from(*reason));
            }
        }
        Body::Topics(number, topics) => {
            fields.number("message_id", i64::from(*number));
            has_properties = packet.head.kind == kind::SUBSCRIBE;
            let topics = topics.iter().map(|(topic, quality)| {
                if !has_properties {
                    return Value::Text(String::from_utf8_lossy(topic).into_owned());
                }
                let mut fields = Fields::default();
                fields.text("topic", topic);
                fields.number("qos", i64::from(*quality));
                Value::Object(fields)
            });
            fields.list("topics", topics.collect());
        }
        Body::Codes(number, codes) => {
            fields.number("message_id", i64::from(*number));
            has_properties = false;
            let values = codes.iter().map(|code| Value::Number(i64::from(*code))).collect();
            if packet.head.kind == kind::SUBACK {
                fields.list("qos_granted", values);
            } else if !codes.is_empty() {
                fields.list("reason_codes", values);
            }
        }
        Body::Reason(reason) => {
            if let Some(reason) = reason {
                fields.number("reason_code", i64::from(*reason));
            }
        }
        Body::Empty => {}
        Body::TooLong(bytes) => {
            fields.truth("truncated", true);
            fields.number("skipped_length", i64::try_from(*bytes).unwrap_or(i64::MAX));
        }
    }
    if has_properties && !packet.properties.is_empty() {
        fields.object("properties", describe_properties(&packet.properties));
    }
    fields
}

fn describe_connect(body: &Connect, fields: &mut Fields) {
    fields.text("protocol_string", &body.protocol);
    fields.number("protocol_version", i64::from(body.version));
    fields.text("client_id", &body.client);
    let mut flags = Fields::default();
    for (name, flag) in [
        ("username", connect::USERNAME),
        ("password", connect::PASSWORD),
        ("will_retain", connect::WILL_RETAIN),
        ("will", connect::WILL),
        ("clean_session", connect::CLEAN),
    ] {
        flags.truth(name, body.flags & flag != 0);
    }
    fields.object("flags", flags);
    for (name, value) in [("username", &body.user), ("password", &body.password)] {
        if let Some(value) = value {
            fields.text(name, value);
        }
    }
    if body.flags & connect::WILL == 0 {
        return;
    }
    let mut will = Fields::default();
    for (name, value) in [("topic", &body.will_topic), ("message", &body.will_message)] {
        if let Some(value) = value {
            will.text(name, value);
        }
    }
    if !body.will_properties.is_empty() {
        will.object("properties", describe_properties(&body.will_properties));
    }
    fields.object("will", will);
}

fn describe_properties(properties: &[Property]) -> Fields {
    let mut fields = Fields::default();
    let mut named = Vec::new();
    for property in properties {
        match property {
            Property::Number(name, value) => fields.number(name, i64::from(*value)),
            Property::Text(name, value) => fields.text(name, value),
            Property::Named(name, value) => {
                let mut pair = Fields::default();
                pair.text("name", name);
                pair.text("value", value);
                named.push(Value::Object(pair));
            }
        }
    }
    if !named.is_empty() {
        fields.list("user_properties", named);
    }
    fields
}
