//! A node that is started as root and becomes another user: what that user put into the data folder
//! leads root nowhere else, and the sandbox holds.

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::common::{Smtp, message};

/// User id of `nobody`, who runs the node; none (and a line that says so) without root.
fn nobody() -> Option<u32> {
    let number = |args: &[&str]| {
        let said = Command::new("id").args(args).output().unwrap().stdout;
        String::from_utf8(said).unwrap().trim().parse::<u32>().unwrap()
    };
    if number(&["-u"]) != 0 {
        assert!(std::env::var_os("CI").is_none(), "not root");
        eprintln!("SKIPPED: not root");
        return None;
    }
    Some(number(&["-u", "nobody"]))
}

/// A folder with a data folder of `nobody`'s, and one of root's beside it that must stay as it is.
struct Places {
    folder: tempfile::TempDir,
    nobody: u32,
}

impl Places {
    fn new(nobody: u32) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
        let places = Places { folder, nobody };
        fs::create_dir(places.data()).unwrap();
        fs::set_permissions(places.data(), Permissions::from_mode(0o700)).unwrap();
        places.give(&places.data());
        fs::create_dir(places.victim()).unwrap();
        for name in ["passwd", "shadow"] {
            let path = places.victim().join(name);
            fs::write(&path, "root's own").unwrap();
            fs::set_permissions(path, Permissions::from_mode(0o600)).unwrap();
        }
        fs::set_permissions(places.victim(), Permissions::from_mode(0o755)).unwrap();
        places
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn victim(&self) -> PathBuf {
        self.folder.path().join("victim")
    }

    fn give(&self, path: &Path) {
        std::os::unix::fs::lchown(path, Some(self.nobody), Some(self.nobody)).unwrap();
    }

    /// A link that `nobody` puts into the data folder.
    fn link(&self, name: &str, to: &Path) {
        let path = self.data().join(name);
        let above = path.parent().unwrap();
        if !above.exists() {
            fs::create_dir_all(above).unwrap();
            self.give(above);
        }
        symlink(to, &path).unwrap();
        self.give(&path);
    }

    /// Everything below root's folder: owner, mode, and what is in it.
    fn owners(&self) -> Vec<(PathBuf, u32, u32, Vec<u8>)> {
        let mut paths = vec![self.victim()];
        paths.extend(fs::read_dir(self.victim()).unwrap().map(|entry| entry.unwrap().path()));
        paths.sort();
        let seen = |path: PathBuf| {
            let meta = fs::symlink_metadata(&path).unwrap();
            (path.clone(), meta.uid(), meta.mode(), fs::read(&path).unwrap_or_default())
        };
        paths.into_iter().map(seen).collect()
    }

    fn command(&self, node: &str, listener: &str, more: &str) -> Command {
        let path = self.folder.path().join("gauntlet.toml");
        let config = format!(
            "[node]\nuser = \"nobody\"\ndata = {:?}\n{node}\n[[listener]]\naddress = \"127.0.0.1:0\"\n\
             {listener}\n[console]\naddress = \"127.0.0.1:0\"\n{more}\n",
            self.data()
        );
        fs::write(&path, config).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_gauntlet"));
        command.args(["serve", "--config"]).arg(&path).env_remove("GAUNTLET_CONFIG");
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        command.stderr(fs::File::create(self.folder.path().join("node.log")).unwrap());
        command
    }

    /// Starts a node and waits until it takes mail, or has ended.
    fn start(&self, node: &str, listener: &str, more: &str) -> Running {
        Running::of(self.command(node, listener, more))
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("node.log")).unwrap()
    }
}

struct Running {
    child: Child,
    smtp: Option<SocketAddr>,
    welcome: String,
}

