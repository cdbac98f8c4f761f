//! `gauntlet backup` and `gauntlet restore` of a node that is under load, killed, or whose disk is
//! full: what was accepted is accounted for, and what is damaged is refused by name.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use gauntlet_store::Quarantine;
use gauntlet_store::quarantine::HeldQuery;

use crate::common::{Node, Smtp, files_below, message, token_of, tokens};

/// Everything from this sender is held.
const HELD: &str = "held@example.org";
const CLIENTS: usize = 3;

pub(crate) fn gauntlet(args: &[&str], paths: &[&Path]) -> Output {
    // What starts although it must not ends all the same.
    let mut command = Command::new("timeout");
    command.args(["60", env!("CARGO_BIN_EXE_gauntlet")]).args(args).args(paths);
    command.env_remove("GAUNTLET_CONFIG").output().unwrap()
}

pub(crate) fn said(output: &Output) -> String {
    let [out, error] = [&output.stdout, &output.stderr].map(|s| String::from_utf8_lossy(s));
    format!("{out}{error}")
}

fn done(args: &[&str], paths: &[&Path]) -> String {
    let output = gauntlet(args, paths);
    assert!(output.status.success(), "{args:?}: {}", said(&output));
    said(&output)
}

/// Every file with its content.
pub(crate) fn content(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let files = files_below(folder).into_iter();
    files.map(|path| (path.clone(), std::fs::read(path).unwrap_or_default())).collect()
}

/// Stops a node and waits for its secrets process, which closes its database a moment later.
pub(crate) fn stop_all(node: &mut Node) {
    node.stop();
    let log = node.data().join("console/users.db-wal");
    node.wait_until("its secrets process has ended, too", || !log.exists());
}

/// Names of files that are not the same in both.
pub(crate) fn changes(
    one: &BTreeMap<PathBuf, Vec<u8>>,
    other: &BTreeMap<PathBuf, Vec<u8>>,
) -> BTreeSet<PathBuf> {
    let all = one.keys().chain(other.keys());
    all.filter(|path| one.get(*path) != other.get(*path)).cloned().collect()
}

/// A node that holds mail of one sender.
fn holding(folder: tempfile::TempDir) -> Node {
    let policy = folder.path().join("policy.toml");
    let rule = format!(
        "[[rule]]\nname = \"held\"\nwhen.sender = \"{HELD}\"\ndo = {{ quarantine = \"held\" }}\n"
    );
    std::fs::write(&policy, rule).unwrap();
    Node::start_in(folder, &format!("[policy]\npath = {policy:?}\n[quarantine]\nencrypt = true\n"))
}

