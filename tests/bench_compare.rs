//! `gauntlet bench compare`: real peers beside this program.

use std::path::Path;
use std::process::Command;

use crate::common::{files_below, program};

/// The peers, with the program that must be there.
const PEERS: [(&str, &str); 5] = [
    ("spamd", "spamd"),
    ("clamd", "clamd"),
    ("bogofilter", "bogofilter"),
    ("postfix", "postfix"),
    ("amavis", "amavisd"),
];

/// A folder of our samples with their labels.
fn labelled() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let mut labels = "file\tlabel\n".to_owned();
    for path in files_below(Path::new("samples")) {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let label = match name.split('-').next() {
            Some("ham") => "ham",
            Some("spam") => "spam",
            _ => continue,
        };
        if name.ends_with(".eml") {
            std::fs::copy(&path, folder.path().join(&name)).unwrap();
            labels.push_str(&format!("{name}\t{label}\n"));
        }
    }
    std::fs::write(folder.path().join("labels.tsv"), labels).unwrap();
    folder
}

fn compare(mail: &Path, args: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_gauntlet"))
        .args(["bench", "compare"])
        .arg(mail)
        .args(["--seconds", "1", "--rounds", "1"])
        .args(args)
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn every_peer_is_measured_beside_us() {
    let there: Vec<&str> =
        PEERS.iter().filter(|(_, file)| program(file).is_some()).map(|(name, _)| *name).collect();
    if there.is_empty() {
        return;
    }
    let (mail, report) = (labelled(), tempfile::tempdir().unwrap());
    let folder = report.path().join("r");
    let judge = mail.path().to_str().unwrap();
    let further = [
        "--json",
        "--judge",
        judge,
        "--report",
        folder.to_str().unwrap(),
        "--peers",
        &there.join(","),
    ];
    let (code, out, errors) = compare(mail.path(), &further);
    // 3 is INVALID: this may be a build without optimisation on a busy machine.
    assert!(matches!(code, Some(0 | 3)), "{errors}");
    let value: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(value["missing"].as_array().map(Vec::len), Some(0), "{value}");
    let contests = value["contests"].as_array().unwrap();
    assert_eq!(contests.len(), there.len());
    for contest in contests {
        let entries = contest["entries"].as_array().unwrap();
        assert!(entries.len() >= 2, "{contest}");
        for (at, entry) in entries.iter().enumerate() {
            assert!(entry["messages_per_second"]["mean"].as_f64().unwrap() > 0.0, "{entry}");
            let is_peer = at + 1 == entries.len();
            assert_eq!(entry["peer_cpu_ratio"].is_null(), is_peer, "{entry}");
            let is_batch = contest["peer"] == "bogofilter";
            assert_eq!(entry["shares"].is_null(), is_peer || is_batch, "{entry}");
        }
        if contest["peer"] != "bogofilter" {
            for stage in ["receiving", "scanning"] {
                let spent = entries[entries.len() - 2]["shares"][stage]["mean"].as_f64();
                assert!(spent.is_some_and(|us| us > 0.0), "{stage}: {contest}");
            }
        }
        let judged = &entries[0]["judged"];
        if contest["peer"] == "spamd" {
            assert!(judged["spam"].as_u64().unwrap() > 10, "{judged}");
            assert_eq!(judged["spam"], judged["spam_caught"], "our own samples: {judged}");
        }
    }
    let page = std::fs::read_to_string(folder.join("report.html")).unwrap();
    assert!(page.contains("<table>") && !page.contains("src="), "self-contained");
    assert!(folder.join("report.md").is_file() && folder.join("report.json").is_file());
}

#[test]
fn what_cannot_be_measured_is_said() {
    let mail = labelled();
    let (code, _, errors) = compare(mail.path(), &["--rounds", "0"]);
    assert_ne!(code, Some(0));
    assert!(errors.contains("rounds"), "{errors}");
    let nothing = tempfile::tempdir().unwrap();
    let (code, _, errors) = compare(nothing.path(), &[]);
    assert_eq!(code, Some(2), "{errors}");
    assert!(errors.contains("no message"), "{errors}");
    let none = ["--peers", "rspamd", "--rspamd", "/nowhere/rspamd"];
    let (code, _, errors) = compare(mail.path(), &none);
    assert_eq!(code, Some(2), "{errors}");
    assert!(errors.contains("/nowhere/rspamd is no file"), "{errors}");
    let (code, _, errors) = compare(mail.path(), &["--mix", "eggs=1"]);
    assert_eq!(code, Some(2));
    assert!(errors.contains("is not ham=N or spam=N"), "{errors}");
    let (code, _, errors) = compare(mail.path(), &["--peers", "sendmail"]);
    assert_eq!(code, Some(2));
    assert!(errors.contains("possible values"), "{errors}");
}
