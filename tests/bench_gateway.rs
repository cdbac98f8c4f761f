//! `gauntlet bench gateway` through a real node.

use std::process::Command;

use crate::common::{Node, message};

#[test]
fn every_message_through_a_node_is_accounted_for() {
    let mail = tempfile::tempdir().unwrap();
    for i in 0..10 {
        std::fs::write(mail.path().join(format!("{i}.eml")), message(&format!("g{i}"), i * 900))
            .unwrap();
    }
    let spam = "Subject: x\r\n\r\nXJS*C4JDBQADN1.NSBN3*2IDNEN*GTUBE-STANDARD-ANTI-UBE-TEST-EMAIL*C.34X\r\n";
    std::fs::write(mail.path().join("spam.eml"), spam).unwrap();
    let listen = crate::common::postfix::free_address();
    let node = Node::start(&format!("[route]\nnext_hop = \"{listen}\"\n"));
    let output = Command::new(env!("CARGO_BIN_EXE_gauntlet"))
        .args(["bench", "gateway", &node.smtp.to_string()])
        .arg(mail.path())
        .args(["--listen", &listen.to_string(), "--json", "--instances", "2", "--window", "20"])
        .args(["--seconds", "3", "--warm-up", "0", "--sample", "1", "--patience", "4"])
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    let value: serde_json::Value = serde_json::from_slice(&output.stdout).expect(&errors);
    let count = |name: &str| value["accounts"][name].as_u64().unwrap();
    assert!(count("returned") > 0, "{value}");
    assert_eq!(count("accepted"), count("returned") + count("held"), "{value}");
    assert_eq!(count("duplicates") + count("strange") + count("unanswered"), 0, "{value}");
    node.wait_for_empty_queue();
    let share = value["held_share"].as_f64().unwrap();
    assert_eq!(share > 0.0, count("held") > 0, "{value}");
    // Spam is refused where it goes to nobody else, or held; both are on the books.
    assert!(count("held") + count("refused") > 0, "{value}");
}
