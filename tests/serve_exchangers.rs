//! Outbound mail goes by MX (RFC 5321 section 5.1), with a real DNS server and next hops on
//! loopback addresses.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::common::port::free_port;
use crate::common::zone::Zone;
use crate::common::{Node, Sink, Smtp, message, tokens};

fn at(host: &str, port: u16) -> SocketAddr {
    format!("{host}:{port}").parse().unwrap()
}

/// A node that sends outbound mail by MX to this port.
fn node(zone: &Zone, port: u16, more: &str) -> Node {
    Node::start_listening(
        "role = \"outbound\"",
        &format!(
            "[domains]\nlocal = [\"ours.example\"]\n[dns]\nservers = [\"{}\"]\n\
             [sender]\nexchanger_networks_allowed = [\"127.0.0.0/8\"]\n\
             exchanger_port = {port}\nretry_seconds = [1]\n{more}",
            zone.address()
        ),
    )
}

fn send(node: &Node, to: &[&str], token: &str) -> String {
    let mut client = Smtp::connect(node.smtp).unwrap();
    client.send("ann@ours.example", to, &message(token, 100)).unwrap()
}

/// The last reply that the log has for a message's recipient, from `gauntlet trace`.
fn trace(node: &Node, reply: &str) -> String {
    let id = reply.split_whitespace().last().unwrap();
    let out = std::process::Command::new(env!("CARGO_BIN_EXE_gauntlet"))
        .args(["trace", id, "--data"])
        .arg(node.data())
        .output()
        .unwrap();
    String::from_utf8_lossy(&out.stdout).into_owned()
}

#[test]
fn preferences_spares_and_hosts_without_mx() {
    let hosts = ["127.0.0.11", "127.0.0.12", "127.0.0.13"];
    let port = free_port(&hosts);
    let Some(zone) = Zone::serve(
        "two.example MX 20 spare.example.\ntwo.example MX 10 best.example.\n\
         dead.example MX 10 gone.example.\ndead.example MX 20 spare.example.\n\
         best.example A 127.0.0.11\nspare.example A 127.0.0.12\ngone.example A 127.0.0.14\n\
         plain.example A 127.0.0.13\n\
         several.example MX 10 many.example.\nmany.example A 127.0.0.14\nmany.example A 127.0.0.13\n",
    ) else {
        return;
    };
    let sinks: Vec<Sink> = hosts.iter().map(|host| Sink::start_at(at(host, port))).collect();
    let node = node(&zone, port, "");
    for (to, token) in [
        ("bob@two.example", "best"),
        ("bob@dead.example", "spare"),
        ("bob@plain.example", "implicit"),
        ("bob@[127.0.0.13]", "literal"),
        ("bob@several.example", "second-address"),
    ] {
        let reply = send(&node, &[to], token);
        assert!(reply.starts_with("250"), "{reply}");
    }
    node.wait_for_empty_queue();
    let got = |n: usize| tokens(&sinks[n].taken()).into_keys().collect::<Vec<_>>();
    assert_eq!(got(0), ["best"]);
    assert_eq!(got(1), ["spare"]);
    assert_eq!(got(2), ["implicit", "literal", "second-address"]);
    assert_eq!(node.metric("gauntlet_failed_total"), 0);
}

#[test]
fn what_the_dns_says_for_certain_is_final_and_the_rest_waits() {
    let port = free_port(&["127.0.0.15"]);
    let Some(zone) = Zone::serve(
        "null.example MX 0 .\nself.example MX 5 gw.test.\nself.example MX 10 other.example.\n\
         behind.example MX 10 other.example.\nbehind.example MX 20 gw.test.\n\
         other.example A 127.0.0.15\nnowhere.example MX 10 nothing.example.\n",
    ) else {
        return;
    };
    let sink = Sink::start_at(at("127.0.0.15", port));
    let node = node(&zone, port, "bounces = false\n");
    for (to, status, why) in [
        ("bob@null.example", "5.1.10", "null MX"),
        ("bob@self.example", "5.4.6", "come back to us"),
        ("bob@gone.example", "5.1.2", "no domain"),
        ("bob@nowhere.example", "5.4.4", "none has an address"),
    ] {
        let reply = send(&node, &[to], "final");
        assert!(reply.starts_with("250"), "{reply}");
        node.wait_for_empty_queue();
        let trace = trace(&node, &reply);
        assert!(trace.contains(status) && trace.contains(why), "{to}: {trace}");
    }
    assert_eq!(node.metric("gauntlet_failed_total"), 4);
    // A better host than ourselves gets it, and a failing DNS keeps the message.
    send(&node, &["bob@behind.example"], "behind");
    node.wait_for_empty_queue();
    assert_eq!(tokens(&sink.taken())["behind"], 1);
    let reply = send(&node, &["bob@broken.example"], "waits");
    assert!(reply.starts_with("250"), "{reply}");
    node.wait_until("it is deferred", || node.metric("gauntlet_deferred_total") >= 1);
    assert_eq!(node.metric("gauntlet_queue_messages"), 1);
}

