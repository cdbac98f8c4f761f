//! `gauntlet channel` from `init` to `rollback`, by a folder, by nginx, through kills and a full
//! disk.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use gauntlet_channel::generations::Generations;

use crate::common::channels::{Publisher, Subscriber, bad, gauntlet, good, rule};
use crate::common::{PATIENCE, port, program, random};

/// The version in force and its rule file.
fn in_force(data: &Path) -> (u64, String) {
    let generations = Generations::read(&data.join("channels/main"));
    let version = generations.current().unwrap();
    generations.check(version).unwrap();
    let rules = fs::read_to_string(generations.path(version).join("rules/today.cf")).unwrap();
    (version, rules)
}

#[test]
fn a_channel_is_made_published_followed_and_rolled_back() {
    let publisher = Publisher::new();
    let said = publisher.publish_rule("tomatoes", 1.5);
    assert!(said.contains("version 2: 1 files"), "{said}");
    good(&publisher.run("verify", &[]));
    publisher.publish_rule("potatoes", 1.5);
    let said = good(&publisher.run("diff", &["2", "3"]));
    assert!(said.contains("rules/today.cf") && said.contains("+1 -1 lines"), "{said}");
    let said = good(&publisher.run("show", &[]));
    assert!(said.contains("version    3") && said.contains("rules             1 files"), "{said}");

    let folder = tempfile::tempdir().unwrap();
    let node = Subscriber(folder.path());
    let said = node.subscribe("main", &publisher.url(), &publisher.root());
    assert!(said.contains("[[channel]]\nname = \"main\""), "{said}");
    let said = good(&node.run(&["pull", "main"]));
    assert!(said.contains("version 3 is in force"), "{said}");
    assert_eq!(in_force(folder.path()), (3, rule("potatoes", 1.5)));
    assert!(good(&node.run(&["pull"])).contains("nothing new"));

    publisher.publish_rule("turnips", 1.5);
    good(&node.run(&["pull"]));
    let said = good(&node.run(&["rollback", "main", "--reason", "hits ham"]));
    assert!(said.contains("back from 4 to version 3"), "{said}");
    assert!(good(&node.run(&["pull"])).contains("version 4 is there, and not wanted"));
    let said = good(&node.run(&["show"]));
    assert!(said.contains("rejected  4: hits ham"), "{said}");
    good(&node.run(&["pin", "main"]));
    publisher.publish_rule("leeks", 1.5);
    assert!(good(&node.run(&["pull"])).contains("not wanted"));
    good(&node.run(&["pin", "main", "--off"]));
    good(&node.run(&["pull"]));
    assert_eq!(in_force(folder.path()).0, 5);
}

#[test]
fn what_no_node_could_use_is_not_published() {
    let publisher = Publisher::new();
    let problems = [
        ("rules/today.cf", "body BROKEN /(unclosed/\n", "rules"),
        ("rules/today.cf", "body EVERYTHING /e/\nscore EVERYTHING 100\n", "ordinary message"),
        ("model/a.model", "no model", "model/a.model"),
        ("signatures/a.sigs", "none", "signatures/a.sigs"),
        ("urls/today.txt", "evil.example\n", "urls/phishing"),
        ("spamassassin/a.cf", "# nothing\n", "no rule"),
        ("somewhere/a", "x", "nothing reads it"),
    ];
    for (name, text, wanted) in problems {
        publisher.write(name, text);
        let said = bad(&publisher.try_to_publish());
        assert!(said.contains(wanted), "{name}: {said}");
        fs::remove_file(publisher.path("content").join(name)).unwrap();
    }
    let said = good(&publisher.run("show", &[]));
    assert!(said.contains("version    1"), "{said}");
}

