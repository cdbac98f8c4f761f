//! Requests that programs read in different ways.
//!
//! `smuggling/NAME.http` is what a client sends, byte by byte; `NAME.expected` is what it gets (the
//! first lines of the answers) and what the server gets. `ORIGIN` stands for the server's address.
//! `GAUNTLET_BLESS=1` writes the expected files anew: read the difference before you commit it.

use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::common::{PATIENCE, Proxy, settings, until};

/// What a server got, in the order of its connections; none of one that is still open.
type Seen = Arc<Mutex<Vec<Option<String>>>>;

/// A server that reads as little as it can into what it gets, and keeps all of it.
async fn record(mut stream: TcpStream, place: usize, seen: Seen) {
    let mut bytes = Vec::new();
    let mut at = 0;
    loop {
        let text = String::from_utf8_lossy(&bytes[at..]).to_lowercase();
        if let Some(header) = text.find("\r\n\r\n") {
            let body = &text[header + 4..];
            let length = text[..header].lines().find_map(|l| l.strip_prefix("content-length: "));
            let length: usize = length.map_or(0, |n| n.parse().unwrap());
            let is_chunked = text[..header].contains("transfer-encoding: chunked");
            let is_whole = if is_chunked { body.ends_with("0\r\n\r\n") } else { true };
            if body.len() >= length && is_whole {
                at = bytes.len();
                let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
                let _ = stream.write_all(answer).await;
            }
        }
        let mut buffer = [0; 4096];
        match stream.read(&mut buffer).await {
            Ok(n @ 1..) => bytes.extend_from_slice(&buffer[..n]),
            _ => break,
        }
    }
    seen.lock().unwrap()[place] = Some(String::from_utf8_lossy(&bytes).into_owned());
}

/// What comes of a request: what the client gets, and what the server got.
async fn run(request: &[u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let seen = Seen::default();
    let all = Arc::clone(&seen);
    let recording = tokio::spawn(async move {
        let mut connections = tokio::task::JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            let place = {
                let mut all = all.lock().unwrap();
                all.push(None);
                all.len() - 1
            };
            connections.spawn(record(stream, place, Arc::clone(&all)));
        }
    });
    let mut proxy = Proxy::start(settings()).await;
    let mut stream = proxy.connect().await;
    let request = replace(request, b"ORIGIN", address.as_bytes());
    stream.write_all(&request).await.unwrap();
    // A request that never ends is not answered: waiting longer would not change that.
    let mut answer = Vec::new();
    let reading = async {
        let mut buffer = [0; 4096];
        while let Ok(n @ 1..) = stream.read(&mut buffer).await {
            answer.extend_from_slice(&buffer[..n]);
            if String::from_utf8_lossy(&answer).matches("HTTP/1.1 ").count() >= 3 {
                break;
            }
        }
    };
    let _ = tokio::time::timeout(std::time::Duration::from_secs(2), reading).await;
    drop(stream);
    let stopped = proxy.stop();
    tokio::time::timeout(PATIENCE, stopped).await.unwrap().unwrap();
    drop(proxy);
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let mut said = String::from("client:\n");
    for line in answer.lines().filter(|l| l.contains("HTTP/1.1 ")) {
        said.push_str(&format!("  {line}\n"));
    }
    // The proxy is gone, and so are its connections.
    let all = until(|| seen.lock().unwrap().iter().cloned().collect::<Option<Vec<_>>>()).await;
    recording.abort();
    said.push_str("server:\n");
    for line in all.concat().lines() {
        said.push_str(&format!("  {}\n", line.replace(&address, "ORIGIN").escape_debug()));
    }
    said
}

fn replace(bytes: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at..].starts_with(from) {
            out.extend_from_slice(to);
            at += from.len();
        } else {
            out.push(bytes[at]);
            at += 1;
        }
    }
    out
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_case_is_read_in_one_way() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/smuggling");
    let mut cases: Vec<_> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "http"))
        .collect();
    cases.sort();
    assert!(cases.len() > 15, "the walk finds the cases");
    let runs = cases.iter().map(|path| async move { run(&fs::read(path).unwrap()).await });
    let mut faults = Vec::new();
    for (path, said) in cases.iter().zip(futures_util::future::join_all(runs).await) {
        let expected = path.with_extension("expected");
        if std::env::var_os("GAUNTLET_BLESS").is_some() {
            fs::write(&expected, &said).unwrap();
        } else if fs::read_to_string(&expected).unwrap_or_default() != said {
            faults.push(format!("{}:\n{said}", path.display()));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
