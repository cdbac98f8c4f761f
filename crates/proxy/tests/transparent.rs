//! Clients that know nothing of the proxy, behind a router that hands their connections over.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;

use futures_util::future::BoxFuture;
use gauntlet_proxy::Parts;
use gauntlet_proxy::access_log::{Outcome, Peer};
use gauntlet_proxy::resolve::Resolve;
use gauntlet_proxy::settings::{Destination, Mode, Other, Settings, Upstream, VerifyNames};

use crate::common::{PATIENCE, by_lists};
use crate::judging::list;
use crate::routed::{ECHO_PORT, Routed, RoutedProxy, settings};

const REDIRECT: &str = "table inet gauntlet {
  chain prerouting {
    type nat hook prerouting priority dstnat; policy accept;
    iifname \"c0\" tcp dport { 80, 443, 8443 } redirect to :3129
  }
}";

const TPROXY: &str = "table inet gauntlet {
  chain prerouting {
    type filter hook prerouting priority mangle; policy accept;
    meta l4proto tcp socket transparent 1 meta mark set 1 accept
    iifname \"c0\" meta nfproto ipv4 tcp dport { 80, 443, 8443 } \
      tproxy ip to :3129 meta mark set 1 accept
    iifname \"c0\" meta nfproto ipv6 tcp dport { 80, 443, 8443 } \
      tproxy ip6 to :3129 meta mark set 1 accept
  }
  chain forward {
    type filter hook forward priority filter; policy accept;
    iifname \"c0\" tcp dport { 80, 443, 8443 } reject with tcp reset
  }
}";

/// What the router itself connects to comes back, too.
const WRONG: &str = "table inet wrong {
  chain output {
    type nat hook output priority -100; policy accept;
    tcp dport { 80, 443 } redirect to :3129
  }
}";

fn blocking() -> Parts {
    let judge = by_lists(list("hosts", "blocked.example\n10.77.2.3\n"));
    Parts { judge: Arc::new(judge), ..Parts::default() }
}

/// Sends bytes and closes this side; all that comes back; a reset is an end.
fn talk(network: &Routed, address: &str, bytes: &[u8]) -> Vec<u8> {
    network.within("client", || {
        let mut stream = sent(address, bytes);
        let _ = stream.shutdown(Shutdown::Write);
        rest(&mut stream, Vec::new())
    })
}

/// Sends a request, and closes this side when the answer begins: who closes it before may be gone.
fn ask(network: &Routed, address: &str, request: &[u8]) -> Vec<u8> {
    network.within("client", || {
        let mut stream = sent(address, request);
        let mut answer = vec![0; 4096];
        let count = stream.read(&mut answer).unwrap_or_default();
        answer.truncate(count);
        let _ = stream.shutdown(Shutdown::Write);
        rest(&mut stream, answer)
    })
}

fn sent(address: &str, bytes: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(bytes).unwrap();
    stream
}

fn rest(stream: &mut TcpStream, mut answer: Vec<u8>) -> Vec<u8> {
    let _ = stream.read_to_end(&mut answer);
    answer
}

fn direct(address: &str) -> Peer {
    Peer::Direct(address.to_owned())
}