impl Running {
    fn of(mut command: Command) -> Self {
        let mut child = command.spawn().unwrap();
        let stdout = child.stdout.take().unwrap();
        let mut running = Running { child, smtp: None, welcome: String::new() };
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            running.welcome.push_str(&line);
            running.welcome.push('\n');
            let words: Vec<&str> = line.split_whitespace().collect();
            match words.as_slice() {
                ["smtp,", _, address] => running.smtp = address.parse().ok(),
                ["to", "stop", ..] => break,
                _ => {}
            }
        }
        running
    }

    fn takes_mail(&self) -> bool {
        let Some(address) = self.smtp else { return false };
        let mut client = Smtp::connect(address).unwrap();
        client
            .send("a@example.org", &["b@example.net"], &message("u", 100))
            .unwrap()
            .starts_with("250")
    }

    /// The status of every thread of the node and of the secrets process.
    fn statuses(&self) -> Vec<String> {
        let children = format!("/proc/{0}/task/{0}/children", self.child.id());
        let children = fs::read_to_string(children).unwrap_or_default();
        let all =
            children.split_whitespace().map(str::to_owned).chain([self.child.id().to_string()]);
        let tasks =
            all.flat_map(|pid| fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten());
        tasks.map(|task| fs::read_to_string(task.path().join("status")).unwrap()).collect()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _it_may_have_ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// What `nobody` puts into the data folder, and where it leads.
const LINKED: &[(&str, &str)] = &[
    ("tls", ""),
    ("tls/self-signed.key", "passwd"),
    ("logs", ""),
    ("queue", ""),
    ("log", ""),
    ("signatures", ""),
    ("corrections", ""),
    ("corrections/corrections.journal", "passwd"),
    ("corrections.journal", "passwd"),
    ("history", ""),
    ("history/history.db", "passwd"),
    ("lock", "passwd"),
    ("maildir", ""),
    ("console", ""),
    ("console/users.db", "passwd"),
    ("acme", ""),
    ("control.sock", "new.sock"),
    ("clock.json", "new.json"),
    ("service", ""),
];

#[test]
fn links_of_the_nodes_user_lead_root_nowhere() {
    let Some(nobody) = nobody() else { return };
    for &(name, to) in LINKED {
        let places = Places::new(nobody);
        places.link(name, &places.victim().join(to));
        let before = places.owners();
        let service = places.data().join("service/milter.sock");
        let service = format!(
            "[[service]]\nprotocol = \"milter\"\naddress = \"unix:{}\"\n[log]\ntext_days = 3\n",
            service.display()
        );
        let more = if name == "service" { service.as_str() } else { "[log]\ntext_days = 3\n" };
        let running = places.start("", "self_signed = true", more);
        assert_eq!(places.owners(), before, "{name}\n{}", places.log());
        drop(running);
        assert_eq!(places.owners(), before, "{name}\n{}", places.log());
        let owner = fs::symlink_metadata(places.data().join(name)).map(|m| m.uid());
        assert_eq!(owner.unwrap_or(nobody), nobody, "{name}");
    }
}

/// The name that a text log has today is known before: a link there was opened for append by root.
#[test]
fn text_logs_are_not_appended_to_what_a_link_names() {
    let Some(nobody) = nobody() else { return };
    let places = Places::new(nobody);
    let today = Command::new("date").args(["-u", "+%F"]).output().unwrap().stdout;
    let today = String::from_utf8(today).unwrap();
    let name = format!("logs/receiver.{}.log", today.trim());
    places.link(&name, &places.victim().join("passwd"));
    let before = places.owners();
    let running = places.start("sandbox = \"off\"", "", "[log]\ntext_days = 3\n");
    assert!(running.takes_mail(), "{}", places.log());
    std::thread::sleep(std::time::Duration::from_millis(600));
    drop(running);
    assert_eq!(places.owners(), before);
}

#[test]
fn a_hard_link_to_a_file_of_roots_is_not_given_away() {
    let Some(nobody) = nobody() else { return };
    for name in ["tls/self-signed.key", "logs/receiver.log", "history/history.db", "lock"] {
        let places = Places::new(nobody);
        let path = places.data().join(name);
        let above = path.parent().unwrap();
        if above != places.data() {
            fs::create_dir(above).unwrap();
            places.give(above);
        }
        fs::hard_link(places.victim().join("shadow"), &path).unwrap();
        let before = places.owners();
        drop(places.start("", "self_signed = true", "[log]\ntext_days = 3\n"));
        assert_eq!(places.owners(), before, "{name}\n{}", places.log());
    }
}

#[test]
fn a_folder_that_the_user_could_replace_is_not_given_away() {
    let Some(nobody) = nobody() else { return };
    let places = Places::new(nobody);
    // The data folder itself is named below a folder of the user's, and is a link there.
    let home = places.folder.path().join("home");
    fs::create_dir(&home).unwrap();
    places.give(&home);
    symlink(places.victim(), home.join("data")).unwrap();
    places.give(&home.join("data"));
    let before = places.owners();
    let mut command = places.command("", "", "");
    let config = places.folder.path().join("gauntlet.toml");
    let text = fs::read_to_string(&config).unwrap();
    let named = text.replace(places.data().to_str().unwrap(), home.join("data").to_str().unwrap());
    fs::write(&config, named).unwrap();
    let status = command.status().unwrap();
    assert!(!status.success());
    assert!(places.log().contains("chown"), "{}", places.log());
    assert_eq!(places.owners(), before);
    // What root left in the data folder is named, with what to do; it is not given away.
    fs::create_dir(places.data().join("log")).unwrap();
    let status = places.command("", "", "").status().unwrap();
    assert!(!status.success());
    assert!(places.log().contains("log belongs to root"), "{}", places.log());
    assert_eq!(fs::metadata(places.data().join("log")).unwrap().uid(), 0);
}

/// The data folder is made where there is none, also in a folder that is the user's; commands of
/// root leave nothing of root's in it.
#[test]
fn commands_of_root_work_as_the_owner_of_the_data_folder() {
    let Some(nobody) = nobody() else { return };
    let places = Places::new(nobody);
    fs::remove_dir(places.data()).unwrap();
    let running = places.start("", "self_signed = true", "");
    assert!(running.takes_mail(), "{}", places.log());
    drop(running);
    let config = places.folder.path().join("gauntlet.toml");
    let gauntlet = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gauntlet"));
        command.args(args).args(["--config"]).arg(&config).env_remove("GAUNTLET_CONFIG");
        command.output().unwrap()
    };
    for args in [
        &["user", "list"][..],
        &["user", "add", "ann", "--role", "user"],
        &["dkim", "new", "example.org"],
        &["quarantine", "list"],
    ] {
        let output = gauntlet(args);
        assert!(output.status.success(), "{args:?} {}", String::from_utf8_lossy(&output.stderr));
    }
    let mail = places.folder.path().join("spam.eml");
    fs::write(&mail, message("learned", 300)).unwrap();
    fs::set_permissions(&mail, Permissions::from_mode(0o600)).unwrap();
    let learned = Command::new(env!("CARGO_BIN_EXE_gauntlet"))
        .arg("learn")
        .arg("--data")
        .arg(places.data())
        .arg("--spam")
        .arg(&mail)
        .output()
        .unwrap();
    assert!(learned.status.success(), "{}", String::from_utf8_lossy(&learned.stderr));
    let found = Command::new("find").arg(places.data()).args(["-user", "root"]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&found.stdout), "");
    // A link in the place of a database leads a command of root's nowhere.
    fs::remove_dir_all(places.data().join("console")).unwrap();
    places.link("console", &places.victim());
    let before = places.owners();
    assert!(!gauntlet(&["user", "list"]).status.success());
    assert_eq!(places.owners(), before);
}

