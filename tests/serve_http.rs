//! The HTTP services: rspamc and our driver by rspamd's protocol, anybody by our own.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Output};

use crate::common::{Node, PATIENCE, drive, message, program};
use serde_json::Value;

const GTUBE: &str = "From: a@example.org\r\nSubject: x\r\nMessage-ID: <1@example.org>\r\n\r\n\
                     XJS*C4JDBQADN1.NSBN3*2IDNEN*GTUBE-STANDARD-ANTI-UBE-TEST-EMAIL*C.34X\r\n";

fn node(protocol: &str, keys: &str) -> Node {
    Node::start(&format!(
        "[facts]\nenabled = false\n[[service]]\nprotocol = \"{protocol}\"\n\
         address = \"127.0.0.1:0\"\n{keys}\n"
    ))
}

/// Status and body of an answer.
fn ask(place: &str, what: &str, fields: &str, body: &[u8]) -> (u16, Vec<u8>) {
    let mut stream = TcpStream::connect(place).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let length = body.len();
    let head = format!(
        "{what} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {length}\r\n{fields}\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    // A refusal may come before the body was read.
    let _ = stream.write_all(body);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let end = answer.windows(4).position(|w| w == b"\r\n\r\n").expect("a head") + 4;
    let status = String::from_utf8_lossy(&answer[9..12]).parse().unwrap();
    (status, answer.split_off(end))
}

fn json(answer: &(u16, Vec<u8>)) -> Value {
    serde_json::from_slice(&answer.1)
        .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&answer.1)))
}

fn rspamc(program: &Path, node: &Node, args: &[&str], file: Option<&Path>) -> Output {
    let mut command = Command::new(program);
    command.args(["-h", node.place("rspamd")]).args(args).args(file);
    command.output().unwrap()
}

#[test]
fn rspamc_is_answered() {
    let Some(program) = program("rspamc") else { return };
    let mut node = node("rspamd", "learn = true\ntoken = \"secret\"");
    let folder = tempfile::tempdir().unwrap();
    let (spam, ham) = (folder.path().join("spam.eml"), folder.path().join("ham.eml"));
    std::fs::write(&spam, GTUBE).unwrap();
    std::fs::write(&ham, message("ham", 30_000)).unwrap();
    let text = |output: &Output| {
        String::from_utf8_lossy(&output.stdout).into_owned()
            + &String::from_utf8_lossy(&output.stderr)
    };
    let envelope =
        ["-i", "192.0.2.1", "-F", "ann@example.org", "-r", "bob@example.net", "--helo", "x"];
    let said = rspamc(&program, &node, &envelope, Some(&spam));
    assert!(text(&said).contains("Symbol: GTUBE"), "{}", text(&said));
    assert!(text(&said).contains("Action: add header"), "{}", text(&said));
    let said = rspamc(&program, &node, &["-z"], Some(&ham));
    assert!(text(&said).contains("Action: no action"), "compressed: {}", text(&said));
    let said = rspamc(&program, &node, &["learn_spam"], Some(&spam));
    assert!(!text(&said).contains("success = true"), "no password: {}", text(&said));
    let said = rspamc(&program, &node, &["-P", "secret", "learn_spam"], Some(&spam));
    assert!(text(&said).contains("success = true"), "{}", text(&said));
    let said = rspamc(&program, &node, &["-P", "secret", "learn_ham"], Some(&ham));
    assert!(text(&said).contains("success = true"), "{}", text(&said));
    let said = rspamc(&program, &node, &["-P", "secret", "stat"], None);
    assert!(text(&said).contains("Messages scanned: 2"), "{}", text(&said));
    node.stop();
    let corrections = gauntlet_learning::Corrections::read(&node.data()).unwrap();
    assert_eq!(corrections.len(), 2, "both were learned");
}

