//! Promises of SECURITY.md that no other scenario shows.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::common::{Node, Smtp, http_get, message};

#[test]
fn metrics_and_health_name_nobody() {
    let node = Node::start("");
    let mut client = Smtp::connect(node.smtp).unwrap();
    let mail = b"From: Zebedee <zebedee@quagga.example>\r\nTo: okapi@home.example\r\n\
                 Subject: Narwhal lunch\r\n\r\nhello\r\n";
    let reply = client.send("zebedee@quagga.example", &["okapi@home.example"], mail).unwrap();
    assert!(reply.starts_with("250"), "{reply}");
    let refused = client.send("zebedee@quagga.example", &["not an address"], mail).unwrap();
    assert!(refused.starts_with('5'), "{refused}");
    node.wait_for_empty_queue();
    for path in ["/metrics", "/healthz"] {
        let text = http_get(node.console, path).to_lowercase();
        assert!(!text.is_empty(), "{path}");
        let id = reply.split_whitespace().last().unwrap().to_lowercase();
        for secret in ["zebedee", "quagga", "okapi", "home.example", "narwhal", "127.0.0.1", &id] {
            assert!(!text.contains(secret), "{path} has {secret}: {text}");
        }
    }
}

#[test]
fn the_control_socket_is_its_owners() {
    let node = Node::start("");
    let socket = gauntlet_gateway::control::socket_path(&node.data());
    let mode = std::fs::metadata(&socket).unwrap().permissions().mode();
    assert_eq!(mode & 0o077, 0, "{}: {mode:o}", socket.display());
}

#[test]
fn only_named_hosts_relay_for_other_clients() {
    let node = Node::start("");
    let mut client = Smtp::connect(node.smtp).unwrap();
    let offered = client.say("EHLO client.example").unwrap();
    assert!(offered.starts_with("250") && !offered.contains("XCLIENT"), "{offered}");
    let reply = client.say("XCLIENT ADDR=192.0.2.1 LOGIN=ann").unwrap();
    assert!(reply.starts_with('5'), "{reply}");
    // Both versions of the PROXY header are commands that nobody knows, or end the session.
    for header in [&b"PROXY TCP4 192.0.2.1 192.0.2.2 1 25\r\n"[..], b"\r\n\r\n\0\r\nQUIT\n\r\n"] {
        let mut client = Smtp::connect(node.smtp).unwrap();
        client.write(header).unwrap();
        let reply = client.reply().unwrap_or_default();
        assert!(reply.starts_with('5') || reply.is_empty(), "{reply}");
    }
    let mut client = Smtp::connect(node.smtp).unwrap();
    let reply = client.send("a@x.example", &["b@home.example"], &message("m", 10)).unwrap();
    assert!(reply.starts_with("250"), "{reply}");
    node.wait_for_empty_queue();
    let mail = String::from_utf8(node.maildir().pop().unwrap()).unwrap();
    assert!(mail.contains("[127.0.0.1]") && !mail.contains("192.0.2.1"), "{mail}");
}

/// A next hop that offers STARTTLS and answers it with one more reply in clear text. Gives what it
/// heard.
fn speaking_before_tls(
    listener: TcpListener,
    sessions: Arc<AtomicUsize>,
) -> Arc<Mutex<Vec<String>>> {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let taken = heard.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut stream = stream;
            let mut lines = BufReader::new(stream.try_clone().unwrap()).split(b'\n');
            stream.write_all(b"220 hop.example\r\n").unwrap();
            while let Some(Ok(line)) = lines.next() {
                let line = String::from_utf8_lossy(&line).trim().to_owned();
                let answer = match line.get(..4) {
                    Some("EHLO") => "250-hop.example\r\n250 STARTTLS\r\n",
                    Some("STAR") => "220 go\r\n250-hop.example\r\n250 AUTH PLAIN\r\n",
                    _ => "250 ok\r\n",
                };
                let is_end = line.starts_with("STAR");
                taken.lock().unwrap().push(line);
                if stream.write_all(answer.as_bytes()).is_err() {
                    break;
                }
                if is_end {
                    // Whatever comes now, handshake or commands: it is over.
                    let next = lines.next().and_then(Result::ok).unwrap_or_default();
                    taken.lock().unwrap().push(String::from_utf8_lossy(&next).into_owned());
                    sessions.fetch_add(1, Ordering::SeqCst);
                    break;
                }
            }
        }
    });
    heard
}

/// What `gauntlet queue list` prints.
fn queue_of(node: &Node) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_gauntlet"))
        .env_remove("GAUNTLET_CONFIG")
        .args(["queue", "list", "--json", "--data"])
        .arg(node.data())
        .output()
        .unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_next_hop_says_nothing_before_tls() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let sessions = Arc::new(AtomicUsize::new(0));
    let heard = speaking_before_tls(listener, sessions.clone());
    let node = Node::start(&format!(
        "[route]\nnext_hop = \"{address}\"\n[sender]\ntls = \"required\"\nretry_seconds = [600]\n"
    ));
    let mut client = Smtp::connect(node.smtp).unwrap();
    let reply = client.send("a@x.example", &["b@home.example"], &message("m", 10)).unwrap();
    assert!(reply.starts_with("250"), "{reply}");
    node.wait_until("the next hop was asked", || sessions.load(Ordering::SeqCst) > 0);
    let why = "the server said more than its answer to STARTTLS";
    node.wait_until("the reason stands in the queue", || queue_of(&node).contains(why));
    let heard = heard.lock().unwrap().join("\n");
    assert!(!heard.contains("MAIL FROM") && !heard.contains("AUTH"), "{heard}");
}
