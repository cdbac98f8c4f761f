//! Clients of HTTP/2 by prior knowledge.

use http_body_util::{BodyExt, Empty, Full};
use hyper::client::conn::http2::SendRequest;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::common::{Body, Origin, Proxy, settings};

async fn client(proxy: &Proxy) -> SendRequest<Body> {
    let io = TokioIo::new(proxy.connect().await);
    let made = hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await;
    let (sender, connection) = made.unwrap();
    tokio::spawn(connection);
    sender
}

fn empty() -> Body {
    Empty::new().map_err(|never| match never {}).boxed_unsync()
}

async fn whole(response: Response<hyper::body::Incoming>) -> String {
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    String::from_utf8_lossy(&bytes).into_owned()
}

#[tokio::test]
async fn requests_at_once_on_one_connection() {
    let (proxy, origin) = (Proxy::start(settings()).await, Origin::echo().await);
    let mut sender = client(&proxy).await;
    let asked: Vec<_> = (0..8)
        .map(|n| {
            let request = Request::builder()
                .uri(origin.url(&format!("/{n}")))
                .header("cookie", "a=1")
                .header("cookie", "b=2")
                .body(empty());
            sender.send_request(request.unwrap())
        })
        .collect();
    for (n, answer) in futures_util::future::join_all(asked).await.into_iter().enumerate() {
        let answer = answer.unwrap();
        assert_eq!(answer.headers()["via"], "1.1 gauntlet");
        let expected =
            format!("GET /{n}\ncookie: a=1; b=2\nhost: {}\nvia: 2 gauntlet\n\n\n", origin.address);
        assert_eq!(whole(answer).await, expected);
    }
    assert_eq!(proxy.counters.connections.get(), 1);
    assert_eq!(proxy.record().await.version, "HTTP/2.0");
}

#[tokio::test]
async fn a_body_and_a_block_page() {
    let (proxy, origin) = (Proxy::start(settings()).await, Origin::echo().await);
    let mut sender = client(&proxy).await;
    let body = Full::from("over HTTP/2").map_err(|never| match never {}).boxed_unsync();
    let request = Request::post(origin.url("/")).body(body).unwrap();
    let answer = sender.send_request(request).await.unwrap();
    assert!(whole(answer).await.ends_with("\n\nover HTTP/2\n"));
    let request = Request::get("http://10.0.0.1:8080/").body(empty()).unwrap();
    let answer = sender.send_request(request).await.unwrap();
    assert_eq!(answer.status(), StatusCode::FORBIDDEN);
    let request = Request::get(origin.url("/")).header("host", "other").body(empty()).unwrap();
    let answer = sender.send_request(request).await.unwrap();
    assert_eq!(answer.status(), StatusCode::BAD_REQUEST);
    assert!(whole(answer).await.contains("Host and :authority differ"));
}

#[tokio::test]
async fn a_tunnel_in_a_stream() {
    let (proxy, origin) = (Proxy::start(settings()).await, Origin::echo().await);
    let mut sender = client(&proxy).await;
    let request = Request::connect(origin.address.to_string()).body(empty()).unwrap();
    let mut answer = sender.send_request(request).await.unwrap();
    assert_eq!(answer.status(), StatusCode::OK);
    let mut stream = TokioIo::new(hyper::upgrade::on(&mut answer).await.unwrap());
    let host = origin.address.to_string();
    let request = format!("GET /in HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    // It is judged, so that it is no longer the client's own.
    let passed = format!("GET /in\nhost: {host}\nvia: 1.1 gauntlet\n\n\n");
    assert!(text.ends_with(&passed), "{text}");
}
