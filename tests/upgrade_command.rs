//! `gauntlet upgrade check`, starts on the data folders of every version, refusals of newer ones,
//! and a program that is replaced under load.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use gauntlet_learning::Corrections;
use serde_json::Value;

use crate::common::{Node, Sink, Smtp, add_user, message, program, tokens};
use crate::restore_command::{changes, content, gauntlet, said, stop_all};

/// `upgrade check --json` of a node's folder: exit status and what was printed. Nothing changes.
fn check(node: &Node, args: &[&str]) -> (i32, Value) {
    let config = node.folder.path().join("gauntlet.toml");
    let before = content(&node.data());
    let all = [&["upgrade", "check", "--json"], args].concat();
    let output = gauntlet(&all, &[Path::new("--config"), &config]);
    assert_eq!(changes(&content(&node.data()), &before), BTreeSet::new());
    let value = serde_json::from_slice(&output.stdout);
    let value = value.unwrap_or_else(|_| panic!("{}", said(&output)));
    // What people read comes to the same.
    let text = gauntlet(&all[..2], &[Path::new("--config"), &config]);
    if args.is_empty() {
        assert_eq!(text.status.code(), output.status.code(), "{}", said(&text));
    }
    (output.status.code().unwrap(), value)
}

fn texts(value: &Value) -> String {
    value.as_array().unwrap().iter().map(|text| format!("{}\n", text.as_str().unwrap())).collect()
}

fn line<'a>(report: &'a Value, name: &str) -> &'a Value {
    let lines = report["formats"].as_array().unwrap();
    lines.iter().find(|line| line["name"] == name).unwrap_or_else(|| panic!("{name}: {report}"))
}

fn send(node: &Node, token: &str) {
    let mut client = Smtp::connect(node.smtp).unwrap();
    let reply = client.send("ann@example.org", &["bob@example.net"], &message(token, 900)).unwrap();
    assert!(reply.starts_with("250"), "{reply}");
}

/// A start of the program on a node's folder, which is expected to fail.
fn failed_start(node: &Node) -> Output {
    node.write_config();
    let config = node.folder.path().join("gauntlet.toml");
    let output = gauntlet(&["serve", "--config"], &[&config]);
    assert!(!output.status.success() && output.status.code() != Some(124), "{}", said(&output));
    output
}

