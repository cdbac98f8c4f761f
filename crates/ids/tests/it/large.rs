//! A set of 20,000 rules over every capture of `$GAUNTLET_WIRE`: which of Suricata's alerts come,
//! by rule. Without that folder there is nothing to compare with, and nothing to skip.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use gauntlet_ids::config::Settings;
use gauntlet_ids::replay::{Options, Replayer};
use serde_json::Value;

/// Alerts of checksums, which are most of all: counted apart.
const CHECKSUMS: std::ops::RangeInclusive<u64> = 2_200_073..=2_200_079;

/// How many of a hundred alerts, without those of checksums, are equal.
const EQUAL_MIN: usize = 98;

#[test]
fn a_large_rule_set_alerts_as_suricata() {
    let Some(root) = std::env::var_os("GAUNTLET_WIRE").map(PathBuf::from) else { return };
    let work = tempfile::tempdir().expect("a folder");
    let rules = work.path().join("large.rules");
    fs::write(&rules, decompressed(&root.join("rulesets/large.rules.zst"))).expect("rules");
    for (any, expected) in
        [(false, "expected-large.jsonl.zst"), (true, "expected-large-any.jsonl.zst")]
    {
        let mut settings = Settings::stock();
        if any {
            for name in ["HOME_NET", "EXTERNAL_NET"] {
                let line = format!("vars.address-groups.{name}=any");
                settings.assign(&line).expect("an assignment");
            }
        }
        let options = Options {
            settings,
            directory: root.clone(),
            rules: vec![rules.clone()],
            inline: false,
            checksums: Some(false),
        };
        let begin = Instant::now();
        let replayer = Replayer::new(&options).expect("rules");
        println!("{expected}: loaded in {:.1} s", begin.elapsed().as_secs_f64());
        let begin = Instant::now();
        let mut got = BTreeMap::new();
        for (id, capture) in captures(&root) {
            let done = replayer.run(&capture, &mut |line| count(&mut got, &id, line));
            if let Err(error) = done {
                println!("{}: {error}", capture.display());
            }
        }
        println!("replayed in {:.1} s", begin.elapsed().as_secs_f64());
        let mut wanted = BTreeMap::new();
        let text = decompressed(&root.join("rulesets").join(expected));
        for line in String::from_utf8(text).expect("UTF-8").lines() {
            count(&mut wanted, "", line);
        }
        compare(&wanted, &got);
    }
}

#[test]
fn the_benchmark_has_exactly_the_alerts_of_suricata() {
    let Some(root) = std::env::var_os("GAUNTLET_WIRE").map(PathBuf::from) else { return };
    let work = tempfile::tempdir().expect("a folder");
    let rules = work.path().join("large.rules");
    fs::write(&rules, decompressed(&root.join("rulesets/large.rules.zst"))).expect("rules");
    let options = Options {
        settings: Settings::stock(),
        directory: root.clone(),
        rules: vec![rules],
        inline: false,
        checksums: None,
    };
    let replayer = Replayer::new(&options).expect("rules");
    let mut wanted = BTreeMap::new();
    let text = fs::read_to_string(root.join("bench/expected-large.jsonl")).expect("alerts");
    for line in text.lines() {
        count(&mut wanted, "", line);
    }
    let mut got = BTreeMap::new();
    let capture = root.join("bench/bench.pcap.zst");
    replayer.run(&capture, &mut |line| count(&mut got, "", line)).expect("a capture");
    assert_eq!(got, wanted);
}

/// Alerts by what is compared: capture, packet, rule, action and protocol.
type Alerts = BTreeMap<(String, u64, u64, String, String), usize>;

fn count(alerts: &mut Alerts, id: &str, line: &str) {
    let value: Value = serde_json::from_str(line).expect("JSON");
    let alert = value.get("alert").unwrap_or(&value);
    let sid = alert.get("signature_id").or_else(|| alert.get("sid")).and_then(Value::as_u64);
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let id = value["pcap"].as_str().unwrap_or(id).to_owned();
    let packet = value["pcap_cnt"].as_u64().unwrap_or(0);
    let protocol = text(&value["app_proto"]);
    let key = (id, packet, sid.unwrap_or(0), text(&alert["action"]), protocol);
    *alerts.entry(key).or_default() += 1;
}

fn compare(wanted: &Alerts, got: &Alerts) {
    for (name, checksums) in [("checksum", true), ("other", false)] {
        let of = |alerts: &Alerts| -> usize {
            let own = alerts.iter().filter(|(key, _)| CHECKSUMS.contains(&key.2) == checksums);
            own.map(|(_, count)| *count).sum()
        };
        let common = |wanted: &Alerts| -> usize {
            let own = wanted.iter().filter(|(key, _)| CHECKSUMS.contains(&key.2) == checksums);
            own.map(|(key, count)| (*count).min(got.get(key).copied().unwrap_or(0))).sum()
        };
        println!("{name}: {} expected, {} found, {} common", of(wanted), of(got), common(wanted));
        let (all, found, same) = (of(wanted), of(got), common(wanted));
        assert!(
            checksums || same * 100 >= all.max(found) * EQUAL_MIN,
            "{same} of {all}, {found} found"
        );
    }
    let mut by_rule: BTreeMap<u64, [usize; 2]> = BTreeMap::new();
    let keys: BTreeSet<_> = wanted.keys().chain(got.keys()).collect();
    for key in keys {
        let count = |alerts: &Alerts| alerts.get(key).copied().unwrap_or(0);
        let (one, other) = (count(wanted), count(got));
        let row = by_rule.entry(key.2).or_default();
        row[0] += one.saturating_sub(other);
        row[1] += other.saturating_sub(one);
        if std::env::var_os("GAUNTLET_WIRE_ALERTS").is_some() && one != other {
            println!("  {key:?} expected {one} found {other}");
        }
    }
    for (sid, [missing, more]) in by_rule.into_iter().filter(|(_, row)| *row != [0, 0]) {
        println!("sid {sid}: {missing} missing, {more} too many");
    }
}

/// Every capture once, by the beginning of its SHA-256.
fn captures(root: &Path) -> BTreeMap<String, PathBuf> {
    let mut captures = BTreeMap::new();
    for folder in fs::read_dir(root.join("cases")).expect("cases").flatten() {
        let text = fs::read(folder.path().join("case.json")).expect("case.json");
        let json: Value = serde_json::from_slice(&text).expect("case.json is JSON");
        let hash = json["pcap"]["sha256"].as_str().unwrap_or_default();
        let file = folder.path().join(json["pcap"]["file"].as_str().unwrap_or_default());
        captures.entry(hash.chars().take(16).collect()).or_insert(file);
    }
    captures
}

fn decompressed(file: &Path) -> Vec<u8> {
    let packed = fs::File::open(file).expect("a file");
    let mut decoder = ruzstd::decoding::StreamingDecoder::new(packed).expect("zstd");
    let mut bytes = Vec::new();
    decoder.read_to_end(&mut bytes).expect("zstd");
    bytes
}
