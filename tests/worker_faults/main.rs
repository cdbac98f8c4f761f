//! Workers that unpack are killed, crash, loop for ever and take all memory while mail comes by
//! SMTP: every message is answered 250, and is delivered or held exactly once; what has no files
//! does not wait.
//!
//! This program is its own supervisor: the reader of messages, which runs in the worker, does what
//! the message says. So it has no harness, and is no module of `tests/it.rs`.

#![expect(clippy::print_stdout, reason = "it reports as a test runner does")]

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use gauntlet_content::Child;
use gauntlet_content::process::client::Pool;
use gauntlet_content::process::supervisor::{self, Settings};
use gauntlet_engine::Snapshot;
use gauntlet_gateway::config::{Config, Loaded};
use gauntlet_gateway::scan::engines::EngineHost;
use gauntlet_gateway::scan::unpacking::Unpacking;
use gauntlet_gateway::{Judge, Listeners, Node};
use gauntlet_policy::{Groups, Policy};
use gauntlet_store::quarantine::HeldQuery;
use gauntlet_store::{Outcome, Query, Users};
use gauntlet_verdict::Class;

const TESTS: [(&str, fn()); 1] = [("mail_flows_while_workers_fail", mail_flows_while_workers_fail)];

/// Workers at once; so many hanging ones take all.
const WORKERS: usize = 2;
/// What a worker does to itself: SIGKILL, SIGSEGV, an abort, more memory than it may have, a panic.
const FAULTS: [&str; 5] = ["kill", "fault", "abort", "memory", "panic"];
/// Times that each of them happens.
const ROUNDS: usize = 3;
/// Messages without files that are answered while every worker hangs.
const PLAIN: usize = 20;
/// CPU time of a worker that loops, until the kernel ends it.
const CPU_SECONDS_MAX: u64 = 3;
const PATIENCE: Duration = Duration::from_secs(60);

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some("supervisor") => {
            let control = io::stdin().as_fd().try_clone_to_owned().expect("the control socket");
            let settings = Settings { memory_bytes_max: 256 << 20, ..Settings::default() };
            supervisor::serve(UnixStream::from(control), &settings, misbehave).expect("served");
        }
        // Asked for a list, as `cargo nextest` and editors do.
        Some("--list") => {}
        asked => {
            // `cargo test NAME` asks for those whose names contain it.
            let part = asked.filter(|name| !name.starts_with('-')).unwrap_or_default();
            let wanted = TESTS.iter().filter(|(name, _)| name.contains(part));
            for (name, test) in wanted.clone() {
                test();
                println!("test {name} ... ok");
            }
            println!("\ntest result: ok. {} passed; 0 failed", wanted.count());
        }
    }
    ExitCode::SUCCESS
}

/// Does what the message says, in the worker.
fn misbehave(message: &[u8]) -> Vec<(Child, Vec<u8>)> {
    let text = String::from_utf8_lossy(message);
    match text.lines().find_map(|line| line.strip_prefix("X-Do: ")).unwrap_or_default() {
        // SAFETY: ends this process, as the kernel does when memory is short.
        "kill" => drop(unsafe { libc::raise(libc::SIGKILL) }),
        // SAFETY: there is no memory there; the process ends, which is what is tested.
        "fault" => unsafe { std::ptr::null_mut::<u8>().wrapping_add(8).write_volatile(1) },
        "abort" => std::process::abort(),
        "memory" => {
            let taken: Vec<Vec<u8>> = (0..10_240).map(|_| vec![1; 1 << 20]).collect();
            std::hint::black_box(taken);
        }
        "panic" => panic!("as a decoder would"),
        "loop" => loop {
            std::hint::black_box(0);
        },
        _ => {}
    }
    vec![(Child::named("note.txt"), b"Nothing to see here.".to_vec())]
}

