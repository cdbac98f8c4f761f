//! A soak: load at 70 % of what the node can do, while next hop and DNS fail at random. Every
//! message is accounted for, memory stays flat.
//!
//! `GAUNTLET_SOAK_SECONDS` says how long (10 by default, 60 in CI, `.ci/long` asks for 1,800); the
//! seed is printed. What the node can do is measured first, with everything well.

use std::collections::BTreeSet;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::common::{Node, Sink, Smtp, message, random, tokens};

/// Clients that send at once.
const CLIENTS: u64 = 8;
/// Share of the measured rate at which they send, in per cent.
const LOAD_PERCENT: u64 = 70;
/// After so many messages a client comes anew: receiver.messages_per_session_max is 10,000.
const MESSAGES_A_SESSION: u64 = 500;
/// Sender domains, each with an SPF record that is asked for.
const DOMAINS: u64 = 2_000;
/// How long the queue may take to drain at the end.
const DRAIN: Duration = Duration::from_secs(300);

fn seconds() -> u64 {
    let default = if std::env::var_os("CI").is_some() { "60" } else { "10" };
    let text = std::env::var("GAUNTLET_SOAK_SECONDS").unwrap_or_else(|_| default.to_owned());
    text.parse().expect("GAUNTLET_SOAK_SECONDS is a number")
}

