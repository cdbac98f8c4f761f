//! Clients that take what others need: memory, sessions, descriptors. Whoever does keeps what a
//! share gives him, and everybody else gets through.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::common::{Node, PATIENCE, Smtp, connect_from, http_get, message};

/// Clients of this machine are strangers too, and may come as often as they like.
const STRANGERS: &str = "[rates]\nclient_connections_per_minute = 0\n\
    network_connections_per_minute = 0\n[facts]\nour_networks = []\n\
    [receiver]\nexempt_networks = []\n";

/// A client that sends the beginning of a body and then nothing.
fn begin_body(node: SocketAddr, from: [u8; 4], body: &[u8]) -> std::io::Result<Smtp> {
    let mut client = Smtp::connect_from(from, node)?;
    client.say("MAIL FROM:<a@b.example>")?;
    client.say("RCPT TO:<c@d.example>")?;
    client.say("DATA")?;
    client.write(body)?;
    Ok(client)
}

/// Sends a message, again and again until it is taken.
fn gets_through(node: &Node, from: [u8; 4], body: &[u8]) -> Duration {
    let began = Instant::now();
    let mut last = String::new();
    while began.elapsed() < PATIENCE {
        let sent = Smtp::connect_from(from, node.smtp)
            .and_then(|mut client| client.send("a@good.example", &["c@d.example"], body));
        match sent {
            Ok(reply) if reply.starts_with("250") => return began.elapsed(),
            other => last = format!("{other:?}"),
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    panic!("a good client was kept out: {last}");
}

#[test]
fn slow_bodies_of_one_client_leave_memory_to_others() {
    let node = Node::start(STRANGERS);
    let piece = vec![b'x'; 750_000];
    let lines: Vec<u8> = piece.chunks(70).flat_map(|l| [l, b"\r\n"].concat()).collect();
    let held: Vec<Smtp> = std::thread::scope(|scope| {
        let (lines, node) = (&lines, node.smtp);
        let work = |_| {
            scope.spawn(move || {
                let begin = |_| begin_body(node, [127, 0, 1, 1], lines).unwrap();
                (0..26).map(begin).collect::<Vec<_>>()
            })
        };
        let threads: Vec<_> = (0..6).map(work).collect();
        threads.into_iter().flat_map(|t| t.join().unwrap()).collect()
    });
    assert_eq!(held.len(), 156);
    let body = message("good", 300_000);
    let mut client = Smtp::connect_from([127, 0, 2, 1], node.smtp).unwrap();
    let reply = client.send("a@good.example", &["c@d.example"], &body).unwrap();
    assert!(reply.starts_with("250"), "{reply}");
    // A quarter of 128 MB is the client's, and what is large goes to disk.
    let used = node.metric("gauntlet_memory_body_bytes");
    assert!(used <= (128 << 20) / 4, "{used}");
    assert!(node.metric("gauntlet_disk_bodies_total") > 0);
    drop(held);
    node.wait_until("all is given back", || {
        node.metric("gauntlet_memory_body_bytes") + node.metric("gauntlet_disk_body_bytes") == 0
    });
}

#[test]
fn a_body_that_trickles_is_given_up() {
    let config = format!("{STRANGERS}body_bytes_per_second_min = 500\nbody_rate_seconds = 1\n");
    let node = Node::start(&config);
    // Much at once does not pay for silence later.
    let mut client =
        begin_body(node.smtp, [127, 0, 1, 1], &b"Subject: x\r\n".repeat(30_000)).unwrap();
    let began = Instant::now();
    let trickling = AtomicBool::new(true);
    let mut writer = client.stream().try_clone().unwrap();
    let reply = std::thread::scope(|scope| {
        scope.spawn(|| {
            while trickling.load(Ordering::Relaxed) && began.elapsed() < PATIENCE {
                let _closed_at_last = writer.write_all(b"y");
                std::thread::sleep(Duration::from_millis(100));
            }
        });
        let reply = client.reply();
        trickling.store(false, Ordering::Relaxed);
        reply.unwrap()
    });
    assert!(reply.starts_with("421 4.4.2"), "{reply}");
    assert_eq!(node.metric("gauntlet_slow_bodies_total"), 1);
}

#[test]
fn idle_sessions_of_a_few_addresses_make_room_for_a_good_client() {
    let node = Node::start(STRANGERS);
    let mut held = Vec::new();
    for network in 1..=4 {
        for _ in 0..200 {
            held.push(connect_from([127, 0, network, 1], node.smtp).unwrap());
        }
    }
    let took = gets_through(&node, [127, 0, 9, 1], &message("good", 2_000));
    assert!(took < Duration::from_secs(45), "{took:?}");
    assert!(node.metric("gauntlet_sessions_sent_away_total") > 0);
    // One who was sent away got the reason. Others may have been idle for too long before.
    let answered = |stream: &mut TcpStream| {
        let mut text = String::new();
        stream.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        let _open_or_closed = stream.read_to_string(&mut text);
        text.contains("421 4.3.2 too busy")
    };
    assert!(held.iter_mut().any(answered));
}

/// Few sessions, and a wait for commands that outlasts every test: only a client that is sent away
/// makes room for another.
fn few_sessions() -> Node {
    Node::start(&format!(
        "{STRANGERS}sessions_max = 12\nsessions_per_client_max = 100\n\
         sessions_per_network_max = 100\ncommand_seconds_max = 3600\n\
         greeting_wait_ms = 0\n[stress]\nidle_seconds_min = 2\ncommand_seconds_max = 3600\n"
    ))
}

/// Clients hold every session by repeating `lines`; another one gets its mail through nevertheless.
fn is_kept_out_by(node: &Node, clients: u8, lines: &[u8]) {
    let busy = AtomicBool::new(true);
    std::thread::scope(|scope| {
        for n in 0..clients {
            let (busy, address) = (&busy, node.smtp);
            scope.spawn(move || {
                let from = [127, 0, 1 + n / 4, 1];
                let Ok(mut client) = Smtp::connect_from(from, address) else { return };
                while busy.load(Ordering::Relaxed) && client.write(lines).is_ok() {
                    std::thread::sleep(Duration::from_millis(400));
                }
            });
        }
        // Until all of them are old enough to be sent away.
        std::thread::sleep(Duration::from_secs(4));
        let sent = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            gets_through(node, [127, 0, 9, 1], &message("good", 2_000))
        }));
        busy.store(false, Ordering::Relaxed);
        assert!(sent.is_ok(), "kept out by {}", lines.escape_ascii());
    });
    assert!(node.metric("gauntlet_sessions_sent_away_total") > 0);
}

