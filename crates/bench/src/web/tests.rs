//! The client with requests for a proxy, against proxies of a few lines.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use crate::http::ask::Ask;
use crate::http::client::{self, Plan};

/// A proxy that answers by itself: blocks `www.`, tunnels to itself, else N bytes.
fn proxy() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || serve(stream));
        }
    });
    address
}

fn serve(mut stream: TcpStream) {
    let (mut input, mut buffer) = (Vec::new(), [0; 4_096]);
    loop {
        let Some(end) = memchr::memmem::find(&input, b"\r\n\r\n") else {
            let count = stream.read(&mut buffer).unwrap_or(0);
            if count == 0 {
                return;
            }
            input.extend_from_slice(&buffer[..count]);
            continue;
        };
        let head = String::from_utf8(input.drain(..end + 4).collect()).unwrap();
        let answer = if head.contains("www.") {
            "HTTP/1.1 403 Forbidden\r\nContent-Length: 7\r\n\r\nblocked".to_owned()
        } else if head.starts_with("CONNECT ") {
            "HTTP/1.1 200 Connection established\r\n\r\n".to_owned()
        } else {
            let length = head.split("/bytes/").nth(1).and_then(|t| t.split('/').next());
            let length: usize = length.and_then(|n| n.parse().ok()).unwrap();
            format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{}", ".".repeat(length))
        };
        if stream.write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

fn workload(is_tunnelled: bool) -> Workload {
    Workload {
        origin: "127.0.0.1:8900".parse().unwrap(),
        hot_share: 0.5,
        blocked_share: 0.25,
        blocked: workload::blocked_hosts(1_000, 10),
        is_tunnelled,
        keep_alive: true,
        is_secure: false,
    }
}

fn plan(target: SocketAddr, asks: Arc<[Ask]>) -> Plan {
    Plan {
        target,
        asks,
        connections: 3,
        rate: None,
        keep_alive: true,
        warm_up: Duration::ZERO,
        time: Duration::from_secs(30),
        timeout: Duration::from_secs(20),
        threads: 2,
        requests: 200,
        tls: None,
    }
}

#[test]
fn blocked_and_others_are_told_apart() {
    let address = proxy();
    for is_tunnelled in [false, true] {
        let asks = workload(is_tunnelled).asks(100, Form::Proxy);
        let counts = client::run(&plan(address, asks)).unwrap();
        assert_eq!(counts.failed, 0, "{:?}", counts.errors);
        assert!(counts.answered >= 400, "200 of each thread");
        let share = counts.blocked as f64 / counts.answered as f64;
        assert!((0.2..0.3).contains(&share), "{share} tunnelled: {is_tunnelled}");
        assert!(counts.body_bytes > 0);
    }
}

#[test]
fn a_block_too_few_or_too_many_is_an_error() {
    let address = proxy();
    // The proxy blocks by `www.`: this host is on the list, and not blocked.
    let missed = Workload { blocked: vec!["listed.example".into()], ..workload(false) };
    let counts = client::run(&plan(address, missed.blocked_asks(100))).unwrap();
    assert!(counts.answered == 0 && counts.errors.keys().all(|e| e.starts_with("not blocked")));
    let wrong =
        Ask::get("http://www.x/bytes/9/a", "www.x", true, crate::http::ask::Expect::Bytes(9));
    let counts = client::run(&plan(address, [wrong].into())).unwrap();
    assert!(counts.answered == 0 && counts.errors.keys().all(|e| e.starts_with("blocked")));
}

/// A server that stands still for a while delays all that became due then, not one a connection.
#[test]
fn an_open_loop_counts_what_was_due_in_a_stall() {
    static ASKED: AtomicU64 = AtomicU64::new(0);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut request = [0; 4_096];
            while stream.read(&mut request).is_ok_and(|count| count > 0) {
                if ASKED.fetch_add(1, Ordering::Relaxed) == 20 {
                    std::thread::sleep(Duration::from_millis(500));
                }
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n.");
            }
        }
    });
    let ask = Ask::get("/", "a", true, crate::http::ask::Expect::Success);
    let plan = Plan {
        connections: 1,
        rate: Some(100.0),
        time: Duration::from_secs(1),
        threads: 1,
        requests: 0,
        ..plan(address, [ask].into())
    };
    let counts = client::run(&plan).unwrap();
    assert_eq!(counts.answered + counts.late + counts.unsent, 100, "every turn: {counts:?}");
    let slow = counts.latency.len() - counts.latency.count_between(0, 100_000_000);
    assert!(slow >= 30, "of 50 that were due in the stall, {slow} took more than 100 ms");
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    let options = Options {
        program: PathBuf::from("gauntlet"),
        version: "0".to_owned(),
        subject: Subject::Proxy { address: "127.0.0.1:1".parse().unwrap(), process: None },
        origin: None,
        sizes: vec![1_024],
        hot_share: 0.5,
        blocked_share: 0.0,
        blocked: Vec::new(),
        entries: 100,
        is_tunnelled: false,
        keep_alive: true,
        slow: 0,
        experiment: Experiment::Rate,
        connections: 1,
        rate: None,
        threads: 1,
        time: Duration::from_secs(1),
        timeout: Duration::from_secs(1),
        rounds: 1,
        ladder: Vec::new(),
        recovery_max: Duration::from_secs(1),
        download_bytes: 1,
        tls: None,
    };
    assert!(check(&options).is_ok());
    for wrong in [
        Options { hot_share: 1.5, ..options.clone() },
        Options { blocked_share: 0.1, ..options.clone() },
        Options { sizes: Vec::new(), ..options.clone() },
        Options { sizes: vec![0], ..options.clone() },
        Options {
            is_tunnelled: true,
            subject: Subject::Origin { process: None },
            ..options.clone()
        },
        // Which authority the client is to trust is known of our own proxy alone.
        Options { tls: Some(tls::Tls::Intercepted), ..options.clone() },
    ] {
        assert!(check(&wrong).is_err(), "{wrong:?}");
    }
}