fn resident_kb(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:"));
    line.and_then(|l| l.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// A DNS server with moods; it answers by UDP only.
#[derive(Clone)]
struct Dns {
    address: SocketAddr,
    /// 0 answers, 1 is silent, 2 fails (SERVFAIL), 3 refuses, 4 answers with noise.
    mood: Arc<AtomicU64>,
    asked: Arc<AtomicU64>,
    /// Of those, with an answer that is one.
    answered: Arc<AtomicU64>,
}

impl Dns {
    fn start() -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let dns = Dns {
            address: socket.local_addr().unwrap(),
            mood: Arc::default(),
            asked: Arc::default(),
            answered: Arc::default(),
        };
        let shared = dns.clone();
        std::thread::spawn(move || {
            let mut bytes = [0; 1_500];
            while let Ok((n, client)) = socket.recv_from(&mut bytes) {
                shared.asked.fetch_add(1, Ordering::Relaxed);
                if let Some(answer) = shared.answer(&bytes[..n]) {
                    // A client that is gone is none of ours.
                    let _ = socket.send_to(&answer, client);
                }
            }
        });
        dns
    }

    /// A TXT question about a sender's domain gets an SPF record, all else is "no such name".
    fn answer(&self, question: &[u8]) -> Option<Vec<u8>> {
        const TXT: u8 = 16;
        let (header, rest) = question.split_at_checked(12)?;
        let mut end = 0;
        while *rest.get(end)? != 0 {
            end += 1 + usize::from(rest[end]);
        }
        let section = rest.get(..end + 5)?;
        let is_sender = section[end + 2] == TXT && section[1] == b'd' && section[end - 1] == b'e';
        let mood = self.mood.load(Ordering::Relaxed);
        let code = match mood {
            0 if is_sender => 0,
            0 => 3,
            1 => return None,
            2 => 2,
            3 => 5,
            _ => return Some(section.iter().rev().copied().collect()),
        };
        self.answered.fetch_add(u64::from(mood == 0), Ordering::Relaxed);
        let answers = u8::from(code == 0);
        let mut answer = vec![header[0], header[1], 0x81, 0x80 | code];
        answer.extend([0, 1, 0, answers, 0, 0, 0, 0]);
        answer.extend(section);
        if answers > 0 {
            let record = b"\x0dv=spf1 a ?all";
            answer.extend([0xc0, 12, 0, TXT, 0, 1, 0, 0, 0, 5, 0, 14]);
            answer.extend(record);
        }
        Some(answer)
    }
}

/// Refusals for now, of the message or of one recipient, and a DNS that is ill, for a moment each.
fn misbehave(sink: &Sink, dns: &Dns, state: &mut u64) {
    let reply = match random(state) % 8 {
        0 => "451 4.3.0 not now",
        1 => "421 4.3.2 going down",
        _ => "250 2.0.0 ok",
    };
    *sink.answer.lock().unwrap() = reply.to_owned();
    let mut recipients = sink.recipients.lock().unwrap();
    recipients.clear();
    if random(state).is_multiple_of(4) {
        recipients.insert("joe".into(), "450 4.2.1 mailbox busy".into());
    }
    let mood = random(state) % 8;
    dns.mood.store(if mood > 4 { 0 } else { mood }, Ordering::Relaxed);
}

/// Everything is well again.
fn behave(sink: &Sink, dns: &Dns) {
    *sink.answer.lock().unwrap() = "250 2.0.0 ok".to_owned();
    sink.recipients.lock().unwrap().clear();
    dns.mood.store(0, Ordering::Relaxed);
}

/// Clients that send until they are stopped.
#[derive(Clone, Default)]
struct Load {
    stop: Arc<AtomicBool>,
    /// Numbers of the messages that were acknowledged.
    accepted: Arc<Mutex<BTreeSet<u64>>>,
    next: Arc<AtomicU64>,
    /// Time from one message of a client to its next; 0 is as fast as it goes.
    interval_us: Arc<AtomicU64>,
}

impl Load {
    fn client(&self, address: SocketAddr) {
        let mut client = Smtp::connect(address).unwrap();
        let mut due = Instant::now();
        for sent in 1.. {
            if self.stop.load(Ordering::Relaxed) {
                return;
            }
            if sent % MESSAGES_A_SESSION == 0 {
                client = Smtp::connect(address).unwrap();
            }
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let body = message(&format!("s{number}"), usize::try_from(number % 9).unwrap() * 5_000);
            let to = ["bob@example.net", "joe@example.net"];
            let to = &to[..recipients(number)];
            let from = format!("ann@d{}.example", number % DOMAINS);
            if client.send(&from, to, &body).unwrap().starts_with("250") {
                self.accepted.lock().unwrap().insert(number);
            }
            // Whoever is late does not hurry: that would be more than the share of the load.
            due = Instant::now()
                .max(due + Duration::from_micros(self.interval_us.load(Ordering::Relaxed)));
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
        }
    }

    fn start(&self, address: SocketAddr) -> Vec<std::thread::JoinHandle<()>> {
        let client = |_| {
            let load = self.clone();
            std::thread::spawn(move || load.client(address))
        };
        (0..CLIENTS).map(client).collect()
    }

    /// What goes through a second while all is well.
    fn measure(&self) -> u64 {
        let long = Duration::from_secs((seconds() / 10).clamp(2, 20));
        std::thread::sleep(Duration::from_secs(1));
        let before = self.accepted.lock().unwrap().len();
        std::thread::sleep(long);
        let after = self.accepted.lock().unwrap().len();
        (after - before) as u64 / long.as_secs()
    }
}

/// Recipients of a message.
fn recipients(number: u64) -> usize {
    1 + usize::try_from(number % 2).unwrap()
}

/// The node's memory: the most in the first third, and in all.
fn soak(node: &Node, sink: &Sink, dns: &Dns, state: &mut u64) -> (u64, u64) {
    let (start, mut early, mut most) = (Instant::now(), 0, 0);
    while start.elapsed() < Duration::from_secs(seconds()) {
        misbehave(sink, dns, state);
        std::thread::sleep(Duration::from_millis(50 + random(state) % 400));
        let now = resident_kb(node.pid());
        if start.elapsed().as_secs() < seconds() / 3 {
            early = early.max(now);
        }
        most = most.max(now);
    }
    (early, most)
}

#[test]
fn every_message_is_accounted_for_while_next_hop_and_dns_fail_at_random() {
    let seed = u64::from(std::process::id());
    eprintln!("seed {seed}");
    let (sink, dns) = (Sink::start(), Dns::start());
    sink.tokens_only.store(true, Ordering::Relaxed);
    let mut node = Node::start(&format!(
        "[route]\nnext_hop = \"{}\"\n[sender]\nretry_seconds = [1]\n\
         [dns]\nservers = [\"{}\"]\ntimeout_ms = 50\nattempts = 0\nwait_ms_max = 100\n\
         ttl_seconds_min = 1\nttl_seconds_max = 2\nnegative_seconds_max = 2\nfailure_seconds = 1\n\
         [facts]\nour_networks = []\nwait_ms_max = 200\n[[dns_list]]\nzone = \"bl.example\"\n",
        sink.address, dns.address
    ));
    let load = Load::default();
    let clients = load.start(node.smtp);
    let rate = load.measure().max(1);
    load.interval_us.store(CLIENTS * 1_000_000 * 100 / (rate * LOAD_PERCENT), Ordering::Relaxed);
    let mut state = 0x9E37_79B9_7F4A_7C15 ^ seed;
    let (early, most) = soak(&node, &sink, &dns, &mut state);
    load.stop.store(true, Ordering::Relaxed);
    clients.into_iter().for_each(|client| client.join().unwrap());
    behave(&sink, &dns);
    node.wait_at_most(DRAIN, "the queue is empty", || {
        ["queue", "spool"].iter().all(|n| node.metric(&format!("gauntlet_{n}_messages")) == 0)
    });
    node.stop();
    let (accepted, logged) = (load.accepted.lock().unwrap(), node.logged());
    let got = tokens(&sink.taken());
    let lost: Vec<_> = accepted.iter().filter(|n| !got.contains_key(&format!("s{n}"))).collect();
    // Two recipients may be served one after the other; nobody gets a message twice.
    let most_times = |token: &str| recipients(token[1..].parse().unwrap());
    let twice = got.iter().filter(|(token, n)| **n > most_times(token)).count();
    let (asked, answered) =
        (dns.asked.load(Ordering::Relaxed), dns.answered.load(Ordering::Relaxed));
    eprintln!(
        "{} s at {LOAD_PERCENT} % of {rate} messages/s: {} accepted, {} delivered, {twice} too often, \
         {logged} logged; {asked} questions, {answered} answered; {early} KB resident early, {most} KB \
         at most",
        seconds(),
        accepted.len(),
        got.len()
    );
    assert!(lost.is_empty(), "lost: {lost:?}");
    assert_eq!(twice, 0);
    assert!(logged >= accepted.len(), "{logged} logged");
    assert!(accepted.len() as u64 > seconds() * 5, "there was load");
    assert!(asked > answered && answered > 0, "the DNS was asked, well and ill");
    assert!(most < early + early / 2 + 40_000, "memory grew from {early} to {most} KB");
}
