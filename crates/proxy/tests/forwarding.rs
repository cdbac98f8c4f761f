//! Requests and responses pass as RFC 9110 wants it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::{Request, Response};
use tokio::io::AsyncWriteExt;

use crate::common::{Origin, Proxy, read_all, read_until, settings, text};
use gauntlet_proxy::access_log::Outcome;
use gauntlet_proxy::settings::Forwarded;

#[tokio::test]
async fn curl_gets_a_page_and_the_server_sees_a_clean_request() {
    let (proxy, origin) = (Proxy::start(settings()).await, Origin::echo().await);
    let args = ["-H", "Connection: X-Mine", "-H", "X-Mine: 1", "-H", "Keep-Alive: 5", "-H"];
    let url = origin.url("/a/../b?c=%7e");
    let more = ["Proxy-Authorization: Basic eDp5", "-A", "test", "--path-as-is", &url];
    let Some(out) = proxy.curl(&[&args[..], &more[..]].concat()).await else { return };
    let expected = format!(
        "GET /a/../b?c=%7e\naccept: */*\nhost: {}\nuser-agent: test\nvia: 1.1 gauntlet\n\n\n",
        origin.address
    );
    assert_eq!((out.code, out.text), (0, expected), "{}", out.errors);
    let record = proxy.record().await;
    assert_eq!((record.status, record.outcome), (200, Outcome::Passed));
    assert_eq!(record.url, origin.url("/b?c=~"));
    assert_eq!(record.user_agent.as_deref(), Some("test"));
}

#[tokio::test]
async fn connections_are_kept_both_ways() {
    let (proxy, origin) = (Proxy::start(settings()).await, Origin::echo().await);
    let url = origin.url("/");
    let Some(out) = proxy.curl(&[&url, &url, &url]).await else { return };
    assert_eq!(out.text.matches("GET /").count(), 3);
    assert_eq!((origin.connections(), proxy.counters.connections.get()), (1, 1));
    assert_eq!(proxy.counters.origin_reused.get(), 2);
    let addresses = proxy.records(3).await.into_iter().map(|record| record.server_address);
    assert!(addresses.eq([Some([127, 0, 0, 1].into()); 3]), "also over a kept connection");
}

#[tokio::test]
async fn bodies_pass_chunked_and_with_a_length() {
    let (proxy, origin) = (Proxy::start(settings()).await, Origin::echo().await);
    let url = origin.url("/form");
    let chunked = ["-H", "Transfer-Encoding: chunked", "-d", "in chunks", &url];
    let Some(out) = proxy.curl(&chunked).await else { return };
    assert!(out.text.contains("\ntransfer-encoding: chunked\n"), "{}", out.text);
    assert!(out.text.ends_with("\n\nin chunks\n"), "{}", out.text);
    let out = proxy.curl(&["-d", "with a length", &url]).await.unwrap();
    assert!(out.text.contains("\ncontent-length: 13\n"), "{}", out.text);
    assert!(out.text.ends_with("\n\nwith a length\n"), "{}", out.text);
    assert_eq!(proxy.record().await.bytes_in, 9);
}

#[tokio::test]
async fn a_client_that_expects_100_is_answered_by_the_server() {
    let (proxy, origin) = (Proxy::start(settings()).await, Origin::echo().await);
    let request = format!(
        "POST {} HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\
         Connection: close\r\n\r\n",
        origin.url("/")
    );
    let mut stream = proxy.connect().await;
    stream.write_all(request.as_bytes()).await.unwrap();
    assert_eq!(read_until(&mut stream, "\r\n\r\n").await, "HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(b"body").await.unwrap();
    let answer = read_all(&mut stream).await;
    assert!(answer.contains("\nexpect: 100-continue\n"), "{answer}");
    assert!(answer.contains("\n\nbody\n"), "{answer}");
}

#[tokio::test]
async fn a_final_answer_before_100_spares_the_body() {
    let proxy = Proxy::start(settings()).await;
    let origin = Origin::start(|_request| async {
        let mut answer = text("no");
        *answer.status_mut() = hyper::StatusCode::EXPECTATION_FAILED;
        answer
    })
    .await;
    let request = format!(
        "POST {} HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n",
        origin.url("/")
    );
    let answer = proxy.talk(request).await;
    assert!(answer.starts_with("HTTP/1.1 417 "), "{answer}");
    assert!(!answer.contains("100 Continue"), "{answer}");
}

#[tokio::test]
async fn a_server_that_never_says_100_gets_the_body_after_a_while() {
    let proxy = Proxy::start(settings()).await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        read_until(&mut stream, "body").await;
        stream.write_all(b"HTTP/1.0 200 OK\r\n\r\nold but well").await.unwrap();
    });
    let request = format!(
        "POST http://{address}/ HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\
         Expect: 100-continue\r\nConnection: close\r\n\r\n"
    );
    let mut stream = proxy.connect().await;
    stream.write_all(request.as_bytes()).await.unwrap();
    read_until(&mut stream, "100 Continue\r\n\r\n").await;
    stream.write_all(b"body").await.unwrap();
    let answer = read_all(&mut stream).await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.contains("via: 1.0 gauntlet\r\n"), "{answer}");
    assert!(answer.contains("old but well"), "{answer}");
}

