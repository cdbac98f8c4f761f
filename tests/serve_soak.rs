//! A soak: load while the next hop fails at random. Every message is accounted for, memory stays flat.
//!
//! `GAUNTLET_SOAK_SECONDS` says how long (10 by default, 60 in CI); the seed is printed.

mod common;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use common::{Node, Sink, Smtp, message, tokens};

/// Clients that send at once, and how long each pauses after a message: less than the node can do.
const CLIENTS: u64 = 4;
/// After so many messages a client comes anew: receiver.messages_per_session_max is 1,000.
const MESSAGES_A_SESSION: u32 = 500;
const PAUSE: Duration = Duration::from_millis(10);

fn seconds() -> u64 {
    let default = if std::env::var_os("CI").is_some() { "60" } else { "10" };
    let text = std::env::var("GAUNTLET_SOAK_SECONDS").unwrap_or_else(|_| default.to_owned());
    text.parse().expect("GAUNTLET_SOAK_SECONDS is a number")
}

/// xorshift64*: small, and the same everywhere.
fn random(state: &mut u64) -> u64 {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    state.wrapping_mul(0x2545_F491_4F6C_DD1D)
}

fn resident_kb(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:"));
    line.and_then(|l| l.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// Refusals for now, of the message or of one recipient, for a moment each.
fn misbehave(sink: &Sink, state: &mut u64) {
    let reply = match random(state) % 4 {
        0 => "451 4.3.0 not now",
        1 => "421 4.3.2 going down",
        _ => "250 2.0.0 ok",
    };
    *sink.answer.lock().unwrap() = reply.to_owned();
    let mut recipients = sink.recipients.lock().unwrap();
    recipients.clear();
    if random(state).is_multiple_of(3) {
        recipients.insert("joe".into(), "450 4.2.1 mailbox busy".into());
    }
}

#[test]
fn every_message_is_accounted_for_while_the_next_hop_fails_at_random() {
    let seed = u64::from(std::process::id());
    eprintln!("seed {seed}");
    let sink = Sink::start();
    let node = Node::start(&format!(
        "[route]\nnext_hop = \"{}\"\n[sender]\nretry_seconds = [1]\n",
        sink.address
    ));
    let stop = Arc::new(AtomicBool::new(false));
    let accepted = Arc::new(Mutex::new(BTreeSet::new()));
    let next = Arc::new(AtomicU64::new(0));
    let clients: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let (stop, accepted, next) = (stop.clone(), accepted.clone(), next.clone());
            let address = node.smtp;
            std::thread::spawn(move || {
                let mut client = Smtp::connect(address).unwrap();
                let mut sent = 0;
                while !stop.load(Ordering::Relaxed) {
                    sent += 1;
                    if sent % MESSAGES_A_SESSION == 0 {
                        client = Smtp::connect(address).unwrap();
                    }
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let token = format!("s{number}");
                    let body = message(&token, usize::try_from(number % 9).unwrap() * 5_000);
                    let to = ["bob@example.net", "joe@example.net"];
                    let to = &to[..1 + usize::try_from(number % 2).unwrap()];
                    let reply = client.send("", to, &body).unwrap();
                    if reply.starts_with("250") {
                        accepted.lock().unwrap().insert(token);
                    }
                    std::thread::sleep(PAUSE);
                }
            })
        })
        .collect();
    let mut state = 0x9E37_79B9_7F4A_7C15 ^ seed;
    let (start, mut early, mut most) = (Instant::now(), 0, 0);
    while start.elapsed() < Duration::from_secs(seconds()) {
        misbehave(&sink, &mut state);
        std::thread::sleep(Duration::from_millis(50 + random(&mut state) % 400));
        let now = resident_kb(node.pid());
        if start.elapsed().as_secs() < seconds() / 3 {
            early = early.max(now);
        }
        most = most.max(now);
    }
    stop.store(true, Ordering::Relaxed);
    clients.into_iter().for_each(|client| client.join().unwrap());
    *sink.answer.lock().unwrap() = "250 2.0.0 ok".to_owned();
    sink.recipients.lock().unwrap().clear();
    node.wait_for_empty_queue();
    let accepted = accepted.lock().unwrap();
    let got = tokens(&sink.taken());
    let lost: Vec<&String> = accepted.iter().filter(|token| !got.contains_key(*token)).collect();
    let numbers = |token: &str| token[1..].parse::<u64>().unwrap();
    // Two recipients may be served one after the other; nobody gets a message twice.
    let twice = got.iter().filter(|(t, n)| **n as u64 > 1 + numbers(t) % 2).count();
    eprintln!(
        "{} accepted, {} delivered, {twice} too often; {early} KB resident early, {most} KB at most",
        accepted.len(),
        got.len()
    );
    assert!(lost.is_empty(), "lost: {lost:?}");
    assert_eq!(twice, 0);
    assert!(accepted.len() as u64 > seconds() * 5, "there was load");
    assert!(most < early + early / 2 + 40_000, "memory grew from {early} to {most} KB");
}
