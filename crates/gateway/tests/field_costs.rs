//! A field of a header costs time by its length, whatever stands in it, for everybody on a
//! message's way that reads it: the scan, facts, results, the sender's check.

use std::time::Duration;

use gauntlet_engine::{Scratch, Snapshot, scan};
use gauntlet_gateway::config::{DnsSettings, FactSettings};
use gauntlet_gateway::facts::{FactCollector, auth_results};
use gauntlet_gateway::net::resolver::Resolver;
use gauntlet_mail::{Direction, Envelope, Facts, Message};

/// Bytes of the shorter field.
const SHORT_BYTES: usize = 4_000;
const TIMES: usize = 8;
/// What times of more than eightfold are laid to a busy machine.
const RATIO_MAX: f64 = 28.0;
const NOISE: Duration = Duration::from_millis(6);
/// Measurements that must all be steep before it counts.
const ATTEMPTS: usize = 8;

const FIELDS: [&str; 24] = [
    "From",
    "To",
    "Cc",
    "Sender",
    "Reply-To",
    "Received",
    "Message-ID",
    "References",
    "In-Reply-To",
    "Content-Type",
    "Content-Disposition",
    "Content-Transfer-Encoding",
    "DKIM-Signature",
    "Authentication-Results",
    "ARC-Authentication-Results",
    "ARC-Seal",
    "ARC-Message-Signature",
    "Date",
    "List-Unsubscribe",
    "List-Id",
    "Return-Path",
    "Received-SPF",
    "Subject",
    "X-Mailer",
];

const PIECES: [&str; 40] = [
    "(",
    ")",
    "\"",
    "\\",
    "<",
    ">",
    ",",
    ":",
    ";",
    "@",
    "=",
    " ",
    "\r\n ",
    "%",
    ".",
    "-",
    "/",
    "[",
    "]",
    "a",
    "()",
    "\\\"",
    "<>",
    "a@b,",
    "<a@b> ",
    "\"a\" ",
    "(a) ",
    "=?",
    "?=",
    "=?utf-8?q?a?= ",
    "=?utf-8?b?YQ==?= ",
    "*0*=",
    "a*0=b;",
    "a=b;",
    "; a=",
    "from a by b ",
    "[1.2.3.4] ",
    "http://a.b/ ",
    "a.b.c.d.",
    "\u{e9}",
];

fn collector() -> FactCollector {
    // Nobody is asked: facts are read from the message alone.
    let trust_authserv_id = vec!["mx.front.example".to_owned()];
    let settings = FactSettings {
        questions_max: 0,
        wait_ms_max: 1,
        trust_authserv_id,
        ..FactSettings::default()
    };
    let dns = DnsSettings { servers: vec!["127.0.0.1:9".to_owned()], ..DnsSettings::default() };
    let resolver = std::sync::Arc::new(Resolver::new(&dns).unwrap());
    FactCollector::new(resolver, &settings, &[], "gw.example").unwrap()
}

/// Processor time of this thread so far: what other processes do does not count.
fn processor_time() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or_default())
}

struct Way {
    runtime: tokio::runtime::Runtime,
    collector: FactCollector,
    snapshot: Snapshot,
    scratch: Scratch,
}

impl Way {
    /// Processor time of a message through everything that reads its header.
    fn time(&mut self, raw: &[u8]) -> Duration {
        let envelope = Envelope {
            direction: Direction::Inbound,
            mail_from: "a@sender.example".into(),
            ..Envelope::default()
        };
        let start = processor_time();
        let facts = self.runtime.block_on(self.collector.gather(&envelope, raw));
        std::hint::black_box(auth_results::stamp(raw, "gw.example", &facts, &envelope));
        let message = Message::parse(raw);
        std::hint::black_box(message.defects());
        let facts = Facts::default();
        std::hint::black_box(scan(&message, &envelope, &facts, &self.snapshot, &mut self.scratch));
        processor_time().saturating_sub(start)
    }

    /// The time of so many times the short field goes up by more than this when it is so much
    /// longer.
    fn grows(&mut self, mail: &dyn Fn(usize) -> Vec<u8>, times: usize, ratio_max: f64) -> bool {
        let (short, long) = (mail(times), mail(times * TIMES));
        // A cost that grows steeply does so each time; a busy machine's caches and clock do not.
        (0..ATTEMPTS).all(|_| {
            let short = self.time(&short).min(self.time(&short));
            let long = self.time(&long).saturating_sub(NOISE);
            long.as_secs_f64() / short.as_secs_f64().max(1e-6) > ratio_max
        })
    }

    /// Steep, and so further on: work that ends at a bound is no harm.
    fn is_steep(&mut self, field: &str, piece: &str) -> bool {
        let mail = |times: usize| {
            let value = piece.repeat(SHORT_BYTES / piece.len() * times);
            format!("{field}: {value}\r\nX-End: x\r\n\r\nhello\r\n").into_bytes()
        };
        self.grows(&mail, 1, RATIO_MAX) && self.grows(&mail, TIMES, RATIO_MAX)
    }
}

#[test]
fn fields_cost_by_their_length() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let collector = {
        let _inside = runtime.enter();
        collector()
    };
    let snapshot = Snapshot::default_rules();
    let mut way = Way { runtime, collector, snapshot, scratch: Scratch::default() };
    // Engines are made when first needed.
    way.time(b"From: a@b\r\nSubject: x\r\n\r\nhello\r\n");
    let mut found = Vec::new();
    for field in FIELDS {
        for piece in PIECES {
            if way.is_steep(field, piece) {
                found.push(format!("{field}: {piece:?}"));
            }
        }
    }
    assert!(found.is_empty(), "{TIMES} times the length takes over {RATIO_MAX} times: {found:#?}");
}