/// A stranger's DNS must not make the node connect to servers inside its own network.
#[test]
fn exchangers_that_are_no_hosts_of_the_internet_are_not_gone_to() {
    let port = free_port(&["127.0.0.19"]);
    let Some(zone) = Zone::serve(
        "loop.example MX 10 inside.example.\ninside.example A 127.0.0.19\n\
         plain.example A 127.0.0.19\nprivate.example MX 10 lan.example.\nlan.example A 10.9.8.7\n\
         mapped.example MX 10 m.example.\nm.example AAAA ::ffff:127.0.0.19\n\
         mixed.example MX 10 inside.example.\nmixed.example MX 20 failing.broken.example.\n",
    ) else {
        return;
    };
    let inside = TcpListener::bind(at("127.0.0.19", port)).unwrap();
    let node = Node::start_listening(
        "role = \"outbound\"",
        &format!(
            "[domains]\nlocal = [\"ours.example\"]\n[dns]\nservers = [\"{}\"]\n\
             [sender]\nexchanger_port = {port}\nbounces = false\n",
            zone.address()
        ),
    );
    for (to, address) in [
        ("bob@loop.example", "127.0.0.19"),
        ("bob@plain.example", "127.0.0.19"),
        ("bob@[127.0.0.19]", "127.0.0.19"),
        ("bob@[IPv6:::ffff:127.0.0.19]", "127.0.0.19"),
        ("bob@mapped.example", "127.0.0.19"),
        ("bob@private.example", "10.9.8.7"),
        ("bob@[169.254.169.254]", "169.254.169.254"),
    ] {
        let reply = send(&node, &[to], "inside");
        assert!(reply.starts_with("250"), "{reply}");
        node.wait_for_empty_queue();
        let trace = trace(&node, &reply);
        assert!(trace.contains("5.4.4") && trace.contains("no address of the internet"), "{trace}");
        assert!(trace.contains(address), "{to}: {trace}");
    }
    // Beside a host about which nothing is known the message waits.
    send(&node, &["bob@mixed.example"], "waits");
    node.wait_until("it is deferred", || node.metric("gauntlet_deferred_total") >= 1);
    assert!(node.log().contains("sender.exchanger_networks_allowed"), "{}", node.log());
    inside.set_nonblocking(true).unwrap();
    assert!(inside.accept().is_err(), "nobody came");
}

#[test]
fn named_routes_share_mail_by_weight_and_copies_are_bounded() {
    let hosts = ["127.0.0.16", "127.0.0.17"];
    let port = free_port(&hosts);
    let sinks: Vec<Sink> = hosts.iter().map(|host| Sink::start_at(at(host, port))).collect();
    let Some(zone) = Zone::serve("") else { return };
    let more = format!(
        "recipients_per_message_max = 2\n[[next_hop]]\nfor = [\"partner.example\"]\n\
         hosts = [\"127.0.0.16:{port}\", \"127.0.0.17:{port}\"]\nweights = [1, 0]\n"
    );
    let node = node(&zone, port, &more);
    let to: Vec<String> = (0..5).map(|n| format!("u{n}@partner.example")).collect();
    let to: Vec<&str> = to.iter().map(String::as_str).collect();
    assert!(send(&node, &to, "five").starts_with("250"));
    node.wait_for_empty_queue();
    assert_eq!(tokens(&sinks[0].taken())["five"], 3, "2 + 2 + 1 recipients");
    assert_eq!(sinks[1].taken().len(), 0, "the spare is not needed");
}

/// A server that greets and then sends a byte of its reply to MAIL now and then, for ever.
#[derive(Default)]
struct TarPit {
    held: AtomicUsize,
    most: AtomicUsize,
}

impl TarPit {
    fn start_at(address: SocketAddr) -> Arc<Self> {
        let listener = TcpListener::bind(address).unwrap();
        let pit = Arc::new(TarPit::default());
        let shared = pit.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let pit = shared.clone();
                std::thread::spawn(move || {
                    let held = pit.held.fetch_add(1, Ordering::Relaxed) + 1;
                    pit.most.fetch_max(held, Ordering::Relaxed);
                    let _the_client_has_left = TarPit::drip(stream);
                    pit.held.fetch_sub(1, Ordering::Relaxed);
                });
            }
        });
        pit
    }

    fn drip(stream: TcpStream) -> std::io::Result<()> {
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        reader.get_mut().write_all(b"220 tar\r\n")?;
        reader.read_line(&mut line)?;
        reader.get_mut().write_all(b"250 tar\r\n")?;
        reader.read_line(&mut line)?;
        reader.get_mut().write_all(b"250-")?;
        loop {
            reader.get_mut().write_all(b"x")?;
            std::thread::sleep(Duration::from_millis(200));
        }
    }
}

