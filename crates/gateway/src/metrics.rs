//! What the node counts, as Prometheus reads it.

use std::fmt::Write;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

/// A number that only rises.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds one event to the count.
    pub fn add_one(&self) {
        self.add(1);
    }

    /// Counts `n` events, or `n` bytes of one.
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    /// What was counted since the start.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A number that rises and falls.
#[derive(Debug, Default)]
pub struct Gauge(AtomicI64);

impl Gauge {
    /// Adds `n`, which may be negative.
    pub fn add(&self, n: i64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    /// The value, never below 0.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed).max(0).cast_unsigned()
    }
}

/// Upper bounds of a histogram's buckets, in microseconds.
const BOUNDS_US: [u64; 14] = [
    100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 1_000_000,
    5_000_000, 30_000_000,
];

/// Durations by bucket, with their sum and number, as Prometheus wants them.
#[derive(Debug, Default)]
pub struct Histogram {
    buckets: [AtomicU64; BOUNDS_US.len()],
    sum_us: AtomicU64,
    count: AtomicU64,
}

impl Histogram {
    /// Counts a duration in its bucket; microseconds are its resolution.
    pub fn record(&self, duration: Duration) {
        let us = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        let index = BOUNDS_US.partition_point(|bound| *bound < us);
        if let Some(bucket) = self.buckets.get(index) {
            bucket.fetch_add(1, Ordering::Relaxed);
        }
        self.sum_us.fetch_add(us, Ordering::Relaxed);
        self.count.fetch_add(1, Ordering::Relaxed);
    }
}

/// Everything that is counted, one field a line of `/metrics`.
#[derive(Debug, Default)]
pub struct Metrics {
    /// Connections accepted by the listeners for mail.
    pub connections: Counter,
    /// Connections refused for a limit.
    pub connections_refused: Counter,
    /// Sessions closed to make room for others.
    pub evicted: Counter,
    /// Bodies given up because they came too slowly.
    pub slow_bodies: Counter,
    /// Bodies that went to disk while they came.
    pub disk_bodies: Counter,
    /// TLS handshakes with clients that ended well.
    pub tls_sessions: Counter,
    /// Sessions that are open now.
    pub sessions: Gauge,
    /// Messages accepted with 250.
    pub accepted: Counter,
    /// Bytes of the messages that were accepted.
    pub accepted_bytes: Counter,
    /// Messages refused with 5xx after their body.
    pub rejected: Counter,
    /// Messages that listeners for traps took.
    pub trapped: Counter,
    /// Messages answered with 4xx after their body.
    pub answered_later: Counter,
    /// Messages that came over the scan pool's limit.
    pub scan_overload: Counter,
    /// Messages refused for now because too many waited for the quarantine.
    pub hold_overload: Counter,
    /// Scans that gave no verdict, by a failure.
    pub scan_failed: Counter,
    /// Bodies refused for want of memory or disk.
    pub no_room: Counter,
    /// Messages deferred for a rate.
    pub rate_limited: Counter,
    /// Recipients deferred by greylisting.
    pub greylisted: Counter,
    /// Sessions closed for bare CR, LF or NUL.
    pub smuggling: Counter,
    /// Messages handed to the next hop inside the client's session.
    pub cut_through: Counter,
    /// Recipients whose message the next hop or the Maildir took.
    pub delivered: Counter,
    /// Attempts after which a recipient waits for the next one.
    pub deferred: Counter,
    /// Recipients given up, by a 5xx or by age.
    pub failed: Counter,
    /// Recipients put into quarantine.
    pub quarantined: Counter,
    /// Recipients dropped as the policy said.
    pub discarded: Counter,
    /// Reports of failure (DSNs) sent to senders.
    pub bounces: Counter,
    /// Nanoseconds that threads for sockets worked for sessions and services.
    pub receiving_ns: Counter,
    /// Of that, those in which they judged small messages.
    pub judging_ns: Counter,
    /// Nanoseconds that threads for sockets worked for connections to next hops.
    pub passing_on_ns: Counter,
    /// Messages on their way in memory.
    pub active: Gauge,
    /// Bytes of bodies being received.
    pub body_bytes: Gauge,
    /// Time from the end of a body to its answer.
    pub answer_time: Histogram,
    /// Time to gather facts.
    pub facts_time: Histogram,
    /// Time in the engine and policy.
    pub scan_time: Histogram,
    /// Time until the spool was durable.
    pub spool_time: Histogram,
    /// Time from reception to the first final outcome.
    pub delivery_time: Histogram,
}

