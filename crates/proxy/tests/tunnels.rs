//! Tunnels, upgraded connections, where they may lead, and the next proxy.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use gauntlet_proxy::access_log::{Outcome, Peer};
use gauntlet_proxy::resolve::Resolve;
use gauntlet_proxy::settings::{PortRange, Settings, Upstream};
use gauntlet_proxy::{Parts, Server};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

use crate::common::{Body, Origin, Proxy, read_all, read_until, settings, text};

/// A TLS server that answers one request a connection; its certificate is written to a file.
async fn tls_origin(folder: &std::path::Path) -> (SocketAddr, String) {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let file = folder.join("certificate.pem");
    std::fs::write(&file, made.cert.pem()).unwrap();
    let key = PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            let mut buffer = [0; 4096];
            let _ = stream.read(&mut buffer).await;
            let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsecret";
            let _ = stream.write_all(answer).await;
            let _ = stream.shutdown().await;
        }
    });
    (address, file.to_str().unwrap().to_owned())
}

/// Answers every look-up with these addresses.
struct Fixed(Vec<IpAddr>);

impl Resolve for Fixed {
    fn resolve<'a>(&'a self, _host: &'a str) -> BoxFuture<'a, std::io::Result<Vec<IpAddr>>> {
        Box::pin(async { Ok(self.0.clone()) })
    }
}

#[tokio::test]
async fn curl_reaches_a_tls_server_through_a_tunnel() {
    let folder = tempfile::tempdir().unwrap();
    let (address, certificate) = tls_origin(folder.path()).await;
    let proxy = Proxy::start(settings()).await;
    let url = format!("https://localhost:{}/", address.port());
    let Some(out) = proxy.curl(&["--cacert", &certificate, &url]).await else { return };
    assert_eq!((out.code, out.text.as_str()), (0, "secret"), "{}", out.errors);
    let record = proxy.record().await;
    assert_eq!((record.outcome, record.status), (Outcome::Tunnel, 200));
    assert_eq!(record.url, format!("localhost:{}", address.port()));
    assert_eq!(record.server_address, Some([127, 0, 0, 1].into()));
    assert!(record.bytes_in > 100 && record.bytes_out > 100, "{record:?}");
    assert_eq!(proxy.counters.tunnels.get(), 1);
}

#[tokio::test]
async fn ports_that_are_not_listed_are_refused() {
    let proxy = Proxy::start(Settings {
        connect_ports: vec![PortRange::one(443)],
        plain_ports: vec![PortRange::one(80)],
        ..settings()
    })
    .await;
    let request = "CONNECT 127.0.0.1:25 HTTP/1.1\r\nHost: 127.0.0.1:25\r\n\
                   Connection: close\r\n\r\n";
    let answer = proxy.talk(request).await;
    assert!(answer.starts_with("HTTP/1.1 403 Forbidden\r\n"), "{answer}");
    assert!(answer.contains("Port 25 may not be reached"), "{answer}");
    let request = "GET http://127.0.0.1:25/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    let answer = proxy.talk(request).await;
    assert!(answer.starts_with("HTTP/1.1 403 Forbidden\r\n"), "{answer}");
    assert_eq!(proxy.counters.refusals("port"), 2);
}

