//! `gauntlet backup` of a node that runs: a node on the copy knows all that the first one knew.

use std::process::Command;

use crate::common::{Node, Smtp, message};

#[test]
fn a_node_goes_on_from_a_backup() {
    let mut node = Node::start("");
    let spam = std::fs::read("samples/spam-pills.eml").unwrap();
    let mut client = Smtp::connect(node.smtp).unwrap();
    let mut ids = Vec::new();
    for raw in [&message("one", 300), &spam] {
        let reply = client.send("a@example.org", &["b@example.net"], raw).unwrap();
        assert!(reply.starts_with("250"), "{reply}");
        ids.push(reply.trim().rsplit(' ').next().unwrap().to_owned());
    }
    node.wait_for_empty_queue();
    let copy = node.folder.path().join("copy");
    let output = Command::new(env!("CARGO_BIN_EXE_gauntlet"))
        .args(["backup", "--config"])
        .arg(node.folder.path().join("gauntlet.toml"))
        .arg(&copy)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("databases") && copy.join("backup.json").exists(), "{said}");
    // What comes after the backup is not in it.
    client.send("a@example.org", &["b@example.net"], &message("late", 300)).unwrap();
    node.wait_for_empty_queue();
    node.stop();
    let data = format!("data = {:?}", node.data());
    node.config = node.config.replace(&data, &format!("data = {copy:?}"));
    node.password = None;
    node.run();
    assert_eq!(node.password, None, "the copy knows its people");
    node.stop();
    let log = gauntlet_store::Log::open(&copy.join("log")).unwrap();
    for id in &ids {
        assert!(log.get(id).unwrap().is_some(), "{id}");
    }
    let found = log.search(&gauntlet_store::Query::default()).unwrap();
    assert_eq!(found.messages.len(), 2);
    let held = gauntlet_store::Quarantine::open_shared(&copy.join("quarantine")).unwrap();
    let page = held.search(&gauntlet_store::quarantine::HeldQuery::default()).unwrap();
    assert_eq!(page.items.len(), 1);
    let body = held.body(&page.items[0].item.id).unwrap().unwrap();
    assert!(String::from_utf8_lossy(&body).contains("Subject: "));
}