/// A node whose workers are of this program, with the shipped rules and policy.
fn start(folder: &Path) -> Arc<Node> {
    let file = folder.join("gauntlet.toml");
    let text = format!(
        "[node]\nname = \"gw.test\"\ndata = {:?}\n[facts]\nenabled = false\n\
         [spool]\nfree_bytes_min = 0\n[console]\naddress = \"\"\n\
         [content]\ncpu_seconds_max = {CPU_SECONDS_MAX}\n\
         [[listener]]\naddress = \"127.0.0.1:0\"\n",
        folder.join("data")
    );
    std::fs::write(&file, text).expect("a configuration file");
    let config = Loaded::load(Some(&file), []).expect("it is understood").config;
    std::fs::create_dir_all(folder.join("users")).expect("a folder");
    let users = Arc::new(Users::open(&folder.join("users")).expect("users"));
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    // What a worker says of its own end is of no interest.
    command.arg("supervisor").env("RUST_BACKTRACE", "0").stderr(Stdio::null());
    let pool = Arc::new(Pool::start(command, WORKERS).expect("a supervisor"));
    let judge = move |config: &Config| {
        let engines = EngineHost::default().engines(&config.engine, &config.content)?;
        Ok(Judge {
            snapshot: Snapshot::default_rules(),
            policy: Policy::parse(Policy::DEFAULT, &Groups::default())?,
            limits: config.limits,
            probes: None,
            scans: true,
            unpacking: Some(Unpacking::new(&config.content, pool.clone(), engines.into()).into()),
            data_loss: Default::default(),
            shadow: Default::default(),
        })
    };
    let listeners = Listeners::open(&config).expect("free addresses");
    Node::start(config, listeners, Box::new(judge), users).expect("a node")
}

/// A message without files.
fn plain(token: &str) -> String {
    let now = std::time::UNIX_EPOCH.elapsed().expect("a clock").as_millis();
    let date = gauntlet_mail::date::rfc5322(i64::try_from(now).expect("a clock"));
    format!(
        "From: Ann <ann@example.org>\r\nTo: Bob <bob@example.net>\r\nSubject: {token}\r\n\
         Date: {date}\r\nMessage-ID: <{token}@example.org>\r\n\
         MIME-Version: 1.0\r\nContent-Type: text/plain\r\n\r\nDear Bob, the minutes of Monday.\r\n"
    )
}

/// The same with a message in a gzip, which has the worker do something.
fn with_file(token: &str, order: &str) -> String {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    // The token makes each file another one.
    write!(gzip, "From: a@example.org\r\nSubject: {token}\r\nX-Do: {order}\r\n\r\nText\r\n")
        .unwrap();
    let packed = base64_simd::STANDARD.encode_to_string(gzip.finish().unwrap());
    let lines: Vec<&str> =
        packed.as_bytes().chunks(76).map(|line| std::str::from_utf8(line).unwrap()).collect();
    let text = plain(token);
    let (head, body) = text.split_once("Content-Type").unwrap();
    format!(
        "{head}Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\nContent-Type{body}\r\n--b\r\n\
         Content-Type: application/gzip; name=m.eml.gz\r\nContent-Disposition: attachment; \
         filename=m.eml.gz\r\nContent-Transfer-Encoding: base64\r\n\r\n{}\r\n--b--\r\n",
        lines.join("\r\n")
    )
}

/// An SMTP client.
struct Smtp(BufReader<TcpStream>);

impl Smtp {
    fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("the node listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        let mut client = Smtp(BufReader::new(stream));
        client.reply("220");
        client.say("EHLO client.test", "250");
        client
    }

    /// Reads a reply of this code, all its lines.
    fn reply(&mut self, code: &str) {
        loop {
            let mut line = String::new();
            self.0.read_line(&mut line).expect("a reply in time");
            assert!(line.starts_with(code), "{line:?} instead of {code}");
            if line.as_bytes().get(3) != Some(&b'-') {
                return;
            }
        }
    }

    fn say(&mut self, line: &str, code: &str) {
        self.0.get_mut().write_all(format!("{line}\r\n").as_bytes()).expect("a connection");
        self.reply(code);
    }

    /// Sends a message, which is answered 250.
    fn send(&mut self, message: &str) {
        self.say("MAIL FROM:<ann@example.org>", "250");
        self.say("RCPT TO:<bob@example.net>", "250");
        self.say("DATA", "354");
        self.say(&format!("{message}."), "250");
    }
}

/// Workers that have had a quarter of a second of CPU time: only one that loops takes so much.
fn workers_at_work() -> usize {
    const TICKS: u64 = 25;
    let children = |pid: &str| {
        let list = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
        list.unwrap_or_default().split(' ').map(str::to_owned).collect::<Vec<_>>()
    };
    let worker_ticks = |pid: &String| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // Behind the name in brackets: the state, then ten numbers, then the time in the program.
        stat.rsplit_once(')')?.1.split_whitespace().nth(11)?.parse::<u64>().ok()
    };
    let supervisors = children(&std::process::id().to_string());
    let workers = supervisors.iter().flat_map(|pid| children(pid));
    workers.filter(|pid| worker_ticks(pid).is_some_and(|ticks| ticks >= TICKS)).count()
}

