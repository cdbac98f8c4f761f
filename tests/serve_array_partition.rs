//! A node of an array in a network namespace of its own, which is cut off from the database without
//! a word: packets vanish. Mail goes on; afterwards the log is whole, and what was decided is done.

use std::os::fd::AsRawFd;
use std::process::Command;

use crate::common::array_site::unstarted;
use crate::common::{Node, Smtp, http_get, message, program};
use crate::postgres::Server;
use crate::serve_array::done;

/// A namespace with a way to this one. Gone when it is dropped.
struct Network {
    name: String,
}

/// This side of the way, and that of the node.
const HERE: &str = "10.79.1.1";
const THERE: &str = "10.79.1.2";

fn ip(args: &str) -> bool {
    Command::new("ip").args(args.split(' ')).status().is_ok_and(|status| status.success())
}

impl Network {
    /// None, with a note, where this cannot be made.
    fn new() -> Option<Self> {
        program("ip")?;
        let name = format!("gauntlet-array-{}", std::process::id());
        if !ip(&format!("netns add {name}")) {
            assert!(std::env::var_os("CI").is_none(), "network namespaces cannot be made");
            eprintln!("SKIPPED: network namespaces are root's to make");
            return None;
        }
        let network = Network { name };
        let (name, way) = (&network.name, network.way());
        for command in [
            format!("link add {way} type veth peer name e0 netns {name}"),
            format!("addr add {HERE}/30 dev {way}"),
            format!("link set {way} up"),
            format!("-n {name} addr add {THERE}/30 dev e0"),
            format!("-n {name} link set e0 up"),
            format!("-n {name} link set lo up"),
        ] {
            assert!(ip(&command), "ip {command}");
        }
        Some(network)
    }

    /// Name of the device here.
    fn way(&self) -> String {
        format!("ga{}", std::process::id())
    }

    /// Does something there.
    fn inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        let path = format!("/run/netns/{}", self.name);
        std::thread::scope(|scope| {
            let there = scope.spawn(move || {
                let namespace = std::fs::File::open(path).unwrap();
                // SAFETY: the descriptor is open; the call concerns this thread alone.
                let entered = unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) };
                assert_eq!(entered, 0, "{}", std::io::Error::last_os_error());
                work()
            });
            there.join().unwrap()
        })
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        ip(&format!("netns del {}", self.name));
    }
}

fn send(node: &Node, name: &str, count: usize) {
    let mut client = Smtp::connect(node.smtp).unwrap();
    for n in 0..count {
        let body = message(&format!("{name}-{n}"), 200);
        let reply = client.send("ann@example.org", &["bob@example.net"], &body).unwrap();
        assert!(reply.starts_with("250"), "{reply}");
    }
}

/// What the node says to a sender whom the policy refuses later.
fn from_carl(node: &Node) -> String {
    let mut client = Smtp::connect(node.smtp).unwrap();
    client.send("carl@example.org", &["bob@example.net"], &message("carl", 200)).unwrap()
}

/// Publishes a policy that refuses his mail, and orders the node to drain.
fn decide(node: &Node) {
    let refuse = node.folder.path().join("refuse.toml");
    let rule = "[[rule]]\nname = \"cut\"\nwhen.sender = \"carl@example.org\"\n\
                do = { reject = \"decided meanwhile {id}\" }\n";
    std::fs::write(&refuse, rule).unwrap();
    done(node, &["array", "policy", "publish", refuse.to_str().unwrap()]);
    done(node, &["array", "order", "mx1.test", "drain"]);
}

#[test]
fn a_node_that_is_cut_off_takes_mail_and_later_ships_its_log_and_follows() {
    let Some(network) = Network::new() else { return };
    let Some(server) = Server::start(&["fsync=off", "listen_addresses=*"]) else { return };
    let from = |address: &str| format!("host all all {address}/32 trust\n");
    server.let_in(&["127.0.0.1", HERE, THERE].map(from).concat());
    let settings = format!(
        "[array]\ndatabase = \"postgres://keeper@{HERE}:{}/postgres?sslmode=disable\"\n\
         ship_seconds = 1\nstatus_seconds = 1\nconnect_seconds_max = 2\nquery_seconds_max = 2\n\
         [facts]\nenabled = false\n",
        server.port
    );
    let mut node = unstarted("mx1.test", &settings);
    let logged = || server.sql("SELECT coalesce(sum(messages), 0) FROM gauntlet.log_count");
    // The node itself goes there and back: what reads its output may not be shared.
    let there = &mut node;
    network.inside(move || {
        let node = there;
        node.run();
        send(node, "before", 10);
        node.wait_until("it takes part", || node.metric("gauntlet_array_connected") == 1);
        node.wait_until("it is shipped", || {
            node.metric("gauntlet_array_shipped_messages_total") > 9
        });
    });
    assert_eq!(logged(), "10");
    // What goes back to the node vanishes.
    assert!(ip(&format!("route add blackhole {THERE}/32")));
    // What is decided meanwhile does not come through.
    decide(&node);
    let there = &mut node;
    network.inside(move || {
        let node = there;
        send(node, "cut off", 20);
        node.wait_for_empty_queue();
        node.wait_until("it is seen", || node.metric("gauntlet_array_connected") == 0);
        send(node, "still cut off", 20);
        node.wait_for_empty_queue();
        assert_eq!(node.maildir().len(), 50);
        assert_eq!(node.metric("gauntlet_array_policy_number"), 0);
        assert!(from_carl(node).starts_with("250"));
        node.wait_for_empty_queue();
    });
    let open = "SELECT count(*) FROM gauntlet.node_order WHERE done IS NULL";
    assert_eq!(server.sql(open), "1");
    assert!(ip(&format!("route del blackhole {THERE}/32")));
    let there = &mut node;
    network.inside(move || {
        let node = there;
        node.wait_until("it is back", || {
            node.metric("gauntlet_array_connected") == 1
                && node.metric("gauntlet_array_behind_changes") == 0
        });
        node.wait_until("the policy is in force", || {
            node.metric("gauntlet_array_policy_number") == 1
        });
        node.wait_until("it is drained", || {
            http_get(node.console, "/health/ready").starts_with("draining")
        });
    });
    assert_eq!(logged(), "51");
    let outcome = server.sql("SELECT is_good, outcome FROM gauntlet.node_order");
    assert_eq!(outcome, "t|it takes no new mail, and finishes its queue");
    done(&node, &["array", "order", "mx1.test", "undrain", "--wait"]);
    let there = &mut node;
    let answer = network.inside(move || from_carl(there));
    assert!(answer.starts_with("550") && answer.contains("decided meanwhile"), "{answer}");
}
