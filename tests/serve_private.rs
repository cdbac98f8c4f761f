//! Mail, keys and passwords of a node are for its owner only, whatever the umask is and whatever an
//! older version left; and a power cut soon after the first start does not keep it from starting
//! again.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{Node, Smtp, message};

/// Every file and folder below, with it. Processes of the node, which end shortly after it, remove
/// some meanwhile.
fn all(folder: &Path) -> Vec<PathBuf> {
    let mut found = vec![folder.to_owned()];
    let Some(entries) = if_there(std::fs::read_dir(folder), folder) else { return found };
    for entry in entries {
        let path = entry.unwrap().path();
        match if_there(path.symlink_metadata(), &path) {
            Some(seen) if seen.is_dir() => found.extend(all(&path)),
            Some(_) => found.push(path),
            None => {}
        }
    }
    found
}

/// Nothing if the file has gone; any other error ends the test.
fn if_there<T>(result: std::io::Result<T>, path: &Path) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => panic!("{}: {error}", path.display()),
    }
}

/// What others may read, write or enter.
fn open_to_others(folder: &Path) -> Vec<(PathBuf, u32)> {
    let modes = all(folder).into_iter().filter_map(|path| {
        let mode = path.symlink_metadata().ok()?.permissions().mode() & 0o777;
        (mode & 0o077 != 0).then_some((path, mode))
    });
    modes.collect()
}

/// As a version without care left it, under a careless umask.
fn open_up(folder: &Path) {
    for path in all(folder) {
        let mode = if path.is_dir() { 0o755 } else { 0o644 };
        let opened = std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode));
        if_there(opened, &path);
    }
}

/// Everything that this process and its children make may be read by all, unless they see to it.
fn careless_umask() {
    // SAFETY: takes and gives an integer and cannot fail.
    let _before = unsafe { libc::umask(0) };
}

fn gauntlet(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gauntlet"));
    command.args(args).env_remove("GAUNTLET_CONFIG");
    command
}

const POLICY: &str = "[[rule]]\nname = \"all\"\ndo = { quarantine = \"held\" }\n";

fn held_by_policy(more: &str) -> Node {
    let folder = tempfile::tempdir().unwrap();
    let policy = folder.keep().join("policy.toml");
    std::fs::write(&policy, POLICY).unwrap();
    Node::start_listening("self_signed = true", &format!("[policy]\npath = {policy:?}\n{more}"))
}

#[test]
fn nothing_of_a_node_is_open_to_others_while_it_runs_and_after() {
    careless_umask();
    let mut node = held_by_policy("[quarantine]\nencrypt = true\n");
    let data = node.data();
    let send = |node: &Node| {
        let mut client = Smtp::connect(node.smtp).unwrap();
        let text = message("private", 3_000);
        let reply = client.send("ann@example.org", &["bob@example.net"], &text).unwrap();
        assert!(reply.starts_with("250"), "{reply}");
        node.wait_for_empty_queue();
    };
    send(&node);
    assert!(data.join("console/users.db-wal").exists(), "the node runs and has its log");
    assert_eq!(open_to_others(&data), [], "while it runs");
    let backup = node.folder.path().join("backup");
    let config = node.folder.path().join("gauntlet.toml");
    let (config, place) = (config.to_str().unwrap(), backup.to_str().unwrap());
    let mail = node.folder.path().join("mail.eml");
    std::fs::write(&mail, message("learn", 500)).unwrap();
    for args in [
        &["user", "add", "eve", "--config", config][..],
        &["quarantine", "list", "--config", config],
        &["learn", "--spam", mail.to_str().unwrap(), "--data", data.to_str().unwrap()],
        &["dkim", "new", "example.org", "--config", config],
        &["backup", place, "--config", config],
    ] {
        let out = gauntlet(args).output().unwrap();
        assert!(out.status.success(), "{args:?}: {}", String::from_utf8_lossy(&out.stderr));
        assert_eq!(open_to_others(&data), [], "{args:?}");
    }
    assert_eq!(open_to_others(&backup), []);
    node.stop();
    assert_eq!(open_to_others(&data), [], "after it stopped");

    // What an older version left is corrected at the start, and said.
    open_up(&data);
    let doctor =
        gauntlet(&["doctor", "--config", config, "--dns", "127.0.0.1:9"]).output().unwrap();
    let said = String::from_utf8_lossy(&doctor.stdout).into_owned();
    assert!(said.contains("error   privacy") && said.contains("chmod -R go="), "{said}");
    assert!(!said.contains("for its owner only"), "{said}");
    node.run();
    send(&node);
    assert_eq!(open_to_others(&data), []);
    let log = node.log();
    let lines: Vec<&str> = log.lines().filter(|line| line.contains("made private")).collect();
    assert_eq!(lines.len(), 1, "{log}");
    assert!(lines[0].contains("\"first\":") && lines[0].contains("data\""), "{lines:?}");
}