#[test]
fn a_check_says_what_is_there_and_changes_nothing() {
    let mut node = Node::start("");
    send(&node, "one");
    node.wait_for_empty_queue();
    let config = node.folder.path().join("gauntlet.toml");
    let running = gauntlet(&["upgrade", "check", "--json", "--config"], &[&config]);
    let report: Value = serde_json::from_slice(&running.stdout).unwrap();
    assert_eq!((running.status.code(), &report["node"]["is_running"]), (Some(1), &true.into()));
    // A folder as a power cut leaves it, with logs beside the databases.
    node.kill_with_children();
    let (status, report) = check(&node, &[]);
    assert_eq!((status, &report["outlook"]), (1, &"attention".into()));
    assert!(texts(&report["attention"]).contains("no backup"), "{report}");
    assert_eq!(report["node"]["is_running"], false);
    assert_eq!(report["last_run_by"]["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(line(&report, "message log")["action"], "nothing");
    assert_eq!(report["settings"]["faults"], serde_json::json!([]));
    let backup = node.folder.path().join("backup");
    let made = gauntlet(&["backup", "--config"], &[&config, &backup]);
    assert!(made.status.success(), "{}", said(&made));
    let (status, report) = check(&node, &[]);
    assert_eq!((status, &report["outlook"]), (0, &"fine".into()), "{report}");
    assert_eq!(report["backup"]["folder"], backup.to_str().unwrap());
    // A backup that is not there any more is none.
    std::fs::rename(&backup, node.folder.path().join("moved")).unwrap();
    assert_eq!(check(&node, &[]).0, 1);
    let moved = node.folder.path().join("moved");
    assert_eq!(check(&node, &["--backup", moved.to_str().unwrap()]).0, 0);
    // Settings that this version does not know, each with its line.
    node.config.push_str("[gone]\nwith = 1\n[domains]\nrecipients = \"known\"\n");
    node.write_config();
    let (status, report) = check(&node, &[]);
    assert_eq!((status, &report["outlook"]), (2, &"refused".into()));
    let refusals = texts(&report["refusals"]);
    assert!(refusals.contains("gone") && refusals.contains("[recipients]"), "{refusals}");
    assert_eq!(report["settings"]["faults"].as_array().unwrap().len(), 2, "{report}");
}

/// Statements that make the database of an earlier version.
fn old_database(name: &str, path: &Path) {
    let schemas = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/store/tests/schemas");
    let text = std::fs::read_to_string(schemas.join(name)).unwrap();
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let made = rusqlite::Connection::open(path).unwrap();
    made.execute_batch(&text).unwrap();
}

#[test]
fn databases_of_the_first_versions_are_brought_forward() {
    let mut node = Node::start("");
    stop_all(&mut node);
    let data = node.data();
    let old = [
        ("log-1.sql", "log/2026-10-18.db"),
        ("quarantine-1.sql", "quarantine/quarantine.db"),
        ("users-1.sql", "console/users.db"),
        ("history-1.sql", "history/history.db"),
    ];
    for (name, path) in old {
        for suffix in ["", "-wal", "-shm"] {
            let _there_may_be_none = std::fs::remove_file(data.join(format!("{path}{suffix}")));
        }
        old_database(name, &data.join(path));
    }
    std::fs::remove_file(data.join("format.json")).unwrap();
    let (status, report) = check(&node, &[]);
    assert_eq!(status, 1, "it would start: {report}");
    assert_eq!(report["last_run_by"], Value::Null);
    for name in ["message log", "held mail", "users", "memory of senders"] {
        assert_eq!(line(&report, name)["action"], "migrate", "{name}");
    }
    assert_eq!(line(&report, "message log")["versions"], serde_json::json!({"1": 1}));
    assert!(report["migration"]["bytes"].as_u64().unwrap() > 0);
    let [needed, free] =
        ["free_bytes_needed", "free_bytes"].map(|key| report["migration"][key].as_u64());
    assert!(needed.unwrap() > 0 && free.unwrap() > 0);
    node.run();
    send(&node, "new");
    node.wait_for_empty_queue();
    stop_all(&mut node);
    let (_, report) = check(&node, &[]);
    for found in report["formats"].as_array().unwrap() {
        assert_eq!(found["action"], "nothing", "{found}");
    }
    assert_eq!(report["last_run_by"]["version"], env!("CARGO_PKG_VERSION"));
    // The fixture's two messages, and the new one.
    assert_eq!(node.logged(), 3);
}

/// Folder of data folders that earlier versions left, packed: `VERSION.tar.zst`.
fn folders() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/folders")
}

/// A data folder of this version for the versions after it: `GAUNTLET_BLESS_FOLDER=1` packs it when
/// a version is tagged.
fn keep_this_version() {
    let nobody = "127.0.0.1:1";
    let folder = tempfile::tempdir().unwrap();
    let policy = folder.path().join("policy.toml");
    std::fs::write(&policy, HOLD).unwrap();
    let config = format!(
        "[route]\nnext_hop = \"{nobody}\"\n[sender]\nretry_seconds = [1]\n\
         [policy]\npath = {policy:?}\n"
    );
    let mut node = Node::start_in(folder, &config);
    add_user(&node.data(), &["--address", "ann@example.net"]);
    let [missed, trapped] = ["stock", "pills"]
        .map(|name| Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("samples/spam-{name}.eml")));
    let (probe, data) = (Path::new("--probe"), node.data());
    let paths = [missed.as_path(), probe, &trapped, Path::new("--data"), &data];
    let learned = gauntlet(&["learn", "--spam"], &paths);
    assert!(learned.status.success(), "{}", said(&learned));
    let mut client = Smtp::connect(node.smtp).unwrap();
    for (token, from) in [("held", "held@example.org"), ("waits", "ann@example.org")] {
        let reply = client.send(from, &["bob@example.net"], &message(token, 900)).unwrap();
        assert!(reply.starts_with("250"), "{reply}");
    }
    drop(client);
    let held = || node.metric("gauntlet_queue_messages") == 1;
    node.wait_until("one is held and one waits", held);
    stop_all(&mut node);
    // Keys are made anew; text logs and versions of the policy name this machine's folders.
    for name in ["tls", "logs", "policies"] {
        std::fs::remove_dir_all(node.data().join(name)).unwrap();
    }
    std::fs::create_dir_all(folders()).unwrap();
    let packed = folders().join(concat!(env!("CARGO_PKG_VERSION"), ".tar.zst"));
    let tar = Command::new("tar")
        .args(["--zstd", "--owner=0", "--group=0", "--numeric-owner"])
        .args(["--exclude=control.sock", "-C"])
        .arg(node.folder.path())
        .arg("-cf")
        .arg(packed)
        .arg("data")
        .status();
    assert!(tar.unwrap().success());
}