/// Clients that send until they are stopped, or the node is gone.
struct Load {
    stop: Arc<AtomicBool>,
    /// Token and id of what was answered 250.
    acknowledged: Arc<Mutex<BTreeMap<String, String>>>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl Load {
    fn start(node: &Node, next: &Arc<AtomicU64>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let acknowledged: Arc<Mutex<BTreeMap<String, String>>> = Arc::default();
        let client = |_| {
            let (stop, acknowledged, next, smtp) =
                (stop.clone(), Arc::clone(&acknowledged), next.clone(), node.smtp);
            std::thread::spawn(move || {
                let Ok(mut client) = Smtp::connect(smtp) else { return };
                while !stop.load(Ordering::Relaxed) {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let token = format!("t{number}");
                    let from = if number % 3 == 0 { HELD } else { "ann@example.org" };
                    let bytes = usize::try_from(number % 7).unwrap() * 5_000;
                    let sent = client.send(from, &["bob@example.net"], &message(&token, bytes));
                    let Ok(reply) = sent else { return };
                    if reply.starts_with("250") {
                        let id = reply.trim().rsplit(' ').next().unwrap().to_owned();
                        acknowledged.lock().unwrap().insert(token, id);
                    }
                }
            })
        };
        let threads = (0..CLIENTS).map(client).collect();
        Load { stop, acknowledged, threads }
    }

    fn count(&self) -> usize {
        self.acknowledged.lock().unwrap().len()
    }

    fn end(self) -> BTreeMap<String, String> {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.into_iter().for_each(|thread| thread.join().unwrap());
        std::mem::take(&mut *self.acknowledged.lock().unwrap())
    }
}

/// Tokens of held messages whose bodies can be read.
fn held(data: &Path) -> BTreeSet<String> {
    let keys = gauntlet_store::BodyKeys::open(&data.join("quarantine.keys"), true).unwrap();
    let quarantine = Quarantine::open_with(&data.join("quarantine"), Some(keys)).unwrap();
    let mut query = HeldQuery { limit: 500, ..HeldQuery::default() };
    let mut found = BTreeSet::new();
    loop {
        let page = quarantine.search(&query).unwrap();
        for held in &page.items {
            let body = quarantine.body(&held.item.id).unwrap().expect("it has a body");
            found.insert(token_of(&body).unwrap());
        }
        query.after = page.next;
        if query.after.is_none() {
            return found;
        }
    }
}

/// SQLite's own opinion of every database.
fn databases_are_whole(data: &Path) {
    let mut count = 0;
    for path in files_below(data).iter().filter(|path| path.extension().is_some_and(|e| e == "db"))
    {
        let db = rusqlite::Connection::open(path).unwrap();
        let said: String = db.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(said, "ok", "{}", path.display());
        count += 1;
    }
    assert!(count >= 4, "{count} databases");
}

#[test]
fn a_backup_under_load_accounts_for_all_mail_before_it() {
    let mut node = holding(tempfile::tempdir().unwrap());
    let next = Arc::new(AtomicU64::new(0));
    let first = Load::start(&node, &next);
    node.wait_until("some is taken", || first.count() >= 40);
    let mut all = first.end();
    node.wait_for_empty_queue();
    let before = all.clone();
    let load = Load::start(&node, &next);
    node.wait_until("there is load", || load.count() >= 6);
    let backup = node.folder.path().join("backup");
    let config = node.folder.path().join("gauntlet.toml");
    let (from, copied_at) = (load.count(), Path::new("--config"));
    done(&["backup"], &[copied_at, &config, &backup]);
    node.wait_until("mail came meanwhile and after", || load.count() > from + 6);
    node.kill();
    all.extend(load.end());
    assert!(done(&["backup", "verify"], &[&backup]).contains("each as it was written"));

    // To another place: all that was settled before the backup began is known there.
    let new = node.folder.path().join("new");
    let said = done(&["restore"], &[&backup, Path::new("--data"), &new]);
    assert!(said.contains("restored") && said.contains("not in a backup"), "{said}");
    databases_are_whole(&new);
    let log = gauntlet_store::Log::open(&new.join("log")).unwrap();
    for id in before.values() {
        assert!(log.get(id).unwrap().is_some(), "{id} is not in the log");
    }
    drop(log);
    let number = |token: &String| token[1..].parse::<u64>().unwrap();
    let of_held: BTreeSet<_> =
        before.keys().filter(|token| number(token).is_multiple_of(3)).cloned().collect();
    assert!(of_held.is_subset(&held(&new)), "{of_held:?}");
    let old = node.config.clone();
    node.config = old.replace(&format!("{:?}", node.data()), &format!("{new:?}"));
    node.run();
    node.stop();
    databases_are_whole(&new);

    // In its own place: what waited when it was killed is delivered, once.
    node.config = old;
    node.write_config();
    let refused = gauntlet(&["restore"], &[&backup, copied_at, &config]);
    assert!(crate::restore_command::said(&refused).contains("--force"));
    let said = done(&["restore", "--force"], &[&backup, copied_at, &config]);
    assert!(said.contains("brought along from there: spool, maildir, queue"), "{said}");
    let aside = said.lines().find_map(|l| l.strip_prefix("what was there before is in ")).unwrap();
    let aside_held = held(Path::new(aside));
    node.run();
    node.wait_for_empty_queue();
    node.stop();
    let delivered = tokens(&node.maildir());
    let is_held = held(&node.data());
    for token in all.keys() {
        let is_there = match number(token).is_multiple_of(3) {
            true => is_held.contains(token) || aside_held.contains(token),
            false => delivered.contains_key(token),
        };
        assert!(is_there, "{token} of {} is lost", all.len());
    }
    assert!(of_held.is_subset(&is_held));
    databases_are_whole(&node.data());
}

/// A stopped node with a backup of it.
fn backed_up() -> (Node, PathBuf) {
    let mut node = holding(tempfile::tempdir().unwrap());
    let mut client = Smtp::connect(node.smtp).unwrap();
    for (token, from) in [("one", HELD), ("two", "ann@example.org")] {
        let reply = client.send(from, &["bob@example.net"], &message(token, 900)).unwrap();
        assert!(reply.starts_with("250"), "{reply}");
    }
    drop(client);
    node.wait_for_empty_queue();
    let backup = node.folder.path().join("backup");
    let config = node.folder.path().join("gauntlet.toml");
    done(&["backup", "--config"], &[&config, &backup]);
    let running = gauntlet(&["restore", "--force"], &[&backup, Path::new("--config"), &config]);
    assert_eq!(running.status.code(), Some(2));
    assert!(said(&running).contains("a node runs"), "{}", said(&running));
    stop_all(&mut node);
    (node, backup)
}

#[test]
fn a_damaged_backup_is_refused_by_name_and_changes_nothing() {
    let (mut node, backup) = backed_up();
    let before = content(&node.data());
    let pack = files_below(&backup).into_iter().find(|p| p.to_string_lossy().ends_with(".pack"));
    let pack = pack.expect("held mail is in a pack");
    let name = pack.strip_prefix(&backup).unwrap().to_str().unwrap();
    let whole = std::fs::read(&pack).unwrap();
    let mut flipped = whole.clone();
    flipped[whole.len() / 2] ^= 0x10;
    for damage in [Some(&flipped[..]), Some(&whole[..whole.len() - 1]), None] {
        match damage {
            Some(bytes) => std::fs::write(&pack, bytes).unwrap(),
            None => std::fs::remove_file(&pack).unwrap(),
        }
        let verified = gauntlet(&["backup", "verify"], &[&backup]);
        assert_eq!(verified.status.code(), Some(1), "{}", said(&verified));
        let data = node.data();
        let restored = gauntlet(&["restore", "--force"], &[&backup, Path::new("--data"), &data]);
        assert_eq!(restored.status.code(), Some(2));
        for text in [said(&verified), said(&restored)] {
            assert!(text.contains(name), "{text}");
        }
        assert_eq!(changes(&content(&node.data()), &before), BTreeSet::new());
    }
    std::fs::write(&pack, &whole).unwrap();
    std::fs::remove_file(backup.join("backup.json")).unwrap();
    let verified = gauntlet(&["backup", "verify"], &[&backup]);
    assert!(verified.status.code() == Some(2) && said(&verified).contains("no complete backup"));
    // Nothing beside it is left, and the node goes on.
    let beside = std::fs::read_dir(node.folder.path()).unwrap().flatten();
    let names: Vec<_> = beside.map(|e| e.file_name().into_string().unwrap()).collect();
    assert!(!names.iter().any(|name| name.contains("before-restore")), "{names:?}");
    node.run();
    node.stop();
}

#[test]
fn a_restore_that_is_killed_loses_nothing_and_is_finished_by_the_next() {
    let (mut node, backup) = backed_up();
    // So that it takes a while: lists that the node only keeps.
    let config = node.folder.path().join("gauntlet.toml");
    std::fs::remove_dir_all(&backup).unwrap();
    for number in 0..8 {
        let list = node.data().join(format!("lists/{number}"));
        std::fs::write(list, vec![number; 6_000_000]).unwrap();
    }
    done(&["backup", "--config"], &[&config, &backup]);
    std::fs::write(node.data().join("spool/mark"), "of the spool in use").unwrap();
    for wait_ms in [30, 60, 120, 240, 480] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_gauntlet"))
            .args(["restore", "--force", "--config"])
            .args([&config, &backup])
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(std::time::Duration::from_millis(wait_ms));
        let _it_may_have_ended = child.kill();
        child.wait().unwrap();
        // At no moment is there no data folder, or half of one without a mark that says so.
        let marked = node.data().join("restoring.json").exists();
        assert!(marked || node.data().join("quarantine/quarantine.db").exists());
        assert!(marked || node.data().join("spool/mark").exists());
    }
    done(&["restore", "--force", "--config"], &[&config, &backup]);
    assert!(!node.data().join("restoring.json").exists());
    assert!(node.data().join("spool/mark").exists(), "the spool was brought along");
    std::fs::remove_file(node.data().join("spool/mark")).unwrap();
    node.run();
    node.stop();
    assert!(held(&node.data()).contains("one"));
    assert_eq!(tokens(&node.maildir()).len(), 1);
}

