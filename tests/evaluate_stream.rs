//! `gauntlet evaluate --stream`: a mailbox as it comes, beside real peers.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::common::program;

/// The peers of one run, and the programs that must be there.
const PEERS: [(&str, &str); 3] =
    [("spamassassin-early", "spamd"), ("rspamd", "redis-server"), ("bogofilter", "bogofilter")];

/// Newsletters of a club that people want, and of a shop that nobody asked, by turns; nothing that
/// ships can tell which is which.
fn mailbox(count: usize) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let mut labels = "label\tfile\n".to_owned();
    for i in 0..count {
        let spam = i % 2 == 1;
        let (who, host, about, label) = match spam {
            true => (
                "Lamp Outlet",
                "lamps.example.net",
                "lamps, shades and bulbs for every room",
                "spam",
            ),
            false => {
                ("Rowing Club", "rowing.example.org", "boats, training and the regatta", "ham")
            }
        };
        let day = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday"][i % 5];
        let minute = i % 60;
        let hour = i / 60;
        let text = format!(
            "Received: from mail.{host} (mail.{host} [192.0.2.{net}]) by mx.example.com; \
             Mon, 6 Jan 2025 {hour:02}:{minute:02}:00 +0000\r\n\
             From: {who} <news@{host}>\r\nTo: ann@example.com\r\nSubject: {day} news number {i}\r\n\
             Date: Mon, 6 Jan 2025 {hour:02}:{minute:02}:00 +0000\r\nMessage-ID: <{i}@{host}>\r\n\
             List-Unsubscribe: <https://{host}/u>\r\nMIME-Version: 1.0\r\n\
             Content-Type: text/plain; charset=utf-8\r\n\r\n\
             Dear Ann,\r\n\r\nthis {day} we write about {about}. Number {i} of our letter has what \
             members asked for, and page {i} of https://{host}/{i} has the rest.\r\n\r\n\
             Yours, {who}\r\n",
            net = 1 + 100 * usize::from(spam),
        );
        std::fs::write(folder.path().join(format!("{i:03}.eml")), text).unwrap();
        let _ = writeln!(labels, "{label}\t{i:03}.eml");
    }
    std::fs::write(folder.path().join("labels.tsv"), labels).unwrap();
    folder
}

fn evaluate(folder: &Path, args: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_gauntlet"))
        .args(["evaluate", "--stream"])
        .arg(folder.join("labels.tsv"))
        .args(args)
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

fn percent(run: &Value, part: &str, figure: &str) -> f64 {
    run[part][figure]["percent"].as_f64().unwrap()
}

#[test]
fn corrections_move_classes_within_a_mailbox() {
    let mail = mailbox(120);
    let report = mail.path().join("report");
    let args = ["--told", "1.0,0.0", "--block", "20", "--bootstrap", "50", "--json", "--report"];
    let args: Vec<&str> = args.into_iter().chain([report.to_str().unwrap()]).collect();
    let (code, out, err) = evaluate(mail.path(), &args);
    assert_eq!(code, Some(0), "{err}");
    assert!(err.contains("seed 1"), "{err}");
    let found: Value = serde_json::from_str(&out).unwrap();
    let [all, none] = found["runs"].as_array().unwrap().as_slice() else { panic!("{out}") };
    assert_eq!(all["blocks"].as_array().unwrap().len(), 6);
    assert_eq!(percent(none, "second_half", "caught"), 0.0, "nothing ships that knows the shop");
    assert!(percent(all, "second_half", "caught") > 90.0, "{all:#}");
    assert_eq!(percent(all, "second_half", "false_positives"), 0.0);
    let page = std::fs::read_to_string(report.join("report.html")).unwrap();
    assert!(page.contains("<svg") && page.contains("told 100 %"), "{page}");
    assert!(report.join("caught.svg").is_file());
}

#[test]
fn peers_learn_from_the_same_stream() {
    let there = PEERS.into_iter().filter(|(_, file)| program(file).is_some());
    let there: Vec<&str> = there.map(|(name, _)| name).collect();
    if there.is_empty() {
        return;
    }
    let mail = mailbox(90);
    let peers = there.join(",");
    let args = ["--told", "1.0", "--peers", &peers, "--json", "--bootstrap", "0"];
    let (code, out, err) = evaluate(mail.path(), &args);
    assert_eq!(code, Some(0), "{err}");
    let found: Value = serde_json::from_str(&out).unwrap();
    let runs = found["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 1 + there.len());
    for run in runs {
        let judged = run["all"]["caught"]["of"].as_u64().unwrap();
        assert_eq!(judged, 45, "{run:#}");
        let name = run["filter"].as_str().unwrap();
        // With so little to learn from, rspamd's Bayes says nothing yet: as it ships.
        if name.contains("spamassassin") || name == "bogofilter" {
            assert!(
                run["second_half"]["one_minus_roca_percent"].as_f64().unwrap() < 5.0,
                "{run:#}"
            );
        }
    }
}

#[test]
fn what_cannot_be_done_is_said() {
    let mail = mailbox(12);
    let (code, _, err) = evaluate(mail.path(), &["--beforehand", "12"]);
    assert!(code != Some(0) && err.contains("--beforehand 12: the stream has 12"), "{err}");
    let (code, _, err) = evaluate(mail.path(), &["--told", "1.5"]);
    assert!(code == Some(2) && err.contains("a share is 0 to 1"), "{err}");
    let output = Command::new(env!("CARGO_BIN_EXE_gauntlet"))
        .args(["evaluate", "--peers", "bogofilter", "--stream"])
        .arg(mail.path().join("labels.tsv"))
        .env("PATH", "")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "{said}");
    assert!(said.contains("apt-get install bogofilter"), "{said}");
}