#[tokio::test]
async fn a_range_and_its_part_are_not_touched() {
    let proxy = Proxy::start(settings()).await;
    let origin = Origin::start(|request: Request<Incoming>| async move {
        assert_eq!(request.headers()["range"], "bytes=2-3");
        let mut answer = text("cd");
        *answer.status_mut() = hyper::StatusCode::PARTIAL_CONTENT;
        answer.headers_mut().insert("content-range", "bytes 2-3/6".parse().unwrap());
        answer
    })
    .await;
    let Some(out) = proxy.curl(&["-i", "-r", "2-3", &origin.url("/")]).await else { return };
    assert!(out.text.starts_with("HTTP/1.1 206 Partial Content\r\n"), "{}", out.text);
    assert!(out.text.contains("content-range: bytes 2-3/6\r\n"), "{}", out.text);
    assert!(out.text.ends_with("\r\n\r\ncd"), "{}", out.text);
}

#[tokio::test]
async fn answers_without_a_body_end_with_their_header() {
    let proxy = Proxy::start(settings()).await;
    let origin = Origin::start(|request: Request<Incoming>| async move {
        let status: u16 = request.uri().path()[1..].parse().unwrap();
        let mut answer = text(if status == 200 { "twelve bytes" } else { "" });
        *answer.status_mut() = hyper::StatusCode::from_u16(status).unwrap();
        answer.headers_mut().insert("etag", "\"e\"".parse().unwrap());
        answer
    })
    .await;
    let Some(out) = proxy.curl(&["-I", &origin.url("/200")]).await else { return };
    assert!(out.text.contains("content-length: 12\r\n"), "{}", out.text);
    for status in ["204", "304"] {
        let url = origin.url(&format!("/{status}"));
        let out = proxy.curl(&["-i", &url, &url]).await.unwrap();
        assert_eq!(out.text.matches(&format!("HTTP/1.1 {status} ")).count(), 2, "{}", out.text);
        assert_eq!(out.text.matches("etag: \"e\"").count(), 2, "{}", out.text);
        assert!(status != "204" || !out.text.contains("content-length"), "{}", out.text);
    }
    assert_eq!(origin.connections(), 1);
}

#[tokio::test]
async fn trailers_pass_both_ways() {
    let (proxy, origin) = (Proxy::start(settings()).await, Origin::echo().await);
    let request = format!(
        "POST {} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\
         Connection: close\r\n\r\n2\r\nab\r\n0\r\nX-Sum: 7\r\n\r\n",
        origin.url("/")
    );
    let answer = proxy.talk(request).await;
    assert!(answer.contains("trailer x-sum: 7"), "{answer}");

    let origin = Origin::start(|_request| async {
        let mut trailers = hyper::HeaderMap::new();
        trailers.insert("x-sum", "9".parse().unwrap());
        let frames = [Frame::data("abc".into()), Frame::trailers(trailers)];
        let frames = futures_util::stream::iter(frames.map(Ok::<_, std::io::Error>));
        let mut answer = Response::new(StreamBody::new(frames).boxed_unsync());
        answer.headers_mut().insert("trailer", "x-sum".parse().unwrap());
        answer
    })
    .await;
    let request = format!(
        "GET {} HTTP/1.1\r\nHost: x\r\nTE: trailers\r\nConnection: TE, close\r\n\r\n",
        origin.url("/")
    );
    let answer = proxy.talk(request).await;
    assert!(answer.ends_with("3\r\nabc\r\n0\r\nx-sum: 9\r\n\r\n"), "{answer}");
    let records = proxy.records(2).await;
    let ends: Vec<_> = records.iter().map(|record| (record.outcome, record.bytes_out)).collect();
    assert_eq!(ends[1], (Outcome::Passed, 3), "{ends:?}");
}

#[tokio::test]
async fn a_client_of_http_1_0_is_served() {
    let (proxy, origin) = (Proxy::start(settings()).await, Origin::echo().await);
    let answer = proxy.talk(format!("GET {} HTTP/1.0\r\n\r\n", origin.url("/"))).await;
    assert!(answer.starts_with("HTTP/1.0 200 OK\r\n"), "{answer}");
    assert!(answer.contains("\nvia: 1.0 gauntlet\n"), "{answer}");
}

