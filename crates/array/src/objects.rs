//! The array's object store: few, large objects that are written once, read in parts, and removed.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read as _, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures_util::TryStreamExt;
use gauntlet_store::random;
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::path::Path as Key;
use object_store::{BackoffConfig, GetOptions, ObjectStore, ObjectStoreExt, RetryConfig};

use crate::error::ArrayError;
use crate::http::{Http, HttpLimits};
use crate::objects_address::{Bucket, ObjectsAddress, ObjectsTls, Place};
use crate::tls::DatabaseTls;

/// Characters of a server's error page that are shown.
const SAID_MAX: usize = 200;

/// Limits of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ObjectsOptions {
    /// Until a connection is open and encrypted.
    pub connect_max: Duration,
    /// Until a request is answered, beside a second for each 256 KiB of its body.
    pub request_max: Duration,
    /// How often a request is sent again that failed by the network or by a 5xx answer.
    pub retries_max: usize,
    /// No request is sent again after this.
    pub retries_end: Duration,
}

impl Default for ObjectsOptions {
    fn default() -> Self {
        ObjectsOptions {
            connect_max: Duration::from_secs(10),
            request_max: Duration::from_secs(30),
            retries_max: 3,
            retries_end: Duration::from_secs(30),
        }
    }
}

/// What comes of reading an object whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fetched {
    /// It is what the tag names.
    Same,
    /// There is no such object.
    Gone,
    /// It was written out; perhaps it has a tag.
    Whole(Option<String>),
}

/// The objects of an array.
#[derive(Debug, Clone)]
pub struct Objects {
    server: std::sync::Arc<str>,
    prefix: String,
    kind: Kind,
}

#[derive(Debug, Clone)]
enum Kind {
    S3(Box<AmazonS3>),
    Folder(PathBuf),
}

impl Objects {
    /// The objects at this address. Connects when the first is asked for.
    ///
    /// # Errors
    /// If the address asks for a verified certificate and there are no roots.
    pub fn new(
        address: &ObjectsAddress,
        tls: &DatabaseTls,
        options: ObjectsOptions,
    ) -> Result<Self, ArrayError> {
        let kind = match &address.place {
            Place::Folder(path) => Kind::Folder(path.clone()),
            Place::Bucket(bucket) => Kind::S3(Box::new(s3(bucket, tls, options)?)),
        };
        let (server, prefix) = (address.server().into(), address.prefix.clone());
        Ok(Objects { server, prefix, kind })
    }

    /// `host:port/bucket/prefix`, or the folder.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// Stores an object; durable when it returns. One of the same name is replaced.
    ///
    /// # Errors
    /// If the server cannot be reached, refuses, or the object could not be stored.
    pub async fn put(&self, name: &str, bytes: bytes::Bytes) -> Result<(), ArrayError> {
        let key = self.key(name);
        match &self.kind {
            Kind::S3(store) => {
                let stored = store.put(&key, bytes.into()).await;
                stored.map(drop).map_err(|error| self.failed("store", name, &error))
            }
            Kind::Folder(folder) => {
                let path = folder.join(key.as_ref());
                self.on_disk("store", name, move || write_file(&path, &bytes)).await
            }
        }
    }

    /// A part of an object; none if there is no such object.
    ///
    /// # Errors
    /// If the server cannot be reached or refuses, or the object is shorter.
    pub async fn get(
        &self,
        name: &str,
        offset: u64,
        bytes: u64,
    ) -> Result<Option<bytes::Bytes>, ArrayError> {
        let key = self.key(name);
        match &self.kind {
            Kind::S3(store) => match store.get_range(&key, offset..offset + bytes).await {
                Ok(read) => Ok(Some(read)),
                Err(error) if is_gone(&error) => Ok(None),
                Err(error) => Err(self.failed("read", name, &error)),
            },
            Kind::Folder(folder) => {
                let path = folder.join(key.as_ref());
                let read = move || match read_file(&path, offset, bytes) {
                    Ok(read) => Ok(Some(read.into())),
                    Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
                    Err(error) => Err(error),
                };
                self.on_disk("read", name, read).await
            }
        }
    }

