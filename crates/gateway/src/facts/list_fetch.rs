//! Lists of our own from a URL: polled, and applied only when they are whole.
//!
//! The copy lies in the data folder beside what the server said of it (`ETag`, `Last-Modified`), so
//! that a list that did not change costs one small request. Whatever goes wrong, the last good copy
//! stays: no answer, another status, too many bytes, a connection that broke off, a page that is no
//! list.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use gauntlet_store::files;
use http_body_util::{BodyExt, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::header::{
    ACCEPT_ENCODING, ETAG, HOST, HeaderValue, IF_MODIFIED_SINCE, IF_NONE_MATCH, LAST_MODIFIED,
    LOCATION, USER_AGENT,
};
use hyper::{Request, Response, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use serde::{Deserialize, Serialize};
use tokio::net::TcpStream;

use crate::config::mask;
use crate::net::tls::{Certificate, HopTls};
use crate::wire::Wire;

/// Redirections that are followed.
const REDIRECTIONS_MAX: usize = 5;
/// Time for connecting, and for each piece of an answer.
const STEP_TIMEOUT: Duration = Duration::from_secs(30);
/// Time for one list in all.
const FETCH_TIMEOUT: Duration = Duration::from_secs(900);
/// Longest `ETag` and `Last-Modified` that are kept.
const VALIDATOR_BYTES_MAX: usize = 512;

/// What a server said of the copy that we have.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
struct Validators {
    /// Hash of the URL, which may hold a password.
    url: String,
    etag: Option<String>,
    last_modified: Option<String>,
}

/// Where a list comes from, and where its copy lies.
#[derive(Debug, Clone)]
pub(super) struct Remote {
    pub(super) url: String,
    pub(super) bytes_max: u64,
    /// File of the copy, in the data folder.
    pub(super) path: PathBuf,
}

/// A new copy, beside the old one.
#[derive(Debug)]
pub(super) struct Fresh {
    pub(super) path: PathBuf,
    validators: Validators,
}

impl Remote {
    /// Checks the URL.
    ///
    /// # Errors
    /// A sentence that says what is wrong with it.
    pub(super) fn new(url: &str, bytes_max: u64, path: PathBuf) -> anyhow::Result<Self> {
        let read: Uri = url.parse().with_context(|| format!("url {:?}", mask(url)))?;
        ensure!(
            matches!(read.scheme_str(), Some("http" | "https")) && read.host().is_some(),
            "url {:?} must begin with http:// or https:// and a host",
            mask(url)
        );
        Ok(Remote { url: url.to_owned(), bytes_max, path })
    }

    fn url_hash(&self) -> String {
        blake3::hash(self.url.as_bytes()).to_hex().to_string()
    }

    fn validators_path(&self) -> PathBuf {
        self.path.with_extension("seen.json")
    }

    fn validators(&self) -> Validators {
        let read = fs::read(self.validators_path()).ok();
        let known = read.and_then(|text| serde_json::from_slice::<Validators>(&text).ok());
        // Of an empty copy nobody should say that it is still the newest.
        let is_kept = fs::metadata(&self.path).is_ok_and(|copy| copy.len() > 0);
        known.filter(|v| v.url == self.url_hash() && is_kept).unwrap_or_default()
    }

    /// Fetches the list; none if it is the one that we have.
    ///
    /// # Errors
    /// Whatever kept it from being fetched as a whole.
    pub(super) async fn fetch(&self, tls: &HopTls) -> anyhow::Result<Option<Fresh>> {
        let fetching = tokio::time::timeout(FETCH_TIMEOUT, self.fetch_whole(tls));
        fetching.await.context("it takes too long")?
    }

    async fn fetch_whole(&self, tls: &HopTls) -> anyhow::Result<Option<Fresh>> {
        let known = self.validators();
        let mut url: Uri = self.url.parse()?;
        for _ in 0..=REDIRECTIONS_MAX {
            let response = ask(tls, &url, &known).await?;
            match response.status() {
                StatusCode::NOT_MODIFIED if known != Validators::default() => return Ok(None),
                StatusCode::OK => return self.take(response).await.map(Some),
                status if status.is_redirection() => url = target(&url, &response)?,
                status => bail!("the server says {status}"),
            }
        }
        bail!("more than {REDIRECTIONS_MAX} redirections")
    }

    /// Writes the body beside the copy. The writes are small and go to the page cache.
    async fn take(&self, response: Response<Incoming>) -> anyhow::Result<Fresh> {
        let header = |name| {
            let value: Option<&HeaderValue> = response.headers().get(name);
            let text = value.and_then(|v| v.to_str().ok());
            text.filter(|t| t.len() <= VALIDATOR_BYTES_MAX).map(str::to_owned)
        };
        let validators = Validators {
            url: self.url_hash(),
            etag: header(ETAG),
            last_modified: header(LAST_MODIFIED),
        };
        let path = self.path.with_extension("fetched");
        let mut file = File::create(&path).with_context(|| path.display().to_string())?;
        let mut body = response.into_body();
        let mut bytes = 0u64;
        while let Some(frame) =
            tokio::time::timeout(STEP_TIMEOUT, body.frame()).await.context("no answer")?
        {
            let Ok(data) = frame.context("the response was cut short")?.into_data() else {
                continue;
            };
            bytes += data.len() as u64;
            ensure!(bytes <= self.bytes_max, "larger than bytes_max = {}", self.bytes_max);
            file.write_all(&data)?;
        }
        file.sync_all()?;
        Ok(Fresh { path, validators })
    }

    /// Puts a new copy in the old one's place.
    ///
    /// # Errors
    /// The system's; the old copy is then still there.
    pub(super) fn adopt(&self, fresh: &Fresh) -> anyhow::Result<()> {
        // Without validators the next poll fetches the list again: never the other way round.
        let seen = self.validators_path();
        if let Err(error) = fs::remove_file(&seen)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            return Err(error).context(seen.display().to_string());
        }
        fs::rename(&fresh.path, &self.path).with_context(|| self.path.display().to_string())?;
        files::sync_folder(self.path.parent().unwrap_or(Path::new(".")))?;
        files::write_durably(&seen, &serde_json::to_vec(&fresh.validators)?)
            .with_context(|| seen.display().to_string())
    }
}

/// Sends one request and reads the head of its answer.
async fn ask(tls: &HopTls, url: &Uri, known: &Validators) -> anyhow::Result<Response<Incoming>> {
    let host = url.host().context("a redirection to no host")?.to_owned();
    let secure = url.scheme_str() == Some("https");
    let port = url.port_u16().unwrap_or(if secure { 443 } else { 80 });
    let bare = host.trim_matches(['[', ']']).to_owned();
    let connecting = tokio::time::timeout(STEP_TIMEOUT, TcpStream::connect((bare.as_str(), port)));
    let stream = connecting.await.context("connecting takes too long")?.context("connecting")?;
    let mut wire: Wire = Box::new(stream);
    if secure {
        let securing = tls.connect(wire, &bare, &Certificate::Valid);
        let secured =
            tokio::time::timeout(STEP_TIMEOUT, securing).await.context("TLS: too slow")?;
        wire = secured.map_err(|e| anyhow::anyhow!(e))?;
    }
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(wire)).await.context("HTTP")?;
    // Ends with the last of sender and body.
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "the connection for a list was aborted");
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
    let answering = tokio::time::timeout(STEP_TIMEOUT, sender.send_request(request));
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
