//! What is counted of each channel of a node.

use std::collections::BTreeMap;
use std::fmt::Write;

/// What is counted of a channel, and how it is.
#[derive(Debug, Clone, Default)]
pub(super) struct Status {
    /// When it is pulled next; 0: not yet thought of.
    pub(super) next_s: i64,
    pub(super) version: u64,
    pub(super) failures: u32,
    pub(super) error: String,
    pub(super) pulls: u64,
    pub(super) pulls_failed: u64,
    pub(super) bytes: u64,
    pub(super) taken_over: u64,
    pub(super) rejected: u64,
    pub(super) rolled_back: u64,
    pub(super) asked_s: i64,
    /// Time of the last take-over, from the compiled version to the swap.
    pub(super) swap_ms: u64,
    /// The same from the first request to the mirror on, of a version that was not tried first.
    pub(super) take_over_ms: u64,
    /// Length of the journal of corrections when it was read last.
    pub(super) journal_bytes: u64,
}

/// A family of metrics: name, help, kind, and its value of a channel.
type Family = (&'static str, &'static str, &'static str, fn(&Status) -> u64);

const FAMILIES: [Family; 11] = [
    ("version", "Version of the channel that judges; 0: none", "gauge", |s| s.version),
    ("pulls_total", "Looks for a new version of the channel", "counter", |s| s.pulls),
    ("pulls_failed_total", "Looks for a new version that failed", "counter", |s| s.pulls_failed),
    ("bytes_total", "Bytes fetched of the channel", "counter", |s| s.bytes),
    ("taken_over_total", "Versions that judged after the one before", "counter", |s| s.taken_over),
    (
        "rejected_total",
        "Versions that did not judge: they failed a check or their trial",
        "counter",
        |s| s.rejected,
    ),
    ("rolled_back_total", "Versions that were taken back", "counter", |s| s.rolled_back),
    ("failures", "Looks that failed one after the other", "gauge", |s| s.failures as u64),
    ("asked_seconds", "When the mirror was asked last, in seconds since 1970", "gauge", |s| {
        s.asked_s.max(0).cast_unsigned()
    }),
    ("swap_milliseconds", "Time of the last swap, from compiled to judging", "gauge", |s| {
        s.swap_ms
    }),
    ("take_over_milliseconds", "The same from the first request to the mirror on", "gauge", |s| {
        s.take_over_ms
    }),
];

/// The lines of `/metrics`.
pub(super) fn metrics(all: &BTreeMap<String, Status>) -> String {
    let mut text = String::new();
    for (name, help, kind, value) in FAMILIES {
        if !all.is_empty() {
            let name = format!("gauntlet_channel_{name}");
            // Writing to a String cannot fail.
            let _written = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        }
        for (channel, status) in all {
            let value = value(status);
            let line = format!("gauntlet_channel_{name}{{channel=\"{channel}\"}} {value}\n");
            text.push_str(&line);
        }
    }
    text
}
