//! Records of EVE against Suricata's own on the cases of `$GAUNTLET_WIRE` (a folder with `cases/`):
//! how many of each type, files by their hashes, anomalies and drops. With
//! `$GAUNTLET_WIRE_TESTS`, a copy of the tests that the cases come from, their own checks are
//! evaluated, too. `$GAUNTLET_WIRE_EVE` names a folder for our records.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use gauntlet_ids::replay::{Options, Output, Replayer};
use serde_json::Value;

use crate::checks::{Check, checks};
use crate::parity::Case;

/// So many of a hundred cases must agree, by what is counted.
const AGREE_MIN: usize = 93;

#[test]
fn records_are_suricatas() {
    let Some(root) = std::env::var_os("GAUNTLET_WIRE").map(PathBuf::from) else { return };
    let mut agreement: BTreeMap<String, [usize; 2]> = BTreeMap::new();
    let mut report = String::new();
    for case in cases(&root) {
        let mut options = case.options();
        uniform(&mut options, case.json["config"] == "own");
        let lines = replay(&case, &options);
        save("events", &case, &lines);
        let name = case.json["name"].as_str().unwrap_or_default();
        let (wanted, got) = (expected(&case.json["expected"]), found(&lines));
        let keys: BTreeSet<&String> = wanted.keys().chain(got.keys()).collect();
        for key in keys {
            let same = wanted.get(key) == got.get(key);
            let kind = key.split(' ').next().unwrap_or_default().to_owned();
            let row = agreement.entry(kind).or_default();
            row[0] += usize::from(same);
            row[1] += 1;
            if !same {
                let count = |of: &BTreeMap<String, u64>| of.get(key).copied().unwrap_or_default();
                let (wanted, got) = (count(&wanted), count(&got));
                let _ = writeln!(report, "{name}: {key}: expected {wanted}, found {got}");
            }
        }
    }
    write_report("events", &report);
    let [same, all] = agreement.values().fold([0, 0], |[a, b], [c, d]| [a + c, b + d]);
    for (kind, [same, all]) in agreement {
        println!("{kind}: {same} of {all} cases agree");
    }
    let only = std::env::var_os("GAUNTLET_WIRE_CASE").is_some();
    assert!(only || same * 100 >= all * AGREE_MIN, "{same} of {all}");
}

/// So many checks hold; the number only grows.
const HOLD_MIN: usize = 2_350;

#[test]
fn checks_of_the_tests_hold() {
    let root = std::env::var_os("GAUNTLET_WIRE").map(PathBuf::from);
    let tests = std::env::var_os("GAUNTLET_WIRE_TESTS").map(PathBuf::from);
    let (Some(root), Some(tests)) = (root, tests) else { return };
    let (mut hold, mut all, mut skipped) = (0, 0, 0);
    let mut report = String::new();
    for case in cases(&root) {
        let name = case.json["name"].as_str().unwrap_or_default();
        let folder = tests.join(case.json["source"]["test"].as_str().unwrap_or_default());
        let mut options = case.options();
        if case.json["config"] == "own" {
            outputs(&folder.join("suricata.yaml"), &mut options);
        }
        let lines = replay(&case, &options);
        save("checks", &case, &lines);
        let text = fs::read_to_string(folder.join("test.yaml")).expect("a test");
        for (number, check) in checks(&text).into_iter().enumerate() {
            let Check::Filter(filter) = check else {
                skipped += 1;
                continue;
            };
            all += 1;
            match filter.fails(&lines) {
                None => hold += 1,
                Some(why) => {
                    let _ = writeln!(report, "{name} {}: {why}", number + 1);
                }
            }
        }
    }
    write_report("checks", &report);
    println!("{hold} of {all} checks hold, {skipped} are of another kind");
    let only = std::env::var_os("GAUNTLET_WIRE_CASE").is_some();
    assert!(only || hold >= HOLD_MIN, "{hold} of {all}");
}

fn cases(root: &Path) -> Vec<Case> {
    let only = std::env::var("GAUNTLET_WIRE_CASE").ok();
    let folders = fs::read_dir(root.join("cases")).expect("cases");
    let mut folders: Vec<PathBuf> = folders.flatten().map(|entry| entry.path()).collect();
    folders.sort();
    let is_wanted = |folder: &&PathBuf| {
        only.as_ref().is_none_or(|only| folder.file_name().is_some_and(|name| name == &**only))
    };
    folders.iter().filter(is_wanted).map(|folder| Case::read(folder)).collect()
}

