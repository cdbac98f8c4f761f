//! Servers and resolvers that break off, drip, lie, or send without end: each is cut within its
//! limit and has its name, and the next request is not harmed.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use gauntlet_proxy::Parts;
use gauntlet_proxy::resolve::Resolve;
use gauntlet_proxy::settings::Settings;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};

use crate::common::{Origin, Proxy, read_until, settings};

/// A server that reads a header, writes one text, then another again and again.
async fn dripping(first: &'static str, again: &'static str, every: Duration) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                read_until(&mut stream, "\r\n\r\n").await;
                let mut next = first;
                while stream.write_all(next.as_bytes()).await.is_ok() {
                    next = again;
                    tokio::time::sleep(every).await;
                }
            });
        }
    });
    url
}

async fn get(proxy: &Proxy, url: &str) -> String {
    proxy.talk(format!("GET {url} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")).await
}

fn hasty() -> Settings {
    let mut short = settings();
    (short.times.response_seconds_max, short.times.idle_seconds_max) = (1, 1);
    short.times.connect_seconds_max = 1;
    short
}

#[tokio::test]
async fn a_header_of_a_server_that_drips_is_cut() {
    let proxy = Proxy::start(hasty()).await;
    let pause = Duration::from_millis(50);
    for (first, again) in [
        ("HTTP/1.1 200 OK\r\nX: ", "a"),
        ("HTTP/1.1 200 OK\r\n", "X: a\r\n"),
        // Answers that are none yet.
        ("HTTP/1.1 102 Processing\r\n\r\n", "HTTP/1.1 103 Early Hints\r\n\r\n"),
    ] {
        let answer = get(&proxy, &dripping(first, again, pause).await).await;
        assert!(answer.starts_with("HTTP/1.1 504 Gateway Timeout\r\n"), "{first:?}: {answer}");
        assert!(answer.contains("details=\"response_timeout\""), "{answer}");
    }
}

#[tokio::test]
async fn a_header_of_a_server_without_end_is_refused() {
    let proxy = Proxy::start(settings()).await;
    let pause = Duration::ZERO;
    for (first, again) in [
        (
            "HTTP/1.1 200 OK\r\nX: ",
            "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
        ),
        (
            "HTTP/1.1 200 OK\r\n",
            "X: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n",
        ),
    ] {
        let answer = get(&proxy, &dripping(first, again, pause).await).await;
        assert!(answer.starts_with("HTTP/1.1 502 Bad Gateway\r\n"), "{answer}");
        assert!(answer.contains("error=http_protocol_error"), "{answer}");
    }
    let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "X: a\r\n".repeat(300));
    let origin = Origin::raw(Box::leak(many.into_boxed_str())).await;
    let answer = get(&proxy, &origin.url("/")).await;
    assert!(answer.contains("error=http_protocol_error"), "{answer}");
}

#[tokio::test]
async fn a_header_of_a_server_is_as_long_as_the_limit_at_most() {
    let proxy = Proxy::start(settings()).await;
    for (bytes, status) in [(60_000, "200 OK"), (66_000, "502 Bad Gateway"), (100_000, "502 ")] {
        let value = "a".repeat(bytes);
        let answer = format!("HTTP/1.1 200 OK\r\nX: {value}\r\nContent-Length: 2\r\n\r\nhi");
        let origin = Origin::raw(Box::leak(answer.into_boxed_str())).await;
        let answer = get(&proxy, &origin.url("/")).await;
        let first = answer.lines().next().unwrap_or_default();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{bytes}: {first}");
    }
}

#[tokio::test]
async fn a_body_under_a_transfer_coding_that_was_not_asked_for_is_refused() {
    let proxy = Proxy::start(settings()).await;
    for (coding, is_passed) in [("chunked", true), ("gzip, chunked", false), ("gzip", false)] {
        let answer =
            format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: {coding}\r\n\r\n2\r\nhi\r\n0\r\n\r\n");
        let origin = Origin::raw(Box::leak(answer.into_boxed_str())).await;
        let answer = get(&proxy, &origin.url("/")).await;
        let first = answer.lines().next().unwrap_or_default();
        assert_eq!(answer.starts_with("HTTP/1.1 200 "), is_passed, "{coding}: {first}");
        if !is_passed {
            assert!(answer.starts_with("HTTP/1.1 502 Bad Gateway\r\n"), "{answer}");
            assert!(answer.contains("error=http_response_transfer_coding"), "{answer}");
        }
    }
    assert_eq!(proxy.counters.refusals("transfer_coding"), 2);
}

