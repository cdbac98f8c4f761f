//! Reports of an array: each recipient gets one, whichever node stands still, dies or cannot note
//! it. And links of digests, which are good at every node.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;

use crate::common::{Node, PATIENCE, Smtp, message};
use crate::postgres::Server;

/// The hour is past at any time of the day.
const REPORT: &str = "[report]\nto = [\"boss@example.net\"]\nevery = \"day\"\nhour = 0\n";
/// What the database keeps of it.
const DUTY: &str = "FROM gauntlet.duty WHERE name = 'report to boss@example.net'";

fn settings(server: &Server, more: &str) -> String {
    format!(
        "[array]\ndatabase = \"{}\"\nobjects = \"file://{}\"\nship_seconds = 1\n\
         status_seconds = 1\nshare_seconds = 1\n[facts]\nenabled = false\n{more}",
        server.uri(),
        server.folder().join("objects").display()
    )
}

/// Reports that these nodes delivered.
fn reports(nodes: &[&Node]) -> usize {
    let to_boss = |raw: &Vec<u8>| raw.windows(20).any(|w| w == b"To: boss@example.net");
    nodes.iter().map(|node| node.maildir().iter().filter(|raw| to_boss(raw)).count()).sum()
}

fn with_reports(node: &mut Node) {
    node.config.push_str(REPORT);
    node.write_config();
    node.signal("-HUP");
}

/// Nobody showed a sign of life for 16 minutes.
fn let_time_pass(server: &Server) {
    server.sql(
        "UPDATE gauntlet.duty SET taken = now() - interval '16 minutes' \
         WHERE name = 'report to boss@example.net'",
    );
}

/// Waits until a node knows that the report is made.
fn wait_until_known(node: &Node) {
    node.wait_until("it knows that the report is made", || {
        let users = gauntlet_store::Users::open(&node.data().join("console")).unwrap();
        users.digest_mark("report to boss@example.net").unwrap() > 0
    });
}

#[test]
fn a_node_that_stood_still_over_a_report_does_not_send_it_again() {
    let Some(server) = Server::start(&["fsync=off"]) else { return };
    let mut one = Node::start_named("mx1.test", &settings(&server, ""));
    let mut two = Node::start_named("mx2.test", &settings(&server, ""));
    // Nothing can be read of the log, so the report takes as long as the test wants.
    let lock = "BEGIN; LOCK TABLE gauntlet.log_day, gauntlet.log_count, gauntlet.log_pack; \
                SELECT pg_sleep(300)";
    std::thread::scope(|scope| {
        scope.spawn(|| server.try_sql(lock));
        one.wait_until("the log is locked", || {
            let sql =
                "SELECT count(*) FROM pg_locks WHERE mode = 'AccessExclusiveLock' AND granted";
            server.sql(sql) != "0"
        });
        with_reports(&mut one);
        let taken = format!("SELECT count(*) {DUTY}");
        one.wait_until("it makes the report", || server.sql(&taken) == "1");
        one.signal("-STOP");
        server.sql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
             WHERE query LIKE '%pg_sleep(300)' AND pid <> pg_backend_pid()",
        );
    });
    let_time_pass(&server);
    with_reports(&mut two);
    let done = format!("SELECT count(*) {DUTY} AND done IS NOT NULL");
    two.wait_until("the other makes it", || server.sql(&done) == "1");
    // That is noted first, and sent then.
    two.wait_until("it is sent", || reports(&[&two]) == 1);
    two.wait_for_empty_queue();
    one.signal("-CONT");
    wait_until_known(&one);
    one.wait_for_empty_queue();
    assert_eq!(reports(&[&one, &two]), 1);
}

#[test]
fn a_report_that_cannot_be_noted_is_made_once_it_can() {
    let Some(server) = Server::start(&["fsync=off"]) else { return };
    server.sql("CREATE SCHEMA IF NOT EXISTS gauntlet");
    let mut one = Node::start_named("mx1.test", &settings(&server, ""));
    let mut two = Node::start_named("mx2.test", &settings(&server, ""));
    server.sql(
        "CREATE FUNCTION gauntlet.refuse() RETURNS trigger LANGUAGE plpgsql AS \
         $$ BEGIN RAISE EXCEPTION 'the disk of the database is full'; END $$; \
         CREATE TRIGGER refuse BEFORE UPDATE ON gauntlet.duty FOR EACH ROW \
         WHEN (NEW.done IS NOT NULL) EXECUTE FUNCTION gauntlet.refuse()",
    );
    with_reports(&mut one);
    one.wait_until("it cannot note it", || one.log().contains("the disk of the database is full"));
    with_reports(&mut two);
    let_time_pass(&server);
    two.wait_until("nor can the other", || two.log().contains("the disk of the database is full"));
    server.sql("DROP TRIGGER refuse ON gauntlet.duty");
    let done = format!("SELECT count(*) {DUTY} AND done IS NOT NULL");
    two.wait_until("it can", || server.sql(&done) == "1");
    for node in [&one, &two] {
        wait_until_known(node);
        node.wait_for_empty_queue();
    }
    assert_eq!(reports(&[&one, &two]), 1);
}

