//! Fetching a file from a web server: what a server said of the copy that is here, redirections,
//! limits of size and time.
//!
//! Only `http` and `https` are followed, and never from `https` to `http`. A server that is silent,
//! or that sends a byte now and then, is given up ([`Patience`]).

use std::io::Write;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use http_body_util::{BodyExt, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::header::{
    ACCEPT_ENCODING, ETAG, HOST, HeaderName, HeaderValue, IF_MODIFIED_SINCE, IF_NONE_MATCH,
    LAST_MODIFIED, LOCATION, USER_AGENT,
};
use hyper::{Request, Response, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use serde::{Deserialize, Serialize};
use tokio::net::TcpStream;
use tokio::time::Instant;

use crate::config::mask;
use crate::net::tls::{Certificate, HopTls};
use crate::wire::Wire;

/// Redirections that are followed.
const REDIRECTIONS_MAX: usize = 5;
/// Longest `ETag` and `Last-Modified` that are kept.
const VALIDATOR_BYTES_MAX: usize = 512;

/// How long a server may take.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// For connecting, for the head of an answer, and for each piece of its body.
    pub step: Duration,
    /// A body that comes slower than this, once a step is over, is given up. 0: any rate.
    pub bytes_per_second_min: u64,
}

impl Default for Patience {
    fn default() -> Self {
        Patience { step: Duration::from_secs(30), bytes_per_second_min: 0 }
    }
}

/// What a server said of the copy that we have.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Validators {
    /// Its tag (RFC 9110 section 8.8.3).
    pub etag: Option<String>,
    /// When it was changed, in the server's words.
    pub last_modified: Option<String>,
}

impl Validators {
    fn of(response: &Response<Incoming>) -> Self {
        let header = |name: HeaderName| {
            let text = response.headers().get(name).and_then(|v: &HeaderValue| v.to_str().ok());
            text.filter(|t| t.len() <= VALIDATOR_BYTES_MAX).map(str::to_owned)
        };
        Validators { etag: header(ETAG), last_modified: header(LAST_MODIFIED) }
    }
}

/// An answer whose head has come.
#[derive(Debug)]
pub enum Answer {
    /// The copy that we have is the newest.
    Same,
    /// There is no such file (404, 410).
    Missing,
    /// Its body follows.
    Body(Body),
}

/// A body that has still to come.
#[derive(Debug)]
pub struct Body {
    /// What the server says of it.
    pub validators: Validators,
    incoming: Incoming,
    patience: Patience,
}

/// Reads the address of a file.
///
/// # Errors
/// A sentence that says what is wrong with it.
pub fn address(url: &str) -> anyhow::Result<Uri> {
    let read: Uri = url.parse().with_context(|| format!("url {:?}", mask(url)))?;
    ensure!(
        matches!(read.scheme_str(), Some("http" | "https")) && read.host().is_some(),
        "url {:?} must begin with http:// or https:// and a host",
        mask(url)
    );
    Ok(read)
}

/// Asks for a file, unless it is the one that these validators are of.
///
/// # Errors
/// Whatever kept it from being asked for, and every other answer.
pub async fn get(
    url: &Uri,
    tls: &HopTls,
    known: &Validators,
    patience: Patience,
) -> anyhow::Result<Answer> {
    let mut url = url.clone();
    for _ in 0..=REDIRECTIONS_MAX {
        let response = ask(tls, &url, known, patience.step).await?;
        match response.status() {
            StatusCode::NOT_MODIFIED if *known != Validators::default() => return Ok(Answer::Same),
            StatusCode::NOT_FOUND | StatusCode::GONE => return Ok(Answer::Missing),
            StatusCode::OK => {
                let validators = Validators::of(&response);
                let incoming = response.into_body();
                return Ok(Answer::Body(Body { validators, incoming, patience }));
            }
            status if status.is_redirection() => url = target(&url, &response)?,
            status => bail!("the server says {status}"),
        }
    }
    bail!("more than {REDIRECTIONS_MAX} redirections")
}

