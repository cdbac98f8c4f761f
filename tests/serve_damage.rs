//! Damage to the data folder: what is lost or spoiled is named, with what to do, and costs nothing
//! else.

use std::path::Path;
use std::process::{Command, Output};

use crate::common::{Node, Smtp, http_get, message};

fn gauntlet(node: &Node, args: &[&str]) -> Output {
    // A node that starts although it must not ends all the same.
    let mut command = Command::new("timeout");
    command
        .args(["60", env!("CARGO_BIN_EXE_gauntlet")])
        .args(args)
        .arg("--config")
        .arg(node.folder.path().join("gauntlet.toml"));
    command.env_remove("GAUNTLET_CONFIG").output().unwrap()
}

fn said(output: &Output) -> String {
    let [out, error] = [&output.stdout, &output.stderr].map(|s| String::from_utf8_lossy(s));
    format!("{out}{error}")
}

/// A node that has had mail and is stopped; `policy` holds all of it.
fn stopped(policy: &str) -> Node {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("policy.toml");
    std::fs::write(&path, policy).unwrap();
    let mut node = Node::start_in(folder, &format!("[policy]\npath = {path:?}\n"));
    take(&node, "kept");
    node.stop();
    node
}

fn take(node: &Node, token: &str) {
    let mut client = Smtp::connect(node.smtp).unwrap();
    let reply = client.send("a@example.org", &["b@example.net"], &message(token, 900)).unwrap();
    assert!(reply.starts_with("250"), "{reply}");
    node.wait_for_empty_queue();
}

const HOLD: &str = "[[rule]]\nname = \"all\"\ndo = { quarantine = \"held\" }\n";
const PASS: &str = "[[rule]]\nname = \"all\"\ndo = \"deliver\"\n";

/// Takes a database with what belongs to it away, and puts an empty file there or nothing.
fn lose(path: &Path, empty: bool) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    let mut kept = Vec::new();
    for suffix in ["", "-wal", "-shm"] {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        let path = std::path::PathBuf::from(name);
        if let Ok(bytes) = std::fs::read(&path) {
            std::fs::remove_file(&path).unwrap();
            kept.push((path, bytes));
        }
    }
    if empty {
        std::fs::write(path, "").unwrap();
    }
    kept
}

#[test]
fn a_lost_list_of_held_mail_stops_the_start_and_costs_no_body() {
    let mut node = stopped(HOLD);
    let path = node.data().join("quarantine/quarantine.db");
    for empty in [true, false] {
        let kept = lose(&path, empty);
        for args in [&["serve"][..], &["quarantine", "list"]] {
            let output = gauntlet(&node, args);
            let said = said(&output);
            assert!(!output.status.success(), "{args:?}, {empty}: {said}");
            for word in ["quarantine.db", "bodies", "backup", "rebuild", "move the folder"] {
                assert!(said.contains(word), "{word}: {said}");
            }
        }
        assert_eq!(path.exists(), empty, "nothing was changed");
        kept.into_iter().for_each(|(path, bytes)| std::fs::write(path, bytes).unwrap());
        node.run();
        assert!(said(&gauntlet(&node, &["quarantine", "list"])).contains("kept"));
        node.stop();
    }
    // Made again from the packs, which the message says, too.
    lose(&path, true);
    let made = gauntlet(&node, &["quarantine", "rebuild"]);
    assert!(
        made.status.success() && said(&made).contains("1 messages in the list"),
        "{}",
        said(&made)
    );
    node.run();
    assert!(said(&gauntlet(&node, &["quarantine", "list"])).contains("kept"));
    let refused = gauntlet(&node, &["quarantine", "rebuild"]);
    assert!(!refused.status.success() && said(&refused).contains("another process"));
    node.stop();
    // Begun anew as the message says: it starts, and the bodies are where they were moved.
    lose(&path, true);
    std::fs::rename(node.data().join("quarantine"), node.data().join("quarantine.old")).unwrap();
    node.run();
    take(&node, "new");
    assert!(said(&gauntlet(&node, &["quarantine", "list"])).contains("new"));
    node.stop();
}

#[test]
fn a_damaged_pack_of_held_mail_stops_nothing_and_is_named() {
    let mut node = stopped(HOLD);
    let packs = node.data().join("quarantine/packs");
    let pack = std::fs::read_dir(&packs).unwrap().flatten().map(|e| e.path());
    let pack = pack.into_iter().find(|p| p.extension().is_some_and(|e| e == "pack")).unwrap();
    let whole = std::fs::read(&pack).unwrap();
    let mut flipped = whole.clone();
    flipped[700] ^= 1;
    std::fs::write(&pack, &flipped).unwrap();
    node.run();
    let verified = gauntlet(&node, &["quarantine", "verify"]);
    let text = said(&verified);
    assert_eq!(verified.status.code(), Some(1), "{text}");
    assert!(text.contains(".pack") && text.contains("backup"), "{text}");
    assert!(text.ends_with("1 held messages, 1 cannot be read\n"), "{text}");
    take(&node, "after");
    node.stop();
    std::fs::remove_file(&pack).unwrap();
    node.run();
    let doctor = said(&gauntlet(&node, &["doctor", "--dns", "127.0.0.1:9"]));
    assert!(doctor.contains("is missing, with"), "{doctor}");
    node.stop();
    std::fs::write(&pack, whole).unwrap();
    node.run();
    take(&node, "last");
    let listed = said(&gauntlet(&node, &["quarantine", "list"]));
    assert!(listed.contains("kept") && listed.contains("last"), "{listed}");
    node.stop();
}