const HOLD: &str = "[[rule]]\nname = \"held\"\nwhen.sender = \"held@example.org\"\n\
                    do = { quarantine = \"held\" }\n";

#[test]
fn data_folders_of_every_version_are_started_on() {
    if std::env::var_os("GAUNTLET_BLESS_FOLDER").is_some() {
        keep_this_version();
    }
    if program("zstd").is_none() {
        return;
    }
    let packed: Vec<_> = std::fs::read_dir(folders()).unwrap().flatten().collect();
    assert!(!packed.is_empty());
    for packed in packed.iter().map(|entry| entry.path()) {
        let sink = Sink::start();
        let config =
            format!("[route]\nnext_hop = \"{}\"\n[sender]\nretry_seconds = [1]\n", sink.address);
        let mut node = Node::unstarted(&config);
        let mut tar = Command::new("tar");
        tar.args(["--zstd", "-C"]).arg(node.folder.path()).arg("-xf").arg(&packed);
        assert!(tar.status().unwrap().success());
        node.write_config();
        let (status, report) = check(&node, &[]);
        assert_eq!(status, 1, "{}: {report}", packed.display());
        node.run();
        node.wait_for_empty_queue();
        let taken = sink.taken();
        assert_eq!(tokens(&taken).keys().collect::<Vec<_>>(), ["waits"], "{}", packed.display());
        stop_all(&mut node);
        assert_eq!(node.logged(), 2);
        let folder = node.data().join("quarantine");
        let quarantine = gauntlet_store::Quarantine::open_shared(&folder).unwrap();
        let page = quarantine.search(&gauntlet_store::quarantine::HeldQuery::default()).unwrap();
        let body = quarantine.body(&page.items[0].item.id).unwrap().unwrap();
        assert!(String::from_utf8_lossy(&body).contains("X-Token: held"));
        let data = node.data();
        let users = said(&gauntlet(&["user", "list", "--data"], &[&data]));
        assert!(users.contains("ann@example.net"), "{users}");
        assert_eq!(Corrections::read(&data).unwrap().len(), 1);
        assert!(!gauntlet_learning::signatures::load(&data).unwrap().1.is_empty());
        let (_, report) = check(&node, &[]);
        let refused = report["formats"].as_array().unwrap().iter().any(|l| l["action"] == "refuse");
        assert!(!refused, "{report}");
    }
}

