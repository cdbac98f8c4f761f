//! A message gets the same verdict by every protocol: from `gauntlet scan`, by SMTP, as a milter,
//! by spamd's and rspamd's protocols and by our own.
//!
//! Old mail of the corpus is judged by SMTP and as a milter as mail that a client of today brings
//! (its date is past, the client is this machine); by the other protocols as what its own trace
//! fields say it was. So there the two agree with each other, and the four with each other; the
//! samples agree everywhere.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{Node, PATIENCE, Smtp, corpus, dated, files_below};
use gauntlet_mail::{Message, address};
use serde_json::Value;

/// Messages of the corpus at most.
const CORPUS_MAX: usize = 200;

/// Class, score to a thousandth, rules.
#[derive(Debug, PartialEq)]
struct Verdict {
    class: String,
    score: i64,
    rules: Vec<String>,
}

fn verdict(class: &Value, score: &Value, rules: impl Iterator<Item = String>) -> Verdict {
    let score = (score.as_f64().unwrap() * 1e3).round() as i64;
    Verdict { class: class.as_str().unwrap().to_owned(), score, rules: rules.collect() }
}

fn of_hits(value: &Value) -> Verdict {
    let hits = value["hits"].as_array().unwrap().iter();
    verdict(&value["class"], &value["score"], hits.map(|h| h["rule"].as_str().unwrap().to_owned()))
}

/// Asks something and reads until the other side closes.
fn ask(place: &str, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(place).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(bytes).unwrap();
    let _ = stream.shutdown(Shutdown::Write);
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    answer
}

fn http(place: &str, path: &str, raw: &[u8]) -> Value {
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
        raw.len()
    );
    let mut stream = TcpStream::connect(place).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(&[head.as_bytes(), raw].concat()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let end = answer.windows(4).position(|w| w == b"\r\n\r\n").unwrap() + 4;
    serde_json::from_slice(&answer[end..]).unwrap()
}

fn packet(command: u8, data: &[u8]) -> Vec<u8> {
    let length = u32::try_from(data.len() + 1).unwrap().to_be_bytes();
    [&length[..], &[command], data].concat()
}

/// The conversation of an MTA about a message from a client of this machine.
fn milter(from: &str, to: &str, raw: &[u8]) -> Vec<u8> {
    let mut wire = packet(b'O', b"\0\0\0\x06\0\0\x01\xff\0\x1f\xff\xff");
    wire.extend(packet(b'C', b"[127.0.0.1]\x004\0\x19127.0.0.1\0"));
    wire.extend(packet(b'H', b"client.test\0"));
    wire.extend(packet(b'M', format!("<{from}>\0").as_bytes()));
    wire.extend(packet(b'R', format!("<{to}>\0").as_bytes()));
    let mut at = 0;
    let mut field = Vec::new();
    for line in raw.split_inclusive(|b| *b == b'\n') {
        let folded = line.starts_with(b" ") || line.starts_with(b"\t");
        if !folded && !field.is_empty() {
            wire.extend(header(&std::mem::take(&mut field)));
        }
        at += line.len();
        if line == b"\r\n" {
            break;
        }
        field.extend_from_slice(line);
    }
    if !field.is_empty() {
        wire.extend(header(&field));
    }
    wire.extend(packet(b'N', b""));
    raw[at..].chunks(65_535).for_each(|chunk| wire.extend(packet(b'B', chunk)));
    wire.extend(packet(b'E', b""));
    wire.extend(packet(b'Q', b""));
    wire
}

fn header(field: &[u8]) -> Vec<u8> {
    let field = field.strip_suffix(b"\r\n").unwrap_or(field);
    let colon = field.iter().position(|b| *b == b':').unwrap();
    let value: Vec<u8> = field[colon + 1..].iter().copied().filter(|b| *b != b'\r').collect();
    packet(b'L', &[&field[..colon], b"\0", &value, b"\0"].concat())
}

/// Sender and recipient as the message's own fields have them: what the other protocols go by.
fn envelope(raw: &[u8]) -> (String, String) {
    let message = Message::parse(raw);
    let first = |field: &str| {
        let all = message.header(field).map(|f| address::mailboxes(&f.unfolded(), 1));
        let first = all.and_then(|all| all.into_iter().next()).map(|m| m.address);
        first.filter(|a| a.contains('@') && a.bytes().all(|b| b.is_ascii_graphic()))
    };
    let to = first("to").unwrap_or_else(|| "bob@example.net".to_owned());
    (first("return-path").unwrap_or_default(), to)
}

/// The reference in an answer.
fn reference(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes).into_owned();
    let mut words = text.split(|c: char| !c.is_ascii_alphanumeric());
    words.find(|w| w.len() == 13).unwrap_or_else(|| panic!("no reference in {text}")).to_owned()
}

/// As an MTA hands it over: CRLF, a header of fields, no NUL. None if it cannot be.
fn mailable(raw: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    for &byte in raw.iter().filter(|b| **b != b'\r') {
        match byte {
            b'\n' => out.extend_from_slice(b"\r\n"),
            other => out.push(other),
        }
    }
    if !out.ends_with(b"\r\n") {
        out.extend_from_slice(b"\r\n");
    }
    let header = out.split_inclusive(|b| *b == b'\n').take_while(|l| *l != b"\r\n");
    let is_field = |line: &[u8]| {
        let name = line.iter().take_while(|b| b.is_ascii_graphic() && **b != b':').count();
        matches!(line.first(), Some(b' ' | b'\t')) || (name > 0 && line.get(name) == Some(&b':'))
    };
    let fine = header.clone().all(is_field) && header.clone().next().is_some_and(|l| l[0] > b' ');
    (fine && !out.contains(&0) && out.windows(4).any(|w| w == b"\r\n\r\n")).then_some(out)
}

