//! Tunnels that are decrypted: judged by path, verified, shown as pages.

use std::sync::Arc;

use gauntlet_proxy::access_log::Outcome;
use gauntlet_proxy::judge::{BlockReason, Decision, Judge, TlsDecision};
use gauntlet_proxy::request::{Kind, WebRequest};
use gauntlet_proxy::settings::ClientCertificate;
use gauntlet_proxy::{Parts, Server};

use crate::common::{Output, Proxy, until};
use crate::tls_parts::{Pki, Running, TlsOrigin, judged, nobody, proxy};

/// Blocks hosts that begin with `blocked.`, and paths that begin with `/secret`; does not decrypt
/// hosts that begin with `private.`.
struct ByPath;

impl Judge for ByPath {
    fn request(&self, request: &WebRequest) -> Decision {
        let is_blocked = request.host().starts_with("blocked.")
            || request.url.path_and_query().starts_with("/secret");
        let text = "This is not for you.".to_owned();
        match is_blocked {
            true => Decision::Block(BlockReason { rule: "test: secret".to_owned(), text }),
            false => Decision::Allow,
        }
    }

    fn tls(&self, request: &WebRequest) -> TlsDecision {
        assert_eq!(request.kind, Kind::Connect);
        match request.host().starts_with("private.") {
            true => TlsDecision::Bypass,
            false => TlsDecision::Intercept,
        }
    }
}

/// Runs curl, which trusts this certificate.
async fn curl(proxy: &Proxy, trusted: &str, args: &[&str]) -> Option<Output> {
    proxy.curl(&[&["--cacert", trusted][..], args].concat()).await
}

#[tokio::test]
async fn requests_inside_are_judged_by_path_in_both_versions() {
    let pki = Pki::new();
    let origin = TlsOrigin::echo(&pki.certificate(&["www.good.example"])).await;
    let proxy = judged(pki.decrypting(), ByPath).await;
    let (open, secret) =
        (origin.url("www.good.example", "/open?q"), origin.url("www.good.example", "/secret/x"));
    for version in ["--http1.1", "--http2"] {
        let args = [version, "-i", &open, &secret];
        let Some(out) = curl(&proxy, &pki.ca(), &args).await else { return };
        assert_eq!(out.code, 0, "{}", out.errors);
        let said = format!("HTTP/2.0 GET www.good.example:{} /open?q", origin.port);
        assert!(out.text.contains(&said), "{}", out.text);
        assert!(out.text.contains(" 403 ") || out.text.contains(" 403\r"), "{}", out.text);
        assert!(out.text.contains("This is not for you.\n"), "{}", out.text);
        assert!(!out.text.contains("alt-svc"), "{}", out.text);
        let is_http2 = out.text.contains("\r\n\r\nHTTP/2 200");
        assert_eq!(is_http2, version == "--http2", "{}", out.text);
    }
    assert_eq!(proxy.counters.tls_intercepted.get(), 2);
    assert_eq!(proxy.counters.certificates_issued.get(), 1, "the second session has the same");
    let records = until(|| Some(proxy.log.all()).filter(|all| all.len() == 6)).await;
    let of = |url: &str| records.iter().filter(|r| r.url == url).cloned().collect::<Vec<_>>();
    assert_eq!(of(&open).len(), 2);
    assert!(of(&secret).iter().all(|r| r.rule.as_deref() == Some("test: secret")));
    let tunnels = of(&format!("www.good.example:{}", origin.port));
    assert!(tunnels.iter().all(|r| r.tunnel == Some("intercepted")), "{tunnels:?}");
    assert!(tunnels[0].squid().contains(" NONE_NONE/200 0 CONNECT "), "{}", tunnels[0].squid());
}

