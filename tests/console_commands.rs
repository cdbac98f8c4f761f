//! What the console does, on the command line: find messages, held mail and its keys, senders,
//! reports.

use std::process::Output;

use crate::common::Node;
use gauntlet_engine::site_model::good_mail::SampleKind;

fn gauntlet(node: &Node, args: &[&str]) -> Output {
    std::process::Command::new(env!("CARGO_BIN_EXE_gauntlet"))
        .args(args)
        .arg("--config")
        .arg(node.folder.path().join("gauntlet.toml"))
        .output()
        .expect("the program starts")
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Sends a message by SMTP; the policy holds it.
fn send(node: &Node, subject: &str, to: &str) {
    use std::io::{BufRead, BufReader, Write};
    let stream = std::net::TcpStream::connect(node.smtp).expect("a session");
    let mut replies = BufReader::new(stream.try_clone().expect("a second handle"));
    let mut talk = |line: &str, wanted: char| {
        (&stream).write_all(line.as_bytes()).expect("sent");
        loop {
            let mut reply = String::new();
            replies.read_line(&mut reply).expect("a reply");
            if reply.as_bytes().get(3) != Some(&b'-') {
                assert!(reply.starts_with(wanted), "{line}: {reply}");
                return;
            }
        }
    };
    talk("", '2');
    talk("EHLO client.example\r\n", '2');
    talk("MAIL FROM:<eve@shop.example>\r\n", '2');
    talk(&format!("RCPT TO:<{to}>\r\n"), '2');
    talk("DATA\r\n", '3');
    talk(
        &format!(
            "From: Eve <eve@shop.example>\r\nTo: {to}\r\nSubject: {subject}\r\n\r\nHello\r\n.\r\n"
        ),
        '2',
    );
    talk("QUIT\r\n", '2');
}

/// A message that is released and not learned is a sample of good mail all the same.
fn wait_for_sample(node: &Node) {
    node.wait_until("it counts", || {
        let found = gauntlet_learning::good_mail::read(&node.data()).unwrap_or_default();
        found.len() == 1 && found[0].kind == SampleKind::Released
    });
}

fn no_release_to_what_is_no_address(node: &Node, id: &str) {
    for odd in ["", "not an address", "x@example.net>\nRCPT TO:<evil@example.net"] {
        let refused = gauntlet(node, &["quarantine", "release", id, "--to", odd]);
        let why = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success() && why.contains("no address"), "{why}");
    }
}

