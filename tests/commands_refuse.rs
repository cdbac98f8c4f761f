//! Commands that would destroy something, or go on without what they need, refuse and say why.

use std::path::Path;
use std::process::{Command, Output};

use crate::common::{Node, Smtp, message};

fn gauntlet(folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gauntlet"));
    command.current_dir(folder).env_remove("GAUNTLET_CONFIG").args(args).output().unwrap()
}

fn error(output: &Output) -> String {
    assert!(!output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A node that holds what ann@example.org sends, sealed.
fn holding() -> Node {
    let folder = tempfile::tempdir().unwrap();
    let policy = folder.path().join("hold.toml");
    let rule = "[[rule]]\nname = \"hold\"\nwhen.sender = \"ann@example.org\"\n\
                do = { quarantine = \"suspect\" }\n";
    std::fs::write(&policy, rule).unwrap();
    let settings = format!("[policy]\npath = {policy:?}\n[quarantine]\nencrypt = true\n");
    let node = Node::start_in(folder, &settings);
    let mut client = Smtp::connect(node.smtp).unwrap();
    let reply = client.send("ann@example.org", &["bob@example.net"], &message("held", 200));
    assert!(reply.unwrap().starts_with("250"));
    node.wait_for_empty_queue();
    node
}

#[test]
fn a_node_whose_keys_of_held_mail_are_gone_does_not_begin_with_others() {
    let mut node = holding();
    node.stop();
    let (folder, keys) = (node.folder.path().to_owned(), node.data().join("quarantine.keys"));
    let away = folder.join("away");
    std::fs::rename(&keys, &away).unwrap();
    for command in [&["serve"][..], &["quarantine", "list"]] {
        let config = ["--config", "gauntlet.toml"];
        let said = error(&gauntlet(&folder, &[command, &config].concat()));
        assert!(said.contains("quarantine.keys is gone") && said.contains("backup"), "{said}");
        assert!(!keys.exists(), "no other keys are made");
    }
    std::fs::rename(&away, &keys).unwrap();
    node.run();
}

#[test]
fn a_backup_is_not_made_where_the_next_would_carry_it_along() {
    let node = holding();
    let folder = node.folder.path();
    let backup = |to: &str| gauntlet(folder, &["backup", to, "--config", "gauntlet.toml"]);
    let inside = node.data().join("new/one");
    let said = error(&backup(inside.to_str().unwrap()));
    assert!(said.contains("is inside the data folder") && !inside.exists(), "{said}");
    assert!(backup("monday").status.success());
    let said = error(&backup("monday/tuesday"));
    assert!(said.contains("is inside the backup"), "{said}");
    assert!(backup("tuesday").status.success());
}

#[test]
fn a_deletion_by_command_stands_in_the_log() {
    let node = holding();
    let folder = node.folder.path();
    let config = ["--config", "gauntlet.toml"];
    let listed = gauntlet(folder, &[&["quarantine", "list", "--json"][..], &config].concat());
    let first: serde_json::Value =
        serde_json::from_slice(listed.stdout.split(|byte| *byte == b'\n').next().unwrap()).unwrap();
    let id = first["id"].as_str().or(first["item"]["id"].as_str()).unwrap();
    let deleted = gauntlet(folder, &[&["quarantine", "delete", id][..], &config].concat());
    assert!(deleted.status.success(), "{deleted:?}");
    let told = gauntlet(folder, &[&["trace", id][..], &config].concat());
    let told = String::from_utf8_lossy(&told.stdout).into_owned();
    assert!(told.contains("deleted") && told.contains("by command line"), "{told}");
}

#[test]
fn a_list_of_urls_is_not_replaced_by_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::write(folder.join("bad.txt"), "bad.example\n").unwrap();
    std::fs::write(folder.join("page.html"), "<html><body>404</body></html>\n").unwrap();
    let compile =
        |source: &str, out: &str| gauntlet(folder, &["urls", "compile", "--out", out, source]);
    assert!(compile("bad.txt", "bad.urls").status.success());
    let before = std::fs::read(folder.join("bad.urls")).unwrap();
    let said = error(&compile("page.html", "bad.urls"));
    assert!(said.contains("bad.urls is left as it was"), "{said}");
    assert_eq!(std::fs::read(folder.join("bad.urls")).unwrap(), before);
    let said = error(&compile("bad.txt", "bad.txt"));
    assert!(said.contains("is one of the sources"), "{said}");
    assert_eq!(std::fs::read(folder.join("bad.txt")).unwrap(), b"bad.example\n");
}

#[test]
fn a_variable_without_a_value_names_no_configuration() {
    let sample = concat!(env!("CARGO_MANIFEST_DIR"), "/samples/spam-pills.eml");
    let mut command = Command::new(env!("CARGO_BIN_EXE_gauntlet"));
    let done = command.env("GAUNTLET_CONFIG", "").args(["scan", sample]).output().unwrap();
    assert!(done.status.success(), "{done:?}");
}

#[test]
fn nothing_is_learned_of_an_empty_file() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("data")).unwrap();
    std::fs::write(folder.path().join("empty.eml"), "").unwrap();
    for option in ["--spam", "--ham", "--probe", "--forget"] {
        for file in ["/dev/null", "empty.eml"] {
            let refused = gauntlet(folder.path(), &["learn", "--data", "data", option, file]);
            let why = error(&refused);
            assert!(why.contains(&format!("{file}: it is empty")), "{option}: {why}");
        }
    }
}