impl Body {
    /// Writes the body out as it comes, at most so many bytes. The writes are small.
    ///
    /// # Errors
    /// If it is larger, too slow or cut short; and the sink's.
    pub async fn copy(
        mut self,
        bytes_max: u64,
        out: &mut (dyn Write + Send),
    ) -> anyhow::Result<u64> {
        let (began, mut bytes) = (Instant::now(), 0u64);
        let step = self.patience.step;
        while let Some(frame) =
            tokio::time::timeout(step, self.incoming.frame()).await.context("no answer")?
        {
            let Ok(data) = frame.context("the response was cut short")?.into_data() else {
                continue;
            };
            bytes += data.len() as u64;
            ensure!(bytes <= bytes_max, "larger than {bytes_max} bytes");
            out.write_all(&data)?;
            let late = began.elapsed().saturating_sub(step).as_secs_f64();
            let least = late * self.patience.bytes_per_second_min as f64;
            ensure!(bytes as f64 >= least, "too slow: {bytes} bytes in {:?}", began.elapsed());
        }
        Ok(bytes)
    }
}

/// Sends one request and reads the head of its answer.
async fn ask(
    tls: &HopTls,
    url: &Uri,
    known: &Validators,
    step: Duration,
) -> anyhow::Result<Response<Incoming>> {
    let host = url.host().context("a redirection to no host")?.to_owned();
    let secure = url.scheme_str() == Some("https");
    let port = url.port_u16().unwrap_or(if secure { 443 } else { 80 });
    let bare = host.trim_matches(['[', ']']).to_owned();
    let connecting = tokio::time::timeout(step, TcpStream::connect((bare.as_str(), port)));
    let stream = connecting.await.context("connecting takes too long")?.context("connecting")?;
    let mut wire: Wire = Box::new(stream);
    if secure {
        let securing = tls.connect(wire, &bare, &Certificate::Valid);
        let secured = tokio::time::timeout(step, securing).await.context("TLS: too slow")?;
        wire = secured.map_err(|e| anyhow::anyhow!(e))?;
    }
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(wire)).await.context("HTTP")?;
    // Ends with the last of sender and body.
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "the connection for a file was aborted");
        }
    });
    let target = url.path_and_query().map_or("/", |p| p.as_str());
    let authority = url.authority().map_or(host.as_str(), |a| a.as_str());
    let authority = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let mut request = Request::get(target)
        .header(HOST, authority)
        .header(USER_AGENT, concat!("gauntlet/", env!("CARGO_PKG_VERSION")))
        .header(ACCEPT_ENCODING, "identity");
    if let Some(etag) = &known.etag {
        request = request.header(IF_NONE_MATCH, etag);
    }
    if let Some(date) = &known.last_modified {
        request = request.header(IF_MODIFIED_SINCE, date);
    }
    let request = request.body(Empty::<Bytes>::new())?;
    let answering = tokio::time::timeout(step, sender.send_request(request));
    answering.await.context("no answer")?.context("HTTP")
}

/// Where a redirection leads. Never from https to http.
fn target(from: &Uri, response: &Response<Incoming>) -> anyhow::Result<Uri> {
    let location = response.headers().get(LOCATION).and_then(|l| l.to_str().ok());
    let location = location.context("a redirection to nowhere")?;
    let named = || format!("a redirection to {:?}", mask(location));
    let uri: Uri = location.parse().with_context(named)?;
    let uri = match uri.scheme_str() {
        Some("http" | "https") => uri,
        None if location.starts_with('/') && !location.starts_with("//") => {
            let mut parts = from.clone().into_parts();
            parts.path_and_query = uri.into_parts().path_and_query;
            Uri::from_parts(parts)?
        }
        _ => bail!(named()),
    };
    let weaker = from.scheme_str() == Some("https") && uri.scheme_str() == Some("http");
    ensure!(!weaker, "a redirection from https to http");
    Ok(uri)
}
