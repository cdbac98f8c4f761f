//! What the handbook has beside text: the fields of records, and the screencast.

use std::collections::BTreeSet;
use std::process::Command;

use crate::common::blocks::root;
use crate::common::{Node, Smtp};
use serde_json::Value;

/// Names of all fields in a record, at any depth.
fn fields(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(object) => {
            for (name, inner) in object {
                found.insert(name.clone());
                fields(inner, found);
            }
        }
        Value::Array(list) => list.iter().for_each(|inner| fields(inner, found)),
        _ => {}
    }
}

#[test]
fn every_field_of_a_records_json_is_on_the_page() {
    let node = Node::start("");
    let mut client = Smtp::connect(node.smtp).unwrap();
    let sample = std::fs::read(root().join("samples/attachments/zip-in-zip.eml")).unwrap();
    let reply = client.send("a@example.com", &["b@example.org"], &sample).unwrap();
    assert!(reply.starts_with('2'), "{reply}");
    let json = |arguments: &[&str]| -> Option<Value> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gauntlet"));
        command.args(arguments).arg("--data").arg(node.data()).env_remove("GAUNTLET_CONFIG");
        serde_json::from_slice(&command.output().unwrap().stdout).ok()
    };
    let mut found = BTreeSet::new();
    let mut id = String::new();
    node.wait_until("the log has the message", || {
        let Some(line) = json(&["messages", "--json"]) else { return false };
        fields(&line, &mut found);
        line["id"].as_str().unwrap_or_default().clone_into(&mut id);
        true
    });
    fields(&json(&["trace", &id, "--json"]).unwrap(), &mut found);
    node.wait_until("the quarantine has it", || {
        let held = json(&["quarantine", "list", "--json"]);
        held.is_some_and(|held| {
            fields(&held, &mut found);
            true
        })
    });
    let page = std::fs::read_to_string(root().join("docs/reference/log-fields.md")).unwrap();
    // Around the records, not in them.
    let around = ["message", "events"];
    found.retain(|name| !page.contains(&format!("| `{name}` |")));
    found.retain(|name| !around.contains(&name.as_str()));
    assert!(found.is_empty(), "docs/reference/log-fields.md does not have {found:?}");
}

#[test]
fn the_screencast_is_whole() {
    let text = std::fs::read_to_string(root().join("docs/screencast/tour.cast")).unwrap();
    let mut lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let header = lines.next().unwrap();
    assert_eq!((&header["version"], &header["width"]), (&Value::from(2), &Value::from(100)));
    let (mut before, mut shown) = (0.0, String::new());
    for event in lines {
        let at = event[0].as_f64().unwrap();
        assert!(at >= before && event[1] == "o", "{event}");
        shown += event[2].as_str().unwrap();
        before = at;
    }
    for said in ["gauntlet scan --explain", "released to 1 recipient", "EICAR-Test-File"] {
        assert!(shown.contains(said), "{said}");
    }
}

/// The table of formats has the versions that the code writes and reads.
#[test]
fn versions_of_formats_are_those_of_the_code() {
    let text = std::fs::read_to_string("docs/data-formats.md").unwrap();
    let rows: Vec<Vec<&str>> = text
        .lines()
        .filter(|line| line.starts_with("| "))
        .map(|line| line.split('|').map(str::trim).collect())
        .collect();
    let mut compared = 0;
    for format in gauntlet_gateway::data_formats::ALL.iter().copied().flatten() {
        // Several files of one kind have one row.
        let Some(row) = rows.iter().find(|row| row[1].starts_with(format.name)) else { continue };
        let numbers = |text: &str| -> Vec<u32> {
            text.split(|c: char| !c.is_ascii_digit()).filter_map(|word| word.parse().ok()).collect()
        };
        let read = numbers(row[5]);
        let said = (numbers(row[4]), read.first().copied(), read.last().copied());
        let is = (vec![format.known], Some(format.oldest), Some(format.known));
        assert_eq!(said, is, "{}: {row:?}", format.name);
        compared += 1;
    }
    assert!(compared >= 12, "{compared} formats have a row");
}
