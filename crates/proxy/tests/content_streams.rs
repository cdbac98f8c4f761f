//! What is passed on without its end: streams, and parts of files. Whatever else a server calls so
//! is judged.

use gauntlet_proxy::content::ContentSettings;
use gauntlet_proxy::settings::content::Partial;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;

use crate::common::{Proxy, read_all, read_until};
use crate::content::{WORDS, phrases, proxy};

/// A server that gives every connection these bytes; it then closes it, or waits.
async fn server(head: &str, body: &[u8], closes: bool) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let answer = [b"HTTP/1.1 ", head.as_bytes(), b"\r\n\r\n", body].concat();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            read_until(&mut stream, "\r\n\r\n").await;
            stream.write_all(&answer).await.unwrap();
            if !closes {
                tokio::spawn(async move {
                    std::future::pending::<()>().await;
                    drop(stream);
                });
            }
        }
    });
    url
}

/// The answer to a request with these fields, up to its end or to this text.
async fn get(proxy: &Proxy, url: &str, fields: &str, end: Option<&str>) -> String {
    let mut client = proxy.connect().await;
    let request = format!("GET {url} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{fields}\r\n");
    client.write_all(request.as_bytes()).await.unwrap();
    match end {
        Some(end) => read_until(&mut client, end).await,
        None => read_all(&mut client).await,
    }
}

/// Programs are blocked by their bytes.
async fn without_programs(partial: Partial) -> Proxy {
    let blocked_types = vec!["program".to_owned()];
    let content = ContentSettings { blocked_types, partial, ..ContentSettings::default() };
    proxy(content, phrases(WORDS), None).await
}

fn program() -> Vec<u8> {
    [b"MZ\x90\0".as_slice(), &[0; 630]].concat()
}

#[tokio::test]
async fn streams_are_not_held_back() {
    let proxy = without_programs(Partial::Strip).await;
    let picture = [b"\xff\xd8\xff\xe0".as_slice(), &[7; 60]].concat();
    let pictures = [b"--B\r\nContent-Type: image/jpeg\r\n\r\n".as_slice(), &picture].concat();
    for (media_type, body, end) in [
        ("text/event-stream", b"data: 1\n\n".as_slice(), "data: 1"),
        ("text/event-stream; charset=utf-8", b": ping\n", ": ping"),
        ("multipart/x-mixed-replace; boundary=B", &pictures, "image/jpeg"),
        ("application/grpc", b"\0\0\0\0\x05hello", "hello"),
    ] {
        let url = server(&format!("200 OK\r\ncontent-type: {media_type}"), body, false).await;
        let got = get(&proxy, &url, "", Some(end)).await;
        assert!(got.starts_with("HTTP/1.1 200 "), "{media_type}: {got}");
    }
}

#[tokio::test]
async fn what_only_has_the_type_of_a_stream_is_judged() {
    let proxy = without_programs(Partial::Strip).await;
    let bad = b"<html><p>The Casino has <b>poker</b>.</html>".to_vec();
    for media_type in
        ["text/event-stream", "multipart/x-mixed-replace; boundary=B", "application/grpc"]
    {
        for body in [program(), bad.clone()] {
            let head = format!("200 OK\r\ncontent-type: {media_type}\r\nconnection: close");
            let got = get(&proxy, &server(&head, &body, true).await, "", None).await;
            assert!(got.starts_with("HTTP/1.1 403 "), "{media_type}: {got}");
        }
    }
}

#[tokio::test]
async fn what_begins_as_a_stream_and_goes_on_as_something_else_is_cut() {
    let proxy = without_programs(Partial::Strip).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let (go_on, wait) = tokio::sync::oneshot::channel::<()>();
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        read_until(&mut stream, "\r\n\r\n").await;
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: 1\n\n";
        stream.write_all(head.as_bytes()).await.unwrap();
        wait.await.unwrap();
        // The proxy may have gone by then.
        let _ = stream.write_all(&program()).await;
        stream
    });
    let mut client = proxy.connect().await;
    let request = format!("GET {url} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    client.write_all(request.as_bytes()).await.unwrap();
    let got = read_until(&mut client, "data: 1\n\n").await;
    assert!(got.starts_with("HTTP/1.1 200 "), "{got}");
    go_on.send(()).unwrap();
    let rest = read_all(&mut client).await;
    assert!(!rest.contains("MZ"), "{rest}");
    let record = proxy.record().await;
    assert_eq!(record.refusal, Some("blocked"));
    server.abort();
}

#[tokio::test]
async fn a_part_that_nobody_asked_for_is_judged_as_the_whole_or_not_passed_on() {
    let whole = "content-range: bytes 0-633/634";
    let beginning = "content-range: bytes 0-633/635";
    let later = "content-range: bytes 1-634/635";
    let player = "range: bytes=0-\r\nsec-fetch-dest: video\r\n";
    let media = b"\x1aE\xdf\xa3".to_vec();
    for (partial, range, fields, body, status) in [
        (Partial::Strip, whole, "", program(), "403"),
        (Partial::Pass, whole, "", program(), "403"),
        (Partial::Strip, whole, player, program(), "403"),
        (Partial::Strip, beginning, player, program(), "403"),
        (Partial::Strip, whole, player, media.clone(), "206"),
        (Partial::Strip, beginning, player, media.clone(), "206"),
        (Partial::Strip, later, player, media.clone(), "206"),
        // Its Range is taken out: the server was not asked for a part.
        (Partial::Strip, beginning, "range: bytes=0-\r\n", media.clone(), "403"),
        (Partial::Strip, beginning, "", media.clone(), "403"),
        (Partial::Strip, later, "", program(), "403"),
        (Partial::Pass, later, "", program(), "403"),
        (Partial::Pass, beginning, "range: bytes=0-\r\n", program(), "403"),
        (Partial::Pass, later, "range: bytes=1-\r\n", media.clone(), "206"),
    ] {
        let proxy = without_programs(partial).await;
        let head = format!(
            "206 Partial Content\r\ncontent-type: video/mp4\r\n{range}\r\nconnection: close"
        );
        let got = get(&proxy, &server(&head, &body, true).await, fields, None).await;
        let case = format!("{partial:?} {range} {fields:?} {}", body.len());
        assert!(got.starts_with(&format!("HTTP/1.1 {status} ")), "{case}: {got}");
    }
}
