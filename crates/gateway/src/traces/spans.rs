//! Spans of a message, as OpenTelemetry's protocol has them in JSON ([OTLP
//! 1.3](https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding): ids in hexadecimal
//! digits, 64-bit numbers as text).
//!
//! ```text
//! message ─┬─ received   from DATA to its end
//!          ├─ waited     for a scan thread
//!          ├─ scanned    attributes: what each filter cost
//!          ├─ decided    by the policy
//!          ├─ spooled    durable
//!          └─ delivery   one for each address, when it is over
//! ```

use gauntlet_store::{Delivery, LogRecord, Outcome};
use serde_json::{Value, json};

/// `SPAN_KIND_INTERNAL`, `_SERVER` and `_CLIENT`.
const KINDS: [u8; 3] = [1, 2, 3];
/// `STATUS_CODE_ERROR`.
const STATUS_ERROR: u8 = 2;
/// Rules that a span names at most.
const RULES_MAX: usize = 20;

/// The trace of a message, in 32 hexadecimal digits: the same for the same node and id.
pub fn trace_id(node: &str, id: &str) -> String {
    hex(node, id, "", 32)
}

/// Digits of an id that follows from its names.
fn hex(node: &str, id: &str, part: &str, digits: usize) -> String {
    let mut hash = blake3::Hasher::new();
    for name in [node, id, part] {
        hash.update(&(name.len() as u64).to_le_bytes());
        hash.update(name.as_bytes());
    }
    hash.finalize().to_hex().chars().take(digits).collect()
}

/// The spans of a message until it was logged.
pub(super) fn of_stages(node: &str, record: &LogRecord) -> Vec<Value> {
    let spans = Spans { node, record };
    let end_us = record.stages.iter().map(|stage| stage.at_us).max().unwrap_or(0);
    let end_us = end_us.max(u64::from(record.latency_ms) * 1_000);
    let mut all = vec![spans.root(end_us)];
    let mut begin_us = 0;
    for (number, stage) in record.stages.iter().enumerate() {
        let mut attributes = Vec::new();
        if !stage.detail.is_empty() {
            attributes.push(text("gauntlet.detail", &stage.detail));
        }
        if stage.name == "scanned" {
            attributes.extend(record.verdict.costs.iter().map(|cost| {
                let name = format!("gauntlet.cost_us.{}", cost.filter);
                json!({ "key": name, "value": { "doubleValue": f64::from(cost.micros) } })
            }));
        }
        let part = format!("stage {number}");
        let times = (begin_us, stage.at_us.max(begin_us));
        all.push(spans.child(&part, (&stage.name, KINDS[0]), times, &attributes));
        begin_us = times.1;
    }
    all
}

/// The span of a delivery that is over.
pub(super) fn of_delivery(node: &str, record: &LogRecord, delivery: &Delivery) -> Value {
    let spans = Spans { node, record };
    let begin_us = record.stages.iter().map(|stage| stage.at_us).max().unwrap_or(0);
    let since_ms = delivery.at_ms.saturating_sub(record.received_ms).max(0).cast_unsigned();
    let times = (begin_us, begin_us.max(since_ms * 1_000));
    let attributes = vec![
        text("gauntlet.outcome", delivery.outcome.name()),
        text("gauntlet.next_hop", &delivery.next_hop),
        number("gauntlet.attempts", u64::from(delivery.attempts)),
    ];
    let part = format!("delivery {}", delivery.address);
    let mut span = spans.child(&part, ("delivery", KINDS[2]), times, &attributes);
    if delivery.outcome == Outcome::Failed
        && let Some(fields) = span.as_object_mut()
    {
        fields.insert("status".to_owned(), json!({ "code": STATUS_ERROR }));
    }
    span
}

/// All spans of a batch in one request.
pub(super) fn request(node: &str, spans: &[Value]) -> Value {
    let attributes = [
        text("service.name", "gauntlet"),
        text("service.version", env!("CARGO_PKG_VERSION")),
        text("service.instance.id", node),
        text("host.name", node),
    ];
    json!({ "resourceSpans": [{
        "resource": { "attributes": attributes },
        "scopeSpans": [{ "scope": { "name": "gauntlet.message" }, "spans": spans }],
    }] })
}

/// What makes spans of one message.
struct Spans<'r> {
    node: &'r str,
    record: &'r LogRecord,
}

