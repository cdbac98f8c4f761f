//! A proxy and servers on free ports of this machine, and clients: curl, and bytes by hand.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use gauntlet_policy::{Groups, Policy};
use gauntlet_proxy::access_log::{AccessLog, AccessRecord};
use gauntlet_proxy::counters::Counters;
use gauntlet_proxy::judge::Judge;
use gauntlet_proxy::policy_judge::PolicyJudge;
use gauntlet_proxy::settings::{PortRange, Settings};
use gauntlet_proxy::tls::OriginTrust;
use gauntlet_proxy::{Parts, Server};
use gauntlet_urlfilter::UrlLists;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// How long anything may take before a test fails.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// A running proxy.
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    pub(crate) counters: Arc<Counters>,
    pub(crate) log: Arc<Log>,
    pub(crate) trust: OriginTrust,
    stop: Option<oneshot::Sender<()>>,
    running: Option<JoinHandle<()>>,
}

/// Records of a proxy.
#[derive(Default)]
pub(crate) struct Log(Mutex<Vec<AccessRecord>>);

impl Log {
    /// All records so far.
    pub(crate) fn all(&self) -> Vec<AccessRecord> {
        self.0.lock().unwrap().clone()
    }

    /// All records so far, which are forgotten.
    pub(crate) fn take(&self) -> Vec<AccessRecord> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }

    /// The record at this place, if it is there.
    pub(crate) fn at(&self, index: usize) -> Option<AccessRecord> {
        self.0.lock().unwrap().get(index).cloned()
    }
}

impl AccessLog for Log {
    fn record(&self, record: &AccessRecord) {
        self.0.lock().unwrap().push(record.clone());
    }
}

/// A judge that asks these lists, by the default policy.
pub(crate) fn by_lists(lists: UrlLists) -> PolicyJudge {
    by_policy(Policy::DEFAULT, lists)
}

/// A judge that asks these lists, by the policy of this text.
pub(crate) fn by_policy(policy: &str, lists: UrlLists) -> PolicyJudge {
    let policy = Arc::new(Policy::parse(policy, &Groups::default()).unwrap());
    PolicyJudge::new(Box::new(move || Arc::clone(&policy) as Arc<dyn AsRef<Policy>>), lists)
}

/// Settings with which servers of this machine are reached.
pub(crate) fn settings() -> Settings {
    Settings {
        listen: vec![SocketAddr::from(([127, 0, 0, 1], 0))],
        private_networks: vec!["127.0.0.0/8".to_owned()],
        connect_ports: vec![PortRange { first: 1024, last: u16::MAX }],
        plain_ports: vec![PortRange { first: 1024, last: u16::MAX }],
        ..Settings::default()
    }
}

impl Proxy {
    pub(crate) async fn start(settings: Settings) -> Self {
        Proxy::with(settings, Parts::default()).await
    }

    pub(crate) async fn judged(judge: impl Judge + 'static) -> Self {
        Proxy::with(settings(), Parts { judge: Arc::new(judge), ..Parts::default() }).await
    }

    pub(crate) async fn with(settings: Settings, mut parts: Parts) -> Self {
        let log = Arc::new(Log::default());
        parts.log = Arc::clone(&log) as Arc<dyn AccessLog>;
        let server = Server::bind(settings, parts).await.unwrap();
        let (address, counters) = (server.addresses()[0], server.counters());
        let trust = server.trust();
        let (stop, stopped) = oneshot::channel();
        let running = tokio::spawn(async move {
            server.run(async { drop(stopped.await) }).await.unwrap();
        });
        Proxy { address, counters, log, trust, stop: Some(stop), running: Some(running) }
    }

    /// Tells it to stop, and gives what ends when it has.
    pub(crate) fn stop(&mut self) -> JoinHandle<()> {
        drop(self.stop.take());
        self.running.take().unwrap()
    }

    /// A client's connection.
    pub(crate) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Sends bytes, and gives all that comes back until the proxy closes the connection.
    pub(crate) async fn talk(&self, bytes: impl AsRef<[u8]>) -> String {
        let mut stream = self.connect().await;
        stream.write_all(bytes.as_ref()).await.unwrap();
        read_all(&mut stream).await
    }

    /// The first record that the log gets.
    pub(crate) async fn record(&self) -> AccessRecord {
        until(|| self.log.0.lock().unwrap().first().cloned()).await
    }

    /// The first `count` records of requests, as they ended.
    pub(crate) async fn records(&self, count: usize) -> Vec<AccessRecord> {
        until(|| Some(self.log.all()).filter(|log| log.len() >= count)).await
    }