#[tokio::test]
async fn our_own_networks_are_refused_however_they_are_written() {
    let origin = Origin::echo().await;
    let settings = Settings { private_networks: Vec::new(), ..settings() };
    let parts = Parts {
        resolver: Some(Arc::new(Fixed(vec![[127, 0, 0, 1].into(), [10, 0, 0, 1].into()]))),
        ..Parts::default()
    };
    let proxy = Proxy::with(settings, parts).await;
    let port = origin.address.port();
    // The last is a name: its addresses are those that the resolver answers.
    for host in ["127.0.0.1", "2130706433", "0x7f.1", "[::ffff:127.0.0.1]", "[::1]", "a.example"] {
        for request in [
            format!("GET http://{host}:{port}/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"),
            format!("CONNECT {host}:{port} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"),
        ] {
            let answer = proxy.talk(&request).await;
            assert!(answer.starts_with("HTTP/1.1 403 "), "{request}{answer}");
            assert!(answer.contains("error=destination_ip_prohibited"), "{request}{answer}");
            let is_shown = answer.contains("private_networks") || answer.contains("10.0.0.1");
            assert!(!is_shown, "{answer}");
        }
    }
    // The log says which address it was, and what would allow it.
    let last = proxy.records(12).await.pop().unwrap();
    let told = "127.0.0.1 is not of the internet, and in none of private_networks";
    let notes = &last.notes;
    assert!(notes.len() == 1 && notes[0].starts_with(told), "{notes:?}");
    assert_eq!((last.note.action, origin.connections()), ("", 0));
}

#[tokio::test]
async fn of_several_addresses_the_first_that_answers_is_taken() {
    let origin = Origin::echo().await;
    // Nobody listens at the first; the second is not allowed.
    let addresses = vec![[127, 0, 0, 9].into(), [10, 0, 0, 1].into(), [127, 0, 0, 1].into()];
    let parts = Parts { resolver: Some(Arc::new(Fixed(addresses))), ..Parts::default() };
    let proxy = Proxy::with(settings(), parts).await;
    let url = format!("http://several.example:{}/", origin.address.port());
    let Some(out) = proxy.curl(&[&url]).await else { return };
    let host = format!("host: several.example:{}\n", origin.address.port());
    assert!(out.text.contains(&host), "{}", out.text);
}

#[tokio::test]
async fn errors_of_the_network_have_their_names() {
    let closed = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap()
    };
    let parts = Parts { resolver: Some(Arc::new(Fixed(Vec::new()))), ..Parts::default() };
    let proxy = Proxy::with(settings(), parts).await;
    for (target, error) in [
        (format!("http://{closed}/"), "connection_refused"),
        ("http://nowhere.example:8080/".to_owned(), "dns_error"),
    ] {
        let request = format!("GET {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        let answer = proxy.talk(request).await;
        assert!(answer.starts_with("HTTP/1.1 502 Bad Gateway\r\n"), "{answer}");
        assert!(answer.contains(&format!("error={error}")), "{answer}");
    }
}

/// Settings that lead to another proxy.
fn through(upstream: SocketAddr) -> Settings {
    Settings {
        name: "first".to_owned(),
        private_networks: Vec::new(),
        upstream: Some(Upstream {
            host: upstream.ip().to_string(),
            port: upstream.port(),
            user: "user".to_owned(),
            password: "word".to_owned(),
        }),
        ..settings()
    }
}

#[tokio::test]
async fn requests_and_tunnels_go_through_the_next_proxy() {
    let folder = tempfile::tempdir().unwrap();
    let (tls, certificate) = tls_origin(folder.path()).await;
    let origin = Origin::echo().await;
    let second_settings = Settings { name: "second".to_owned(), ..settings() };
    let parts =
        Parts { resolver: Some(Arc::new(Fixed(vec![[127, 0, 0, 1].into()]))), ..Parts::default() };
    let second = Proxy::with(second_settings, parts).await;
    let first = Proxy::start(through(second.address)).await;
    let plain = format!("http://server.example:{}/p?q", origin.address.port());
    let Some(out) = first.curl(&[&plain]).await else { return };
    assert!(out.text.starts_with("GET /p?q\n"), "{}", out.text);
    assert!(out.text.contains("via: 1.1 first, 1.1 second\n"), "{}", out.text);
    assert!(!out.text.contains("proxy-authorization"), "{}", out.text);
    let ip = second.address.ip().to_string();
    let record = first.record().await;
    assert_eq!((record.peer, record.server_address), (Peer::Parent(ip), None));

    let url = format!("https://server.example:{}/", tls.port());
    let name = format!("server.example:{}:127.0.0.1", tls.port());
    // curl looks the name up in vain if it tries; the proxy is told the name.
    let args = ["-k", "--cacert", &certificate, "--resolve", &name, &url];
    let out = first.curl(&args).await.unwrap();
    assert_eq!((out.code, out.text.as_str()), (0, "secret"), "{}", out.errors);

    // Addresses are checked here, too.
    let out = first.curl(&["-i", &origin.url("/")]).await.unwrap();
    assert!(out.text.starts_with("HTTP/1.1 403 "), "{}", out.text);
}

