//! A disk that fills while mail comes: refused mail gets 4xx, and what was answered 250 is
//! delivered or held, though the node is killed on the full disk.
//!
//! The data folder is a tmpfs of its own, in a mount namespace that this thread alone has.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::{Node, Sink, Smtp, message, random, token_of, tokens};
use gauntlet_store::Quarantine;
use gauntlet_store::quarantine::HeldQuery;

const CLIENTS: usize = 4;
/// Messages taken in each round before the disk fills.
const TAKEN_MIN: usize = 15;
/// Bytes of the file system of the data folder: several times what clients send in all rounds, of
/// which some stays (Maildir, quarantine), so that there is room once the filler is gone.
const DISK_BYTES: u64 = 48 << 20;
/// How long room may take to be free after files are gone: processes that end have some open.
const FREE_WITHIN: Duration = Duration::from_secs(10);
/// A client's pause behind each message. Without it a fast machine fills the disk with mail alone,
/// before the filler comes, and then no removal makes room for a start.
const PAUSE: Duration = Duration::from_millis(5);
/// Everything from this sender is held.
const HELD: &str = "held@example.org";

/// Mounts a small file system for this thread and the processes that it starts; false if that is
/// not allowed. `GAUNTLET_FULL_DISK_EXT4` asks for a file with ext4 instead of a tmpfs: another way
/// to run out of room.
pub(crate) fn mount_small(path: &Path) -> bool {
    if std::env::var_os("GAUNTLET_FULL_DISK_EXT4").is_none() {
        return mount_tmpfs(path, &format!("size={DISK_BYTES}"));
    }
    let image = path.with_extension("ext4");
    std::fs::File::create(&image).unwrap().set_len(DISK_BYTES).unwrap();
    let image = image.to_str().unwrap();
    let made = Command::new("mkfs.ext4").args(["-q", "-m", "0", image]).status().unwrap();
    made.success() && is_alone() && mounted(path, &["-o", "loop", image])
}

/// Mounts a tmpfs with these options for this thread and the processes that it starts; false if
/// that is not allowed.
pub(crate) fn mount_tmpfs(path: &Path, options: &str) -> bool {
    is_alone() && mounted(path, &["-t", "tmpfs", "-o", options, "tmpfs"])
}

fn mounted(path: &Path, args: &[&str]) -> bool {
    let made = Command::new("mount").args(args).arg(path).status();
    made.is_ok_and(|status| status.success())
}

/// Gives this thread mounts of its own.
fn is_alone() -> bool {
    let none = std::ptr::null();
    // SAFETY: the strings end in NUL and outlive the calls.
    unsafe {
        libc::unshare(libc::CLONE_NEWNS) == 0
            && libc::mount(none, c"/".as_ptr(), none, libc::MS_REC | libc::MS_PRIVATE, none.cast())
                == 0
    }
}

/// Rounds of each scenario: `GAUNTLET_FULL_DISKS`, or a few.
fn rounds() -> u64 {
    let text = std::env::var("GAUNTLET_FULL_DISKS").unwrap_or_else(|_| "3".to_owned());
    text.parse().expect("GAUNTLET_FULL_DISKS is a number")
}

/// What clients were answered.
#[derive(Default)]
struct Answers {
    acknowledged: BTreeSet<String>,
    refused: BTreeMap<String, String>,
}

