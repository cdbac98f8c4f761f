//! Rules of Suricata's own tests and of public rule sets, against what Suricata loads of them. The
//! folder of cases is named by `GAUNTLET_WIRE`; without it there is nothing to compare with.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use gauntlet_ids::config::Settings;
use gauntlet_ids::rule::{RuleSet, reader::Reader};
use serde_json::Value;

/// Cases whose rules are not loaded as in Suricata, with the reason; each has to differ.
const EXCEPTIONS: &[(&str, &str)] = &[
    ("dataset-hash-collisions", "its list of strings is not in the folder"),
    ("nfs4-01", "nfs.version:4 is refused: of NFS 4 only the frames are read"),
];

fn wire() -> Option<PathBuf> {
    let wire = std::env::var_os("GAUNTLET_WIRE").map(PathBuf::from);
    if wire.is_none() {
        eprintln!("SKIPPED: GAUNTLET_WIRE names no folder of cases");
    }
    wire
}

fn settings(case: &Value) -> Settings {
    let words = |key: &str| -> Vec<String> {
        let words = case[key].as_array().into_iter().flatten();
        words.filter_map(|word| word.as_str().map(str::to_owned)).collect()
    };
    let absent = words("sections_absent");
    let overrides: Vec<(String, String)> = case["overrides"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, value)| {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            (key.clone(), value)
        })
        .collect();
    Settings::for_case(
        absent.iter().map(String::as_str),
        overrides.iter().map(|(key, value)| (key.as_str(), value.as_str())),
    )
}

fn load(settings: &Settings, file: &str, rules: &[u8], directory: &Path) -> RuleSet {
    let mut reader = Reader::new(settings);
    if let Some(path) = std::env::var_os("GAUNTLET_CLASSES") {
        reader.classes(&fs::read_to_string(path).unwrap());
    }
    reader.read(file, rules, directory);
    reader.finish()
}

fn told(set: &RuleSet) -> Vec<String> {
    let told = set.problems.iter().map(|problem| {
        let skip = if problem.is_skip { "skip" } else { "error" };
        format!("{skip} {:?} {:?} {problem}", problem.sid, problem.keyword)
    });
    told.collect()
}

/// Ids that are loaded; the two rules of `<>` are one.
fn ids(set: &RuleSet) -> BTreeSet<(u32, u32)> {
    set.rules.iter().map(|rule| (rule.gid, rule.sid)).collect()
}

#[test]
fn cases_load_as_in_suricata() {
    let Some(wire) = wire() else { return };
    let mut cases: Vec<PathBuf> =
        fs::read_dir(wire.join("cases")).unwrap().map(|entry| entry.unwrap().path()).collect();
    cases.sort();
    let (mut different, mut compared) = (Vec::new(), 0);
    let is_exception = |path: &Path| EXCEPTIONS.iter().any(|(name, _)| path.ends_with(name));
    for path in &cases {
        let case: Value =
            serde_json::from_slice(&fs::read(path.join("case.json")).unwrap()).unwrap();
        let rules = fs::read(path.join("test.rules")).unwrap();
        let set = load(&settings(&case), "test.rules", &rules, path);
        // Of a few cases it is not known how many load.
        let Some(wanted) = case["rules"]["loaded"].as_u64() else { continue };
        compared += usize::from(!is_exception(path));
        let failed = case["rules"]["failed"].as_u64().unwrap_or(0);
        let errors = set.problems.iter().filter(|problem| !problem.is_skip).count() as u64;
        let loaded = (set.read_count - set.problems.len()) as u64;
        let differs = loaded != wanted || errors != failed;
        if differs != is_exception(path) {
            let name = path.file_name().unwrap().display();
            different.push(format!("{name}: {loaded} of {wanted}, {errors} of {failed}"));
            different.extend(told(&set));
        }
    }
    eprintln!("{compared} of {} cases compared", cases.len());
    assert!(different.is_empty(), "{}", different.join("\n"));
}

#[test]
fn the_large_set_loads_as_in_suricata() {
    let Some(wire) = wire() else { return };
    let mut rules = Vec::new();
    let file = File::open(wire.join("rulesets/large.rules.zst")).unwrap();
    ruzstd::decoding::StreamingDecoder::new(file).unwrap().read_to_end(&mut rules).unwrap();
    let large: Value =
        serde_json::from_slice(&fs::read(wire.join("rulesets/large.json")).unwrap()).unwrap();
    let begin = std::time::Instant::now();
    let set = load(&Settings::stock(), "large.rules", &rules, &wire);
    eprintln!("read in {:?}", begin.elapsed());
    let wanted: BTreeMap<u32, &str> = large["failed_sids"]
        .as_object()
        .unwrap()
        .iter()
        .map(|(sid, why)| (sid.parse().unwrap(), why.as_str().unwrap_or_default()))
        .collect();
    let failed: BTreeSet<u32> = set.problems.iter().filter_map(|problem| problem.sid).collect();
    let mut different = Vec::new();
    for problem in &set.problems {
        if !problem.sid.is_some_and(|sid| wanted.contains_key(&sid)) {
            different.push(format!("refused: {:?} {:?} {problem}", problem.sid, problem.keyword));
        }
    }
    for (sid, why) in &wanted {
        if !failed.contains(sid) {
            different.push(format!("accepted: {sid}: {why}"));
        }
    }
    assert!(different.is_empty(), "{} differ\n{}", different.len(), different.join("\n"));
    assert_eq!(ids(&set).len() as u64, large["loaded"].as_u64().unwrap());
}
