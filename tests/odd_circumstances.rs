//! What goes wrong around the program: full disks, closed pipes, ports in use, circles of links.
//! Each error names what is wrong and what corrects it, and nothing is lost.

use std::ffi::OsStr;
use std::fs;
use std::net::TcpListener;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::common::{Node, Smtp, message};

fn gauntlet() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gauntlet"));
    command.env_remove("GAUNTLET_CONFIG").stdin(Stdio::null());
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// It ended with this code and said all of this on standard error.
fn says(output: &Output, code: i32, all: &[&str]) {
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{error}");
    for part in all {
        assert!(error.contains(part), "{part:?} is not in: {error}");
    }
}

#[test]
fn links_that_lead_back_are_reported_and_not_followed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    fs::write(path.join("one.eml"), message("one", 100)).unwrap();
    for name in ["a", "b"] {
        symlink(path, path.join(name)).unwrap();
    }
    symlink("nowhere", path.join("dangling")).unwrap();
    let output = gauntlet().args(["scan", "--json"]).arg(path).output().unwrap();
    says(&output, 1, &[]);
    let lines = text(&output.stdout);
    let judged = lines.lines().filter(|l| l.contains("\"class\"")).count();
    assert_eq!(judged, 1, "{lines}");
    assert_eq!(lines.matches("not followed").count(), 2, "{lines}");
}

fn mkfifo(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

#[test]
fn pipes_and_sockets_in_a_folder_are_reported_and_not_opened() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    fs::write(path.join("one.eml"), message("one", 100)).unwrap();
    mkfifo(&path.join("pipe"));
    let _socket = std::os::unix::net::UnixListener::bind(path.join("socket")).unwrap();
    let output = gauntlet().args(["scan", "--json"]).arg(path).output().unwrap();
    says(&output, 1, &[]);
    let lines = text(&output.stdout);
    assert_eq!(lines.matches("neither a file nor a folder").count(), 2, "{lines}");
    assert_eq!(lines.matches("\"class\"").count(), 1, "{lines}");
    let list = path.join("list");
    fs::write(&list, path.join("pipe").as_os_str().as_bytes()).unwrap();
    let output = gauntlet().args(["scan", "--json", "--files-from"]).arg(&list).output().unwrap();
    says(&output, 1, &["neither a file nor a folder"]);
}

#[test]
fn what_is_no_archive_and_no_message_is_named_and_costs_little() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let mut header = [0_u8; 512];
    header[..5].copy_from_slice(b"a.eml");
    header[257..263].copy_from_slice(b"ustar\0");
    for (name, size) in [
        ("huge", b"\x80\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"),
        ("negative", b"-0000000001\0"),
    ] {
        header[124..136].copy_from_slice(size);
        header[148..156].copy_from_slice(b"        ");
        let sum: u32 = header.iter().map(|b| u32::from(*b)).sum();
        header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        fs::write(path.join(name), [&header[..], &message("one", 100)].concat()).unwrap();
    }
    let odd = path.join(OsStr::from_bytes(b"\xff\xfe\n.eml"));
    fs::write(odd, message("one", 100)).unwrap();
    fs::write(path.join("nothing.eml"), "").unwrap();
    let output = gauntlet().args(["scan", "--json"]).arg(path).output().unwrap();
    says(&output, 1, &[]);
    let lines: Vec<serde_json::Value> =
        text(&output.stdout).lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    let class = |end: &str| {
        let line = lines.iter().find(|l| l["file"].as_str().unwrap().ends_with(end)).unwrap();
        line["class"].as_str().map(str::to_owned)
    };
    assert_eq!((class("huge"), class("negative")), (None, None), "{lines:?}");
    assert_eq!(class("\n.eml").as_deref(), Some("ham"));
    assert_eq!(class("nothing.eml").as_deref(), Some("ham"));
    let nothing = lines.iter().find(|l| l["bytes"] == 0).unwrap();
    assert!(nothing["probability"].is_null() && nothing["hits"] == serde_json::json!([]));
    assert_eq!(nothing["defects"][0]["kind"], "empty_message");
}

