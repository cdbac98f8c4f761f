//! `gauntlet queue adopt`: the mail of a dead node goes on from another, once.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::channel;

use gauntlet_store::spool::{Disk, Recovery};
use gauntlet_store::{Spool, SpoolOptions};

use crate::common::{Node, Sink, Smtp, files_below, message, random, tokens};

fn gauntlet(here: &Node, args: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gauntlet"));
    let config = here.folder.path().join("gauntlet.toml");
    let output = command.args(args).arg("--config").arg(config).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(text).unwrap())
}

fn adopt(here: &Node, folder: &Path, more: &[&str]) -> (Option<i32>, String) {
    gauntlet(here, &[&["queue", "adopt", folder.to_str().unwrap()], more].concat())
}

/// Settings of a node whose next hop is this; what it does not take waits for long.
fn to(hop: impl std::fmt::Display) -> String {
    format!(
        "[route]\nnext_hop = \"{hop}\"\ncut_through = false\n[sender]\nretry_seconds = [86_400]\n\
         [facts]\nenabled = false\n"
    )
}

/// An address where nobody listens.
fn nobody() -> std::net::SocketAddr {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

fn id_in(reply: &str) -> String {
    reply.trim().rsplit(' ').next().unwrap().to_owned()
}

/// A node that died with messages of these tokens in its queue; their ids.
fn dead(tokens: &[&str]) -> (Node, Vec<String>) {
    let mut node = Node::start(&to(nobody()));
    let mut client = Smtp::connect(node.smtp).unwrap();
    let mut ids = Vec::new();
    for token in tokens {
        let reply = client.send("ann@example.org", &["bob@example.net"], &message(token, 300));
        ids.push(id_in(&reply.unwrap()));
    }
    node.wait_until("all wait", || node.metric("gauntlet_deferred_total") >= ids.len() as u64);
    node.kill_with_children();
    (node, ids)
}

/// Due times move with the messages: without a retry they would wait for a day.
fn deliver(here: &Node) {
    assert_eq!(gauntlet(here, &["queue", "retry"]).0, Some(0));
    here.wait_for_empty_queue();
}

fn copy(from: &Path, to: &Path) {
    let status = Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap();
    assert!(status.success());
}

fn open_spool(folder: &Path) -> (Spool, Recovery) {
    let disk = Disk::open(folder).unwrap();
    Spool::open(Arc::new(disk), SpoolOptions { free_bytes_min: 0, ..SpoolOptions::default() })
        .unwrap()
}

/// The messages of a spool, as they were put there: id, metadata, body.
fn messages_of(folder: &Path) -> Vec<(u64, String, Vec<u8>)> {
    let (spool, recovery) = open_spool(folder);
    let read = |(id, _): &(u64, i64)| {
        let stored = spool.read(*id).unwrap();
        (*id, String::from_utf8(stored.meta).unwrap(), stored.body)
    };
    recovery.messages.iter().map(read).collect()
}

/// Puts messages into a new spool.
fn spool_with(folder: &Path, messages: Vec<(u64, String, Vec<u8>)>) {
    let (spool, _) = open_spool(folder);
    let waits: Vec<_> = messages
        .into_iter()
        .map(|(id, meta, body)| {
            let (sender, durable) = channel();
            let done = Box::new(move |result| sender.send(result).unwrap());
            spool.put(id, 0, meta.into_bytes(), body.into(), done);
            durable
        })
        .collect();
    waits.into_iter().for_each(|durable| durable.recv().unwrap().unwrap());
}

#[test]
fn mail_of_a_dead_node_goes_on_from_here() {
    let sink = Sink::start();
    sink.recipients.lock().unwrap().insert("late".into(), "451 4.2.1 later".into());
    let mut old = Node::start(&to(sink.address));
    let mut client = Smtp::connect(old.smtp).unwrap();
    let both = ["bob@example.net", "late@example.net"];
    let half = id_in(&client.send("ann@example.org", &both, &message("half", 300)).unwrap());
    let reply = client.send("ann@example.org", &["late@example.net"], &message("held", 300));
    let held = id_in(&reply.unwrap());
    old.wait_until("both wait", || old.metric("gauntlet_deferred_total") >= 2);
    assert_eq!(gauntlet(&old, &["queue", "hold", &held]).0, Some(0));
    let other = Node::start(&to(sink.address));
    let (code, text) = adopt(&other, &old.data(), &[]);
    assert!(code == Some(2) && text.contains("stop it first"), "{text}");
    let (code, text) = adopt(&other, &old.data().join("spool"), &[]);
    assert!(code == Some(2) && text.contains("stop it first"), "{text}");
    drop(other);
    old.kill();

    let here = Node::start(&to(sink.address));
    let content = |node: &Node| -> Vec<_> {
        let files = files_below(&node.data().join("spool")).into_iter();
        files.map(|path| (path.clone(), std::fs::read(path).unwrap())).collect()
    };
    let before = content(&old);
    let (code, text) = adopt(&here, &old.data(), &["--dry-run"]);
    assert!(code == Some(0) && text.contains("2 messages waited there"), "{text}");
    assert!(
        content(&old) == before && gauntlet(&here, &["queue", "list"]).1.contains("0 messages")
    );

    let (code, text) = adopt(&here, &old.data(), &[]);
    assert!(code == Some(0) && text.contains("2 adopted, 0 were here already"), "{text}");
    let (_, list) = gauntlet(&here, &["queue", "list"]);
    for id in [&half, &held] {
        assert!(text.contains(&format!("{id}  adopted\n")) && list.contains(id), "{text}{list}");
    }
    assert!(list.contains("held ") && list.contains(" 1 tries "), "{list}");
    // Who has it would refuse it now, and must not be asked.
    sink.recipients.lock().unwrap().clear();
    sink.recipients.lock().unwrap().insert("bob".into(), "550 5.0.0 twice".into());
    deliver(&here);
    let (_, trace) = gauntlet(&here, &["trace", &half]);
    assert!(trace.contains("moved_here") && !trace.contains("550"), "{trace}");
    assert_eq!(tokens(&sink.taken())["held"], 1);
    assert_eq!(tokens(&sink.taken())["half"], 2, "once for each recipient");

    let (code, text) = adopt(&here, &old.data(), &[]);
    assert!(code == Some(0) && text.contains("0 messages waited there"), "{text}");
    old.run();
    assert_eq!(old.metric("gauntlet_queue_messages"), 0, "nothing is left for its own node");
}

#[test]
fn a_disk_that_forgot_its_marks_is_no_second_delivery() {
    let (old, _) = dead(&["one", "two", "three"]);
    let copies = tempfile::tempdir().unwrap();
    let before = copies.path().join("before");
    copy(&old.data(), &before);
    let sink = Sink::start();
    let mut here = Node::start(&to(sink.address));
    assert!(adopt(&here, &old.data(), &[]).1.contains("3 adopted"));
    deliver(&here);
    for restart in [false, true] {
        if restart {
            here.kill();
            here.run();
        }
        let again = copies.path().join(format!("again-{restart}"));
        copy(&before, &again);
        let (code, text) = adopt(&here, &again, &["--json"]);
        let total = text.lines().last().unwrap();
        assert!(code == Some(0) && total.contains("\"adopted\":0"), "{text}");
        assert!(total.contains("\"known\":3"), "{text}");
    }
    here.wait_for_empty_queue();
    assert!(tokens(&sink.taken()).values().all(|count| *count == 1), "{:?}", tokens(&sink.taken()));
}

#[test]
fn a_stopped_node_adopts_and_delivers_when_it_is_started() {
    let (old, ids) = dead(&["one", "two"]);
    let sink = Sink::start();
    let mut here = Node::start(&to(sink.address));
    here.stop();
    // Where spool.path is another folder, that one is named.
    let (code, text) = adopt(&here, &old.data().join("spool"), &[]);
    assert!(code == Some(0) && text.contains("2 adopted"), "{text}");
    assert!(adopt(&here, &here.data(), &[]).1.contains("this node's own"));
    here.run();
    deliver(&here);
    assert_eq!(tokens(&sink.taken()).len(), 2);
    assert!(gauntlet(&here, &["trace", &ids[0]]).1.contains("moved_here"));
}

#[test]
fn an_id_that_names_another_message_here_is_replaced() {
    let (old, ids) = dead(&["original"]);
    let twins = tempfile::tempdir().unwrap();
    let [(id, meta, body)] = messages_of(&old.data().join("spool")).try_into().unwrap();
    let twin = String::from_utf8(body.clone()).unwrap().replace("original", "twin");
    let twin_meta = meta.replace("original", "twin").replace("ann@example.org", "eve@example.org");
    spool_with(twins.path(), vec![(id, twin_meta, twin.into_bytes())]);
    let sink = Sink::start();
    let here = Node::start(&to(sink.address));
    assert!(adopt(&here, &old.data(), &[]).1.contains("1 adopted"));
    let (code, text) = adopt(&here, twins.path(), &[]);
    assert!(code == Some(0) && text.contains("1 have a new id"), "{text}");
    let new = text.split(" adopted as ").nth(1).unwrap().split_whitespace().next().unwrap();
    deliver(&here);
    assert_eq!(tokens(&sink.taken()).len(), 2);
    let trace = |id: &str| gauntlet(&here, &["trace", id]).1;
    assert!(trace(&ids[0]).contains("ann@example.org"), "{}", trace(&ids[0]));
    let renamed = trace(new);
    assert!(renamed.contains("eve@example.org") && renamed.contains(&ids[0]), "{renamed}");
}

#[test]
fn what_is_damaged_stays_and_is_told() {
    let (old, _) = dead(&["first", "second", "third"]);
    let spool = old.data().join("spool");
    let [first, mut second, third] = messages_of(&spool).try_into().unwrap();
    // One whose envelope nobody understands, and one in whose record a bit flips.
    second.1 = "{}".to_owned();
    let damaged = tempfile::tempdir().unwrap();
    spool_with(damaged.path(), vec![first, second, third]);
    let segment = files_below(damaged.path()).into_iter().find(|p| p.extension().unwrap() == "seg");
    let mut bytes = std::fs::read(segment.as_ref().unwrap()).unwrap();
    let at = bytes.windows(14).position(|w| w == b"X-Token: first").unwrap();
    bytes[at] ^= 1;
    std::fs::write(segment.unwrap(), bytes).unwrap();
    let sink = Sink::start();
    let here = Node::start(&to(sink.address));
    for _ in 0..2 {
        let (code, text) = adopt(&here, damaged.path(), &[]);
        assert!(code == Some(1) && text.contains("unreadable: "), "{text}");
        assert!(text.contains("1 stay there") && text.contains("1 damaged regions"), "{text}");
    }
    here.wait_for_empty_queue();
    assert_eq!(tokens(&sink.taken()).keys().collect::<Vec<_>>(), ["third"]);
    let nothing = tempfile::tempdir().unwrap();
    let (code, text) = adopt(&here, nothing.path(), &[]);
    assert!(code == Some(2) && text.contains("neither a node's data folder nor a spool"), "{text}");
}

/// An hour between two ids: the node here does not take them for its own of now.
const AN_HOUR: u64 = 3_600_000 << 20;
/// Messages of one dead node in the tests with kills: several batches.
const MESSAGES: u64 = 300;

fn kills() -> u64 {
    let text = std::env::var("GAUNTLET_KILLS").unwrap_or_else(|_| "25".to_owned());
    text.parse().expect("GAUNTLET_KILLS is a number")
}

/// Spools of dead nodes, each with messages that no other has.
struct Graves {
    folder: tempfile::TempDir,
    template: (u64, String, Vec<u8>),
    count: u64,
}

impl Graves {
    fn new() -> Self {
        let (old, _) = dead(&["ttttt"]);
        let [template] = messages_of(&old.data().join("spool")).try_into().unwrap();
        Graves { folder: tempfile::tempdir().unwrap(), template, count: 0 }
    }

    /// Another dead node's spool; its messages are `t{n}`.
    fn dig(&mut self) -> std::path::PathBuf {
        let (id, meta, body) = &self.template;
        let name = |id: u64| gauntlet_gateway::ids::to_text(id);
        let body = String::from_utf8(body.clone()).unwrap();
        let read: serde_json::Value = serde_json::from_str(meta).unwrap();
        let received_ms = read["record"]["received_ms"].as_u64().unwrap();
        let received = |ms: u64| format!("\"received_ms\":{ms}");
        let first = self.count * MESSAGES;
        let all = (first..first + MESSAGES).map(|n| {
            let new = id - AN_HOUR - n;
            let meta = meta.replace(&name(*id), &name(new)).replace("ttttt", &format!("t{n}"));
            // The log takes so many of one millisecond only.
            let meta = meta.replace(&received(received_ms), &received(received_ms - n));
            let body = body.replace("ttttt", &format!("t{n}")).replace(&name(*id), &name(new));
            (new, meta, body.into_bytes())
        });
        let folder = self.folder.path().join(self.count.to_string());
        spool_with(&folder, all.collect());
        self.count += 1;
        folder
    }
}

fn begin(here: &Node, folder: &Path) -> Child {
    Command::new(env!("CARGO_BIN_EXE_gauntlet"))
        .args(["queue", "adopt"])
        .arg(folder)
        .arg("--config")
        .arg(here.folder.path().join("gauntlet.toml"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Adopts dead nodes while processes are killed at random moments: the one that adopts, and the
/// node if `node_too`. How many messages there were.
fn torture(here: &mut Node, node_too: bool) -> u64 {
    let seed = u64::from(std::process::id());
    let mut state: u64 = 0x9E37_79B9_7F4A_7C15 ^ seed;
    let (mut graves, mut killed) = (Graves::new(), 0);
    // How long one takes undisturbed says when a kill may hit it.
    let first = graves.dig();
    let start = std::time::Instant::now();
    assert!(begin(here, &first).wait().unwrap().success());
    let whole_us = u64::try_from(start.elapsed().as_micros()).unwrap().max(1_000);
    while killed < kills() {
        let folder = graves.dig();
        loop {
            let mut child = begin(here, &folder);
            let wait = std::time::Duration::from_micros(random(&mut state) % whole_us);
            std::thread::sleep(wait);
            match random(&mut state) % 5 {
                0 => {}
                1 | 2 if node_too => {
                    here.kill();
                    killed += 1;
                    let _it_says_that_the_node_is_gone = child.wait().unwrap();
                    here.run();
                    continue;
                }
                _ => {
                    killed += u64::from(child.try_wait().unwrap().is_none());
                    let _it_may_have_ended = child.kill();
                }
            }
            if child.wait().unwrap().success() {
                break;
            }
        }
        let (code, text) = adopt(here, &folder, &["--dry-run"]);
        assert!(code == Some(0) && text.starts_with("0 messages"), "{text}");
    }
    eprintln!(
        "seed {seed}: {killed} kills, {} messages of {} nodes",
        graves.count * MESSAGES,
        graves.count
    );
    graves.count * MESSAGES
}

fn each_once(sink: &Sink, messages: u64) {
    let delivered = tokens(&sink.taken());
    let missing = (0..messages).filter(|n| !delivered.contains_key(&format!("t{n}")));
    assert_eq!(missing.count(), 0, "lost");
    let twice: Vec<_> = delivered.iter().filter(|(_, count)| **count > 1).collect();
    assert!(twice.is_empty(), "delivered twice: {twice:?}");
    assert_eq!(delivered.len() as u64, messages);
}

/// Nothing is delivered before the last kill, so that whatever comes twice was adopted twice.
#[test]
fn kills_of_both_processes_lose_nothing_and_double_nothing() {
    let hop = nobody();
    let mut here = Node::start(&to(hop));
    let messages = torture(&mut here, true);
    here.wait_until("all were tried and wait", || {
        here.metric("gauntlet_queue_messages") == messages
            && here.metric("gauntlet_messages_active") == 0
    });
    let sink = Sink::start_at(hop);
    deliver(&here);
    each_once(&sink, messages);
}

/// What was adopted is delivered and forgotten at once, so that only its token is left of it.
#[test]
fn kills_while_mail_is_delivered_double_nothing() {
    let sink = Sink::start();
    let mut here = Node::start(&to(sink.address));
    let messages = torture(&mut here, false);
    here.wait_for_empty_queue();
    each_once(&sink, messages);
}
