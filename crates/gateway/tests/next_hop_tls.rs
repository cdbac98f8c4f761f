//! TLS towards mail exchangers: DANE (RFC 7672) and MTA-STS (RFC 8461), with a real, signed DNS
//! zone, a TLS server and an HTTPS server on loopback addresses.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::zone::Zone;
use gauntlet_gateway::clock::Day;
use gauntlet_gateway::config::ReportSettings;
use gauntlet_gateway::config::{Config, DnsSettings, SenderSettings};
use gauntlet_gateway::current::Current;
use gauntlet_gateway::net::resolver::Resolver;
use gauntlet_gateway::net::tls::HopTls;
use gauntlet_gateway::outbound::exchangers::Ourselves;
use gauntlet_gateway::outbound::mta_sts::MtaSts;
use gauntlet_gateway::outbound::route::Route;
use gauntlet_gateway::outbound::route::Routes;
use gauntlet_gateway::outbound::sender::{
    ConnectionLimits, DeliveryJob, Sender, SenderContext, Settled,
};
use gauntlet_gateway::outbound::settings::OutboundSettings;
use gauntlet_gateway::outbound::signing::KeyRing;
use gauntlet_gateway::outbound::tls_outcomes::{Counted, TlsOutcomes};
use gauntlet_gateway::random::Random;
use gauntlet_gateway::reports::Reporter;
use gauntlet_gateway::reports::round::Ready;
use gauntlet_gateway::reports::tls_round::tls_reports;
use gauntlet_smtp::{Outgoing, OutgoingRecipient};
use gauntlet_store::Outcome;
use rcgen::{CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use ring::digest::{SHA256, digest};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

/// Names, each with a certificate below one authority.
struct Certificates {
    folder: tempfile::TempDir,
    authority: CertifiedIssuer<'static, KeyPair>,
}

impl Certificates {
    fn new() -> Self {
        let mut params = CertificateParams::new(vec![]).unwrap();
        params.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("roots.pem"), authority.pem()).unwrap();
        Certificates { folder, authority }
    }

    fn roots(&self) -> PathBuf {
        self.folder.path().join("roots.pem")
    }

    /// A server's side of TLS for this name, and its certificate.
    fn server(&self, name: &str) -> (TlsAcceptor, Vec<u8>) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.authority).unwrap();
        let der = certificate.der().clone();
        let secret = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![der.clone(), self.authority.der().clone()], secret)
            .unwrap();
        (TlsAcceptor::from(Arc::new(config)), der.to_vec())
    }
}

/// What a server took: how each message came.
type Taken = Arc<Mutex<Vec<&'static str>>>;

/// Speaks SMTP; false at the end, true when the client wants TLS.
async fn smtp<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    greet: bool,
    how: &'static str,
    taken: &Taken,
) -> std::io::Result<bool> {
    let mut stream = BufReader::new(stream);
    if greet {
        stream.get_mut().write_all(b"220 mx ESMTP\r\n").await?;
    }
    let mut line = String::new();
    let mut body = false;
    loop {
        line.clear();
        if stream.read_line(&mut line).await? == 0 {
            return Ok(false);
        }
        let reply: &[u8] = match line.get(..4).unwrap_or_default() {
            _ if line == ".\r\n" => {
                body = false;
                taken.lock().unwrap().push(how);
                b"250 ok\r\n"
            }
            _ if body => continue,
            "EHLO" if how == "plain" => b"250-mx\r\n250 STARTTLS\r\n",
            "EHLO" => b"250 mx\r\n",
            "STAR" => {
                stream.get_mut().write_all(b"220 go\r\n").await?;
                return Ok(true);
            }
            "DATA" => {
                body = true;
                b"354 go\r\n"
            }
            "QUIT" => return Ok(false),
            _ => b"250 ok\r\n",
        };
        stream.get_mut().write_all(reply).await?;
    }
}

/// A mail exchanger that offers STARTTLS with this certificate.
async fn exchanger(address: &str, acceptor: TlsAcceptor) -> (SocketAddr, Taken) {
    let listener = TcpListener::bind(address).await.unwrap();
    let place = listener.local_addr().unwrap();
    let taken = Taken::default();
    let shared = taken.clone();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let (acceptor, taken) = (acceptor.clone(), shared.clone());
            tokio::spawn(async move {
                if smtp(&mut stream, true, "plain", &taken).await.unwrap_or(false)
                    && let Ok(mut secured) = acceptor.accept(stream).await
                {
                    let _ended = smtp(&mut secured, false, "tls", &taken).await;
                }
            });
        }
    });
    (place, taken)
}

