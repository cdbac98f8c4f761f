//! Tunnels that are not decrypted: the name in TLS is judged, what is no HTTP passes or ends.

use std::sync::Arc;

use gauntlet_proxy::access_log::Outcome;
use gauntlet_proxy::judge::{BlockReason, Decision, Judge};
use gauntlet_proxy::request::WebRequest;
use gauntlet_proxy::settings::{Settings, TunnelPolicy};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::common::{Origin, Proxy, read_all, read_until, text, until};
use crate::hello_bytes::records;
use crate::tls_parts::{Pki, TlsOrigin, judged, proxy};

/// Blocks one host.
struct Blocks(&'static str);

impl Judge for Blocks {
    fn request(&self, request: &WebRequest) -> Decision {
        let (rule, text) = ("test: host".to_owned(), "It is on a list.".to_owned());
        match request.host() == self.0 {
            true => Decision::Block(BlockReason { rule, text }),
            false => Decision::Allow,
        }
    }
}

/// A tunnel to a host at a port.
async fn tunnel(proxy: &Proxy, host: &str, port: u16) -> TcpStream {
    let mut stream = proxy.connect().await;
    let request = format!("CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let head = read_until(&mut stream, "\r\n\r\n").await;
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    stream
}

/// A ClientHello with this name, and perhaps an encrypted one.
fn hello(name: &str, has_ech: bool) -> Vec<u8> {
    let vector = |bytes: &[u8]| [&(bytes.len() as u16).to_be_bytes()[..], bytes].concat();
    let extension =
        |kind: u16, content: &[u8]| [&kind.to_be_bytes()[..], &vector(content)].concat();
    let host = [&[0][..], &vector(name.as_bytes())].concat();
    let mut extensions = extension(0, &vector(&host));
    extensions.extend(extension(43, &[2, 3, 4]));
    if has_ech {
        extensions.extend(extension(0xfe0d, &[0, 0, 1, 0, 1, 7, 0, 1, 9, 0, 1, 9]));
    }
    let mut body = vec![3, 3];
    body.extend([9; 32]);
    body.extend([0, 0, 2, 0x13, 1, 1, 0]);
    body.extend(vector(&extensions));
    let mut message = vec![1, 0];
    message.extend(vector(&body));
    records(&message, 1000)
}

/// Sends bytes through a tunnel, and gives what comes back until it ends.
async fn through(settings: Settings, host: &str, port: u16, bytes: &[u8]) -> (Proxy, Vec<u8>) {
    let proxy = judged(settings, Blocks("blocked.example")).await;
    let mut stream = tunnel(&proxy, host, port).await;
    stream.write_all(bytes).await.unwrap();
    let mut answer = Vec::new();
    let reading = stream.read_to_end(&mut answer);
    let _ = tokio::time::timeout(crate::common::PATIENCE, reading).await.expect("it ends");
    (proxy, answer)
}

/// The alert that a client gets.
const ACCESS_DENIED: [u8; 7] = [21, 3, 3, 0, 2, 2, 49];

#[tokio::test]
async fn without_an_authority_the_name_in_tls_is_judged_and_nothing_is_decrypted() {
    let pki = Pki::new();
    let names = ["blocked.example", "front.example", "www.good.example"];
    let origin = TlsOrigin::echo(&pki.certificate(&names)).await;
    let proxy = judged(pki.settings(), Blocks("blocked.example")).await;
    let root = pki.root();
    let open = origin.url("www.good.example", "/");
    let Some(out) = proxy.curl(&["--cacert", &root, &open]).await else { return };
    assert!(out.text.contains("GET www.good.example"), "{}\n{}", out.text, out.errors);
    assert_eq!(proxy.record().await.tunnel, Some("undecrypted"));

    let to = format!("blocked.example:{0}:front.example:{0}", origin.port);
    let url = origin.url("blocked.example", "/");
    let out = proxy.curl(&["--cacert", &root, "--connect-to", &to, &url]).await.unwrap();
    assert_eq!(out.code, 35, "{}", out.errors);
    assert!(out.errors.contains("access denied"), "{}", out.errors);
    let records = until(|| Some(proxy.log.all()).filter(|all| all.len() == 2)).await;
    let record = &records[1];
    assert_eq!((record.outcome, record.refusal), (Outcome::Denied, Some("blocked")));
    assert_eq!(record.rule.as_deref(), Some("test: host"));
    assert!(record.squid().contains(" TCP_DENIED/200 "), "{}", record.squid());
    assert_eq!(proxy.counters.refusals("blocked"), 1);
}

#[tokio::test]
async fn bytes_without_tls_pass_or_end() {
    let pki = Pki::new();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let _ = stream.read_u8().await?;
                stream.write_all(b"221 bye\r\n").await
            });
        }
    });
    let bytes = b"EHLO client\r\n\r\n";
    let (proxy, answer) = through(pki.settings(), "127.0.0.1", port, bytes).await;
    assert_eq!(answer, b"221 bye\r\n");
    assert_eq!(proxy.record().await.tunnel, Some("not_http"));
    assert_eq!(proxy.counters.tls_not_http.get(), 1);

    let request = b"GET /x HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n";
    for bytes in [&bytes[..], &request[..]] {
        for mut settings in [pki.settings(), pki.decrypting()] {
            settings.tls.not_http = TunnelPolicy::Block;
            let (proxy, answer) = through(settings, "127.0.0.1", port, bytes).await;
            assert_eq!(answer, b"");
            let record = proxy.record().await;
            assert_eq!((record.outcome, record.refusal), (Outcome::Denied, Some("not_http")));
        }
    }
}

