//! Captures with what is known of them: protocols, transactions and files. The folder is named by
//! `GAUNTLET_WIRE`; without it nothing is tested, which is said. `GAUNTLET_WIRE_ONLY` is a part of
//! the names of cases, `GAUNTLET_WIRE_FEATURES` names features.

use std::collections::BTreeMap;
use std::path::Path;

use gauntlet_packet::{flow, tcp};
use gauntlet_protocols::{HttpSettings, Settings};
use serde_json::Value;

use super::replay::{FileLine, Replay, Seen};

fn stream_settings(case: &Value, absent: &[&str]) -> (flow::Settings, tcp::Settings) {
    let mut streams = if absent.contains(&"stream") {
        tcp::Settings::built_in()
    } else {
        tcp::Settings::default()
    };
    let mut flows = if absent.contains(&"flow-timeouts") {
        flow::Settings::built_in()
    } else {
        flow::Settings::default()
    };
    for (key, value) in case["overrides"].as_object().into_iter().flatten() {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let _ = streams.set(key, &value) || flows.set(key, &value);
    }
    if case["checksum"].as_str() == Some("none") {
        streams.validate_checksums = false;
    }
    streams.resolve(case["ips"].as_bool() == Some(true));
    flows.resolve(&streams);
    (flows, streams)
}

fn look(folder: &Path, case: &Value) -> Option<Seen> {
    let list = case["sections_absent"].as_array();
    let absent: Vec<&str> = list.into_iter().flatten().filter_map(Value::as_str).collect();
    let (flows, streams) = stream_settings(case, &absent);
    let mut settings =
        Settings { midstream: streams.midstream, inline: streams.inline, ..Settings::default() };
    if absent.contains(&"app-layer") {
        settings.http = HttpSettings::minimal();
    }
    let mut decoding = gauntlet_packet::Settings::default();
    for (key, value) in case["overrides"].as_object()? {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let _ = settings.set(key, &value) || decoding.set(key, &value);
    }
    let mut replay = Replay::new(flows, streams, settings);
    replay.file(&folder.join(case["pcap"]["file"].as_str()?), decoding)?;
    replay.seen.files.sort();
    Some(replay.seen)
}

fn expected_files(case: &Value) -> Vec<FileLine> {
    let list = case["expected"]["files"].as_array();
    let mut files: Vec<FileLine> = list
        .into_iter()
        .flatten()
        .map(|file| {
            let text = |name: &str| file[name].as_str().unwrap_or_default().to_owned();
            let size = file["size"].as_u64().unwrap_or_default();
            (text("filename"), size, text("state"), text("md5"), text("sha256"))
        })
        .collect();
    files.sort();
    files
}

/// Flows by protocol, as far as protocols are known here.
fn protocols(seen: &Seen) -> BTreeMap<String, u64> {
    let mut map = BTreeMap::new();
    for protocol in seen.protocols.iter().flatten() {
        *map.entry(protocol.eve_name().to_owned()).or_default() += 1;
    }
    map
}

#[test]
fn captures_give_the_protocols_transactions_and_files_that_are_known_of_them() {
    let Some(folder) = std::env::var_os("GAUNTLET_WIRE") else {
        eprintln!("SKIPPED: GAUNTLET_WIRE names no folder of cases");
        return;
    };
    let only = std::env::var("GAUNTLET_WIRE_ONLY").unwrap_or_default();
    let features: Vec<String> = std::env::var("GAUNTLET_WIRE_FEATURES")
        .unwrap_or_else(|_| "http http-evader files".into())
        .split(' ')
        .map(str::to_owned)
        .collect();
    let mut folders: Vec<_> = std::fs::read_dir(Path::new(&folder).join("cases"))
        .expect("the folder can be read")
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect();
    folders.sort();
    let (mut all, mut bad) = (0, [0; 3]);
    for path in folders {
        let Ok(text) = std::fs::read_to_string(path.join("case.json")) else { continue };
        let Ok(case) = serde_json::from_str::<Value>(&text) else { continue };
        let name = case["name"].as_str().unwrap_or_default().to_owned();
        let of = case["features"].as_array().cloned().unwrap_or_default();
        let any = features.iter().any(|name| name == "all");
        let fits = of.iter().any(|one| features.iter().any(|name| one.as_str() == Some(name)));
        if !(fits || any) || !name.contains(&only) {
            continue;
        }
        let Some(seen) = look(&path, &case) else {
            eprintln!("{name}: cannot be read");
            continue;
        };
        all += 1;
        let expected: BTreeMap<String, u64> =
            serde_json::from_value(case["expected"]["flow_app_proto"].clone()).unwrap_or_default();
        let known = |map: BTreeMap<String, u64>| -> BTreeMap<String, u64> {
            map.into_iter().filter(|(name, _)| name != "failed" && name != "none").collect()
        };
        let (expected, got) = (known(expected), protocols(&seen));
        if expected != got {
            bad[0] += 1;
            eprintln!("{name}: protocols {got:?}, expected {expected:?}");
        }
        let count = case["expected"]["events"]["http"].as_u64().unwrap_or_default();
        if count != seen.http {
            bad[1] += 1;
            eprintln!("{name}: {} transactions of HTTP, expected {count}", seen.http);
        }
        let files = expected_files(&case);
        if files != seen.files {
            bad[2] += 1;
            eprintln!("{name}: files\n  {:?}, expected\n  {files:?}", seen.files);
        }
    }
    eprintln!(
        "{all} cases; differ in protocols {}, transactions {}, files {}",
        bad[0], bad[1], bad[2]
    );
}
