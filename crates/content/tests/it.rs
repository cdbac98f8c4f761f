//! A worker can compute and nothing else, and what it does to itself costs one request.
//!
//! This program is its own supervisor: the reader of messages, which runs in the worker, does what
//! the message says.

#![expect(clippy::print_stdout, reason = "it reports as a test runner does")]

use std::fs::File;
use std::io;
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::Duration;

use gauntlet_content::process::client::Pool;
use gauntlet_content::process::supervisor::{self, Settings};
use gauntlet_content::{Child, DefectKind, Limits, Root, Tree};

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    match arguments.next().as_deref() {
        Some("supervisor") => {
            let control = io::stdin();
            let control = std::os::fd::AsFd::as_fd(&control).try_clone_to_owned().unwrap();
            supervisor::serve(UnixStream::from(control), &settings(), misbehave).unwrap();
            ExitCode::SUCCESS
        }
        // Asked for a list, as `cargo nextest` and editors do.
        Some("--list") => ExitCode::SUCCESS,
        _ => {
            for (name, test) in TESTS {
                test();
                println!("test {name} ... ok");
            }
            println!("\ntest result: ok. {} passed; 0 failed", TESTS.len());
            ExitCode::SUCCESS
        }
    }
}

const TESTS: [(&str, fn()); 5] = [
    ("nothing_of_the_system_is_reached", nothing_of_the_system_is_reached),
    ("a_worker_that_fails_costs_one_request", a_worker_that_fails_costs_one_request),
    ("one_that_hangs_does_not_hold_up_the_others", one_that_hangs_does_not_hold_up_the_others),
    ("a_supervisor_that_is_killed_is_replaced", a_supervisor_that_is_killed_is_replaced),
    ("objects_come_with_their_bytes", objects_come_with_their_bytes),
];

fn settings() -> Settings {
    Settings { memory_bytes_max: 256 << 20, ..Settings::default() }
}

/// Does what the message says, in the worker.
fn misbehave(message: &[u8]) -> Vec<(Child, Vec<u8>)> {
    let text = String::from_utf8_lossy(message);
    let order = text.lines().find_map(|line| line.strip_prefix("X-Do: ")).unwrap_or_default();
    let outcome = match order {
        "open" => describe(File::open("/etc/passwd").map(drop)),
        "write" => describe(File::create("/tmp/gauntlet-worker").map(drop)),
        "list" => describe(std::fs::read_dir("/").map(drop)),
        "connect" => describe(TcpStream::connect("127.0.0.1:9").map(drop)),
        "socketpair" => describe(UnixStream::pair().map(drop)),
        "start" => describe(Command::new("/bin/true").status().map(drop)),
        "abort" => std::process::abort(),
        "kill" => {
            // SAFETY: ends this process, as the kernel does when memory is short.
            unsafe { libc::raise(libc::SIGKILL) };
            String::new()
        }
        "fault" => {
            // SAFETY: there is no memory there; the process ends, which is what is tested.
            unsafe { std::ptr::null_mut::<u8>().wrapping_add(8).write_volatile(1) };
            String::new()
        }
        "loop" => loop {
            std::hint::black_box(0);
        },
        "memory" => {
            let taken: Vec<Vec<u8>> = (0..10_240).map(|_| vec![1; 1 << 20]).collect();
            format!("{}", taken.len())
        }
        "panic" => panic!("as a decoder would"),
        _ => "nothing".to_owned(),
    };
    vec![(Child::named("outcome"), outcome.into_bytes())]
}

fn describe(result: io::Result<()>) -> String {
    match result {
        Ok(()) => "done".to_owned(),
        Err(error) => format!("refused: {}", error.kind()),
    }
}

fn pool(workers: usize) -> Pool {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.arg("supervisor");
    Pool::start(command, workers).unwrap()
}

