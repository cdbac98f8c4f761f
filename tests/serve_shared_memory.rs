//! Files that SQLite keeps beside a database (`-shm`) vanish under a running node: somebody tidied
//! up, or copied a backup over it. The node goes on, and what was said to be kept is there after
//! the next start.

use std::process::Command;

use crate::common::{Node, Smtp, message};

fn gauntlet(node: &Node, args: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gauntlet"));
    command.args(args).arg("--config").arg(node.folder.path().join("gauntlet.toml"));
    let output = command.env_remove("GAUNTLET_CONFIG").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

fn remove_shared_memory(folder: &std::path::Path) -> usize {
    let mut removed = 0;
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            removed += remove_shared_memory(&path);
        } else if path.to_string_lossy().ends_with("-shm") {
            std::fs::remove_file(&path).unwrap();
            removed += 1;
        }
    }
    removed
}

#[test]
fn a_node_goes_on_when_shared_memory_vanishes() {
    let mut node = Node::start("");
    let mut sent = 0;
    let mut send = |node: &Node| {
        let mut client = Smtp::connect(node.smtp).unwrap();
        for _ in 0..3 {
            sent += 1;
            let text = message(&format!("shm{sent}"), 300);
            let reply = client.send("ann@example.org", &["bob@example.net"], &text).unwrap();
            assert!(reply.starts_with("250"), "{reply}");
        }
        node.wait_for_empty_queue();
    };
    send(&node);
    for _ in 0..2 {
        assert!(remove_shared_memory(&node.data()) > 0);
        send(&node);
        gauntlet(&node, &["messages"]);
        gauntlet(&node, &["user", "list"]);
        gauntlet(&node, &["quarantine", "list"]);
        send(&node);
    }
    node.stop();
    node.run();
    let log = gauntlet(&node, &["messages", "--json"]);
    assert_eq!(log.lines().count(), sent, "{log}");
    assert!(gauntlet(&node, &["user", "list"]).contains("admin"));
}
