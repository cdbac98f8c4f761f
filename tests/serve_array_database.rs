//! What happens to the database of an array while nodes take mail: it fails over to a replica, its
//! disk is full, it is slow, it refuses the login, PgBouncer stands before it. Mail goes on, and
//! the log is whole afterwards.

use std::collections::BTreeSet;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::common::array_site::{database, database_uri, objects_uri};
use crate::common::{Node, Smtp, http_get, message, program};
use crate::port::free_port;
use crate::postgres::Server;
use crate::relay::{Line, Relay};
use crate::s3_server::S3;

/// A node of the array in this database; nothing is asked of the network, everything happens soon.
fn node_at(database: &str, more: &str) -> Node {
    let array = format!(
        "[array]\ndatabase = \"{database}\"\nship_seconds = 1\nstatus_seconds = 1\n\
         poll_seconds = 1\nconnect_seconds_max = 3\n{more}\n[facts]\nenabled = false\n"
    );
    Node::start_named("mx1.test", &array)
}

fn gauntlet(node: &Node, args: &[&str]) -> std::process::Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gauntlet"));
    command.args(args).arg("--config").arg(node.folder.path().join("gauntlet.toml"));
    command.env_remove("GAUNTLET_CONFIG").env("USER", "ada").output().unwrap()
}

/// Sends so many messages; all are taken.
fn send(node: &Node, name: &str, count: usize) {
    let mut client = Smtp::connect(node.smtp).unwrap();
    for n in 0..count {
        let body = message(&format!("{name}-{n}"), 200);
        let reply = client.send("ann@example.org", &["bob@example.net"], &body).unwrap();
        assert!(reply.starts_with("250"), "{reply}");
    }
}

/// Subjects of the array's log, each as often as it is there.
fn logged(node: &Node) -> Vec<String> {
    let out = gauntlet(node, &["messages", "--array", "--json", "--limit", "1000"]);
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let subject = |line: &str| {
        let found: serde_json::Value = serde_json::from_str(line).unwrap();
        found["subject"].as_str().unwrap().to_owned()
    };
    text.lines().map(subject).collect()
}

/// The array's log has so many messages, each once.
fn wait_for_log(node: &Node, count: usize) {
    node.wait_until("the log is whole", || logged(node).len() >= count);
    let found = logged(node);
    let once: BTreeSet<&String> = found.iter().collect();
    assert_eq!((found.len(), once.len()), (count, count), "{found:?}");
}

fn is_connected(node: &Node) -> bool {
    http_get(node.console, "/metrics").contains("gauntlet_array_connected 1")
}

#[test]
fn a_failover_to_a_promoted_replica_loses_nothing() {
    // What the first server said it has, the second one has.
    let synchronous = "synchronous_standby_names=*";
    let Some(mut first) = Server::start(&["fsync=off"]) else { return };
    let second = first.replica();
    first.sql(&format!("ALTER SYSTEM SET {}", synchronous.replace("=*", " = '*'")));
    first.sql("SELECT pg_reload_conf()");
    let both = format!(
        "postgres://keeper@127.0.0.1:{},127.0.0.1:{}/postgres?sslmode=disable",
        first.port, second.port
    );
    let node = node_at(&both, "");
    send(&node, "before", 20);
    wait_for_log(&node, 20);
    send(&node, "on its way", 20);
    first.kill();
    send(&node, "between", 20);
    node.wait_until("it is seen", || !is_connected(&node));
    // A balancer leaves it where it is: it takes mail, as do all the others at this moment.
    assert_eq!(http_get(node.console, "/health/ready"), "ok\n");
    // A replica is no server for it: nothing is written before it is promoted.
    assert_eq!(second.sql("SELECT pg_is_in_recovery()"), "t");
    second.sql("ALTER SYSTEM RESET synchronous_standby_names");
    second.sql("SELECT pg_reload_conf()");
    second.sql("SELECT pg_promote()");
    node.wait_until("the other server is used", || is_connected(&node));
    send(&node, "after", 20);
    wait_for_log(&node, 80);
    assert_eq!(second.sql("SELECT sum(messages) FROM gauntlet.log_count"), "80");
}