#[tokio::test]
async fn other_versions_of_http_and_expectations_are_served_inside() {
    let pki = Pki::new();
    let origin = TlsOrigin::echo(&pki.certificate(&["www.good.example"])).await;
    let proxy = judged(pki.decrypting(), ByPath).await;
    let secret = origin.url("www.good.example", "/secret/x");
    // Its ALPN has `http/1.0` alone.
    let Some(out) = curl(&proxy, &pki.ca(), &["--http1.0", "-i", &secret]).await else { return };
    assert!(out.text.contains(" 403 "), "{} {}", out.text, out.errors);
    assert_eq!(proxy.counters.tls_not_http.get(), 0);
    // The server speaks HTTP/2 and says no 100: the body goes on after a second.
    let open = origin.url("www.good.example", "/open");
    let upload = ["--http1.1", "-H", "Expect: 100-continue", "-d", "a body", &open];
    let out = curl(&proxy, &pki.ca(), &upload).await.unwrap();
    assert!(out.text.contains("POST www.good.example"), "{} {}", out.text, out.errors);
}

#[tokio::test]
async fn nginx_is_fetched_through_a_decrypted_tunnel() {
    let pki = Pki::new();
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("www")).unwrap();
    let content: String = (0..100_000).map(|n| format!("{n}\n")).collect();
    std::fs::write(folder.path().join("www/numbers.txt"), &content).unwrap();
    let certificate = pki.certificate(&["www.good.example"]);
    let Some(nginx) = Running::nginx(&certificate, folder.path()).await else { return };
    let proxy = proxy(pki.decrypting()).await;
    let url = nginx.url("www.good.example", "/numbers.txt");
    for version in ["--http1.1", "--http2"] {
        let Some(out) = curl(&proxy, &pki.ca(), &[version, &url]).await else { return };
        assert!(out.text == content, "{} bytes: {}", out.text.len(), out.errors);
        let out = curl(&proxy, &pki.ca(), &[version, "-r", "2-5", &url]).await.unwrap();
        assert_eq!(out.text, content[2..6]);
    }
}

#[tokio::test]
async fn a_server_that_cannot_be_verified_gives_a_page_within_the_tunnel() {
    let pki = Pki::new();
    let expired = |p: &mut rcgen::CertificateParams| p.not_after = rcgen::date_time_ymd(2016, 1, 1);
    let name = "www.good.example";
    for (certificate, error) in [
        (pki.certificate_with(&[name], expired), "certificate_expired"),
        (pki.certificate(&["other.example"]), "certificate_wrong_name"),
        (pki.self_signed(name, true), "certificate_self_signed"),
        (Pki::new().certificate(&[name]), "certificate_unknown_issuer"),
    ] {
        let Some(origin) = Running::openssl(&certificate, &[]).await else { return };
        let proxy = proxy(pki.decrypting()).await;
        let args = ["-i", "-H", "Accept: text/html", &origin.url(name, "/")];
        let Some(out) = curl(&proxy, &pki.ca(), &args).await else { return };
        assert_eq!(out.code, 0, "{}", out.errors);
        let status = format!("error=tls_certificate_error; details=\"{error}\"");
        assert!(out.text.contains(" 502"), "{}", out.text);
        assert!(out.text.contains(&status), "{}", out.text);
        assert!(out.text.contains("The certificate of the server cannot be trusted"));
    }
    // Nobody listens: that is a page, too.
    let proxy = proxy(pki.decrypting()).await;
    let url = format!("https://{name}:{}/", nobody().port());
    let out = curl(&proxy, &pki.ca(), &["-i", &url]).await.unwrap();
    assert!(out.text.contains("error=connection_refused"), "{}\n{}", out.text, out.errors);
}

