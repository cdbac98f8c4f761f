//! What the spool keeps of a message's progress, beside what was written when it was accepted: the
//! outcomes so far, and when it had become durable, which nobody knew yet when it was written.

use std::borrow::Cow;

use gauntlet_store::{Delivery, LogRecord, Stage};
use serde::{Deserialize, Serialize};

/// Name of the stage that ends when a message is durable.
const SPOOLED: &str = "spooled";

/// The state of a message in the spool, as JSON.
#[derive(Debug, Serialize, Deserialize)]
struct Saved<'a> {
    deliveries: Cow<'a, [Delivery]>,
    /// End of the stage `spooled` in microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    spooled_us: Option<u64>,
    #[serde(default)]
    latency_ms: u32,
    /// It is on its way to another node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    leaving: Option<Leaving>,
}

/// What a node remembers of a message that it hands to another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Leaving {
    /// Name of the other node.
    pub to: String,
    /// When something was to be done with the message here, Unix milliseconds.
    pub due_ms: i64,
}

/// The state of a message that has got as far as its record says.
pub(super) fn encode(record: &LogRecord) -> Vec<u8> {
    encode_leaving(record, None)
}

/// The same of one that is on its way to another node.
pub(super) fn encode_leaving(record: &LogRecord, leaving: Option<Leaving>) -> Vec<u8> {
    let spooled = record.stages.iter().find(|stage| stage.name == SPOOLED);
    let saved = Saved {
        deliveries: Cow::Borrowed(&record.deliveries),
        spooled_us: spooled.map(|stage| stage.at_us),
        latency_ms: record.latency_ms,
        leaving,
    };
    // Numbers, names and texts can always be encoded.
    serde_json::to_vec(&saved).unwrap_or_default()
}

/// To which node the message of this state is on its way; none if it is not.
pub(super) fn leaving(state: Option<&[u8]>) -> Option<Leaving> {
    state.and_then(decode)?.leaving
}

/// Adds what the spool keeps to a record as it was accepted, for this many addresses. A state of
/// other addresses cannot be applied: the message counts as untried.
pub(super) fn apply(state: Option<&[u8]>, targets: usize, record: &mut LogRecord) {
    let saved = state.and_then(decode).filter(|saved| saved.deliveries.len() == targets);
    let Some(saved) = saved else { return add_unknown_time(record) };
    record.deliveries = saved.deliveries.into_owned();
    let is_new = !record.stages.iter().any(|stage| stage.name == SPOOLED);
    if let Some(at_us) = saved.spooled_us.filter(|_| is_new) {
        record.stages.push(Stage { name: SPOOLED.to_owned(), at_us, detail: String::new() });
        record.latency_ms = saved.latency_ms;
    }
}

/// States of before 2026-11-24 are the outcomes alone.
fn decode(state: &[u8]) -> Option<Saved<'static>> {
    serde_json::from_slice(state).ok().or_else(|| {
        let deliveries: Vec<Delivery> = serde_json::from_slice(state).ok()?;
        Some(Saved {
            deliveries: deliveries.into(),
            spooled_us: None,
            latency_ms: 0,
            leaving: None,
        })
    })
}

/// The process ended before anything was saved: the message is durable, but since when is lost.
fn add_unknown_time(record: &mut LogRecord) {
    let Some(last) = record.stages.last().filter(|_| record.is_received()) else { return };
    if record.stages.iter().any(|stage| stage.name == SPOOLED) {
        return;
    }
    let detail = "or later: the node ended before it was noted".to_owned();
    let stage = Stage { name: SPOOLED.to_owned(), at_us: last.at_us, detail };
    record.stages.push(stage);
}

#[cfg(test)]
mod tests {
    use gauntlet_store::Outcome;

    use super::*;

    fn stage(name: &str, at_us: u64) -> Stage {
        Stage { name: name.to_owned(), at_us, detail: String::new() }
    }

    fn accepted() -> LogRecord {
        LogRecord { stages: vec![stage("decided", 50)], ..LogRecord::default() }
    }

    fn outcomes() -> Vec<Delivery> {
        let delivery = |outcome| Delivery { outcome, attempts: 2, ..Delivery::default() };
        vec![delivery(Outcome::Delivered), delivery(Outcome::Queued)]
    }

    #[test]
    fn what_is_saved_is_found_again() {
        let mut record = accepted();
        record.stages.push(stage("spooled", 70));
        record.latency_ms = 3;
        record.deliveries = outcomes();
        let state = encode(&record);
        let mut read = accepted();
        apply(Some(&state), 2, &mut read);
        assert_eq!(read, record);
        for length in 0..state.len() {
            let mut cut = accepted();
            apply(Some(&state[..length]), 2, &mut cut);
            assert!(cut.deliveries.is_empty(), "{length} bytes of a state are none");
        }
    }

    #[test]
    fn states_of_before_are_understood() {
        let state = serde_json::to_vec(&outcomes()).unwrap();
        let mut read = accepted();
        apply(Some(&state), 2, &mut read);
        assert_eq!(read.deliveries, outcomes());
    }

    #[test]
    fn what_another_node_handed_over_keeps_its_stages_and_says_where_it_goes() {
        let mut record = accepted();
        record.stages.push(stage("spooled", 70));
        record.deliveries = outcomes();
        let mut read = record.clone();
        apply(None, 2, &mut read);
        assert_eq!(read, record);
        let to = Leaving { to: "mx2.example".to_owned(), due_ms: 9 };
        let state = encode_leaving(&record, Some(to.clone()));
        apply(Some(&state), 2, &mut read);
        assert_eq!(read, record);
        assert_eq!(leaving(Some(&state)), Some(to));
        assert_eq!(leaving(Some(&encode(&record))), None);
        assert_eq!(leaving(None), None);
    }

    #[test]
    fn a_state_of_other_addresses_is_not_applied() {
        let mut read = accepted();
        let tried = LogRecord { deliveries: outcomes(), ..accepted() };
        apply(Some(&encode(&tried)), 3, &mut read);
        assert!(read.deliveries.is_empty());
        assert_eq!((read.stages[1].name.as_str(), read.stages[1].at_us), ("spooled", 50));
        assert!(read.stages[1].detail.starts_with("or later"));
        let mut own = LogRecord::default();
        apply(None, 1, &mut own);
        assert!(own.stages.is_empty(), "the node's own mail has no stages");
    }
}