#[test]
fn what_a_newer_version_wrote_stops_the_start_by_name() {
    let mut node = Node::start("");
    send(&node, "one");
    node.wait_for_empty_queue();
    stop_all(&mut node);
    let data = node.data();
    let schema = |version: u32| {
        move |path: &Path| {
            let db = rusqlite::Connection::open(path).unwrap();
            db.execute_batch("CREATE TABLE IF NOT EXISTS of_tomorrow (x);").unwrap();
            db.pragma_update(None, "user_version", version).unwrap();
        }
    };
    let bytes = |magic: &'static [u8; 8], version: u32| {
        move |path: &Path| {
            let start = [&magic[..], &version.to_le_bytes(), &[0; 500]].concat();
            std::fs::write(path, start).unwrap();
        }
    };
    type Make = Box<dyn Fn(&Path)>;
    let newer: Vec<(&str, u32, Make)> = vec![
        (
            "format.json",
            2,
            Box::new(|path| {
                std::fs::write(path, r#"{"format":2,"version":"9.0.0"}"#).unwrap();
            }),
        ),
        ("log/2026-11-20.db", 6, Box::new(schema(6))),
        ("quarantine/quarantine.db", 6, Box::new(schema(6))),
        ("console/users.db", 10, Box::new(schema(10))),
        ("policies/policies.db", 2, Box::new(schema(2))),
        ("history/history.db", 3, Box::new(schema(3))),
        ("web/releases.db", 9, Box::new(schema(9))),
        ("web/2026-11-20.db", 9, Box::new(schema(9))),
        ("alerts/2026-11-20.db", 9, Box::new(schema(9))),
        ("quarantine/packs/00000000000000ff.pack", 2, Box::new(bytes(b"GNTLPACK", 2))),
        ("spool/00000000000000ff.seg", 3, Box::new(bytes(b"GNTSPOOL", 3))),
        ("spool/00000000000000ff.sta", 3, Box::new(bytes(b"GNTSPOOL", 3))),
        ("corrections/corrections.journal", 5, Box::new(bytes(b"GNTLCORR", 5))),
        ("signatures/table", 2, Box::new(bytes(b"GNTLSIGS", 2))),
        ("signatures/journal", 2, Box::new(bytes(b"GNTLSIGJ", 2))),
        ("array/signatures/table", 2, Box::new(bytes(b"GNTLSIGS", 2))),
    ];
    for (name, version, make) in newer {
        let path = data.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let before = std::fs::read(&path).ok();
        make(&path);
        let written = std::fs::read(&path).unwrap();
        let text = said(&failed_start(&node));
        for word in [name, &format!("version {version}"), "newer than", "gauntlet restore"] {
            assert!(text.contains(word), "{name}: {word} is not in: {text}");
        }
        assert_eq!(std::fs::read(&path).unwrap(), written, "{name}: it was changed");
        let (status, report) = check(&node, &[]);
        assert_eq!(status, 2, "{name}: {report}");
        assert!(texts(&report["refusals"]).contains(name), "{name}: {report}");
        match before {
            Some(before) => std::fs::write(&path, before).unwrap(),
            None => std::fs::remove_file(&path).unwrap(),
        }
    }
    // Nothing else was done to the folder.
    node.run();
    stop_all(&mut node);
    assert_eq!(node.logged(), 1);
}

#[test]
fn what_a_start_refuses_to_open_is_refused_by_the_check() {
    let folder = tempfile::tempdir().unwrap();
    let policy = folder.path().join("policy.toml");
    std::fs::write(&policy, HOLD).unwrap();
    let mut node = Node::start_in(folder, &format!("[policy]\npath = {policy:?}\n"));
    let mut client = Smtp::connect(node.smtp).unwrap();
    let to = ["bob@example.net"];
    let reply = client.send("held@example.org", &to, &message("held", 900)).unwrap();
    assert!(reply.starts_with("250"), "{reply}");
    drop(client);
    node.wait_for_empty_queue();
    stop_all(&mut node);
    let data = node.data();
    type Harm = fn(&Path);
    let empty: Harm = |path| std::fs::write(path, "").unwrap();
    let remove: Harm = |path| std::fs::remove_file(path).unwrap();
    let cut: Harm = |path| {
        let file = std::fs::File::options().write(true).open(path).unwrap();
        file.set_len(8_192).unwrap();
    };
    let text: Harm = |path| std::fs::write(path, [b'x'; 9_000]).unwrap();
    for (name, harms) in [
        ("console/users.db", &[empty, remove][..]),
        ("quarantine/quarantine.db", &[empty, remove, cut]),
        ("history/history.db", &[cut]),
        ("policies/policies.db", &[text]),
    ] {
        let path = data.join(name);
        // A node that ends leaves what it wrote last in the log beside the file.
        let db = rusqlite::Connection::open(&path).unwrap();
        db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
        drop(db);
        let before = std::fs::read(&path).unwrap();
        for harm in harms {
            harm(&path);
            let (status, report) = check(&node, &[]);
            assert_eq!(status, 2, "{name}: {report}");
            assert!(texts(&report["refusals"]).contains(name), "{name}: {report}");
            let output = failed_start(&node);
            assert!(said(&output).contains(name), "{name}: {}", said(&output));
            for suffix in ["-wal", "-shm"] {
                let beside = format!("{}{suffix}", path.display());
                let _there_may_be_none = std::fs::remove_file(beside);
            }
            std::fs::write(&path, &before).unwrap();
        }
    }
    assert_eq!(check(&node, &[]).0, 1, "as it was before, without a backup");
}

