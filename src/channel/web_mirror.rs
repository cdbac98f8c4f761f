//! A channel's mirror as its address says: a web server, or a folder.

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail};
use gauntlet_channel::pull::{Answer, FolderMirror, Mirror};
use gauntlet_gateway::net::download::{self, Patience, Validators};
use gauntlet_gateway::net::tls::HopTls;
use gauntlet_gateway::net::web::hop_tls;

/// A server that is silent for so long, or sends less than this, is given up.
const PATIENCE: Patience = Patience { step: Duration::from_secs(20), bytes_per_second_min: 1_000 };

/// The mirror of an address: `https://`, `http://`, `file://`, or a folder. `roots` are the
/// authorities that servers are verified by; none are the system's.
///
/// # Errors
/// If it is none of them.
pub(crate) fn of(url: &str, roots: &Path) -> anyhow::Result<Box<dyn Mirror>> {
    if let Some(folder) = url.strip_prefix("file://") {
        return Ok(Box::new(FolderMirror::new(Path::new(folder))));
    }
    if url.starts_with("https://") || url.starts_with("http://") {
        return Ok(Box::new(WebMirror::new(url, roots, PATIENCE)?));
    }
    if url.contains("://") || !Path::new(url).is_dir() {
        bail!("{url}: neither https://, http:// or file://, nor a folder");
    }
    Ok(Box::new(FolderMirror::new(Path::new(url))))
}

/// A web server. It is asked on the thread of the caller, which waits.
pub(crate) struct WebMirror {
    base: String,
    tls: HopTls,
    patience: Patience,
    runtime: tokio::runtime::Runtime,
}

impl WebMirror {
    pub(crate) fn new(url: &str, roots: &Path, patience: Patience) -> anyhow::Result<Self> {
        download::address(url)?;
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().build().context("a runtime for channels")?;
        let base = url.trim_end_matches('/').to_owned();
        Ok(WebMirror { base, tls: hop_tls(roots)?, patience, runtime })
    }

    async fn ask(
        &self,
        name: &str,
        bytes_max: u64,
        etag: Option<&str>,
        out: &mut (dyn Write + Send),
    ) -> anyhow::Result<Answer> {
        let url = download::address(&format!("{}/{name}", self.base))?;
        let known = Validators { etag: etag.map(str::to_owned), last_modified: None };
        match download::get(&url, &self.tls, &known, self.patience).await? {
            download::Answer::Same => Ok(Answer::Same),
            download::Answer::Missing => Ok(Answer::Missing),
            download::Answer::Body(body) => {
                let etag = body.validators.etag.clone();
                body.copy(bytes_max, out).await?;
                Ok(Answer::Whole(etag))
            }
        }
    }
}

impl Mirror for WebMirror {
    fn fetch(
        &mut self,
        name: &str,
        bytes_max: u64,
        etag: Option<&str>,
        out: &mut (dyn Write + Send),
    ) -> Result<Answer, String> {
        let asked = self.runtime.block_on(self.ask(name, bytes_max, etag, out));
        asked.map_err(|error| format!("{error:#}"))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::TcpListener;

    use super::*;

    /// What a mirror says whose server answers so, a piece every few milliseconds.
    fn fetched(pieces: &'static [&'static str], last_again: bool) -> Result<Answer, String> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/main/", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let _asked = stream.read(&mut [0; 4096]);
            for piece in pieces {
                stream.write_all(piece.as_bytes()).unwrap();
            }
            // Until the client has had enough.
            while !last_again || stream.write_all(b" ").is_ok() {
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let patience = Patience { step: Duration::from_millis(300), bytes_per_second_min: 1_000 };
        let mut mirror = WebMirror::new(&url, Path::new(""), patience).unwrap();
        mirror.fetch("timestamp.json", 16_384, None, &mut Vec::new())
    }

    #[test]
    fn servers_that_stall_are_given_up() {
        const HEAD: &str = "HTTP/1.1 200 OK\r\nContent-Length: 9000\r\n\r\n";
        let error = fetched(&[], false).unwrap_err();
        assert!(error.contains("no answer"), "{error}");
        let error = fetched(&[HEAD, "{"], false).unwrap_err();
        assert!(error.contains("no answer"), "{error}");
        let error = fetched(&[HEAD], true).unwrap_err();
        assert!(error.contains("too slow"), "{error}");
    }

    #[test]
    fn a_tag_is_kept_and_addresses_that_are_none_are_refused() {
        let whole =
            fetched(&["HTTP/1.1 200 OK\r\nETag: \"x\"\r\nContent-Length: 2\r\n\r\n{}"], false);
        assert_eq!(whole, Ok(Answer::Whole(Some("\"x\"".to_owned()))));
        for bad in ["ftp://a.example/", "https://", "/no/such/folder", "file"] {
            assert!(of(bad, Path::new("")).is_err(), "{bad}");
        }
        assert!(of("file:///tmp", Path::new("")).is_ok());
    }
}