#[tokio::test]
async fn chunk_extensions_of_a_server_are_dropped_and_bounded() {
    let proxy = Proxy::start(settings()).await;
    let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let few = format!("{head}4;a=b;c=\"d\"\r\npart\r\n0;e\r\n\r\n");
    let origin = Origin::raw(Box::leak(few.into_boxed_str())).await;
    let answer = get(&proxy, &origin.url("/")).await;
    assert!(answer.ends_with("\r\n\r\n4\r\npart\r\n0\r\n\r\n"), "{answer}");
    for bad in [
        format!("4;{}\r\npart\r\n0\r\n\r\n", "a".repeat(1 << 20)),
        // Of many chunks each has a few.
        format!("1;{}\r\np\r\n", "a".repeat(1000)).repeat(1000) + "0\r\n\r\n",
    ] {
        let answer: &str = Box::leak(format!("{head}{bad}").into_boxed_str());
        let origin = Origin::raw(answer).await;
        let answer = get(&proxy, &origin.url("/")).await;
        assert!(!answer.ends_with("0\r\n\r\n"), "it is not whole: {}", answer.len());
    }
}

#[tokio::test]
async fn what_a_server_sends_beyond_its_length_answers_no_other_request() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let count = Arc::new(AtomicUsize::new(0));
    let accepted = Arc::clone(&count);
    let serve = |mut stream: TcpStream| async move {
        loop {
            read_until(&mut stream, "\r\n\r\n").await;
            let lie = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nsaid\
                       HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison";
            stream.write_all(lie.as_bytes()).await.unwrap();
        }
    };
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            accepted.fetch_add(1, Ordering::SeqCst);
            tokio::spawn(serve(stream));
        }
    });
    let proxy = Proxy::start(settings()).await;
    for _ in 0..5 {
        let answer = get(&proxy, &url).await;
        assert!(answer.ends_with("\r\n\r\nsaid"), "{answer}");
    }
    assert_eq!(count.load(Ordering::SeqCst), 5, "no connection is used again");
}

/// What a resolver does.
#[derive(Clone, Copy)]
enum Dns {
    Silent,
    Failing,
    Nothing,
    /// Ten thousand addresses where nobody listens.
    Many,
    /// Our own networks, under the name of a stranger.
    Lying,
}

impl Resolve for Dns {
    fn resolve<'a>(&'a self, _host: &'a str) -> BoxFuture<'a, std::io::Result<Vec<IpAddr>>> {
        Box::pin(async move {
            match self {
                Dns::Silent => std::future::pending().await,
                Dns::Failing => Err(std::io::Error::other("SERVFAIL")),
                Dns::Nothing => Ok(Vec::new()),
                Dns::Many => Ok((0..10_000_u16).map(|n| many(n).into()).collect()),
                Dns::Lying => Ok([[10, 0, 0, 1], [169, 254, 169, 254]].map(IpAddr::from).to_vec()),
            }
        })
    }
}

fn many(n: u16) -> [u8; 4] {
    let [high, low] = n.to_be_bytes();
    [127, 7, high, low]
}

#[tokio::test]
async fn a_resolver_that_fails_hangs_or_lies_has_its_name() {
    for (dns, status, error) in [
        (Dns::Silent, "504 Gateway Timeout", "connection_timeout"),
        (Dns::Failing, "502 Bad Gateway", "dns_error"),
        (Dns::Nothing, "502 Bad Gateway", "dns_error"),
        (Dns::Many, "502 Bad Gateway", "connection_refused"),
        (Dns::Lying, "403 Forbidden", "destination_ip_prohibited"),
    ] {
        let parts = Parts { resolver: Some(Arc::new(dns)), ..Parts::default() };
        let proxy = Proxy::with(hasty(), parts).await;
        // A port where nobody listens.
        let answer = get(&proxy, "http://some.example:1025/").await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}\r\n")), "{answer}");
        assert!(answer.contains(&format!("error={error}")), "{answer}");
    }
}