#[test]
fn keys_are_rotated_and_those_of_the_root_stay_off_line() {
    let publisher = Publisher::new();
    publisher.publish_rule("tomatoes", 1.0);
    let folder = tempfile::tempdir().unwrap();
    let node = Subscriber(folder.path());
    node.subscribe("main", &publisher.url(), &publisher.root());
    good(&node.run(&["pull"]));
    let keys = publisher.path("keys");
    let run = |action: &[&str]| {
        publisher.run("keys", &[&["--keys", keys.to_str().unwrap()], action].concat())
    };
    for role in ["targets", "snapshot", "timestamp", "root"] {
        good(&run(&["rotate", role]));
    }
    good(&run(&["threshold", "root", "2"]));
    let said = good(&run(&["list"]));
    assert!(said.contains("root: 2 of 2 must sign"), "{said}");
    // The root's keys go to a safe.
    let safe = publisher.path("safe");
    fs::create_dir(&safe).unwrap();
    for name in ["root-1.pem", "root-2.pem"] {
        fs::rename(keys.join(name), safe.join(name)).unwrap();
    }
    publisher.publish_rule("potatoes", 1.0);
    good(&node.run(&["pull"]));
    assert_eq!(in_force(folder.path()).1, rule("potatoes", 1.0));
    let said = bad(&run(&["remove", "root", "zz"]));
    assert!(said.contains("names no key"), "{said}");
    let said = good(&run(&["renew"]));
    assert!(said.contains("too few keys"), "{said}");
    let channel = publisher.channel();
    let sign = ["keys", channel.to_str().unwrap(), "--keys", safe.to_str().unwrap()];
    let said = good(&gauntlet(&[&["channel"], &sign[..], &["sign"]].concat()));
    assert!(said.contains("is in force"), "{said}");
    good(&publisher.run("verify", &[]));
    good(&node.run(&["pull"]));
}

/// nginx that serves a folder.
struct Nginx(std::process::Child, String, tempfile::TempDir);

impl Nginx {
    fn start(root: &Path) -> Option<Self> {
        let program = program("nginx")?;
        let folder = tempfile::tempdir().unwrap();
        let (place, port) = (folder.path().display(), port::free_port(&["127.0.0.1"]));
        let config = format!(
            "daemon off; worker_processes 1; pid {place}/pid; error_log {place}/error.log;\n\
             events {{ }}\nhttp {{ access_log {place}/access.log; client_body_temp_path {place}/b;\n\
             proxy_temp_path {place}/p; fastcgi_temp_path {place}/f; uwsgi_temp_path {place}/u;\n\
             scgi_temp_path {place}/s;\nserver {{ listen 127.0.0.1:{port}; root {}; }} }}\n",
            root.display()
        );
        // Workers of nginx are another user where this one is root.
        let config = format!("user root;\n{config}");
        fs::write(folder.path().join("nginx.conf"), config).unwrap();
        let mut child = Command::new(program)
            .arg("-c")
            .arg(folder.path().join("nginx.conf"))
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let began = Instant::now();
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(began.elapsed() < PATIENCE, "nginx does not start");
            assert!(child.try_wait().unwrap().is_none(), "nginx ended");
            std::thread::sleep(Duration::from_millis(20));
        }
        Some(Nginx(child, format!("http://127.0.0.1:{port}"), folder))
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // SIGTERM, so that the master takes its workers along.
        let _ended = Command::new("kill").arg(self.0.id().to_string()).status();
        let _reaped = self.0.wait();
    }
}

#[test]
fn nginx_serves_a_channel_and_a_pull_without_news_is_one_small_request() {
    let publisher = Publisher::new();
    let list: String = (0..3_000).map(|n| format!("host{n}.example\n")).collect();
    publisher.write("urls/spam/list", &list);
    publisher.publish_rule("tomatoes", 1.0);
    let copy = publisher.path("copy");
    let Some(nginx) = Nginx::start(&copy) else { return };
    let mirror = |root: &[&str]| {
        let channel = publisher.channel();
        let arguments = ["channel", "mirror", channel.to_str().unwrap()];
        gauntlet(&[&arguments[..], &[copy.to_str().unwrap()], root].concat())
    };
    let root = publisher.root();
    good(&mirror(&["--root", root.to_str().unwrap()]));
    let folder = tempfile::tempdir().unwrap();
    let node = Subscriber(folder.path());
    node.subscribe("main", &nginx.1, &root);
    let said = good(&node.run(&["pull"]));
    assert!(said.contains("version 2 is in force"), "{said}");
    let said = good(&node.run(&["pull"]));
    assert!(said.contains("nothing new (1 requests, 0 bytes"), "{said}");
    publisher.write("urls/spam/list", list + "another.example\n");
    publisher.publish();
    good(&mirror(&[]));
    let said = good(&node.run(&["pull"]));
    assert!(said.contains("version 3 is in force") && said.contains("1 came as deltas"), "{said}");
    let log = fs::read_to_string(nginx.2.path().join("access.log")).unwrap();
    assert!(log.contains(" 304 "), "{log}");
}

