//! Lists of our own from a web server that changes its mind, lies, and goes away.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use gauntlet_gateway::clock::Clock;
use gauntlet_gateway::config::{DnsSettings, FactSettings, ListSubject, LocalListSettings};
use gauntlet_gateway::facts::FactCollector;
use gauntlet_gateway::facts::local_lists::LocalLists;
use gauntlet_gateway::net::resolver::Resolver;
use gauntlet_mail::Envelope;
use tokio_rustls::rustls;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

/// What the server says next, and the requests it got.
#[derive(Debug, Default)]
struct Stage {
    answer: Vec<u8>,
    requests: Vec<String>,
}

fn serve() -> (String, Arc<Mutex<Stage>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/lists/bad.txt?x=1", listener.local_addr().unwrap());
    let stage = Arc::new(Mutex::new(Stage::default()));
    let shared = stage.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let lines = BufReader::new(stream.try_clone().unwrap()).lines();
            let head: Vec<String> =
                lines.map_while(Result::ok).take_while(|l| !l.is_empty()).collect();
            let mut stage = shared.lock().unwrap();
            stage.requests.push(head.join("\n").to_lowercase());
            // The client may have gone.
            let _ = stream.write_all(&stage.answer);
        }
    });
    (url, stage)
}

fn ok(headers: &str, body: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n{headers}\r\n{body}", body.len()).into_bytes()
}

/// The same behind TLS, with a certificate for `localhost`: its URL, and the authority's
/// certificate.
fn serve_tls(stage: Arc<Mutex<Stage>>) -> (String, String) {
    let certified = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::Pkcs8(certified.signing_key.serialize_der().into());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certified.cert.der().clone()], key)
        .unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://localhost:{}/bad.txt", listener.local_addr().unwrap().port());
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let session = rustls::ServerConnection::new(config.clone()).unwrap();
            let mut stream = BufReader::new(rustls::StreamOwned::new(session, stream));
            let mut head = String::new();
            // A client that does not trust us leaves in the middle of the handshake.
            while stream.read_line(&mut head).is_ok_and(|n| n > 2) {}
            if head.is_empty() {
                continue;
            }
            let mut stage = stage.lock().unwrap();
            stage.requests.push(head.to_lowercase());
            let _ = stream.get_mut().write_all(&stage.answer);
            stream.get_mut().conn.send_close_notify();
            let _ = stream.get_mut().flush();
        }
    });
    (url, certified.cert.pem())
}

/// A collector as after a start: lists from URLs are due at once.
fn start(url: &str, folder: &Path, bytes_max: u64) -> FactCollector {
    start_trusting(url, folder, bytes_max, Path::new(""))
}

fn start_trusting(url: &str, folder: &Path, bytes_max: u64, roots: &Path) -> FactCollector {
    start_by(&Clock::system(), url, folder, bytes_max, roots)
}

fn start_by(
    clock: &Clock,
    url: &str,
    folder: &Path,
    bytes_max: u64,
    roots: &Path,
) -> FactCollector {
    let list = LocalListSettings {
        name: "bad people".into(),
        path: "".into(),
        url: url.into(),
        refresh_seconds: 3_600,
        bytes_max,
        of: vec![ListSubject::Client],
        points: 3.0,
    };
    let lists = LocalLists::open(&[list], folder, roots, clock.clone()).unwrap();
    let dns = DnsSettings { servers: vec!["127.0.0.1:9".into()], ..DnsSettings::default() };
    let facts = FactSettings { wait_ms_max: 1, ..FactSettings::default() };
    let resolver = Arc::new(Resolver::with_clock(&dns, clock.clone()).unwrap());
    FactCollector::new(resolver, &facts, &[], "gw.example").unwrap().with_local_lists(lists)
}

async fn listed(collector: &FactCollector, client: &str) -> bool {
    let envelope = Envelope { client_ip: client.parse().ok(), ..Envelope::default() };
    let facts = collector.gather(&envelope, b"Subject: x\r\n\r\n").await;
    facts.listings.iter().any(|l| l.zone == "bad people" && l.points == 3.0)
}

