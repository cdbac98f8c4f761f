//! TLS to servers: `https` requests without a tunnel, and how servers that cannot be verified are
//! told apart.

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use gauntlet_proxy::access_log::Outcome;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::{Request, Response};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::common::{Body, Proxy, settings, text};
use crate::tls_parts::{Pki, Running, TlsOrigin, proxy};

/// Asks for an `https` URL in absolute form, which curl does not do.
async fn get(proxy: &Proxy, url: &str) -> String {
    proxy.talk(format!("GET {url} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")).await
}

#[tokio::test]
async fn an_https_request_without_a_tunnel_is_sent_over_tls() {
    let pki = Pki::new();
    let origin = TlsOrigin::echo(&pki.certificate(&["www.good.example"])).await;
    let proxy = proxy(pki.settings()).await;
    let url = origin.url("www.good.example", "/a?b");
    for _ in 0..2 {
        let answer = get(&proxy, &url).await;
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        let said = format!(" GET www.good.example:{} /a?b", origin.port);
        assert!(answer.ends_with(&said), "{answer}");
        // The client did not decrypt anything by it.
        assert!(answer.contains("alt-svc: h3"), "{answer}");
    }
    assert_eq!(origin.connections(), 1, "it is kept");
    let record = proxy.record().await;
    assert_eq!((record.url, record.outcome), (url, Outcome::Passed));
    assert!(record.server_address.is_some_and(|address| address.is_loopback()));
}

#[tokio::test]
async fn a_server_that_cannot_be_verified_is_refused_by_name() {
    let pki = Pki::new();
    let other = Pki::new();
    let ten_years = |years: i32| rcgen::date_time_ymd(2026 + years, 1, 1);
    let names: Vec<String> = (0..1000).map(|n| format!("n{n}.many.example")).collect();
    let many: Vec<&str> = names.iter().map(String::as_str).collect();
    let name = "www.good.example";
    let expired = pki.certificate_with(&[name], |p| p.not_after = ten_years(-10));
    let early = pki.certificate_with(&[name], |p| p.not_before = ten_years(1000));
    for (certificate, error, said) in [
        (expired, "certificate_expired", "it expired on 2016-01-01"),
        (early, "certificate_not_yet_valid", "it is valid from 3026-01-01 on"),
        (pki.certificate(&["other.example"]), "certificate_wrong_name", "other.example"),
        (pki.certificate(&many), "certificate_wrong_name", "n0.many.example, n1.many.example"),
        (other.certificate(&[name]), "certificate_unknown_issuer", "nobody that this proxy trusts"),
        (pki.self_signed(name, false), "certificate_self_signed", "has signed it itself"),
        (pki.self_signed(name, true), "certificate_self_signed", "has signed it itself"),
    ] {
        let Some(origin) = Running::openssl(&certificate, &[]).await else { return };
        let proxy = proxy(pki.settings()).await;
        let answer = get(&proxy, &origin.url(name, "/")).await;
        assert!(answer.starts_with("HTTP/1.1 502 Bad Gateway\r\n"), "{answer}");
        let status = format!("error=tls_certificate_error; details=\"{error}\"");
        assert!(answer.contains(&status) && answer.contains(said), "{error}: {answer}");
        assert_eq!(proxy.counters.refusals(error), 1);
        assert_eq!(proxy.record().await.refusal, Some(error));
    }
}