#[tokio::test]
async fn credentials_are_for_the_next_proxy_and_its_question_is_not_the_clients() {
    let asked = Origin::start(|request: Request<hyper::body::Incoming>| async move {
        assert_eq!(request.headers()["proxy-authorization"], "Basic dXNlcjp3b3Jk");
        assert_eq!(request.uri(), "http://server.example/");
        let mut answer = text("who are you?");
        *answer.status_mut() = hyper::StatusCode::PROXY_AUTHENTICATION_REQUIRED;
        answer
    })
    .await;
    let settings = Settings { plain_ports: vec![PortRange::one(80)], ..through(asked.address) };
    let proxy = Proxy::start(settings).await;
    let Some(out) = proxy.curl(&["-i", "http://server.example/"]).await else { return };
    assert!(out.text.starts_with("HTTP/1.1 502 "), "{}", out.text);
    assert!(out.text.contains("refused the request with status 407"), "{}", out.text);
}

/// Switches to a protocol that says everything twice.
pub(crate) async fn switching(mut request: Request<hyper::body::Incoming>) -> Response<Body> {
    let Some(protocol) = request.headers().get("upgrade").cloned() else {
        return text("no upgrade asked for");
    };
    assert!(request.headers()["connection"].to_str().unwrap().contains("Upgrade"));
    let upgrading = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        let mut stream = TokioIo::new(upgrading.await.unwrap());
        let mut buffer = [0; 64];
        while let Ok(n @ 1..) = stream.read(&mut buffer).await {
            stream.write_all(&buffer[..n]).await.unwrap();
            stream.write_all(&buffer[..n]).await.unwrap();
        }
    });
    let mut answer = text("");
    *answer.status_mut() = hyper::StatusCode::SWITCHING_PROTOCOLS;
    answer.headers_mut().insert("upgrade", protocol);
    answer.headers_mut().insert("connection", "upgrade".parse().unwrap());
    answer
}

#[tokio::test]
async fn a_websocket_passes_and_other_protocols_are_not_asked_for() {
    let (proxy, origin) = (Proxy::start(settings()).await, Origin::start(switching).await);
    let request = |protocol: &str| {
        format!(
            "GET {} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: {protocol}\r\n\r\n",
            origin.url("/")
        )
    };
    let mut stream = proxy.connect().await;
    stream.write_all(request("websocket").as_bytes()).await.unwrap();
    let head = read_until(&mut stream, "\r\n\r\n").await;
    assert!(head.starts_with("HTTP/1.1 101 Switching Protocols\r\n"), "{head}");
    assert!(head.contains("upgrade: websocket\r\n"), "{head}");
    stream.write_all(b"ping").await.unwrap();
    assert_eq!(read_until(&mut stream, "pingping").await, "pingping");
    drop(stream);
    let record = proxy.record().await;
    assert_eq!((record.bytes_in, record.bytes_out), (4, 8));
    assert_eq!((record.status, record.outcome), (101, Outcome::Tunnel));

    let other = Origin::start(|request| async {
        let mut answer = switching(request).await;
        answer.headers_mut().insert("upgrade", "foo".parse().unwrap());
        answer
    })
    .await;
    let mut stream = proxy.connect().await;
    let wrong = request("websocket").replace(&origin.url("/"), &other.url("/"));
    stream.write_all(wrong.as_bytes()).await.unwrap();
    let answer = read_until(&mut stream, "\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 502 "), "what was not asked for: {answer}");

    let mut stream = proxy.connect().await;
    stream.write_all(request("h2c").as_bytes()).await.unwrap();
    let answer = read_until(&mut stream, "asked for").await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
}