#[tokio::test(flavor = "multi_thread")]
async fn fetched_kept_and_never_lost() {
    let (url, stage) = serve();
    let folder = tempfile::tempdir().unwrap();
    let say = |answer: Vec<u8>| stage.lock().unwrap().answer = answer;
    let last = || stage.lock().unwrap().requests.last().cloned().unwrap_or_default();

    // Before the first copy nobody is listed, and the node starts all the same.
    say(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n".to_vec());
    let first = start(&url, folder.path(), 1 << 20);
    first.fetch_lists().await;
    assert!(!listed(&first, "192.0.2.1").await);
    assert!(last().starts_with("get /lists/bad.txt?x=1 http/1.1"), "{}", last());
    let asked = stage.lock().unwrap().requests.len();
    first.fetch_lists().await;
    assert_eq!(stage.lock().unwrap().requests.len(), asked, "it is not due");

    say(ok("ETag: \"one\"\r\nLast-Modified: Sat, 21 Nov 2026 10:00:00 GMT\r\n", "192.0.2.1\n"));
    let collector = start(&url, folder.path(), 1 << 20);
    collector.fetch_lists().await;
    assert!(listed(&collector, "192.0.2.1").await && !listed(&collector, "192.0.2.2").await);
    assert!(!last().contains("if-none-match"), "{}", last());

    // After a restart the copy answers at once, and only what changed is fetched.
    say(b"HTTP/1.1 304 Not Modified\r\n\r\n".to_vec());
    let collector = start(&url, folder.path(), 1 << 20);
    assert!(listed(&collector, "192.0.2.1").await);
    collector.fetch_lists().await;
    assert!(listed(&collector, "192.0.2.1").await);
    let request = last();
    assert!(request.contains("if-none-match: \"one\""), "{request}");
    assert!(request.contains("if-modified-since: sat, 21 nov 2026"), "{request}");

    // What is no whole list is not applied.
    let page = "<html>\n<body>\n<h1>gone fishing</h1>\n</body>\n</html>\n";
    let mut broken = ok("", &"192.0.2.9\n".repeat(1_000));
    broken.truncate(200);
    let large = ok("", &"192.0.2.9\n".repeat(2_000));
    let redirected = b"HTTP/1.1 302 Found\r\nLocation: ftp://x/\r\nContent-Length: 0\r\n\r\n";
    let circle = b"HTTP/1.1 302 Found\r\nLocation: /lists/bad.txt\r\nContent-Length: 0\r\n\r\n";
    for answer in [ok("", page), broken, large, redirected.to_vec(), circle.to_vec(), Vec::new()] {
        say(answer.clone());
        let collector = start(&url, folder.path(), 10_000);
        collector.fetch_lists().await;
        let (is_old, is_new) =
            (listed(&collector, "192.0.2.1").await, listed(&collector, "192.0.2.9").await);
        assert!(is_old && !is_new, "{}", String::from_utf8_lossy(&answer));
    }

    // A new list, in chunks.
    say(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\na\r\n192.0.2.2\n\r\n0\r\n\r\n"
        .to_vec());
    let collector = start(&url, folder.path(), 10_000);
    collector.fetch_lists().await;
    assert!(!listed(&collector, "192.0.2.1").await && listed(&collector, "192.0.2.2").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn by_https_from_whoever_is_trusted() {
    let stage = Arc::new(Mutex::new(Stage::default()));
    let (url, authority) = serve_tls(stage.clone());
    stage.lock().unwrap().answer = ok("", "192.0.2.1\n");
    let folder = tempfile::tempdir().unwrap();
    let (roots, others) = (folder.path().join("roots.pem"), folder.path().join("others.pem"));
    std::fs::write(&roots, authority).unwrap();
    let stranger = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    std::fs::write(&others, stranger.cert.pem()).unwrap();

    let collector = start_trusting(&url, folder.path(), 10_000, &others);
    collector.fetch_lists().await;
    assert!(!listed(&collector, "192.0.2.1").await, "of a server that nobody vouches for");
    assert!(stage.lock().unwrap().requests.is_empty(), "it is not even asked");

    let misnamed = url.replace("localhost", "127.0.0.1");
    let collector = start_trusting(&misnamed, folder.path(), 10_000, &roots);
    collector.fetch_lists().await;
    assert!(!listed(&collector, "192.0.2.1").await, "the certificate is for another name");

    let collector = start_trusting(&url, folder.path(), 10_000, &roots);
    collector.fetch_lists().await;
    assert!(listed(&collector, "192.0.2.1").await);
    let plain = b"HTTP/1.1 302 Found\r\nLocation: http://localhost:1/\r\nContent-Length: 0\r\n\r\n";
    stage.lock().unwrap().answer = plain.to_vec();
    let collector = start_trusting(&url, folder.path(), 10_000, &roots);
    collector.fetch_lists().await;
    assert!(listed(&collector, "192.0.2.1").await, "the copy stays: nothing leads back to http");
}

#[test]
fn wrong_settings_are_named() {
    let folder = tempfile::tempdir().unwrap();
    for (path, url, refresh, named) in [
        ("", "", 60, "a path or a url"),
        ("/x", "http://a.example/", 60, "a path or a url"),
        ("", "ftp://a.example/x", 60, "http"),
        ("", "http://a.example/x", 1, "refresh_seconds"),
    ] {
        let list = LocalListSettings {
            name: "odd".into(),
            path: path.into(),
            url: url.into(),
            refresh_seconds: refresh,
            bytes_max: 1,
            of: vec![],
            points: 0.0,
        };
        let error =
            LocalLists::open(&[list], folder.path(), Path::new(""), Clock::system()).unwrap_err();
        let error = format!("{error:#}");
        assert!(error.contains(named) && error.contains("odd"), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_is_due_by_the_clock_that_was_handed_in() {
    let (url, stage) = serve();
    let folder = tempfile::tempdir().unwrap();
    let clock = Clock::manual(1_795_235_000_000);
    let say = |answer: Vec<u8>| stage.lock().unwrap().answer = answer;
    let asked = || stage.lock().unwrap().requests.len();
    let collector = start_by(&clock, &url, folder.path(), 1 << 20, Path::new(""));

    say(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n".to_vec());
    collector.fetch_lists().await;
    clock.advance(Duration::from_secs(59));
    collector.fetch_lists().await;
    assert_eq!(asked(), 1, "a minute after a failure");
    clock.advance(Duration::from_secs(1));
    say(ok("", "192.0.2.1\n"));
    collector.fetch_lists().await;
    assert_eq!(asked(), 2);
    clock.advance(Duration::from_secs(3_599));
    collector.fetch_lists().await;
    assert_eq!(asked(), 2, "refresh_seconds after a success");
    clock.advance(Duration::from_secs(1));
    collector.fetch_lists().await;
    assert_eq!(asked(), 3);
    assert!(listed(&collector, "192.0.2.1").await);
}
