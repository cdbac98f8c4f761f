//! `gauntlet channel` from `init` to `rollback`, by a folder, by nginx, through kills and a full
//! disk.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use gauntlet_channel::generations::Generations;

use crate::common::channels::{Nginx, Publisher, Subscriber, bad, gauntlet, good, rule};
use crate::common::random;

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
fn a_version_that_nobody_has_seen_is_neither_pinned_nor_promoted() {
    let publisher = Publisher::new();
    let folder = tempfile::tempdir().unwrap();
    let node = Subscriber(folder.path());
    node.subscribe("main", &publisher.url(), &publisher.root());
    let said = bad(&node.run(&["promote", "main", "2"]));
    assert!(said.contains("no version is here yet"), "{said}");
    for word in ["tomatoes", "potatoes"] {
        publisher.publish_rule(word, 1.5);
        good(&node.run(&["pull"]));
    }
    for order in ["pin", "promote"] {
        let said = bad(&node.run(&[order, "main", "99"]));
        assert!(said.contains("version 99 is neither kept here"), "{said}");
        assert!(said.contains("there are: 2, 3"), "{said}");
    }
    // Not "99" alone, which the name of a temporary folder may have.
    let said = good(&node.run(&["show"]));
    assert!(!said.contains(" 99"), "{said}");
    // What keeps a version away is named by whoever asks for it.
    good(&node.run(&["pin", "main", "2"]));
    let said = good(&node.run(&["pull"]));
    assert!(said.contains("version 3 is there, and not wanted"), "{said}");
    assert!(said.contains("pinned to version 2; `gauntlet channel pin main --off`"), "{said}");
    good(&node.run(&["pin", "main", "--off"]));
    good(&node.run(&["reject", "main", "3", "--reason", "hits ham"]));
    let said = good(&node.run(&["pull"]));
    assert!(said.contains("rejected (hits ham); `gauntlet channel promote main 3`"), "{said}");
    good(&node.run(&["promote", "main", "3"]));
    assert!(good(&node.run(&["show"])).contains("approved  3"));
    assert!(good(&node.run(&["pull"])).contains("version 3 is in force"));
    assert!(!good(&node.run(&["show"])).contains("approved"));
}

#[test]
fn slips_of_a_publisher_are_refused_before_anything_is_written() {
    let publisher = Publisher::new();
    // There is a channel: no keys are made for it.
    let fresh = publisher.path("fresh");
    let said = bad(&publisher.run("init", &["--keys", fresh.to_str().unwrap()]));
    assert!(said.contains("there is a channel already"), "{said}");
    assert!(!fresh.exists());
    // Nobody could sign.
    fs::create_dir(&fresh).unwrap();
    for action in [&["renew"][..], &["threshold", "root", "1"], &["sign"]] {
        let arguments = [&["--keys", fresh.to_str().unwrap()], action].concat();
        let said = bad(&publisher.run("keys", &arguments));
        assert!(said.contains("no key of th"), "{action:?}: {said}");
    }
    assert!(!publisher.channel().join("2.root.json.waiting").exists());
    // What is no root is named.
    let other = publisher.path("n.toml");
    fs::write(&other, "name = \"x\"\n").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["subscribe", "main", &publisher.url(), "--root", other.to_str().unwrap()];
    let said = bad(&Subscriber(folder.path()).run(&arguments));
    assert!(said.contains("n.toml is no root of a channel"), "{said}");
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
