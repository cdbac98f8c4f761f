//! An array for end-to-end tests: nodes that are real processes, HAProxy in front of them, one
//! PostgreSQL and one S3 server behind, and relays in between that break on request.
//!
//! ```text
//! clients ─▶ HAProxy ─▶ node ─▶ next hop
//!                        ├─ relay ─▶ PostgreSQL
//!                        └─ relay ─▶ S3 server
//! ```

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use gauntlet_array::{
    Database, DatabaseAddress, DatabaseOptions, DatabaseTls, Objects, ObjectsAddress,
    ObjectsOptions, SharedLog, SharedQuarantine,
};
use gauntlet_gateway::config::trust_roots;
use gauntlet_gateway::net::tls::HopTls;
use gauntlet_store::Log;
use gauntlet_store::log::{MessageLog, Query, Summary};
use gauntlet_store::quarantine::{Held, HeldMail, HeldQuery};

use super::{Node, PATIENCE, Sink, http_get, program};
use crate::port::free_port;
use crate::postgres::Server;
use crate::relay::Relay;
use crate::s3_server::{S3, SECRET};

/// A node of the array with its ways to the servers.
pub(crate) struct Member {
    pub(crate) name: String,
    pub(crate) node: Node,
    pub(crate) database: Relay,
    pub(crate) objects: Relay,
    pub(crate) is_running: bool,
}

/// All of it.
pub(crate) struct Site {
    pub(crate) members: Vec<Member>,
    pub(crate) server: Server,
    pub(crate) s3: S3,
    /// Where all mail goes that is delivered.
    pub(crate) sink: Sink,
    /// Where HAProxy listens.
    pub(crate) front: SocketAddr,
    haproxy: Child,
    _folder: tempfile::TempDir,
    runtime: tokio::runtime::Runtime,
}

/// Everything happens soon, and nothing is asked of the network.
const SETTINGS: &str = "\
ship_seconds = 1\nstatus_seconds = 1\npoll_seconds = 2\nconnect_seconds_max = 2\nquery_seconds_max = 5\n\
[facts]\nenabled = false\n\
[sender]\nretry_seconds = [1]\n\
[receiver]\ndrain_notice_seconds = 1\n";

/// The address of the objects behind this port.
pub(crate) fn objects_uri(port: u16) -> String {
    format!("s3://KEYID:{SECRET}@127.0.0.1:{port}/mail/array?tls=off")
}

/// The address of the database behind this port.
pub(crate) fn database_uri(port: u16) -> String {
    format!("postgres://keeper@127.0.0.1:{port}/postgres?sslmode=disable")
}

/// A database client of the test's own.
pub(crate) fn database(uri: &str) -> Database {
    let (any, verified) = HopTls::load(&trust_roots(Path::new(""))).unwrap().configurations();
    let (connect_max, query_max) = (Duration::from_secs(3), Duration::from_secs(20));
    let options = DatabaseOptions { connect_max, query_max };
    Database::new(DatabaseAddress::parse(uri).unwrap(), DatabaseTls { any, verified }, options)
}

/// A node that is not started yet, so that its build or its environment can be another.
pub(crate) fn unstarted(name: &str, config: &str) -> Node {
    let mut node = Node::made(tempfile::tempdir().unwrap(), ("", "", config), None);
    node.config = node.config.replacen("gw.test", name, 1);
    node
}

impl Member {
    fn start(n: usize, (server, s3): (&Server, &S3), next_hop: SocketAddr) -> Self {
        let name = format!("mx{n}.test");
        let (database, objects) = (Relay::to(server.port), Relay::to(s3.port));
        let config = format!(
            "[route]\nnext_hop = \"{next_hop}\"\n[array]\ndatabase = \"{}\"\nobjects = \"{}\"\n{SETTINGS}",
            database_uri(database.port),
            objects_uri(objects.port)
        );
        let parts = ("", "proxy_from = [\"127.0.0.0/8\"]", config.as_str());
        let mut node = Node::made(tempfile::tempdir().unwrap(), parts, None);
        node.config = node.config.replacen("gw.test", &name, 1);
        // The same ports after each restart, and none that an outgoing connection may get.
        for _listener_and_console in 0..2 {
            let fixed = format!("\"127.0.0.1:{}\"", free_port(&["127.0.0.1"]));
            node.config = node.config.replacen("\"127.0.0.1:0\"", &fixed, 1);
        }
        node.run();
        Member { name, node, database, objects, is_running: true }
    }

    /// Ends it as a power cut does.
    pub(crate) fn kill(&mut self) {
        self.node.kill();
        self.is_running = false;
    }

    /// Starts it again.
    pub(crate) fn run(&mut self) {
        self.node.run();
        self.is_running = true;
    }

    /// Its log, while it is stopped; each message with the node's name, as the array has it.
    pub(crate) fn own_log(&self) -> Vec<Summary> {
        let log = Log::open(&self.node.data().join("log")).unwrap();
        let mut found = all_logged(&log);
        found.iter_mut().for_each(|message| message.node.clone_from(&self.name));
        found
    }
}

/// All messages of a log.
pub(crate) fn all_logged(log: &dyn MessageLog) -> Vec<Summary> {
    let mut query = Query { limit: 500, ..Query::default() };
    let mut found = Vec::new();
    loop {
        let page = log.search(&query).unwrap();
        found.extend(page.messages);
        query.after = page.next;
        if query.after.is_none() {
            return found;
        }
    }
}

/// All items of a quarantine.
pub(crate) fn all_held(quarantine: &dyn HeldMail) -> Vec<Held> {
    let mut query = HeldQuery { limit: 500, ..HeldQuery::default() };
    let mut found = Vec::new();
    loop {
        let page = quarantine.search(&query).unwrap();
        found.extend(page.items);
        query.after = page.next;
        if query.after.is_none() {
            return found;
        }
    }
}

