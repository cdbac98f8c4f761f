//! SIGKILL at random moments under load: every message that was answered 250 is there afterwards,
//! in the Maildir, at the next hop, in quarantine or in the log.
//!
//! `GAUNTLET_KILLS` says how often on each of the ways (25 by default, so 125 in all);
//! `.ci/long` asks for 300, over which fewer than one message in a thousand may come twice.

use std::collections::BTreeSet;
use std::io::Write;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use gauntlet_store::Quarantine;
use gauntlet_store::quarantine::HeldQuery;

use crate::common::{Node, Sink, Smtp, message, random, tokens};

/// Clients that send at once.
const CLIENTS: usize = 4;

fn kills() -> u64 {
    let text = std::env::var("GAUNTLET_KILLS").unwrap_or_else(|_| "25".to_owned());
    text.parse().expect("GAUNTLET_KILLS is a number")
}

/// Makes the message of a token and its number.
type Make = fn(&str, u64) -> Vec<u8>;

fn plain(token: &str, number: u64) -> Vec<u8> {
    message(token, usize::try_from(number % 7).unwrap() * 4_000)
}

/// A message with the test file of malware engines in a gzip, which no other message has.
fn with_packed_malware(token: &str, number: u64) -> Vec<u8> {
    let test_file =
        ["X5O!P%@AP[4\\PZX54(P^)7CC)7}$EICAR", "-STANDARD-ANTIVIRUS-TEST-FILE!$H+H*"].concat();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    // Noise keeps the worker busy for a while.
    let noise = "noise that is unpacked and read, and then the file\r\n".repeat(2_000);
    let inner = format!(
        "From: a@example.org\r\nSubject: {token}\r\nMIME-Version: 1.0\r\nContent-Type: \
         multipart/mixed; boundary=i\r\n\r\n--i\r\n\r\n{noise}{number}\r\n--i\r\nContent-Type: \
         application/octet-stream; name=a.com\r\n\r\n{test_file}\r\n--i--\r\n"
    );
    gzip.write_all(inner.as_bytes()).unwrap();
    let packed = base64_simd::STANDARD.encode_to_string(gzip.finish().unwrap());
    let lines: Vec<&str> =
        packed.as_bytes().chunks(76).map(|line| std::str::from_utf8(line).unwrap()).collect();
    let text = String::from_utf8(message(token, 0)).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    format!(
        "{head}\r\nMIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\n\
         {body}\r\n--b\r\nContent-Type: application/gzip; name=m.eml.gz\r\n\
         Content-Transfer-Encoding: base64\r\n\r\n{}\r\n--b--\r\n",
        lines.join("\r\n")
    )
    .into_bytes()
}

/// Clients that send until they are stopped; a message that is not answered is not sent again.
struct Load {
    stop: Arc<AtomicBool>,
    acknowledged: Arc<Mutex<BTreeSet<String>>>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl Load {
    fn start(smtp: std::net::SocketAddr, next: &Arc<AtomicU64>, make: Make) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let acknowledged = Arc::new(Mutex::new(BTreeSet::new()));
        let thread = |_| {
            let (stop, acknowledged, next) = (stop.clone(), acknowledged.clone(), next.clone());
            std::thread::spawn(move || {
                let Ok(mut client) = Smtp::connect(smtp) else { return };
                while !stop.load(Ordering::Relaxed) {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let token = format!("t{number}");
                    let body = make(&token, number);
                    match client.send("ann@example.org", &["bob@example.net"], &body) {
                        Ok(reply) if reply.starts_with("250") => {
                            acknowledged.lock().unwrap().insert(token);
                        }
                        Ok(_) => {}
                        Err(_) => return,
                    }
                }
            })
        };
        let threads = (0..CLIENTS).map(thread).collect();
        Load { stop, acknowledged, threads }
    }

