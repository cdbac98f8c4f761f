//! Two nodes behind HAProxy: sessions reach either, with the client's own address; a node that
//! drains or dies loses none of the sessions that come then.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use crate::common::{Node, PATIENCE, Smtp, message, program};

/// How HAProxy finds out whether a node takes mail.
#[derive(Clone, Copy, PartialEq)]
enum Check {
    /// It asks `/health/ready`.
    Http,
    /// It says EHLO.
    Smtp,
}

/// HAProxy before two nodes, as `docs/in-front.md` shows it.
struct Front {
    nodes: [Node; 2],
    haproxy: Child,
    address: SocketAddr,
    folder: tempfile::TempDir,
}

impl Front {
    fn start(check: Check) -> Option<Self> {
        let haproxy = program("haproxy")?;
        let node = || {
            Node::start_listening(
                "proxy_from = [\"127.0.0.0/8\"]",
                "[receiver]\ndrain_notice_seconds = 3\n[facts]\nenabled = false\n",
            )
        };
        let nodes = [node(), node()];
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = free.local_addr().unwrap();
        drop(free);
        let folder = tempfile::tempdir().unwrap();
        let config = folder.path().join("haproxy.cfg");
        std::fs::write(&config, configuration(&nodes, check, address, folder.path())).unwrap();
        let haproxy = Self::spawn(haproxy, &config);
        let front = Front { nodes, haproxy, address, folder };
        front.wait_for(["UP", "UP"]);
        Some(front)
    }

    fn spawn(program: PathBuf, config: &std::path::Path) -> Child {
        let mut command = Command::new(program);
        command.arg("-db").arg("-f").arg(config).stdin(Stdio::null());
        command.stdout(Stdio::null()).spawn().unwrap()
    }

    /// What HAProxy thinks of the nodes.
    fn states(&self) -> Option<[String; 2]> {
        let mut socket = UnixStream::connect(self.folder.path().join("stats")).ok()?;
        socket.write_all(b"show stat\n").ok()?;
        let mut text = String::new();
        socket.read_to_string(&mut text).ok()?;
        let names: Vec<&str> = text.lines().next()?.split(',').collect();
        let status = names.iter().position(|name| *name == "status")?;
        let of = |server: &str| {
            let line = text.lines().find(|line| line.starts_with(&format!("mx,{server},")))?;
            // "DOWN 1/2" while it comes back.
            Some(line.split(',').nth(status)?.split(' ').next()?.to_owned())
        };
        Some([of("mx1")?, of("mx2")?])
    }

    fn wait_for(&self, wanted: [&str; 2]) {
        let start = Instant::now();
        while self.states().is_none_or(|states| states != wanted) {
            assert!(start.elapsed() < PATIENCE, "{wanted:?} is not {:?}", self.states());
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }

    /// A session from this address with one message; what it was refused with, or its id.
    fn send(&self, from: [u8; 4]) -> Result<String, String> {
        session(self.address, from)
    }

    fn accepted(&self) -> [u64; 2] {
        [0, 1].map(|n: usize| self.nodes[n].metric("gauntlet_messages_accepted_total"))
    }

    fn drain(&self, node: usize, more: &[&str]) {
        let data = self.nodes[node].data();
        let mut command = Command::new(env!("CARGO_BIN_EXE_gauntlet"));
        command.arg("drain").args(more).arg("--data").arg(data).stdout(Stdio::null());
        assert!(command.status().unwrap().success());
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        let _it_may_have_ended = self.haproxy.kill();
        let _reaped = self.haproxy.wait();
    }
}

fn session(address: SocketAddr, from: [u8; 4]) -> Result<String, String> {
    let mut client = Smtp::connect_from(from, address).map_err(|e| format!("greeting: {e}"))?;
    let sent = client.send("ann@example.org", &["bob@example.net"], &message("x", 300));
    match sent {
        Ok(reply) if reply.starts_with("250") => {
            let _the_message_is_accepted_whatever_follows = client.say("QUIT");
            Ok(reply.trim().rsplit(' ').next().unwrap_or_default().to_owned())
        }
        other => Err(format!("{other:?}")),
    }
}

/// The configuration of `docs/in-front.md`, with shorter times and other addresses.
fn configuration(
    nodes: &[Node; 2],
    check: Check,
    address: SocketAddr,
    folder: &std::path::Path,
) -> String {
    let (option, port) = match check {
        Check::Http => {
            let ready = "  option httpchk GET /health/ready\n  http-check expect status 200\n";
            (ready, true)
        }
        Check::Smtp => ("  option smtpchk EHLO balancer.example\n", false),
    };
    let server = |n: usize| {
        let port = match port {
            true => format!(" port {}", nodes[n].console.port()),
            false => String::new(),
        };
        format!("  server mx{} {} send-proxy-v2 check{port}\n", n + 1, nodes[n].smtp)
    };
    format!(
        "global\n  stats socket {}/stats mode 600\n\
         defaults\n  mode tcp\n  timeout connect 5s\n  timeout client 6m\n  timeout server 6m\n\
         \x20 retries 3\n  option redispatch 1\n\
         listen mx\n  bind {address}\n  balance roundrobin\n{option}\
         \x20 default-server inter 200ms fall 2 rise 1\n{}{}",
        folder.display(),
        server(0),
        server(1)
    )
}

/// Sessions one after the other, in several threads, until they are stopped.
struct Load {
    stop: Arc<AtomicBool>,
    threads: Vec<std::thread::JoinHandle<Vec<String>>>,
    sent: Arc<AtomicU64>,
}

impl Load {
    fn start(address: SocketAddr) -> Self {
        let (stop, sent) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let thread = |n: u8| {
            let (stop, sent) = (stop.clone(), sent.clone());
            std::thread::spawn(move || {
                let mut failed = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    failed.extend(session(address, [127, 0, 0, 10 + n]).err());
                    sent.fetch_add(1, Ordering::Relaxed);
                }
                failed
            })
        };
        let threads = (0..3).map(thread).collect();
        Load { stop, threads, sent }
    }