#[test]
fn held_mail_is_found_read_released_and_its_key_changed() {
    let folder = tempfile::tempdir().expect("a folder");
    let policy = folder.path().join("policy.toml");
    std::fs::write(&policy, "[[rule]]\nname = \"hold all\"\ndo = { quarantine = \"suspect\" }\n")
        .expect("a policy");
    let mut node = Node::start(&format!(
        "[policy]\npath = {policy:?}\n[quarantine]\nencrypt = true\n[report]\nto = [\"boss@example.org\"]\n"
    ));
    send(&node, "Invoice overdue", "ann@example.org");
    send(&node, "Lunch", "bob@example.org");
    let found = || text(&gauntlet(&node, &["messages", "--subject", "invoice", "--json"]));
    let deadline = std::time::Instant::now() + crate::common::PATIENCE;
    let line = loop {
        let output = gauntlet(&node, &["messages", "--subject", "invoice"]);
        if output.status.success() {
            break found();
        }
        assert!(std::time::Instant::now() < deadline, "not in the log: {output:?}");
        std::thread::sleep(std::time::Duration::from_millis(100));
    };
    assert!(line.contains("ann@example.org") && !line.contains("bob@example.org"), "{line}");
    assert_eq!(
        gauntlet(&node, &["messages", "--sender", "@nowhere.example"]).status.code(),
        Some(1)
    );

    // What is answered with 250 is held a moment later.
    let listed = loop {
        let listed = text(&gauntlet(&node, &["quarantine", "list", "--json"]));
        if listed.lines().count() == 2 {
            break listed;
        }
        assert!(std::time::Instant::now() < deadline, "{listed}");
        std::thread::sleep(std::time::Duration::from_millis(100));
    };
    let ids: Vec<String> = listed
        .lines()
        .map(|l| serde_json::from_str::<serde_json::Value>(l).expect("JSON"))
        .map(|held| held["item"]["id"].as_str().expect("an id").to_owned())
        .collect();
    let body = text(&gauntlet(&node, &["quarantine", "show", &ids[0]]));
    assert!(body.contains("Subject: Lunch"), "{body}");
    // On disk it is sealed.
    let bodies = node.data().join("quarantine/packs");
    let grep = std::process::Command::new("grep").arg("-rl").arg("Lunch").arg(&bodies).output();
    assert_eq!(grep.expect("grep").stdout, b"", "a body is in clear");
    let keys = std::fs::read_to_string(node.data().join("quarantine.keys")).expect("keys");
    let rotated = text(&gauntlet(&node, &["quarantine", "rotate-key"]));
    assert!(rotated.contains("2 messages sealed anew, 1 old keys forgotten"), "{rotated}");
    let after = std::fs::read_to_string(node.data().join("quarantine.keys")).expect("keys");
    assert_ne!(keys, after);
    assert!(text(&gauntlet(&node, &["quarantine", "show", &ids[0]])).contains("Lunch"));

    let verified = text(&gauntlet(&node, &["quarantine", "verify"]));
    assert_eq!(verified, "2 held messages, 0 cannot be read\n");
    no_release_to_what_is_no_address(&node, &ids[0]);
    let released = text(&gauntlet(&node, &["quarantine", "release", &ids[0]]));
    assert_eq!(released, "released to 1 recipient\n");
    wait_for_sample(&node);
    let again = gauntlet(&node, &["quarantine", "release", &ids[0]]);
    let why = String::from_utf8_lossy(&again.stderr).into_owned();
    assert!(!again.status.success() && why.contains("it is released"), "{why}");
    assert_eq!(text(&gauntlet(&node, &["quarantine", "delete", &ids[1]])), "deleted\n");
    assert!(!gauntlet(&node, &["quarantine", "delete", "none"]).status.success());

    lists_and_reports(&node, folder.path());
    status_and_users(&node);
    node.stop();
    without_a_node(&node, &ids[0]);
}

/// What needs no node works without one; what does says so.
fn without_a_node(node: &Node, id: &str) {
    assert!(text(&gauntlet(node, &["rules", "usage"])).lines().count() > 0);
    let life = text(&gauntlet(node, &["trace", id]));
    assert!(life.contains("  received ") && life.contains(" released "), "{life}");
    for args in [&["status"][..], &["rules", "usage", "--dead"]] {
        let output = gauntlet(node, args);
        let why = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && why.contains("no node answers"), "{why}");
    }
}