/// A command beside a node that is stopped, in a folder that an older version left.
#[test]
fn commands_leave_no_database_open_to_others() {
    careless_umask();
    let mut node = Node::start("");
    node.stop();
    let data = node.data();
    open_up(&data);
    let out = gauntlet(&["user", "add", "eve", "--data", data.to_str().unwrap()]).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let open = open_to_others(&data.join("console"));
    let files: Vec<_> = open.iter().filter(|(path, _)| path.is_file()).collect();
    assert!(files.is_empty(), "{files:?}");
}

/// Files that are written once, empty and cut short, as a power cut leaves what nobody synced. What
/// is our own is made anew; where a loss would matter the node says which file, and what to do.
#[test]
fn a_node_with_files_cut_short_starts_or_says_why_and_loses_no_mail() {
    let mut node = held_by_policy("[quarantine]\nencrypt = true\n");
    let data = node.data();
    let mut client = Smtp::connect(node.smtp).unwrap();
    let reply = client.send("a@example.org", &["b@example.net"], &message("kept", 900)).unwrap();
    assert!(reply.starts_with("250"), "{reply}");
    node.wait_for_empty_queue();
    let config = node.folder.path().join("gauntlet.toml");
    let config = config.to_str().unwrap().to_owned();
    let made = gauntlet(&["dkim", "new", "example.org", "--config", &config]).output().unwrap();
    assert!(made.status.success());
    node.stop();
    let own = [
        ("tls/self-signed.key", true),
        ("tls/self-signed.pem", true),
        ("mta-sts.json", false),
        ("tls-outcomes.json", false),
        ("queue/crashes.json", false),
    ];
    for (name, exists) in own {
        let path = data.join(name);
        let whole = std::fs::read(&path).unwrap_or_else(|_| br#"{"1":{"x":1}}"#.to_vec());
        assert_eq!(path.exists(), exists, "{name}");
        for left in [0, whole.len() / 2] {
            std::fs::write(&path, &whole[..left]).unwrap();
            node.run();
            let line = node.log();
            let named = line.lines().filter(|l| l.contains("unusable") || l.contains("damaged"));
            assert!(named.count() > 0, "{name} of {left} bytes: {line}");
            let (mut client, text) = (Smtp::connect(node.smtp).unwrap(), message("more", 400));
            let reply = client.send("a@example.org", &["b@example.net"], &text).unwrap();
            assert!(reply.starts_with("250"), "{reply}");
            node.wait_for_empty_queue();
            node.stop();
            std::fs::remove_file(node.folder.path().join("node.log")).unwrap();
        }
    }
    let key = all(&data.join("dkim")).into_iter().find(|p| p.is_file()).unwrap();
    for path in [data.join("quarantine.keys"), key] {
        let whole = std::fs::read(&path).unwrap();
        for left in [0, whole.len() / 2] {
            std::fs::write(&path, &whole[..left]).unwrap();
            let out = gauntlet(&["serve", "--config", &config]).output().unwrap();
            let said = String::from_utf8_lossy(&out.stderr).into_owned();
            let name = path.file_name().unwrap().to_str().unwrap();
            assert!(!out.status.success() && said.contains(name), "{name}, {left}: {said}");
            assert!(said.contains("from a backup"), "{name}, {left}: {said}");
            assert_eq!(std::fs::read(&path).unwrap(), &whole[..left], "never replaced silently");
        }
        std::fs::write(&path, &whole).unwrap();
    }
    node.run();
    let list = gauntlet(&["quarantine", "list", "--config", &config]).output().unwrap();
    assert!(String::from_utf8_lossy(&list.stdout).contains("kept"));
}
