//! `gauntlet bench store`, `disk` and `http`: each measures something real and says so.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::common::program;

/// Runs `gauntlet bench ...`: exit code, standard output, errors.
fn bench(arguments: &[&str]) -> (Option<i32>, String, String) {
    let output =
        Command::new(env!("CARGO_BIN_EXE_gauntlet")).arg("bench").args(arguments).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// The same with `--json`. On a busy machine a run may be INVALID (3); then it says so.
fn measured(arguments: &[&str]) -> serde_json::Value {
    let (code, out, errors) = bench(&[arguments, &["--json"]].concat());
    let value: serde_json::Value = serde_json::from_str(&out).expect(&errors);
    assert!(matches!(code, Some(0 | 3)), "{errors}");
    let valid = match value.get("valid") {
        Some(valid) => valid == true,
        None => value["invalid"].as_array().unwrap().is_empty(),
    };
    assert_eq!(code == Some(0), valid, "{value}");
    value
}

fn page(folder: &Path) -> String {
    let page = std::fs::read_to_string(folder.join("report.html")).unwrap();
    assert!(!page.contains("src=") && !page.contains("href="), "nothing from elsewhere");
    assert!(folder.join("report.json").is_file());
    page
}

#[test]
fn the_store_by_backend_batch_and_writers() {
    let folder = tempfile::tempdir().unwrap();
    let (at, report) = (folder.path().to_str().unwrap(), folder.path().join("report"));
    let value = measured(&[
        "store",
        "--folder",
        at,
        "--part",
        "both,spool",
        "--backend",
        "disk,null",
        "--batch",
        "1,64",
        "--writers",
        "1,8",
        "--bytes",
        "5000",
        "--seconds",
        "0.15",
        "--rounds",
        "2",
        "--report",
        report.to_str().unwrap(),
    ]);
    let entries = value["entries"].as_array().unwrap();
    assert_eq!(entries.len(), 16);
    for entry in entries {
        let case = &entry["case"];
        assert!(entry["messages_per_second"]["low"].is_f64(), "an interval: {entry}");
        assert!(entry["ceiling"].as_f64().unwrap() > 0.0, "calibrated: {entry}");
        let messages_per_sync = entry["messages_per_sync"].as_f64().unwrap();
        if case["batch"] == 1 && case["part"] == "spool" {
            assert!(messages_per_sync <= 1.0, "a sync a message: {entry}");
        }
        for figure in ["p50_us", "p99_us", "p999_us"] {
            assert!(entry["latency"][figure].as_f64().unwrap() > 0.0, "{entry}");
        }
    }
    assert!(page(&report).contains("<svg"), "several numbers of writers make a chart");
    let (code, _, errors) = bench(&["store", "--folder", "/nowhere/at/all"]);
    assert_eq!(code, Some(2));
    assert!(errors.contains("cannot make a folder in /nowhere/at/all"), "{errors}");
}

#[test]
fn the_disk_by_buffer_and_write() {
    let folder = tempfile::tempdir().unwrap();
    let (at, report) = (folder.path().to_str().unwrap(), folder.path().join("report"));
    let value = measured(&[
        "disk",
        "--folder",
        at,
        "--file-mb",
        "4",
        "--buffer",
        "4096,65536",
        "--write",
        "512,4096",
        "--seconds",
        "0.1",
        "--rounds",
        "2",
        "--report",
        report.to_str().unwrap(),
    ]);
    assert_eq!(value["reads"].as_array().unwrap().len(), 6);
    for reads in value["reads"].as_array().unwrap() {
        assert!(reads["gigabytes_per_second"]["mean"].as_f64().unwrap() > 0.0, "{reads}");
    }
    for writes in value["writes"].as_array().unwrap() {
        assert!(writes["latency"]["p99_us"].as_f64().unwrap() > 0.0, "{writes}");
    }
    assert!(page(&report).contains("fdatasync"));
}

/// A program that is ended with the value.
struct Peer(Child);

impl Drop for Peer {
    fn drop(&mut self) {
        let _it_may_have_ended = self.0.kill();
        let _reaped = self.0.wait();
    }
}

/// The program's own null server for HTTP, and its URL.
fn sink() -> (Peer, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_gauntlet"))
        .args(["bench", "sink", "--http", "--listen", "127.0.0.1:0"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.split_whitespace().last().unwrap().to_owned();
    (Peer(child), format!("http://{address}"))
}

#[test]
fn http_from_one_connection_to_many() {
    let (server, url) = sink();
    let pid = server.0.id().to_string();
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("report");
    let download = format!("{url}/bytes/20000000");
    let value = measured(&[
        "http",
        &format!("{url}/bytes/1000"),
        "--pid",
        &pid,
        "--seconds",
        "0.4",
        "--timeout",
        "1",
        "--rounds",
        "2",
        "--ladder",
        "1,20",
        "--download",
        &download,
        "--price",
        "0.3",
        "--report",
        report.to_str().unwrap(),
    ]);
    let subject = &value["subjects"][0];
    assert!(subject["requests_per_second"]["low"].is_f64(), "{value}");
    assert!(subject["rounds"][0]["answered"].as_u64().unwrap() > 0, "{value}");
    assert_eq!(subject["ladder"].as_array().unwrap().len(), 2, "{value}");
    assert!(subject["recovery_seconds"].is_f64(), "{value}");
    let energy = &subject["energy"];
    assert!(energy.get("Ok").is_some() || energy.get("Err").is_some(), "{value}");
    assert!(value["download"]["megabytes_per_second"]["mean"].as_f64().unwrap() > 0.0);
    assert!(page(&report).contains("Latency against concurrency"));
}

#[test]
fn http_servers_elsewhere_and_dead_ones_are_refused() {
    let (code, _, errors) = bench(&["http", "http://192.0.2.1/"]);
    assert_eq!(code, Some(2));
    assert!(errors.contains("is not on this machine"), "{errors}");
    let nobody = crate::common::postfix::free_address();
    let (code, _, errors) =
        bench(&["http", &format!("http://{nobody}/"), "--seconds", "0.2", "--no-calibration"]);
    assert_eq!(code, Some(2));
    assert!(errors.contains("answers nothing: Connection refused"), "{errors}");
}

#[test]
fn http_beside_wrk() {
    if program("wrk").is_none() {
        return;
    }
    let value: serde_json::Value = {
        let (code, out, errors) =
            bench(&["http", "--beside-wrk", "--seconds", "1", "--rounds", "1", "--json"]);
        assert_eq!(code, Some(0), "{errors}");
        serde_json::from_str(&out).expect(&errors)
    };
    let round = &value["rounds"][0];
    assert!(round["ours"].as_f64().unwrap() > 0.0 && round["wrks"].as_f64().unwrap() > 0.0);
    assert!(value["rate_ratio"]["mean"].as_f64().unwrap() > 0.0, "{value}");
}