/// Clients that send until the node is gone.
fn load(
    smtp: std::net::SocketAddr,
    next: &Arc<AtomicU64>,
    answers: &Arc<Mutex<Answers>>,
) -> Vec<std::thread::JoinHandle<()>> {
    let client = |_| {
        let (next, answers) = (next.clone(), answers.clone());
        std::thread::spawn(move || {
            let Ok(mut client) = Smtp::connect(smtp) else { return };
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let token = format!("t{number}");
                let from = if number % 3 == 0 { HELD } else { "ann@example.org" };
                // Of which some go to disk as they come (receiver.body_memory_bytes_max).
                let bytes = if number % 11 == 5 { 400_000 } else { (number % 5) * 9_000 };
                let body = message(&token, usize::try_from(bytes).unwrap());
                let Ok(reply) = client.send(from, &["bob@example.net"], &body) else { return };
                let mut answers = answers.lock().unwrap();
                if reply.starts_with("250") {
                    answers.acknowledged.insert(token);
                } else {
                    answers.refused.insert(token, reply.clone());
                }
                drop(answers);
                std::thread::sleep(PAUSE);
                if reply.starts_with("421") {
                    match Smtp::connect(smtp) {
                        Ok(again) => client = again,
                        Err(_) => return,
                    }
                }
            }
        })
    };
    (0..CLIENTS).map(client).collect()
}