/// A server that answers each connection with these bytes, and then a function goes on.
fn server(answer: String) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut head = [0; 4096];
            let _asked = stream.read(&mut head);
            let _gone = stream.write_all(answer.as_bytes());
        }
    });
    format!("http://{address}/main")
}

#[test]
fn servers_that_misbehave_change_nothing_and_are_told() {
    let publisher = Publisher::new();
    publisher.publish_rule("tomatoes", 1.0);
    let folder = tempfile::tempdir().unwrap();
    let node = Subscriber(folder.path());
    node.subscribe("main", &publisher.url(), &publisher.root());
    good(&node.run(&["pull"]));
    let before = in_force(folder.path());
    let endless = format!("HTTP/1.1 200 OK\r\n\r\n{}", " ".repeat(1 << 20));
    let cases = [
        ("HTTP/1.1 302 Found\r\nLocation: file:///etc/passwd\r\n\r\n".to_owned(), "redirection"),
        ("HTTP/1.1 302 Found\r\nLocation: /main/timestamp.json\r\n\r\n".to_owned(), "redirections"),
        ("HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n".to_owned(), "500"),
        ("HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n".to_owned(), "that of a channel?"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n{\"signed\"".to_owned(), "cut short"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}".to_owned(), "missing field `signed`"),
        (endless, "larger than 16384 bytes"),
        ("no HTTP at all\r\n\r\n".to_owned(), "HTTP"),
        (String::new(), "HTTP"),
    ];
    for (answer, wanted) in cases {
        node.subscribe("main", &server(answer), &publisher.root());
        let said = bad(&node.run(&["pull"]));
        assert!(said.contains(wanted), "{wanted}: {said}");
        assert_eq!(in_force(folder.path()), before);
    }
    let said = good(&node.run(&["show"]));
    assert!(said.contains("PROBLEM   9 times since"), "{said}");
    node.subscribe("main", &publisher.url(), &publisher.root());
    good(&node.run(&["pull"]));
    assert!(!good(&node.run(&["show"])).contains("PROBLEM"));
}

/// How often a pull is killed: `GAUNTLET_KILLS`, or some.
fn kills() -> u64 {
    let text = std::env::var("GAUNTLET_KILLS").unwrap_or_else(|_| "25".to_owned());
    text.parse().expect("GAUNTLET_KILLS is a number")
}

#[test]
fn kills_during_a_pull_leave_the_old_or_the_new_version_whole() {
    let publisher = Publisher::new();
    let folder = tempfile::tempdir().unwrap();
    let node = Subscriber(folder.path());
    let lines = |n: u64| (0..4_000).map(|l| format!("host{l}-{n}.example\n")).collect::<String>();
    publisher.write("urls/spam/list", lines(0));
    publisher.publish_rule("word0", 1.0);
    node.subscribe("main", &publisher.url(), &publisher.root());
    good(&node.run(&["pull"]));
    let (mut seed, mut whole) = (0x9e37_79b9_7f4a_7c15, [0u64; 2]);
    for n in 1..=kills() {
        publisher.write("urls/spam/list", lines(n));
        publisher.publish_rule(&format!("word{n}"), 1.0);
        let mut child = Command::new(env!("CARGO_BIN_EXE_gauntlet"))
            .args(["channel", "--data", folder.path().to_str().unwrap(), "pull"])
            .env_remove("GAUNTLET_CONFIG")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(random(&mut seed) % 2_000));
        let _it_may_have_ended = child.kill();
        child.wait().unwrap();
        let (version, rules) = in_force(folder.path());
        let last = n + 2;
        assert!((2..=last).contains(&version));
        // The rule and the list are of the same version.
        assert_eq!(rules, rule(&format!("word{}", version - 2), 1.0));
        let generations = Generations::read(&folder.path().join("channels/main"));
        let list = fs::read_to_string(generations.path(version).join("urls/spam/list")).unwrap();
        assert_eq!(list, lines(version - 2));
        whole[usize::from(version == last)] += 1;
    }
    good(&node.run(&["pull"]));
    assert_eq!(in_force(folder.path()).0, kills() + 2);
    eprintln!("{} kills left the old version, {} the new one", whole[0], whole[1]);
}

