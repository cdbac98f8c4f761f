//! Services: spamc and our own driver have mail judged by a node that does not deliver it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::common::{Node, drive, files_below, message, program};

const GTUBE: &str = "From: a@example.org\r\nSubject: x\r\n\r\n\
                     XJS*C4JDBQADN1.NSBN3*2IDNEN*GTUBE-STANDARD-ANTI-UBE-TEST-EMAIL*C.34X\r\n";

/// A node with a service for spamc on a free port. It asks the network nothing, as `scan` does.
fn node() -> (Node, SocketAddr) {
    let node = Node::start(
        "[facts]\nenabled = false\n\
         [[service]]\nprotocol = \"spamd\"\naddress = \"127.0.0.1:0\"\n",
    );
    let address = node.place("spamd").parse().unwrap();
    (node, address)
}

fn spamc(spamc: &Path, address: SocketAddr, args: &[&str], input: &[u8]) -> Output {
    let mut child = Command::new(spamc)
        .args(["-d", "127.0.0.1", "-p", &address.port().to_string(), "-F", "/dev/null"])
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // spamc -K reads nothing.
    let _ = stdin.write_all(input);
    drop(stdin);
    child.wait_with_output().unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn spamc_gets_every_kind_of_answer() {
    let Some(program) = program("spamc") else { return };
    let (node, address) = node();
    let ham = message("ham", 2_000);
    let check = spamc(&program, address, &["-c"], GTUBE.as_bytes());
    assert_eq!(check.status.code(), Some(1), "spam: {}", text(&check));
    let check = spamc(&program, address, &["-c"], &ham);
    assert_eq!(check.status.code(), Some(0), "ham: {}", text(&check));
    assert!(text(&check).trim_end().ends_with("/6.0"), "{}", text(&check));
    assert_eq!(spamc(&program, address, &["-K"], b"").status.code(), Some(0), "ping");
    let symbols = spamc(&program, address, &["-y"], GTUBE.as_bytes());
    assert!(text(&symbols).contains("GTUBE"), "{}", text(&symbols));
    let report = spamc(&program, address, &["-R"], GTUBE.as_bytes());
    assert!(text(&report).contains("pts rule name"), "{}", text(&report));
    let whole = spamc(&program, address, &[], GTUBE.as_bytes());
    assert!(text(&whole).contains("X-Spam-Flag: YES\r\n"), "{}", text(&whole));
    assert!(text(&whole).ends_with("EMAIL*C.34X\r\n"), "{}", text(&whole));
    let headers = spamc(&program, address, &["--headers"], &ham);
    assert!(text(&headers).contains("X-Spam-Status: No"), "{}", text(&headers));
    let tell = spamc(&program, address, &["-L", "spam"], GTUBE.as_bytes());
    assert_ne!(tell.status.code(), Some(5), "nothing was learned");
    assert_eq!(node.maildir().len(), 0, "nothing is delivered");
}

#[test]
fn a_message_gets_the_verdict_that_scan_gives() {
    let Some(program) = program("spamc") else { return };
    let (_node, address) = node();
    let samples = files_below(Path::new("samples"));
    let messages: Vec<_> =
        samples.iter().filter(|f| f.extension().is_some_and(|e| e == "eml")).collect();
    let output = Command::new(env!("CARGO_BIN_EXE_gauntlet"))
        .args(["scan", "--json"])
        .args(&messages)
        .output()
        .unwrap();
    let mut seen = 0;
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let scanned: serde_json::Value = serde_json::from_str(line).unwrap();
        let file = scanned["file"].as_str().unwrap();
        let hits = scanned["hits"].as_array().unwrap();
        let rules: Vec<&str> = hits.iter().filter_map(|h| h["rule"].as_str()).collect();
        let raw = std::fs::read(file).unwrap();
        let symbols = spamc(&program, address, &["-y"], &raw);
        assert_eq!(text(&symbols).trim(), rules.join(","), "{file}");
        seen += 1;
    }
    assert!(seen >= 40, "{seen} samples");
}

fn raw(address: SocketAddr, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(crate::common::PATIENCE)).unwrap();
    stream.write_all(bytes).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut answer = Vec::new();
    // A refusal may reach us as a reset, after its text.
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn nonsense_is_answered_and_the_node_lives() {
    let (_node, address) = node();
    for (request, code) in [
        ("GET / HTTP/1.1\r\n\r\n", "SPAMD/1.1 76 "),
        ("CHECK SPAMC/1.5\r\nContent-length: 99\r\n\r\nshort", "SPAMD/1.1 76 "),
        ("CHECK SPAMC/1.5\r\nContent-length: 999999999\r\n\r\n", "SPAMD/1.1 65 "),
        ("CHECK SPAMC/1.5\r\nCompress: zlib\r\nContent-length: 3\r\n\r\nabc", "SPAMD/1.1 76 "),
        ("TELL SPAMC/1.5\r\nMessage-class: spam\r\nContent-length: 1\r\n\r\nx", "SPAMD/1.1 69 "),
        ("", "SPAMD/1.1 76 "),
        ("CHECK SPAMC/1.2\r\n\r\n", "SPAMD/1.1 0 EX_OK"),
    ] {
        let answer = raw(address, request.as_bytes());
        assert!(answer.starts_with(code), "{request:?}: {answer:?}");
    }
}

#[test]
fn exim_reads_verdict_and_report() {
    let (_node, address) = node();
    let head = format!("REPORT SPAMC/1.2\r\nContent-length: {}\r\n\r\n", GTUBE.len());
    let answer = raw(address, &[head.as_bytes(), GTUBE.as_bytes()].concat());
    // sscanf: "SPAMD/%7s 0 EX_OK\r\nSpam: %*s ; %lf / %lf\r\n\r\n", then the report.
    let rest = answer.strip_prefix("SPAMD/1.1 0 EX_OK\r\nSpam: True ; ").expect(&answer);
    let (score, report) = rest.split_once("\r\n\r\n").expect(&answer);
    let (points, threshold) = score.split_once(" / ").expect(&answer);
    assert!(points.parse::<f64>().unwrap() > threshold.parse::<f64>().unwrap(), "{answer}");
    assert!(report.contains("GTUBE"), "{answer}");
}

#[test]
fn our_driver_and_our_service_understand_each_other() {
    let (_node, address) = node();
    drive("spamd", &address.to_string(), GTUBE);
}

#[test]
fn spamc_trains_a_service_that_learns() {
    let Some(program) = program("spamc") else { return };
    let mut node = Node::start(
        "[facts]\nenabled = false\n[[service]]\nprotocol = \"spamd\"\nlearn = true\n\
         address = \"127.0.0.1:0\"\n",
    );
    let address = node.place("spamd").parse().unwrap();
    let tell = spamc(&program, address, &["-L", "spam", "-u", "ann"], GTUBE.as_bytes());
    assert!(text(&tell).contains("successfully"), "learned: {} {:?}", text(&tell), tell.status);
    let again = spamc(&program, address, &["-L", "spam", "-u", "ann"], GTUBE.as_bytes());
    assert!(text(&again).contains("already"), "no news: {}", text(&again));
    node.stop();
    assert_eq!(gauntlet_learning::Corrections::read(&node.data()).unwrap().len(), 1);
}