/// Takes every free byte, again and again, until it is stopped.
fn fill(path: &Path, stop: &AtomicBool) {
    let mut file = std::fs::File::create(path).unwrap();
    let block = vec![0; 64 << 10];
    while !stop.load(Ordering::Relaxed) {
        for size in [64 << 10, 4 << 10] {
            while file.write(&block[..size]).is_ok_and(|n| n > 0) {}
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Makes room. A process that another test starts at this moment has the file open until it is
/// executed, which keeps the room of a file that is removed, but not of one that is emptied.
fn empty(path: &Path) {
    let file = std::fs::File::options().write(true).open(path).unwrap();
    file.set_len(0).unwrap();
    std::fs::remove_file(path).unwrap();
}

/// Starts the node on the full disk, where it may end by itself, and kills it.
fn start_in_vain(node: &Node) {
    let mut command = Command::new("timeout");
    command.args(["--signal=KILL", "3", env!("CARGO_BIN_EXE_gauntlet"), "serve", "--config"]);
    command.arg(node.folder.path().join("gauntlet.toml")).env_remove("GAUNTLET_CONFIG");
    let ended = command.stdout(Stdio::null()).stderr(Stdio::piped()).output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    // `timeout` ends by the signal that it sends; by another one the node ended itself.
    let killed = std::os::unix::process::ExitStatusExt::signal(&ended.status);
    assert!(matches!(killed, None | Some(libc::SIGKILL)), "{}: {said}", ended.status);
    let refused = ended.status.code() == Some(2);
    assert!(!refused || said.contains("`df`") || said.contains("No space left"), "{said}");
    eprintln!("on the full disk: {}, {}", ended.status, said.lines().last().unwrap_or_default());
}

/// A node on a small disk of its own; none where that cannot be had.
fn small_node(free_bytes_min: u64, route: &str) -> Option<Node> {
    let is_root = Command::new("id").arg("-u").output().unwrap().stdout == b"0\n";
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    std::fs::create_dir(&data).unwrap();
    if !is_root || !mount_small(&data) {
        assert!(std::env::var_os("CI").is_none() || !is_root, "a tmpfs cannot be mounted");
        eprintln!("SKIPPED: only root may mount a file system, where namespaces are allowed");
        return None;
    }
    std::fs::set_permissions(&data, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    let policy = folder.path().join("policy.toml");
    let rule = format!(
        "[[rule]]\nname = \"held\"\nwhen.sender = \"{HELD}\"\ndo = {{ quarantine = \"held\" }}\n"
    );
    std::fs::write(&policy, rule).unwrap();
    let config = format!(
        "{route}[spool]\nfree_bytes_min = {free_bytes_min}\nsegment_bytes_max = 1048576\n\
         [policy]\npath = {policy:?}\n[sender]\nretry_seconds = [1]\n"
    );
    Some(Node::start_in(folder, &config))
}

/// Fills the disk of a node under load, kills it, makes room and starts it, some times. Threads and
/// processes that are started here see the file system. `next_hop` is whether mail goes there in
/// cut-through.
fn scenario(free_bytes_min: u64, killed_full: bool, next_hop: Option<bool>) {
    let sink = next_hop.map(|_| Sink::start());
    let route = sink.iter().map(|sink| {
        let cut_through = next_hop == Some(true);
        format!("[route]\nnext_hop = \"{}\"\ncut_through = {cut_through}\n", sink.address)
    });
    let Some(mut node) = small_node(free_bytes_min, &route.collect::<String>()) else { return };
    let data = node.data();
    let seed = u64::from(std::process::id());
    eprintln!("seed {seed}");
    let mut state: u64 = 0x9E37_79B9_7F4A_7C15 ^ seed;
    let next = Arc::new(AtomicU64::new(0));
    let answers = Arc::new(Mutex::new(Answers::default()));
    let filler = data.join("filler");
    let more_taken = |node: &Node, more: usize| {
        let before = answers.lock().unwrap().acknowledged.len();
        node.wait_until("it takes mail", || {
            answers.lock().unwrap().acknowledged.len() >= before + more
        });
    };
    for round in 0..rounds() {
        let clients = load(node.smtp, &next, &answers);
        more_taken(&node, TAKEN_MIN);
        let stop = Arc::new(AtomicBool::new(false));
        let filling = {
            let (filler, stop) = (filler.clone(), stop.clone());
            std::thread::spawn(move || fill(&filler, &stop))
        };
        std::thread::sleep(Duration::from_millis(150 + random(&mut state) % 400));
        if killed_full {
            node.kill();
            // It may also be started and killed again before there is room.
            if round % 2 == 1 {
                start_in_vain(&node);
            }
        }
        stop.store(true, Ordering::Relaxed);
        filling.join().unwrap();
        empty(&filler);
        if !killed_full {
            // It takes mail again by itself.
            more_taken(&node, TAKEN_MIN);
            node.kill();
        }
        clients.into_iter().for_each(|client| client.join().unwrap());
        node.run();
        // Else the file system fills for good.
        node.wait_for_empty_queue();
    }
    node.stop();
    let delivered = sink.map_or_else(|| node.maildir(), |sink| sink.taken());
    account(&node, &answers.lock().unwrap(), &delivered);
}

/// Everything that was acknowledged is there; everything else was deferred with a 4xx.
fn account(node: &Node, answers: &Answers, delivered: &[Vec<u8>]) {
    let delivered = tokens(delivered);
    let quarantine = Quarantine::open_shared(&node.data().join("quarantine")).unwrap();
    let mut held = BTreeSet::new();
    let mut query = HeldQuery { limit: 500, ..HeldQuery::default() };
    loop {
        let page = quarantine.search(&query).unwrap();
        for item in &page.items {
            let body = quarantine.body(&item.item.id).unwrap();
            let body = body.unwrap_or_else(|| panic!("the body of {} is gone", item.item.id));
            held.extend(token_of(&body));
        }
        query.after = page.next;
        if query.after.is_none() {
            break;
        }
    }
    let (taken, refused) = (answers.acknowledged.len(), answers.refused.len());
    eprintln!(
        "{taken} taken, {refused} refused, {} delivered, {} held",
        delivered.len(),
        held.len()
    );
    let lost: Vec<&String> = answers
        .acknowledged
        .iter()
        .filter(|token| !delivered.contains_key(*token) && !held.contains(*token))
        .collect();
    assert!(lost.is_empty(), "{} lost: {lost:?}\n{}", lost.len(), node.log());
    let unexpected: Vec<_> = answers
        .refused
        .iter()
        .filter(|(_, reply)| !["451", "452", "421"].iter().any(|code| reply.starts_with(code)))
        .collect();
    assert!(unexpected.is_empty(), "{unexpected:?}");
    assert!(refused > 0, "the disk was never full");
}

#[test]
fn what_was_acknowledged_on_a_full_disk_outlives_sigkill() {
    scenario(0, true, None);
}

#[test]
fn a_disk_that_was_full_takes_mail_again_and_nothing_is_lost() {
    scenario(0, false, None);
}

#[test]
fn with_room_kept_free_nothing_is_lost_on_the_way_to_a_next_hop() {
    scenario(2 << 20, true, Some(false));
}

#[test]
fn nothing_is_lost_in_cut_through_on_a_full_disk() {
    scenario(0, true, Some(true));
}

/// Whatever little room there is, a start says what is wrong and is not ended by a signal (a mapped
/// file without room on the disk would do that).
#[test]
fn a_start_on_a_nearly_full_disk_says_so() {
    let Some(mut node) = small_node(0, "") else { return };
    node.stop();
    let data = node.data();
    for free_bytes in (0..20).map(|step| step * (64 << 10)) {
        for entry in std::fs::read_dir(&data).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => std::fs::remove_dir_all(&path).unwrap(),
                // A socket cannot be emptied.
                false if path.ends_with("ballast") => empty(&path),
                false => std::fs::remove_file(&path).unwrap(),
            }
        }
        let ballast = vec![0; usize::try_from(DISK_BYTES - free_bytes).unwrap()];
        let started = std::time::Instant::now();
        while let Err(error) = std::fs::write(data.join("ballast"), &ballast) {
            if free_bytes == 0 {
                // tmpfs has a page or two of its own.
                break;
            }
            assert!(started.elapsed() < FREE_WITHIN, "{free_bytes} free: {error}");
            std::thread::sleep(Duration::from_millis(20));
        }
        start_in_vain(&node);
    }
}

/// How far deliveries got cannot be written down for want of room: it is remembered all the same.
#[test]
fn nothing_is_delivered_again_and_again_on_a_full_disk() {
    let sink = Sink::start();
    let later = |reply: &str| reply.clone_into(&mut sink.answer.lock().unwrap());
    later("451 4.3.0 later");
    sink.recipients.lock().unwrap().insert("late".to_owned(), "451 4.2.0 later".to_owned());
    let route = format!("[route]\nnext_hop = \"{}\"\ncut_through = false\n", sink.address);
    let Some(mut node) = small_node(0, &route) else { return };
    let mut client = Smtp::connect(node.smtp).unwrap();
    for number in 0..60 {
        let recipients: &[&str] = match number % 2 {
            0 => &["bob@example.net"],
            _ => &["bob@example.net", "late@example.net"],
        };
        let reply = client.send("ann@example.org", recipients, &message(&format!("t{number}"), 0));
        assert!(reply.as_ref().is_ok_and(|reply| reply.starts_with("250")), "{reply:?}");
    }
    let filler = node.data().join("filler");
    let stop = Arc::new(AtomicBool::new(false));
    let filling = {
        let (filler, stop) = (filler.clone(), stop.clone());
        std::thread::spawn(move || fill(&filler, &stop))
    };
    std::thread::sleep(Duration::from_millis(300));
    later("250 2.0.0 taken");
    node.wait_until("all are delivered to one", || tokens(&sink.taken()).len() == 60);
    // Meanwhile those for two are tried again each second, and the log asks for all again.
    std::thread::sleep(Duration::from_secs(12));
    let copies = |what: &str| {
        let delivered = tokens(&sink.taken());
        let more: Vec<_> = delivered.iter().filter(|(_, copies)| **copies > 1).collect();
        assert!(more.is_empty(), "{what}, more than once: {more:?}\n{}", node.log());
    };
    copies("on the full disk");
    assert!(node.log().contains("the spool cannot write a state"), "the disk was not full");
    stop.store(true, Ordering::Relaxed);
    filling.join().unwrap();
    empty(&filler);
    node.wait_until("the log has what was delivered", || {
        node.metric("gauntlet_queue_messages") == 30
    });
    copies("with room again");
    sink.recipients.lock().unwrap().clear();
    node.stop();
    node.run();
    node.wait_for_empty_queue();
    let delivered = tokens(&sink.taken());
    let expected: BTreeMap<String, usize> =
        (0..60).map(|number| (format!("t{number}"), 1 + number % 2)).collect();
    let delivered: BTreeMap<String, usize> = delivered.into_iter().collect();
    assert_eq!(delivered, expected, "{}", node.log());
}