#[test]
fn rules_without_a_rule_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (empty, picture) = (folder.path().join("empty"), folder.path().join("picture.png"));
    fs::create_dir(&empty).unwrap();
    fs::write(&picture, b"\x89PNG\r\n\x1a\n\0\xff\xfe\n".repeat(500)).unwrap();
    for rules in [&empty, &picture] {
        let output = gauntlet().args(["scan", "-", "--rules"]).arg(rules).output().unwrap();
        says(&output, 2, &["--rules", "there is no rule in it"]);
    }
    let one = folder.path().join("one.cf");
    fs::write(&one, "body ONE /one/\nscore ONE 1\n").unwrap();
    let mail = folder.path().join("one.eml");
    fs::write(&mail, message("one", 100)).unwrap();
    let of = |words: &[&str], paths: &[&std::path::PathBuf]| {
        gauntlet().arg("rules").args(words).args(paths).output().unwrap()
    };
    let refused = ["there is no rule in it", empty.to_str().unwrap()];
    says(&of(&["check"], &[&empty]), 2, &refused);
    says(&of(&["test"], &[&empty]), 2, &refused);
    says(&of(&["profile", "--rules"], &[&empty, &mail]), 2, &refused);
    says(&of(&["diff"], &[&empty, &one, &mail]), 2, &refused);
    let output = of(&["check", "--strict"], &[&one, &empty]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stdout).contains("warning: there is no .cf file in this folder"));
    let output = gauntlet()
        .args(["scan", "--rules"])
        .args([&one, &mail])
        .arg("--rules")
        .arg(&empty)
        .output();
    says(&output.unwrap(), 0, &["empty: warning: there is no .cf file in this folder"]);
}

#[test]
fn output_that_cannot_be_written_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let one = folder.path().join("one.eml");
    fs::write(&one, message("one", 100)).unwrap();
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let output = gauntlet().args(["scan", "--json"]).arg(&one).stdout(full).output().unwrap();
    says(&output, 2, &["standard output", "No space left"]);
}

#[test]
fn odd_numbers_and_folders_are_refused_with_their_bounds() {
    let output = gauntlet().args(["scan", "--threads", "0", "-"]).output().unwrap();
    says(&output, 2, &["--threads", "1..=1024"]);
    let output = gauntlet().args(["scan", "--data", "/nowhere", "-"]).output().unwrap();
    says(&output, 2, &["--data /nowhere", "no such folder"]);
}

#[test]
fn an_environment_that_is_no_text_is_none_of_ours() {
    let odd = OsStr::from_bytes(b"\xff\xfe");
    let output = gauntlet().args(["config", "show"]).env("ODD", odd).output().unwrap();
    says(&output, 0, &[]);
}

/// `gauntlet serve` with this configuration, which cannot work.
fn serve(folder: &Path, config: &str) -> Output {
    let path = folder.join("gauntlet.toml");
    fs::write(&path, config).unwrap();
    gauntlet().args(["serve", "--config"]).arg(&path).output().unwrap()
}

#[test]
fn a_start_that_fails_says_why_and_keeps_the_one_time_password() {
    let folder = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap();
    let data = folder.path().join("data");
    let config = |smtp: &str, console: &str| {
        format!(
            "[node]\ndata = {data:?}\n[[listener]]\naddress = \"{smtp}\"\n\
             [console]\naddress = \"{console}\"\n"
        )
    };
    let in_use = format!("{taken}: Address already in use");
    let output = serve(folder.path(), &config(&taken.to_string(), "127.0.0.1:0"));
    says(&output, 2, &["listener.address", &in_use, "choose another port"]);
    let output = serve(folder.path(), &config("127.0.0.1:0", &taken.to_string()));
    says(&output, 2, &["console.address", &in_use, "choose another port"]);
    // The node that starts at last shows the password: no failed start has used it up.
    let users = gauntlet_store::Users::open(&data.join("console")).unwrap();
    assert!(users.create_first_administrator(1).unwrap().is_some());
}

#[test]
fn a_data_folder_that_is_a_file_is_named_with_its_setting() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    fs::write(&data, "x").unwrap();
    let output = serve(folder.path(), &format!("[node]\ndata = {data:?}\n"));
    says(&output, 2, &["node.data", "--data", "(os error "]);
    let output = gauntlet().args(["serve", "--config", "/nowhere.toml"]).output().unwrap();
    says(&output, 2, &["cannot read the configuration /nowhere.toml"]);
}