    /// Writes an object out whole, at most so many bytes of it. With a tag: only if it is another
    /// than the one that the tag names (a folder has no tags).
    ///
    /// # Errors
    /// If the server cannot be reached or refuses, the object is larger, or `out` does not take it.
    pub async fn fetch(
        &self,
        name: &str,
        tag: Option<&str>,
        bytes_max: u64,
        out: &mut (dyn Write + Send),
    ) -> Result<Fetched, ArrayError> {
        let (key, mut left) = (self.key(name), bytes_max);
        let cannot = |cause: String| self.cannot("read", name, &cause);
        let mut write = |piece: &[u8]| {
            left = left.checked_sub(piece.len() as u64).ok_or_else(|| {
                io::Error::new(io::ErrorKind::FileTooLarge, format!("over {bytes_max} bytes"))
            })?;
            out.write_all(piece)
        };
        match &self.kind {
            Kind::S3(store) => {
                let options =
                    GetOptions { if_none_match: tag.map(str::to_owned), ..GetOptions::default() };
                let read = match store.get_opts(&key, options).await {
                    Ok(read) => read,
                    Err(object_store::Error::NotModified { .. }) => return Ok(Fetched::Same),
                    Err(error) if is_gone(&error) => return Ok(Fetched::Gone),
                    Err(error) => return Err(self.failed("read", name, &error)),
                };
                let tag = read.meta.e_tag.clone();
                let mut pieces = read.into_stream();
                loop {
                    let piece = pieces.try_next().await;
                    let piece = piece.map_err(|error| self.failed("read", name, &error))?;
                    let Some(piece) = piece else { return Ok(Fetched::Whole(tag)) };
                    write(&piece).map_err(|error| cannot(error.to_string()))?;
                }
            }
            Kind::Folder(folder) => {
                let mut file = match fs::File::open(folder.join(key.as_ref())) {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {
                        return Ok(Fetched::Gone);
                    }
                    file => file.map_err(|error| cannot(error.to_string()))?,
                };
                let mut piece = vec![0; 64 << 10];
                loop {
                    let read = file.read(&mut piece).and_then(|bytes| {
                        write(piece.get(..bytes).unwrap_or_default()).map(|()| bytes)
                    });
                    if read.map_err(|error| cannot(error.to_string()))? == 0 {
                        return Ok(Fetched::Whole(None));
                    }
                }
            }
        }
    }

    /// Names and bytes of all objects whose names begin with `folder` and a slash, without these.
    ///
    /// # Errors
    /// If the server cannot be reached or refuses.
    pub async fn list(&self, folder: &str) -> Result<BTreeMap<String, u64>, ArrayError> {
        let key = self.key(folder);
        match &self.kind {
            Kind::S3(store) => {
                let found = store.list(Some(&key)).try_collect::<Vec<_>>().await;
                let found = found.map_err(|error| self.failed("list", folder, &error))?;
                let named = found.into_iter().filter_map(|meta| {
                    let name = meta.location.as_ref().strip_prefix(key.as_ref())?;
                    Some((name.strip_prefix('/')?.to_owned(), meta.size))
                });
                Ok(named.collect())
            }
            Kind::Folder(path) => {
                let path = path.join(key.as_ref());
                self.on_disk("list", folder, move || list_folder(&path)).await
            }
        }
    }