impl Spans<'_> {
    fn root(&self, end_us: u64) -> Value {
        let record = self.record;
        let (envelope, verdict) = (&record.envelope, &record.verdict);
        let mut attributes = vec![
            text("gauntlet.id", &record.id),
            text("gauntlet.class", verdict.class.name()),
            json!({ "key": "gauntlet.score", "value": { "doubleValue": verdict.score } }),
            number("gauntlet.bytes", record.size),
            number("gauntlet.recipients", envelope.rcpt_to.len() as u64),
            text("gauntlet.ruleset", &verdict.ruleset),
        ];
        let rules = verdict.hits.iter().take(RULES_MAX);
        let rules: Vec<Value> = rules.map(|hit| json!({ "stringValue": &*hit.rule })).collect();
        attributes.push(json!({
            "key": "gauntlet.rules", "value": { "arrayValue": { "values": rules } },
        }));
        if let Some(ip) = envelope.client_ip {
            attributes.push(text("client.address", &ip.to_string()));
        }
        let mut actions: Vec<&str> =
            record.dispositions.iter().map(|disposition| disposition.end.name()).collect();
        actions.sort_unstable();
        actions.dedup();
        attributes.push(text("gauntlet.action", &actions.join(" ")));
        self.span("message", ("message", KINDS[1]), (0, end_us), &attributes)
    }

    fn child(&self, part: &str, of: (&str, u8), times: (u64, u64), attributes: &[Value]) -> Value {
        let mut span = self.span(part, of, times, attributes);
        if let Some(fields) = span.as_object_mut() {
            let parent = hex(self.node, &self.record.id, "message", 16);
            fields.insert("parentSpanId".to_owned(), json!(parent));
        }
        span
    }

    /// Times are microseconds since the message began to come.
    fn span(
        &self,
        part: &str,
        (name, kind): (&str, u8),
        times: (u64, u64),
        attributes: &[Value],
    ) -> Value {
        let begin_ns = u128::from(self.record.received_ms.max(0).cast_unsigned()) * 1_000_000;
        let at = |us: u64| (begin_ns + u128::from(us) * 1_000).to_string();
        json!({
            "traceId": trace_id(self.node, &self.record.id),
            "spanId": hex(self.node, &self.record.id, part, 16),
            "name": name,
            "kind": kind,
            "startTimeUnixNano": at(times.0),
            "endTimeUnixNano": at(times.1),
            "attributes": attributes,
        })
    }
}

fn text(key: &str, value: &str) -> Value {
    json!({ "key": key, "value": { "stringValue": value } })
}

fn number(key: &str, value: u64) -> Value {
    json!({ "key": key, "value": { "intValue": value.to_string() } })
}

#[cfg(test)]
mod tests {
    use gauntlet_store::Stage;

    use super::*;

    fn record() -> LogRecord {
        let stage =
            |name: &str, at_us| Stage { name: name.to_owned(), at_us, detail: String::new() };
        LogRecord {
            id: "one".to_owned(),
            received_ms: 1_700_000_000_000,
            latency_ms: 9,
            stages: vec![
                stage("received", 1_000),
                stage("scanned", 3_500),
                stage("spooled", 4_000),
            ],
            ..LogRecord::default()
        }
    }

    #[test]
    fn stages_follow_each_other_below_the_message() {
        let spans = of_stages("mx1.test", &record());
        let names: Vec<&str> = spans.iter().filter_map(|s| s["name"].as_str()).collect();
        assert_eq!(names, ["message", "received", "scanned", "spooled"]);
        assert_eq!(spans[2]["startTimeUnixNano"], "1700000000001000000");
        assert_eq!(spans[2]["endTimeUnixNano"], "1700000000003500000");
        assert_eq!(spans[0]["endTimeUnixNano"], "1700000000009000000");
        assert!(spans[1..].iter().all(|span| span["parentSpanId"] == spans[0]["spanId"]));
        assert!(spans.iter().all(|s| s["traceId"] == trace_id("mx1.test", "one").as_str()));
        let ids: std::collections::BTreeSet<&str> =
            spans.iter().filter_map(|s| s["spanId"].as_str()).collect();
        assert_eq!(ids.len(), 4);
        assert_ne!(trace_id("mx1.test", "one"), trace_id("mx2.test", "one"));
    }

    #[test]
    fn a_delivery_that_failed_is_an_error_and_times_never_run_backwards() {
        let delivery = Delivery {
            address: "bob@example.net".to_owned(),
            outcome: Outcome::Failed,
            at_ms: 1_600_000_000_000,
            attempts: 3,
            ..Delivery::default()
        };
        let span = of_delivery("mx1.test", &record(), &delivery);
        assert_eq!(span["status"]["code"], 2);
        assert_eq!(span["startTimeUnixNano"], span["endTimeUnixNano"]);
        let request = request("mx1.test", &[span]).to_string();
        assert!(!request.contains("bob@example.net"), "addresses stay here: {request}");
    }
}