/// The tables are on a file system of 24 MB that something else fills.
#[test]
fn a_full_disk_of_the_database_stops_no_mail() {
    // Alone in a mount namespace, as are all that it starts; so in a thread of its own.
    std::thread::spawn(full_disk).join().unwrap();
}

fn full_disk() {
    let shelf = tempfile::tempdir().unwrap();
    let small = shelf.path().join("small");
    std::fs::create_dir(&small).unwrap();
    if !crate::serve_full_disk::mount_small(&small) {
        assert!(std::env::var_os("CI").is_none(), "a small file system cannot be mounted");
        eprintln!("SKIPPED: a small file system cannot be mounted");
        return;
    }
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(shelf.path(), open).unwrap();
    let owner = Command::new("chown").arg("postgres").arg(&small).status().unwrap();
    assert!(owner.success());
    let Some(server) = Server::start(&["fsync=off"]) else { return };
    server.sql(&format!("CREATE TABLESPACE small LOCATION '{}'", small.display()));
    server.sql("ALTER DATABASE postgres SET default_tablespace = small");
    let node = node_at(&server.uri(), "");
    send(&node, "before", 20);
    wait_for_log(&node, 20);
    server.sql("CREATE TABLE ballast (bytes text) TABLESPACE small");
    let fill =
        "INSERT INTO ballast SELECT repeat(md5(random()::text), 60) FROM generate_series(1, 1000)";
    while server.try_sql(fill).is_ok() {}
    let fill = fill.replace("1000)", "1)");
    while server.try_sql(&fill).is_ok() {}
    // Rows that still fit into pages that are there are no proof: the big ones do not.
    for part in 0..20 {
        send(&node, &format!("during-{part}"), 20);
        if http_get(node.console, "/api/v1/nodes").contains("No space left") {
            break;
        }
        if node.log().contains("No space left") {
            break;
        }
    }
    node.wait_until("it is said", || node.log().contains("No space left"));
    node.wait_for_empty_queue();
    let taken = node.maildir().len();
    server.sql("DROP TABLE ballast");
    wait_for_log(&node, taken);
}

/// Each piece that goes to the database waits a second, later five.
#[test]
fn a_slow_database_holds_up_no_mail() {
    let Some(server) = Server::start(&["fsync=off"]) else { return };
    let relay = Relay::to(server.port);
    let node = node_at(&database_uri(relay.port), "");
    node.wait_until("it takes part", || is_connected(&node));
    relay.delay(Duration::from_secs(5));
    send(&node, "slow", 50);
    node.wait_for_empty_queue();
    assert_eq!(node.maildir().len(), 50);
    // Fifty are delivered while not one answer came: the order shows that none waited.
    assert!(logged(&node).len() < 50, "the database was not slow");
    if std::env::var_os("GAUNTLET_TEST_ALL").is_none() {
        relay.delay(Duration::ZERO);
    }
    node.wait_at_most(Duration::from_secs(300), "the log is whole", || {
        gauntlet_log_count(&server) == "50"
    });
    relay.delay(Duration::ZERO);
    wait_for_log(&node, 50);
    // Held back without a word, as by a firewall that forgets connections.
    relay.set(Line::Held);
    send(&node, "silent", 20);
    node.wait_for_empty_queue();
    relay.set(Line::Open);
    wait_for_log(&node, 70);
}

fn gauntlet_log_count(server: &Server) -> String {
    server.sql("SELECT coalesce(sum(messages), 0) FROM gauntlet.log_count")
}