    /// Removes an object; that it is gone already is no error.
    ///
    /// # Errors
    /// If the server cannot be reached or refuses.
    pub async fn delete(&self, name: &str) -> Result<(), ArrayError> {
        let key = self.key(name);
        match &self.kind {
            Kind::S3(store) => match store.delete(&key).await {
                Ok(()) => Ok(()),
                Err(error) if is_gone(&error) => Ok(()),
                Err(error) => Err(self.failed("remove", name, &error)),
            },
            Kind::Folder(folder) => {
                let path = folder.join(key.as_ref());
                let remove = move || match fs::remove_file(&path) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                    _ => Ok(()),
                };
                self.on_disk("remove", name, remove).await
            }
        }
    }

    fn key(&self, name: &str) -> Key {
        match self.prefix.is_empty() {
            true => Key::from(name),
            false => Key::from(format!("{}/{name}", self.prefix)),
        }
    }

    async fn on_disk<T: Send + 'static>(
        &self,
        what: &'static str,
        name: &str,
        work: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> Result<T, ArrayError> {
        let done = tokio::task::spawn_blocking(work).await.map_err(io::Error::other);
        let done = done.and_then(|done| done);
        done.map_err(|error| self.cannot(what, name, &error.to_string()))
    }

    fn cannot(&self, what: &str, name: &str, cause: &str) -> ArrayError {
        let cause = format!("cannot {what} {name}: {cause}");
        ArrayError::Objects { server: self.server.to_string(), cause }
    }

    /// An error of the store, said by what to look at.
    fn failed(&self, what: &str, name: &str, error: &object_store::Error) -> ArrayError {
        use object_store::Error;
        let server = self.server.to_string();
        let said = said_by(error);
        let cause = format!("cannot {what} {name}: {said}");
        match error {
            Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => {
                ArrayError::ObjectsLogin { server, cause }
            }
            Error::NotFound { .. } if said.contains("NoSuchBucket") => {
                ArrayError::NoBucket { server, cause: said }
            }
            _ => ArrayError::Objects { server, cause },
        }
    }
}

fn is_gone(error: &object_store::Error) -> bool {
    matches!(error, object_store::Error::NotFound { .. })
        && !said_by(error).contains("NoSuchBucket")
}

/// What went wrong, in one line: a server's code and message, or the last cause.
fn said_by(error: &object_store::Error) -> String {
    let text = error.to_string();
    let between = |open: &str, close: &str| {
        let (_, rest) = text.split_once(open)?;
        rest.split_once(close).map(|(inside, _)| inside.trim())
    };
    let shown = match (between("<Code>", "</Code>"), between("<Message>", "</Message>")) {
        (Some(code), Some(message)) => format!("{code}: {message}"),
        (Some(code), None) => code.to_owned(),
        _ => {
            let mut last: &dyn std::error::Error = error;
            while let Some(cause) = last.source() {
                last = cause;
            }
            last.to_string()
        }
    };
    let line = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    line.chars().take(SAID_MAX).collect()
}

fn s3(bucket: &Bucket, tls: &DatabaseTls, options: ObjectsOptions) -> Result<AmazonS3, ArrayError> {
    let no_roots = "tls=verify-full needs trusted roots (sender.roots); or say tls=require";
    let config = match bucket.tls {
        ObjectsTls::Off => None,
        ObjectsTls::Require => Some(tls.any.clone()),
        ObjectsTls::VerifyFull => {
            let roots = || ArrayError::ObjectsAddress(no_roots.to_owned());
            Some(tls.verified.clone().ok_or_else(roots)?)
        }
    };
    let scheme = if config.is_some() { "https" } else { "http" };
    let limits = HttpLimits { connect_max: options.connect_max, request_max: options.request_max };
    let retry = RetryConfig {
        backoff: BackoffConfig {
            init_backoff: Duration::from_millis(100),
            max_backoff: Duration::from_secs(5),
            base: 2.0,
        },
        max_retries: options.retries_max,
        retry_timeout: options.retries_end,
    };
    AmazonS3Builder::new()
        .with_endpoint(format!("{scheme}://{}:{}", bucket.host, bucket.port))
        .with_allow_http(true)
        .with_bucket_name(&bucket.bucket)
        .with_region(&bucket.region)
        .with_access_key_id(&bucket.key)
        .with_secret_access_key(&bucket.secret)
        .with_retry(retry)
        .with_http_connector(Http::new(&bucket.host, bucket.port, config, limits))
        .build()
        .map_err(|error| ArrayError::ObjectsAddress(said_by(&error)))
}

