//! A whole node for unit tests: its clock is moved by hand, its clients connect by SMTP over
//! loopback.

use std::sync::Arc;
use std::time::{Duration, Instant};

use gauntlet_engine::Snapshot;
use gauntlet_policy::{Groups, Policy};
use gauntlet_store::{LogRecord, Users};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use super::{Listeners, Node};
use crate::clock::Clock;
use crate::config::Loaded;
use crate::scan::judge::Judge;

/// Longest wait for what happens by itself.
const WAIT_MAX: Duration = Duration::from_secs(20);

/// A node of one test.
pub(crate) struct TestNode {
    pub(crate) node: Arc<Node>,
    pub(crate) clock: Clock,
    _folder: tempfile::TempDir,
}

impl TestNode {
    /// A node that scans nothing, with the shipped policy. `settings` are tables of the
    /// configuration.
    pub(crate) fn start(settings: &str) -> Self {
        Self::with_policy(settings, Policy::DEFAULT)
    }

    /// The same with this policy.
    pub(crate) fn with_policy(settings: &str, policy: &str) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = folder.path().join("gauntlet.toml");
        let text = format!(
            "[node]\nname = \"gw.test\"\ndata = {:?}\n[facts]\nenabled = false\n\
             [spool]\nbackend = \"ram\"\nfree_bytes_min = 0\n[console]\naddress = \"\"\n\
             [[listener]]\naddress = \"127.0.0.1:0\"\n{settings}",
            folder.path().join("data")
        );
        std::fs::write(&file, text).expect("a configuration file");
        let config = Loaded::load(Some(&file), []).expect("it is understood").config;
        std::fs::create_dir_all(folder.path().join("users")).expect("a folder");
        let users = Arc::new(Users::open(&folder.path().join("users")).expect("users"));
        let policy = Policy::parse(policy, &Groups::default()).expect("a policy");
        let listeners = Listeners::open(&config).expect("free addresses");
        let judge = move |config: &crate::config::Config| {
            let (snapshot, policy) = (Snapshot::empty(), policy.clone());
            Ok(Judge {
                snapshot,
                policy,
                limits: config.limits,
                probes: None,
                scans: false,
                unpacking: None,
                data_loss: Default::default(),
                shadow: Default::default(),
            })
        };
        let clock = Clock::manual(1_795_234_751_000);
        let node = Node::start_with_clock(config, listeners, Box::new(judge), users, clock.clone());
        TestNode { node: node.expect("a node"), clock, _folder: folder }
    }

    /// A client that has read the greeting, or the refusal.
    pub(crate) async fn connect(&self) -> (TestClient, String) {
        let (_, address) = self.node.addresses()[0];
        let stream = TcpStream::connect(address).await.expect("the node listens");
        let mut client = TestClient(BufReader::new(stream));
        let greeting = client.reply().await;
        (client, greeting)
    }

    /// A client that has said EHLO.
    pub(crate) async fn client(&self) -> TestClient {
        let (mut client, greeting) = self.connect().await;
        assert!(greeting.starts_with("220 "), "{greeting}");
        assert!(client.say("EHLO client.test").await.starts_with("250"));
        client
    }

    /// Waits until this is so. What a session or a thread does takes real time, if little.
    pub(crate) async fn until<T>(&self, mut found: impl FnMut(&Node) -> Option<T>) -> T {
        let deadline = Instant::now() + WAIT_MAX;
        loop {
            if let Some(found) = found(&self.node) {
                return found;
            }
            assert!(Instant::now() < deadline, "it does not happen");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// The line of the log of a message, once every outcome in it is final.
    pub(crate) async fn logged(&self, id: &str) -> LogRecord {
        let done = |record: &LogRecord| {
            !record.deliveries.is_empty() && record.deliveries.iter().all(|d| d.outcome.is_final())
        };
        let found = |node: &Node| node.log.get(id).expect("the log can be read");
        self.until(|node| found(node).map(|logged| logged.record).filter(done)).await
    }
}

/// A client's side of an SMTP session.
pub(crate) struct TestClient(BufReader<TcpStream>);

impl TestClient {
    /// The next reply, all its lines; empty if the node closed the connection.
    pub(crate) async fn reply(&mut self) -> String {
        let mut text = String::new();
        let read = async {
            loop {
                let start = text.len();
                match self.0.read_line(&mut text).await {
                    Ok(0) | Err(_) => return,
                    Ok(_) if text.as_bytes().get(start + 3) == Some(&b'-') => {}
                    Ok(_) => return,
                }
            }
        };
        tokio::time::timeout(WAIT_MAX, read).await.expect("a reply in time");
        text
    }

    /// Says a line and reads the reply.
    pub(crate) async fn say(&mut self, line: &str) -> String {
        let _it_may_have_closed = self.0.write_all(format!("{line}\r\n").as_bytes()).await;
        self.reply().await
    }

    /// Sends a message and gives the last reply: the first that is negative, or that to the
    /// message.
    pub(crate) async fn send(&mut self, from: &str, to: &[&str], message: &str) -> String {
        let reply = self.say(&format!("MAIL FROM:<{from}>")).await;
        if !reply.starts_with("250") {
            return reply;
        }
        for to in to {
            let reply = self.say(&format!("RCPT TO:<{to}>")).await;
            if !reply.starts_with("250") {
                return reply;
            }
        }
        let reply = self.say("DATA").await;
        if !reply.starts_with("354") {
            return reply;
        }
        self.say(&format!("{message}\r\n.")).await
    }
}

/// The id in `250 ... queued as ID`.
pub(crate) fn id_in(reply: &str) -> String {
    let id = reply.trim_end().rsplit_once(" as ").map(|(_, id)| id.to_owned());
    id.unwrap_or_else(|| panic!("not accepted: {reply}"))
}
