//! A worker can compute and nothing else, and what it does to itself costs one request.
//!
//! This program is its own supervisor: the reader of messages, which runs in the worker, does what
//! the message says.

#![expect(clippy::print_stdout, reason = "it reports as a test runner does")]

mod linear;

use std::fs::File;
use std::io::{self, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::Duration;

use gauntlet_content::process::client::Pool;
use gauntlet_content::process::supervisor::{self, Settings};
use gauntlet_content::{Child, DefectKind, Limits, Root, Tree};
use rustix::process::{Pid, getpriority_process, setpriority_process};

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    match arguments.next().as_deref() {
        Some("supervisor") => {
            let control = io::stdin();
            let control = std::os::fd::AsFd::as_fd(&control).try_clone_to_owned().unwrap();
            let megabytes: u64 = arguments.next().unwrap().parse().unwrap();
            let settings = Settings { memory_bytes_max: megabytes << 20, ..Settings::default() };
            supervisor::serve(UnixStream::from(control), &settings, misbehave).unwrap();
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

const TESTS: [(&str, fn()); 15] = [
    ("nothing_of_the_system_is_reached", nothing_of_the_system_is_reached),
    ("a_worker_that_fails_costs_one_request", a_worker_that_fails_costs_one_request),
    ("one_that_hangs_does_not_hold_up_the_others", one_that_hangs_does_not_hold_up_the_others),
    ("a_worker_has_the_priority_of_who_asks", a_worker_has_the_priority_of_who_asks),
    ("a_supervisor_that_is_killed_is_replaced", a_supervisor_that_is_killed_is_replaced),
    (
        "a_worker_that_outlives_its_supervisor_does_not_hide_the_end",
        a_worker_that_outlives_its_supervisor_does_not_hide_the_end,
    ),
    ("the_end_of_a_watched_supervisor_is_told", the_end_of_a_watched_supervisor_is_told),
    ("objects_come_with_their_bytes", objects_come_with_their_bytes),
    ("waiting_is_no_cpu_time", waiting_is_no_cpu_time),
    ("bombs_stay_within_64_megabytes", bombs_stay_within_64_megabytes),
    ("after_a_few_bombs_the_rest_is_not_tried", after_a_few_bombs_the_rest_is_not_tried),
    ("files_beyond_the_limit_are_a_defect", files_beyond_the_limit_are_a_defect),
    ("streams_beyond_the_limit_are_a_defect", streams_beyond_the_limit_are_a_defect),
    (
        "a_dictionary_larger_than_memory_is_unread_and_not_corrupt",
        a_dictionary_larger_than_memory_is_unread_and_not_corrupt,
    ),
    ("linear::time_grows_with_length_only", linear::time_grows_with_length_only),
];

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
        "sleep" => {
            std::thread::sleep(Duration::from_secs(3));
            "slept".to_owned()
        }
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
    pool_with(workers, 256)
}

/// Workers with so many megabytes of memory.
fn pool_with(workers: usize, megabytes: u64) -> Pool {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.arg("supervisor").arg(megabytes.to_string());
    Pool::start(command, workers).unwrap()
}

fn order(pool: &Pool, what: &str) -> Tree {
    let message = format!("From: a@b.example\r\nSubject: x\r\nX-Do: {what}\r\n\r\n");
    let limits = Limits { cpu_time_max: Duration::from_secs(1), ..Limits::default() };
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
    children_of(std::process::id().cast_signed())
}

fn children_of(process: i32) -> Vec<i32> {
    let list = format!("/proc/{process}/task/{process}/children");
    let list = std::fs::read_to_string(list).unwrap();
    list.split_ascii_whitespace().map(|number| number.parse().unwrap()).collect()
}

/// A pool and its supervisors, in the order of their start.
fn pool_and_supervisors(workers: usize) -> (Arc<Pool>, Vec<i32>) {
    let before = children();
    let pool = Arc::new(pool(workers));
    let started: Vec<i32> = children().into_iter().filter(|c| !before.contains(c)).collect();
    assert_eq!(started.len(), 2);
    (pool, started)
}

fn kill(number: i32) {
    // SAFETY: takes integers; the process is a child of this one that was not waited for.
    assert_eq!(unsafe { libc::kill(number, libc::SIGKILL) }, 0);
}

/// Gives an order on a thread that stands back.
fn order_in_background(pool: &Pool, what: &str) -> Tree {
    std::thread::scope(|scope| {
        let order = || {
            setpriority_process(None, STANDS_BACK).unwrap();
            order(pool, what)
        };
        scope.spawn(order).join().unwrap()
    })
}

/// The largest nice value.
const STANDS_BACK: i32 = 19;

fn a_worker_has_the_priority_of_who_asks() {
    let (pool, supervisors) = pool_and_supervisors(4);
    let usual = getpriority_process(None).unwrap();
    let nice = || {
        let workers = supervisors.iter().flat_map(|supervisor| children_of(*supervisor));
        let nice = |worker| getpriority_process(Pid::from_raw(worker)).ok();
        let mut all: Vec<i32> = workers.filter_map(nice).collect();
        all.sort_unstable();
        all
    };
    for _ in 0..2 {
        assert_eq!(order(&pool, "").objects.len(), 2);
        assert_eq!(order_in_background(&pool, "").objects.len(), 2);
    }
    assert_eq!(nice(), [usual, STANDS_BACK], "each was asked twice");
    std::thread::scope(|scope| {
        let sleep = || order_in_background(&pool, "sleep").objects.len();
        let sleeping: Vec<_> = (0..4).map(|_| scope.spawn(sleep)).collect();
        std::thread::sleep(Duration::from_millis(500));
        assert_eq!(nice(), [usual, STANDS_BACK, STANDS_BACK], "half of the workers");
        assert_eq!(order(&pool, "").objects.len(), 2);
        assert!(sleeping.iter().all(|one| !one.is_finished()), "others did not wait for them");
        sleeping.into_iter().for_each(|one| assert_eq!(one.join().unwrap(), 2));
    });
    // Where there is one place, it changes hands.
    let (pool, supervisors) = pool_and_supervisors(1);
    for wanted in [STANDS_BACK, usual, STANDS_BACK] {
        let done = if wanted == usual { order(&pool, "") } else { order_in_background(&pool, "") };
        assert_eq!(done.objects.len(), 2);
        let workers: Vec<i32> = supervisors.iter().flat_map(|s| children_of(*s)).collect();
        let alive = |worker: &i32| getpriority_process(Pid::from_raw(*worker)).unwrap();
        assert!(workers.iter().map(alive).any(|nice| nice == wanted), "{wanted}");
    }
}

fn a_worker_that_outlives_its_supervisor_does_not_hide_the_end() {
    let (pool, started) = pool_and_supervisors(2);
    let busy = {
        let pool = pool.clone();
        std::thread::spawn(move || order(&pool, "sleep"))
    };
    // Its worker runs once it has been taken; the pool has a second one.
    std::thread::sleep(Duration::from_millis(500));
    kill(started[1]);
    assert_eq!(order(&pool, "").objects.len(), 2, "by the supervisor in reserve");
    assert!(!busy.is_finished(), "while the other one still worked");
    assert_eq!(busy.join().unwrap().objects.len(), 2, "and its answer counts");
    assert_eq!(pool.supervisors_ended(), (1, 2));
}

fn the_end_of_a_watched_supervisor_is_told() {
    let (pool, started) = pool_and_supervisors(1);
    let (sender, told) = std::sync::mpsc::channel();
    pool.watch(move |end| sender.send(end.clone()).unwrap()).unwrap();
    assert_eq!(pool.supervisors_ended(), (0, 2));
    // The one in reserve first: what the other one has started is still its own.
    for (number, left) in [(started[0], 1), (started[1], 0)] {
        assert_eq!(order(&pool, "").objects.len(), 2);
        kill(number);
        let end = told.recv_timeout(Duration::from_secs(60)).unwrap();
        assert_eq!((end.id.cast_signed(), end.left), (number, left));
        assert!(end.how.contains("SIGKILL"), "{}", end.how);
        assert!(!children().contains(&number), "it was waited for");
    }
    order(&pool, "abort");
    let tree = order(&pool, "");
    assert!(tree.objects[0].defects[0].detail.contains("restart the node"), "{tree:?}");
    drop(pool);
    assert!(told.recv().is_err(), "nothing else has ended");
}

fn a_supervisor_that_is_killed_is_replaced() {
    let (pool, started) = pool_and_supervisors(2);
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

fn waiting_is_no_cpu_time() {
    let tree = order(&pool(1), "sleep");
    assert_eq!(tree.objects.len(), 2, "three seconds of sleep with one of CPU time: {tree:?}");
    assert!(tree.unread().next().is_none(), "{tree:?}");
}

/// A file of a ZIP: its name, its method, what it holds as the archive has it.
type Entry<'e> = (&'e str, u16, &'e [u8]);

/// A ZIP without sizes or checksums beside those of what it has.
fn zip(entries: &[Entry<'_>]) -> Vec<u8> {
    let (mut out, mut directory) = (Vec::new(), Vec::new());
    for (name, method, bytes) in entries {
        let size = u32::try_from(bytes.len()).unwrap().to_le_bytes();
        let fields = [
            &[20, 0, 0, 0][..],
            &method.to_le_bytes(),
            &[0, 0, 0x21, 0],
            &crc32fast::hash(bytes).to_le_bytes(),
            &size,
            &size,
            &u16::try_from(name.len()).unwrap().to_le_bytes(),
            &[0, 0],
        ]
        .concat();
        let at = u32::try_from(out.len()).unwrap().to_le_bytes();
        out.extend([b"PK\x03\x04", &fields[..], name.as_bytes(), bytes].concat());
        let entry = [b"PK\x01\x02\x14\0", &fields[..], &[0; 10], &at, name.as_bytes()].concat();
        directory.extend(entry);
    }
    let count = u16::try_from(entries.len()).unwrap().to_le_bytes();
    let at = u32::try_from(out.len()).unwrap().to_le_bytes();
    let length = u32::try_from(directory.len()).unwrap().to_le_bytes();
    out.extend(directory);
    out.extend([b"PK\x05\x06\0\0\0\0", &count[..], &count, &length, &at, &[0, 0]].concat());
    out
}

/// So many megabytes of zeros by a compressor.
fn zeros<W: Write>(megabytes: usize, mut into: W) -> W {
    for _ in 0..megabytes {
        into.write_all(&vec![0; 1 << 20]).unwrap();
    }
    into
}

/// Deflated zeros, without a header of their own.
fn deflated(megabytes: usize) -> Vec<u8> {
    let best = flate2::Compression::best();
    zeros(megabytes, flate2::write::DeflateEncoder::new(Vec::new(), best)).finish().unwrap()
}

/// Zeros in the formats whose ratio is best, alone and inside each other.
fn bombs() -> Vec<(&'static str, Vec<u8>)> {
    let best = flate2::Compression::best();
    let gzip = flate2::write::GzEncoder::new(Vec::new(), best);
    let gzip = zeros(100, gzip).finish().unwrap();
    let bzip2 = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::best());
    let bzip2 = zeros(30, bzip2).finish().unwrap();
    let deflated = deflated(100);
    let packed = zip(&[("zeros", 8, &deflated)]);
    let nested = zip(&[("a.zip", 0, &packed), ("b.gz", 0, &gzip), ("c.bz2", 0, &bzip2)]);
    vec![("a.gz", gzip), ("b.bz2", bzip2), ("c.zip", packed), ("d.zip", nested)]
}

fn kinds(tree: &Tree) -> Vec<DefectKind> {
    tree.unread().map(|(_, defect)| defect.kind).collect()
}

fn bombs_stay_within_64_megabytes() {
    let pool = pool_with(1, 64);
    for (name, bytes) in bombs() {
        let root = Root { name, declared_type: "", bytes: &bytes };
        let tree = pool.unpack(&[root], &Limits::default(), &[], None);
        let kinds = kinds(&tree);
        assert!(kinds.contains(&DefectKind::Bomb), "{name}: {kinds:?}");
        assert!(!kinds.contains(&DefectKind::DecoderFailed), "{name}: {kinds:?}");
    }
    // The same worker goes on.
    assert_eq!(order(&pool, "").objects.len(), 2);
}

fn after_a_few_bombs_the_rest_is_not_tried() {
    let deflated = deflated(20);
    let names: Vec<String> = (0..50).map(|n| format!("{n}.bin")).collect();
    let entries: Vec<Entry<'_>> = names.iter().map(|n| (n.as_str(), 8, &deflated[..])).collect();
    let bytes = zip(&entries);
    let root = Root { name: "many.zip", declared_type: "", bytes: &bytes };
    let tree = pool(1).unpack(&[root, root], &Limits::default(), &[], None);
    assert!(kinds(&tree).contains(&DefectKind::Bomb), "{:?}", kinds(&tree));
    let inside = tree.objects.iter().filter(|o| o.parent.is_some()).count();
    assert!((1..=4).contains(&inside), "{inside} of a hundred were read");
    let unread: Vec<u32> = tree.unread().map(|(object, _)| object.root).collect();
    assert!(unread.contains(&0) && unread.contains(&1), "both files have a defect: {unread:?}");
}

fn files_beyond_the_limit_are_a_defect() {
    let root = |name| Root { name, declared_type: "", bytes: b"text" };
    let roots = [root("a.txt"), root("b.txt"), root("c.txt")];
    let limits = Limits { objects_max: 2, ..Limits::default() };
    let tree = pool(1).unpack(&roots, &limits, &[], None);
    assert_eq!(tree.objects.len(), 2);
    let unread: Vec<_> = tree.unread().map(|(_, d)| (d.kind, d.detail.as_str())).collect();
    assert_eq!(unread, [(DefectKind::TooManyObjects, "c.txt")]);
}

fn streams_beyond_the_limit_are_a_defect() {
    const XZ: &[u8] = b"\xfd7zXZ\0\0\x04\xe6\xd6\xb4\x46\0\0\0\0\x1c\xdf\x44\x21\x1f\xb6\xf3\x7d\
        \x01\0\0\0\0\x04YZ";
    const ZSTD: &[u8] = b"\x28\xb5\x2f\xfd\0\0\x01\0\0";
    let pool = pool(1);
    const GZIP: &[u8] = b"\x1f\x8b\x08\0\0\0\0\0\0\xff\x03\0\0\0\0\0\0\0\0\0";
    for (name, empty) in [("a.xz", XZ), ("a.zst", ZSTD), ("a.gz", GZIP)] {
        let told = |count: usize| {
            let bytes = empty.repeat(count);
            let root = Root { name, declared_type: "", bytes: &bytes };
            kinds(&pool.unpack(&[root], &Limits::default(), &[], None))
        };
        assert_eq!(told(100), [], "{name}");
        assert_eq!(told(10_000), [DefectKind::Unsupported], "{name}");
    }
}

/// "aaa..." with a dictionary of 1 GB: whoever has more memory than a worker reads it.
fn a_dictionary_larger_than_memory_is_unread_and_not_corrupt() {
    const LARGE_DICTIONARY: &[u8] =
        b"\xfd\x37\x7a\x58\x5a\x00\x00\x04\xe6\xd6\xb4\x46\x02\x00\x21\x01\x24\x00\x00\x00\
        \x5e\x1f\xc7\xf9\xe0\x03\xe7\x00\x0b\x5d\x00\x30\xef\xfb\xbf\xfe\xa3\xb0\xb9\xa6\
        \x56\x00\x00\x00\x6c\xd9\xe8\x8b\xea\xee\x10\x76\x00\x01\x27\xe8\x07\x00\x00\x00\
        \xf4\x55\x8f\x5c\xb1\xc4\x67\xfb\x02\x00\x00\x00\x00\x04\x59\x5a";
    let root = Root { name: "a.xz", declared_type: "", bytes: LARGE_DICTIONARY };
    let tree = pool(1).unpack(&[root], &Limits::default(), &[], None);
    assert_eq!(kinds(&tree), [DefectKind::TooMuchMemory]);
}