/// What works in both modes and both families.
fn passes_and_blocks(network: &Routed, proxy: &RoutedProxy) {
    for (family, server, router) in
        [("-4", "10.77.2.2", "10.77.2.1"), ("-6", "fd77:2::2", "fd77:2::1")]
    {
        let out = network.curl(&[family, "http://site.example/a"]);
        assert_eq!(out.text, format!("http site.example at {server} for {router}"), "{out:?}");
        let record = proxy.record();
        assert_eq!((record.url.as_str(), record.status), ("http://site.example/a", 200));
        assert_eq!((record.peer, record.outcome), (direct(server), Outcome::Passed));
        assert_eq!(record.server_address, Some(server.parse().unwrap()));

        let out = network.curl(&[family, "https://site.example/"]);
        assert_eq!(out.text, format!("https site.example at {server} for {router}"), "{out:?}");
        let record = proxy.record();
        assert_eq!((record.url.as_str(), record.method.as_str()), ("site.example:443", "CONNECT"));
        assert!(record.bytes_in > 300 && record.bytes_out > 300, "{record:?}");
        assert_eq!((record.peer, record.outcome), (direct(server), Outcome::Tunnel));
        assert_eq!(record.server_address, Some(server.parse().unwrap()));

        let out = network.curl(&[family, "-i", "http://blocked.example/"]);
        assert!(out.text.starts_with("HTTP/1.1 403 Forbidden\r\n"), "{out:?}");
        assert!(out.text.contains("domain blocked.example"), "{out:?}");
        assert_eq!(proxy.record().outcome, Outcome::Denied);

        let out = network.curl(&[family, "https://blocked.example/"]);
        assert_eq!(out.code, 35, "{out:?}");
        assert!(out.errors.contains("access denied"), "{out:?}");
        let record = proxy.record();
        assert_eq!((record.outcome, record.status), (Outcome::Denied, 403));
        assert_eq!(record.refusal, Some("blocked"));

        // No name: judged by the address.
        let host = if family == "-6" { format!("[{server}]") } else { server.to_owned() };
        let out = network.curl(&["-k", &format!("https://{host}/")]);
        assert_eq!(out.text, format!("https {host} at {server} for {router}"), "{out:?}");
        assert_eq!(proxy.record().url, format!("{host}:443"));
    }
    let out = network.curl(&["-k", "https://10.77.2.3/"]);
    assert!(out.errors.contains("access denied"), "{out:?}");
    let out = network.curl(&["-0", "-H", "Host:", "http://10.77.2.3/"]);
    assert!(out.text.contains("http://10.77.2.3/"), "{out:?}");
    // Whatever the client calls it.
    let out = network.curl(&["-i", "-H", "Host: site.example", "http://10.77.2.3/"]);
    assert!(out.text.starts_with("HTTP/1.1 403 Forbidden\r\n"), "{out:?}");
    let named = ["--resolve", "site.example:443:10.77.2.3", "https://site.example/"];
    let out = network.curl(&named);
    assert!(out.errors.contains("access denied"), "{out:?}");
    assert_eq!(proxy.counters.refusals("blocked"), 8);
}

#[test]
fn redirected_connections_pass_and_are_blocked() {
    let Some(network) = Routed::new() else { return };
    let out = network.curl(&["https://site.example/"]);
    assert!(out.text.ends_with(" for 10.77.1.2"), "without rules it is a plain router: {out:?}");
    network.nft(REDIRECT);
    let proxy = network.proxy(settings(), blocking());
    passes_and_blocks(&network, &proxy);

    let echo = format!("10.77.2.2:{ECHO_PORT}");
    let closed = |bytes: &[u8]| talk(&network, &echo, bytes).is_empty();
    assert!(closed(b"SSH-2.0-OpenSSH_9.2\r\n"), "neither TLS nor HTTP");
    assert_eq!(proxy.record().refusal, Some("unsupported"));
    assert_eq!(talk(&network, &echo, b"\x16\x03\x01\x00\x00"), [21, 3, 3, 0, 2, 2, 50]);
    assert_eq!(proxy.record().refusal, Some("malformed"));
    let answer = ask(
        &network,
        "10.77.2.2:80",
        b"CONNECT site.example:443 HTTP/1.1\r\n\
        Host: site.example:443\r\n\r\n",
    );
    assert!(answer.starts_with(b"HTTP/1.1 405 "), "{}", answer.escape_ascii());

    // Who connects to the proxy itself was not handed over.
    assert!(talk(&network, "10.77.1.1:3129", b"GET / HTTP/1.1\r\n\r\n").is_empty());
    assert_eq!(proxy.counters.not_redirected.get(), 1);
    // The router's own services are of a network that is not allowed.
    let answer = ask(&network, "10.77.1.1:80", b"GET / HTTP/1.1\r\nHost: site.example\r\n\r\n");
    assert!(answer.starts_with(b"HTTP/1.1 403 "), "{}", answer.escape_ascii());
    assert_eq!(proxy.counters.refusals("destination"), 1);
}