#[test]
fn mail_and_rset_in_turns_hold_no_session() {
    is_kept_out_by(&few_sessions(), 24, b"RSET\r\nMAIL FROM:<a@b.example>\r\n");
}

#[test]
fn chunks_that_are_skipped_hold_no_session() {
    // Every piece belongs to the same refused chunk, which never ends.
    is_kept_out_by(&few_sessions(), 24, b"BDAT 1000000\r\nx");
}

#[test]
fn a_network_has_its_share_of_sessions() {
    let node = Node::start(&format!("{STRANGERS}sessions_per_network_max = 3\n"));
    let held: Vec<Smtp> =
        (1..=3).map(|n| Smtp::connect_from([127, 0, 1, n], node.smtp).unwrap()).collect();
    let refused = Smtp::connect_from([127, 0, 1, 4], node.smtp).err().unwrap().to_string();
    assert!(refused.starts_with("421 4.3.2 too many connections from your network"), "{refused}");
    assert!(Smtp::connect_from([127, 0, 2, 1], node.smtp).is_ok());
    drop(held);
}

struct StopAtEnd<'a>(&'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn half_requests_to_the_console_take_no_descriptor_from_mail() {
    let config = format!("[sender]\nconnections_max = 50\n{STRANGERS}");
    let node = Node::start_limited(900, &config);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let attack = |network: u8| {
            let (stop, console) = (&stop, node.console);
            scope.spawn(move || {
                let mut held = Vec::new();
                for _ in 0..500 {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    let Ok(mut half) = connect_from([127, 0, network, 1], console) else {
                        continue;
                    };
                    let _turned_away = half.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n");
                    held.push(half);
                }
                while !stop.load(Ordering::Relaxed) {
                    std::thread::sleep(Duration::from_millis(50));
                }
            });
        };
        (1..=4).for_each(attack);
        // Also when an assertion fails: else the attack would never end.
        let _ends = StopAtEnd(&stop);
        std::thread::sleep(Duration::from_secs(4));
        let open = std::fs::read_dir(format!("/proc/{}/fd", node.pid())).unwrap().count();
        for n in 0..3 {
            gets_through(&node, [127, 0, 9, 1], &message(&format!("good{n}"), 2_000));
        }
        // Who looks after the node gets through as well: half requests leave.
        let page = http_get(node.console, "/metrics");
        assert!(page.contains("gauntlet_messages_accepted_total 3"), "{page}");
        assert!(open < 500, "{open} descriptors");
    });
}

#[test]
fn a_console_request_that_does_not_come_is_given_up() {
    let node = Node::start("[report]\nhour = 6\n");
    let with = |begin: &[u8]| {
        let mut stream = TcpStream::connect(node.console).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(begin).unwrap();
        let mut text = Vec::new();
        let _reset_is_an_end_too = stream.read_to_end(&mut text);
        String::from_utf8_lossy(&text).into_owned()
    };
    with(b"GET / HTTP/1.1\r\nHost: x\r\n");
    let late = with(b"POST /login HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nlogin");
    assert!(late.starts_with("HTTP/1.1 408"), "{late}");
    // A connection that was answered and stays open ends, too.
    let kept = with(b"GET /login HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(kept.starts_with("HTTP/1.1 "), "{kept}");
}

/// Bytes of memory that the node has in use.
fn resident_bytes(node: &Node) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", node.pid())).unwrap();
    let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1_024
}