#[tokio::test]
async fn a_certificate_with_ten_thousand_names_is_too_large() {
    let pki = Pki::new();
    let names: Vec<String> = (0..10_000).map(|n| format!("name-{n}.many.example")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let Some(origin) = Running::openssl(&pki.certificate(&names), &[]).await else { return };
    let proxy = proxy(pki.settings()).await;
    let answer = get(&proxy, &origin.url("name-7.many.example", "/")).await;
    assert!(answer.starts_with("HTTP/1.1 502 Bad Gateway\r\n"), "{answer}");
    assert!(answer.contains("error=tls_protocol_error; details=\"tls_handshake\""), "{answer}");
}

#[tokio::test]
async fn a_server_without_tls_or_with_old_tls_alone_is_refused() {
    let pki = Pki::new();
    let proxy = proxy(pki.settings()).await;
    // It answers TLS in plain text, as web servers do.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.read(&mut [0; 16_384]).await;
            let _ = stream.write_all(b"HTTP/1.0 400 Bad Request\r\n\r\n").await;
        }
    });
    let answer = get(&proxy, &format!("https://www.good.example:{port}/")).await;
    assert!(answer.contains("error=tls_protocol_error; details=\"tls_handshake\""), "{answer}");
    let certificate = pki.certificate(&["www.good.example"]);
    let old = ["-tls1_1", "-cipher", "DEFAULT@SECLEVEL=0"];
    let Some(origin) = Running::openssl(&certificate, &old).await else { return };
    let answer = get(&proxy, &origin.url("www.good.example", "/")).await;
    assert!(answer.starts_with("HTTP/1.1 502 Bad Gateway\r\n"), "{answer}");
    assert!(answer.contains("error=tls_"), "{answer}");
}

#[tokio::test]
async fn a_server_that_needs_the_clients_certificate_says_so() {
    let pki = Pki::new();
    let certificate = pki.certificate(&["www.good.example"]);
    let root = pki.root();
    let args = ["-Verify", "1", "-verify_return_error", "-CAfile", &root, "-tls1_2"];
    let Some(origin) = Running::openssl(&certificate, &args).await else { return };
    let proxy = proxy(pki.settings()).await;
    let answer = get(&proxy, &origin.url("www.good.example", "/")).await;
    assert!(answer.starts_with("HTTP/1.1 502 Bad Gateway\r\n"), "{answer}");
    assert!(answer.contains("details=\"client_certificate\""), "{answer}");
}

/// Answers `/slow` with a body that does not go on, `/never` not at all, and the rest at once.
async fn stalling(request: Request<Incoming>) -> Response<Body> {
    match request.uri().path() {
        "/slow" => {
            let begin = stream::once(async { Ok(Frame::data(Bytes::from("begin"))) });
            Response::new(StreamBody::new(begin.chain(stream::pending())).boxed_unsync())
        }
        "/never" => std::future::pending().await,
        _ => text("at once"),
    }
}

#[tokio::test]
async fn a_stream_that_stalls_is_cut_while_others_of_its_connection_move() {
    let pki = Pki::new();
    let certificate = pki.certificate(&["www.good.example"]);
    let origin = TlsOrigin::start(&certificate, &[b"h2"], stalling).await;
    let mut settings = pki.settings();
    (settings.times.idle_seconds_max, settings.times.response_seconds_max) = (1, 1);
    let proxy = proxy(settings).await;
    let url = |path: &str| origin.url("www.good.example", path);
    let (fast, slow, never) = (url("/fast"), url("/slow"), url("/never"));
    assert!(get(&proxy, &fast).await.ends_with("at once"));
    let stalled = async { tokio::join!(get(&proxy, &slow), get(&proxy, &never)) };
    let mut stalled = std::pin::pin!(stalled);
    let mut others = 0;
    let (slow, never) = loop {
        tokio::select! {
            both = stalled.as_mut() => break both,
            answer = get(&proxy, &fast) => assert!(answer.ends_with("at once"), "{answer}"),
        }
        others += 1;
    };
    assert!(others > 1, "others moved meanwhile");
    // The body is not whole: its last chunk is missing.
    assert!(slow.contains("begin") && !slow.ends_with("0\r\n\r\n"), "{slow}");
    assert!(never.starts_with("HTTP/1.1 504 "), "{never}");
    assert_eq!(origin.connections(), 1, "all went over one connection");
}

#[tokio::test]
async fn without_roots_nobody_is_trusted() {
    let pki = Pki::new();
    let origin = TlsOrigin::echo(&pki.certificate(&["www.good.example"])).await;
    let proxy = proxy(settings()).await;
    let answer = get(&proxy, &origin.url("www.good.example", "/")).await;
    assert!(answer.contains("details=\"certificate_unknown_issuer\""), "{answer}");
}
