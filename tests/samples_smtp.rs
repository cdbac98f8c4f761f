//! The messages of `samples/` get the same verdict by SMTP as from `gauntlet scan`: the verdict
//! that stands beside them, or in `samples/opened/` where it is another one once files are opened
//! and every reading is looked at; whether the file has LF or CRLF. `GAUNTLET_BLESS=1` writes
//! those.

use std::path::{Path, PathBuf};

use crate::common::{Node, Smtp, dated};
use gauntlet_mail::{Message, address};
use gauntlet_store::LogRecord;

/// Samples and the verdicts beside them.
fn samples() -> Vec<(PathBuf, serde_json::Value)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("samples");
    let mut found: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "eml"))
        .collect();
    found.sort();
    assert!(found.len() >= 40, "the samples are there");
    let golden = |path: PathBuf| {
        let text = std::fs::read_to_string(opened(&path));
        let text = text.or_else(|_| std::fs::read_to_string(path.with_extension("json"))).unwrap();
        (path, serde_json::from_str(&text).unwrap())
    };
    found.into_iter().map(golden).collect()
}

/// Where the verdict on a sample stands whose files are opened.
fn opened(sample: &Path) -> PathBuf {
    let name = sample.file_stem().unwrap_or_default().to_string_lossy();
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("samples/opened/{name}.json"))
}

/// Writes the verdict on a sample, if that is what the tests were started for.
fn bless(sample: &Path, verdict: &serde_json::Value) -> bool {
    let blesses = std::env::var_os("GAUNTLET_BLESS").is_some();
    if blesses {
        std::fs::create_dir_all(opened(sample).parent().unwrap()).unwrap();
        let text = serde_json::to_string_pretty(verdict).unwrap();
        std::fs::write(opened(sample), text + "\n").unwrap();
    }
    blesses
}

/// The reference in an answer.
fn reference(reply: &str) -> String {
    let mut words = reply.split(|c: char| !c.is_ascii_alphanumeric());
    words.find(|w| w.len() == 13).unwrap_or_else(|| panic!("no reference in {reply}")).to_owned()
}

/// What of a record the golden file has.
fn verdict_of(record: &LogRecord) -> serde_json::Value {
    let verdict = &record.verdict;
    serde_json::json!({
        "class": verdict.class,
        "score": verdict.score,
        "rules": verdict.hits.iter().map(|h| (&h.rule, h.score)).collect::<Vec<_>>(),
        "defects": verdict.defects.iter().map(|d| (d.kind.name(), d.part)).collect::<Vec<_>>(),
    })
}

/// The same of a line of `gauntlet scan --json`.
fn of_line(line: &serde_json::Value) -> serde_json::Value {
    let pairs = |list: &str, first: &str, second: &str| -> Vec<serde_json::Value> {
        let all = line[list].as_array().into_iter().flatten();
        all.map(|one| serde_json::json!([one[first], one[second]])).collect()
    };
    serde_json::json!({
        "class": line["class"],
        "score": line["score"],
        "rules": pairs("hits", "rule", "score"),
        "defects": pairs("defects", "kind", "part"),
    })
}

/// Every line ends in CRLF, or every line in LF.
fn with_ends(raw: &[u8], end: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(raw.len() + raw.len() / 30);
    for &byte in raw.iter().filter(|b| **b != b'\r') {
        match byte {
            b'\n' => out.extend_from_slice(end),
            other => out.push(other),
        }
    }
    out
}

/// Sender and recipient as the message's own fields have them.
fn envelope(raw: &[u8]) -> (String, String) {
    let message = Message::parse(raw);
    let first = |field: &str| {
        let all = message.header(field).map(|f| address::mailboxes(&f.unfolded(), 1));
        all.and_then(|all| all.into_iter().next()).map(|m| m.address)
    };
    let to = first("to").filter(|to| to.contains('@') && to.is_ascii());
    (first("return-path").unwrap_or_default(), to.unwrap_or_else(|| "bob@example.net".to_owned()))
}

#[test]
fn samples_get_their_verdicts_by_smtp() {
    let mut node = Node::start("");
    let mut sent = Vec::new();
    for (path, golden) in samples() {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let raw = dated(&std::fs::read(&path).unwrap());
        let (from, to) = envelope(&raw);
        let send = |raw: &[u8]| {
            let mut client = Smtp::connect(node.smtp).unwrap();
            client.send_as_it_is(&from, &[&to], raw).unwrap()
        };
        let reply = send(&with_ends(&raw, b"\n"));
        assert!(reply.starts_with("521 5.5.2 bare <LF>"), "{name}: {reply}");
        let reply = send(&with_ends(&raw, b"\r\n"));
        if raw.contains(&0) {
            assert!(reply.starts_with("521 5.5.2"), "{name}: {reply}");
        } else {
            sent.push((path, name, reply, golden));
        }
    }
    node.wait_for_empty_queue();
    node.stop();
    let log = gauntlet_store::Log::open(&node.data().join("log")).unwrap();
    let mut wrong = Vec::new();
    for (path, name, reply, golden) in sent {
        let Some(logged) = log.get(&reference(&reply)).unwrap() else {
            wrong.push(format!("{name}: not in the log: {reply}"));
            continue;
        };
        let found = verdict_of(&logged.record);
        if found != golden && !bless(&path, &found) {
            wrong.push(format!("{name}:\n  expected {golden}\n  found    {found}"));
        }
    }
    assert!(wrong.is_empty(), "verdicts differ:\n{}", wrong.join("\n"));
}

/// The real command over files of either kind.
#[test]
fn samples_get_their_verdicts_from_the_command() {
    let folder = tempfile::tempdir().unwrap();
    let mut expected = std::collections::BTreeMap::new();
    for (path, golden) in samples() {
        let raw = std::fs::read(&path).unwrap();
        for (kind, end) in [("lf", &b"\n"[..]), ("crlf", b"\r\n")] {
            let name = format!("{kind}-{}", path.file_name().unwrap().to_string_lossy());
            std::fs::write(folder.path().join(&name), with_ends(&raw, end)).unwrap();
            expected.insert(name, (path.clone(), golden.clone()));
        }
    }
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_gauntlet"))
        .args(["scan", "--json"])
        .arg(folder.path())
        .output()
        .unwrap();
    assert!(output.status.code().is_some_and(|code| code < 2), "{:?}", output.status);
    let text = String::from_utf8(output.stdout).unwrap();
    for line in text.lines() {
        let found: serde_json::Value = serde_json::from_str(line).unwrap();
        let name = found["file"].as_str().unwrap().rsplit('/').next().unwrap().to_owned();
        let (path, golden) = expected.remove(&name).unwrap();
        let of = |v: &serde_json::Value| (v["class"].clone(), v["score"].clone());
        if of(&found) != of(&golden) && !bless(&path, &of_line(&found)) {
            panic!("{name}: expected {golden}, found {line}");
        }
    }
    assert!(expected.is_empty(), "no verdict: {:?}", expected.keys());
}
