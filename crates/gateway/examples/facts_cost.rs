//! What facts cost: CPU of cached look-ups beside that of signatures, messages a second with a
//! resolver that never answers, bytes in the message log. Needs Knot (Debian's `knot`).
//!
//! ```text
//! cargo run --release -p gauntlet-gateway --example facts_cost -- [RULES ...]
//! ```
//!
//! With folders of rules in SpamAssassin's language it also says what their questions cost, and how
//! many bytes their answers take.
#![allow(clippy::print_stdout, reason = "an example prints what it measures")]

#[path = "../tests/zone.rs"]
mod zone;

use std::sync::Arc;
use std::time::{Duration, Instant};

use gauntlet_gateway::clock::now_ms;
use gauntlet_gateway::config::{DnsSettings, FactSettings};
use gauntlet_gateway::facts::FactCollector;
use gauntlet_gateway::net::resolver::Resolver;
use gauntlet_gateway::outbound::signing::{Algorithm, KeyRing};
use gauntlet_mail::{Envelope, Facts, Message};
use gauntlet_rules::{LoadOptions, Profile};
use gauntlet_spamassassin::{RulesScratch, Ruleset};
use gauntlet_store::{Log, LogRecord};
use zone::{Zone, txt};

const ROUNDS: u32 = 5_000;

/// CPU time of this process.
fn cpu() -> Duration {
    // SAFETY: all zeros is a valid `rusage`, which is integers only.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is a plain C struct that lives through the call.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) };
    let of = |t: libc::timeval| Duration::from_micros((t.tv_sec * 1_000_000 + t.tv_usec) as u64);
    of(usage.ru_utime) + of(usage.ru_stime)
}

fn collector(server: std::net::SocketAddr, wait_ms_max: u64) -> FactCollector {
    let dns = DnsSettings { servers: vec![server.to_string()], ..DnsSettings::default() };
    let resolver = Arc::new(Resolver::new(&dns).expect("a resolver"));
    let settings = FactSettings { wait_ms_max, ..FactSettings::default() };
    FactCollector::new(resolver, &settings, &[], "gw.example").expect("a collector")
}

fn envelope(n: usize) -> Envelope {
    Envelope {
        client_ip: "192.0.2.1".parse().ok(),
        helo: "mail.sender.example".into(),
        mail_from: format!("ann@d{n}.sender.example"),
        received_at: 1_800_000_000,
        ..Envelope::default()
    }
}

async fn micros_per_message(collector: &FactCollector, mail: &[u8], envelope: &Envelope) -> f64 {
    for _ in 0..100 {
        collector.gather(envelope, mail).await;
    }
    let start = cpu();
    for _ in 0..ROUNDS {
        collector.gather(envelope, mail).await;
    }
    (cpu() - start).as_secs_f64() * 1e6 / f64::from(ROUNDS)
}

/// Bytes that the log takes for a record.
fn log_bytes(facts: &[Facts]) -> f64 {
    let folder = tempfile::tempdir().expect("a folder");
    let log = Log::open(folder.path()).expect("a log");
    let records = facts.iter().cycle().take(20_000).enumerate().map(|(n, facts)| LogRecord {
        id: format!("{n:013}"),
        received_ms: 1_800_000_000_000 + n as i64,
        envelope: envelope(n),
        facts: facts.clone(),
        ..LogRecord::default()
    });
    let records: Vec<LogRecord> = records.collect();
    for batch in records.chunks(1_000) {
        log.append(batch.to_vec()).expect("appended");
    }
    drop(log);
    let mut bytes = 0;
    for entry in std::fs::read_dir(folder.path()).expect("the log's folder").flatten() {
        bytes += entry.metadata().map_or(0, |m| m.len());
    }
    bytes as f64 / 20_000.0
}

/// CPU of a scan whose facts are known, and of gathering the same facts and scanning, in
/// microseconds a message: turn by turn, so that both see the same machine; of each the best turn.
async fn scans(asking: &FactCollector, rules: &Ruleset, mail: &[u8]) -> (f64, f64) {
    let envelope = envelope(0);
    let known = asking.gather(&envelope, mail).await;
    let mut scratch = RulesScratch::default();
    let now = envelope.received_at;
    let (mut apart, mut together) = (Duration::MAX, Duration::MAX);
    for _ in 0..40 {
        let start = cpu();
        for _ in 0..100 {
            rules.scan(&Message::parse(mail), &envelope, &known, now, &mut scratch);
        }
        let between = cpu();
        for _ in 0..100 {
            let (facts, text) = asking.collect_for_scan(&envelope, mail).await;
            scratch.give(text);
            rules.scan(&Message::parse(mail), &envelope, &facts, now, &mut scratch);
        }
        apart = apart.min(between - start);
        together = together.min(cpu() - between);
    }
    (apart.as_secs_f64() * 1e4, together.as_secs_f64() * 1e4)
}

