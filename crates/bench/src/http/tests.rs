//! The client against servers that behave, stall, refuse and break off.

use std::io::{Read, Write};
use std::net::TcpListener;

use super::*;

fn sink() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || sink::serve(listener));
    address
}

/// A server that does this with each connection, one thread each.
fn server(act: impl Fn(std::net::TcpStream) + Send + Sync + Copy + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || act(stream));
        }
    });
    address
}

fn options(url: &str) -> Options {
    Options {
        targets: vec![Target::parse(url, None).unwrap()],
        connections: 4,
        rate: None,
        threads: 1,
        keep_alive: true,
        time: Duration::from_millis(300),
        timeout: Duration::from_secs(1),
        rounds: 2,
        ladder: Vec::new(),
        recovery_max: Duration::from_secs(10),
        download: None,
        calibrate: false,
        calibration_asks: Arc::default(),
        tls: None,
    }
}

#[test]
fn requests_are_counted_whole() {
    let address = sink();
    for (path, keep_alive) in [("/", true), ("/", false), ("/bytes/300000", true)] {
        let mut options = options(&format!("http://{address}{path}"));
        options.keep_alive = keep_alive;
        let report = run(&options, "0", &mut |_| {}).unwrap();
        let round = &report.subjects[0].rounds[0];
        assert!(round.answered > 10, "{path} {keep_alive}: {round:?}");
        assert_eq!(round.failed, 0, "{path}: {round:?}");
        let bytes = round.megabytes_per_second * 1e6 / round.requests_per_second;
        let expected = if path == "/" { 1.0 } else { 300_000.0 };
        assert!((bytes / expected - 1.0).abs() < 0.2, "{path}: {bytes} bytes a request");
    }
}

#[test]
fn a_download_and_its_ladder() {
    let address = sink();
    let mut options = options(&format!("http://{address}/"));
    options.ladder = vec![1, 50, CONNECTIONS_MAX];
    options.download =
        Some(Target::parse(&format!("http://{address}/bytes/9000000"), None).unwrap());
    let report = run(&options, "0", &mut |_| {}).unwrap();
    let subject = &report.subjects[0];
    assert_eq!(subject.half_fails_at, None);
    assert!(subject.recovery_seconds.is_some(), "{subject:?}");
    let limited = descriptors_max() < CONNECTIONS_MAX as u64;
    assert_eq!((subject.ladder.len(), report.missing.len()), if limited { (2, 1) } else { (3, 0) });
    assert!(report.download.unwrap().megabytes_per_second.mean > 1.0);
}

#[test]
fn half_fails_and_the_server_recovers() {
    // One connection in four is answered: the others are closed at once.
    static NUMBER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let address = server(|mut stream| {
        let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let alone = number < 40;
        if alone || number.is_multiple_of(4) {
            let mut request = [0; 1_000];
            let _ = stream.read(&mut request);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n.");
        }
    });
    let mut options = options(&format!("http://{address}/"));
    options.keep_alive = false;
    options.connections = 1;
    options.ladder = vec![8, 16];
    options.recovery_max = Duration::from_millis(500);
    let report = run(&options, "0", &mut |_| {}).unwrap();
    let subject = &report.subjects[0];
    assert_eq!(subject.half_fails_at, Some(8), "{:?}", subject.ladder);
    assert_eq!((subject.ladder.len(), subject.recovery_seconds), (1, None), "it never does");
}

#[test]
fn a_stall_is_in_the_latencies() {
    // Each request is answered after 80 ms: a median of less would be a lie.
    let address = server(|mut stream| {
        let mut request = [0; 1_000];
        while stream.read(&mut request).is_ok_and(|n| n > 0) {
            std::thread::sleep(Duration::from_millis(80));
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        }
    });
    let mut options = options(&format!("http://{address}/"));
    options.time = Duration::from_millis(900);
    let report = run(&options, "0", &mut |_| {}).unwrap();
    let subject = &report.subjects[0];
    assert!(subject.latency.p50_us >= 79_000.0, "{:?}", subject.latency);
    assert!(subject.requests_per_second.mean <= 4.0 * 1.2 / 0.08, "four at once");
}

#[test]
fn what_is_no_answer_is_said() {
    let refused = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error = run(&options(&format!("http://{refused}/")), "0", &mut |_| {}).unwrap_err();
    assert!(error.to_string().contains("answers nothing: Connection refused"), "{error}");
    let chatty = server(|mut stream| drop(stream.write_all(b"220 mail.example ESMTP\r\n")));
    let error = run(&options(&format!("http://{chatty}/")), "0", &mut |_| {}).unwrap_err();
    assert!(error.to_string().contains("answers nothing"), "{error}");
    for url in ["https://x/", "127.0.0.1:80", "http://127.0.0.1:1/a b"] {
        assert!(Target::parse(url, None).is_err(), "{url}");
    }
    let target = Target::parse("http://127.0.0.1", None).unwrap();
    assert_eq!((target.address.port(), target.path.as_str()), (80, "/"));
}

#[test]
fn near_the_ceiling_is_invalid() {
    let address = sink();
    let options = options(&format!("http://{address}/"));
    let measured = measure(&options, &options.targets[0], 4, Some(1.0)).unwrap();
    assert!(measured.invalid.iter().any(|why| why.contains("of the 1 that")), "{measured:?}");
}