impl Metrics {
    /// The metrics in Prometheus' text format.
    pub fn render(&self) -> String {
        let mut text = String::new();
        for (name, help, counter) in self.counters().into_iter().chain(self.times()) {
            line(&mut text, name, help, "counter", counter.get());
        }
        for (name, help, gauge) in self.gauges() {
            line(&mut text, name, help, "gauge", gauge.get());
        }
        for (name, help, histogram) in self.histograms() {
            distribution(&mut text, name, help, histogram);
        }
        text
    }

    /// Name and help text of each. A help text stands alone.
    fn counters(&self) -> Vec<(&'static str, &'static str, &Counter)> {
        vec![
            ("connections_total", "SMTP connections accepted", &self.connections),
            (
                "connections_refused_total",
                "SMTP connections refused for a limit or rate",
                &self.connections_refused,
            ),
            (
                "sessions_sent_away_total",
                "Idle SMTP sessions closed to make room for others",
                &self.evicted,
            ),
            (
                "slow_bodies_total",
                "Messages given up because their body came too slowly",
                &self.slow_bodies,
            ),
            (
                "disk_bodies_total",
                "Message bodies kept on disk while they were received",
                &self.disk_bodies,
            ),
            (
                "tls_sessions_total",
                "TLS handshakes with SMTP clients that succeeded",
                &self.tls_sessions,
            ),
            ("messages_accepted_total", "Messages accepted (250)", &self.accepted),
            (
                "messages_accepted_bytes_total",
                "Bytes of the messages accepted (250)",
                &self.accepted_bytes,
            ),
            ("messages_trapped_total", "Messages that listeners for traps took", &self.trapped),
            ("messages_rejected_total", "Messages rejected (5xx) after their body", &self.rejected),
            (
                "messages_put_off_total",
                "Messages deferred (4xx) after their body",
                &self.answered_later,
            ),
            (
                "scan_overload_total",
                "Messages deferred because too many waited for a scan thread",
                &self.scan_overload,
            ),
            ("hold_overload_total", "Messages deferred: too many to hold", &self.hold_overload),
            ("scan_failed_total", "Scans that failed", &self.scan_failed),
            ("no_room_total", "Messages refused for lack of memory or disk space", &self.no_room),
            ("rate_limited_total", "Messages deferred by a rate limit", &self.rate_limited),
            ("greylisted_total", "Recipients deferred by greylisting", &self.greylisted),
            ("smuggling_total", "SMTP sessions closed for a bare CR, LF or NUL", &self.smuggling),
            (
                "cut_through_total",
                "Messages that the next hop answered while the client waited",
                &self.cut_through,
            ),
            ("delivered_total", "Recipients to whom a message was delivered", &self.delivered),
            ("deferred_total", "Delivery attempts deferred", &self.deferred),
            ("failed_total", "Recipients to whom delivery was given up", &self.failed),
            (
                "quarantined_total",
                "Recipients whose message was put into quarantine",
                &self.quarantined,
            ),
            ("discarded_total", "Recipients whose message the policy discarded", &self.discarded),
            ("bounces_total", "Delivery reports sent to senders (DSN)", &self.bounces),
        ]
    }

    /// How long the threads for sockets worked for whom.
    fn times(&self) -> Vec<(&'static str, &'static str, &Counter)> {
        vec![
            (
                "receiving_nanoseconds_total",
                "Time that threads worked for SMTP sessions and services, small scans included",
                &self.receiving_ns,
            ),
            (
                "judging_nanoseconds_total",
                "Time that threads judged small messages within their SMTP sessions",
                &self.judging_ns,
            ),
            (
                "passing_on_nanoseconds_total",
                "Time that threads worked for connections to next hops",
                &self.passing_on_ns,
            ),
        ]
    }

