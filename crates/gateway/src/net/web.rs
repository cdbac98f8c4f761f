//! Asking a web server one thing: small answers over HTTP/1.1, with TLS verified by the roots of
//! the system or those that are set.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::header::{HOST, HeaderValue, USER_AGENT};
use hyper::{Method, Request, Response, Uri};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use crate::net::tls::{Certificate, HopTls};
use crate::wire::Wire;

/// Patience with a server, over all.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(15);
/// Longest answer, in bytes.
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// A request to a web server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// Where: `https://...`; `http://` on loopback addresses only.
    pub url: String,
    /// Fields of the head beside `Host`.
    pub headers: Vec<(String, String)>,
    /// What is posted; none for a GET.
    pub body: Option<String>,
}

/// Asks, and returns status and body.
///
/// # Errors
/// The server cannot be reached or verified, or its answer is too long or no text.
pub async fn ask(asked: &Asked, tls: &HopTls) -> anyhow::Result<(u16, String)> {
    let asking = send(asked, tls);
    tokio::time::timeout(ANSWER_TIMEOUT, asking).await.context("no answer in time")?
}

async fn send(asked: &Asked, tls: &HopTls) -> anyhow::Result<(u16, String)> {
    let method = if asked.body.is_some() { Method::POST } else { Method::GET };
    let agent = concat!("gauntlet/", env!("CARGO_PKG_VERSION"));
    let mut request = Request::builder().method(method).uri(&asked.url).header(USER_AGENT, agent);
    for (name, value) in &asked.headers {
        request = request.header(name, value);
    }
    let body = Full::new(Bytes::from(asked.body.clone().unwrap_or_default()));
    let response = conversation(request.body(body)?, tls).await?;
    let status = response.status().as_u16();
    let body = response.into_body();
    Ok((status, String::from_utf8(body.to_vec()).context("its answer is no text")?))
}

/// Sends a request whose address is a whole URL, and returns the answer.
///
/// # Errors
/// The server cannot be reached or verified, or its answer is too long.
pub async fn exchange(
    request: Request<Full<Bytes>>,
    tls: &HopTls,
) -> anyhow::Result<Response<Bytes>> {
    let answer = tokio::time::timeout(ANSWER_TIMEOUT, conversation(request, tls)).await;
    answer.context("no answer in time")?
}

async fn conversation(
    mut request: Request<Full<Bytes>>,
    tls: &HopTls,
) -> anyhow::Result<Response<Bytes>> {
    let url: Uri = std::mem::take(request.uri_mut());
    let host = url.host().context("no host in the address")?.to_owned();
    let bare = host.trim_matches(['[', ']']);
    let secure = match url.scheme_str() {
        Some("https") => true,
        Some("http") => {
            let local = ["127.0.0.1", "::1", "localhost"].contains(&bare);
            ensure!(local, "http:// without TLS is for this machine only");
            false
        }
        _ => bail!("neither https:// nor http://"),
    };
    let port = url.port_u16().unwrap_or(if secure { 443 } else { 80 });
    let mut wire: Wire = Box::new(TcpStream::connect((bare, port)).await.context("connecting")?);
    if secure {
        let secured = tls.connect(wire, bare, &Certificate::Valid).await;
        wire = secured.map_err(|e| anyhow::anyhow!(e))?;
    }
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(wire)).await.context("HTTP")?;
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "a connection to a web server was aborted");
        }
    });
    let authority = url.authority().map_or(host.as_str(), |a| a.as_str());
    let authority = HeaderValue::from_str(authority).context("the host of the address")?;
    request.headers_mut().insert(HOST, authority);
    *request.uri_mut() = url.path_and_query().map_or("/", |p| p.as_str()).parse()?;
    let response = sender.send_request(request).await.context("HTTP")?;
    let (head, body) = response.into_parts();
    let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
    let body = body.map_err(|e| anyhow::anyhow!("its answer: {e}"))?.to_bytes();
    Ok(Response::from_parts(head, body))
}

/// TLS to others, verified by the roots that are set, else by the system's. Without either, or with
/// a bundle of the system's that cannot be used (which is logged), nothing can be verified.
///
/// # Errors
/// If a bundle that is set cannot be read or holds no certificate.
pub fn hop_tls(set: &Path) -> anyhow::Result<HopTls> {
    let roots = crate::config::trust_roots(set);
    match HopTls::load(&roots) {
        Err(error) if set.as_os_str().is_empty() => {
            let (error, roots) = (format!("{error:#}"), roots.display().to_string());
            tracing::error!(error, roots, "the system's trusted roots cannot be used");
            HopTls::load(Path::new(""))
        }
        loaded => loaded,
    }
}
