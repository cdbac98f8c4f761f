//! The alerts of a capture beside those that Suricata wrote about it: what `gauntlet ips rules
//! parity` prints.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{Options, ReplayError, Replayer, Summary};

/// Longest line of the reference, in bytes: a record with a whole body has some megabytes.
const LINE_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Why there was nothing to compare.
#[derive(Debug, thiserror::Error)]
pub enum ParityError {
    /// The capture or the rules.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// The records could not be read.
    #[error("cannot read {0}: {1}")]
    Read(PathBuf, std::io::Error),
    /// A line is no record.
    #[error("{0}:{1}: {2}; a file of EVE has one JSON object a line")]
    Record(PathBuf, usize, String),
    /// No line is an alert, nor any other event.
    #[error("{0} has no events; it should be the eve.json that Suricata wrote about this capture")]
    Empty(PathBuf),
}

/// By what two alerts count as the same, beside the rule and both ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// Number and time of the packet, action, application protocol and transaction.
    Packet,
    /// The time of the packet alone: the records are of live traffic, without numbers.
    Time,
}

/// How the alerts agree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parity {
    /// What was replayed.
    pub summary: Summary,
    /// By what they were compared.
    pub key: Key,
    /// Alerts of the reference.
    pub expected: u64,
    /// Ours.
    pub found: u64,
    /// In both.
    pub same: u64,
    /// Rules with alerts that only one side has, those with most first.
    pub differing: Vec<RuleParity>,
}

impl Parity {
    /// Whether all alerts are the same.
    pub fn is_equal(&self) -> bool {
        self.same == self.expected && self.same == self.found
    }
}

/// Alerts of a rule that only one side has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RuleParity {
    /// `gid:sid`.
    pub rule: String,
    /// Its message.
    pub title: String,
    /// Of the reference alone.
    pub missing: u64,
    /// Of ours alone.
    pub ours_alone: u64,
    /// The first that is missing, or ours alone: packet, time, ends.
    pub example: String,
}

/// Replays a capture and compares its alerts with those of `reference`, a file of EVE records.
///
/// # Errors
///
/// If anything cannot be read.
pub fn parity(capture: &Path, options: &Options, reference: &Path) -> Result<Parity, ParityError> {
    let expected = read(reference)?;
    let is_numbered = expected.is_empty() || expected.iter().any(|alert| alert.has_number);
    let key = if is_numbered { Key::Packet } else { Key::Time };
    let mut found = Vec::new();
    let summary = Replayer::new(options)?.run(capture, &mut |line| {
        found.extend(serde_json::from_str(line).ok().and_then(|record| Alert::of(&record)));
    })?;
    let mut differing: BTreeMap<String, RuleParity> = BTreeMap::new();
    let mut left: BTreeMap<String, Vec<&Alert>> = BTreeMap::new();
    for alert in &expected {
        left.entry(alert.key(key)).or_default().push(alert);
    }
    let mut same = 0;
    let mut differ = |alert: &Alert, is_ours: bool| {
        let of_rule = differing.entry(alert.rule.clone()).or_default();
        of_rule.rule.clone_from(&alert.rule);
        of_rule.title.clone_from(&alert.title);
        of_rule.missing += u64::from(!is_ours);
        of_rule.ours_alone += u64::from(is_ours);
        if of_rule.example.is_empty() {
            of_rule.example = alert.example();
        }
    };
    for alert in &found {
        match left.get_mut(&alert.key(key)).and_then(Vec::pop) {
            Some(_) => same += 1,
            None => differ(alert, true),
        }
    }
    left.values().flatten().for_each(|alert| differ(alert, false));
    let mut differing: Vec<RuleParity> = differing.into_values().collect();
    differing.sort_by_key(|rule| std::cmp::Reverse(rule.missing + rule.ours_alone));
    let (expected, found) = (expected.len() as u64, found.len() as u64);
    Ok(Parity { summary, key, expected, found, same, differing })
}

/// An alert of either side.
struct Alert {
    rule: String,
    title: String,
    has_number: bool,
    /// Packet number, time.
    place: [String; 2],
    ends: String,
    /// Action, application protocol, transaction.
    more: String,
}

impl Alert {
    /// Of a record, if it is one of an alert.
    fn of(record: &Value) -> Option<Self> {
        // Fields of alerts may also stand beside those of the packet.
        let alert = record.get("alert").filter(|alert| alert.is_object()).unwrap_or(record);
        let text = |value: &Value| match value {
            Value::Null => "-".to_owned(),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let end = |address: &str, port: &str| {
            format!("{}:{}", text(&record[address]), text(&record[port]))
        };
        let sid = alert.get("signature_id").or_else(|| alert.get("sid"))?;
        let gid = alert.get("gid").map_or("1".to_owned(), text);
        Some(Self {
            rule: format!("{gid}:{}", text(sid)),
            title: alert["signature"].as_str().unwrap_or_default().to_owned(),
            has_number: record["pcap_cnt"].is_u64(),
            place: [text(&record["pcap_cnt"]), text(&record["timestamp"])],
            ends: format!(
                "{} {} -> {}",
                text(&record["proto"]),
                end("src_ip", "src_port"),
                end("dest_ip", "dest_port")
            ),
            more: format!(
                "{} {} {}",
                text(&alert["action"]),
                text(&record["app_proto"]),
                text(&record["tx_id"])
            ),
        })
    }

    fn key(&self, key: Key) -> String {
        let Self { rule, ends, more, place: [number, time], .. } = self;
        match key {
            Key::Packet => format!("{rule} {ends} {number} {time} {more}"),
            Key::Time => format!("{rule} {ends} {time}"),
        }
    }

    fn example(&self) -> String {
        let [number, time] = &self.place;
        format!("packet {number}, {time}, {}, {}", self.ends, self.more)
    }
}

/// Alerts of a file of records; other events are passed over.
fn read(file: &Path) -> Result<Vec<Alert>, ParityError> {
    let unreadable = |error| ParityError::Read(file.to_owned(), error);
    let mut reader = BufReader::new(File::open(file).map_err(unreadable)?);
    let (mut alerts, mut line, mut number) = (Vec::new(), Vec::new(), 0);
    let mut has_events = false;
    loop {
        line.clear();
        let count = reader.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line);
        if count.map_err(unreadable)? == 0 {
            break;
        }
        number += 1;
        let wrong = |why: String| ParityError::Record(file.to_owned(), number, why);
        if line.len() as u64 == LINE_BYTES_MAX {
            return Err(wrong(format!("the line is longer than {LINE_BYTES_MAX} bytes")));
        }
        if line.trim_ascii().is_empty() {
            continue;
        }
        let record: Value = serde_json::from_slice(&line).map_err(|e| wrong(e.to_string()))?;
        has_events |= record.is_object();
        alerts.extend(Alert::of(&record));
    }
    // A capture without alerts has other events, or was at least told of by `stats`.
    if has_events { Ok(alerts) } else { Err(ParityError::Empty(file.to_owned())) }
}