#[tokio::test]
async fn a_blocked_host_gives_a_page_within_the_tunnel_or_none() {
    let pki = Pki::new();
    let origin = TlsOrigin::echo(&pki.certificate(&["blocked.example"])).await;
    let url = origin.url("blocked.example", "/");
    let proxy = judged(pki.decrypting(), ByPath).await;
    let Some(out) = curl(&proxy, &pki.ca(), &["-i", &url]).await else { return };
    assert!(out.text.contains("This is not for you."), "{}\n{}", out.text, out.errors);
    assert_eq!(origin.connections(), 0);

    let (mut without, mut exempted) = (pki.decrypting(), pki.decrypting());
    without.tls.pages = false;
    exempted.tls.bypass = vec!["blocked.example".to_owned()];
    for settings in [without, exempted] {
        let proxy = judged(settings, ByPath).await;
        let out = curl(&proxy, &pki.ca(), &[&url]).await.unwrap();
        assert_eq!(out.code, 56, "{}", out.errors);
        assert!(out.errors.contains("403"), "{}", out.errors);
    }
}

#[tokio::test]
async fn exempted_hosts_see_the_servers_own_certificate() {
    let pki = Pki::new();
    let names = ["www.bank.example", "private.example", "www.good.example"];
    let origin = TlsOrigin::echo(&pki.certificate(&names)).await;
    let mut settings = pki.decrypting();
    settings.tls.bypass = vec!["bank.example".to_owned()];
    let proxy = judged(settings, ByPath).await;
    for host in ["www.bank.example", "private.example"] {
        let url = origin.url(host, "/secret");
        let Some(out) = curl(&proxy, &pki.root(), &[&url]).await else { return };
        assert!(out.text.contains("/secret"), "{}\n{}", out.text, out.errors);
    }
    assert_eq!(proxy.counters.tls_bypassed.get(), 2);
    assert_eq!(proxy.counters.tls_intercepted.get(), 0);
    let records = until(|| Some(proxy.log.all()).filter(|all| all.len() == 2)).await;
    let how: Vec<_> = records.iter().map(|r| r.tunnel.unwrap()).collect();
    assert_eq!(how, ["bypass", "bypass_by_rule"]);

    // The name of a bank in TLS alone is not enough.
    let target = format!("www.bank.example:{}:www.good.example:{}", origin.port, origin.port);
    let url = origin.url("www.bank.example", "/secret");
    let args = ["--connect-to", &target, &url];
    let out = curl(&proxy, &pki.ca(), &args).await.unwrap();
    assert!(out.text.contains("This is not for you."), "{}\n{}", out.text, out.errors);
}

#[tokio::test]
async fn a_client_that_does_not_trust_the_authority_is_exempted_after_failures() {
    let pki = Pki::new();
    let origin = TlsOrigin::echo(&pki.certificate(&["pinned.example", "www.good.example"])).await;
    let mut settings = pki.decrypting();
    settings.tls.learn_failures_max = 3;
    let proxy = proxy(settings).await;
    let url = origin.url("pinned.example", "/");
    for attempt in 1..=3 {
        let Some(out) = curl(&proxy, &pki.root(), &[&url]).await else { return };
        assert_eq!(out.code, 60, "attempt {attempt}: {}", out.errors);
        until(|| (proxy.counters.refusals("client_handshake") == attempt).then_some(())).await;
    }
    assert_eq!(proxy.counters.tls_learned.get(), 1);
    let out = curl(&proxy, &pki.root(), &[&url]).await.unwrap();
    assert_eq!(out.code, 0, "{}", out.errors);
    assert!(out.text.contains("pinned.example"), "{}", out.text);
    assert_eq!(proxy.counters.tls_bypassed_learned.get(), 1);
    // Other hosts are decrypted as before.
    let out = curl(&proxy, &pki.ca(), &[&origin.url("www.good.example", "/")]).await.unwrap();
    assert_eq!(out.code, 0, "{}", out.errors);
}

