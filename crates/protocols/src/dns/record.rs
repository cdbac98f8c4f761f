//! EVE records of DNS messages (version 3) and of multicast DNS.

use super::names::{RECORD_TYPES, record_type, response_code};
use super::wire::{Message, Record, RecordData};
use crate::record::{Fields, Value};
use crate::text::hex;

/// Flags of the header in the order in which they are told.
const FLAGS: &[(u16, &str)] = &[
    (0x8000, "qr"),
    (0x0400, "aa"),
    (0x0200, "tc"),
    (0x0100, "rd"),
    (0x0080, "ra"),
    (0x0040, "z"),
    (0x0020, "ad"),
    (0x0010, "cd"),
];

/// The record `dns`.
pub(super) fn unicast(message: &Message, is_request: bool, id: u64, fields: &mut Fields) {
    let header = &message.header;
    let mut dns = Fields::default();
    dns.number("version", 3);
    dns.text("type", kind(is_request));
    dns.number("tx_id", i64::try_from(id).unwrap_or(i64::MAX));
    dns.number("id", i64::from(header.id));
    dns.text("flags", format!("{:x}", header.flags).as_bytes());
    for (_, name) in FLAGS.iter().take(6).filter(|(bit, _)| header.flags & bit != 0) {
        dns.truth(name, true);
    }
    dns.number("opcode", i64::from(header.opcode()));
    dns.text("rcode", response_code(header.rcode()).as_bytes());
    if !message.questions.is_empty() {
        dns.list("queries", questions(message, str::to_owned));
    }
    if !message.answers.is_empty() {
        dns.list("answers", message.answers.iter().flat_map(details).collect());
        dns.object("grouped", grouped(&message.answers));
    }
    if let Some(records) = message.authorities.as_ref().filter(|records| !records.is_empty()) {
        dns.list("authorities", records.iter().flat_map(details).collect());
    }
    let records = message.additionals.iter().flatten().filter(|record| !is_empty_option(record));
    let records: Vec<Value> = records.flat_map(details).collect();
    if !records.is_empty() {
        dns.list("additionals", records);
    }
    fields.object("dns", dns);
}

/// The record `mdns`.
pub(super) fn multicast(message: &Message, is_request: bool, fields: &mut Fields) {
    let header = &message.header;
    let mut mdns = Fields::default();
    mdns.text("type", kind(is_request));
    mdns.number("id", i64::from(header.id));
    let flags = FLAGS.iter().skip(1).filter(|(bit, _)| header.flags & bit != 0);
    let flags: Vec<Value> = flags.map(|(_, name)| Value::Text((*name).to_owned())).collect();
    if !flags.is_empty() {
        mdns.list("flags", flags);
    }
    mdns.number("opcode", i64::from(header.opcode()));
    mdns.number("rcode", i64::from(header.rcode()));
    if !message.questions.is_empty() {
        mdns.list("queries", questions(message, str::to_lowercase));
    }
    let sections = [
        ("answers", message.answers.as_slice()),
        ("authorities", message.authorities.as_deref().unwrap_or_default()),
        ("additionals", message.additionals.as_deref().unwrap_or_default()),
    ];
    for (name, records) in sections {
        let records = records.iter().filter(|record| !is_empty_option(record));
        let records: Vec<Value> = records.map(multicast_detail).collect();
        if !records.is_empty() {
            mdns.list(name, records);
        }
    }
    fields.object("mdns", mdns);
}

fn kind(is_request: bool) -> &'static [u8] {
    if is_request { b"request" } else { b"response" }
}

fn is_empty_option(record: &Record) -> bool {
    matches!(&record.data, RecordData::Options(options) if options.is_empty())
}

fn questions(message: &Message, letters: fn(&str) -> String) -> Vec<Value> {
    let one = |question: &super::wire::Question| {
        let mut fields = Fields::default();
        fields.text("rrname", &question.name);
        fields.text("rrtype", letters(&record_type(question.rrtype)).as_bytes());
        Value::Object(fields)
    };
    message.questions.iter().map(one).collect()
}