/// Blocks a path, of whatever host.
struct BlocksPath(&'static str);

impl Judge for BlocksPath {
    fn request(&self, request: &WebRequest) -> Decision {
        let (rule, text) = ("test: path".to_owned(), "It is on a list.".to_owned());
        match request.url.path_and_query() == self.0 {
            true => Decision::Block(BlockReason { rule, text }),
            false => Decision::Allow,
        }
    }
}

#[tokio::test]
async fn requests_without_tls_in_a_tunnel_are_judged() {
    let pki = Pki::new();
    for settings in [pki.settings(), pki.decrypting()] {
        let origin = Origin::echo().await;
        let port = origin.address.port();
        let proxy = judged(settings, BlocksPath("/secret")).await;
        let mut stream = tunnel(&proxy, "127.0.0.1", port).await;
        for byte in format!("GET /x HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n").bytes() {
            stream.write_all(&[byte]).await.unwrap();
        }
        let answer = read_until(&mut stream, "GET /x\n").await;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        let rest = "GET /secret HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n\
             GET /x HTTP/1.1\r\nHost: other.example\r\nConnection: close\r\n\r\n";
        stream.write_all(rest.as_bytes()).await.unwrap();
        let answer = read_all(&mut stream).await;
        assert!(answer.contains("HTTP/1.1 403 ") && answer.contains("test: path"), "{answer}");
        assert!(answer.contains("HTTP/1.1 421 "), "{answer}");
        assert_eq!(origin.connections(), 1, "that of the tunnel is used");
        let records = proxy.records(4).await;
        let of = |status| records.iter().find(|r| r.method != "CONNECT" && r.status == status);
        assert_eq!(of(200).unwrap().url, format!("http://127.0.0.1:{port}/x"));
        assert_eq!(of(403).unwrap().url, format!("http://127.0.0.1:{port}/secret"));
        let connect = records.iter().find(|r| r.method == "CONNECT").unwrap();
        assert_eq!((connect.tunnel, connect.outcome), (Some("plain_http"), Outcome::Tunnel));
    }
}

#[tokio::test]
async fn a_blocked_tunnel_shows_its_page_without_tls_too() {
    let pki = Pki::new();
    let request = b"GET / HTTP/1.1\r\nHost: blocked.example:8443\r\nConnection: close\r\n\r\n";
    let (proxy, answer) = through(pki.decrypting(), "blocked.example", 8443, request).await;
    let answer = String::from_utf8_lossy(&answer);
    assert!(answer.starts_with("HTTP/1.1 403 ") && answer.contains("test: host"), "{answer}");
    assert_eq!(proxy.counters.tls_intercepted.get(), 0);
}

#[tokio::test]
async fn http2_without_tls_in_a_tunnel_is_judged() {
    let origin = Origin::echo().await;
    let proxy = judged(crate::common::settings(), BlocksPath("/secret")).await;
    let args = ["--http2-prior-knowledge", "-p"];
    for (path, said) in [("/x", "GET /x\n"), ("/secret", "test: path")] {
        let url = origin.url(path);
        let Some(out) = proxy.curl(&[args[0], args[1], &url]).await else { return };
        assert!(out.text.contains(said), "{}\n{}", out.text, out.errors);
    }
}

#[tokio::test]
async fn a_server_that_speaks_first_is_heard_or_the_tunnel_ends() {
    let pki = Pki::new();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            stream.write_all(b"220 ready\r\n").await.unwrap();
            assert_eq!(read_until(&mut stream, "\r\n").await, "QUIT\r\n");
            stream.write_all(b"221 bye\r\n").await.unwrap();
        }
    });
    let proxy = proxy(pki.decrypting()).await;
    let mut stream = tunnel(&proxy, "mail.example", port).await;
    assert_eq!(read_until(&mut stream, "\r\n").await, "220 ready\r\n");
    stream.write_all(b"QUIT\r\n").await.unwrap();
    assert_eq!(read_all(&mut stream).await, "221 bye\r\n");

    let mut settings = pki.decrypting();
    settings.tls.not_http = TunnelPolicy::Block;
    let proxy = crate::tls_parts::proxy(settings).await;
    let mut stream = tunnel(&proxy, "mail.example", port).await;
    assert_eq!(read_all(&mut stream).await, "");
}