#[test]
fn a_reply_that_drips_is_given_up() {
    let port = free_port(&["127.0.0.18"]);
    let Some(zone) = Zone::serve("tar.example MX 10 pit.example.\npit.example A 127.0.0.18\n")
    else {
        return;
    };
    let pit = TarPit::start_at(at("127.0.0.18", port));
    let node = node(&zone, port, "reply_seconds_max = 2\n");
    let reply = send(&node, &["bob@tar.example"], "drips");
    node.wait_until("it is deferred", || node.metric("gauntlet_deferred_total") >= 1);
    let trace = trace(&node, &reply);
    assert!(trace.contains("no answer within 2 s"), "{trace}");
    assert_eq!(pit.most.load(Ordering::Relaxed), 1);
}

/// Each reply comes in time, and there is no end of them: one for each recipient.
#[test]
fn a_message_whose_replies_drip_is_given_up() {
    let port = free_port(&["127.0.0.18"]);
    let Some(zone) = Zone::serve("slow.example MX 10 s.example.\ns.example A 127.0.0.18\n") else {
        return;
    };
    let listener = TcpListener::bind(at("127.0.0.18", port)).unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut reader = BufReader::new(stream);
            // The client leaves before the end.
            let _ = reader.get_mut().write_all(b"220 slow\r\n");
            let mut line = String::new();
            while reader.read_line(&mut line).is_ok_and(|bytes| bytes > 0) {
                std::thread::sleep(Duration::from_millis(700));
                if reader.get_mut().write_all(b"250 go on\r\n").is_err() {
                    break;
                }
                line.clear();
            }
        }
    });
    let node = node(&zone, port, "reply_seconds_max = 60\ntransaction_seconds_max = 3\n");
    let to: Vec<String> = (0..30).map(|n| format!("u{n}@slow.example")).collect();
    let to: Vec<&str> = to.iter().map(String::as_str).collect();
    let reply = send(&node, &to, "slowly");
    node.wait_until("it is deferred", || node.metric("gauntlet_deferred_total") >= 1);
    let trace = trace(&node, &reply);
    assert!(trace.contains("within 3 s"), "{trace}");
}

#[test]
fn reports_to_tar_pits_leave_connections_to_everybody_else() {
    let port = free_port(&["127.0.1.1"]);
    let mut text = "pit.example A 127.0.1.1\n".to_owned();
    for n in 0..30 {
        text.push_str(&format!("d{n}.example MX 10 pit.example.\n"));
    }
    let Some(zone) = Zone::serve(&text) else { return };
    let pit = TarPit::start_at(at("127.0.1.1", port));
    let sink = Sink::start();
    let node = Node::start(&format!(
        "[domains]\nlocal = [\"ours.example\"]\n[route]\nnext_hop = \"{}\"\n\
         [dns]\nservers = [\"{}\"]\n[rates]\nclient_messages_per_hour = 0\n\
         [sender]\nexchanger_networks_allowed = [\"127.0.0.0/8\"]\n\
         exchanger_port = {port}\nconnections_max = 20\nmta_sts = false\n",
        sink.address,
        zone.address(),
    ));
    let mut client = Smtp::connect(node.smtp).unwrap();
    for n in 0..40 {
        client.say(&format!("MAIL FROM:<x@d{}.example>", n % 30)).unwrap();
        client.say("RCPT TO:<you@ours.example> NOTIFY=SUCCESS").unwrap();
        client.say("DATA").unwrap();
        let text = String::from_utf8(message(&format!("pit-{n}"), 100)).unwrap();
        let reply = client.say(&format!("{text}.")).unwrap();
        assert!(reply.starts_with("250"), "{reply}");
    }
    let busy = || pit.held.load(Ordering::Relaxed) >= 2;
    node.wait_until("reports are on their way", busy);
    std::thread::sleep(Duration::from_secs(2));
    for n in 0..3 {
        let mut friend = Smtp::connect(node.smtp).unwrap();
        let token = format!("good-{n}");
        let reply = friend.send("ann@d1.example", &["you@ours.example"], &message(&token, 100));
        assert!(reply.unwrap().starts_with("250"));
        node.wait_until("it arrives", || tokens(&sink.taken()).contains_key(&token));
    }
    let most = pit.most.load(Ordering::Relaxed);
    assert!(most <= 4, "{most} connections were held by one stranger");
}
