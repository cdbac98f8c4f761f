//! Benchmark of the message log: fills a log with generated messages, then searches it.
//!
//! `cargo run --release -p gauntlet-store --example log_rate -- FOLDER [MESSAGES [DAYS [retain |
//! fill=N]]]`
//!
//! Prints CPU time and bytes per message, then for each search by two fields the time to the first
//! page, and to the next 20. A folder that is not full yet is filled up, with `fill=N` by so many
//! days at a time. With `retain` it then deletes half of the days while it continues writing. The
//! messages are generated from a seed: senders, words and rules have the skewed frequencies of real
//! mail (Zipf), with envelope, facts, hits, evidence, costs and stages as a node writes them.

use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use gauntlet_mail::facts::{AuthResult, DkimSignature};
use gauntlet_mail::{Envelope, Evidence, Facts, Hit, View};
use gauntlet_store::record::{Delivery, LogRecord, Outcome, Stage};
use gauntlet_store::{Log, LogOptions, Query};
use gauntlet_verdict::{Class, Disposition, FilterCost, Final, Verdict};

/// Messages appended at once.
const BATCH: u64 = 512;
/// 2026-01-01, as Unix milliseconds.
const START_MS: i64 = 20_454 * 86_400_000;
/// Times each search is repeated.
const REPEATS: u32 = 5;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let folder = args.next().ok_or("usage: log_rate FOLDER [MESSAGES [DAYS]]")?;
    let messages: u64 = args.next().map_or(Ok(100_000), |n| n.parse())?;
    let days: u64 = args.next().map_or(Ok(1), |n| n.parse())?;
    let folder = Path::new(&folder);
    let mut out = std::io::stdout();
    let option = args.next().unwrap_or_default();
    let at_once = option.strip_prefix("fill=").map_or(Ok(days), |n| n.parse())?;
    let known = days_of(folder);
    if known < days {
        let upto = days.min(known + at_once);
        fill(
            folder,
            (known * (messages / days), upto * (messages / days)),
            (messages, days),
            &mut out,
        )?;
        if upto < days {
            return Ok(());
        }
    }
    let start = Instant::now();
    let log = Log::open(folder)?;
    let opened = start.elapsed();
    log.warm();
    writeln!(out, "opened in {opened:.1?}, warm after {:.1?}", start.elapsed())?;
    let mut worst = Duration::ZERO;
    for (name, query) in searches(messages, days) {
        let mut times = Vec::new();
        let mut found = 0;
        for _ in 0..REPEATS {
            let start = Instant::now();
            found = log.search(&query)?.messages.len();
            times.push(start.elapsed());
        }
        times.sort();
        let (median, most) = (times[times.len() / 2], times[times.len() - 1]);
        worst = worst.max(most);
        writeln!(out, "{name:<44} {found:>3} found  median {median:>10.1?}  most {most:>10.1?}")?;
    }
    let pages = Query { classes: vec![Class::Spam], ..Query::default() };
    writeln!(out, "slowest of 20 pages: {:.1?}", slowest_page(&log, pages)?)?;
    let start = Instant::now();
    let counts = log.counts(START_MS, START_MS + days as i64 * 86_400_000, 60)?;
    let took = start.elapsed();
    writeln!(out, "counts of all days, {} buckets: {took:.1?}", counts.buckets.len())?;
    writeln!(out, "slowest search: {worst:.1?}")?;
    if option == "retain" {
        forget_half(&log, messages, days, &mut out)?;
    }
    Ok(())
}

/// Reads page after page; returns the longest time of one.
fn slowest_page(log: &Log, mut query: Query) -> Result<Duration, gauntlet_store::StoreError> {
    let mut most = Duration::ZERO;
    for _ in 0..20 {
        let start = Instant::now();
        query.after = log.search(&query)?.next;
        most = most.max(start.elapsed());
    }
    Ok(most)
}

/// Deletes the older half of the days while another thread writes; prints how long both took.
fn forget_half(
    log: &Log,
    messages: u64,
    days: u64,
    out: &mut impl Write,
) -> Result<(), Box<dyn std::error::Error>> {
    let end = START_MS + days as i64 * 86_400_000;
    let append = |n: u64| {
        let start = Instant::now();
        log.append(vec![record(messages + n, end + n as i64)]).map(|_| start.elapsed())
    };
    let times = |from: u64| (from..from + 50).map(append).collect::<Result<Vec<_>, _>>();
    let most = |times: &[Duration]| times.iter().max().copied().unwrap_or_default();
    let before = times(0)?;
    let (forgot, during) = std::thread::scope(|scope| {
        let forgetting = scope.spawn(|| {
            let start = Instant::now();
            log.retain(end, (days / 2) as u32).map(|n| (n, start.elapsed()))
        });
        (forgetting.join(), times(50))
    });
    let (forgotten, took) = forgot.map_err(|_| "the thread failed")??;
    writeln!(
        out,
        "{forgotten} days forgotten in {took:.1?}; slowest append before {:.1?}, during {:.1?}",
        most(&before),
        most(&during?)
    )?;
    Ok(())
}