#[test]
fn what_stands_in_the_way_in_the_data_folder_is_named_with_its_remediation() {
    let folder = tempfile::tempdir().unwrap();
    let start = |data: &Path| {
        let config = format!(
            "[node]\ndata = {data:?}\n[[listener]]\naddress = \"127.0.0.1:0\"\n\
             [console]\naddress = \"127.0.0.1:0\"\n"
        );
        serve(folder.path(), &config)
    };
    let long = folder.path().join("d".repeat(100));
    says(&start(&long), 2, &["control.sock", "set node.data to a folder with a shorter path"]);
    let taken = folder.path().join("taken");
    fs::create_dir_all(taken.join("control.sock")).unwrap();
    says(&start(&taken), 2, &["taken/control.sock", "take away what is there"]);
    let garbled = folder.path().join("garbled");
    fs::create_dir_all(garbled.join("quarantine")).unwrap();
    fs::write(garbled.join("quarantine/quarantine.db"), "garbage".repeat(5_000)).unwrap();
    let output = start(&garbled);
    says(&output, 2, &["quarantine/quarantine.db: file is not a database", "from a backup"]);
    assert_eq!(text(&output.stderr).matches("file is not a database").count(), 2, "with its code");
    let spool = folder.path().join("spooled");
    fs::create_dir(&spool).unwrap();
    fs::write(spool.join("spool"), "x").unwrap();
    says(&start(&spool), 2, &["spool.path", "File exists"]);
}

#[test]
fn a_folder_belongs_to_one_node_and_survives_kills_while_it_is_made() {
    let folder = tempfile::tempdir().unwrap();
    let config = format!(
        "[node]\ndata = {:?}\n[[listener]]\naddress = \"127.0.0.1:0\"\n\
         [console]\naddress = \"127.0.0.1:0\"\n",
        folder.path().join("data")
    );
    let path = folder.path().join("gauntlet.toml");
    fs::write(&path, &config).unwrap();
    let start = || {
        let mut command = gauntlet();
        command.args(["serve", "--config"]).arg(&path);
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    };
    for n in 0..12 {
        let mut child = start();
        std::thread::sleep(std::time::Duration::from_millis(n * 25));
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let mut node = Node::start("");
    node.config = node
        .config
        .replace(&format!("{:?}", node.data()), &format!("{:?}", folder.path().join("data")));
    node.stop();
    node.run();
    let mut client = Smtp::connect(node.smtp).unwrap();
    let reply = client.send("a@example.org", &["b@example.net"], &message("m", 100)).unwrap();
    assert!(reply.starts_with("250"), "{reply}");
    says(&serve(folder.path(), &config), 2, &["another node uses this folder"]);
    // Whatever happens to the configuration file, or however often it is read: the node goes on.
    fs::remove_file(node.folder.path().join("gauntlet.toml")).unwrap();
    for _ in 0..100 {
        node.signal("-HUP");
    }
    node.wait_until("it says so", || node.log().contains("not reloaded"));
    let reply = client.send("a@example.org", &["b@example.net"], &message("m", 100)).unwrap();
    assert!(reply.starts_with("250"), "{reply}");
    node.stop();
}

#[test]
fn a_configuration_that_is_broken_changes_nothing_in_a_running_node() {
    let mut node = Node::start("");
    let good = node.config.clone();
    for broken in ["[scan\n", "[scan]\nthreds = 1\n", "[policy]\npath = \"/nowhere\"\n"] {
        node.config = format!("{good}{broken}");
        node.write_config();
        let before = node.log().matches("not reloaded").count();
        node.signal("-HUP");
        node.wait_until("it says so", || node.log().matches("not reloaded").count() > before);
        let mut client = Smtp::connect(node.smtp).unwrap();
        let reply = client.send("a@example.org", &["b@example.net"], &message("m", 100)).unwrap();
        assert!(reply.starts_with("250"), "{reply}");
    }
    node.config = good;
    node.write_config();
    node.signal("-HUP");
    node.wait_until("it is reloaded", || node.log().contains("configuration reloaded"));
    node.stop();
}

#[test]
fn a_node_whose_standard_output_is_full_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let config = format!(
        "[node]\ndata = {:?}\n[[listener]]\naddress = \"127.0.0.1:0\"\n\
         [console]\naddress = \"127.0.0.1:0\"\n",
        folder.path().join("data")
    );
    let path = folder.path().join("gauntlet.toml");
    fs::write(&path, config).unwrap();
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let log = folder.path().join("log");
    let mut child = gauntlet()
        .args(["serve", "--config"])
        .arg(&path)
        .stdout(full)
        .stderr(fs::File::create(&log).unwrap())
        .spawn()
        .unwrap();
    let start = std::time::Instant::now();
    let log = || fs::read_to_string(&log).unwrap();
    while !log().contains("\"ready\"") {
        assert!(start.elapsed() < crate::common::PATIENCE && child.try_wait().unwrap().is_none());
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert!(log().contains("gauntlet user passwd admin"), "{}", log());
    child.kill().unwrap();
    child.wait().unwrap();
}
