//! Certificates, servers with TLS, and proxies that decrypt, for tests.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::BoxFuture;
use gauntlet_proxy::Parts;
use gauntlet_proxy::judge::{AllowAll, Judge};
use gauntlet_proxy::resolve::Resolve;
use gauntlet_proxy::settings::{Settings, TlsSettings};
use gauntlet_proxy::tls::authority::{CERTIFICATE_FILE, KEY_FILE, NewAuthority, create};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

use crate::common::{Body, Proxy, program, settings, text, until};

/// A root that the proxy trusts, and what it has signed, in a folder.
pub(crate) struct Pki {
    pub(crate) folder: tempfile::TempDir,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate and its key, as files and as they are.
pub(crate) struct Certificate {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
    made: rcgen::Certificate,
    pair: KeyPair,
}

impl Pki {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut params = CertificateParams::default();
        // Two of one name would be taken for one with a broken signature.
        let name = format!("A root in {}", folder.path().display());
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let root = params.self_signed(&key).unwrap();
        std::fs::write(folder.path().join("root.pem"), root.pem()).unwrap();
        std::fs::write(folder.path().join("root.key"), key.serialize_pem()).unwrap();
        let issuer = Issuer::new(params, key);
        create(
            &folder.path().join("ca"),
            &NewAuthority { name: "The office".to_owned(), days: 100, permit: Vec::new() },
        )
        .unwrap();
        Pki { folder, issuer }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// What clients of a decrypting proxy trust.
    pub(crate) fn ca(&self) -> String {
        self.path("ca").join(CERTIFICATE_FILE).to_str().unwrap().to_owned()
    }

    /// What clients without a proxy trust.
    pub(crate) fn root(&self) -> String {
        self.path("root.pem").to_str().unwrap().to_owned()
    }

    /// A certificate for these names.
    pub(crate) fn certificate(&self, names: &[&str]) -> Certificate {
        self.certificate_with(names, |_| ())
    }

    pub(crate) fn certificate_with(
        &self,
        names: &[&str],
        change: impl Fn(&mut CertificateParams),
    ) -> Certificate {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        change(&mut params);
        let pair = KeyPair::generate().unwrap();
        let made = params.signed_by(&pair, &self.issuer).unwrap();
        self.write(made, pair)
    }

    /// A certificate that nobody but itself has signed.
    pub(crate) fn self_signed(&self, name: &str, is_ca: bool) -> Certificate {
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        if is_ca {
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        }
        let pair = KeyPair::generate().unwrap();
        let made = params.self_signed(&pair).unwrap();
        self.write(made, pair)
    }

    fn write(&self, made: rcgen::Certificate, pair: KeyPair) -> Certificate {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let certificate = self.path(&format!("{number}.pem"));
        let key = self.path(&format!("{number}.key"));
        std::fs::write(&certificate, made.pem()).unwrap();
        std::fs::write(&key, pair.serialize_pem()).unwrap();
        Certificate { certificate, key, made, pair }
    }

    /// Settings of a proxy that trusts the root and decrypts nothing.
    pub(crate) fn settings(&self) -> Settings {
        let tls = TlsSettings { roots: self.path("root.pem"), ..TlsSettings::default() };
        Settings { tls, ..settings() }
    }

    /// Settings of a proxy that decrypts.
    pub(crate) fn decrypting(&self) -> Settings {
        let mut settings = self.settings();
        settings.tls.ca_certificate = self.path("ca").join(CERTIFICATE_FILE);
        settings.tls.ca_key = self.path("ca").join(KEY_FILE);
        settings
    }
}

/// A proxy for which every name is this machine.
pub(crate) async fn proxy(settings: Settings) -> Proxy {
    judged(settings, AllowAll).await
}

/// The same, with a judge.
pub(crate) async fn judged(settings: Settings, judge: impl Judge + 'static) -> Proxy {
    let resolver = Some(Arc::new(Local) as Arc<dyn Resolve>);
    let parts = Parts { judge: Arc::new(judge), resolver, ..Parts::default() };
    Proxy::with(settings, parts).await
}

/// Every name is this machine.
struct Local;

impl Resolve for Local {
    fn resolve<'a>(&'a self, _host: &'a str) -> BoxFuture<'a, std::io::Result<Vec<IpAddr>>> {
        Box::pin(async { Ok(vec![[127, 0, 0, 1].into()]) })
    }
}

/// A server with TLS: HTTP/1.1 and, by ALPN, HTTP/2.
pub(crate) struct TlsOrigin {
    pub(crate) port: u16,
    connections: Arc<AtomicUsize>,
}

impl TlsOrigin {
    /// Says what was asked of it, and by which version.
    pub(crate) async fn echo(certificate: &Certificate) -> Self {
        TlsOrigin::start(certificate, &[b"h2", b"http/1.1"], |request| async move {
            let host = request.headers().get("host").and_then(|h| h.to_str().ok());
            let host = host.or(request.uri().authority().map(|a| a.as_str())).unwrap_or("-");
            let path = request.uri().path_and_query().map_or("-", |p| p.as_str());
            let said = format!("{:?} {} {host} {path}", request.version(), request.method());
            let mut answer = text(said);
            answer.headers_mut().insert("alt-svc", "h3=\":443\"".parse().unwrap());
            answer
        })
        .await
    }