/// What is sent: plain messages while every worker hangs, then all that workers can do to
/// themselves, from several clients. Result: subjects, and whether a worker failed at them.
fn send_all(address: SocketAddr) -> BTreeMap<String, bool> {
    let mut sent = BTreeMap::new();
    std::thread::scope(|scope| {
        let (answered, hanging) = channel();
        for n in 0..WORKERS {
            let token = format!("loop-{n}");
            sent.insert(token.clone(), true);
            let answered = answered.clone();
            scope.spawn(move || {
                Smtp::connect(address).send(&with_file(&token, "loop"));
                let _it_was_waited_for = answered.send(());
            });
        }
        let start = Instant::now();
        while workers_at_work() < WORKERS {
            assert!(start.elapsed() < PATIENCE, "no worker loops");
            std::thread::sleep(Duration::from_millis(10));
        }
        let mut client = Smtp::connect(address);
        for n in 0..PLAIN {
            let token = format!("plain-{n}");
            client.send(&plain(&token));
            sent.insert(token, false);
        }
        assert!(hanging.try_recv().is_err(), "a worker ended before {PLAIN} were answered");
        for n in 0..WORKERS {
            hanging.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("{n} were answered"));
        }
    });
    std::thread::scope(|scope| {
        for fault in FAULTS {
            let tokens = (0..ROUNDS).flat_map(|n| [("fine", n, false), (fault, n, true)]);
            let tokens: Vec<_> = tokens
                .map(|(what, n, fails)| (format!("{fault}-{n}-{what}"), what, fails))
                .collect();
            sent.extend(tokens.iter().map(|(token, _, fails)| (token.clone(), *fails)));
            scope.spawn(move || {
                let mut client = Smtp::connect(address);
                for (token, what, _) in tokens {
                    client.send(&with_file(&token, what));
                    client.send(&plain(&format!("{token}-beside")));
                }
            });
            for n in 0..ROUNDS {
                sent.insert(format!("{fault}-{n}-fine-beside"), false);
                sent.insert(format!("{fault}-{n}-{fault}-beside"), false);
            }
        }
    });
    sent
}

fn mail_flows_while_workers_fail() {
    let folder = tempfile::tempdir().expect("a folder");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let node = {
        let _in_it = runtime.enter();
        start(folder.path())
    };
    let (_, address) = node.addresses()[0];
    let sent = send_all(address);
    let start = Instant::now();
    // The spool forgets a message once its outcome is in the log.
    while !node.render_metrics().contains("\ngauntlet_spool_messages 0\n") {
        assert!(start.elapsed() < PATIENCE, "the spool does not become empty");
        std::thread::sleep(Duration::from_millis(10));
    }

    // Each exactly once: in the log, and where the log says.
    let mut logged = BTreeMap::new();
    let mut query = Query { limit: 500, ..Query::default() };
    loop {
        let page = node.log.search(&query).expect("the log");
        for found in page.messages {
            let record = node.log.get(&found.id).expect("the log").expect("it was found").record;
            assert_eq!(record.deliveries.len(), 1);
            let ended = (record.verdict.class, record.deliveries[0].outcome);
            assert!(
                logged.insert(record.subject.clone(), ended).is_none(),
                "{} twice",
                record.subject
            );
        }
        query.after = page.next;
        if query.after.is_none() {
            break;
        }
    }
    let (mut delivered, mut held) = (0, 0);
    for (token, fails) in &sent {
        let (class, outcome) = logged.get(token).unwrap_or_else(|| panic!("{token} is lost"));
        let is_held = *outcome == Outcome::Quarantined;
        assert_eq!((*class == Class::Unscannable, is_held), (*fails, *fails), "{token}: {class:?}");
        assert!(is_held || *outcome == Outcome::Delivered, "{token}: {outcome:?}");
        (delivered, held) = (delivered + usize::from(!is_held), held + usize::from(is_held));
    }
    assert_eq!(logged.len(), sent.len());
    let files = std::fs::read_dir(node.maildir().join("new")).expect("the Maildir");
    let mut subjects: Vec<String> = files
        .map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap())
        .map(|text| subject(&text).to_owned())
        .collect();
    let found = subjects.len();
    subjects.sort();
    subjects.dedup();
    assert_eq!((found, subjects.len()), (delivered, delivered), "each is delivered once");
    let held_query = HeldQuery { limit: 500, ..HeldQuery::default() };
    let items = node.quarantine.search(&held_query).expect("the quarantine").items;
    assert_eq!(items.len(), held, "each is held once");
    println!("{delivered} delivered, {held} held");
    runtime.block_on(node.stop());
}

fn subject(text: &str) -> &str {
    text.lines().find_map(|line| line.strip_prefix("Subject: ")).expect("a subject").trim_end()
}
