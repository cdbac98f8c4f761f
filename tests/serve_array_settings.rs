//! Settings that are published once and taken over by the nodes of an array.

use std::process::Command;

use crate::common::{Node, Smtp, message};
use crate::postgres::Server;

fn gauntlet(node: &Node, args: &[&str]) -> (bool, String) {
    let out = Command::new(env!("CARGO_BIN_EXE_gauntlet"))
        .args(args)
        .args(["--config", node.folder.path().join("gauntlet.toml").to_str().unwrap()])
        .env_remove("GAUNTLET_CONFIG")
        .output()
        .unwrap();
    let text = [out.stdout, out.stderr].concat();
    (out.status.success(), String::from_utf8_lossy(&text).into_owned())
}

fn done(node: &Node, args: &[&str]) -> String {
    let (good, text) = gauntlet(node, args);
    assert!(good, "{args:?}: {text}");
    text
}

fn is_said(node: &Node, name: &str, what: &str) -> bool {
    let (_, text) = gauntlet(node, &["array", "nodes"]);
    text.lines().any(|line| line.starts_with(name) && line.contains(what))
}

#[test]
fn settings_are_published_once_and_a_nodes_own_file_wins() {
    let Some(server) = Server::start(&["fsync=off"]) else { return };
    let settings = format!(
        "[array]\ndatabase = \"{}\"\nstatus_seconds = 1\npoll_seconds = 1\n[facts]\nenabled = false\n",
        server.uri()
    );
    let mut one = Node::start_named("mx1.test", &settings);
    // This one says itself where its mail goes.
    let own = "[[next_hop]]\nfor = [\"elsewhere.example\"]\nhosts = [\"127.0.0.1:1\"]\n";
    let two = Node::start_named("mx2.test", &format!("{settings}{own}"));
    let file = one.folder.path().join("site.toml");
    let publish = |text: &str, scope: &str| {
        std::fs::write(&file, text).unwrap();
        let args = ["array", "settings", "publish", file.to_str().unwrap(), "--scope", scope];
        gauntlet(&one, &args)
    };
    for (wrong, why) in [
        ("[node]\nname = \"all\"\n", "[node] is a node's own"),
        ("[digest]\nhuor = 3\n", "unknown field"),
        ("", "it is empty"),
    ] {
        let (good, said) = publish(wrong, "all");
        assert!(!good && said.contains(why), "{said}");
    }
    // Nobody listens there: what goes by it waits.
    let hop = "[[next_hop]]\nfor = [\"example.net\"]\nhosts = [\"127.0.0.1:1\"]\n";
    let (good, said) = publish(&format!("[digest]\nlink_days = 3\n{hop}"), "all");
    assert!(good && said.contains("settings 1 are published for all"), "{said}");
    one.wait_until("they are in force", || {
        ["mx1.test", "mx2.test"].iter().all(|name| is_said(&one, name, "settings 1"))
    });
    let shown = done(&one, &["config", "show"]);
    let days = shown.lines().find(|line| line.starts_with("digest.link_days")).unwrap();
    assert!(days.contains("= 3") && days.contains("settings 1 of the array"), "{days}");
    let send = |node: &Node| {
        let mut client = Smtp::connect(node.smtp).unwrap();
        let reply = client.send("ann@example.org", &["bob@example.net"], &message("one", 200));
        assert!(reply.unwrap().starts_with("250"));
    };
    send(&one);
    send(&two);
    two.wait_for_empty_queue();
    assert_eq!(two.maildir().len(), 1, "its own next hops count, not those of the array");
    one.wait_until("its mail waits", || is_said(&one, "mx1.test", "1 queued"));
    // What the node here cannot use is not published for it. What another one cannot use is refused
    // by that node alone.
    let (good, said) = publish("[digest]\nhour = 99\n", "all");
    assert!(!good && said.contains("99 is no hour: 0 to 23"), "{said}");
    let (good, said) = publish("[digest]\nhour = 99\n", "node:mx2.test");
    assert!(good && said.contains("warning: this node could not take them over"), "{said}");
    one.wait_until("it is refused", || {
        is_said(&one, "mx2.test", "newer ones are not in force")
            && is_said(&one, "mx2.test", "settings 1")
    });
    assert!(is_said(&one, "mx1.test", "settings 1") && !is_said(&one, "mx1.test", "newer ones"));
    done(&one, &["array", "settings", "withdraw", "--scope", "node:mx2.test"]);
    // A start needs no database for them.
    one.stop();
    one.run();
    assert!(done(&one, &["config", "show"]).contains("settings 1 of the array"));
    done(&one, &["array", "settings", "withdraw", "--scope", "all"]);
    one.wait_until("they are gone", || {
        !done(&one, &["config", "show"]).contains("of the array")
            && !is_said(&one, "mx1.test", "settings")
    });
    done(&one, &["array", "order", "mx1.test", "retry", "--wait"]);
    one.wait_for_empty_queue();
    assert_eq!(one.maildir().len(), 1);
    assert!(done(&one, &["array", "settings", "list"]).contains("node:mx2.test"));
}
