//! `gauntlet bench web` and `bench compare --workload web`: real proxies under a short load.

use std::process::Command;

use crate::common::program;

/// Runs `gauntlet bench ... --json`: exit code, the object, errors.
fn bench(arguments: &[&str]) -> (Option<i32>, serde_json::Value, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gauntlet"));
    let output = command.arg("bench").args(arguments).arg("--json").output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), serde_json::from_slice(&output.stdout).unwrap_or_default(), errors)
}

/// A short run. 3 is INVALID: this may be a build without optimisation on a busy machine.
fn web(further: &[&str]) -> serde_json::Value {
    let short = ["web", "--seconds", "0.5", "--rounds", "1", "--entries", "500", "-c", "4"];
    let (code, value, errors) = bench(&[&short, further].concat());
    assert!(matches!(code, Some(0 | 3)), "{further:?}: {code:?} {errors}");
    value
}

fn round(value: &serde_json::Value, size: usize) -> &serde_json::Value {
    &value["sizes"][size]["http"]["subjects"][0]["rounds"][0]
}

#[test]
fn our_own_proxy_blocks_its_list_and_nothing_else() {
    let value = web(&["--blocked", "0.3"]);
    assert_eq!(value["sizes"].as_array().map(Vec::len), Some(2), "{value}");
    for size in 0..2 {
        let round = round(&value, size);
        assert_eq!(round["failed"], 0, "{round}");
        assert!(round["blocked"].as_u64().unwrap() > 0, "{round}");
        assert!(round["blocked"].as_u64() < round["answered"].as_u64(), "{round}");
        assert!(round["server_cpu_us"].is_f64(), "{round}");
    }
    let ceiling = value["sizes"][0]["http"]["ceiling"].as_f64();
    assert!(ceiling.is_some_and(|rate| rate > 0.0), "{value}");
}

#[test]
fn tunnels_the_clock_and_slow_clients() {
    let value = web(&["--tunnels", "--sizes", "1024", "--slow", "3"]);
    let tunnels = round(&value, 0);
    assert_eq!(tunnels["failed"], 0, "{tunnels}");
    assert!(tunnels["answered"].as_u64().unwrap() > 0, "{tunnels}");
    assert_eq!(value["slow"]["opened"], 3, "{value}");
    let value = web(&["--rate", "50", "--sizes", "1024"]);
    let clock = round(&value, 0);
    assert_eq!(clock["failed"], 0, "{clock}");
    assert!(clock["answered"].as_u64().unwrap() <= 26, "half a second of it: {clock}");
}

#[test]
fn experiments() {
    let value = web(&["--experiment", "latency", "--ladder", "1,8", "--timeout", "1"]);
    let subject = &value["sizes"][0]["http"]["subjects"][0];
    assert_eq!(subject["ladder"].as_array().map(Vec::len), Some(2), "{value}");
    assert!(subject["recovery_seconds"].is_f64(), "{value}");
    let value = web(&["--experiment", "download", "--download-bytes", "3000000"]);
    let download = &value["sizes"][0]["http"]["download"];
    assert!(download["megabytes_per_second"]["mean"].as_f64().unwrap() > 0.0, "{value}");
    let (code, _, errors) = bench(&["web", "--proxy", "127.0.0.1:1", "--blocked", "0.5"]);
    assert_eq!(code, Some(2));
    assert!(errors.contains("--blocked-hosts"), "{errors}");
    let (code, _, errors) = bench(&["web", "--proxy", "192.0.2.1:80"]);
    assert_eq!(code, Some(2));
    assert!(errors.contains("is not on this machine"), "{errors}");
}

#[test]
fn tls_that_passes_unread_or_is_decrypted() {
    if program("nginx").is_none() {
        return;
    }
    for (tls, further) in [
        ("inside", &[][..]),
        ("inside", &["--no-keep-alive"]),
        ("intercepted", &[]),
        ("intercepted", &["--no-keep-alive"]),
        ("inside", &["--direct"]),
    ] {
        let arguments = [&["--tls", tls, "--sizes", "1024"], further].concat();
        let value = web(&arguments);
        let round = round(&value, 0);
        assert_eq!(round["failed"], 0, "{arguments:?}: {round}");
        assert!(round["answered"].as_u64().unwrap() > 0, "{arguments:?}: {round}");
        let workload = value["workload"].as_str().unwrap();
        let said = if tls == "inside" { "passes unread" } else { "is decrypted" };
        assert!(workload.contains(said), "{workload}");
    }
    let (code, _, errors) = bench(&["web", "--tls", "inside", "--proxy", "127.0.0.1:1"]);
    assert_eq!(code, Some(2), "{errors}");
}

#[test]
fn connections_are_held() {
    let value = web(&["--experiment", "held"]);
    let held = &value["held"];
    assert_eq!((&held["wanted"], &held["open"]), (&4.into(), &4.into()), "{value}");
    assert!(held["bytes_per_connection"].is_f64(), "{held}");
    assert!(held["new_answer"]["p99_us"].as_f64().unwrap() > 0.0, "{held}");
}

/// Each peer that is installed blocks the list, passes the rest, and is measured beside us.
#[test]
fn proxies_beside_us() {
    let peers = [
        ("squid", "squid"),
        ("squidguard", "squidGuard"),
        ("e2guardian", "e2guardian"),
        ("privoxy", "privoxy"),
        ("nginx", "nginx"),
        ("mitmproxy", "mitmdump"),
    ];
    let there = peers.iter().filter(|(_, file)| program(file).is_some());
    let there: Vec<&str> = there.map(|(name, _)| *name).collect();
    if !there.contains(&"nginx") {
        return;
    }
    let short = ["--seconds", "0.5", "--rounds", "1", "--entries", "500", "-c", "4"];
    let names = there.join(",");
    let mut arguments = vec!["compare", "--workload", "web", "--sizes", "1024", "--peers", &names];
    arguments.extend(["--download-bytes", "3000000"]);
    let (code, value, errors) = bench(&[&arguments[..], &short].concat());
    assert!(matches!(code, Some(0 | 3)), "{code:?} {errors}");
    // Squid as most systems have it decrypts nothing.
    let missing = value["missing"].as_array().unwrap();
    let is_known = |why: &serde_json::Value| why.as_str().unwrap().contains("without OpenSSL");
    assert!(missing.iter().all(is_known), "{value}");
    let downloads = value["downloads"].as_array().unwrap();
    assert_eq!(downloads.len(), there.len() - 1, "{value}");
    for entry in downloads.iter().flat_map(|d| d["entries"].as_array().unwrap()) {
        assert!(entry["megabytes_per_second"]["mean"].as_f64().unwrap() > 0.0, "{entry}");
    }
    let contests = value["contests"].as_array().unwrap();
    assert!(contests.len() >= there.len(), "{value}");
    for contest in contests {
        let entries = contest["entries"].as_array().unwrap();
        assert_eq!(entries.len(), 2, "{contest}");
        for entry in entries {
            assert!(entry["requests_per_second"]["mean"].as_f64().unwrap() > 0.0, "{entry}");
            let invalid = entry["invalid"].to_string();
            assert!(!invalid.contains("were blocked;"), "{}: {invalid}", contest["peer"]);
        }
    }
}

#[test]
fn peers_of_another_workload_are_refused() {
    let (code, _, errors) = bench(&["compare", "--workload", "web", "--peers", "spamd"]);
    assert_eq!(code, Some(2));
    assert!(errors.contains("another --workload"), "{errors}");
    let (code, _, errors) = bench(&["compare"]);
    assert_eq!(code, Some(2));
    assert!(errors.contains("<DIR>"), "{errors}");
}