/// Clients that send each message until it is answered 250, to wherever the node is at the moment.
fn insist(
    at: &Arc<Mutex<SocketAddr>>,
    stop: &Arc<AtomicBool>,
) -> Vec<std::thread::JoinHandle<u64>> {
    let next = Arc::new(AtomicU64::new(0));
    let client = |_| {
        let (at, stop, next) = (at.clone(), stop.clone(), next.clone());
        std::thread::spawn(move || {
            let mut sent = 0;
            while !stop.load(Ordering::Relaxed) {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let body = message(&format!("t{number}"), 2_000);
                while !is_taken(*at.lock().unwrap(), &body) {
                    std::thread::sleep(std::time::Duration::from_millis(10));
                }
                sent += 1;
            }
            sent
        })
    };
    (0..4).map(client).collect()
}

fn is_taken(address: SocketAddr, body: &[u8]) -> bool {
    let sent = Smtp::connect(address)
        .and_then(|mut client| client.send("ann@example.org", &["bob@example.net"], body));
    sent.is_ok_and(|reply| reply.starts_with("250"))
}

#[test]
fn a_program_that_is_replaced_under_load_loses_no_message() {
    let sink = Sink::start();
    // What comes before the exchange waits in the spool.
    *sink.answer.lock().unwrap() = "451 4.3.0 later".to_owned();
    let config = format!(
        "[route]\nnext_hop = \"{}\"\ncut_through = false\n[sender]\nretry_seconds = [1]\n",
        sink.address
    );
    let mut node = Node::unstarted(&config);
    // Yesterday's build, where `.ci/long` made one.
    node.launch.program = std::env::var_os("GAUNTLET_OLD").map(PathBuf::from);
    node.run();
    let (at, stop) = (Arc::new(Mutex::new(node.smtp)), Arc::new(AtomicBool::new(false)));
    let clients = insist(&at, &stop);
    node.wait_until("mail waits", || node.metric("gauntlet_spool_messages") >= 20);
    stop_all(&mut node);
    node.launch.program = None;
    let (status, report) = check(&node, &[]);
    assert_ne!(status, 2, "{report}");
    assert_ne!(line(&report, "spool")["files"], 0);
    node.run();
    *at.lock().unwrap() = node.smtp;
    let waited = node.metric("gauntlet_spool_messages");
    assert!(waited >= 20, "{waited} wait");
    *sink.answer.lock().unwrap() = "250 2.0.0 taken".to_owned();
    node.wait_until("mail comes again", || sink.taken().len() > 40);
    stop.store(true, Ordering::Relaxed);
    let sent: u64 = clients.into_iter().map(|client| client.join().unwrap()).sum();
    node.wait_for_empty_queue();
    stop_all(&mut node);
    let taken = tokens(&sink.taken());
    let all: BTreeSet<String> = (0..sent).map(|number| format!("t{number}")).collect();
    let lost: Vec<&String> = all.iter().filter(|token| !taken.contains_key(*token)).collect();
    assert!(lost.is_empty(), "{lost:?} of {sent} are lost");
    assert!(node.logged() as u64 >= sent, "every message is in the log");
}