fn replay(case: &Case, options: &Options) -> Vec<Value> {
    let mut lines = Vec::new();
    let work = tempfile::tempdir().expect("a folder");
    let mut output = Output::read(options);
    if let Some(store) = &mut output.store {
        store.directory = work.path().to_owned();
    }
    let replayer = Replayer::with_output(options, output).expect("rules");
    let done = replayer.run(&case.capture(), &mut |line| {
        lines.push(serde_json::from_str(line).expect("a line of JSON"));
    });
    if let Err(error) = done {
        println!("{}: {error}", case.folder.display());
    }
    lines
}

/// The outputs with which the expected events were made: those of the stock file, or for cases with
/// a configuration of their own these types.
fn uniform(options: &mut Options, is_own: bool) {
    const OWN: [&str; 8] = ["dns", "tls", "smtp", "ftp", "smb", "ssh", "flow", "anomaly"];
    let key = "outputs.1.eve-log.types.7.files.force-hash";
    let mut set = |key: &str, value: &str| options.settings.set(key, value);
    if !is_own {
        set(&format!("{key}.0"), "md5");
        set(&format!("{key}.1"), "sha256");
        return;
    }
    options.settings.remove_section("outputs");
    let mut set = |key: &str, value: &str| options.settings.set(key, value);
    set("outputs.1.eve-log.enabled", "yes");
    for (number, name) in OWN.into_iter().enumerate() {
        set(&format!("outputs.1.eve-log.types.{number}"), name);
    }
    set("outputs.1.eve-log.types.20.alert.tagged-packets", "yes");
    set("outputs.1.eve-log.types.21.http.extended", "yes");
    set("outputs.1.eve-log.types.22.files.force-hash.0", "md5");
    set("outputs.1.eve-log.types.22.files.force-hash.1", "sha256");
    set("outputs.1.eve-log.types.23.drop.flows", "all");
}

/// Takes the outputs of a test's own configuration.
fn outputs(file: &Path, options: &mut Options) {
    let Ok(own) = gauntlet_ids::config::Settings::read(file) else { return };
    options.settings.remove_section("outputs");
    for (key, value) in own.iter().filter(|(key, _)| key.starts_with("outputs.")) {
        options.settings.set(key, value);
    }
}

/// What is compared: counts of events, files with hashes, anomalies, drops.
fn expected(json: &Value) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    let mut add = |kind: &str, name: &str, count: u64| {
        *counts.entry(format!("{kind} {name}")).or_default() += count;
    };
    for (section, kind) in
        [("events", "event"), ("anomaly", "anomaly"), ("drops", "drop"), ("flow_app_proto", "app")]
    {
        for (name, count) in json[section].as_object().into_iter().flatten() {
            let kind = if section == "events" { name.as_str() } else { kind };
            let name = if section == "events" { "" } else { name };
            add(kind, name, count.as_u64().unwrap_or_default());
        }
    }
    for file in json["files"].as_array().into_iter().flatten() {
        add("file", &describe(file), 1);
    }
    counts
}

fn describe(file: &Value) -> String {
    let text = |key: &str| match file[key].as_str() {
        Some(text) if !text.is_empty() => text.to_owned(),
        _ => "-".to_owned(),
    };
    format!(
        "{} {} {} {} {}",
        text("filename"),
        file["size"],
        text("state"),
        text("md5"),
        text("sha256")
    )
}

fn found(lines: &[Value]) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    let mut add = |kind: &str, name: &str| {
        *counts.entry(format!("{kind} {name}")).or_default() += 1;
    };
    for line in lines {
        let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
        let kind = text(&line["event_type"]);
        if kind == "stats" {
            continue;
        }
        add(&kind, "");
        match kind.as_str() {
            "anomaly" => {
                let anomaly = &line["anomaly"];
                let name = format!("{}:{}", text(&anomaly["type"]), text(&anomaly["event"]));
                add("anomaly", &name);
            }
            "drop" => add("drop", &text(&line["drop"]["reason"])),
            "fileinfo" => add("file", &describe(&line["fileinfo"])),
            "flow" => {
                add("app", line["app_proto"].as_str().unwrap_or("none"));
            }
            _ => {}
        }
    }
    counts
}

fn save(kind: &str, case: &Case, lines: &[Value]) {
    let Some(folder) = std::env::var_os("GAUNTLET_WIRE_EVE").map(PathBuf::from) else { return };
    let folder = folder.join(kind);
    fs::create_dir_all(&folder).expect("a folder");
    let name = case.json["name"].as_str().unwrap_or_default();
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    fs::write(folder.join(format!("{name}.json")), text).expect("records are written");
}

fn write_report(kind: &str, text: &str) {
    if let Some(file) = std::env::var_os("GAUNTLET_WIRE_REPORT").map(PathBuf::from) {
        fs::write(file.with_extension(kind), text).expect("the report is written");
    }
}