/// An HTTPS server with this policy.
async fn policy_server(address: &str, acceptor: TlsAcceptor, policy: Arc<Mutex<String>>) -> u16 {
    let listener = TcpListener::bind(address).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (acceptor, policy) = (acceptor.clone(), policy.clone());
            tokio::spawn(async move {
                let Ok(mut stream) = acceptor.accept(stream).await else { return };
                let mut request = vec![0; 4_096];
                let _what_it_asks = stream.read(&mut request).await;
                let body = policy.lock().unwrap().clone();
                let answer = format!(
                    "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\r\n{body}",
                    body.len()
                );
                let _it_may_have_gone = stream.write_all(answer.as_bytes()).await;
                let _closed = stream.shutdown().await;
            });
        }
    });
    port
}

/// A Sender that asks this zone.
fn sender(zone: &Zone, dnssec: bool, roots: &std::path::Path, port: u16, sts_port: u16) -> Sender {
    let nowhere = TlsOutcomes::open(&roots.with_file_name("tls-outcomes.json"), false);
    counting(zone, dnssec, roots, (port, sts_port), &Arc::new(nowhere))
}

/// The same, counting how its connections were encrypted; ports of SMTP and of policies.
fn counting(
    zone: &Zone,
    dnssec: bool,
    roots: &std::path::Path,
    (port, sts_port): (u16, u16),
    outcomes: &Arc<TlsOutcomes>,
) -> Sender {
    let dns = DnsSettings {
        servers: vec![zone.address().to_string()],
        dnssec,
        trust_anchor: if dnssec { zone.trust_anchor() } else { PathBuf::new() },
        ..DnsSettings::default()
    };
    let resolver = Arc::new(Resolver::new(&dns).unwrap());
    let hop_tls = HopTls::load(roots).unwrap();
    let sender = SenderSettings {
        exchanger_port: port,
        exchanger_networks_allowed: vec!["127.0.0.0/8".to_owned()],
        connect_seconds_max: 10,
        roots: roots.to_owned(),
        ..SenderSettings::default()
    };
    let routes = Arc::new(Routes::of(&Config::default()));
    let key_ring = KeyRing::default();
    let settings = Current::fixed(OutboundSettings {
        sender,
        routes,
        key_ring,
        hop_tls,
        disarming: None,
        hold_backlog_max: 1,
    });
    let cache = roots.with_file_name("mta-sts.json");
    let context = SenderContext {
        clock: resolver.clock().clone(),
        sts: Arc::new(MtaSts::open(resolver.clone(), settings.clone(), sts_port, &cache)),
        settings,
        resolver,
        us: Arc::new(Ourselves { host: "gw.test".into(), listeners: Vec::new() }),
        random: Arc::new(Random::seeded(1)),
        outcomes: outcomes.clone(),
        connection_limits: ConnectionLimits::new(&SenderSettings::default()),
        metrics: Arc::default(),
    };
    Sender::new(context, tokio::runtime::Handle::current())
}

