//! What others watch a node by: the reference of its metrics, the dashboard and the alerts, each
//! compared with what a node with everything switched on shows.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::common::channels::Publisher;
use crate::common::{Node, http_get, program};

fn monitoring(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging/monitoring").join(file)
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// A metric as a page of a node has it.
#[derive(Debug, Default)]
struct Family {
    kind: String,
    help: String,
    /// Names of labels of its values, but for the bounds of histograms.
    labels: BTreeSet<String>,
    has_values: bool,
}

/// Families by name. What belongs to none, and what is told twice, is a fault.
fn families(page: &str) -> BTreeMap<String, Family> {
    let mut all: BTreeMap<String, Family> = BTreeMap::new();
    for line in page.lines() {
        if let Some((name, help)) = line.strip_prefix("# HELP ").and_then(|l| l.split_once(' ')) {
            help.clone_into(&mut all.entry(name.to_owned()).or_default().help);
        } else if let Some((name, kind)) =
            line.strip_prefix("# TYPE ").and_then(|l| l.split_once(' '))
        {
            let family = all.entry(name.to_owned()).or_default();
            assert_eq!(family.kind, "", "{name} has two types");
            kind.clone_into(&mut family.kind);
        } else {
            let name = family_of(&line[..line.find(['{', ' ']).expect("a value")], &all);
            let family = all.get_mut(&name).unwrap_or_else(|| panic!("no type of {line}"));
            family.has_values = true;
            let labels = line.split_once('{').and_then(|(_, rest)| rest.rsplit_once('}'));
            for label in labels.map_or("", |(labels, _)| labels).split("\",") {
                let label = label.split_once('=').map_or("", |(label, _)| label);
                if !["", "le"].contains(&label) {
                    family.labels.insert(label.to_owned());
                }
            }
        }
    }
    all
}

/// The family of a value: histograms have three names of values.
fn family_of(value: &str, all: &BTreeMap<String, Family>) -> String {
    let mut parts = ["_bucket", "_sum", "_count"].iter().filter_map(|end| value.strip_suffix(end));
    let is_histogram = |name: &&str| all.get(*name).is_some_and(|f| f.kind == "histogram");
    parts.find(is_histogram).unwrap_or(value).to_owned()
}

/// A node that has everything that shows metrics of its own.
fn node_with_everything() -> (Publisher, Publisher, Node) {
    let (followed, published) = (Publisher::new(), Publisher::new());
    let keys = published.path("keys");
    std::fs::rename(keys.join("root-1.pem"), published.path("root-1.pem")).unwrap();
    let policy = followed.path("policy.toml");
    let rules = "[[web_quota]]\nname = \"news\"\nminutes = 30\n\
                 [[web_rule]]\nname = \"enough\"\nwhen = { quota = \"news\" }\ndo = { block = \"x\" }\n";
    std::fs::write(&policy, rules).unwrap();
    let hashes = followed.path("hashes.txt");
    std::fs::write(&hashes, format!("{} Known\n", "0a".repeat(32))).unwrap();
    let listeners: String = ["proxy", "transparent", "icap", "dns"]
        .iter()
        .map(|role| format!("[[listener]]\nrole = \"{role}\"\naddress = \"127.0.0.1:0\"\n"))
        .collect();
    let (channel, follow) = (published.channel(), followed.settings("main", &followed.url()));
    let config = format!(
        "[facts]\nenabled = false\n[policy]\npath = {policy:?}\n{listeners}{follow}\
         [[engine]]\nname = \"known\"\nkind = \"hash_list\"\npaths = [{hashes:?}]\n\
         [ips]\ninterface = \"lo\"\n[[ips.rule]]\nname = \"rest\"\ndo = \"allow\"\n\
         [channel_publish]\nfolder = {channel:?}\nkeys = {keys:?}\n\
         [array]\ndatabase = \"postgres://nobody@127.0.0.1:1/none?sslmode=disable\"\n"
    );
    let node = Node::start(&config);
    let shows = |page: &str, value: &str| page.lines().any(|line| line.starts_with(value));
    node.wait_until("all parts of the node have begun", || {
        let page = http_get(node.console, "/metrics");
        [
            "gauntlet_ips_up 1",
            "gauntlet_ips_policy_decisions_total{",
            "gauntlet_channel_version{",
            "gauntlet_channel_publish_version ",
            "gauntlet_array_shared_age_seconds{",
        ]
        .iter()
        .all(|value| shows(&page, value))
    });
    (followed, published, node)
}

/// Rows of the tables of the page whose first cell is a metric: name, type, labels.
fn reference() -> BTreeMap<String, (String, BTreeSet<String>)> {
    let page = read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/monitoring.md"));
    let mut rows = BTreeMap::new();
    for line in page.lines().filter(|line| line.starts_with("| `gauntlet_")) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let name = cells[0].trim_matches('`').to_owned();
        let labels = cells[2].split(',').map(|label| label.trim().trim_matches('`').to_owned());
        let labels = labels.filter(|label| !label.is_empty()).collect();
        let before = rows.insert(name.clone(), (cells[1].to_owned(), labels));
        assert!(before.is_none(), "{name} stands twice in docs/monitoring.md");
    }
    rows
}