#[tokio::test]
async fn an_idle_tunnel_is_closed_and_a_stop_ends_the_others() {
    let origin = Origin::echo().await;
    let connect = format!("CONNECT {0} HTTP/1.1\r\nHost: {0}\r\n\r\n", origin.address);
    let mut idle = settings();
    idle.times.tunnel_idle_seconds_max = 1;
    let proxy = Proxy::start(idle).await;
    let answer = proxy.talk(&connect).await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    let record = proxy.record().await;
    assert_eq!(record.outcome, Outcome::Aborted);
    assert_eq!(record.notes, ["cut by the time limit: nothing passed"]);

    let mut stopping = settings();
    stopping.times.stop_seconds_max = 1;
    let mut proxy = Proxy::start(stopping).await;
    let mut stream = proxy.connect().await;
    stream.write_all(connect.as_bytes()).await.unwrap();
    read_until(&mut stream, "\r\n\r\n").await;
    let stopped = proxy.stop();
    assert_eq!(read_all(&mut stream).await, "");
    stopped.await.unwrap();
    assert_eq!(proxy.record().await.outcome, Outcome::Aborted);
}

#[tokio::test]
async fn a_stop_lets_a_request_end() {
    let origin = Origin::start(|_request| async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        text("at last")
    })
    .await;
    let mut proxy = Proxy::start(settings()).await;
    let mut stream = proxy.connect().await;
    let request = format!("GET {} HTTP/1.1\r\nHost: x\r\n\r\n", origin.url("/"));
    stream.write_all(request.as_bytes()).await.unwrap();
    crate::common::until(|| (origin.connections() == 1).then_some(())).await;
    let stopped = proxy.stop();
    let answer = read_all(&mut stream).await;
    assert!(answer.ends_with("at last"), "{answer}");
    stopped.await.unwrap();
    assert!(tokio::net::TcpStream::connect(proxy.address).await.is_err());
}

#[tokio::test]
async fn an_address_that_is_taken_stops_the_start() {
    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let settings = Settings { listen: vec![taken.local_addr().unwrap()], ..settings() };
    let error = Server::bind(settings, Parts::default()).await.err().unwrap().to_string();
    assert!(error.starts_with("cannot listen on 127.0.0.1:"), "{error}");
}

#[tokio::test]
async fn a_long_tunnel_passes_every_byte_and_what_came_with_the_request_first() {
    // A server that says first what it got, then as much again.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut got = Vec::new();
        stream.read_to_end(&mut got).await.unwrap();
        stream.write_all(&got).await.unwrap();
        stream.write_all(&got).await.unwrap();
    });
    let proxy = Proxy::start(settings()).await;
    let mut stream = proxy.connect().await;
    let long: Vec<u8> = (0..6_000_000_u32).map(|n| (n % 251) as u8).collect();
    // Before the answer to CONNECT.
    let head = format!("CONNECT {address} HTTP/1.1\r\nHost: x\r\n\r\n");
    stream.write_all(&[head.as_bytes(), &long[..1000]].concat()).await.unwrap();
    let answer = read_until(&mut stream, "\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    let (mut read, mut write) = stream.split();
    let sending = async {
        write.write_all(&long[1000..]).await.unwrap();
        write.shutdown().await.unwrap();
    };
    let mut got = Vec::new();
    let receiving = async { read.read_to_end(&mut got).await.unwrap() };
    tokio::join!(sending, receiving);
    assert!(got == [&long[..], &long[..]].concat(), "{} bytes", got.len());
    let record = proxy.record().await;
    assert_eq!((record.bytes_in, record.bytes_out), (6_000_000, 12_000_000));
}