    /// Waits until a few messages are acknowledged, so that on a busy machine, too, the kill hits
    /// load.
    fn wait_for_some(&self) {
        let start = Instant::now();
        while self.acknowledged.lock().unwrap().len() < 2
            && start.elapsed() < Duration::from_secs(30)
        {
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn end(self) -> BTreeSet<String> {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.into_iter().for_each(|t| t.join().unwrap());
        std::mem::take(&mut *self.acknowledged.lock().unwrap())
    }
}

/// From so many kills on duplicates are held to a share of all messages, and load lasts longer
/// between two kills: a node that is killed five times a second is no node.
const MANY_KILLS: u64 = 100;
/// Messages of which at most one may come twice, over many kills.
const DUPLICATE_IN: usize = 1_000;

/// Longest load before a kill, in milliseconds.
fn load_ms_max() -> u64 {
    if kills() < MANY_KILLS { 250 } else { 2_000 }
}

/// Kills the node again and again; returns what was acknowledged.
fn torture(node: &mut Node, make: Make) -> BTreeSet<String> {
    let seed = u64::from(std::process::id());
    eprintln!("seed {seed}");
    let mut state: u64 = 0x9E37_79B9_7F4A_7C15 ^ seed;
    let next = Arc::new(AtomicU64::new(0));
    let mut acknowledged = BTreeSet::new();
    for kill in 0..kills() {
        let load = Load::start(node.smtp, &next, make);
        // Some kills come before anything is acknowledged.
        if kill % 4 != 3 {
            load.wait_for_some();
        }
        std::thread::sleep(Duration::from_millis(20 + random(&mut state) % load_ms_max()));
        node.kill();
        acknowledged.extend(load.end());
        node.run();
    }
    node.wait_for_empty_queue();
    let start = Instant::now();
    node.stop();
    eprintln!(
        "{} kills, {} acknowledged, {:?} to stop",
        kills(),
        acknowledged.len(),
        start.elapsed()
    );
    assert!(acknowledged.len() as u64 > kills(), "there was load");
    acknowledged
}

fn account(node: &Node, acknowledged: &BTreeSet<String>, delivered: &[Vec<u8>]) -> usize {
    let counts = tokens(delivered);
    let lost: Vec<&String> = acknowledged.iter().filter(|t| !counts.contains_key(*t)).collect();
    assert!(lost.is_empty(), "{} lost: {lost:?}\n{}", lost.len(), node.log());
    let logged = node.logged();
    assert!(logged >= acknowledged.len(), "{logged} logged, {} taken", acknowledged.len());
    let twice = counts.values().filter(|n| **n > 1).count();
    eprintln!("{} delivered, {twice} of them twice, {logged} logged", counts.len());
    twice
}

#[test]
fn sigkill_loses_nothing_on_the_way_to_the_maildir() {
    let mut node = Node::start("");
    let acknowledged = torture(&mut node, plain);
    let delivered = node.maildir();
    // A file's name comes from the message's id: a delivery repeated replaces the first.
    assert_eq!(account(&node, &acknowledged, &delivered), 0);
}

#[test]
fn sigkill_loses_nothing_on_the_way_to_the_quarantine() {
    let folder = tempfile::tempdir().unwrap();
    let policy = folder.path().join("policy.toml");
    std::fs::write(&policy, "[[rule]]\nname = \"all\"\ndo = { quarantine = \"held\" }\n").unwrap();
    let mut node = Node::start_in(folder, &format!("[policy]\npath = {policy:?}\n"));
    let acknowledged = torture(&mut node, plain);
    let held = held(&node);
    assert_eq!(account(&node, &acknowledged, &held), 0, "none is held twice");
}

/// What is in quarantine, every body whole.
fn held(node: &Node) -> Vec<Vec<u8>> {
    let quarantine = Quarantine::open(&node.data().join("quarantine")).unwrap();
    let unreadable = quarantine.verify(|damaged| panic!("{damaged:?}"));
    let (mut held, mut query) = (Vec::new(), HeldQuery { limit: 500, ..HeldQuery::default() });
    loop {
        let page = quarantine.search(&query).unwrap();
        held.extend(page.items.iter().map(|i| quarantine.body(&i.item.id).unwrap().unwrap()));
        query.after = page.next;
        if query.after.is_none() {
            break;
        }
    }
    assert_eq!(unreadable.unwrap(), held.len() as u64);
    held
}

/// Each message has malware that only unpacking finds: one that is delivered was not looked at.
#[test]
fn sigkill_loses_nothing_while_attachments_are_unpacked() {
    let mut node = Node::start("");
    let acknowledged = torture(&mut node, with_packed_malware);
    assert_eq!(account(&node, &acknowledged, &held(&node)), 0, "none is held twice");
    assert_eq!(node.maildir().len(), 0, "all of it is malware");
}

/// The mail goes to a next hop; each kill may repeat what was on the wire, and nothing else.
fn to_a_next_hop(cut_through: bool) {
    let sink = Sink::start();
    let config = format!(
        "[route]\nnext_hop = \"{}\"\ncut_through = {cut_through}\n[sender]\nretry_seconds = [1]\n",
        sink.address
    );
    let mut node = Node::start(&config);
    let acknowledged = torture(&mut node, plain);
    let twice = account(&node, &acknowledged, &sink.taken());
    let bound = usize::try_from(kills()).unwrap() * CLIENTS;
    assert!(twice <= bound, "{twice} delivered twice");
    let most = acknowledged.len() / DUPLICATE_IN;
    assert!(kills() < MANY_KILLS || twice <= most, "{twice} delivered twice, {most} may be");
}

#[test]
fn sigkill_loses_nothing_on_the_way_to_a_next_hop() {
    to_a_next_hop(false);
}

#[test]
fn sigkill_loses_nothing_in_cut_through() {
    to_a_next_hop(true);
}