/// Samples, and some messages of the corpus if there is one, as an MTA hands them over.
pub(crate) fn messages() -> Vec<(PathBuf, Vec<u8>)> {
    let samples = files_below(&Path::new(env!("CARGO_MANIFEST_DIR")).join("samples"));
    let mut files: Vec<PathBuf> =
        samples.into_iter().filter(|f| f.extension().is_some_and(|e| e == "eml")).collect();
    if let Some(corpus) = corpus() {
        let mut all = files_below(&corpus.join("dev"));
        all.retain(|f| f.extension().is_none_or(|e| e != "tsv"));
        let step = (all.len() / CORPUS_MAX).max(1);
        files.extend(all.into_iter().step_by(step).take(CORPUS_MAX));
    }
    let read =
        |file: PathBuf| mailable(&dated(&std::fs::read(&file).unwrap())).map(|raw| (file, raw));
    files.into_iter().filter_map(read).collect()
}

/// What spamd's protocol says of points: who compares them comes to the verdict, and they are the
/// rules' own where those say the same.
fn check_points(head: &str, scanned: &Verdict, name: &str) {
    let spam = ["spam", "phishing", "malware", "unscannable"].contains(&scanned.class.as_str());
    let said = if spam { "Spam: True ; " } else { "Spam: False ; " };
    let (_, numbers) = head.split_once(said).unwrap_or_else(|| panic!("{name}: {head}"));
    let numbers = numbers.lines().next().unwrap_or_default().split_once(" / ").unwrap();
    let (points, threshold): (f64, f64) = (numbers.0.parse().unwrap(), numbers.1.parse().unwrap());
    assert_eq!(points >= threshold, spam, "{name}: {numbers:?}");
    let own = scanned.score as f64 / 1e3;
    // Explicit spam is reported with its threshold at least.
    if (own >= threshold) == spam && numbers.0 != "12.0" {
        assert_eq!(numbers.0, format!("{own:.1}"), "{name}");
    }
}

#[test]
fn every_protocol_gives_the_same_verdict() {
    let folder = tempfile::tempdir().unwrap();
    let policy = folder.path().join("policy.toml");
    let rule =
        "[[rule]]\nname = \"all\"\ndo = { add_header = { name = \"X-Id\", value = \"{id}\" } }\n";
    std::fs::write(&policy, rule).unwrap();
    let services: String = ["spamd", "milter", "rspamd", "http"]
        .map(|p| format!("[[service]]\nprotocol = \"{p}\"\naddress = \"127.0.0.1:0\"\n"))
        .concat();
    let config = format!("[facts]\nenabled = false\n[policy]\npath = {policy:?}\n{services}");
    let mut node = Node::start(&config);
    let (mut seen, mut logged, messages) = (0, Vec::new(), messages());
    for (name, raw) in &messages {
        let name = name.display();
        let (from, to) = envelope(raw);
        let mut client = Smtp::connect(node.smtp).unwrap();
        let by_smtp = client.send_as_it_is(&from, &[&to], raw).unwrap();
        if by_smtp.starts_with("501") {
            // No address that SMTP knows: by this protocol nobody can bring it.
            continue;
        }
        assert!(by_smtp.starts_with("250"), "{name}: {by_smtp}");
        let file = folder.path().join("message.eml");
        std::fs::write(&file, raw).unwrap();
        let scan = Command::new(env!("CARGO_BIN_EXE_gauntlet"))
            .args(["scan", "--json"])
            .arg(&file)
            .output()
            .unwrap();
        let scanned = of_hits(&serde_json::from_slice(&scan.stdout).unwrap());
        let own = http(node.place("http"), "/v1/scan", raw);
        assert_eq!(of_hits(&own), scanned, "http: {name}");
        let reply = http(node.place("rspamd"), "/checkv2", raw);
        let symbols = reply["symbols"].as_object().unwrap().keys().cloned();
        let by_rspamd = verdict(&reply["gauntlet"]["class"], &reply["gauntlet"]["points"], symbols);
        assert_eq!(by_rspamd, scanned, "rspamd: {name}");
        let request = format!("SYMBOLS SPAMC/1.5\r\nContent-length: {}\r\n\r\n", raw.len());
        let reply = ask(node.place("spamd"), &[request.as_bytes(), raw].concat());
        let reply = String::from_utf8_lossy(&reply).into_owned();
        let (head, rules) = reply.split_once("\r\n\r\n").unwrap();
        assert_eq!(rules.trim(), scanned.rules.join(","), "spamd: {name}");
        check_points(head, &scanned, &name.to_string());
        let by_milter = reference(&ask(node.place("milter"), &milter(&from, &to, raw))[17..]);
        logged.push((name.to_string(), scanned, by_milter, reference(by_smtp.as_bytes())));
        seen += 1;
    }
    assert!(seen >= 40, "{seen} messages");
    node.wait_for_empty_queue();
    node.stop();
    let mut different = Vec::new();
    let log = gauntlet_store::Log::open(&node.data().join("log")).unwrap();
    for (name, scanned, by_milter, by_smtp) in logged {
        let of_log = |id: &str| {
            let record = log.get(id).unwrap().unwrap_or_else(|| panic!("{id}: {name}")).record;
            of_hits(&serde_json::to_value(&record.verdict).unwrap())
        };
        let (by_milter, by_smtp) = (of_log(&by_milter), of_log(&by_smtp));
        if by_milter != by_smtp || (name.contains("/samples/") && by_smtp != scanned) {
            different.push(format!("{name}\n  {by_milter:?}\n  {by_smtp:?}\n  {scanned:?}"));
        }
    }
    eprintln!("{seen} messages, {} different", different.len());
    assert!(different.is_empty(), "{} of {seen}:\n{}", different.len(), different.join("\n"));
}
