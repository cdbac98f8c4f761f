//! An ICAP service, and a client that writes bytes.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use gauntlet_proxy::Parts;
use gauntlet_proxy::access_log::AccessLog;
use gauntlet_proxy::icap::IcapServer;
use gauntlet_proxy::icap::counters::IcapCounters;
use gauntlet_proxy::judge::{
    BlockReason, Decision, Inspect, Judge, ResponseDecision, ResponseHead, Step,
};
use gauntlet_proxy::request::WebRequest;
use gauntlet_proxy::settings::Settings;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::common::{self, Log, read_all, read_until};

/// A running service.
pub(crate) struct Icap {
    pub(crate) address: SocketAddr,
    pub(crate) counters: Arc<IcapCounters>,
    pub(crate) log: Arc<Log>,
    stop: Option<oneshot::Sender<()>>,
    running: Option<JoinHandle<()>>,
}

/// Settings of a service on a free port, with previews.
pub(crate) fn settings() -> Settings {
    let mut settings = common::settings();
    settings.icap.listen = vec![SocketAddr::from(([127, 0, 0, 1], 0))];
    settings.icap.preview_bytes = 1024;
    settings
}

impl Icap {
    pub(crate) async fn judged(judge: impl Judge + 'static) -> Self {
        Icap::with(settings(), Arc::new(judge)).await
    }

    pub(crate) async fn with(settings: Settings, judge: Arc<dyn Judge>) -> Self {
        let log = Arc::new(Log::default());
        let parts =
            Parts { judge, log: Arc::clone(&log) as Arc<dyn AccessLog>, ..Parts::default() };
        let server = IcapServer::bind(settings, parts).await.unwrap();
        let (address, counters) = (server.addresses()[0], server.counters());
        let (stop, stopped) = oneshot::channel();
        let running = tokio::spawn(async move {
            server.run(async { drop(stopped.await) }).await.unwrap();
        });
        Icap { address, counters, log, stop: Some(stop), running: Some(running) }
    }

    /// Tells it to stop, and gives what ends when it has.
    pub(crate) fn stop(&mut self) -> JoinHandle<()> {
        drop(self.stop.take());
        self.running.take().unwrap()
    }

    pub(crate) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Sends bytes, and gives all that comes back until the service closes the connection.
    pub(crate) async fn talk(&self, bytes: impl AsRef<[u8]>) -> String {
        let mut stream = self.connect().await;
        stream.write_all(bytes.as_ref()).await.unwrap();
        read_all(&mut stream).await
    }

    /// Sends one request, and gives its answer.
    pub(crate) async fn ask(&self, request: &Message) -> String {
        self.talk(request.last()).await
    }
}

/// An ICAP request as a client builds it, with true offsets.
#[derive(Clone)]
pub(crate) struct Message {
    line: &'static str,
    fields: String,
    request: String,
    response: Option<String>,
    body: Option<String>,
}

impl Message {
    /// Asks about a request with this first line and these fields.
    pub(crate) fn reqmod(line: &str, fields: &str) -> Self {
        let line_of_icap = "REQMOD icap://127.0.0.1/reqmod ICAP/1.0";
        let request = format!("{line}\r\nHost: site.example\r\n{fields}\r\n");
        Message { line: line_of_icap, fields: String::new(), request, response: None, body: None }
    }

    /// Asks about a response to GET of this path.
    pub(crate) fn respmod(path: &str, response: &str) -> Self {
        let mut message = Message::get(path);
        message.line = "RESPMOD icap://127.0.0.1/respmod ICAP/1.0";
        message.response = Some(format!("{response}\r\n"));
        message
    }

    /// Asks about GET of this path.
    pub(crate) fn get(path: &str) -> Self {
        Message::reqmod(&format!("GET http://site.example{path} HTTP/1.1"), "")
    }

    /// With a field of ICAP.
    pub(crate) fn field(mut self, field: &str) -> Self {
        self.fields.push_str(&format!("{field}\r\n"));
        self
    }