/// What the console answers to `GET /metrics`.
fn metrics_page(node: &Node) -> String {
    use std::io::{Read, Write};
    let mut stream = std::net::TcpStream::connect(node.console).expect("the console");
    stream.set_read_timeout(Some(crate::common::PATIENCE)).expect("a timeout");
    let host = node.console;
    write!(stream, "GET /metrics HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).expect("a page");
    page
}

/// Names of metrics, in order.
fn names(text: &str) -> Vec<&str> {
    let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    types.filter_map(|line| line.split(' ').next()).collect()
}

fn status_and_users(node: &Node) {
    let status = text(&gauntlet(node, &["status"]));
    for shown in [
        "gw.test, version",
        "takes mail   yes",
        "ruleset",
        "queue        ",
        "quarantine   ",
        "disk ",
    ] {
        assert!(status.contains(shown), "{shown}: {status}");
    }
    let json = text(&gauntlet(node, &["status", "--json"]));
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert!(json["node"]["problems"].as_array().is_some_and(Vec::is_empty), "{json}");
    let (said, served) = (text(&gauntlet(node, &["status", "--metrics"])), metrics_page(node));
    assert_eq!(names(&said), names(&served));
    for name in ["queue_messages", "quarantine_items", "sign_in_attempts_refused_total"] {
        assert!(names(&said).contains(&format!("gauntlet_{name}").as_str()), "{name}: {said}");
    }

    let used = text(&gauntlet(node, &["rules", "usage", "--days", "1", "--json"]));
    let used: Vec<serde_json::Value> =
        used.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert!(used[0]["hits"].as_u64() > Some(0), "{:?}", used[0]);
    let dead = text(&gauntlet(node, &["rules", "usage", "--days", "1", "--dead"]));
    assert!(dead.lines().count() > 5 && dead.lines().all(|line| line.contains(" 0 ")), "{dead}");

    let query = "class=spam&sender=@shop.example";
    text(&gauntlet(node, &["searches", "keep", "admin", "our shop", query, "--shared"]));
    let kept = text(&gauntlet(node, &["searches", "list", "admin"]));
    assert_eq!(kept, format!("our shop, shared: {query}\n"));
    assert!(!gauntlet(node, &["searches", "list", "nobody"]).status.success());
    text(&gauntlet(node, &["searches", "forget", "admin", "our shop"]));
    assert!(!gauntlet(node, &["searches", "forget", "admin", "our shop"]).status.success());

    text(&gauntlet(node, &["own", "ann@example.org", "strictness", "lax"]));
    text(&gauntlet(node, &["own", "ann@example.org", "allow", "news@shop.example"]));
    text(&gauntlet(node, &["own", "ann@example.org", "block", "pills.example"]));
    text(&gauntlet(node, &["own", "ann@example.org", "remove", "pills.example"]));
    let own = text(&gauntlet(node, &["own", "ann@example.org", "show"]));
    assert_eq!(own, "strictness lax\nallow news@shop.example\n");
    let refused = gauntlet(node, &["own", "ann@example.org", "strictness", "none"]);
    assert!(
        String::from_utf8_lossy(&refused.stderr).contains("strict, normal, lax"),
        "{refused:?}"
    );

    let activity = text(&gauntlet(node, &["activity", "--limit", "50"]));
    assert!(activity.contains("command line") && activity.contains("save search"), "{activity}");
}

/// One command for several entries; one that is on no list does not keep the others there.
fn several_senders(node: &Node) {
    let refused = gauntlet(node, &["senders", "allow", "fine.example", "not a sender"]);
    assert!(!refused.status.success(), "{refused:?}");
    text(&gauntlet(node, &["senders", "block", "a.example", "192.0.2.0/24"]));
    let listed = || text(&gauntlet(node, &["senders", "list"]));
    assert!(!listed().contains("fine.example"), "all or none: {}", listed());
    text(&gauntlet(node, &["senders", "remove", "shop.example", "192.0.2.0/24"]));
    let some = gauntlet(node, &["senders", "remove", "nobody.example", "a.example"]);
    let why = String::from_utf8_lossy(&some.stderr).into_owned();
    assert!(!some.status.success() && why.contains("on no list: nobody.example;"), "{why}");
    assert_eq!(listed().lines().count(), 1, "{}", listed());
}

/// Nothing but words can be looked up: what has none is refused and does not find all.
fn subjects_have_words(node: &Node) {
    let refused = gauntlet(node, &["messages", "--subject", "*"]);
    let why = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(2) && why.contains("there is no word in it"), "{why}");
    for name in ["x@", "ann"] {
        let refused = gauntlet(node, &["messages", "--sender", name]);
        let why = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success() && why.contains("has no domain"), "{why}");
    }
    let begun = text(&gauntlet(node, &["messages", "--subject", "inv* overdue"]));
    assert_eq!(begun.lines().count(), 1, "{begun}");
}

fn lists_and_reports(node: &Node, folder: &std::path::Path) {
    subjects_have_words(node);
    for args in [&["senders", "block", "shop.example"][..], &["senders", "allow", "good.example"]] {
        text(&gauntlet(node, args));
    }
    let senders = text(&gauntlet(node, &["senders", "list"]));
    assert!(
        senders.contains("block  shop.example") && senders.contains("allow  good"),
        "{senders}"
    );
    assert!(!gauntlet(node, &["senders", "block", "not a sender"]).status.success());
    for strangers in ["@com", "@example", "@", "", "0.0.0.0/0"] {
        let refused = gauntlet(node, &["senders", "allow", strangers]);
        assert!(!refused.status.success(), "{strangers}: {refused:?}");
    }
    several_senders(node);

    let report = text(&gauntlet(node, &["report", "--days", "1", "--json"]));
    let report: serde_json::Value = serde_json::from_str(&report).expect("JSON");
    assert_eq!(report["domains"][0]["domain"], "example.org", "{report}");
    let pdf = folder.join("report.pdf");
    text(&gauntlet(node, &["report", "--pdf", pdf.to_str().expect("a path")]));
    assert!(std::fs::read(&pdf).expect("a PDF").starts_with(b"%PDF-"));
    assert_eq!(text(&gauntlet(node, &["report", "--send"])), "sent to boss@example.org\n");
}