#[tokio::test]
async fn a_server_that_asks_for_the_clients_certificate_is_not_decrypted() {
    let pki = Pki::new();
    let certificate = pki.certificate(&["intern.example"]);
    let client = pki.certificate(&["client.example"]);
    let (cert, key) = (client.certificate.to_str().unwrap(), client.key.to_str().unwrap());
    let root = pki.root();
    for version in ["-tls1_2", "-tls1_3"] {
        let args = ["-Verify", "1", "-verify_return_error", "-CAfile", &root, version];
        let Some(origin) = Running::openssl(&certificate, &args).await else { return };
        let proxy = proxy(pki.decrypting()).await;
        let args = ["--http1.1", "--cert", cert, "--key", key, &origin.url("intern.example", "/")];
        for _ in 0..2 {
            let Some(out) = curl(&proxy, &root, &args).await else { return };
            assert_eq!(out.code, 0, "{version}: {}", out.errors);
            assert!(out.text.contains("Client certificate"), "{}", out.text);
        }
        assert_eq!(proxy.counters.tls_learned.get(), 1);
        assert_eq!(proxy.counters.tls_bypassed_learned.get(), 2);

        let mut blocking = pki.decrypting();
        blocking.tls.client_certificate = ClientCertificate::Block;
        let proxy = crate::tls_parts::proxy(blocking).await;
        let out = curl(&proxy, &pki.ca(), &["-i", &origin.url("intern.example", "/")]).await;
        let out = out.unwrap();
        assert!(out.text.contains("details=\"client_certificate\""), "{}", out.text);
    }
}

#[tokio::test]
async fn kept_certificates_are_bounded() {
    let pki = Pki::new();
    let names = ["a.example", "b.example", "c.example"];
    let origin = TlsOrigin::echo(&pki.certificate(&names)).await;
    let mut settings = pki.decrypting();
    settings.tls.certificate_cache_max = 2;
    let proxy = proxy(settings).await;
    for name in ["a.example", "b.example", "b.example", "c.example", "a.example"] {
        let Some(out) = curl(&proxy, &pki.ca(), &[&origin.url(name, "/")]).await else { return };
        assert_eq!(out.code, 0, "{}", out.errors);
    }
    assert_eq!(proxy.counters.certificates_issued.get(), 4);
    assert_eq!(proxy.counters.certificates_kept.get(), 2);
}

#[tokio::test]
async fn a_name_in_tls_that_differs_is_judged_and_is_the_one_that_is_verified() {
    let pki = Pki::new();
    let names = ["front.example", "blocked.example", "www.good.example"];
    let origin = TlsOrigin::echo(&pki.certificate(&names)).await;
    let proxy = judged(pki.decrypting(), ByPath).await;
    let (port, to) =
        (origin.port, |name: &str, port: u16| format!("{name}:{port}:front.example:{port}"));
    let args =
        ["-i", "--connect-to", &to("blocked.example", port), &origin.url("blocked.example", "/")];
    let Some(out) = curl(&proxy, &pki.ca(), &args).await else { return };
    assert!(out.text.contains("This is not for you."), "{}\n{}", out.text, out.errors);

    let args =
        ["--connect-to", &to("www.good.example", port), &origin.url("www.good.example", "/x")];
    let out = curl(&proxy, &pki.ca(), &args).await.unwrap();
    assert!(out.text.contains(&format!("GET www.good.example:{port} /x")), "{}", out.text);

    // A request for a third host within the tunnel goes nowhere.
    let args = ["-i", "-H", "Host: other.example", &origin.url("www.good.example", "/x")];
    for version in ["--http1.1", "--http2"] {
        let out = curl(&proxy, &pki.ca(), &[&[version][..], &args].concat()).await.unwrap();
        assert!(out.text.contains(" 421"), "{}\n{}", out.text, out.errors);
    }
    assert_eq!(proxy.counters.refusals("misdirected"), 2);
}