/// Names of metrics in a file.
fn names_in(text: &str) -> BTreeSet<String> {
    let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    text.split(|c: char| !is_name(c))
        .filter(|word| word.starts_with("gauntlet_"))
        .map(str::to_owned)
        .collect()
}

/// Expressions of the dashboard, with times in place of Grafana's variables.
fn expressions(dashboard: &str) -> Vec<String> {
    fn walk(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(fields) => {
                for (name, value) in fields {
                    match value.as_str().filter(|_| name == "expr") {
                        Some(expression) => found.push(expression.to_owned()),
                        None => walk(value, found),
                    }
                }
            }
            Value::Array(values) => values.iter().for_each(|value| walk(value, found)),
            _ => {}
        }
    }
    let mut found = Vec::new();
    walk(&serde_json::from_str(dashboard).expect("JSON"), &mut found);
    assert!(found.len() > 20, "the walk finds expressions: {found:?}");
    found.iter().map(|e| e.replace("$__rate_interval", "5m")).collect()
}

#[test]
fn reference_dashboard_and_alerts_name_what_a_node_shows() {
    if !gauntlet_gateway::privileges::is_root() {
        assert!(std::env::var_os("CI").is_none(), "packets need root");
        eprintln!("skipped: a node that inspects packets needs root");
        return;
    }
    let (_followed, _published, node) = node_with_everything();
    let shown = families(&http_get(node.console, "/metrics"));
    let told = reference();
    let mut faults = Vec::new();
    for (name, family) in &shown {
        if family.help.is_empty() {
            faults.push(format!("{name} has no help"));
        }
        let Some((kind, labels)) = told.get(name) else {
            faults.push(format!("docs/monitoring.md does not name {name} ({})", family.kind));
            continue;
        };
        if *kind != family.kind || (family.has_values && *labels != family.labels) {
            faults.push(format!("docs/monitoring.md: {name} is {family:?}"));
        }
    }
    let gone = told.keys().filter(|name| !shown.contains_key(*name));
    faults.extend(gone.map(|name| format!("docs/monitoring.md: no node shows {name}")));
    for file in ["alerts.yaml", "alerts-test.yaml", "grafana-dashboard.json"] {
        for name in names_in(&read(&monitoring(file))) {
            if !shown.contains_key(&family_of(&name, &shown)) {
                faults.push(format!("{file}: no node shows {name}"));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn prometheus_accepts_the_alerts_and_they_fire_as_they_say() {
    let Some(promtool) = program("promtool") else { return };
    let check = |arguments: &[&str], file: &Path| {
        let out = Command::new(&promtool).args(arguments).arg(file).output().unwrap();
        let said = String::from_utf8_lossy(&[out.stdout, out.stderr].concat()).into_owned();
        assert!(out.status.success(), "{}: {said}", file.display());
    };
    check(&["check", "rules"], &monitoring("alerts.yaml"));
    check(&["test", "rules"], &monitoring("alerts-test.yaml"));
    // Each expression of the dashboard as a rule, so that Prometheus parses it.
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("dashboard.yaml");
    let mut rules = "groups:\n- name: dashboard\n  rules:\n".to_owned();
    for (n, expr) in expressions(&read(&monitoring("grafana-dashboard.json"))).iter().enumerate() {
        rules
            .push_str(&format!("  - record: dashboard:e{n}\n    expr: {}\n", Value::from(&**expr)));
    }
    std::fs::write(&file, rules).unwrap();
    check(&["check", "rules", "--lint=none"], &file);
}

#[test]
fn every_alert_has_a_test_and_says_what_to_do() {
    let (alerts, tests) = (read(&monitoring("alerts.yaml")), read(&monitoring("alerts-test.yaml")));
    let page = read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/monitoring.md"));
    let names: Vec<&str> =
        alerts.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
    assert!(names.len() >= 15, "{names:?}");
    for name in &names {
        assert!(tests.contains(&format!("alertname: {name}\n")), "no test of {name}");
        assert!(page.contains(&format!("| `{name}` |")), "docs/monitoring.md lacks {name}");
    }
    for field in ["severity:", "summary:", "description:"] {
        let count = alerts.lines().filter(|line| line.trim().starts_with(field)).count();
        assert_eq!(count, names.len(), "{field} of each alert");
    }
}