#[test]
fn a_wrong_password_is_said_and_mended_while_mail_goes_on() {
    let Some(server) = Server::start(&["fsync=off"]) else { return };
    server.sql("CREATE ROLE gauntlet LOGIN PASSWORD 'another one'");
    server.sql("GRANT CREATE ON DATABASE postgres TO gauntlet");
    let lines = "host all gauntlet 127.0.0.1/32 scram-sha-256\nhost all all 127.0.0.1/32 trust\n";
    server.let_in(lines);
    let uri = format!(
        "postgres://gauntlet:a%20long%20one@127.0.0.1:{}/postgres?sslmode=disable",
        server.port
    );
    let node = node_at(&uri, "");
    node.wait_until("it is said", || node.log().contains("refuses the login"));
    assert!(!node.log().contains("a long one"), "no password is written");
    send(&node, "before", 10);
    let said = gauntlet(&node, &["array", "nodes"]);
    let said = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(said.contains("password authentication failed"), "{said}");
    assert!(said.contains("pg_hba.conf") && !said.contains("a long one"), "{said}");
    // `status` says so too, with what waits, and numbers of the array are among its own.
    let shown = |options: &[&str]| {
        let output = gauntlet(&node, &[&["status"], options].concat());
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let status = shown(&[]);
    assert!(
        status.contains(&format!("array        127.0.0.1:{}/postgres, AWAY since", server.port))
    );
    assert!(status.contains("refuses the login") && !status.contains("a long one"), "{status}");
    let json: serde_json::Value = serde_json::from_str(&shown(&["--json"])).unwrap();
    assert_eq!(json["node"]["array"]["connected"], false);
    assert!(shown(&["--metrics"]).contains("\ngauntlet_array_connected 0\n"));
    server.sql("ALTER ROLE gauntlet PASSWORD 'a long one'");
    wait_for_log(&node, 10);
    let status = shown(&[]);
    assert!(status.contains("/postgres, reached since "), "{status}");
}

/// PgBouncer in this mode; its port.
fn bouncer(server: &Server, mode: &str, folder: &std::path::Path) -> Option<(Bouncer, u16)> {
    let program = program("pgbouncer")?;
    let port = free_port(&["127.0.0.1"]);
    let (config, users) = (folder.join("pgbouncer.ini"), folder.join("users"));
    std::fs::write(&users, "\"keeper\" \"\"\n").unwrap();
    let text = format!(
        "[databases]\npostgres = host=127.0.0.1 port={} user=keeper\n[pgbouncer]\n\
         listen_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\nauth_type = trust\n\
         auth_file = {}\npool_mode = {mode}\nlogfile = {}\n",
        server.port,
        users.display(),
        folder.join("log").display()
    );
    std::fs::write(&config, text).unwrap();
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(folder, open).unwrap();
    let mut command = Command::new("setpriv");
    command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups"]).arg(program);
    let child = command.arg(config).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    Some((Bouncer(child), port))
}

struct Bouncer(Child);

impl Drop for Bouncer {
    fn drop(&mut self) {
        let _it_may_have_ended = self.0.kill();
        let _reaped = self.0.wait();
    }
}

#[test]
fn pgbouncer_with_pooled_sessions_is_a_database() {
    let Some(server) = Server::start(&["fsync=off"]) else { return };
    let folder = tempfile::tempdir().unwrap();
    let Some((_bouncer, port)) = bouncer(&server, "session", folder.path()) else { return };
    let node = node_at(&database_uri(port), "");
    send(&node, "pooled", 20);
    wait_for_log(&node, 20);
    let said = gauntlet(&node, &["array", "order", "mx1.test", "reload", "--wait"]);
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
}

#[test]
fn pgbouncer_with_pooled_transactions_is_refused_in_words() {
    let Some(server) = Server::start(&["fsync=off"]) else { return };
    let folder = tempfile::tempdir().unwrap();
    let Some((_bouncer, port)) = bouncer(&server, "transaction", folder.path()) else { return };
    let node = node_at(&database_uri(port), "");
    // While it is alone, it has the same connection again and again; notifications do not come.
    send(&node, "alone", 5);
    node.wait_until("it is shipped", || gauntlet_log_count(&server) == "5");
    // Somebody takes that connection, and the node gets another one.
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let other = runtime.block_on(database(&database_uri(port)).connect()).unwrap();
    runtime.block_on(other.client().batch_execute("BEGIN; SELECT 1")).unwrap();
    node.wait_until("it is said", || node.log().contains("pool_mode = session"));
    send(&node, "together", 5);
    node.wait_for_empty_queue();
    drop(other);
    assert_eq!(node.maildir().len(), 10);
}

/// The object store takes connections and answers nothing.
#[test]
fn an_object_store_that_hangs_holds_up_neither_policy_nor_orders_nor_log() {
    let (Some(server), Some(s3)) = (Server::start(&["fsync=off"]), S3::start()) else { return };
    let relay = Relay::to(s3.port);
    let objects = format!("objects = \"{}\"", objects_uri(relay.port));
    let node = node_at(&server.uri(), &objects);
    let publish = |name: &str, action: &str| {
        let path = node.folder.path().join(name);
        let rule = "[[rule]]\nname = \"all\"\nwhen.sender = \"ann@example.org\"\ndo = ";
        std::fs::write(&path, format!("{rule}{action}\n")).unwrap();
        let said = gauntlet(&node, &["array", "policy", "publish", path.to_str().unwrap()]);
        assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    };
    publish("hold.toml", "{ quarantine = \"suspect\" }");
    node.wait_until("it is in force", || node.metric("gauntlet_array_policy_number") == 1);
    relay.set(Line::Held);
    send(&node, "held", 3);
    // More where the first look for what the array has not got finds them, too.
    node.wait_until("it waits", || node.metric("gauntlet_array_held_behind_changes") >= 3);
    publish("deliver.toml", "\"deliver\"");
    node.wait_until("it is in force", || node.metric("gauntlet_array_policy_number") == 2);
    let said = gauntlet(&node, &["array", "order", "mx1.test", "retry", "--wait"]);
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    send(&node, "delivered", 3);
    wait_for_log(&node, 6);
    assert_eq!(server.sql("SELECT count(*) FROM gauntlet.held"), "0");
    relay.set(Line::Open);
    node.wait_until("held mail is there", || {
        server.sql("SELECT count(*) FROM gauntlet.held") == "3"
    });
}

/// As after a database that was set back: the rows of messages that move are not there.
#[test]
fn messages_that_move_are_handed_over_again_when_their_rows_are_lost() {
    let Some(server) = Server::start(&["fsync=off"]) else { return };
    // Nobody listens there: what the nodes take waits.
    let soon = "counts_seconds = 1\n[route]\nnext_hop = \"127.0.0.1:1\"";
    let one = node_at(&server.uri(), soon);
    let settings = one.config.split("[array]").nth(1).unwrap();
    let mut two = Node::start_named("mx2.test", &format!("[array]{settings}"));
    two.wait_until("it takes part", || is_connected(&two));
    two.kill();
    send(&one, "moves", 3);
    one.wait_until("they wait", || one.metric("gauntlet_queue_messages") == 3);
    let said = gauntlet(&one, &["array", "order", "mx1.test", "move", "mx2.test", "--wait"]);
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    assert!(said.contains("3 messages are handed over"), "{said}");
    server.sql("DELETE FROM gauntlet.transfer");
    one.wait_until("they are offered again", || {
        server.sql("SELECT count(*) FROM gauntlet.transfer") == "3"
    });
    two.run();
    two.wait_until("they moved", || {
        two.metric("gauntlet_queue_messages") == 3 && one.metric("gauntlet_queue_messages") == 0
    });
    two.wait_until("that is known", || server.sql("SELECT count(*) FROM gauntlet.transfer") == "0");
}
