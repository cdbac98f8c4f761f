//! Content behind a real server: nginx with gzip and brotli, chunked pages, large files.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use futures_util::future::BoxFuture;
use gauntlet_proxy::content::{ContentSettings, Download, ScanDownload, ScanVerdict};

use crate::common::{program, until};
use crate::content::{WORDS, phrases, proxy};

struct Nginx(Child, u16);

impl Drop for Nginx {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

const BROTLI: &str = "/usr/lib/nginx/modules/ngx_http_brotli_filter_module.so";

/// Serves the folder `www`, with these lines in the configuration of HTTP.
async fn nginx(folder: &Path, brotli: bool) -> Option<Nginx> {
    let nginx = program("nginx")?;
    let root = folder.display();
    let port = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap().port()
    };
    let (module, on) = match brotli {
        true => (format!("load_module {BROTLI};\n"), "brotli on; brotli_min_length 1;"),
        false => (String::new(), "gzip on; gzip_min_length 1; gzip_proxied any; ssi on;"),
    };
    let config = format!(
        "{module}daemon off; master_process off; pid {root}/pid; error_log stderr;\n\
         events {{}}\n\
         http {{ access_log off; {on}\n\
         types {{ text/html html; application/zip zip; }}\n\
         client_body_temp_path {root}/t1; proxy_temp_path {root}/t2;\n\
         fastcgi_temp_path {root}/t3; uwsgi_temp_path {root}/t4; scgi_temp_path {root}/t5;\n\
         server {{ listen 127.0.0.1:{port}; root {root}/www; }} }}\n"
    );
    std::fs::write(folder.join("nginx.conf"), config).unwrap();
    let child = Command::new(nginx)
        .arg("-p")
        .arg(folder)
        .arg("-c")
        .arg(folder.join("nginx.conf"))
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let nginx = Nginx(child, port);
    until(|| std::net::TcpStream::connect(("127.0.0.1", port)).ok()).await;
    Some(nginx)
}

/// A page of about so many bytes, with these words in its middle.
fn page(words: &str, bytes: usize) -> String {
    let filler = "<p>Nothing of interest is written on this line, number by number.</p>\n";
    let half = filler.repeat(bytes / filler.len() / 2);
    format!("<!doctype html><title>t</title>{half}<p>{words}</p>{half}")
}

fn write(folder: &Path) {
    let www = folder.join("www");
    std::fs::create_dir_all(&www).unwrap();
    std::fs::write(www.join("good.html"), page("a casino", 200_000)).unwrap();
    std::fs::write(www.join("bad.html"), page("a <i>casino</i> and poker", 200_000)).unwrap();
    std::fs::write(www.join("inner.txt"), "poker").unwrap();
    // A page that is made while it is sent has no length: it comes in chunks.
    let made = "<html>a casino <!--#include virtual=\"/inner.txt\" --></html>";
    std::fs::write(www.join("made.html"), made).unwrap();
}

async fn codes(proxy: &crate::common::Proxy, port: u16, names: &[&str]) -> Vec<String> {
    let mut codes = Vec::new();
    for name in names {
        let url = format!("http://127.0.0.1:{port}/{name}");
        let ask = ["--compressed", "-o", "/dev/null", "-w", "%{http_code}", &url];
        codes.push(proxy.curl(&ask).await.unwrap().text);
    }
    codes
}

#[tokio::test]
async fn pages_in_gzip_and_in_chunks() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path());
    if program("curl").is_none() {
        return;
    }
    let Some(nginx) = nginx(folder.path(), false).await else { return };
    let proxy = proxy(ContentSettings::default(), phrases(WORDS), None).await;
    let names = ["good.html", "bad.html", "made.html"];
    assert_eq!(codes(&proxy, nginx.1, &names).await, ["200", "403", "403"]);
    let url = format!("http://127.0.0.1:{}/good.html", nginx.1);
    let out = proxy.curl(&["-i", "--compressed", &url]).await.unwrap();
    assert!(out.text.to_ascii_lowercase().contains("content-encoding: gzip"), "{}", out.text);
    assert!(out.text.ends_with(&page("a casino", 200_000)));
}

#[tokio::test]
async fn pages_in_brotli() {
    if !Path::new(BROTLI).is_file() {
        assert!(std::env::var_os("CI").is_none(), "nginx's brotli module is missing");
        eprintln!("SKIPPED: nginx's brotli module is not installed");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    write(folder.path());
    if program("curl").is_none() {
        return;
    }
    let Some(nginx) = nginx(folder.path(), true).await else { return };
    let proxy = proxy(ContentSettings::default(), phrases(WORDS), None).await;
    for (name, code) in [("good.html", "200"), ("bad.html", "403")] {
        let url = format!("http://127.0.0.1:{}/{name}", nginx.1);
        let ask = ["-H", "Accept-Encoding: br", "-D", "-", "-o", "/dev/null"];
        let out = proxy.curl(&[&ask[..], &[&url]].concat()).await.unwrap();
        assert!(out.text.contains(code), "{name}: {}", out.text);
        let is_brotli = out.text.to_ascii_lowercase().contains("content-encoding: br");
        assert_eq!(is_brotli, code == "200", "{name}: {}", out.text);
    }
}

/// Finds what has this text in it.
struct Search(&'static [u8]);

impl ScanDownload for Search {
    fn scan(&self, download: Download) -> BoxFuture<'static, ScanVerdict> {
        let word = self.0;
        Box::pin(async move {
            let found = download.bytes.windows(word.len()).any(|w| w == word);
            match found {
                true => ScanVerdict::Found { name: download.name },
                false => ScanVerdict::Clean,
            }
        })
    }
}

#[tokio::test]
async fn large_downloads() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path());
    let www = folder.path().join("www");
    let mut archive = b"PK\x03\x04".to_vec();
    archive.resize(10 << 20, b'x');
    std::fs::write(www.join("good.zip"), &archive).unwrap();
    archive.extend_from_slice(b"this is malware");
    std::fs::write(www.join("bad.zip"), &archive).unwrap();
    archive.resize(40 << 20, b'x');
    std::fs::write(www.join("huge.zip"), &archive).unwrap();
    if program("curl").is_none() {
        return;
    }
    let Some(nginx) = nginx(folder.path(), false).await else { return };
    let scanner: Arc<dyn ScanDownload> = Arc::new(Search(b"this is malware"));
    let proxy = proxy(ContentSettings::default(), None, Some(scanner)).await;
    let names = ["good.zip", "bad.zip", "huge.zip"];
    assert_eq!(codes(&proxy, nginx.1, &names).await, ["200", "403", "200"]);
    let bad = until(|| proxy.log.at(1)).await;
    assert_eq!(bad.rule.as_deref(), Some("content: scan: bad.zip"));
    let huge = until(|| proxy.log.at(2)).await;
    assert_eq!((huge.bytes_out, huge.status), (40 << 20, 200));
    assert!(huge.notes.contains(&"not judged whole: scan_bytes_max".to_owned()), "{huge:?}");
    // A resumed download begins anew, and is scanned whole.
    let url = format!("http://127.0.0.1:{}/bad.zip", nginx.1);
    let half = ["-r", "5000000-", "-o", "/dev/null", "-w", "%{http_code}", &url];
    assert_eq!(proxy.curl(&half).await.unwrap().text, "403");
}