#[tokio::test]
async fn an_address_without_a_name_is_decrypted_as_such() {
    let pki = Pki::new();
    let origin = TlsOrigin::echo(&pki.certificate(&["127.0.0.1"])).await;
    let proxy = judged(pki.decrypting(), ByPath).await;
    let args = ["-i", &origin.url("127.0.0.1", "/secret")];
    let Some(out) = curl(&proxy, &pki.ca(), &args).await else { return };
    assert!(out.text.contains("This is not for you."), "{}\n{}", out.text, out.errors);
}

#[tokio::test]
async fn an_upload_and_connections_that_are_kept() {
    let pki = Pki::new();
    let origin = TlsOrigin::start(
        &pki.certificate(&["www.good.example"]),
        &[b"http/1.1"],
        |request| async move {
            use http_body_util::BodyExt;
            let body = request.into_body().collect().await.unwrap().to_bytes();
            crate::common::text(format!("{} bytes", body.len()))
        },
    )
    .await;
    let proxy = proxy(pki.decrypting()).await;
    let file = pki.path("upload");
    std::fs::write(&file, vec![7; 3_000_000]).unwrap();
    let data = format!("@{}", file.display());
    let url = origin.url("www.good.example", "/");
    for version in ["--http1.1", "--http2", "--http1.1"] {
        let args = [version, "--data-binary", &data, &url];
        let Some(out) = curl(&proxy, &pki.ca(), &args).await else { return };
        assert_eq!(out.text, "3000000 bytes", "{}", out.errors);
    }
    assert_eq!(origin.connections() as u64, proxy.counters.origin_connections.get());
}

#[tokio::test]
async fn a_proxy_without_its_key_or_roots_does_not_start() {
    let pki = Pki::new();
    let failed = |settings| async {
        Server::bind(settings, Parts::default()).await.err().unwrap().to_string()
    };
    let mut missing = pki.decrypting();
    missing.tls.ca_key = pki.path("none.key");
    let error = failed(missing).await;
    assert!(error.contains("none.key") && error.contains("gauntlet ca new"), "{error}");
    let mut half = pki.decrypting();
    half.tls.ca_key = Default::default();
    assert!(failed(half).await.contains("belong together"));
    let mut without_roots = pki.decrypting();
    without_roots.tls.roots = Default::default();
    let error = failed(without_roots).await;
    assert!(error.contains("ca-certificates"), "{error}");
    let mut wrong = pki.settings();
    wrong.tls.roots = pki.path("ca").join("ca.key");
    assert!(failed(wrong).await.contains("there is no certificate"));
}

/// All of a proxy's parts in one, so that nothing of it is shared with another.
#[tokio::test]
async fn a_constrained_authority_decrypts_its_own_domains_alone() {
    let pki = Pki::new();
    let folder = pki.path("limited");
    let new = gauntlet_proxy::tls::authority::NewAuthority {
        name: "Limited".to_owned(),
        days: 10,
        permit: vec!["good.example".to_owned()],
    };
    gauntlet_proxy::tls::authority::create(&folder, &new).unwrap();
    let mut settings = pki.decrypting();
    settings.tls.ca_certificate = folder.join("ca.pem");
    settings.tls.ca_key = folder.join("ca.key");
    let origin = TlsOrigin::echo(&pki.certificate(&["www.good.example", "other.example"])).await;
    let proxy = Arc::new(proxy(settings).await);
    let ca = folder.join("ca.pem").to_str().unwrap().to_owned();
    let url = origin.url("www.good.example", "/");
    let Some(out) = curl(&proxy, &ca, &[&url]).await else { return };
    assert_eq!(out.code, 0, "{}", out.errors);
    let out = curl(&proxy, &pki.root(), &[&origin.url("other.example", "/")]).await.unwrap();
    assert_eq!(out.code, 0, "{}", out.errors);
    let records = until(|| Some(proxy.log.all()).filter(|all| all.len() == 3)).await;
    assert!(records.iter().any(|r| r.tunnel == Some("bypass_by_constraints")), "{records:?}");
    assert!(records.iter().all(|r| r.outcome != Outcome::Aborted), "{records:?}");
}