/// Sends a message to a domain's exchangers: what became of it.
async fn send(sender: &Sender, domain: &str) -> Settled {
    let (settled, outcome) = tokio::sync::oneshot::channel();
    let recipient = OutgoingRecipient { to: format!("bob@{domain}"), ..Default::default() };
    let outgoing = Outgoing {
        from: "ann@example.org".into(),
        recipients: vec![recipient],
        size: 7,
        ..Outgoing::default()
    };
    let done = Box::new(move |mut all: Vec<Settled>| settled.send(all.remove(0)).unwrap());
    let job = DeliveryJob { outgoing, targets: vec![0], body: (&b"a: b\r\n\r\n"[..]).into(), done };
    sender.send(&Route::Exchangers { domain: domain.into(), tls: None }, job);
    tokio::time::timeout(Duration::from_secs(60), outcome).await.expect("in time").unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn signed_records_decide_which_certificate_is_taken() {
    let certificates = Certificates::new();
    let (good, der) = certificates.server("mx.example");
    let (place, taken) = exchanger("127.0.0.31:0", good).await;
    let port = place.port();
    let hash = |bytes: &[u8]| {
        let hash = digest(&SHA256, bytes);
        hash.as_ref().iter().map(|b| format!("{b:02x}")).collect::<String>()
    };
    let authority = hash(certificates.authority.der());
    let mut records = String::new();
    for (name, tlsa) in [
        ("right", format!("3 0 1 {}", hash(&der))),
        ("wrong", format!("3 0 1 {}", hash(b"another"))),
        ("above", format!("2 0 1 {authority}")),
        ("unusable", format!("1 0 1 {}", hash(b"another"))),
    ] {
        let host = if name == "above" { "mx".to_owned() } else { format!("mx-{name}") };
        records.push_str(&format!(
            "{name}.example MX 10 {host}.example.\n{host}.example A 127.0.0.31\n\
             _{port}._tcp.{host}.example TLSA {tlsa}\n"
        ));
    }
    records.push_str("none.example MX 10 mx-none.example.\nmx-none.example A 127.0.0.31\n");
    let (Some(signed), Some(plain)) = (Zone::serve_signed(&records), Zone::serve(&records)) else {
        return;
    };
    let with = |zone: &Zone, dnssec| sender(zone, dnssec, &certificates.roots(), port, 1);
    let strict = with(&signed, true);
    for domain in ["right.example", "above.example", "unusable.example", "none.example"] {
        let settled = send(&strict, domain).await;
        assert_eq!(settled.outcome, Some(Outcome::Delivered), "{domain}: {settled:?}");
        assert_eq!(taken.lock().unwrap().pop(), Some("tls"), "{domain}");
    }
    let settled = send(&strict, "wrong.example").await;
    assert_eq!(settled.outcome, None, "it waits: {settled:?}");
    assert!(settled.reply.contains("TLS"), "{settled:?}");
    assert!(taken.lock().unwrap().is_empty(), "and never goes in plain text");
    // Without signatures the same records say nothing.
    let lax = with(&plain, false);
    assert_eq!(send(&lax, "wrong.example").await.outcome, Some(Outcome::Delivered));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn policies_of_domains_are_followed_and_kept() {
    let certificates = Certificates::new();
    let (good, _) = certificates.server("mx.sts.example");
    let (bad, _) = certificates.server("other.example");
    let (place, taken) = exchanger("127.0.0.32:0", good).await;
    let port = place.port();
    let (_, strange) = exchanger(&format!("127.0.0.33:{port}"), bad).await;
    let policy = Arc::new(Mutex::new(
        "version: STSv1\nmode: enforce\nmx: mx.sts.example\nmx: mx2.sts.example\nmax_age: 86400\n"
            .to_owned(),
    ));
    let (https, _) = certificates.server("mta-sts.sts.example");
    let sts_port = policy_server("127.0.0.32:0", https, policy.clone()).await;
    let common = "mta-sts.sts.example A 127.0.0.32\nmx.sts.example A 127.0.0.32\n\
                  mx2.sts.example A 127.0.0.33\nevil.example A 127.0.0.33\n";
    let serve = |records: &str| Zone::serve(&format!("{common}{records}"));
    let id = "_mta-sts.sts.example TXT \"v=STSv1; id=1\"\n";
    let Some(zone) = serve(&format!("{id}sts.example MX 10 mx.sts.example.\n")) else { return };
    let new = |zone: &Zone| sender(zone, false, &certificates.roots(), port, sts_port);
    let settled = send(&new(&zone), "sts.example").await;
    assert_eq!(settled.outcome, Some(Outcome::Delivered), "{settled:?}");
    assert_eq!(taken.lock().unwrap().pop(), Some("tls"));
    // A host that the policy names, with another's certificate.
    let zone = serve(&format!("{id}sts.example MX 10 mx2.sts.example.\n")).unwrap();
    let settled = send(&new(&zone), "sts.example").await;
    assert!(settled.outcome.is_none() && settled.reply.contains("TLS"), "{settled:?}");
    // Somebody forges the MX records, and takes the TXT record away: the policy is known from
    // before.
    let zone = serve("sts.example MX 10 evil.example.\n").unwrap();
    let settled = send(&new(&zone), "sts.example").await;
    assert!(settled.outcome.is_none() && settled.reply.contains("MTA-STS"), "{settled:?}");
    assert!(strange.lock().unwrap().is_empty());
    // A new policy, of a mode that only wants reports.
    *policy.lock().unwrap() =
        "version: STSv1\nmode: testing\nmx: mx.sts.example\nmax_age: 86400\n".to_owned();
    let id = "_mta-sts.sts.example TXT \"v=STSv1; id=2\"\n";
    let zone = serve(&format!("{id}sts.example MX 10 evil.example.\n")).unwrap();
    let settled = send(&new(&zone), "sts.example").await;
    assert_eq!(settled.outcome, Some(Outcome::Delivered), "{settled:?}");
    assert_eq!(strange.lock().unwrap().pop(), Some("tls"));
}

/// Request heads and bodies.
type Posted = Arc<Mutex<Vec<(String, Vec<u8>)>>>;

/// An HTTPS server that takes reports.
async fn report_server(address: &str, acceptor: TlsAcceptor) -> (u16, Posted) {
    let listener = TcpListener::bind(address).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let taken = Posted::default();
    let shared = taken.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            let mut request = Vec::new();
            loop {
                let head = request.windows(4).position(|w| w == b"\r\n\r\n");
                let text = String::from_utf8_lossy(&request[..head.unwrap_or(0)]).into_owned();
                let length = text.lines().find_map(|l| l.strip_prefix("Content-Length: "));
                let length = length.and_then(|l| l.parse::<usize>().ok());
                if let (Some(head), Some(length)) = (head, length)
                    && request.len() >= head + 4 + length
                {
                    shared.lock().unwrap().push((text, request[head + 4..].to_vec()));
                    break;
                }
                if stream.read_buf(&mut request).await.unwrap_or(0) == 0 {
                    break;
                }
            }
            let _it_may_have_gone = stream.write_all(b"HTTP/1.1 201 Created\r\n\r\n").await;
            let _closed = stream.shutdown().await;
        }
    });
    (port, taken)
}