/// A record; of texts one for each string.
fn details(record: &Record) -> Vec<Value> {
    let head = || {
        let mut fields = Fields::default();
        fields.text("rrname", &record.name);
        fields.text("rrtype", record_type(record.rrtype).as_bytes());
        fields.number("ttl", i64::from(record.ttl));
        fields
    };
    if let RecordData::Text(strings) = &record.data {
        let one = |string: &Vec<u8>| {
            let mut fields = head();
            fields.text("rdata", string);
            Value::Object(fields)
        };
        return strings.iter().map(one).collect();
    }
    let mut fields = head();
    match (&record.data, data(record)) {
        (RecordData::Other(_), _) if record.rrtype != 10 => {}
        (RecordData::Soa(_), Some(value)) => fields.0.push(("soa", value)),
        (RecordData::Service { .. }, Some(value)) => fields.0.push(("srv", value)),
        (RecordData::SshFingerprint { .. }, Some(value)) => fields.0.push(("sshfp", value)),
        (RecordData::Options(_), Some(value)) => fields.0.push(("opt", value)),
        (_, Some(value)) => fields.0.push(("rdata", value)),
        (_, None) => {}
    }
    vec![Value::Object(fields)]
}

fn multicast_detail(record: &Record) -> Value {
    let mut fields = Fields::default();
    fields.text("rrname", &record.name);
    let name = lower_name(record.rrtype);
    let value = match &record.data {
        RecordData::Text(strings) => Some(Value::List(strings.iter().map(|s| text(s)).collect())),
        _ => data(record),
    };
    if let Some((name, value)) = name.zip(value) {
        fields.0.push((name, value));
    }
    Value::Object(fields)
}

/// Names of fields of multicast records; those of rare types are not told.
fn lower_name(rrtype: u16) -> Option<&'static str> {
    Some(match rrtype {
        1 => "a",
        2 => "ns",
        5 => "cname",
        6 => "soa",
        10 => "null",
        12 => "ptr",
        13 => "hinfo",
        15 => "mx",
        16 => "txt",
        28 => "aaaa",
        33 => "srv",
        41 => "opt",
        44 => "sshfp",
        46 => "rrsig",
        47 => "nsec",
        65 => "https",
        255 => "any",
        _ => return None,
    })
}

/// What a record says; `None` of texts, which say several things.
fn data(record: &Record) -> Option<Value> {
    Some(match &record.data {
        RecordData::Address(_) => Value::Text(record.data.address_text()?),
        RecordData::Name(name) | RecordData::Other(name) => text(name),
        RecordData::Soa(soa) => {
            let mut fields = Fields::default();
            fields.text("mname", &soa.primary);
            fields.text("rname", &soa.mailbox);
            fields.number("serial", i64::from(soa.serial));
            fields.number("refresh", i64::from(soa.refresh));
            fields.number("retry", i64::from(soa.retry));
            fields.number("expire", i64::from(soa.expire));
            fields.number("minimum", i64::from(soa.minimum));
            Value::Object(fields)
        }
        RecordData::Text(_) => return None,
        RecordData::Service { priority, weight, port, target } => {
            let mut fields = Fields::default();
            fields.number("priority", i64::from(*priority));
            fields.number("weight", i64::from(*weight));
            fields.number("port", i64::from(*port));
            fields.text("name", target);
            Value::Object(fields)
        }
        RecordData::SshFingerprint { algorithm, kind, fingerprint } => {
            let pairs: Vec<String> = fingerprint.iter().map(|byte| format!("{byte:02x}")).collect();
            let mut fields = Fields::default();
            fields.text("fingerprint", pairs.join(":").as_bytes());
            fields.number("algo", i64::from(*algorithm));
            fields.number("type", i64::from(*kind));
            Value::Object(fields)
        }
        RecordData::Options(options) => {
            let one = |(code, data): &(u16, Vec<u8>)| {
                let mut fields = Fields::default();
                fields.number("code", i64::from(*code));
                fields.text("data", hex(data).as_bytes());
                Value::Object(fields)
            };
            Value::List(options.iter().map(one).collect())
        }
    })
}

/// What the answers of each type say.
fn grouped(records: &[Record]) -> Fields {
    let mut groups = Fields::default();
    for (rrtype, name) in RECORD_TYPES {
        let mut values = Vec::new();
        for record in records.iter().filter(|record| record.rrtype == *rrtype) {
            match &record.data {
                RecordData::Text(strings) => values.extend(strings.iter().map(|s| text(s))),
                RecordData::Options(_) => {}
                RecordData::Other(_) if *rrtype != 10 => {}
                _ => values.extend(data(record)),
            }
        }
        if !values.is_empty() {
            groups.list(name, values);
        }
    }
    groups
}

fn text(bytes: &[u8]) -> Value {
    Value::Text(String::from_utf8_lossy(bytes).into_owned())
}