#[test]
fn a_backup_by_root_belongs_to_the_owner_of_the_data_folder() {
    let Some(nobody) = nobody() else { return };
    let places = Places::new(nobody);
    let running = places.start("", "self_signed = true", "");
    assert!(running.takes_mail(), "{}", places.log());
    let config = places.folder.path().join("gauntlet.toml");
    // A folder that is there already, and the owner's: nothing that is put into it leads root
    // elsewhere.
    let (made, given) = (places.folder.path().join("made"), places.folder.path().join("given"));
    fs::create_dir(&given).unwrap();
    places.give(&given);
    for copy in [&made, &given] {
        let mut backup = Command::new(env!("CARGO_BIN_EXE_gauntlet"));
        backup.args(["backup", "--config"]).arg(&config).arg(copy);
        let output = backup.env_remove("GAUNTLET_CONFIG").output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let others =
            Command::new("find").arg(copy).args(["!", "-user", "nobody"]).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&others.stdout), "");
        assert!(copy.join("backup.json").is_file());
    }
    drop(running);
    // A node of that user starts on it.
    let text = fs::read_to_string(&config).unwrap();
    fs::rename(places.data(), places.folder.path().join("before")).unwrap();
    fs::rename(&made, places.data()).unwrap();
    assert!(!text.is_empty());
    assert!(places.start("", "self_signed = true", "").takes_mail(), "{}", places.log());
    // And on what root restores, over the folder in use and where nothing is.
    let new = places.folder.path().join("new");
    let over = [&config, &given].map(|path| path.as_os_str());
    for data in [None, Some(new)] {
        let mut restore = Command::new(env!("CARGO_BIN_EXE_gauntlet"));
        restore.arg("restore").arg("--config").args(over);
        match &data {
            None => restore.arg("--force"),
            Some(new) => restore.arg("--data").arg(new),
        };
        let data = data.unwrap_or_else(|| places.data());
        let output = restore.env_remove("GAUNTLET_CONFIG").output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        for wrong in [&["!", "-user", "nobody"][..], &["-perm", "/077", "!", "-type", "l"]] {
            let others = Command::new("find").arg(&data).args(wrong).output().unwrap();
            assert_eq!(String::from_utf8_lossy(&others.stdout), "", "{wrong:?}");
        }
    }
    assert!(places.start("", "self_signed = true", "").takes_mail(), "{}", places.log());
}

