//! Every limit answers with its name or ends the connection, and is counted.

use std::time::Duration;

use gauntlet_proxy::access_log::Outcome;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::common::{Origin, Proxy, read_all, read_until, settings, text, until};

#[tokio::test]
async fn a_header_that_comes_slowly_is_cut() {
    let mut short = settings();
    short.times.header_seconds_max = 1;
    let proxy = Proxy::start(short).await;
    let mut stream = proxy.connect().await;
    // A byte now and then does not prolong it.
    let dripping = async {
        loop {
            if stream.write_all(b"G").await.is_err() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(crate::common::PATIENCE, dripping).await.expect("it is cut");
    until(|| (proxy.counters.header_timeouts.get() == 1).then_some(())).await;

    // Nor has the second request of a connection more time, after all of the first.
    let origin = Origin::echo().await;
    let mut stream = proxy.connect().await;
    let request = format!("GET {} HTTP/1.1\r\nHost: x\r\n\r\nGET ", origin.url("/"));
    stream.write_all(request.as_bytes()).await.unwrap();
    read_until(&mut stream, "via: 1.1 gauntlet\n").await;
    stream.write_all(b"http://").await.unwrap();
    read_all(&mut stream).await;
    until(|| (proxy.counters.header_timeouts.get() == 2).then_some(())).await;
    until(|| (proxy.counters.connections_now.get() == 0).then_some(())).await;
}

#[tokio::test]
async fn a_kept_connection_without_a_request_ends() {
    let mut short = settings();
    short.times.keep_alive_seconds_max = 1;
    let (proxy, origin) = (Proxy::start(short).await, Origin::echo().await);
    let answer = proxy.talk(format!("GET {} HTTP/1.1\r\nHost: x\r\n\r\n", origin.url("/"))).await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    let counters = &proxy.counters;
    assert_eq!((counters.header_timeouts.get(), counters.stalled.get()), (0, 0));
}

#[tokio::test]
async fn headers_have_limits() {
    let proxy = Proxy::start(settings()).await;
    let ask = |fields: String| format!("GET http://127.0.0.1:1/ HTTP/1.1\r\n{fields}\r\n");
    let many: String = (0..300).map(|n| format!("X-{n}: 1\r\n")).collect();
    let answer = proxy.talk(ask(many)).await;
    assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
    let answer = proxy.talk(ask(format!("X: {}\r\n", "a".repeat(70_000)))).await;
    assert!(answer.starts_with("HTTP/1.1 431 ") || answer.is_empty(), "{answer}");
    until(|| (proxy.counters.protocol_errors.get() == 2).then_some(())).await;
    proxy.talk("no request at all\r\n\r\n".to_owned()).await;
    // Nothing is known of them but that they came.
    let records = proxy.records(3).await;
    let told: Vec<_> = records.iter().map(|r| (r.status, r.refusal, r.url.as_str())).collect();
    let large = (431, Some("header_too_large"), "");
    assert_eq!(told, [large, large, (400, Some("malformed"), "")]);

    let long = "a".repeat(20_000);
    let request = format!("GET http://127.0.0.1:1/{long} HTTP/1.1\r\nHost: x\r\n");
    let answer = proxy.talk(format!("{request}Connection: close\r\n\r\n")).await;
    assert!(answer.starts_with("HTTP/1.1 414 "), "{answer}");
    assert!(answer.contains("longer than 16384 bytes"), "{answer}");
}

#[tokio::test]
async fn no_password_of_a_url_is_in_the_log() {
    let proxy = Proxy::start(settings()).await;
    for target in ["http://ann:secret@127.0.0.1:1/x", "http://ann:secret@[/", "ftp://a:secret@x/"] {
        let head = format!("GET {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        proxy.talk(head).await;
    }
    for record in proxy.records(3).await {
        assert!(!record.url.contains("secret"), "{record:?}");
    }
}

#[tokio::test]
async fn a_server_that_says_nothing_is_a_504() {
    let mut short = settings();
    short.times.response_seconds_max = 1;
    let proxy = Proxy::start(short).await;
    let origin = Origin::start(|_request| std::future::pending()).await;
    let Some(out) = proxy.curl(&["-i", &origin.url("/")]).await else { return };
    assert!(out.text.starts_with("HTTP/1.1 504 Gateway Timeout\r\n"), "{}", out.text);
    assert!(out.text.contains("error=http_response_timeout"), "{}", out.text);
    assert_eq!(proxy.record().await.outcome, Outcome::Failed);
}

#[tokio::test]
async fn a_server_that_is_no_http_server_is_a_502() {
    let proxy = Proxy::start(settings()).await;
    for (answer, error) in [
        ("SSH-2.0-OpenSSH_9\r\n\r\n", "http_protocol_error"),
        ("", "http_response_incomplete"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", "http_protocol"),
        ("HTTP/1.1 407 x\r\nContent-Length: 0\r\n\r\n", "http_protocol_error"),
        ("HTTP/1.1 101 x\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", "http_protocol_error"),
    ] {
        let origin = Origin::raw(answer).await;
        let Some(out) = proxy.curl(&["-i", &origin.url("/")]).await else { return };
        assert!(out.text.starts_with("HTTP/1.1 502 "), "{answer:?}: {}", out.text);
        assert!(out.text.contains(error), "{answer:?}: {}", out.text);
    }
}

#[tokio::test]
async fn a_body_that_breaks_off_is_seen_to_be_incomplete() {
    let proxy = Proxy::start(settings()).await;
    for answer in [
        "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\npart",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\npart\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\npart\r\nzz\r\n",
    ] {
        let origin = Origin::raw(answer).await;
        let Some(out) = proxy.curl(&[&origin.url("/")]).await else { return };
        assert_eq!(out.text, "part", "{answer:?}");
        assert_eq!(out.code, 18, "{answer:?}: {}", out.errors);
    }
    assert_eq!(proxy.record().await.outcome, Outcome::Aborted);
}

#[tokio::test]
async fn a_body_that_stalls_is_cut_whoever_is_slow() {
    let mut short = settings();
    short.times.idle_seconds_max = 1;
    short.times.response_seconds_max = 1;
    let proxy = Proxy::start(short).await;
    // The server stops in the middle.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        read_until(&mut stream, "\r\n\r\n").await;
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\npart").await.unwrap();
        std::future::pending::<()>().await;
    });
    let Some(out) = proxy.curl(&[&format!("http://{address}/")]).await else { return };
    assert_eq!((out.code, out.text.as_str()), (18, "part"), "{}", out.errors);

    // The client stops in the middle of an upload.
    let origin = Origin::echo().await;
    let request = format!("POST {} HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\npart", {
        origin.url("/")
    });
    let answer = proxy.talk(request).await;
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    assert!(answer.contains("details=\"request_body\""), "{answer}");

    // The client has sent all of it, and the server is silent.
    let origin = Origin::start(|_request| std::future::pending()).await;
    let fields = "Host: x\r\nConnection: close\r\nContent-Length: 4";
    let request = format!("POST {} HTTP/1.1\r\n{fields}\r\n\r\npart", origin.url("/"));
    let answer = proxy.talk(request).await;
    assert!(answer.starts_with("HTTP/1.1 504 "), "{answer}");

    // The server takes no more of it than its buffers.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let head =
        format!("POST http://{address}/ HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\n");
    let mut stream = proxy.connect().await;
    let (mut read, mut write) = stream.split();
    let sending = async {
        write.write_all(head.as_bytes()).await.unwrap();
        while write.write_all(&[b'x'; 65536]).await.is_ok() {}
        // What was answered before the connection was closed is still to be read.
        std::future::pending::<()>().await;
    };
    let mut answer = String::new();
    let reading = async {
        let mut buffer = [0; 4096];
        let n = read.read(&mut buffer).await.unwrap();
        answer.push_str(&String::from_utf8_lossy(&buffer[..n]));
    };
    let both = async {
        tokio::select! { () = sending => {}, () = reading => {} }
    };
    tokio::time::timeout(crate::common::PATIENCE, both).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 504 "), "{answer}");
}

#[tokio::test]
async fn a_client_that_does_not_read_is_cut() {
    let mut short = settings();
    short.times.idle_seconds_max = 1;
    short.times.response_seconds_max = 1;
    short.times.connect_seconds_max = 1;
    short.times.keep_alive_seconds_max = 1;
    let proxy = Proxy::start(short).await;
    let origin = Origin::start(|_request| async { text(vec![b'x'; 64 << 20]) }).await;
    let mut stream = proxy.connect().await;
    let request = format!("GET {} HTTP/1.1\r\nHost: x\r\n\r\n", origin.url("/"));
    stream.write_all(request.as_bytes()).await.unwrap();
    assert_eq!(proxy.record().await.outcome, Outcome::Aborted);
    until(|| (proxy.counters.connections_now.get() == 0).then_some(())).await;
}

#[tokio::test]
async fn connections_beyond_the_limit_get_a_page() {
    let mut few = settings();
    few.limits.client_connections_max = 1;
    let (proxy, origin) = (Proxy::start(few).await, Origin::echo().await);
    let first = proxy.connect().await;
    until(|| (proxy.counters.connections_now.get() == 1).then_some(())).await;
    let request =
        format!("GET {} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", { origin.url("/") });
    let answer = proxy.talk(&request).await;
    assert!(answer.starts_with("HTTP/1.1 503 Service Unavailable\r\n"), "{answer}");
    assert!(answer.contains("error=connection_limit_reached"), "{answer}");
    assert_eq!(proxy.counters.refusals("connections"), 1);
    drop(first);
    until(|| (proxy.counters.connections_now.get() == 0).then_some(())).await;
    assert!(proxy.talk(&request).await.starts_with("HTTP/1.1 200 "));
}

#[tokio::test]
async fn a_server_gets_no_more_kept_connections_than_the_limit() {
    let mut few = settings();
    few.limits.kept_origin_connections_max = 1;
    let (proxy, origin) = (Proxy::start(few).await, Origin::echo().await);
    let url = origin.url("/[1-6]");
    let Some(out) = proxy.curl(&["-Z", "--parallel-immediate", &url]).await else { return };
    assert_eq!(out.text.matches("GET /").count(), 6, "{}", out.text);
    // One is left: six more requests one after the other need no new connection.
    let before = origin.connections();
    let out = proxy.curl(&[&url]).await.unwrap();
    assert_eq!(out.text.matches("GET /").count(), 6, "{}", out.text);
    assert!(origin.connections() <= before + 1);
}