impl Site {
    /// Starts so many nodes. None, with a note, if a program is not installed; then CI fails.
    pub(crate) fn start(nodes: usize) -> Option<Self> {
        let haproxy = program("haproxy")?;
        let (server, s3) = (Server::start(&["fsync=off"])?, S3::start()?);
        let sink = Sink::start();
        sink.tokens_only.store(true, std::sync::atomic::Ordering::Relaxed);
        let started = (1..=nodes).map(|n| Member::start(n, (&server, &s3), sink.address));
        let members: Vec<Member> = started.collect();
        let folder = tempfile::tempdir().unwrap();
        let front = SocketAddr::from(([127, 0, 0, 1], free_port(&["127.0.0.1"])));
        let config = folder.path().join("haproxy.cfg");
        std::fs::write(&config, balancer(&members, front)).unwrap();
        let mut command = Command::new(haproxy);
        command.arg("-db").arg("-f").arg(&config).stdin(Stdio::null());
        let haproxy = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(1).enable_all().build().unwrap();
        let site = Site { members, server, s3, sink, front, haproxy, _folder: folder, runtime };
        site.wait("all nodes take part", || {
            site.server.sql("SELECT count(*) FROM gauntlet.node") == nodes.to_string()
        });
        Some(site)
    }

    /// Polls until `done`.
    pub(crate) fn wait(&self, what: &str, mut done: impl FnMut() -> bool) {
        let begun = Instant::now();
        while !done() {
            assert!(begun.elapsed() < 2 * PATIENCE, "waited too long until {what}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// The array's log and held mail, by connections of the test's own.
    pub(crate) fn shared(&self) -> (Arc<SharedLog>, SharedQuarantine) {
        let (any, verified) = HopTls::load(&trust_roots(Path::new(""))).unwrap().configurations();
        let database = database(&self.server.uri());
        let address = ObjectsAddress::parse(&objects_uri(self.s3.port)).unwrap();
        let tls = DatabaseTls { any, verified };
        let objects = Objects::new(&address, &tls, ObjectsOptions::default()).unwrap();
        let handle = self.runtime.handle();
        let held = SharedQuarantine::new(database.clone(), objects, None, handle.clone());
        (Arc::new(SharedLog::new(database, handle.clone())), held)
    }

    /// Runs something asynchronous.
    pub(crate) fn block_on<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(work)
    }

    /// Runs the program beside a node, with its configuration.
    pub(crate) fn gauntlet(&self, node: usize, args: &[&str]) -> Output {
        let config = self.members[node].node.folder.path().join("gauntlet.toml");
        let mut command = Command::new(env!("CARGO_BIN_EXE_gauntlet"));
        command.args(args).arg("--config").arg(config);
        command.env_remove("GAUNTLET_CONFIG").env("USER", "ada").output().unwrap()
    }

    /// The same, which must succeed; what it printed.
    pub(crate) fn done(&self, node: usize, args: &[&str]) -> String {
        let out = self.gauntlet(node, args);
        assert!(out.status.success(), "{args:?}: {}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).unwrap()
    }

    /// A number of a node's metrics; none while it does not answer or has no such.
    pub(crate) fn metric(&self, node: usize, name: &str) -> Option<u64> {
        let text = http_get(self.members[node].node.console, "/metrics");
        let line = text.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(' '))?;
        line.parse().ok()
    }

    /// Waits until no node has anything that is to be delivered or shipped, for a while.
    pub(crate) fn wait_until_quiet(&self) {
        const EMPTY: [&str; 5] = [
            "gauntlet_queue_messages",
            "gauntlet_spool_messages",
            "gauntlet_array_behind_changes",
            "gauntlet_array_held_behind_changes",
            "gauntlet_messages_active",
        ];
        let is_quiet = || {
            let nodes = 0..self.members.len();
            let empty = |node| EMPTY.iter().all(|name| self.metric(node, name) == Some(0));
            nodes.clone().all(|node| self.metric(node, "gauntlet_array_connected") == Some(1))
                && nodes.clone().all(empty)
                && self.server.sql("SELECT count(*) FROM gauntlet.transfer") == "0"
                && self.server.sql("SELECT count(*) FROM gauntlet.node_order WHERE done IS NULL")
                    == "0"
        };
        // What is on its way from one of these places to the next is in none of them.
        let mut since = None;
        self.wait("nothing waits on any node", || {
            if !is_quiet() {
                since = None;
                return false;
            }
            since.get_or_insert_with(Instant::now).elapsed() > Duration::from_secs(3)
        });
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let _it_may_have_ended = self.haproxy.kill();
        let _reaped = self.haproxy.wait();
    }
}

/// The configuration of `docs/in-front.md`, with shorter times and other addresses.
fn balancer(members: &[Member], front: SocketAddr) -> String {
    let line = |(n, member): (usize, &Member)| {
        let (smtp, console) = (member.node.smtp, member.node.console.port());
        format!("  server mx{} {smtp} send-proxy-v2 check port {console}\n", n + 1)
    };
    let servers: String = members.iter().enumerate().map(line).collect();
    format!(
        "defaults\n  mode tcp\n  timeout connect 5s\n  timeout client 6m\n  timeout server 6m\n\
         \x20 retries 3\n  option redispatch 1\n\
         listen mx\n  bind {front}\n  balance roundrobin\n\
         \x20 option httpchk GET /health/ready\n  http-check expect status 200\n\
         \x20 default-server inter 200ms fall 2 rise 1\n{servers}"
    )
}
