//! `gauntlet array export` and `gauntlet doctor` of a node in an array.

use std::path::Path;
use std::process::{Command, Output};

use crate::common::{Node, Smtp, message};
use crate::postgres::Server;

fn gauntlet(config: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_gauntlet"))
        .args(args)
        .args(["--config", config.to_str().unwrap()])
        .env_remove("GAUNTLET_CONFIG")
        .output()
        .unwrap()
}

fn said(output: &Output) -> String {
    let text = [output.stdout.as_slice(), output.stderr.as_slice()].concat();
    String::from_utf8_lossy(&text).into_owned()
}

/// What doctor says of the array, line by line.
fn examined(config: &Path) -> Vec<(String, String)> {
    let output = gauntlet(config, &["doctor", "--json", "--dns", "127.0.0.1:1"]);
    let lines = String::from_utf8(output.stdout).unwrap();
    let lines = lines.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let text = |line: &serde_json::Value, name: &str| line[name].as_str().unwrap().to_owned();
    let of_array = lines.filter(|line| line["check"] == "array");
    of_array.map(|line| (text(&line, "status"), text(&line, "text"))).collect()
}

fn has(found: &[(String, String)], status: &str, text: &str) -> bool {
    found.iter().any(|(s, t)| s == status && t.contains(text))
}

#[test]
fn a_day_is_exported_and_a_node_examined() {
    let Some(server) = Server::start(&["fsync=off"]) else { return };
    let objects = server.folder().join("objects");
    let settings = format!(
        "[array]\ndatabase = \"{0}\"\nreplica = \"{0}\"\nobjects = \"file://{1}\"\n\
         ship_seconds = 1\nstatus_seconds = 1\n[facts]\nenabled = false\n",
        server.uri(),
        objects.display()
    );
    let node = Node::start_named("mx1.test", &settings);
    let config = node.folder.path().join("gauntlet.toml");
    let mut client = Smtp::connect(node.smtp).unwrap();
    let answer = client.send("ann@example.org", &["bob@example.net"], &message("exported", 200));
    assert!(answer.unwrap().starts_with("250"));
    node.wait_until("it is shipped", || {
        server.sql("SELECT coalesce(sum(messages), 0) FROM gauntlet.log_pack") == "1"
    });
    let now = said(&gauntlet(&config, &["messages", "--array", "--json"]));
    let now: serde_json::Value = serde_json::from_str(now.lines().next().unwrap()).unwrap();
    let day = now["received_ms"].as_i64().unwrap() / 86_400_000;
    let day = gauntlet_mail::date::day_name(day);
    let range = ["array", "export", "--json", "--since", &day, "--until", &day];
    let exported = said(&gauntlet(&config, &range));
    let exported: serde_json::Value = serde_json::from_str(exported.trim()).unwrap();
    assert_eq!((exported["messages"].as_u64(), exported["files"].as_u64()), (Some(1), Some(1)));
    let file = objects.join(format!("messages/day={day}/part-00000.parquet"));
    assert_eq!(file.metadata().unwrap().len(), exported["bytes"].as_u64().unwrap());
    for (args, text) in [
        (vec!["--since", "2001-01-01", "--until", "2001-01-02"], "has nothing from 2001-01-01"),
        (vec!["--since", "yesterday"], "a day is written as 2026-11-26"),
        (vec!["--since", "2001-01-02", "--until", "2001-01-01"], "--since is after --until"),
        (vec!["--into", "ftp://x", "--since", &day, "--until", &day], "--into"),
    ] {
        let output = gauntlet(&config, &[vec!["array", "export"], args].concat());
        assert!(!output.status.success() && said(&output).contains(text), "{}", said(&output));
    }

    let found = examined(&config);
    assert!(has(&found, "ok", "answers (PostgreSQL"), "{found:?}");
    assert!(has(&found, "ok", "objects are written, read and removed"), "{found:?}");
    assert!(has(&found, "ok", "the replica"), "{found:?}");
    // Another name, a replica that is away, a store that cannot be written.
    let text = std::fs::read_to_string(&config).unwrap();
    let objects = format!("file://{}", objects.display());
    let text = text
        .replace("mx1.test", "mx9.test")
        .replacen(
            &format!("replica = \"{}\"", server.uri()),
            "replica = \"postgres://a@127.0.0.1:1/b?sslmode=disable\"",
            1,
        )
        .replace(&objects, "s3://key:secret@127.0.0.1:1/mail?tls=off");
    let other = node.folder.path().join("other.toml");
    std::fs::write(&other, text).unwrap();
    let found = examined(&other);
    assert!(has(&found, "warning", "mx9.test has not taken part yet"), "{found:?}");
    assert!(has(&found, "warning", "array.replica"), "{found:?}");
    assert!(has(&found, "error", "held mail waits on this node"), "{found:?}");
}