/// Root reads the key at the start; the node, which is another user by then, cannot read it again.
#[test]
fn a_key_that_only_root_can_read_is_named_at_the_start_and_by_doctor() {
    let Some(nobody) = nobody() else { return };
    let places = Places::new(nobody);
    let made = rcgen::generate_simple_self_signed(vec!["gw.test".to_owned()]).unwrap();
    let (chain, key) =
        (places.folder.path().join("chain.pem"), places.folder.path().join("key.pem"));
    fs::write(&chain, made.cert.pem()).unwrap();
    fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    fs::set_permissions(&key, Permissions::from_mode(0o600)).unwrap();
    let listener = format!("certificate = [{chain:?}]\nkey = [{key:?}]");
    let running = places.start("", &listener, "");
    assert!(running.takes_mail(), "{}", places.log());
    let warned = format!("{}: node.user nobody cannot read this key", key.display());
    assert!(places.log().contains(&warned) && places.log().contains("chgrp"), "{}", places.log());
    let doctor = || {
        let mut doctor = Command::new(env!("CARGO_BIN_EXE_gauntlet"));
        doctor.args(["doctor", "--config"]).arg(places.folder.path().join("gauntlet.toml"));
        let output = doctor.env_remove("GAUNTLET_CONFIG").output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let said = doctor();
    assert!(said.contains(&warned), "{said}");
    places.give(&key);
    let said = doctor();
    assert!(!said.contains("cannot read this key"), "{said}");
}

/// The sandbox keeps the node from a key that its user can read: that is nothing to warn of.
#[test]
fn a_key_of_the_nodes_own_is_not_named() {
    let Some(nobody) = nobody() else { return };
    let places = Places::new(nobody);
    assert!(places.start("", "self_signed = false", "").takes_mail(), "{}", places.log());
    let made = Command::new(env!("CARGO_BIN_EXE_gauntlet"))
        .args(["dkim", "new", "example.org", "--algorithm", "ed25519", "--config"])
        .arg(places.folder.path().join("gauntlet.toml"))
        .env_remove("GAUNTLET_CONFIG")
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let running = places.start("", "self_signed = false", "");
    assert!(running.takes_mail(), "{}", places.log());
    assert!(!places.log().contains("cannot read this key"), "{}", places.log());
}

#[test]
fn the_sandbox_is_required_and_in_force_as_another_user() {
    let Some(nobody) = nobody() else { return };
    if !Path::new("/proc/sys/kernel/seccomp/actions_avail").exists() {
        eprintln!("SKIPPED: this kernel has no seccomp");
        return;
    }
    let places = Places::new(nobody);
    let running = places.start("sandbox = \"require\"", "self_signed = true", "");
    if running.smtp.is_none() && places.log().contains("the kernel does not do it") {
        eprintln!("SKIPPED: {}", places.log());
        return;
    }
    assert!(running.takes_mail(), "{}", places.log());
    let uid = format!("Uid:\t{nobody}\t{nobody}\t{nobody}\t{nobody}");
    for status in running.statuses() {
        for wanted in ["Seccomp:\t2", "NoNewPrivs:\t1", uid.as_str(), "CapEff:\t0000000000000000"] {
            assert!(status.contains(wanted), "{wanted} is not in\n{status}");
        }
    }
    assert!(running.welcome.contains("Landlock (version"), "{}", running.welcome);
}

/// Landlock takes 16 rulesets of a process on top of each other: who is started below as many has
/// none left, as on a kernel without it.
#[test]
fn without_landlock_the_node_says_so_and_require_refuses() {
    let Some(nobody) = nobody() else { return };
    let exhausted = |mut command: Command| {
        // SAFETY: system calls alone, between fork and exec.
        unsafe { command.pre_exec(exhaust_landlock) };
        command
    };
    let places = Places::new(nobody);
    let running = Running::of(exhausted(places.command("", "self_signed = true", "")));
    assert!(running.takes_mail(), "{}", places.log());
    assert!(running.welcome.contains("without Landlock"), "{}", running.welcome);
    let uid = format!("Uid:\t{nobody}\t{nobody}\t{nobody}\t{nobody}");
    for status in running.statuses() {
        for wanted in ["Seccomp:\t2", uid.as_str()] {
            assert!(status.contains(wanted), "{wanted} is not in\n{status}");
        }
    }
    drop(running);
    let required = places.command("sandbox = \"require\"", "self_signed = true", "");
    assert!(!exhausted(required).status().unwrap().success());
    assert!(places.log().contains("the kernel does not do it"), "{}", places.log());
}

/// Stacks rulesets that forbid nothing that is needed here (making block devices) until no more
/// fit.
fn exhaust_landlock() -> std::io::Result<()> {
    let forbids_block_devices: [u64; 1] = [1 << 11];
    // SAFETY: integers, and a structure of the size that is given.
    unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        for _ in 0..64 {
            let made = libc::syscall(
                libc::SYS_landlock_create_ruleset,
                forbids_block_devices.as_ptr(),
                8usize,
                0u32,
            );
            if made < 0 {
                return Ok(());
            }
            let done = libc::syscall(libc::SYS_landlock_restrict_self, made, 0u32);
            libc::close(made as libc::c_int);
            if done != 0 {
                return Ok(());
            }
        }
    }
    Ok(())
}