#[test]
fn connections_by_tproxy_pass_and_are_blocked() {
    let Some(network) = Routed::new() else { return };
    network.nft(TPROXY);
    for family in ["-4", "-6"] {
        network.router_ip(&format!("{family} rule add fwmark 1 lookup 100"));
        network.router_ip(&format!("{family} route add local default dev lo table 100"));
    }
    let mut tproxy = settings();
    tproxy.transparent.mode = Mode::Tproxy;
    let proxy = network.proxy(tproxy, blocking());
    passes_and_blocks(&network, &proxy);
    assert!(talk(&network, "10.77.1.1:3129", b"GET / HTTP/1.1\r\n\r\n").is_empty());
    assert_eq!(proxy.counters.not_redirected.get(), 1);
    drop(proxy);
    let out = network.curl(&["-4", "http://site.example/"]);
    assert_eq!(out.code, 7, "nothing passes by a proxy that does not run: {out:?}");
}

#[test]
fn other_protocols_pass_if_the_settings_say_so() {
    let Some(network) = Routed::new() else { return };
    network.nft(REDIRECT);
    let mut tunnel = settings();
    tunnel.transparent.other = Other::Tunnel;
    tunnel.times.header_seconds_max = 1;
    let proxy = network.proxy(tunnel, blocking());
    let echo = |address: &str, bytes| {
        talk(&network, &format!("{address}:{ECHO_PORT}"), bytes).escape_ascii().to_string()
    };
    assert_eq!(echo("10.77.2.2", b"SSH-2.0-x and more\n"), "SSH-2.0-x and more\\n");
    let record = proxy.record();
    assert_eq!((record.url.as_str(), record.bytes_in), ("10.77.2.2:8443", 19));
    assert_eq!(echo("10.77.2.3", b"SSH-2.0-x\n"), "", "the address is blocked");
    // What could be TLS or HTTP is not passed on unseen, however slowly it comes.
    for start in [&b""[..], b"\x16\x03", b"GE"] {
        let answer = network.within("client", || {
            let mut stream = TcpStream::connect(("10.77.2.2", ECHO_PORT)).unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            stream.write_all(start).unwrap();
            let mut answer = Vec::new();
            let _ = stream.read_to_end(&mut answer);
            answer
        });
        assert!(answer.is_empty(), "{}", answer.escape_ascii());
    }
    assert_eq!(proxy.counters.header_timeouts.get(), 3);
}

/// Every name has this address.
struct Fixed(&'static str);

impl Resolve for Fixed {
    fn resolve<'a>(
        &'a self,
        _host: &'a str,
    ) -> BoxFuture<'a, std::io::Result<Vec<std::net::IpAddr>>> {
        Box::pin(async { Ok(vec![self.0.parse().unwrap()]) })
    }
}

fn named(network: &Routed, address: &'static str, change: impl Fn(&mut Settings)) -> RoutedProxy {
    let mut settings = settings();
    change(&mut settings);
    let parts = Parts { resolver: Some(Arc::new(Fixed(address))), ..blocking() };
    network.proxy(settings, parts)
}