    fn gauges(&self) -> Vec<(&'static str, &'static str, &Gauge)> {
        vec![
            ("sessions", "Open SMTP sessions", &self.sessions),
            ("messages_active", "Messages being delivered now", &self.active),
            ("body_bytes", "Bytes of message bodies being received now", &self.body_bytes),
        ]
    }

    fn histograms(&self) -> Vec<(&'static str, &'static str, &Histogram)> {
        vec![
            (
                "answer_seconds",
                "Seconds from the end of a message to its answer",
                &self.answer_time,
            ),
            (
                "facts_seconds",
                "Seconds of waiting for DNS and other facts about a message",
                &self.facts_time,
            ),
            ("scan_seconds", "Seconds that scan and policy took for a message", &self.scan_time),
            ("spool_seconds", "Seconds until a message was on stable storage", &self.spool_time),
            (
                "delivery_seconds",
                "Seconds from reception to the final outcome of a message",
                &self.delivery_time,
            ),
        ]
    }
}

/// Appends a metric that has a value for each value of a label.
pub fn labelled<'v>(
    text: &mut String,
    name: &str,
    help: &str,
    kind: &str,
    label: &str,
    values: impl Iterator<Item = (&'v str, u64)>,
) {
    let _writing_to_a_string_works =
        write!(text, "# HELP gauntlet_{name} {help}\n# TYPE gauntlet_{name} {kind}\n");
    for (of, value) in values {
        let of = of.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        let _writing_to_a_string_works =
            writeln!(text, "gauntlet_{name}{{{label}=\"{of}\"}} {value}");
    }
}

/// Appends a metric in Prometheus' text format: help, type and value.
pub fn line(text: &mut String, name: &str, help: &str, kind: &str, value: u64) {
    let _writing_to_a_string_works = write!(
        text,
        "# HELP gauntlet_{name} {help}\n# TYPE gauntlet_{name} {kind}\ngauntlet_{name} {value}\n"
    );
}

fn distribution(text: &mut String, name: &str, help: &str, histogram: &Histogram) {
    use std::fmt::Write as _;
    let mut out = format!("# HELP gauntlet_{name} {help}\n# TYPE gauntlet_{name} histogram\n");
    let mut sum = 0;
    for (bucket, bound) in histogram.buckets.iter().zip(BOUNDS_US) {
        sum += bucket.load(Ordering::Relaxed);
        let bound = Duration::from_micros(bound).as_secs_f64();
        let _writing_to_a_string_works =
            writeln!(out, "gauntlet_{name}_bucket{{le=\"{bound}\"}} {sum}");
    }
    let count = histogram.count.load(Ordering::Relaxed);
    let total = Duration::from_micros(histogram.sum_us.load(Ordering::Relaxed)).as_secs_f64();
    let _writing_to_a_string_works = writeln!(
        out,
        "gauntlet_{name}_bucket{{le=\"+Inf\"}} {count}\ngauntlet_{name}_sum {total}\n\
         gauntlet_{name}_count {count}"
    );
    text.push_str(&out);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renders_counters_and_histograms() {
        let metrics = Metrics::default();
        metrics.accepted.add(3);
        metrics.scan_time.record(Duration::from_micros(200));
        metrics.scan_time.record(Duration::from_secs(100));
        let text = metrics.render();
        assert!(text.contains("\ngauntlet_messages_accepted_total 3\n"));
        // Each help text stands alone: Prometheus shows it without its neighbours.
        let help = text.lines().filter_map(|line| line.strip_prefix("# HELP "));
        let vague = help.filter(|line| line.contains("those") || line.contains("of them"));
        assert_eq!(vague.collect::<Vec<_>>(), Vec::<&str>::new());
        assert!(text.contains("gauntlet_scan_seconds_bucket{le=\"0.00025\"} 1\n"));
        assert!(text.contains("gauntlet_scan_seconds_bucket{le=\"+Inf\"} 2\n"));
    }
}