/// A node settles that a report is its own, and is killed before it sends it.
#[test]
fn a_report_of_a_node_that_was_killed_is_sent_when_it_is_back() {
    let Some(server) = Server::start(&["fsync=off"]) else { return };
    let mut one = Node::start_named("mx1.test", &settings(&server, ""));
    let mut two = Node::start_named("mx2.test", &settings(&server, ""));
    let has_one = "SELECT count(*) FROM gauntlet.node WHERE name = 'mx1.test'";
    one.wait_until("it takes part", || server.sql(has_one) == "1");
    one.kill();
    server.sql(
        "INSERT INTO gauntlet.duty (name, due, node, done) SELECT 'report to boss@example.net', \
         extract(epoch FROM date_trunc('day', now() AT TIME ZONE 'UTC'))::bigint * 1000, id, now() \
         FROM gauntlet.node WHERE name = 'mx1.test'",
    );
    with_reports(&mut two);
    wait_until_known(&two);
    one.config.push_str(REPORT);
    one.write_config();
    one.run();
    wait_until_known(&one);
    for node in [&one, &two] {
        node.wait_for_empty_queue();
    }
    assert_eq!((reports(&[&one]), reports(&[&two])), (1, 0));
}

fn post(node: &Node, path: &str) -> String {
    let mut stream = TcpStream::connect(node.console).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let host = node.console;
    write!(
        stream,
        "POST {path} HTTP/1.1\r\nHost: {host}\r\nOrigin: http://{host}\r\nContent-Length: 0\r\n\
         Content-Type: application/x-www-form-urlencoded\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

/// Links to release in a message, in their order.
fn release_links(raw: &[u8]) -> Vec<String> {
    let message = gauntlet_mail::Message::parse(raw);
    let part = message.parts().iter().find(|p| p.content_type.is("text", "plain")).unwrap();
    let text = part.text().unwrap();
    let links = text.lines().filter_map(|l| l.trim().split_once("/link/"));
    // The first leads to all held mail, and of each message the second allows its sender, too.
    let links: Vec<String> = links.map(|(_, link)| link.to_owned()).collect();
    links[1..].chunks(2).map(|pair| pair[0].clone()).collect()
}

#[test]
fn a_link_of_a_digest_is_good_at_every_node_also_if_it_was_sent_before_they_knew_each_other() {
    let Some(server) = Server::start(&["fsync=off"]) else { return };
    let policy = server.folder().join("hold.toml");
    let rule = "[[rule]]\nname = \"hold\"\nwhen.sender = \"ann@example.org\"\n\
                do = { quarantine = \"suspect\" }\n";
    std::fs::write(&policy, rule).unwrap();
    let key = server.folder().join("users.key");
    let gauntlet = |args: &[&str]| {
        let out = Command::new(env!("CARGO_BIN_EXE_gauntlet")).args(args).output().unwrap();
        assert!(out.status.success(), "{args:?}: {}", String::from_utf8_lossy(&out.stderr));
    };
    gauntlet(&["array", "users-key", key.to_str().unwrap()]);
    let own = format!("[policy]\npath = {policy:?}\n[digest]\nfrom = \"gw@example.org\"\n");
    let users = format!("users_key = {key:?}\n[facts]");
    let in_array = settings(&server, "").replace("[facts]", &users);
    let hold = |node: &Node, to: &str| {
        let mut client = Smtp::connect(node.smtp).unwrap();
        let reply = client.send("ann@example.org", &[to], &message("held", 200)).unwrap();
        assert!(reply.starts_with("250"), "{reply}");
        node.wait_for_empty_queue();
    };
    let digests = |node: &Node| {
        let data = node.data();
        let data = data.to_str().unwrap();
        let config = node.folder.path().join("gauntlet.toml");
        let args = ["digest", "send", "--now", "--force", "--data", data, "--config"];
        gauntlet(&[&args[..], &[config.to_str().unwrap()]].concat());
        node.wait_for_empty_queue();
    };
    // Each was alone, and sent a digest.
    let mut nodes = ["mx1.test", "mx2.test"].map(|name| {
        let node = Node::start_named(name, &own);
        hold(&node, "bob@example.net");
        digests(&node);
        node
    });
    let links: Vec<String> =
        nodes.iter().flat_map(|node| release_links(&node.maildir()[0])).collect();
    assert_eq!(links.len(), 2);
    for node in &mut nodes {
        node.kill();
        node.config.push_str(&in_array);
        node.write_config();
        node.run();
    }
    nodes[0].wait_until("what they hold is shipped", || {
        server.sql("SELECT count(*) FROM gauntlet.held WHERE state = 'held'") == "2"
    });
    for (link, other) in links.iter().zip([1, 0]) {
        let path = format!("/link/{link}");
        let mut said = String::new();
        nodes[other].wait_until("the link is good at the other node", || {
            said = post(&nodes[other], &path);
            said.starts_with("HTTP/1.1 200")
        });
        nodes[1 - other].wait_until("it was used once for all", || {
            post(&nodes[1 - other], &path).starts_with("HTTP/1.1 4")
        });
        nodes[1 - other]
            .wait_until("the held message is delivered", || nodes[1 - other].maildir().len() == 2);
    }
}