    /// Waits until so many more sessions were begun and ended.
    fn wait_for_more(&self, count: u64) {
        let (start, before) = (Instant::now(), self.sent.load(Ordering::Relaxed));
        while self.sent.load(Ordering::Relaxed) < before + count {
            assert!(start.elapsed() < PATIENCE, "no session ends");
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }

    /// How many sessions there were, and what those that failed said.
    fn end(self) -> (u64, Vec<String>) {
        self.stop.store(true, Ordering::Relaxed);
        let failed = self.threads.into_iter().flat_map(|t| t.join().unwrap()).collect();
        (self.sent.load(Ordering::Relaxed), failed)
    }
}

fn a_node_drains_comes_back_and_one_dies(check: Check) {
    let Some(mut front) = Front::start(check) else { return };
    // The client's own address is in the log of whichever node had the session.
    let id = front.send([127, 0, 0, 77]).unwrap();
    let traced = front.nodes.iter().any(|node| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gauntlet"));
        command.args(["trace", &id, "--json", "--data"]).arg(node.data());
        let output = command.output().unwrap();
        String::from_utf8_lossy(&output.stdout).contains("127.0.0.77")
    });
    assert!(traced, "{id} came from 127.0.0.77");

    let load = Load::start(front.address);
    load.wait_for_more(20);
    front.drain(0, &[]);
    front.wait_for(["DOWN", "UP"]);
    // Notice is over, too, and the node has nothing left.
    front.drain(0, &["--wait"]);
    load.wait_for_more(20);
    let before = front.accepted();
    load.wait_for_more(20);
    let after = front.accepted();
    assert_eq!(before[0], after[0], "new sessions go to the other node");
    assert!(after[1] > before[1]);
    front.drain(0, &["--undo"]);
    front.wait_for(["UP", "UP"]);
    load.wait_for_more(20);
    assert!(front.accepted()[0] > after[0], "it takes its share again");
    let (sessions, failed) = load.end();
    assert!(failed.is_empty(), "of {sessions} sessions failed: {failed:?}");
    eprintln!("{sessions} sessions while a node drained and came back, none failed");

    front.nodes[1].kill();
    // Before the balancer knows it, too: a connection that is refused is tried at the other node.
    for n in 0..6 {
        front.send([127, 0, 0, 20 + n]).unwrap();
    }
    front.wait_for(["UP", "DOWN"]);
    for n in 0..20 {
        front.send([127, 0, 0, 30 + n]).unwrap();
    }
}

#[test]
fn haproxy_that_asks_health_ready_loses_no_session() {
    a_node_drains_comes_back_and_one_dies(Check::Http);
}

#[test]
fn haproxy_that_checks_by_smtp_loses_no_session() {
    a_node_drains_comes_back_and_one_dies(Check::Smtp);
}