/// What it costs to ask what rules ask, everything cached, for a message with links whose client is
/// listed.
async fn questions_of_rules(zone: &Zone, plain: &str, signed: &str) {
    let folders: Vec<std::path::PathBuf> = std::env::args_os().skip(1).map(Into::into).collect();
    if folders.is_empty() {
        return;
    }
    let options =
        LoadOptions { profile: Profile::Full, site: folders.clone(), ..Default::default() };
    let (rules, _) = Ruleset::load(&folders, &options).expect("rules");
    let rules = Arc::new(rules);
    let asking = collector(zone.address(), 20_000).with_rules(Some(&rules));
    let links = "http://one.example/ https://www.two.example/x http://three.example/y\r\n";
    let received = "Received: from mail.sender.example (mail.sender.example [192.0.2.1])\r\n\
        \tby gw.example with ESMTP id 1; Sat, 21 Nov 2026 10:00:00 +0000\r\n";
    let plain = format!("{received}{plain}{links}");
    let cost = micros_per_message(&asking, plain.as_bytes(), &envelope(0)).await;
    let facts = asking.gather(&envelope(0), plain.as_bytes()).await;
    println!(
        "with what rules ask: {cost:.1} us CPU a message, {} look-ups, {} answers kept",
        facts.lookups.len(),
        facts.rule_answers.len()
    );
    let (apart, together) = scans(&asking, &rules, plain.as_bytes()).await;
    println!(
        "scan alone {apart:.1} us, facts and scan {together:.1} us: so facts cost {:.1} us CPU a message",
        together - apart
    );
    let signed = format!("{received}{signed}");
    let mut gathered = Vec::new();
    for n in 0..200 {
        let facts = asking.gather(&envelope(n), signed.as_bytes()).await;
        gathered.push(gauntlet_gateway::scan::judge::kept(&facts));
    }
    let bytes = log_bytes(&gathered) - log_bytes(&[Facts::default()]);
    println!("message log: {bytes:.0} bytes for facts with the answers to rules");
}

#[tokio::main]
async fn main() {
    let keys = tempfile::tempdir().expect("a folder");
    let mut ring = KeyRing::load(keys.path()).expect("no keys yet");
    let record = |ring: &mut KeyRing, selector: &str, algorithm: Algorithm| {
        let key = ring.create("sender.example", selector, algorithm, 2_048).expect("a key");
        txt(&key.record_name(), &key.record())
    };
    let mut records = record(&mut ring, "r1", Algorithm::Rsa);
    records += &record(&mut ring, "e1", Algorithm::Ed25519);
    for n in 0..200 {
        let name = format!("d{n}.sender.example");
        records += &txt(&name, "v=spf1 include:a.sender.example mx ip4:192.0.2.1 -all");
        records += &format!("{name} MX 10 mx.sender.example.\n");
    }
    records += &txt("a.sender.example", "v=spf1 ip4:198.51.100.0/24 ip6:2001:db8::/32 -all");
    records += &txt("_dmarc.sender.example", "v=DMARC1; p=reject; rua=mailto:d@sender.example");
    records += "mx.sender.example A 198.51.100.9\n1.2.0.192.in-addr.arpa PTR mail.sender.example.\n\
                mail.sender.example A 192.0.2.1\n1.2.0.192.zen.spamhaus.org A 127.0.0.2\n\
                1.2.0.192.bl.spamcop.net A 127.0.0.2\n";
    let Some(zone) = Zone::serve(&records) else { return };
    let collector_ = collector(zone.address(), 3_000);
    let body = "A line of text as people write it, of usual length and no meaning.\r\n".repeat(440);
    let plain =
        format!("From: ann@d0.sender.example\r\nTo: b@c.example\r\nSubject: hi\r\n\r\n{body}");
    let signed = ring.sign(&plain.as_bytes().into(), now_ms() / 1_000).expect("signed") + &plain;
    let look_ups = micros_per_message(&collector_, plain.as_bytes(), &envelope(0)).await;
    let all = micros_per_message(&collector_, signed.as_bytes(), &envelope(0)).await;
    let facts = collector_.gather(&envelope(0), signed.as_bytes()).await;
    println!("message of {} bytes, {} look-ups, all cached", signed.len(), facts.lookups.len());
    println!("look-ups, SPF, DMARC, reverse name: {look_ups:.1} us CPU a message");
    println!("with an RSA-2048 and an Ed25519 signature: {all:.1} us CPU a message");

    let mut gathered = Vec::new();
    for n in 0..200 {
        for _ in 0..5 {
            let facts = collector_.gather(&envelope(n), signed.as_bytes()).await;
            gathered.push(gauntlet_gateway::scan::judge::kept(&facts));
        }
    }
    let (with, without) = (log_bytes(&gathered), log_bytes(&[Facts::default()]));
    println!(
        "message log: {with:.0} bytes a message with facts, {without:.0} without, {:.0} for facts",
        with - without
    );

    questions_of_rules(&zone, &plain, &signed).await;

    let (_silent, nobody) = zone::silent();
    let dead = Arc::new(collector(nobody, 500));
    let (start, mut under_way) = (Instant::now(), tokio::task::JoinSet::new());
    let signed = Arc::new(signed);
    for n in 0..4_000 {
        let (dead, signed) = (dead.clone(), signed.clone());
        under_way.spawn(async move { dead.gather(&envelope(n), signed.as_bytes()).await });
        if under_way.len() >= 200 {
            under_way.join_next().await;
        }
    }
    under_way.join_all().await;
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "resolver that never answers, wait 500 ms, 200 messages at once: {:.0} messages/s (the wait alone \
         allows 400/s)",
        4_000.0 / seconds
    );
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find(|l| l.starts_with("VmHWM")).unwrap_or_default();
    println!("peak memory: {}", peak.split_whitespace().nth(1).unwrap_or_default());
}