/// Days that have a file there.
fn days_of(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter(|e| e.path().extension().is_some_and(|e| e == "db")).count() as u64
}

/// Writes the messages from one number up to another, of so many in so many days.
fn fill(
    folder: &Path,
    (from, upto): (u64, u64),
    (messages, days): (u64, u64),
    out: &mut impl Write,
) -> Result<(), Box<dyn std::error::Error>> {
    let log = Log::open_with(folder, LogOptions::default())?;
    let step_ms = days as f64 * 86_400_000.0 / messages as f64;
    let (wall, all, own) = (Instant::now(), cpu(Clock::Process), cpu(Clock::Thread));
    let mut n = from;
    while n < upto {
        let end = (n + BATCH).min(upto);
        let batch = (n..end).map(|n| record(n, START_MS + (n as f64 * step_ms) as i64)).collect();
        log.append(batch)?;
        n = end;
    }
    drop(log);
    // This thread's time is that of generating messages; the rest is the log's.
    let cost = (cpu(Clock::Process) - all) - (cpu(Clock::Thread) - own);
    let bytes: u64 =
        std::fs::read_dir(folder)?.flatten().flat_map(|e| e.metadata()).map(|m| m.len()).sum();
    writeln!(
        out,
        "{} messages in {:.1?}: {:.1} µs CPU a message; {} bytes each of {upto}",
        upto - from,
        wall.elapsed(),
        cost.as_secs_f64() * 1e6 / (upto - from) as f64,
        bytes / upto
    )?;
    Ok(())
}

/// Searches by two fields each: frequent with frequent, frequent with rare, and none to be found.
fn searches(messages: u64, days: u64) -> Vec<(&'static str, Query)> {
    let step_ms = days as f64 * 86_400_000.0 / messages as f64;
    let middle = messages / 2;
    let middle = record(middle, START_MS + (middle as f64 * step_ms) as i64);
    let q = Query::default;
    let sender = middle.envelope.mail_from.clone();
    let recipient = middle.dispositions[0].recipient.clone();
    let domain = sender.split('@').nth(1).unwrap_or_default().to_owned();
    let s = |text: &str| text.to_owned();
    let mut all = vec![
        ("newest", q()),
        (
            "sender and recipient",
            Query { sender: sender.clone(), recipient: recipient.clone(), ..q() },
        ),
        (
            "sender's domain and class",
            Query { domain: domain.clone(), classes: vec![Class::Spam], ..q() },
        ),
        ("sender and a word", Query { sender: sender.clone(), subject: s("w3"), ..q() }),
        ("two frequent words", Query { subject: s("w1 w2"), ..q() }),
        ("a frequent and a rare word", Query { subject: s("w1 w4321"), ..q() }),
        (
            "beginning of a word, and class",
            Query { subject: s("w43*"), classes: vec![Class::Ham], ..q() },
        ),
        (
            "class and disposition",
            Query { classes: vec![Class::Spam], action: s("quarantine"), ..q() },
        ),
        (
            "class and disposition that exclude",
            Query { classes: vec![Class::Ham], action: s("quarantine"), ..q() },
        ),
        (
            "two rules' worth: rule and class",
            Query { rule: s("RULE_0"), classes: vec![Class::Ham], ..q() },
        ),
        ("rare rule and class", Query { rule: s("RULE_399"), classes: vec![Class::Ham], ..q() }),
        (
            "frequent word and disposition that exclude",
            Query { subject: s("w1"), action: s("reject"), ..q() },
        ),
        ("Message-ID", Query { message_id: middle.message_id.clone(), ..q() }),
        ("reference code", Query { id: middle.id.clone(), ..q() }),
        ("reference code of nobody", Query { id: s("none"), ..q() }),
        (
            "sender of nobody and class",
            Query { sender: s("x@y.z"), classes: vec![Class::Ham], ..q() },
        ),
        (
            "class and least score",
            Query { classes: vec![Class::Spam], score_min: Some(8.0), ..q() },
        ),
    ];
    all.extend(searches_in_time(recipient, days));
    all
}

/// Searches of a part of the time.
fn searches_in_time(recipient: String, days: u64) -> Vec<(&'static str, Query)> {
    let q = Query::default;
    let day_ms = 86_400_000;
    let half = START_MS + days as i64 * day_ms / 2;
    let s = |text: &str| text.to_owned();
    vec![
        (
            "rule and date range",
            Query { rule: s("RULE_5"), since_ms: Some(half), until_ms: Some(half + day_ms), ..q() },
        ),
        (
            "recipient and date range",
            Query { recipient, since_ms: Some(START_MS), until_ms: Some(half), ..q() },
        ),
    ]
}