#[test]
fn names_that_do_not_belong_to_the_address_are_passed_logged_or_refused() {
    let Some(network) = Routed::new() else { return };
    network.nft(REDIRECT);
    let both = |code| {
        let https = network.curl(&["-4", "https://site.example/"]);
        let http = network.curl(&["-4", "-w", " %{http_code}", "http://site.example/"]);
        assert!(http.text.ends_with(code), "{http:?}");
        (http, https)
    };
    // The address that the client asked for answers, whatever the name has.
    let proxy = named(&network, "10.77.2.3", |_| {});
    assert!(both("200").1.text.contains("at 10.77.2.2"));
    assert_eq!(proxy.counters.names_mismatched.get(), 0);
    drop(proxy);

    let proxy = named(&network, "10.77.2.3", |s| s.transparent.verify_names = VerifyNames::Log);
    assert!(both("200").1.text.contains("at 10.77.2.2"));
    assert_eq!(proxy.counters.names_mismatched.get(), 2);
    drop(proxy);

    let block = |s: &mut Settings| s.transparent.verify_names = VerifyNames::Block;
    let proxy = named(&network, "10.77.2.3", block);
    let (http, https) = both("403");
    assert!(http.text.contains("does not belong to the server"), "{http:?}");
    assert!(https.errors.contains("access denied"), "{https:?}");
    assert_eq!(proxy.counters.refusals("name_mismatch"), 2);
    drop(proxy);

    let proxy = named(&network, "10.77.2.2", block);
    assert!(both("200").1.text.contains("at 10.77.2.2"));
    let out = network.curl(&["-k", "https://10.77.2.2/"]);
    assert_eq!(out.code, 0, "without a name there is nothing to check: {out:?}");
    assert_eq!(proxy.counters.names_mismatched.get(), 0);
    drop(proxy);

    let name = |s: &mut Settings| s.transparent.destination = Destination::Name;
    // It is on a list, which is asked for the address that is connected to.
    let proxy = named(&network, "10.77.2.3", name);
    assert!(both("403").1.errors.contains("access denied"));
    drop(proxy);

    let _proxy = named(&network, "10.77.2.3", |s| {
        name(s);
        s.listed_addresses = false;
    });
    let (http, https) = both("200");
    assert!(http.text.contains("at 10.77.2.3") && https.text.contains("at 10.77.2.3"));
}

#[test]
fn the_next_proxy_gets_requests_by_name_and_tunnels_by_address() {
    let Some(network) = Routed::new() else { return };
    network.nft(REDIRECT);
    let mut settings = settings();
    let (user, password) = (String::new(), String::new());
    let host = "10.77.2.3".to_owned();
    settings.upstream = Some(Upstream { host, port: 80, user, password });
    let proxy = network.proxy(settings, Parts::default());
    let out = network.curl(&["-4", "http://site.example/"]);
    assert!(out.text.starts_with("http site.example at 10.77.2.3"), "{out:?}");
    // What a client makes up does not lead the next proxy where the client may not go.
    let out = network.curl(&["-4", "-H", "Host: 127.0.0.1", "http://site.example/"]);
    assert!(out.text.contains("may not be reached"), "{out:?}");
    // nginx is no proxy for tunnels.
    let out = network.curl(&["-4", "https://site.example/"]);
    assert!(out.errors.contains("internal error"), "{out:?}");
    assert_eq!(proxy.counters.refusals("upstream"), 1);
}

#[test]
fn a_router_that_sends_our_own_connections_back_makes_no_circle() {
    let Some(network) = Routed::new() else { return };
    network.nft(REDIRECT);
    network.nft(WRONG);
    let mut settings = settings();
    settings.via = false;
    let proxy = network.proxy(settings, Parts::default());
    for (loops, url) in [(1, "https://site.example/"), (2, "http://site.example/")] {
        for family in ["-4", "-6"] {
            let out = network.curl(&[family, url]);
            assert!(out.code != 0 || out.text.contains("could not"), "{out:?}");
        }
        assert_eq!(proxy.counters.refusals("loop"), 2 * loops);
        assert_eq!(proxy.counters.origin_connections.get(), 2 * loops);
    }
}

#[test]
fn an_address_that_is_no_router_hands_nothing_over() {
    // Without a router, every connection is to the proxy itself.
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let mut settings = crate::common::settings();
        settings.transparent.listen = vec![SocketAddr::from(([127, 0, 0, 1], 0))];
        let server = gauntlet_proxy::Server::bind(settings, Parts::default()).await.unwrap();
        let (address, counters) = (server.transparent_addresses()[0], server.counters());
        let running = tokio::spawn(server.run(std::future::pending()));
        let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
        assert_eq!(crate::common::read_all(&mut stream).await, "");
        assert_eq!(counters.not_redirected.get(), 1);
        running.abort();
    });
}
