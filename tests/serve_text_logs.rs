//! Text logs of Receiver, Engine and Sender: a line a message each, kept for some days.

use std::path::Path;

use crate::common::{Node, Smtp, message};

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
