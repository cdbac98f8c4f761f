//! A policy is tried on the mail that a real node has logged, before it goes live.

use std::path::Path;
use std::process::{Command, Output};

use crate::common::{Node, Smtp};
use gauntlet_policy::Policy;

fn replay(node: &Node, policy: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_gauntlet"))
        .args(["policy", "replay"])
        .arg(policy)
        .arg("--data")
        .arg(node.data())
        .args(args)
        .env_remove("GAUNTLET_CONFIG")
        .output()
        .unwrap()
}

fn json(output: &Output) -> serde_json::Value {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn the_mail_of_a_node_is_replayed() {
    let mut node = Node::start("");
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("samples");
    let mut client = Smtp::connect(node.smtp).unwrap();
    for name in ["ham-lunch", "ham-invoice", "bulk-newsletter", "spam-pills", "malware-eicar"] {
        let body = std::fs::read(samples.join(format!("{name}.eml"))).unwrap();
        let reply = client.send("a@example.net", &["you@example.org"], &body).unwrap();
        assert!(reply.starts_with('2') || reply.starts_with("550"), "{name}: {reply}");
    }
    node.wait_for_empty_queue();
    // While it runs, and after it has stopped.
    let policy = node.folder.path().join("new.toml");
    std::fs::write(&policy, Policy::DEFAULT).unwrap();
    let same = json(&replay(&node, &policy, &["--json"]));
    assert_eq!((&same["messages"], &same["same"]), (&5.into(), &5.into()), "{same}");
    node.stop();

    let strict =
        "[[rule]]\nname = \"No newsletters\"\nwhen.class = \"bulk\"\ndo = { hold = \"bulk\" }\n";
    std::fs::write(&policy, format!("{strict}{}", Policy::DEFAULT)).unwrap();
    let page = node.folder.path().join("page.html");
    let found = json(&replay(&node, &policy, &["--json", "--html", page.to_str().unwrap()]));
    assert_eq!((&found["same"], &found["different"]), (&4.into(), &1.into()), "{found}");
    assert_eq!(found["rules"]["No newsletters"], 1);
    let change = &found["changes"][0];
    assert_eq!((&change["would_be"], &change["withheld"]), (&"hold:bulk".into(), &true.into()));
    assert!(std::fs::read_to_string(page).unwrap().contains("No newsletters"));
    let text = String::from_utf8(replay(&node, &policy, &[]).stdout).unwrap();
    assert!(text.contains("deliver -> hold:bulk") && text.contains("4 the same"), "{text}");

    // A new rule about what was not kept is unknown for delivered mail, decided for held mail.
    let looks = "[[rule]]\nname = \"Links\"\nwhen.url_host = \"*.example.top\"\ndo = \"discard\"\n";
    std::fs::write(&policy, format!("{looks}{}", Policy::DEFAULT)).unwrap();
    let found = json(&replay(&node, &policy, &["--json", "--rescan"]));
    assert_eq!((&found["whole"], &found["unknown"]["Links"]), (&2.into(), &3.into()), "{found}");
    assert_eq!(found["transitions"].as_object().unwrap().len(), 1, "{found}");
    assert_eq!(found["changes"][0]["would_be"], "discard", "{found}");
}

#[test]
fn held_mail_is_opened_again() {
    let folder = tempfile::tempdir().unwrap();
    let all = "[[rule]]\nname = \"All\"\ndo = { hold = \"all\" }\n";
    let policy = folder.path().join("policy.toml");
    std::fs::write(&policy, all).unwrap();
    let mut node =
        Node::start(&format!("[content]\nenabled = false\n[policy]\npath = {policy:?}\n"));
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("samples/attachments/zip-in-zip.eml");
    let mut client = Smtp::connect(node.smtp).unwrap();
    let body = std::fs::read(sample).unwrap();
    let reply = client.send("a@example.net", &["you@example.org"], &body).unwrap();
    assert!(reply.starts_with("250"), "{reply}");
    node.wait_for_empty_queue();
    node.stop();
    let rules = "[[rule]]\nname = \"Inside\"\nwhen.object = { path = \"*.zip/invoice.com\" }\n\
                 do = { quarantine = \"inside\" }\n";
    std::fs::write(&policy, format!("{rules}{all}")).unwrap();
    let before = folder.path().join("before.toml");
    std::fs::write(&before, all).unwrap();
    let before = ["--json", "--before", before.to_str().unwrap()];
    let found = json(&replay(&node, &policy, &before));
    assert_eq!(found["different"], 0, "nothing was opened then: {found}");
    let found = json(&replay(&node, &policy, &[&before[..], &["--rescan"]].concat()));
    assert_eq!((&found["different"], &found["rules"]["Inside"]), (&1.into(), &1.into()), "{found}");
    assert_eq!(found["changes"][0]["class"], "malware", "{found}");
}

#[test]
fn what_cannot_be_replayed_is_said() {
    let node = Node::start("");
    let policy = node.folder.path().join("bad.toml");
    std::fs::write(&policy, "[[rule]]\nname = \"x\"\nwhen.clas = \"spam\"\ndo = \"discard\"\n")
        .unwrap();
    let output = replay(&node, &policy, &[]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && error.contains("line 3"), "{error}");
    std::fs::write(&policy, Policy::DEFAULT).unwrap();
    let none = Command::new(env!("CARGO_BIN_EXE_gauntlet"))
        .args(["policy", "replay"])
        .arg(&policy)
        .arg("--data")
        .arg(node.folder.path())
        .output()
        .unwrap();
    assert!(String::from_utf8_lossy(&none.stderr).contains("no message log"));
}