    /// With a body, in chunks as they are written here.
    pub(crate) fn body(mut self, chunks: &str) -> Self {
        self.body = Some(chunks.to_owned());
        self
    }

    /// The bytes.
    pub(crate) fn bytes(&self) -> String {
        let mut encapsulated = "req-hdr=0".to_owned();
        let mut heads = self.request.clone();
        if let Some(response) = &self.response {
            encapsulated.push_str(&format!(", res-hdr={}", heads.len()));
            heads.push_str(response);
        }
        let name = match (&self.body, &self.response) {
            (None, _) => "null-body",
            (Some(_), None) => "req-body",
            (Some(_), Some(_)) => "res-body",
        };
        let at = heads.len();
        let body = self.body.clone().unwrap_or_default();
        format!(
            "{}\r\nHost: 127.0.0.1\r\n{}\
             Encapsulated: {encapsulated}, {name}={at}\r\n\r\n{heads}{body}",
            self.line, self.fields
        )
    }

    /// The bytes of a request after which the connection ends.
    pub(crate) fn last(&self) -> String {
        self.clone().field("Connection: close").bytes()
    }
}

/// Bytes until the end of an ICAP header.
pub(crate) async fn read_head(stream: &mut TcpStream) -> String {
    read_until(stream, "\r\n\r\n").await
}

pub(crate) fn reason() -> BlockReason {
    BlockReason { rule: "words".to_owned(), text: "It has a bad word.".to_owned() }
}

/// By the path: blocks, redirects or inspects.
pub(crate) struct ByPath;

impl Judge for ByPath {
    fn request(&self, request: &WebRequest) -> Decision {
        match request.url.path_and_query() {
            "/bad" => Decision::Block(reason()),
            "/moved" => Decision::Redirect("http://elsewhere.example/".to_owned()),
            "/upload" => Decision::Inspect(Box::new(Words::new(true))),
            "/upload-stream" => Decision::Inspect(Box::new(Words::new(false))),
            _ => Decision::Allow,
        }
    }

    fn response(&self, request: &WebRequest, head: &ResponseHead<'_>) -> ResponseDecision {
        assert!(!head.headers.contains_key("connection"));
        match request.url.path_and_query() {
            "/whole" => ResponseDecision::Inspect(Box::new(Words::new(true))),
            "/stream" => ResponseDecision::Inspect(Box::new(Words::new(false))),
            "/longer" => ResponseDecision::Inspect(Box::new(Longer)),
            _ if head.headers.contains_key("x-bad") => ResponseDecision::Block(reason()),
            _ => ResponseDecision::Pass,
        }
    }
}

/// Blocks what has `bad` in it: at the end, or as the word comes.
pub(crate) struct Words {
    holds: bool,
    held: Vec<u8>,
}

impl Words {
    pub(crate) fn new(holds: bool) -> Self {
        Words { holds, held: Vec::new() }
    }
}

impl Inspect for Words {
    fn data(&mut self, data: Bytes) -> BoxFuture<'_, Step> {
        Box::pin(async move {
            // What waits does not stop other connections.
            tokio::task::yield_now().await;
            if self.holds {
                self.held.extend_from_slice(&data);
                return Step::Hold;
            }
            match data.windows(3).any(|w| w == b"bad") {
                true => Step::Block(reason()),
                false => Step::Pass(data),
            }
        })
    }

    fn end(&mut self) -> BoxFuture<'_, Step> {
        let held = Bytes::from(std::mem::take(&mut self.held));
        let is_bad = held.windows(3).any(|w| w == b"bad");
        Box::pin(async move { if is_bad { Step::Block(reason()) } else { Step::Pass(held) } })
    }
}

/// Makes every piece longer.
struct Longer;

impl Inspect for Longer {
    fn data(&mut self, data: Bytes) -> BoxFuture<'_, Step> {
        Box::pin(async move { Step::Pass([&data[..], b"!"].concat().into()) })
    }

    fn end(&mut self) -> BoxFuture<'_, Step> {
        Box::pin(async { Step::Pass(Bytes::new()) })
    }

    fn keeps_length(&self) -> bool {
        false
    }
}
