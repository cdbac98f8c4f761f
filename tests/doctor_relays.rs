//! `gauntlet doctor` finds what would relay for strangers, names it, and has nothing against what
//! would not.

use std::process::Command;

use crate::common::Node;

/// What doctor says about relaying with this configuration, line by line; whether it found
/// something bad.
fn relaying(node: &Node, config: &str) -> (Vec<String>, bool) {
    let path = node.folder.path().join("doctor.toml");
    let config = format!("[node]\nname = \"gw.test\"\ndata = {:?}\n{config}", node.data());
    std::fs::write(&path, config).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_gauntlet"))
        .args(["doctor", "--dns", "127.0.0.1:9", "--config"])
        .arg(&path)
        .env_remove("GAUNTLET_CONFIG")
        .output()
        .unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let about: Vec<String> =
        said.lines().filter(|l| l.contains(" relaying ")).map(str::to_owned).collect();
    let bad = about.iter().any(|line| line.starts_with("error"));
    assert!(!about.is_empty(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(!bad || output.status.code() == Some(1), "an error is in the exit code, too");
    (about, bad)
}

const OURS: &str = "[domains]\nlocal = [\"example.net\"]\n";

#[test]
fn a_node_for_our_domains_is_fine() {
    let node = Node::start(OURS);
    let listener = format!("[[listener]]\naddress = \"{}\"\n{OURS}", node.smtp);
    let (said, bad) = relaying(&node, &listener);
    assert!(!bad && said.len() == 1, "{said:?}");
    assert!(said[0].contains(&format!("{} refuses mail for strangers", node.smtp)), "{said:?}");
}

#[test]
fn what_listens_there_and_takes_mail_for_anybody_is_named() {
    // It was started without domains of its own, which loopback allows; the configuration says
    // otherwise.
    let node = Node::start("");
    let listener = format!("[[listener]]\naddress = \"{}\"\n", node.smtp);
    let (said, bad) = relaying(&node, &format!("{listener}{OURS}"));
    assert!(bad && said.len() == 1, "{said:?}");
    let named = format!("{} relays for strangers (250 2.1.5 Ok)", node.smtp);
    assert!(said[0].contains(&named), "{said:?}");
    // The configuration that it was started with gets a warning, which says why it is no error.
    let (said, bad) = relaying(&node, &listener);
    assert!(!bad && said[0].contains("allowed on loopback only"), "{said:?}");
}

#[test]
fn networks_of_strangers_are_named_and_our_own_are_fine() {
    let node = Node::start(OURS);
    let listener = |keys: &str| format!("[[listener]]\naddress = \"127.0.0.1:1\"\n{keys}\n{OURS}");
    for (key, network) in [
        ("networks", "0.0.0.0/0"),
        ("networks", "::/0"),
        ("networks", "128.0.0.0/2"),
        ("proxy_from", "0.0.0.0/0"),
        ("xclient_from", "2000::/3"),
    ] {
        let keys = format!("role = \"outbound\"\n{key} = [\"10.0.0.0/8\", \"{network}\"]");
        let (said, bad) = relaying(&node, &listener(&keys));
        assert!(bad && said.len() == 1, "{key} {network}: {said:?}");
        let named = format!(
            "127.0.0.1:1 relays for strangers: listener.{key} has {network}, and who is in it"
        );
        assert!(said[0].contains(&named), "{said:?}");
    }
    let keys = "role = \"outbound\"\nnetworks = [\"10.0.0.0/8\", \"fd00::/8\", \"192.0.2.0/24\"]";
    let (said, bad) = relaying(&node, &listener(keys));
    assert!(!bad && said.len() == 1, "{said:?}");
    assert!(said[0].contains("takes mail to anywhere from 10.0.0.0/8, fd00::/8"), "{said:?}");
}

#[test]
fn an_open_relay_for_the_internet_does_not_even_start() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("open.toml");
    std::fs::write(&path, "[[listener]]\naddress = \"0.0.0.0:2525\"\n").unwrap();
    for command in ["serve", "doctor"] {
        let output = Command::new(env!("CARGO_BIN_EXE_gauntlet"))
            .args([command, "--config"])
            .arg(&path)
            .env_remove("GAUNTLET_CONFIG")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success(), "{command}: {said}");
        assert!(said.contains("0.0.0.0:2525 would take mail for everybody"), "{command}: {said}");
    }
}