fn order(pool: &Pool, what: &str) -> Tree {
    let message = format!("From: a@b.example\r\nSubject: x\r\nX-Do: {what}\r\n\r\n");
    let limits = Limits { time_max: Duration::from_secs(2), ..Limits::default() };
    let root = Root { name: "m.eml", declared_type: "", bytes: message.as_bytes() };
    pool.unpack(&[root], &limits, &[], None)
}

/// Bytes of the outcome, which tell what happened by their hash.
fn is_refused(tree: &Tree) -> bool {
    let outcome = "refused: permission denied";
    tree.objects.len() == 2 && tree.objects[1].size == outcome.len() as u64
}

fn nothing_of_the_system_is_reached() {
    let pool = pool(1);
    for what in ["open", "write", "list", "connect", "socketpair"] {
        let tree = order(&pool, what);
        assert!(is_refused(&tree), "{what}: {tree:?}");
    }
    // Starting a program ends the worker; the next one works.
    let tree = order(&pool, "start");
    let ended = tree.objects[0].defects.first().map(|d| d.kind);
    assert!(ended == Some(DefectKind::DecoderFailed) || is_refused(&tree), "{tree:?}");
    assert_eq!(order(&pool, "").objects.len(), 2);
}

fn a_worker_that_fails_costs_one_request() {
    let pool = pool(1);
    for what in ["abort", "kill", "fault", "memory", "panic"] {
        let tree = order(&pool, what);
        assert_eq!(tree.objects.len(), 1, "{what}");
        assert_eq!(tree.objects[0].defects[0].kind, DefectKind::DecoderFailed, "{what}");
        assert!(tree.unread().next().is_some());
        assert_eq!(order(&pool, "").objects.len(), 2, "the next one after {what}");
    }
}

fn one_that_hangs_does_not_hold_up_the_others() {
    let pool = Arc::new(pool(2));
    let hanging = {
        let pool = pool.clone();
        std::thread::spawn(move || order(&pool, "loop"))
    };
    for _ in 0..50 {
        assert_eq!(order(&pool, "").objects.len(), 2);
    }
    assert!(!hanging.is_finished(), "fifty were done while it hung");
    let tree = hanging.join().unwrap();
    assert_eq!(tree.objects[0].defects[0].kind, DefectKind::OutOfTime);
}

/// Processes that this one has started.
fn children() -> Vec<i32> {
    let list = format!("/proc/self/task/{}/children", std::process::id());
    let list = std::fs::read_to_string(list).unwrap();
    list.split_ascii_whitespace().map(|number| number.parse().unwrap()).collect()
}

fn a_supervisor_that_is_killed_is_replaced() {
    let before = children();
    let pool = pool(2);
    let started: Vec<i32> = children().into_iter().filter(|c| !before.contains(c)).collect();
    assert_eq!(started.len(), 2);
    let kill = |number: i32| {
        // SAFETY: takes integers; the process is a child of this one that was not waited for.
        assert_eq!(unsafe { libc::kill(number, libc::SIGKILL) }, 0);
    };
    assert_eq!(order(&pool, "").objects.len(), 2);
    kill(started[1]);
    // Its worker is still there, and fails: the next one needs a supervisor.
    order(&pool, "abort");
    assert_eq!(order(&pool, "").objects.len(), 2);
    kill(started[0]);
    order(&pool, "abort");
    let tree = order(&pool, "");
    assert_eq!(tree.objects[0].defects[0].kind, DefectKind::DecoderFailed);
    assert!(tree.objects[0].defects[0].detail.contains("restart the node"), "{tree:?}");
}

fn objects_come_with_their_bytes() {
    let pool = pool(1);
    let mut seen = Vec::new();
    let mut look = |object: &gauntlet_content::Object, bytes: &[u8]| {
        seen.push((object.path.clone(), bytes.len()));
    };
    let bytes = b"From: a@b.example\r\nSubject: x\r\n\r\n";
    let root = Root { name: "m.eml", declared_type: "", bytes };
    pool.unpack(&[root], &Limits::default(), &[], Some(&mut look));
    assert_eq!(seen, [("m.eml".to_owned(), bytes.len()), ("m.eml/outcome".to_owned(), 7)]);
}