#[tokio::test]
async fn servers_learn_of_the_client_what_the_settings_say() {
    let origin = Origin::echo().await;
    let args = ["-H", "X-Forwarded-For: 10.0.0.1", "-H", "Forwarded: for=10.0.0.1"];
    let url = origin.url("/");
    for (forwarded, expected) in [
        (Forwarded::Off, &[][..]),
        (Forwarded::Transparent, &["forwarded: for=10.0.0.1\n", "x-forwarded-for: 10.0.0.1"]),
        (Forwarded::On, &["forwarded: for=10.0.0.1, for=127.0.0.1\n"]),
    ] {
        let proxy = Proxy::start(gauntlet_proxy::settings::Settings {
            forwarded,
            via: false,
            ..settings()
        })
        .await;
        let Some(out) = proxy.curl(&[&args[..], &[&url]].concat()).await else { return };
        for part in expected {
            assert!(out.text.contains(part), "{part}: {}", out.text);
        }
        assert!(!expected.is_empty() || !out.text.contains("10.0.0.1"), "{}", out.text);
        assert!(!out.text.contains("via:"), "{}", out.text);
    }
}

#[tokio::test]
async fn only_safe_requests_are_sent_again_over_a_new_connection() {
    // The server answers one request a connection without saying so, and closes at the second.
    let requests = Arc::new(AtomicUsize::new(0));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let count = Arc::clone(&requests);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let count = Arc::clone(&count);
            tokio::spawn(async move {
                read_until(&mut stream, "\r\n\r\n").await;
                count.fetch_add(1, Ordering::SeqCst);
                let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
                stream.write_all(answer).await.unwrap();
                read_until(&mut stream, "\r\n\r\n").await;
                count.fetch_add(1, Ordering::SeqCst);
            });
        }
    });
    let proxy = Proxy::start(settings()).await;
    let url = format!("http://{address}/");
    let Some(out) = proxy.curl(&[&url, &url]).await else { return };
    assert_eq!(out.text, "okok", "{}", out.errors);
    assert_eq!(requests.load(Ordering::SeqCst), 3);
    assert_eq!(proxy.counters.origin_retries.get(), 1);

    let out = proxy.curl(&["-X", "POST", "-w", " %{http_code}", &url]).await.unwrap();
    assert!(out.text.ends_with(" 502"), "{}", out.text);
    assert_eq!(requests.load(Ordering::SeqCst), 4);
}

#[tokio::test]
async fn who_ends_their_side_after_a_request_gets_the_answer() {
    let (proxy, origin) = (Proxy::start(settings()).await, Origin::echo().await);
    let secret = "x".repeat(70_000);
    for body in ["", "a body", &secret] {
        let mut stream = proxy.connect().await;
        let (url, length) = (origin.url("/half"), body.len());
        let request =
            format!("POST {url} HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n{body}");
        stream.write_all(request.as_bytes()).await.unwrap();
        stream.shutdown().await.unwrap();
        let answer = read_all(&mut stream).await;
        assert!(answer.contains("POST /half\n") && answer.contains(body), "{answer}");
    }
    // What is not whole has no answer of a server.
    let mut stream = proxy.connect().await;
    let request = format!("POST {} HTTP/1.1\r\nContent-Length: 9\r\n\r\npart", origin.url("/"));
    stream.write_all(request.as_bytes()).await.unwrap();
    stream.shutdown().await.unwrap();
    let answer = read_all(&mut stream).await;
    assert!(!answer.contains("200 OK"), "{answer}");
}

#[tokio::test]
async fn a_loop_is_refused_and_max_forwards_is_counted() {
    let (proxy, origin) = (Proxy::start(settings()).await, Origin::echo().await);
    let url = origin.url("/");
    let Some(out) = proxy.curl(&["-i", "-H", "Via: 1.1 a, 1.1 gauntlet", &url]).await else {
        return;
    };
    assert!(out.text.starts_with("HTTP/1.1 502 "), "{}", out.text);
    assert!(out.text.contains("error=proxy_loop_detected"), "{}", out.text);
    let options = ["-i", "-X", "OPTIONS", "-H"];
    let out = proxy.curl(&[&options[..], &["Max-Forwards: 0", &url]].concat()).await.unwrap();
    assert!(out.text.starts_with("HTTP/1.1 204 "), "{}", out.text);
    let out = proxy.curl(&[&options[..], &["Max-Forwards: 5", &url]].concat()).await.unwrap();
    assert!(out.text.contains("\nmax-forwards: 4\n"), "{}", out.text);
    let out = proxy.curl(&["-i", "-X", "TRACE", &url]).await.unwrap();
    assert!(out.text.starts_with("HTTP/1.1 405 "), "{}", out.text);
}

#[tokio::test]
async fn a_connection_that_somebody_signed_in_on_is_for_nobody_else() {
    let (proxy, origin) = (Proxy::start(settings()).await, Origin::echo().await);
    let url = origin.url("/");
    for (authorization, connections) in
        [("Basic x", 1), ("Basic x", 1), ("NTLM x", 1), ("Basic x", 2), ("negotiate x", 2), ("", 3)]
    {
        let field = format!("Authorization: {authorization}");
        let Some(out) = proxy.curl(&["-H", &field, &url]).await else { return };
        assert_eq!(out.code, 0, "{}", out.errors);
        assert_eq!(origin.connections(), connections, "{authorization}");
    }
}
