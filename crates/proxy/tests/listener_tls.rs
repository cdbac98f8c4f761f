//! Clients that speak TLS with the proxy itself: curl, and HTTP/2 by hand.

use std::sync::Arc;

use gauntlet_proxy::Parts;
use gauntlet_proxy::settings::Settings;
use gauntlet_proxy::tls::ListenerCertificate;
use http_body_util::{BodyExt, Empty};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::common::{Origin, Proxy, settings, until};
use crate::tls_parts::{Pki, TlsOrigin};

/// A proxy that shows a certificate of `localhost`.
async fn start(pki: &Pki, settings: Settings) -> Proxy {
    let files = pki.certificate(&["localhost"]);
    let certificate = ListenerCertificate::open(&files.certificate, &files.key).unwrap();
    let tls = Some(Arc::new(certificate).config().unwrap());
    Proxy::with(settings, Parts { tls, ..Parts::default() }).await
}

/// A client's connection that offers these protocols.
async fn connect(pki: &Pki, proxy: &Proxy, protocols: &[&[u8]]) -> TlsStream<TcpStream> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(pki.root()).unwrap()).unwrap();
    let mut config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|p| p.to_vec()).collect();
    let name = ServerName::try_from("localhost").unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, proxy.connect().await).await.unwrap()
}

#[tokio::test]
async fn curl_speaks_https_with_the_proxy_for_requests_and_tunnels() {
    let (pki, origin) = (Pki::new(), Origin::echo().await);
    let proxy = start(&pki, settings()).await;
    let (at, root) = (format!("https://localhost:{}", proxy.address.port()), pki.root());
    for tunnel in [false, true] {
        let url = origin.url("/a");
        let mut args = vec!["-x", &at, "--proxy-cacert", &root, &url];
        args.extend(tunnel.then_some("-p"));
        let Some(out) = proxy.curl(&args).await else { return };
        assert!(out.text.starts_with("GET /a"), "{out:?}");
    }
    let out = proxy.curl(&["-x", &at, &origin.url("/")]).await.unwrap();
    assert_ne!(out.code, 0, "a certificate that curl does not know");
    let out = proxy.curl(&["-x", &at, "--proxy-insecure", &origin.url("/")]).await.unwrap();
    assert_eq!(out.code, 0, "{out:?}");
    // Without TLS nothing is served.
    let out = proxy.curl(&[&origin.url("/")]).await.unwrap();
    assert_ne!(out.code, 0, "{out:?}");
    until(|| (proxy.counters.client_tls_failures.get() == 2).then_some(())).await;
}

#[tokio::test]
async fn a_tunnel_within_http2_within_tls_carries_tls_that_is_decrypted() {
    let pki = Pki::new();
    let origin = TlsOrigin::echo(&pki.certificate(&["localhost"])).await;
    let proxy = start(&pki, pki.settings()).await;
    let stream = connect(&pki, &proxy, &[b"h2", b"http/1.1"]).await;
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .unwrap();
    tokio::spawn(connection);
    let uri = format!("localhost:{}", origin.port);
    let request = hyper::Request::connect(uri).body(Empty::<bytes::Bytes>::new()).unwrap();
    let mut response = sender.send_request(request).await.unwrap();
    assert_eq!(response.status(), 200);
    let tunnel = TokioIo::new(hyper::upgrade::on(&mut response).await.unwrap());
    // The tunnel's own TLS, with the server.
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(pki.root()).unwrap()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("localhost").unwrap();
    let inner = TlsConnector::from(Arc::new(config)).connect(name, tunnel).await.unwrap();
    let (mut inside, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(inner)).await.unwrap();
    tokio::spawn(connection);
    let request = hyper::Request::get("/inside").header("host", "localhost");
    let request = request.body(Empty::<bytes::Bytes>::new()).unwrap();
    let response = inside.send_request(request).await.unwrap();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    let said = String::from_utf8_lossy(&body).into_owned();
    assert!(said.contains("GET localhost /inside"), "{said}");
}

#[tokio::test]
async fn http1_is_chosen_by_name_and_browsers_are_told_https() {
    let (pki, origin) = (Pki::new(), Origin::echo().await);
    let proxy = start(&pki, settings()).await;
    for (protocols, chosen) in [(vec![&b"http/1.1"[..]], Some(&b"http/1.1"[..])), (vec![], None)] {
        let mut stream = connect(&pki, &proxy, &protocols).await;
        assert_eq!(stream.get_ref().1.alpn_protocol(), chosen);
        let request =
            format!("GET {} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", origin.url("/"));
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
    let mut stream = connect(&pki, &proxy, &[]).await;
    let request = "GET /proxy.pac HTTP/1.1\r\nHost: localhost:1\r\nConnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.contains("return \"HTTPS localhost:1\";"), "{answer}");
}

#[tokio::test]
async fn who_may_not_use_the_proxy_gets_the_page_within_tls() {
    let pki = Pki::new();
    let networks = vec!["192.0.2.0/24".parse().unwrap()];
    let proxy = start(&pki, Settings { client_networks: networks, ..settings() }).await;
    let mut stream = connect(&pki, &proxy, &[]).await;
    stream.write_all(b"GET http://x.example/ HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    // How it ends is not the question.
    let _ = stream.read_to_end(&mut answer).await;
    let answer = String::from_utf8_lossy(&answer).into_owned();
    assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
}

#[tokio::test]
async fn who_does_not_speak_in_time_is_closed() {
    let mut settings = settings();
    settings.times.header_seconds_max = 1;
    let proxy = start(&Pki::new(), settings).await;
    let mut stream = proxy.connect().await;
    let mut bytes = Vec::new();
    // A reset is an end, too.
    let _ = stream.read_to_end(&mut bytes).await;
    assert!(bytes.is_empty());
    assert_eq!(proxy.counters.header_timeouts.get(), 1);
}

#[test]
fn files_that_do_not_fit_are_named_and_a_reload_shows_others() {
    let pki = Pki::new();
    let (first, second) = (pki.certificate(&["a.example"]), pki.certificate(&["b.example"]));
    let mixed = ListenerCertificate::open(&first.certificate, &second.key).unwrap_err();
    assert!(mixed.to_string().contains(second.key.to_str().unwrap()), "{mixed}");
    let empty = pki.path("empty");
    std::fs::write(&empty, "").unwrap();
    let error = ListenerCertificate::open(&empty, &first.key).unwrap_err();
    assert!(error.to_string().contains("no certificate in PEM form"), "{error}");
    let error = ListenerCertificate::open(&first.certificate, &empty).unwrap_err();
    assert!(error.to_string().contains("no key in PEM form"), "{error}");
    let shown = ListenerCertificate::open(&first.certificate, &first.key).unwrap();
    std::fs::copy(&second.certificate, &first.certificate).unwrap();
    assert!(shown.reload().is_err(), "the key is still the first's");
    std::fs::copy(&second.key, &first.key).unwrap();
    shown.reload().unwrap();
}
