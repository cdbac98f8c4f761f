//! The policy of a running node is changed and changed back, and counts from the next message on.

use std::process::{Command, Output};

use crate::common::{Node, Smtp, message};

const NOBODY: &str = "[[rule]]\nname = \"Nobody\"\nwhen.sender = \"ann@example.org\"\ndo = { reject = \"no {id}\" }\n";

fn policy(node: &Node, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_gauntlet"))
        .arg("policy")
        .args(args)
        .args(["--config", node.folder.path().join("gauntlet.toml").to_str().unwrap()])
        .env_remove("GAUNTLET_CONFIG")
        .env("USER", "ada")
        .output()
        .unwrap()
}

fn done(node: &Node, args: &[&str]) -> String {
    let output = policy(node, args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn reply(node: &Node, token: &str) -> String {
    let mut client = Smtp::connect(node.smtp).unwrap();
    client.send("ann@example.org", &["b@example.net"], &message(token, 200)).unwrap()
}

#[test]
fn a_change_counts_at_once_and_is_undone_in_one_step() {
    let mut node = Node::start("");
    let file = node.folder.path().join("new.toml");
    std::fs::write(&file, NOBODY).unwrap();
    let file = file.to_str().unwrap();
    assert!(reply(&node, "before").starts_with("250"));
    let said = done(&node, &["apply", file, "--note", "away with ann"]);
    assert_eq!(said, "version 2\napplied by the running node\n");
    assert!(reply(&node, "refused").starts_with("550"));
    let mail = node.folder.path().join("mail.eml");
    std::fs::write(&mail, message("explained", 200)).unwrap();
    let why = done(&node, &["explain", mail.to_str().unwrap(), "--from", "ann@example.org"]);
    assert!(why.contains("reject") && why.contains("+ Nobody"), "the policy in force: {why}");
    let history = done(&node, &["history"]);
    assert!(
        history.contains("ada (command line)") && history.contains("away with ann"),
        "{history}"
    );
    assert_eq!(history.lines().count(), 2, "{history}");
    assert_eq!(done(&node, &["show"]), NOBODY);
    assert!(done(&node, &["show", "2", "--diff"]).contains("+name = \"Nobody\""));
    assert!(done(&node, &["rollback"]).starts_with("version 3\n"));
    assert!(reply(&node, "after").starts_with("250"));
    assert_eq!(done(&node, &["show"]), done(&node, &["show", "1"]));
    assert_eq!(done(&node, &["show", "--against", "1"]), "");
    let json = done(&node, &["history", "--json"]);
    assert!(json.starts_with("{\"number\":3,"), "{json}");
    // Also while the node is down, for its next start.
    node.stop();
    let said = done(&node, &["rollback", "2"]);
    assert!(said.contains("it applies from the next start on"), "{said}");
    node.run();
    assert!(reply(&node, "again").starts_with("550"));
    for (args, why) in [
        (&["rollback", "99"][..], "there is no version 99"),
        (&["show", "99"][..], "there is no version 99"),
        (&["apply", "/nowhere/p.toml"][..], "/nowhere/p.toml"),
    ] {
        let output = policy(&node, args);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && error.contains(why), "{args:?}: {error}");
    }
    std::fs::write(file, "[[rule]]\nname = \"x\"\nwhen.clas = \"spam\"\ndo = \"discard\"\n")
        .unwrap();
    let output = policy(&node, &["apply", file]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("line 3"));
    assert!(reply(&node, "still").starts_with("550"), "a refused policy changes nothing");
}

#[test]
fn a_file_of_ones_own_is_written_and_its_edits_are_versions() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("policy.toml");
    let open = "[[rule]]\nname = \"all\"\ndo = \"deliver\"\n";
    std::fs::write(&file, open).unwrap();
    let mut node = Node::start(&format!("[policy]\npath = {file:?}"));
    assert!(reply(&node, "open").starts_with("250"));
    // By hand, and SIGHUP.
    std::fs::write(&file, NOBODY).unwrap();
    node.signal("-HUP");
    node.wait_until("the edit counts", || reply(&node, "edit").starts_with("550"));
    node.wait_until("the edit is a version", || done(&node, &["history"]).lines().count() == 2);
    assert!(done(&node, &["history"]).contains("found in the file"));
    assert!(done(&node, &["rollback"]).starts_with("version 3\n"));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), open);
    assert!(reply(&node, "open again").starts_with("250"));
    node.stop();
}