/// A report, out of what was sent.
fn unzipped(bytes: &[u8]) -> serde_json::Value {
    serde_json::from_reader(flate2::read::GzDecoder::new(bytes)).unwrap()
}

/// Exchangers with the right certificate, with another's and without TLS, at one port; policies
/// that enforce and that test; and who takes reports.
struct Domains {
    certificates: Certificates,
    port: u16,
    sts: u16,
    web: u16,
    posted: Posted,
}

impl Domains {
    async fn start() -> Self {
        let certificates = Certificates::new();
        let server = |name: &str| certificates.server(name).0;
        let (place, _) = exchanger("127.0.0.34:0", server("mx.sts.example")).await;
        let port = place.port();
        exchanger(&format!("127.0.0.35:{port}"), server("other.example")).await;
        let plain = TcpListener::bind(format!("127.0.0.36:{port}")).await.unwrap();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = plain.accept().await {
                let _ended = smtp(&mut stream, true, "open", &Taken::default()).await;
            }
        });
        let policy = |mode: &str| {
            let hosts = "mx: mx.sts.example\nmx: mx2.sts.example";
            let text = format!("version: STSv1\nmode: {mode}\n{hosts}\nmax_age: 86400\n");
            Arc::new(Mutex::new(text))
        };
        let https = server("mta-sts.sts.example");
        let sts = policy_server("127.0.0.34:0", https, policy("enforce")).await;
        let https = server("mta-sts.test.example");
        policy_server(&format!("127.0.0.35:{sts}"), https, policy("testing")).await;
        let (web, posted) = report_server("127.0.0.34:0", server("reports.example")).await;
        Domains { certificates, port, sts, web, posted }
    }

    fn records(&self) -> String {
        let url = format!("https://reports.example:{}/tls", self.web);
        let sts = "TXT \"v=STSv1; id=1\"";
        format!(
            "mta-sts.sts.example A 127.0.0.34\nmta-sts.test.example A 127.0.0.35\n\
             _mta-sts.sts.example {sts}\n_mta-sts.test.example {sts}\n_mta-sts.gone.example {sts}\n\
             _smtp._tls.sts.example TXT \"v=TLSRPTv1; rua=mailto:tls@sts.example,{url},ftp://x\"\n\
             reports.example A 127.0.0.34\n\
             sts.example MX 10 mx.sts.example.\nsts.example MX 20 mx2.sts.example.\n\
             mx.sts.example A 127.0.0.34\nmx2.sts.example A 127.0.0.35\n\
             test.example MX 10 mx2.sts.example.\ngone.example MX 10 mx.sts.example.\n\
             plain.example MX 10 mx.plain.example.\nmx.plain.example A 127.0.0.36\n"
        )
    }
}