    pub(crate) async fn start<F, A>(
        certificate: &Certificate,
        protocols: &[&[u8]],
        answer: F,
    ) -> Self
    where
        F: Fn(Request<Incoming>) -> A + Clone + Send + 'static,
        A: Future<Output = Response<Body>> + Send + 'static,
    {
        let key = PrivateKeyDer::Pkcs8(certificate.pair.serialize_der().into());
        let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.made.der().clone()], key)
            .unwrap();
        config.alpn_protocols = protocols.iter().map(|p| p.to_vec()).collect();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let connections = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&connections);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::SeqCst);
                let (acceptor, answer) = (acceptor.clone(), answer.clone());
                tokio::spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    let each = service_fn(move |request| {
                        let answer = answer(request);
                        async move { Ok::<_, Infallible>(answer.await) }
                    });
                    let builder = auto::Builder::new(TokioExecutor::new());
                    let io = TokioIo::new(stream);
                    let _ = builder.serve_connection_with_upgrades(io, each).await;
                });
            }
        });
        TlsOrigin { port, connections }
    }

    pub(crate) fn url(&self, host: &str, path: &str) -> String {
        format!("https://{host}:{}{path}", self.port)
    }

    /// Connections so far.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

/// A program that serves until it is dropped.
pub(crate) struct Running {
    child: Child,
    pub(crate) port: u16,
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Running {
    async fn start(mut command: Command, port: u16) -> Self {
        let command = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let running = Running { child: command.spawn().unwrap(), port };
        until(|| std::net::TcpStream::connect(("127.0.0.1", port)).ok()).await;
        running
    }

    /// `openssl s_server`, which answers every request with a page about the session; none if
    /// openssl is missing.
    pub(crate) async fn openssl(certificate: &Certificate, args: &[&str]) -> Option<Self> {
        let port = free_port();
        let mut command = Command::new(program("openssl")?);
        command.args(["s_server", "-www", "-accept", &port.to_string(), "-cert"]);
        command.arg(&certificate.certificate).arg("-key").arg(&certificate.key).args(args);
        Some(Running::start(command, port).await)
    }

    /// nginx with HTTP/2 and files of a folder; none if it is missing.
    pub(crate) async fn nginx(certificate: &Certificate, folder: &Path) -> Option<Self> {
        let (nginx, port) = (program("nginx")?, free_port());
        let (root, c, k) =
            (folder.display(), certificate.certificate.display(), certificate.key.display());
        let config = format!(
            "daemon off; master_process off; pid {root}/pid; error_log stderr;\n\
             events {{}}\n\
             http {{ access_log off;\n\
             client_body_temp_path {root}/t1; proxy_temp_path {root}/t2;\n\
             fastcgi_temp_path {root}/t3; uwsgi_temp_path {root}/t4; scgi_temp_path {root}/t5;\n\
             server {{ listen 127.0.0.1:{port} ssl http2; root {root}/www;\n\
             ssl_certificate {c}; ssl_certificate_key {k}; }} }}\n"
        );
        std::fs::write(folder.join("nginx.conf"), config).unwrap();
        let mut command = Command::new(nginx);
        command.arg("-p").arg(folder).arg("-c").arg(folder.join("nginx.conf"));
        Some(Running::start(command, port).await)
    }

    pub(crate) fn url(&self, host: &str, path: &str) -> String {
        format!("https://{host}:{}{path}", self.port)
    }
}

fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

/// An address where nobody listens.
pub(crate) fn nobody() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], free_port()))
}
