//! `gauntlet bench compare --workload packets`: a real Suricata beside this program. `check`
//! names it by GAUNTLET_SURICATA; where there is none it unpacks one (tests/unpack-suricata).

use std::fs;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::common::capture::{By, Capture};
use crate::common::program;

const RULES: [&str; 2] = [
    "alert http any any -> any any (msg:\"a path\"; flow:established,to_server; http.uri; \
     content:\"/secret\"; classtype:bad-unknown; sid:1;)\n\
     alert http any any -> any any (msg:\"a body\"; flow:established,to_client; file.data; \
     content:\"treasure\"; sid:2;)\n",
    "alert udp $HOME_NET any -> any 5000 (msg:\"a word\"; content:\"worse\"; sid:3;)\n\
     alert tcp any any -> any any (msg:\"a beginning\"; flags:S; sid:4;)\n",
];
/// Alerts of a copy of the capture: path and body, word, two beginnings of connections.
const ALERTS: u64 = 5;

/// Suricata, or none with a note that the test is skipped. In CI nothing is skipped.
fn suricata() -> Option<PathBuf> {
    let named = std::env::var_os("GAUNTLET_SURICATA").map(PathBuf::from);
    let found = named.filter(|path| path.is_file()).or_else(|| program("suricata"));
    if found.is_none() {
        eprintln!("SKIPPED: there is no Suricata (tests/unpack-suricata makes one)");
    }
    found
}

fn end(address: [u8; 4], port: u16) -> SocketAddrV4 {
    SocketAddrV4::new(Ipv4Addr::from(address), port)
}

/// A capture and files of rules in a folder.
fn write(folder: &Path) {
    let (client, server) = ([192, 168, 3, 4], [203, 0, 113, 7]);
    let mut capture = Capture::new();
    let talk: [(By, &[u8]); 2] = [
        (By::Client, b"GET /secret HTTP/1.1\r\nHost: a.example\r\n\r\n"),
        (By::Server, b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\na treasure"),
    ];
    capture.tcp([end(client, 40_000), end(server, 80)], &talk);
    let quiet: [(By, &[u8]); 1] = [(By::Client, b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n")];
    capture.tcp([end(client, 40_001), end(server, 80)], &quiet);
    capture.udp([end(client, 40_002), end(server, 5_000)], b"it is worse");
    capture.write(&folder.join("a.pcap"));
    for (name, rules) in ["a.rules", "b.rules"].iter().zip(RULES) {
        fs::write(folder.join(name), rules).unwrap();
    }
}

/// Runs `gauntlet bench compare --workload packets`: exit code, what it prints, errors.
fn compare(folder: &Path, args: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_gauntlet"))
        .args(["bench", "compare", "--workload", "packets", "--rounds", "1"])
        .args(args)
        .current_dir(folder)
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// The entries of a contest, ours and Suricata's.
fn entries(contest: &Value) -> (&Value, &Value) {
    let entries = contest["entries"].as_array().unwrap();
    assert_eq!(entries.len(), 2, "{contest}");
    for entry in entries {
        assert!(entry["start_cpu_seconds"]["median"].as_f64().unwrap() > 0.0, "{entry}");
        assert!(entry["peak_bytes"].as_u64().unwrap() > 1_000_000, "{entry}");
        assert_eq!(entry["runs"].as_array().map(Vec::len), Some(1), "{entry}");
    }
    (&entries[0], &entries[1])
}

#[test]
fn suricata_is_measured_beside_us_and_alerts_are_the_same() {
    let Some(suricata) = suricata() else { return };
    let folder = tempfile::tempdir().unwrap();
    write(folder.path());
    let suricata = suricata.to_str().unwrap();
    let further = ["--rules", "a.rules", "--rules", "b.rules", "--copies", "3", "--report", "r"];
    let all = [&["a.pcap", "--suricata", suricata, "--json"], &further[..]].concat();
    let (code, out, errors) = compare(folder.path(), &all);
    // 3 is INVALID: so few packets take less time than starting varies by.
    assert!(matches!(code, Some(0 | 3)), "{errors}");
    let value: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(value["missing"], serde_json::json!([]), "{value}");
    let contests = value["contests"].as_array().unwrap();
    assert_eq!(contests.len(), 2, "{value}");

    let (ours, theirs) = entries(&contests[0]);
    assert_eq!(contests[0]["with_rules"], true);
    assert_eq!(contests[0]["capture"]["copies"], 3);
    assert_eq!((&ours["name"], &theirs["name"]), (&"gauntlet".into(), &"Suricata".into()));
    assert!(theirs["version"].as_str().unwrap().contains("Suricata version"), "{theirs}");
    for entry in [ours, theirs] {
        assert_eq!(entry["rules"], serde_json::json!({ "loaded": 4, "left_out": 0 }), "{entry}");
        assert_eq!(entry["alerts"], ALERTS * 3, "{entry}");
    }
    let agreement = &ours["agreement"];
    assert_eq!(agreement["equal"], ALERTS * 3, "{agreement}");
    for other in ["on_another_packet", "ours_alone", "theirs_alone"] {
        assert_eq!(agreement[other], 0, "{agreement}");
    }
    assert!(theirs["agreement"].is_null() && theirs["peer_cpu_ratio"].is_null(), "{theirs}");

    let (ours, theirs) = entries(&contests[1]);
    assert_eq!(contests[1]["with_rules"], false);
    assert_eq!((&ours["alerts"], &theirs["alerts"]), (&0.into(), &0.into()));
    assert!(ours["agreement"].is_null(), "{ours}");
    for name in ["report.html", "report.md", "report.json"] {
        assert!(folder.path().join("r").join(name).is_file(), "{name}");
    }
}

#[test]
fn the_report_is_markdown() {
    let Some(suricata) = suricata() else { return };
    let folder = tempfile::tempdir().unwrap();
    write(folder.path());
    let (code, out, errors) =
        compare(folder.path(), &["a.pcap", "--suricata", suricata.to_str().unwrap()]);
    assert!(matches!(code, Some(0 | 3)), "{errors}");
    assert!(out.starts_with("**Suricata: a.pcap, "), "{out}");
    assert!(out.contains("\n| gauntlet | ") && out.contains("\n| Suricata | "), "{out}");
    assert!(out.contains("suricata -v -c SETTINGS -r FILE --disable-detection"), "{out}");
}

#[test]
fn what_cannot_be_compared_is_said() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path());
    fs::write(folder.path().join("none.pcap"), "this is text").unwrap();
    for (args, said) in [
        (&[][..], "no capture was named"),
        (&["absent.pcap"], "cannot read absent.pcap"),
        (&["none.pcap"], "none.pcap: neither a pcap nor a pcapng file"),
        (&["a.pcap", "--rules", "absent.rules"], "cannot read the rules absent.rules"),
        (&["a.pcap", "--suricata", "/nowhere/suricata"], "/nowhere/suricata is no file"),
        (&["a.pcap", "--copies", "0"], "--copies"),
        (&["a.pcap", "--peers", "spamd"], "has another --workload"),
    ] {
        let (code, _, errors) = compare(folder.path(), args);
        assert_eq!(code, Some(2), "{args:?}: {errors}");
        assert!(errors.contains(said), "{args:?}: {errors}");
    }
    // Said once there is a peer.
    let Some(suricata) = suricata() else { return };
    let args = ["a.pcap", "--copies", "2000", "--suricata", suricata.to_str().unwrap()];
    let (code, _, errors) = compare(folder.path(), &args);
    assert_eq!(code, Some(2), "{errors}");
    assert!(errors.contains("fewer copies"), "{errors}");
}