/// A sequence of numbers that a seed determines (SplitMix64, Steele and others 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// 0 most often, `n - 1` least: about as 1/rank.
    fn zipf(&mut self, n: u64) -> u64 {
        let unit = (self.next() >> 11) as f64 / (1u64 << 53) as f64;
        ((n as f64).powf(unit) as u64).saturating_sub(1).min(n - 1)
    }
}

fn record(n: u64, received_ms: i64) -> LogRecord {
    let mut random = Random(n);
    let class = Class::ALL[[0, 0, 0, 0, 1, 1, 2, 3, 3, 4][(random.next() % 10) as usize]];
    let bad = class >= Class::Spam;
    let domain = format!("d{}.example", random.zipf(200_000));
    let sender = format!("s{}@{domain}", random.zipf(1_000));
    let recipient = format!("user{}@corp{}.example", random.next() % 20_000, random.next() % 3);
    let words: Vec<String> =
        (0..4 + random.next() % 6).map(|_| format!("w{}", random.zipf(50_000))).collect();
    let hits = (0..4 + random.next() % 10).map(|_| hit(&mut random)).collect::<Vec<_>>();
    let score = hits.iter().map(|h: &Hit| h.score).sum();
    let folder = || "suspect".to_owned();
    let end = if bad { Final::Quarantine { folder: folder() } } else { Final::Deliver };
    LogRecord {
        id: format!("{received_ms:012x}{n:08x}"),
        received_ms,
        envelope: Envelope {
            client_ip: Some(
                std::net::Ipv4Addr::from(random.zipf(1 << 24) as u32 | 0x0a00_0000).into(),
            ),
            helo: format!("mail.{domain}"),
            mail_from: sender.clone(),
            rcpt_to: vec![recipient.clone()],
            received_at: received_ms / 1000,
            ..Envelope::default()
        },
        size: 1000 + random.zipf(3_000_000),
        from: format!("Some Body <{sender}>"),
        subject: words.join(" "),
        message_id: format!("{:016x}.{n}@{domain}", random.next()),
        facts: facts(&domain, bad),
        verdict: Verdict { class, score, hits, costs: costs(&mut random), ..Verdict::default() },
        dispositions: vec![Disposition {
            recipient: recipient.clone(),
            end,
            changes: Vec::new(),
            rules: vec![if bad { "spam to suspect" } else { "deliver the rest" }.to_owned()],
            release: None,
        }],
        deliveries: vec![Delivery {
            address: recipient,
            outcome: if bad { Outcome::Quarantined } else { Outcome::Delivered },
            at_ms: received_ms + 35,
            attempts: 1,
            next_hop: "10.0.0.5:25".to_owned(),
            reply: "250 2.0.0 Ok: queued as 4XyZ12345".to_owned(),
        }],
        latency_ms: 20 + (random.next() % 50) as u32,
        stages: stages(&mut random),
    }
}

fn hit(random: &mut Random) -> Hit {
    let rule = format!("RULE_{}", random.zipf(400));
    let at = (random.next() % 2000) as usize;
    let quoted = format!("some words {} of the text", random.next() % 10_000);
    Hit {
        rule: rule.into(),
        score: (random.next() % 30) as f64 / 10.0 - 0.5,
        count: 1,
        description: "Says what the rule looks for".into(),
        evidence: vec![Evidence::new(View::Text, 1, at, quoted.as_bytes())],
    }
}

fn facts(domain: &str, bad: bool) -> Facts {
    let result = if bad { AuthResult::Fail } else { AuthResult::Pass };
    let signature = DkimSignature {
        domain: domain.to_owned(),
        selector: "s1".to_owned(),
        result,
        key_bits: 2048,
        partial_body: false,
    };
    Facts {
        spf: result,
        dkim: vec![signature],
        dmarc: result,
        reverse_name: Some(format!("out.{domain}")),
        reverse_confirmed: Some(true),
        ..Facts::default()
    }
}

fn costs(random: &mut Random) -> Vec<FilterCost> {
    let names =
        ["header_form", "sender", "urls", "words", "lists", "attachments", "classifier", "rules"];
    let cost = |name: &&str| FilterCost {
        filter: (*name).into(),
        micros: (random.next() % 4000) as f32 / 10.0,
    };
    names.iter().map(cost).collect()
}

fn stages(random: &mut Random) -> Vec<Stage> {
    let mut at_us = 0;
    let stage = |name: &&str| {
        at_us += random.next() % 9000;
        Stage { name: (*name).to_owned(), at_us, detail: String::new() }
    };
    ["received", "waited", "scanned", "decided", "spooled"].iter().map(stage).collect()
}

#[derive(Clone, Copy)]
enum Clock {
    Process,
    Thread,
}

/// CPU time used so far.
fn cpu(clock: Clock) -> Duration {
    let clock = match clock {
        Clock::Process => libc::CLOCK_PROCESS_CPUTIME_ID,
        Clock::Thread => libc::CLOCK_THREAD_CPUTIME_ID,
    };
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid timespec for the call to write to; both clocks always exist.
    unsafe { libc::clock_gettime(clock, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