#[test]
fn a_disk_that_is_full_leaves_the_folder_in_use_as_it_was() {
    let (node, backup) = backed_up();
    let disk = node.folder.path().join("disk");
    std::fs::create_dir(&disk).unwrap();
    // No file can be made any more while there are bytes enough.
    if !crate::serve_full_disk::mount_tmpfs(&disk, "size=32m,nr_inodes=24") {
        assert!(std::env::var_os("CI").is_none(), "no file system can be mounted");
        eprintln!("skipped: no file system can be mounted here");
        return;
    }
    let data = disk.join("data");
    done(&["restore"], &[&backup, Path::new("--data"), &node.folder.path().join("whole")]);
    std::fs::create_dir(&data).unwrap();
    std::fs::write(data.join("quarantine.keys"), "the one in use").unwrap();
    let before = content(&disk);
    let restored = gauntlet(&["restore", "--force"], &[&backup, Path::new("--data"), &data]);
    let text = said(&restored);
    assert!(restored.status.code() == Some(2) && text.contains("No space left"), "{text}");
    let mut after = content(&disk);
    after.remove(&data.join("lock"));
    assert_eq!(changes(&after, &before), BTreeSet::new());
    // Too few bytes are seen before anything is written.
    let small = node.folder.path().join("small");
    std::fs::create_dir(&small).unwrap();
    assert!(crate::serve_full_disk::mount_tmpfs(&small, "size=64k"));
    let restored = gauntlet(&["restore"], &[&backup, Path::new("--data"), &small]);
    let text = said(&restored);
    assert!(text.contains("bytes are needed") && text.contains("are free"), "{text}");
    assert_eq!(std::fs::read_dir(&small).unwrap().count(), 0);
    // A file system of its own cannot be moved aside.
    std::fs::write(disk.join("something"), "").unwrap();
    let restored = gauntlet(&["restore", "--force"], &[&backup, Path::new("--data"), &disk]);
    assert!(said(&restored).contains("a file system of its own"), "{}", said(&restored));
    assert!(disk.join("something").exists());
}
