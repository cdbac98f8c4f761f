//! Text logs of Receiver, Engine and Sender: a line a message each, kept for some days.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value;

use crate::common::{Node, Smtp, blocks, message};

/// The text of all files of a role.
fn text(logs: &Path, role: &str) -> String {
    let files = std::fs::read_dir(logs).unwrap().map(|e| e.unwrap().path());
    let of_role =
        files.filter(|f| f.file_name().is_some_and(|n| n.to_string_lossy().starts_with(role)));
    of_role.map(|f| std::fs::read_to_string(f).unwrap()).collect()
}

#[test]
fn each_stage_logs_a_message_by_its_id() {
    let mut node = Node::start("[log]\nlevel = \"info\"\n");
    let logs = node.data().join("logs");
    // Older files than are kept go when the node starts.
    node.stop();
    std::fs::remove_dir_all(&logs).unwrap();
    std::fs::create_dir(&logs).unwrap();
    for day in 1..=9 {
        std::fs::write(logs.join(format!("engine.2001-01-0{day}.log")), "old\n").unwrap();
    }
    node.run();
    let files = std::fs::read_dir(&logs).unwrap().map(|e| e.unwrap().file_name());
    assert_eq!(files.filter(|f| f.to_string_lossy().starts_with("engine.")).count(), 6);
    let mut client = Smtp::connect(node.smtp).unwrap();
    let reply = client.send("ann@example.org", &["bob@example.net"], &message("log", 300)).unwrap();
    assert!(reply.starts_with("250"), "{reply}");
    let id = reply.trim_end().rsplit(' ').next().unwrap().to_owned();
    node.wait_for_empty_queue();
    for (role, what) in [("receiver", "answered"), ("engine", "judged"), ("sender", "message")] {
        node.wait_until(&format!("{role} has its line"), || {
            text(&logs, role).lines().any(|line| line.contains(&id) && line.contains(what))
        });
    }
    let line = text(&logs, "receiver");
    assert!(line.contains("from=\"ann@example.org\"") && line.contains("client=127."), "{line}");
    assert!(!node.log().contains("\"judged\""), "standard error has one line a final outcome");
}

#[test]
fn without_days_nothing_is_written() {
    let node = Node::start("[log]\ntext_days = 0\n");
    let mut client = Smtp::connect(node.smtp).unwrap();
    let reply = client.send("a@example.org", &["b@example.net"], &message("x", 100)).unwrap();
    assert!(reply.starts_with("250"), "{reply}");
    assert!(!node.data().join("logs").exists());
}

/// The rows of the table of `docs/monitoring.md` with this head: the first word in backquotes of
/// each, and those of its last column.
fn documented(head: &str) -> BTreeMap<String, BTreeSet<String>> {
    let page = std::fs::read_to_string(blocks::root().join("docs/monitoring.md")).unwrap();
    let (_, table) = page.split_once(head).unwrap_or_else(|| panic!("no table {head:?}"));
    let rows = table.lines().skip(2).take_while(|line| line.starts_with("| `"));
    let words = |cell: &str| -> BTreeSet<String> {
        cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
    };
    let row = |line: &str| {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").collect();
        let names = words(cells[0]).into_iter().map(|name| (name, words(cells[cells.len() - 1])));
        names.collect::<Vec<_>>()
    };
    rows.flat_map(row).collect()
}

#[test]
fn lines_of_a_message_have_the_fields_that_the_page_names() {
    let level = "info,receiver=info,engine=info";
    let node = Node::start(&format!("[log]\nlevel = \"{level}\"\nformat = \"json\"\n"));
    let mut client = Smtp::connect(node.smtp).unwrap();
    client.send("ann@example.org", &["bob@example.net"], &message("fields", 300)).unwrap();
    node.wait_for_empty_queue();
    let common = documented("| Field | Meaning |");
    let always = ["timestamp", "level", "message", "target"];
    for (event, named) in documented("| `message` | Log | Fields |") {
        let line = || {
            let log = node.log();
            let mut lines = log.lines().filter_map(|l| serde_json::from_str::<Value>(l).ok());
            lines.rfind(|line| line["message"] == event.as_str())
        };
        node.wait_until(&format!("a line {event}"), || line().is_some());
        let line = line().unwrap();
        let found: BTreeSet<String> = line.as_object().unwrap().keys().cloned().collect();
        for field in always {
            assert!(found.contains(field) && common.contains_key(field), "{field}: {line}");
        }
        let own = found.into_iter().filter(|field| !always.contains(&field.as_str()));
        assert_eq!(own.collect::<BTreeSet<_>>(), named, "fields of {event}: {line}");
    }
}