#[test]
fn rules_of_spamassassins_channels_are_taken_if_they_are_signed() {
    let (Some(gpg), Some(_)) = (program("gpg"), program("gpgv")) else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let text = |name: &str| path(name).to_str().unwrap().to_owned();
    fs::create_dir(path("home")).unwrap();
    let run_gpg = |arguments: &[&str]| {
        let mut command = Command::new(&gpg);
        command.arg("--homedir").arg(path("home")).args(["--batch", "--yes", "--passphrase", ""]);
        let out = command.args(arguments).output().unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    };
    run_gpg(&["--quick-gen-key", "updates@sa.example", "ed25519", "sign", "never"]);
    run_gpg(&["--output", &text("keys.gpg"), "--export"]);
    let file = fs::File::create(path("1.tar.gz")).unwrap();
    let packer = flate2::write::GzEncoder::new(file, flate2::Compression::fast());
    let mut archive = tar::Builder::new(packer);
    let files =
        [("10_a.cf", "body A /a/\n"), ("./20_b.cf", "body B /b/\n"), ("x.pre", "loadplugin X")];
    for (name, content) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        archive.append_data(&mut header, name, content.as_bytes()).unwrap();
    }
    archive.into_inner().unwrap().finish().unwrap();
    run_gpg(&["--output", &text("1.tar.gz.asc"), "--armor", "--detach-sign", &text("1.tar.gz")]);
    let import = |more: &[&str]| {
        let (archive, into) = (text("1.tar.gz"), text("out"));
        gauntlet(&[&["channel", "import", &archive, "--into", &into], more].concat())
    };
    assert!(bad(&import(&[])).contains("--keyring"));
    let said = good(&import(&["--keyring", &text("keys.gpg")]));
    assert!(said.contains("2 rule files with 22 bytes"), "{said}");
    assert_eq!(fs::read_to_string(path("out/spamassassin/20_b.cf")).unwrap(), "body B /b/\n");
    // As a folder of sa-update, and published.
    let said = good(&gauntlet(&[
        "channel",
        "import",
        &text("out/spamassassin"),
        "--into",
        &text("again"),
    ]));
    assert!(said.contains("2 rule files"), "{said}");
    // One byte changed: the old files stay.
    let mut bytes = fs::read(path("1.tar.gz")).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    fs::write(path("1.tar.gz"), &bytes).unwrap();
    let said = bad(&import(&["--keyring", &text("keys.gpg")]));
    assert!(said.contains("not signed by a key of the keyring"), "{said}");
    assert!(path("out/spamassassin/10_a.cf").is_file());
    // gpg leaves a process behind that keeps keys.
    let _ended =
        Command::new("gpgconf").arg("--homedir").arg(path("home")).args(["--kill", "all"]).status();
}

#[test]
fn a_disk_that_takes_nothing_changes_nothing_and_is_told() {
    let publisher = Publisher::new();
    publisher.publish_rule("tomatoes", 1.0);
    let folder = tempfile::tempdir().unwrap();
    let node = Subscriber(folder.path());
    node.subscribe("main", &publisher.url(), &publisher.root());
    good(&node.run(&["pull"]));
    let list: String = (0..60_000).map(|n| format!("host{n}.example\n")).collect();
    publisher.write("urls/spam/list", list);
    publisher.publish_rule("potatoes", 1.0);
    let before = in_force(folder.path());
    // No file may be larger than 100 KB: writes fail as on a full disk.
    let limited = "trap '' XFSZ; ulimit -f 200; exec \"$0\" \"$@\"";
    let out = Command::new("sh")
        .args(["-c", limited, env!("CARGO_BIN_EXE_gauntlet"), "channel", "--data"])
        .arg(folder.path())
        .arg("pull")
        .env_remove("GAUNTLET_CONFIG")
        .output()
        .unwrap();
    let said = bad(&out);
    assert!(said.contains("urls/spam/list: File too large"), "{said}");
    assert_eq!(in_force(folder.path()), before);
    let left = fs::read_dir(folder.path().join("channels/main/generations")).unwrap().count();
    assert_eq!(left, 1, "what was begun is gone");
    good(&node.run(&["pull"]));
    assert_eq!(in_force(folder.path()).0, 3);
}
