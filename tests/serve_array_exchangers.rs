//! Nodes of an array behind several MX records: a real Postfix that finds one of them draining or
//! dead delivers to the other at once, and the array counts each message once.

use std::collections::BTreeMap;
use std::time::Instant;

use crate::common::array_site::unstarted;
use crate::common::own_network::in_own_network;
use crate::common::postfix::Postfix;
use crate::common::zone::Zone;
use crate::common::{Node, PATIENCE, Smtp, message, tokens};
use crate::postgres::Server;
use crate::serve_array::{done, is_said, logged, settings};

/// Two domains with the same two names: one whose senders choose at random, and one with a first
/// name and a second.
const ZONE: &str = "\
equal.example MX 10 mx1.equal.example.\nequal.example MX 10 mx2.equal.example.\n\
ordered.example MX 10 mx1.equal.example.\nordered.example MX 20 mx2.equal.example.\n\
mx1.equal.example A 127.0.0.11\nmx2.equal.example A 127.0.0.12\n";
/// Messages sent at once.
const BATCH: usize = 10;

/// An array of two nodes, each a mail exchanger on port 25, and a Postfix that sends to them.
struct Site {
    nodes: [Node; 2],
    postfix: Postfix,
    server: Server,
    _zone: Zone,
    sent: usize,
}

impl Site {
    fn start() -> Option<Self> {
        let zone = Zone::serve_at(53, ZONE)?;
        let server = Server::start(&["fsync=off"])?;
        // By MX, as a Postfix does that is told nothing: neither a relay host nor a transport.
        let postfix = Postfix::start_with("", "smtp unix - - n - - smtp")?;
        let node = |n: usize| {
            let config = format!("{}[receiver]\ndrain_notice_seconds = 0\n", settings(&server));
            let mut node = unstarted(&format!("mx{n}.test"), &config);
            let address = format!("127.0.0.1{n}:25");
            node.config = node.config.replacen("127.0.0.1:0", &address, 1);
            node.run();
            assert_eq!(node.smtp.to_string(), address);
            node
        };
        let nodes = [node(1), node(2)];
        for name in ["mx1.test", "mx2.test"] {
            nodes[0].wait_until("both take part", || is_said(&nodes[0], name, "active"));
        }
        Some(Site { nodes, postfix, server, _zone: zone, sent: 0 })
    }

    /// What both have delivered.
    fn taken(&self) -> [usize; 2] {
        [0, 1].map(|n: usize| self.nodes[n].maildir().len())
    }

    /// Postfix gets a batch for this domain, and has delivered all of it. How many each node took.
    fn send(&mut self, domain: &str) -> [usize; 2] {
        let before = self.taken();
        let to = format!("bob@{domain}");
        for _ in 0..BATCH {
            let body = message(&format!("exchanged-{}", self.sent), 200);
            let mut client = Smtp::connect(self.postfix.address).unwrap();
            let reply = client.send("ann@example.org", &[&to], &body).unwrap();
            assert!(reply.starts_with("250"), "{reply}");
            self.sent += 1;
        }
        let begun = Instant::now();
        while self.taken().iter().sum::<usize>() < self.sent {
            assert!(begun.elapsed() < PATIENCE, "not all arrive: {}", self.postfix.log());
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        let log = self.postfix.log();
        let sent = |what: &str| log.matches(&format!("status={what}")).count();
        let ends = ["deferred", "bounced", "expired"].map(sent);
        assert_eq!(ends, [0; 3], "each at its first attempt: {log}");
        let after = self.taken();
        [after[0] - before[0], after[1] - before[1]]
    }

    /// The same until this node has taken some.
    fn send_until_taken(&mut self, domain: &str, node: usize) {
        let begun = Instant::now();
        while self.send(domain)[node] == 0 {
            assert!(begun.elapsed() < PATIENCE, "{node} takes nothing of {domain}");
        }
    }
}

fn one_drains_and_one_dies(site: &mut Site, domain: &str, gone: usize) {
    let (other, name) = (1 - gone, format!("mx{}.test", gone + 1));
    let all_to_other = |taken: [usize; 2]| taken[gone] == 0 && taken[other] == BATCH;
    site.send_until_taken(domain, gone);
    done(&site.nodes[other], &["array", "drain", &name, "--wait"]);
    for _ in 0..2 {
        let taken = site.send(domain);
        assert!(all_to_other(taken), "{domain}: {name} drains: {taken:?}");
    }
    done(&site.nodes[other], &["array", "undrain", &name, "--wait"]);
    site.send_until_taken(domain, gone);
    site.nodes[gone].wait_for_empty_queue();
    site.nodes[gone].kill();
    for _ in 0..2 {
        let taken = site.send(domain);
        assert!(all_to_other(taken), "{domain}: {name} is dead: {taken:?}");
    }
    site.nodes[gone].run();
    site.send_until_taken(domain, gone);
}

/// Each message was delivered once, and is in the array's log once, under the node that took it.
fn each_is_there_once(site: &Site) {
    let delivered = [0, 1].map(|n: usize| tokens(&site.nodes[n].maildir()));
    let mut times: BTreeMap<&String, usize> = BTreeMap::new();
    for (token, count) in delivered.iter().flatten() {
        *times.entry(token).or_default() += count;
    }
    assert_eq!(times.len(), site.sent);
    assert!(times.values().all(|times| *times == 1), "{times:?}");
    let taken = site.taken();
    let of = |name: &str, logged: &[(String, String)]| {
        logged.iter().filter(|(node, _)| node == name).count()
    };
    site.nodes[0].wait_until("the array's log is whole", || {
        logged(&site.nodes[0]).len() >= site.sent
            && site.server.sql("SELECT sum(messages) FROM gauntlet.log_count")
                == site.sent.to_string()
    });
    let logged = logged(&site.nodes[0]);
    assert_eq!(["mx1.test", "mx2.test"].map(|name| of(name, &logged)), taken);
    eprintln!("{} messages by MX, {taken:?}, none deferred, each logged once", site.sent);
}

#[test]
fn a_sender_that_finds_a_node_draining_or_dead_delivers_to_the_other_name() {
    in_own_network(|| {
        let Some(mut site) = Site::start() else { return };
        one_drains_and_one_dies(&mut site, "equal.example", 1);
        // The first name is the one that is gone: each session finds it so.
        one_drains_and_one_dies(&mut site, "ordered.example", 0);
        let log = site.postfix.log();
        let says = |what: &str| assert!(log.contains(what), "{what}: {log}");
        says("refused to talk to me: 421 4.3.2");
        says("mx1.equal.example[127.0.0.11]:25: Connection refused");
        each_is_there_once(&site);
    });
}