#[test]
fn the_answer_has_rspamds_shape() {
    let node = node("rspamd", "");
    let place = node.place("rspamd");
    assert_eq!(ask(place, "GET /ping", "", b""), (200, b"pong\r\n".to_vec()));
    let fields = "From: ann@example.org\r\nRcpt: bob@example.net\r\nIP: 192.0.2.1\r\n\
                  Helo: x\r\nQueue-Id: Q1\r\nPass: all\r\nSettings: {}\r\n";
    let value = json(&ask(place, "POST /checkv2", fields, &message("a", 100)));
    assert_eq!((&value["action"], &value["queue-id"]), (&"no action".into(), &"Q1".into()));
    assert_eq!(value["message-id"], "a@example.org");
    assert_eq!(value["milter"]["add_headers"]["X-Gauntlet-Class"]["value"], "ham");
    assert!(value["messages"]["settings"].as_str().unwrap().contains("ignored"));
    assert_eq!(value["gauntlet"]["dispositions"][0]["recipient"], "bob@example.net");
    let value = json(&ask(place, "POST /symbols", "", GTUBE.as_bytes()));
    assert_eq!(value["action"], "add header");
    assert!(value["symbols"]["GTUBE"]["options"][0].as_str().unwrap().contains("GTUBE"));
    // What control panels ask.
    let value = json(&ask(place, "GET /actions", "", b""));
    assert_eq!((&value[1]["action"], &value[1]["value"]), (&"add header".into(), &6.0.into()));
    assert_eq!(json(&ask(place, "GET /stat", "", b""))["actions"]["greylist"], 0);
    for (what, fields, body, status) in [
        ("POST /nothing", "", &b"x"[..], 404),
        ("POST /checkv2", "", b"", 400),
        ("POST /checkv2", "IP: me\r\n", b"x", 400),
        ("POST /checkv2", "Content-Encoding: gzip\r\n", b"x", 415),
        ("POST /checkv2", "Compression: zstd\r\n", b"x", 400),
        ("POST /learnspam", "", b"x", 403),
    ] {
        let answer = ask(place, what, fields, body);
        assert_eq!(answer.0, status, "{what} {fields}");
        assert!(json(&answer)["error"].is_string() && json(&answer)["remediation"].is_string());
    }
    let giant = ask(place, "POST /checkv2", "", &vec![b'x'; 53 << 20]);
    assert_eq!(giant.0, 413);
}

#[test]
fn our_driver_and_our_service_understand_each_other() {
    let node = node("rspamd", "");
    drive("rspamd", node.place("rspamd"), GTUBE);
}

#[test]
fn our_own_interface_scans_and_learns() {
    let node = node("http", "token = \"secret\"\nlearn = true");
    let place = node.place("http");
    let key = "Authorization: Bearer secret\r\n";
    let what = "POST /v1/scan?from=ann%40example.org&rcpt=bob@example.net&ip=192.0.2.1";
    let value = json(&ask(place, what, key, GTUBE.as_bytes()));
    assert_eq!((&value["class"], &value["explicit"]), (&"spam".into(), &true.into()));
    assert_eq!(value["dispositions"][0]["action"], "quarantine");
    // The fields of `gauntlet scan --json`, and more.
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("x.eml");
    std::fs::write(&file, GTUBE).unwrap();
    let mut scan = Command::new(env!("CARGO_BIN_EXE_gauntlet"));
    let scan = scan.args(["scan", "--json"]).arg(&file).output().unwrap();
    let scanned: Value = serde_json::from_slice(&scan.stdout).unwrap();
    let value = json(&ask(place, "POST /v1/scan", key, GTUBE.as_bytes()));
    for (name, scanned) in scanned.as_object().unwrap() {
        let differs = ["file", "cost_us"].contains(&name.as_str());
        assert!(differs || value[name] == *scanned, "{name}: {} {scanned}", value[name]);
        assert!(!value[name].is_null() || scanned.is_null(), "{name}");
    }
    let learned = ask(place, "POST /v1/learn?class=spam", key, GTUBE.as_bytes());
    assert_eq!(json(&learned)["learned"], true);
    for (what, fields, body, status) in [
        ("POST /v1/scan", "", &b"x"[..], 401),
        ("POST /v1/scan", "Authorization: Bearer wrong\r\n", b"x", 401),
        ("GET /v1/scan", key, b"", 405),
        ("POST /v2", key, b"x", 404),
        ("POST /v1/scan", key, b"", 400),
        ("POST /v1/scan?ip=x", key, b"x", 400),
        ("POST /v1/learn?class=x", key, b"x", 400),
        ("POST /v1/scan", "Authorization: Bearer secret\r\nContent-Type: text/html\r\n", b"x", 415),
    ] {
        let answer = ask(place, what, fields, body);
        assert_eq!(answer.0, status, "{what} {fields}");
        assert!(json(&answer)["error"].is_string() && json(&answer)["remediation"].is_string());
    }
}

#[test]
fn an_address_that_others_reach_needs_a_token() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("gauntlet.toml");
    let data = folder.path().join("data");
    let text = format!(
        "[node]\ndata = {data:?}\n[[listener]]\naddress = \"127.0.0.1:0\"\n\
         [console]\naddress = \"127.0.0.1:0\"\n\
         [[service]]\nprotocol = \"http\"\naddress = \"0.0.0.0:0\"\n"
    );
    std::fs::write(&config, text).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_gauntlet"))
        .args(["serve", "--config"])
        .arg(&config)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("set service.token"), "{said}");
}