#[test]
fn bodies_of_a_service_count_in_the_memory_of_all() {
    let node = Node::start(
        "[facts]\nenabled = false\n[[service]]\nprotocol = \"spamd\"\naddress = \"127.0.0.1:0\"\n",
    );
    let place: SocketAddr = node.place("spamd").parse().unwrap();
    let before = resident_bytes(&node);
    let body = vec![b'x'; 4_900_000];
    let mut held: Vec<TcpStream> = std::thread::scope(|scope| {
        let work = |_| {
            let body = &body;
            scope.spawn(move || {
                let begin = |_| {
                    let mut stream = TcpStream::connect(place).unwrap();
                    stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
                    stream
                        .write_all(b"CHECK SPAMC/1.5\r\nContent-length: 5000000\r\n\r\n")
                        .unwrap();
                    let _is_deferred = stream.write_all(body);
                    stream
                };
                (0..32).map(begin).collect::<Vec<_>>()
            })
        };
        let threads: Vec<_> = (0..4).map(work).collect();
        threads.into_iter().flat_map(|t| t.join().unwrap()).collect()
    });
    let (used, after) = (node.metric("gauntlet_memory_body_bytes"), resident_bytes(&node));
    assert!(used > 0 && used <= 128 << 20, "{used}");
    assert!(after.saturating_sub(before) < 300 << 20, "{before} -> {after}");
    let is_deferred = |stream: &mut TcpStream| {
        let mut text = String::new();
        let _open_or_reset = stream.read_to_string(&mut text);
        text.starts_with("SPAMD/1.1 75 ")
    };
    assert!(held.iter_mut().filter_map(|s| is_deferred(s).then_some(())).count() > 0);
    // The rest of the memory is for others.
    let mut client = Smtp::connect(node.smtp).unwrap();
    let reply = client.send("a@b.example", &["c@d.example"], &message("good", 300_000)).unwrap();
    assert!(reply.starts_with("250"), "{reply}");
    drop(held);
    node.wait_until("all is given back", || node.metric("gauntlet_memory_body_bytes") == 0);
}

#[test]
fn training_by_a_client_is_bounded() {
    let node = Node::start(
        "[facts]\nenabled = false\n[[service]]\nprotocol = \"spamd\"\naddress = \"127.0.0.1:0\"\n\
         learn = true\nlearn_per_user_per_hour_max = 3\nlearn_per_client_per_hour_max = 5\n",
    );
    let place: SocketAddr = node.place("spamd").parse().unwrap();
    let tell = |user: &str, n: usize| {
        let body = message(&format!("{user}{n}"), 500);
        let head = format!(
            "TELL SPAMC/1.5\r\nUser: {user}\r\nMessage-class: spam\r\nSet: local\r\n\
             Content-length: {}\r\n\r\n",
            body.len()
        );
        let mut stream = TcpStream::connect(place).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(&[head.as_bytes(), &body].concat()).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    };
    for n in 0..3 {
        assert!(tell("ann", n).starts_with("SPAMD/1.1 0 "));
    }
    let refused = tell("ann", 3);
    assert!(refused.starts_with("SPAMD/1.1 75 ") && refused.contains("per_user"), "{refused}");
    assert!(tell("bob", 0).starts_with("SPAMD/1.1 0 "));
    let refused = tell("eve", 0);
    assert!(refused.starts_with("SPAMD/1.1 75 ") && refused.contains("per_client"), "{refused}");
}

#[test]
fn a_large_body_comes_back_from_disk_as_it_was() {
    let node = Node::start("");
    let body = message("large", 1_000_000);
    let mut client = Smtp::connect(node.smtp).unwrap();
    let reply = client.send("a@b.example", &["c@d.example"], &body).unwrap();
    assert!(reply.starts_with("250"), "{reply}");
    client.say("MAIL FROM:<a@b.example>").unwrap();
    client.say("RCPT TO:<c@d.example>").unwrap();
    let (last, pieces) = (body.len() - 1, body.chunks(300_000));
    for (n, piece) in pieces.enumerate() {
        let word = if n * 300_000 + piece.len() > last { " LAST" } else { "" };
        client.write(format!("BDAT {}{word}\r\n", piece.len()).as_bytes()).unwrap();
        client.write(piece).unwrap();
        let reply = client.reply().unwrap();
        assert!(reply.starts_with("250"), "{reply}");
    }
    node.wait_for_empty_queue();
    assert!(node.metric("gauntlet_disk_bodies_total") >= 2);
    let delivered = node.maildir();
    assert_eq!(delivered.len(), 2);
    let text = |bytes: &[u8]| bytes.iter().copied().filter(|b| *b != b'\r').collect::<Vec<_>>();
    for copy in delivered {
        assert!(text(&copy).ends_with(&text(&body)), "{} of {}", copy.len(), body.len());
    }
}
