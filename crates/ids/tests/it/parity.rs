//! The same alerts as Suricata's own on the cases of `$GAUNTLET_WIRE` (a folder with `cases/`).
//! Without that folder there is nothing to compare with, and nothing to skip.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use gauntlet_ids::config::Settings;
use gauntlet_ids::replay::{Options, replay};
use serde_json::Value;

/// So many cases have exactly the alerts of Suricata; the number only grows.
const EQUAL_MIN: usize = 778;

#[test]
fn alerts_are_suricatas() {
    let Some(root) = std::env::var_os("GAUNTLET_WIRE").map(PathBuf::from) else { return };
    let only = std::env::var("GAUNTLET_WIRE_CASE").ok();
    let mut report = String::new();
    let (mut cases, mut equal, mut expected, mut found, mut common) = (0, 0, 0, 0, 0);
    let mut names: Vec<_> =
        fs::read_dir(root.join("cases")).expect("cases").flatten().map(|e| e.path()).collect();
    names.sort();
    for folder in names {
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if only.as_ref().is_some_and(|only| *only != name) {
            continue;
        }
        let case = Case::read(&folder);
        let wanted = case.expected();
        let got = case.replay();
        let shared = shared(&wanted, &got);
        cases += 1;
        expected += wanted.len();
        found += got.len();
        common += shared;
        let same = shared == wanted.len() && shared == got.len();
        equal += usize::from(same);
        let _ = writeln!(
            report,
            "{} {name} expected {} found {} common {shared} {}",
            if same { "ok  " } else { "DIFF" },
            wanted.len(),
            got.len(),
            case.features()
        );
        if only.is_some() {
            println!("expected:\n{}\nfound:\n{}", wanted.join("\n"), got.join("\n"));
        }
    }
    println!("{cases} cases, {equal} equal; alerts: {expected} expected, {found}, {common} common");
    if let Some(file) = std::env::var_os("GAUNTLET_WIRE_REPORT") {
        fs::write(file, report).expect("the report is written");
    }
    assert!(only.is_some() || equal >= EQUAL_MIN, "{equal} of {cases} cases are equal");
}

/// A case's folder.
pub(crate) struct Case {
    pub(crate) folder: PathBuf,
    pub(crate) json: Value,
}

impl Case {
    pub(crate) fn read(folder: &Path) -> Self {
        let text = fs::read(folder.join("case.json")).expect("case.json");
        let json = serde_json::from_slice(&text).expect("case.json is JSON");
        Self { folder: folder.to_owned(), json }
    }

    fn features(&self) -> String {
        let features = self.json["features"].as_array().cloned().unwrap_or_default();
        features.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(",")
    }

    fn settings(&self) -> Settings {
        let own = self.json["config"] == "own";
        let absent = self.json["sections_absent"].as_array().cloned().unwrap_or_default();
        let absent: Vec<_> = absent.iter().filter_map(Value::as_str).filter(|_| own).collect();
        let overrides = self.json["overrides"].as_object().cloned().unwrap_or_default();
        let overrides: Vec<(String, String)> = overrides
            .into_iter()
            .map(|(key, value)| {
                let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                (key, text)
            })
            .collect();
        let overrides = overrides.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        let mut settings = Settings::for_case(absent, overrides);
        for assignment in self.json["set"].as_array().into_iter().flatten() {
            settings.assign(assignment.as_str().unwrap_or_default()).expect("an assignment");
        }
        settings
    }

    /// Its capture.
    pub(crate) fn capture(&self) -> PathBuf {
        self.folder.join(self.json["pcap"]["file"].as_str().unwrap_or_default())
    }

    /// What it is replayed with.
    pub(crate) fn options(&self) -> Options {
        Options {
            settings: self.settings(),
            directory: self.folder.clone(),
            rules: vec![self.folder.join("test.rules")],
            inline: self.json["ips"] == true,
            checksums: match self.json["checksum"].as_str() {
                Some("none") => Some(false),
                _ => None,
            },
        }
    }

    fn replay(&self) -> Vec<String> {
        let (capture, options) = (self.capture(), self.options());
        if std::env::var_os("GAUNTLET_WIRE_RULES").is_some() {
            let program = gauntlet_ids::replay::program(&options).expect("rules");
            for problem in &program.rules.problems {
                println!("{} left out: {problem}", self.folder.display());
            }
            for (rule, what) in program.unsupported() {
                println!("{} unsupported: {what} sid {}", self.folder.display(), rule.sid);
            }
        }
        let mut lines = Vec::new();
        let done = replay(&capture, &options, &mut |line| lines.push(line.to_owned()));
        if let Err(error) = done {
            lines.push(format!("{{\"error\":\"{error}\"}}"));
        }
        sorted(lines.iter().map(|line| short(line)))
    }

    fn expected(&self) -> Vec<String> {
        let plain = self.folder.join("expected.jsonl");
        let bytes = match fs::read(&plain) {
            Ok(bytes) => bytes,
            Err(_) => {
                let file = fs::File::open(self.folder.join("expected.jsonl.zst")).expect("alerts");
                let mut decoder = ruzstd::decoding::StreamingDecoder::new(file).expect("zstd");
                let mut bytes = Vec::new();
                decoder.read_to_end(&mut bytes).expect("zstd");
                bytes
            }
        };
        let text = String::from_utf8(bytes).expect("UTF-8");
        sorted(text.lines().map(short))
    }
}

/// What of an alert is compared.
fn short(line: &str) -> String {
    let Ok(value) = serde_json::from_str::<Value>(line) else { return line.to_owned() };
    let alert = value.get("alert").unwrap_or(&value);
    let number = |value: &Value| value.as_u64().map_or_else(|| "-".into(), |n| n.to_string());
    let sid = alert.get("signature_id").or_else(|| alert.get("sid")).cloned().unwrap_or_default();
    let text = |key: &str| value[key].as_str().unwrap_or("-").to_owned();
    format!(
        "{} {} sid {} {} {}:{} > {}:{} {} tx {} {}",
        number(&value["pcap_cnt"]),
        text("timestamp"),
        sid,
        alert["action"].as_str().unwrap_or("-"),
        text("src_ip"),
        number(&value["src_port"]),
        text("dest_ip"),
        number(&value["dest_port"]),
        text("app_proto"),
        number(&value["tx_id"]),
        text("pkt_src"),
    )
}

fn sorted(lines: impl Iterator<Item = String>) -> Vec<String> {
    let mut lines: Vec<_> = lines.collect();
    lines.sort();
    lines
}

/// How many lines are in both, each as often as it is in both.
fn shared(one: &[String], other: &[String]) -> usize {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    one.iter().for_each(|line| *counts.entry(line).or_default() += 1);
    let mut shared = 0;
    for line in other {
        if let Some(count) = counts.get_mut(line.as_str()).filter(|count| **count > 0) {
            *count -= 1;
            shared += 1;
        }
    }
    shared
}
