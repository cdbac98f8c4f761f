//! Records of a newer program, as far as this one understands them: programs of several ages share
//! a log, and a page of a hundred messages is not to fail for one outcome that is new.

use gauntlet_store::record::{Event, LogRecord};
use gauntlet_verdict::Class;
use rmp_serde::Deserializer;
use serde::Deserialize;
use serde::de::IgnoredAny;

/// Kind of the event that says what was not understood.
const KIND: &str = "unreadable";

/// A map of MessagePack: its keys, each with the bytes of its value.
type Fields<'a> = Vec<(String, &'a [u8])>;

/// A stored message without the fields that cannot be read, which an event names. None if it is
/// damaged otherwise.
pub(super) fn read(stored: &[u8]) -> Option<(LogRecord, Vec<Event>)> {
    let stored = fields(stored)?;
    let value = |name: &str| stored.iter().find(|(key, _)| key == name).map(|(_, value)| *value);
    let written = fields(value("record")?)?;
    let default = rmp_serde::to_vec_named(&LogRecord::default()).ok()?;
    let mut known = fields(&default)?;
    let mut unknown: Vec<&str> = Vec::new();
    for (name, value) in &written {
        let mut with = known.clone();
        with.retain(|(key, _)| key != name);
        with.push((name.clone(), value));
        match decode(&with) {
            Some(_) => known = with,
            None => unknown.push(name),
        }
    }
    let mut record = decode(&known)?;
    if record.id.is_empty() || unknown.is_empty() {
        return None;
    }
    if unknown.contains(&"verdict") {
        // Not that of the default, which would be good mail.
        record.verdict.class = Class::Unscannable;
    }
    let events = value("events").map(rmp_serde::from_slice);
    let mut events: Vec<Event> = events.and_then(Result::ok).unwrap_or_default();
    events.push(Event {
        id: record.id.clone(),
        received_ms: record.received_ms,
        at_ms: record.received_ms,
        kind: KIND.to_owned(),
        recipient: String::new(),
        detail: format!("written by a newer program: {}", unknown.join(", ")),
    });
    Some((record, events))
}

/// The fields of a map whose keys are text.
fn fields(map: &[u8]) -> Option<Fields<'_>> {
    let (count, mut rest) = match *map {
        [first @ 0x80..=0x8f, ref rest @ ..] => (usize::from(first & 0x0f), rest),
        [0xde, a, b, ref rest @ ..] => (usize::from(u16::from_be_bytes([a, b])), rest),
        _ => return None,
    };
    let mut found = Vec::new();
    for _ in 0..count {
        let key = String::deserialize(&mut Deserializer::new(&mut rest)).ok()?;
        let before = rest;
        IgnoredAny::deserialize(&mut Deserializer::new(&mut rest)).ok()?;
        found.push((key, before.get(..before.len() - rest.len())?));
    }
    Some(found)
}

/// The record that has these fields.
fn decode(fields: &Fields<'_>) -> Option<LogRecord> {
    let mut map = vec![0xde];
    map.extend(u16::try_from(fields.len()).ok()?.to_be_bytes());
    for (name, value) in fields {
        map.extend(rmp_serde::to_vec(name).ok()?);
        map.extend_from_slice(value);
    }
    rmp_serde::from_slice(&map).ok()
}

#[cfg(test)]
mod tests {
    use gauntlet_store::record::{Delivery, Outcome};

    use super::super::StoredRef;
    use super::*;

    /// A message that was moved, as stored; the class and the outcome have other names.
    fn stored(class: &str, outcome: &str) -> Vec<u8> {
        let delivery = Delivery {
            address: "bob@example.org".to_owned(),
            outcome: Outcome::Moved,
            ..Delivery::default()
        };
        let mut record = LogRecord {
            id: "1M8".to_owned(),
            received_ms: 1_700_000_000_000,
            subject: "Lunch".to_owned(),
            deliveries: vec![delivery],
            ..LogRecord::default()
        };
        record.envelope.client_ip = "192.0.2.7".parse().ok();
        record.verdict.class = Class::Malware;
        let event = Event {
            id: "1M8".to_owned(),
            received_ms: record.received_ms,
            at_ms: record.received_ms + 5,
            kind: "moved".to_owned(),
            recipient: String::new(),
            detail: "mx2".to_owned(),
        };
        let bytes = rmp_serde::to_vec_named(&StoredRef { record: &record, events: &[event] });
        let text = |name: &str| rmp_serde::to_vec(name).unwrap();
        let bytes = replaced(&bytes.unwrap(), &text("malware"), &text(class));
        // The first one is the delivery's: events come after the record.
        replaced(&bytes, &text("moved"), &text(outcome))
    }

    fn replaced(bytes: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
        let at = bytes.windows(from.len()).position(|window| window == from).unwrap();
        [&bytes[..at], to, &bytes[at + from.len()..]].concat()
    }

    #[test]
    fn what_is_understood_of_a_newer_record_is_read_and_the_rest_named() {
        let (record, events) = read(&stored("malware", "taken by a dragon")).unwrap();
        assert_eq!((record.id.as_str(), record.subject.as_str()), ("1M8", "Lunch"));
        assert_eq!(record.envelope.client_ip, "192.0.2.7".parse().ok());
        assert_eq!((record.verdict.class, record.deliveries.len()), (Class::Malware, 0));
        assert_eq!(events.len(), 2);
        assert_eq!(events[1].detail, "written by a newer program: deliveries");
    }

    #[test]
    fn a_class_that_is_new_is_not_taken_for_good_mail() {
        let (record, events) = read(&stored("miracle", "moved")).unwrap();
        assert_eq!((record.verdict.class, record.deliveries.len()), (Class::Unscannable, 1));
        assert_eq!(events[1].detail, "written by a newer program: verdict");
    }

    #[test]
    fn damage_stays_damage() {
        let whole = stored("malware", "unheard of");
        for cut in 0..whole.len() {
            assert!(read(&whole[..cut]).is_none(), "{cut}");
        }
        assert!(read(&stored("malware", "moved")).is_none(), "it is not for what can be read");
    }
}