    /// Runs curl with this proxy; none if curl is missing.
    pub(crate) async fn curl(&self, args: &[&str]) -> Option<Output> {
        let curl = program("curl")?;
        let mut command = std::process::Command::new(curl);
        let seconds = PATIENCE.as_secs().to_string();
        command.args(["-sS", "--noproxy", "", "--max-time", &seconds, "-x"]);
        command.arg(format!("http://{}", self.address)).args(args);
        let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
        Some(Output {
            code: output.status.code().unwrap_or(-1),
            text: String::from_utf8_lossy(&output.stdout).into_owned(),
            errors: String::from_utf8_lossy(&output.stderr).into_owned(),
        })
    }
}

/// What a program printed.
#[derive(Debug)]
pub(crate) struct Output {
    pub(crate) code: i32,
    pub(crate) text: String,
    pub(crate) errors: String,
}

/// A program of the machine, or none with a note that the test is skipped. In CI nothing is
/// skipped.
pub(crate) fn program(name: &str) -> Option<PathBuf> {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = std::env::split_paths(&paths).collect();
    folders.extend(["/usr/sbin", "/usr/local/sbin"].map(PathBuf::from));
    let found = folders.into_iter().map(|f| f.join(name)).find(|p| p.is_file());
    if found.is_none() {
        assert!(std::env::var_os("CI").is_none(), "{name} is missing");
        eprintln!("SKIPPED: {name} is not installed");
    }
    found
}

/// All bytes until the end of a connection, as text; a reset is an end.
pub(crate) async fn read_all(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let reading = stream.read_to_end(&mut bytes);
    let _ = tokio::time::timeout(PATIENCE, reading).await.expect("the connection ends");
    String::from_utf8_lossy(&bytes).into_owned()
}

/// All bytes until these have come.
pub(crate) async fn read_until(stream: &mut TcpStream, end: &str) -> String {
    let mut bytes = Vec::new();
    let reading = async {
        while !String::from_utf8_lossy(&bytes).contains(end) {
            let byte = stream.read_u8().await;
            let so_far = String::from_utf8_lossy(&bytes).into_owned();
            bytes.push(byte.unwrap_or_else(|e| panic!("{end:?} in {so_far:?}: {e}")));
        }
    };
    tokio::time::timeout(PATIENCE, reading).await.expect("the bytes come");
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Asks until there is an answer.
pub(crate) async fn until<T>(mut ask: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(begun.elapsed() < PATIENCE, "it does not happen");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

pub(crate) type Body = UnsyncBoxBody<Bytes, std::io::Error>;

pub(crate) fn text(text: impl Into<Bytes>) -> Response<Body> {
    Response::new(Full::new(text.into()).map_err(|never| match never {}).boxed_unsync())
}

/// A server of the test.
pub(crate) struct Origin {
    pub(crate) address: SocketAddr,
    connections: Arc<AtomicUsize>,
}

impl Origin {
    /// Answers by a function.
    pub(crate) async fn start<F, A>(answer: F) -> Self
    where
        F: Fn(Request<Incoming>) -> A + Clone + Send + 'static,
        A: Future<Output = Response<Body>> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&connections);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::SeqCst);
                let answer = answer.clone();
                let each = service_fn(move |request| {
                    let answer = answer(request);
                    async move { Ok::<_, Infallible>(answer.await) }
                });
                let builder = hyper::server::conn::http1::Builder::new();
                let served = builder.serve_connection(TokioIo::new(stream), each).with_upgrades();
                tokio::spawn(served);
            }
        });
        Origin { address, connections }
    }

    /// Says what it got: method, target, fields in the order of their names, body, trailers.
    pub(crate) async fn echo() -> Self {
        Origin::start(|request: Request<Incoming>| async move {
            let mut said = format!("{} {}\n", request.method(), request.uri());
            let mut fields: Vec<String> = request
                .headers()
                .iter()
                .map(|(name, value)| format!("{name}: {}\n", value.to_str().unwrap()))
                .collect();
            fields.sort();
            said.push_str(&fields.concat());
            let body = request.into_body().collect().await;
            let Ok(body) = body else { return text("the body broke off") };
            let trailers = body.trailers().cloned().unwrap_or_default();
            said.push_str(&format!("\n{}\n", String::from_utf8_lossy(&body.to_bytes())));
            for (name, value) in &trailers {
                said.push_str(&format!("trailer {name}: {}\n", value.to_str().unwrap()));
            }
            text(said)
        })
        .await
    }

    /// Takes one connection after the other, reads a header, writes these bytes and closes.
    pub(crate) async fn raw(answer: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                read_until(&mut stream, "\r\n\r\n").await;
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        });
        Origin { address, connections: Arc::default() }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Connections so far.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}
