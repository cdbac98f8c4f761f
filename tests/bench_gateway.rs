//! `gauntlet bench gateway` through a real node.

use std::process::Command;

use crate::common::{Node, message};

/// Mail that is good and differs.
fn mail() -> tempfile::TempDir {
    let mail = tempfile::tempdir().unwrap();
    for i in 0..10 {
        std::fs::write(mail.path().join(format!("{i}.eml")), message(&format!("g{i}"), i * 900))
            .unwrap();
    }
    mail
}

#[test]
fn load_is_dealt_out_to_several_nodes() {
    let mail = mail();
    let listen = crate::common::postfix::free_address();
    let nodes = [0, 1].map(|_| Node::start(&format!("[route]\nnext_hop = \"{listen}\"\n")));
    let gateways = format!("{},{}", nodes[0].smtp, nodes[1].smtp);
    let run = |more: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_gauntlet"))
            .args(["bench", "gateway", &gateways])
            .arg(mail.path())
            .args(["--listen", &listen.to_string(), "--json", "--window", "10"])
            .args(["--seconds", "2", "--warm-up", "0", "--sample", "1", "--patience", "5"])
            .args(more)
            .output()
            .unwrap()
    };
    let output = run(&[]);
    let errors = String::from_utf8_lossy(&output.stderr);
    let value: serde_json::Value = serde_json::from_slice(&output.stdout).expect(&errors);
    let each = value["gateways"].as_array().unwrap();
    let accepted: Vec<u64> = each.iter().map(|g| g["accepted"].as_u64().unwrap()).collect();
    assert!(accepted.len() == 2 && accepted.iter().all(|n| *n > 0), "{value}");
    assert_eq!(accepted.iter().sum::<u64>(), value["accounts"]["accepted"].as_u64().unwrap());
    let output = run(&["--instances", "1"]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("each of the 2 gateways needs a load generator"), "{errors}");
}

#[test]
fn every_message_through_a_node_is_accounted_for() {
    let mail = mail();
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