#[test]
fn a_lost_user_database_is_no_first_start() {
    for (policy, empty) in [(HOLD, true), (PASS, false)] {
        let mut node = stopped(policy);
        let first = node.password.take().unwrap();
        let path = node.data().join("console/users.db");
        let kept = lose(&path, empty);
        for args in [&["serve"][..], &["user", "list"], &["token", "list"]] {
            let output = gauntlet(&node, args);
            let said = said(&output);
            assert!(!output.status.success(), "{args:?}: {said}");
            for word in ["users.db", "no first start", "backup", "gauntlet user new-database"] {
                assert!(said.contains(word), "{word}: {said}");
            }
            assert!(!said.contains("one-time password"), "{said}");
        }
        // Put back: the administrator is who it was.
        let lost = lose(&path, false);
        kept.into_iter().for_each(|(path, bytes)| std::fs::write(path, bytes).unwrap());
        assert_eq!(lost.len(), usize::from(empty));
        node.run();
        assert_eq!(node.password, None);
        assert!(!said(&gauntlet(&node, &["user", "new-database"])).contains("password for"));
        node.stop();
        // Begun anew by name.
        lose(&path, empty);
        let begun = gauntlet(&node, &["user", "new-database"]);
        assert!(begun.status.success(), "{}", said(&begun));
        assert!(!said(&begun).contains(&first));
        node.run();
        assert_eq!(node.password, None, "the command has printed it");
        assert!(said(&gauntlet(&node, &["user", "list"])).contains("admin"));
        node.stop();
    }
}

#[test]
fn a_start_that_failed_before_its_first_mail_is_still_a_first_start() {
    let mut node = Node::start("");
    node.stop();
    lose(&node.data().join("console/users.db"), true);
    node.password = None;
    node.run();
    assert!(node.password.is_some());
    node.stop();
}

/// `gauntlet doctor` has this about the message log, and under no other heading.
fn check_of_log(node: &Node, wanted: &str) {
    let printed = said(&gauntlet(node, &["doctor", "--dns", "127.0.0.1:9", "--json"]));
    let about: Vec<&str> =
        printed.lines().filter(|l| l.contains("day of the message log")).collect();
    let [line] = about[..] else { panic!("{printed}") };
    let line: serde_json::Value = serde_json::from_str(line).unwrap();
    assert_eq!((&line["check"], &line["status"]), (&"message log".into(), &"error".into()));
    assert!(line["text"].as_str().unwrap().contains(wanted), "{line}");
}

#[test]
fn a_damaged_day_of_the_log_stops_nothing_and_is_reported_until_it_is_repaired() {
    let mut node = stopped(PASS);
    let days = |node: &Node, end: &str| {
        let entries = std::fs::read_dir(node.data().join("log")).unwrap().flatten();
        let paths = entries.map(|entry| entry.path());
        paths.filter(|p| p.to_string_lossy().ends_with(end)).collect::<Vec<_>>()
    };
    let day = days(&node, ".db").pop().unwrap();
    lose(&day, false);
    std::fs::write(&day, vec![0x5a; 20_000]).unwrap();
    // Without a node the day is left out, and commands say which one that is.
    let name = day.file_name().unwrap().to_str().unwrap();
    let found = gauntlet(&node, &["messages"]);
    assert_eq!(found.status.code(), Some(1), "{found:?}");
    let left_out = format!("a day of the message log is damaged and left out: log/{name}");
    assert!(said(&found).contains(&left_out), "{}", said(&found));
    check_of_log(&node, &left_out);
    assert_eq!(std::fs::read(&day).unwrap().len(), 20_000, "nothing is moved");
    node.run();
    assert_eq!(days(&node, ".db.damaged").len(), 1);
    check_of_log(&node, &format!("log/{name}.damaged"));
    assert!(node.log().contains("set aside as log/"), "{}", node.log());
    take(&node, "after");
    assert!(said(&gauntlet(&node, &["messages"])).contains("after"));
    let texts = [
        said(&gauntlet(&node, &["status"])),
        said(&gauntlet(&node, &["doctor", "--dns", "127.0.0.1:9"])),
        http_get(node.console, "/healthz"),
    ];
    for text in texts {
        assert!(text.contains(".db.damaged") && text.contains("from a backup"), "{text}");
        assert!(!text.contains(node.data().to_str().unwrap()) || !text.starts_with("ok"), "{text}");
    }
    std::fs::remove_file(days(&node, ".db.damaged").pop().unwrap()).unwrap();
    assert!(!said(&gauntlet(&node, &["status"])).contains("damaged"));
    node.stop();
}

#[test]
fn a_damaged_database_is_named_with_what_to_do() {
    let mut node = stopped(HOLD);
    for name in ["quarantine/quarantine.db", "console/users.db", "history/history.db"] {
        let path = node.data().join(name);
        let kept = lose(&path, false);
        std::fs::write(&path, vec![0x5a; 20_000]).unwrap();
        let output = gauntlet(&node, &["serve"]);
        let said = said(&output);
        assert!(!output.status.success(), "{name}: {said}");
        assert!(said.contains(name) && said.contains("from a backup"), "{name}: {said}");
        assert_eq!(std::fs::read(&path).unwrap(), vec![0x5a; 20_000], "{name}");
        kept.into_iter().for_each(|(path, bytes)| std::fs::write(path, bytes).unwrap());
    }
    node.run();
    node.stop();
}