/// Writes a file so that its name never has a part of it, and durably.
fn write_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().unwrap_or(path);
    fs::create_dir_all(folder)?;
    let random: [u8; 8] = random::array()?;
    let temporary = folder.join(format!(".{:016x}", u64::from_le_bytes(random)));
    let written = fs::File::create_new(&temporary)
        .and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all()))
        .and_then(|()| fs::rename(&temporary, path))
        .and_then(|()| fs::File::open(folder)?.sync_all());
    if written.is_err() {
        let _best_effort = fs::remove_file(&temporary);
    }
    written
}

fn read_file(path: &Path, offset: u64, bytes: u64) -> io::Result<Vec<u8>> {
    let file = fs::File::open(path)?;
    let length = file.metadata()?.len();
    if offset.checked_add(bytes).is_none_or(|end| end > length) {
        return Err(io::Error::other("the object is shorter than the index says"));
    }
    let mut read = vec![0; usize::try_from(bytes).unwrap_or(usize::MAX)];
    file.read_exact_at(&mut read, offset)?;
    Ok(read)
}

/// Paths and bytes of the files of a folder and of those in it; none of one that is not there.
/// Those that are being written are left out.
fn list_folder(folder: &Path) -> io::Result<BTreeMap<String, u64>> {
    let (mut found, mut folders) = (BTreeMap::new(), vec![folder.to_owned()]);
    while let Some(next) = folders.pop() {
        let entries = match fs::read_dir(&next) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            let (path, kind) = (entry.path(), entry.file_type()?);
            let name = path.strip_prefix(folder).map(|name| name.to_string_lossy().into_owned());
            match name {
                _ if kind.is_dir() => folders.push(path),
                Ok(name) if kind.is_file() && !entry.file_name().as_bytes().starts_with(b".") => {
                    found.insert(name, entry.metadata()?.len());
                }
                _ => {}
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_folder_is_an_object_store() {
        let folder = tempfile::tempdir().unwrap();
        let uri = format!("file://{}", folder.path().display());
        let address = ObjectsAddress::parse(&uri).unwrap();
        let Place::Folder(path) = address.place else { panic!() };
        let kind = Kind::Folder(path);
        let objects = Objects { server: "here".into(), prefix: String::new(), kind };
        objects.put("a/b/c", bytes::Bytes::from_static(b"0123456789")).await.unwrap();
        objects.put("a/b/c", bytes::Bytes::from_static(b"9876543210")).await.unwrap();
        let read = objects.get("a/b/c", 2, 3).await.unwrap();
        assert_eq!(read.as_deref(), Some(&b"765"[..]));
        assert_eq!(objects.get("a/b/d", 2, 3).await.unwrap(), None);
        let error = objects.get("a/b/c", 8, 3).await.unwrap_err().to_string();
        assert!(error.contains("cannot read a/b/c") && error.contains("shorter"), "{error}");
        let mut out = Vec::new();
        let read = objects.fetch("a/b/c", None, 10, &mut out).await.unwrap();
        assert_eq!((read, &out[..]), (Fetched::Whole(None), &b"9876543210"[..]));
        assert_eq!(objects.fetch("a/b/d", None, 10, &mut out).await.unwrap(), Fetched::Gone);
        let error = objects.fetch("a/b/c", None, 9, &mut Vec::new()).await.unwrap_err();
        assert!(error.to_string().contains("over 9 bytes"), "{error}");
        let listed = objects.list("a").await.unwrap();
        assert_eq!(listed, BTreeMap::from([("b/c".to_owned(), 10)]));
        assert!(objects.list("a/b/d").await.unwrap().is_empty());
        objects.delete("a/b/c").await.unwrap();
        objects.delete("a/b/c").await.unwrap();
        assert_eq!(objects.get("a/b/c", 0, 1).await.unwrap(), None);
    }
}