#[tokio::test]
async fn an_encrypted_hello_passes_or_ends() {
    let pki = Pki::new();
    let origin = TlsOrigin::echo(&pki.certificate(&["front.example"])).await;
    for (name, has_ech, is_blocked) in [
        ("front.example", true, true),
        // So browsers do that encrypt nothing.
        ("hidden.example", true, false),
        ("front.example", false, false),
    ] {
        let mut settings = pki.settings();
        settings.tls.ech = TunnelPolicy::Block;
        let bytes = hello(name, has_ech);
        let (proxy, answer) = through(settings, "hidden.example", origin.port, &bytes).await;
        assert_eq!(answer == ACCESS_DENIED, is_blocked, "{name} {has_ech}: {answer:?}");
        let blocked = u64::from(is_blocked);
        assert_eq!(proxy.counters.refusals("encrypted_hello"), blocked, "{name}");
    }
    let bytes = hello("front.example", true);
    let (proxy, _) = through(pki.settings(), "hidden.example", origin.port, &bytes).await;
    assert_eq!(proxy.counters.refusals("encrypted_hello"), 0);
}

#[tokio::test]
async fn an_address_in_place_of_the_name_is_judged() {
    let pki = Pki::new();
    let origin = TlsOrigin::echo(&pki.certificate(&["front.example"])).await;
    let proxy = judged(pki.settings(), Blocks("192.0.2.9")).await;
    let mut stream = tunnel(&proxy, "front.example", origin.port).await;
    stream.write_all(&hello("192.0.2.9", false)).await.unwrap();
    until(|| (proxy.counters.refusals("blocked") == 1).then_some(())).await;
}

#[tokio::test]
async fn a_hello_that_is_broken_ends_the_tunnel() {
    let pki = Pki::new();
    let origin = TlsOrigin::echo(&pki.certificate(&["www.good.example"])).await;
    let mut broken = hello("www.good.example", false);
    let length = broken.len();
    broken[length - 10] = 0xff;
    for settings in [pki.settings(), pki.decrypting()] {
        let (proxy, answer) = through(settings, "www.good.example", origin.port, &broken).await;
        assert_eq!(answer, [21, 3, 3, 0, 2, 2, 50]);
        assert_eq!(proxy.counters.refusals("client_hello"), 1);
    }
    // Half of one, and then nothing.
    let mut settings = pki.decrypting();
    settings.times.header_seconds_max = 1;
    let (proxy, _) = through(settings, "www.good.example", origin.port, &broken[..50]).await;
    assert_eq!(proxy.counters.refusals("client_hello"), 1);
}

