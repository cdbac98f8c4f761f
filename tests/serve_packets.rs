//! A node that inspects packets beside mail: alerts in its log and console, counters, reloads.

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::path::Path;

use gauntlet_store::AlertLog;
use gauntlet_store::alert_log::{AlertQuery, AlertRecord};

use crate::common::{Node, Smtp, http_get};

/// The rule that is there first, and the one that takes its place.
const RULES: [&str; 2] = [
    "alert tcp any any -> any any (msg:\"first\"; flow:to_server; content:\"word-81729\"; sid:1;)\n",
    "alert tcp any any -> any any (msg:\"second\"; flow:to_server; content:\"word-81730\"; sid:2;)\n",
];

fn is_root() -> bool {
    let me = std::fs::read_to_string("/proc/self/status").unwrap();
    let is = me.lines().any(|line| line.starts_with("Uid:\t0\t"));
    if !is {
        assert!(std::env::var_os("CI").is_none(), "this test needs root");
        eprintln!("skipped: this test needs root");
    }
    is
}

/// Alerts of the log, with this text in the title.
fn alerts(node: &Node, text: &str) -> Vec<AlertRecord> {
    let query = AlertQuery { text: text.to_owned(), ..AlertQuery::default() };
    let page = AlertLog::read(&node.data().join("alerts"), &query).unwrap();
    page.alerts.into_iter().map(|row| row.record).collect()
}

/// Says a word over the loopback interface.
fn say(word: &str) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (server, _) = listener.accept().unwrap();
    client.write_all(format!("this is {word}\r\n").as_bytes()).unwrap();
    drop((client, server));
}

fn write_rule(file: &Path, number: usize) {
    std::fs::write(file, RULES[number]).unwrap();
}

#[test]
fn a_node_keeps_alerts_counts_packets_and_reads_rules_anew() {
    if !is_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let rules = folder.path().join("a.rules");
    write_rule(&rules, 0);
    let config = format!(
        "[facts]\nenabled = false\n[ips]\ninterface = \"lo\"\nrules = [{rules:?}]\n\
         scan = [\"mail\"]\n"
    );
    let mut node = Node::start(&config);
    let up = "gauntlet_ips_up 1";
    node.wait_until("packets are inspected", || http_get(node.console, "/metrics").contains(up));
    node.wait_until("the first rule alerts", || {
        say("word-81729");
        !alerts(&node, "first").is_empty()
    });
    let alert = alerts(&node, "first").remove(0);
    assert_eq!((alert.rule.as_str(), alert.action.as_str()), ("1:1:0", "allowed"));
    let record: serde_json::Value = serde_json::from_str(&alert.record).unwrap();
    assert_eq!(record["alert"]["rule"], RULES[0].trim());
    let has_evidence = record["payload"].is_string() && record["packet"].is_string();
    assert!(has_evidence, "{record}");

    // Mail on its way to this very node.
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("samples/spam-advance-fee.eml");
    let raw = crate::common::dated(&std::fs::read(sample).unwrap());
    // Others use this interface, too: packets may be lost, and with them a message.
    let spam = || alerts(&node, "bob@").into_iter().find(|found| found.category == "spam");
    node.wait_until("the message is found on the wire", || {
        let mut client = Smtp::connect(node.smtp).unwrap();
        client.send("ann@example.org", &["bob@example.net"], &raw).unwrap();
        spam().is_some()
    });
    let found = spam().unwrap();
    assert_eq!((found.kind.as_str(), found.protocol.as_str()), ("mail", "smtp"));
    assert_eq!(found.title, "<ann@example.org> → bob@example.net");

    write_rule(&rules, 1);
    node.signal("-HUP");
    node.wait_until("the second rule alerts", || {
        say("word-81730");
        !alerts(&node, "second").is_empty()
    });
    let count = alerts(&node, "first").len();
    say("word-81729");
    node.wait_until("counters are told", || node.metric("gauntlet_ips_packets_total") > 0);
    assert_eq!(alerts(&node, "first").len(), count, "the first rule is gone");
    node.stop();
    assert!(node.log().contains("packets are not inspected any more"), "{}", node.log());
}

#[test]
fn a_node_decides_by_its_packet_policy() {
    if !is_root() {
        return;
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let config = format!(
        "[facts]\nenabled = false\n[ips]\ninterface = \"lo\"\n[[ips.rule]]\nname = \"odd port\"\n\
         service = \"tcp/{port}\"\ndo = \"drop\"\n[[ips.rule]]\nname = \"rest\"\ndo = \"allow\"\n"
    );
    let mut node = Node::start(&config);
    node.wait_until("the policy refuses", || {
        drop(TcpStream::connect(("127.0.0.1", port)).unwrap());
        !alerts(&node, "odd port").is_empty()
    });
    let alert = alerts(&node, "odd port").remove(0);
    // It only listens.
    assert_eq!((alert.kind.as_str(), alert.action.as_str()), ("policy", "allowed"));
    assert_eq!(alert.title, "packet policy odd port");
    let counter = "gauntlet_ips_policy_decisions_total{rule=\"odd port\",action=\"drop\"}";
    node.wait_until("counters", || http_get(node.console, "/metrics").contains(counter));
    node.stop();
}

#[test]
fn settings_that_inspect_nothing_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("gauntlet.toml");
    for (settings, said) in [
        ("interface = \"lo\"", "ips.rules"),
        ("interface = \"lo\"\nscan = [\"post\"]", "ips.scan"),
        ("queues = \"9-2\"\nscan = [\"mail\"]", "ips.queues"),
        ("interface = \"lo\"\nscan = [\"mail\"]\nnothing = 1", "nothing"),
        ("[[ips.rule]]\nname = \"a\"\ndo = \"drop\"\nto = \"x\"", "\"a\": to"),
        ("interface = \"lo\"\nscan = [\"mail\"]\nnft_set = \"inet a b\"", "ips.nft_set"),
    ] {
        std::fs::write(&file, format!("[ips]\n{settings}\n")).unwrap();
        let out = std::process::Command::new(env!("CARGO_BIN_EXE_gauntlet"))
            .args(["config", "check", "--config"])
            .arg(&file)
            .output()
            .unwrap();
        let error = String::from_utf8_lossy(&out.stderr);
        assert!(!out.status.success() && error.contains(said), "{settings}: {error}");
    }
}
