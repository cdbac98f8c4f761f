//! `gauntlet array export` and `gauntlet doctor` of a node in an array.

use std::path::Path;
use std::process::{Command, Output};

use crate::common::array_site::objects_uri;
use crate::common::{Node, Smtp, message};
use crate::duckdb;
use crate::postgres::Server;
use crate::s3_server::S3;

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

/// The day (UTC) of the newest message of the array.
fn newest_day(config: &Path) -> String {
    let now = said(&gauntlet(config, &["messages", "--array", "--json"]));
    let now: serde_json::Value = serde_json::from_str(now.lines().next().unwrap()).unwrap();
    gauntlet_mail::date::day_name(now["received_ms"].as_i64().unwrap() / 86_400_000)
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
    let day = newest_day(&config);
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

/// A day goes into an S3 store by the command, and comes out of it by another client, whole.
#[test]
fn what_is_exported_into_an_s3_store_is_read_from_there() {
    let (Some(server), Some(s3)) = (Server::start(&["fsync=off"]), S3::start()) else { return };
    let Some(python) = duckdb::python() else { return };
    // Without array.objects: where to is said.
    let settings = format!(
        "[array]\ndatabase = \"{}\"\nship_seconds = 1\nstatus_seconds = 1\n\
         [facts]\nenabled = false\n",
        server.uri()
    );
    let node = Node::start_named("mx1.test", &settings);
    let config = node.folder.path().join("gauntlet.toml");
    let mut client = Smtp::connect(node.smtp).unwrap();
    for n in 0..20 {
        let (to, body) = (format!("u{n}@example.net"), message(&format!("no-{n}"), 200));
        assert!(client.send("ann@example.org", &[&to], &body).unwrap().starts_with("250"));
    }
    node.wait_until("they are shipped and delivered", || {
        server.sql("SELECT coalesce(sum(messages), 0) FROM gauntlet.log_count") == "20"
            && node.metric("gauntlet_array_behind_changes") == 0
            && node.metric("gauntlet_queue_messages") == 0
    });
    let day = newest_day(&config);
    let objects = objects_uri(s3.port).replace("mail/array", "mail/exported");
    let export = |into: &str| {
        let range = ["array", "export", "--json", "--since", &day, "--until", &day];
        gauntlet(&config, &[range.as_slice(), &["--into", into]].concat())
    };
    // Twice: a day's files are replaced.
    for _ in 0..2 {
        let output = export(&objects);
        let done: serde_json::Value = serde_json::from_str(said(&output).trim()).unwrap();
        assert_eq!((&done["messages"], &done["files"]), (&20.into(), &1.into()), "{done}");
        let files = s3.files();
        let name = format!("mail/exported/messages/day={day}/part-00000.parquet");
        assert!(files.len() == 1 && files[0].ends_with(&name), "{files:?}");
        assert_eq!(files[0].metadata().unwrap().len(), done["bytes"].as_u64().unwrap());
    }
    let folder = tempfile::tempdir().unwrap();
    s3.download("exported", folder.path());
    let ask = |sql: &str| duckdb::ask(&python, folder.path(), sql);
    let counted = ask("SELECT day::VARCHAR, node, count(*), count(DISTINCT id), \
                       count(DISTINCT decisions[1].recipient) FROM messages GROUP BY ALL");
    assert_eq!(counted, format!(r#"[["{day}", "mx1.test", 20, 20, 20]]"#));
    let subjects = ask("SELECT count(*) FROM messages WHERE subject LIKE 'minutes of no-%'");
    assert_eq!(subjects, "[[20]]");
    let refused = export(&objects.replace("KEYID", "OTHER"));
    assert!(!refused.status.success(), "{}", said(&refused));
    assert!(said(&refused).contains("refuses"), "{}", said(&refused));
}