/// A client's TLS through a tunnel, by the library.
async fn secure(
    stream: TcpStream,
    trusted: &str,
    name: &str,
    protocols: &[&[u8]],
) -> std::io::Result<tokio_rustls::client::TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(trusted).unwrap()).unwrap();
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|p| p.to_vec()).collect();
    let connector = TlsConnector::from(Arc::new(config));
    connector.connect(name.to_owned().try_into().unwrap(), stream).await
}

#[tokio::test]
async fn a_protocol_that_the_server_does_not_take_hides_nothing() {
    let pki = Pki::new();
    let certificate = pki.certificate(&["www.good.example"]);
    let origin = TlsOrigin::start(&certificate, &[], |_| async { text("a page") }).await;
    let proxy = proxy(pki.decrypting()).await;
    let stream = tunnel(&proxy, "www.good.example", origin.port).await;
    // Only the proxy's own certificate is trusted: it is decrypted.
    let stream = secure(stream, &pki.ca(), "www.good.example", &[b"imap", b"foo"]).await;
    let mut stream = stream.unwrap();
    let request = format!("GET / HTTP/1.1\r\nHost: www.good.example:{}\r\n\r\n", origin.port);
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = vec![0; 12];
    stream.read_exact(&mut answer).await.unwrap();
    assert_eq!(answer, b"HTTP/1.1 200");
    assert_eq!(proxy.counters.tls_not_http.get(), 0);
}

#[tokio::test]
async fn tls_for_another_protocol_is_not_decrypted() {
    let pki = Pki::new();
    let certificate = pki.certificate(&["chat.example"]);
    let origin = TlsOrigin::start(&certificate, &[b"xmpp-client"], |_| async { text("x") }).await;
    let proxy = proxy(pki.decrypting()).await;
    let stream = tunnel(&proxy, "chat.example", origin.port).await;
    let stream = secure(stream, &pki.root(), "chat.example", &[b"xmpp-client"]).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"xmpp-client"[..]));
    drop(stream);
    assert_eq!(proxy.record().await.tunnel, Some("not_http"));
}

#[tokio::test]
async fn a_websocket_within_a_decrypted_tunnel() {
    let pki = Pki::new();
    let certificate = pki.certificate(&["ws.example"]);
    let origin =
        TlsOrigin::start(&certificate, &[b"h2", b"http/1.1"], crate::tunnels::switching).await;
    let proxy = proxy(pki.decrypting()).await;
    let stream = tunnel(&proxy, "ws.example", origin.port).await;
    let mut stream = secure(stream, &pki.ca(), "ws.example", &[b"http/1.1"]).await.unwrap();
    let request = format!(
        "GET /chat HTTP/1.1\r\nHost: ws.example:{}\r\nConnection: Upgrade\r\n\
         Upgrade: websocket\r\n\r\n",
        origin.port
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        answer.push(stream.read_u8().await.unwrap());
    }
    let head = String::from_utf8_lossy(&answer).into_owned();
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    stream.write_all(b"ping").await.unwrap();
    let mut twice = [0; 8];
    stream.read_exact(&mut twice).await.unwrap();
    assert_eq!(&twice, b"pingping");
}

#[tokio::test]
async fn a_stop_ends_decrypted_tunnels() {
    let pki = Pki::new();
    let origin = TlsOrigin::echo(&pki.certificate(&["www.good.example"])).await;
    let mut settings = pki.decrypting();
    settings.times.stop_seconds_max = 1;
    let mut proxy = proxy(settings).await;
    let stream = tunnel(&proxy, "www.good.example", origin.port).await;
    let mut stream = secure(stream, &pki.ca(), "www.good.example", &[]).await.unwrap();
    let stopped = proxy.stop();
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest).await;
    stopped.await.unwrap();
    assert_eq!(proxy.record().await.tunnel, Some("intercepted"));
}