/// Of each policy its kind, good and bad connections, and how the bad ones failed.
fn described(all: &[Counted]) -> Vec<String> {
    let kinds = all.iter().map(|c| {
        let failed = c.failed.iter().map(|f| f.kind.as_str()).collect::<Vec<_>>().join(",");
        format!("{} {}+{} {failed}", c.policy.kind, c.good, c.bad).trim_end().to_owned()
    });
    kinds.collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn outcomes_are_counted_and_reported() {
    let domains = Domains::start().await;
    let Some(zone) = Zone::serve(&domains.records()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let outcomes = Arc::new(TlsOutcomes::open(&folder.path().join("o.json"), true));
    let roots = domains.certificates.roots();
    let ports = (domains.port, domains.sts);
    for domain in ["sts.example", "test.example", "gone.example", "plain.example"] {
        let settled = send(&counting(&zone, false, &roots, ports, &outcomes), domain).await;
        assert_eq!(settled.outcome, Some(Outcome::Delivered), "{domain}: {settled:?}");
    }
    let day = Day::of(gauntlet_gateway::clock::now_ms());
    let mut counted = outcomes.of(day);
    // Midnight may have passed while mail was sent.
    let before = outcomes.of(day.before());
    before.into_iter().for_each(|(d, c)| counted.entry(d).or_default().extend(c));
    for (domain, expected) in [
        ("sts.example", &["sts 1+0"][..]),
        ("test.example", &["sts 0+1 certificate-host-mismatch"]),
        ("gone.example", &["sts 0+1 sts-policy-fetch-error", "no-policy-found 1+0"]),
        ("plain.example", &["no-policy-found 0+1 starttls-not-supported"]),
    ] {
        assert_eq!(described(&counted[domain]), expected, "{domain}");
    }
    let dns = DnsSettings { servers: vec![zone.address().to_string()], ..DnsSettings::default() };
    let (resolver, tls) = (Resolver::new(&dns).unwrap(), HopTls::load(&roots).unwrap());
    let reporter = Reporter {
        organisation: "Us".into(),
        from: "postmaster@gw.test".into(),
        host: "gw.test".into(),
    };
    let settings = ReportSettings::default();
    let made = tls_reports(&resolver, &tls, &reporter, &settings, day, &counted).await.unwrap();
    assert_eq!(made.len(), 4);
    check_reports(&domains, &made);
}

/// What was posted and what is to be mailed.
fn check_reports(domains: &Domains, made: &[Ready]) {
    let of = |domain: &str| made.iter().find(|r| r.reported.domain == domain).unwrap();
    let report = of("sts.example");
    let url = format!("https://reports.example:{}/tls", domains.web);
    assert_eq!(report.reported.to, ["tls@sts.example", &url], "{:?}", report.reported);
    assert_eq!(report.reported.refused.len(), 1, "{:?}", report.reported);
    let (head, body) = domains.posted.lock().unwrap().pop().unwrap();
    assert!(head.starts_with("POST /tls HTTP/1.1\r\nHost: reports.example\r\n"), "{head}");
    assert!(head.contains("Content-Type: application/tlsrpt+gzip"), "{head}");
    let json = unzipped(&body);
    assert_eq!(json["organization-name"], "Us");
    let one = &json["policies"][0];
    assert_eq!(one["policy"]["policy-type"], "sts");
    assert_eq!(one["policy"]["policy-domain"], "sts.example");
    assert_eq!(one["policy"]["mx-host"][0], "mx.sts.example");
    assert_eq!(one["policy"]["policy-string"][1], "mode: enforce");
    assert_eq!(one["summary"]["total-successful-session-count"], 1);
    let (to, mail) = &report.mails[0];
    assert_eq!(to, "tls@sts.example");
    for part in ["TLS-Report-Domain: sts.example", "report-type=\"tlsrpt\"", "/tlsrpt+gzip"] {
        assert!(mail.contains(part), "{part}:\n{mail}");
    }
    let failed = of("test.example");
    assert_eq!(
        failed.reported.none.as_deref(),
        Some("the domain asks for no reports (_smtp._tls)")
    );
    let json: serde_json::Value = serde_json::from_str(&failed.xml).unwrap();
    let details = &json["policies"][0]["failure-details"][0];
    assert_eq!(details["receiving-ip"], "127.0.0.35", "{json}");
    assert_eq!(details["receiving-mx-hostname"], "mx2.sts.example");
}
