//! Lists of our own from a URL: polled, and applied only when they are whole.
//!
//! The copy lies in the data folder beside what the server said of it (`ETag`, `Last-Modified`), so
//! that a list that did not change costs one small request. Whatever goes wrong, the last good copy
//! stays: no answer, another status, too many bytes, a connection that broke off, a page that is no
//! list.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use gauntlet_store::files;
use hyper::Uri;
use serde::{Deserialize, Serialize};

use crate::net::download::{self, Answer, Body, Patience};
use crate::net::tls::HopTls;

/// Time for one list in all.
const FETCH_TIMEOUT: Duration = Duration::from_secs(900);

/// What a server said of the copy that we have.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
struct Validators {
    /// Hash of the URL, which may hold a password.
    url: String,
    #[serde(flatten)]
    said: download::Validators,
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
        download::address(url)?;
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
        let known = self.validators().said;
        let url: Uri = self.url.parse()?;
        match download::get(&url, tls, &known, Patience::default()).await? {
            Answer::Same => Ok(None),
            Answer::Missing => bail!("the server says 404 Not Found"),
            Answer::Body(body) => self.take(body).await.map(Some),
        }
    }

    /// Writes the body beside the copy. The writes are small and go to the page cache.
    async fn take(&self, body: Body) -> anyhow::Result<Fresh> {
        let validators = Validators { url: self.url_hash(), said: body.validators.clone() };
        let path = self.path.with_extension("fetched");
        let mut file = File::create(&path).with_context(|| path.display().to_string())?;
        let copied = body.copy(self.bytes_max, &mut file).await;
        copied.with_context(|| format!("bytes_max = {}", self.bytes_max))?;
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
