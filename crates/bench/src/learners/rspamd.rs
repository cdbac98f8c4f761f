//! rspamd with its Bayes in a Redis of its own, its neural module on or off.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use serde::Deserialize;

use super::{Learner, Opinion, exchange};
use crate::compare::peers::{RspamdSettings, rspamd_with};
use crate::compare::server::{Server, Start, folder, free_address, program, version};
use crate::protocol::Protocol;

/// Longest wait for the controller.
const START_MAX: Duration = Duration::from_secs(60);

/// Whether rspamd's neural module runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Neural {
    /// The module is switched off.
    Off,
    /// It trains itself, and on what it is told.
    On,
}

/// A rspamd that learns.
#[derive(Debug)]
pub struct Rspamd {
    server: Server,
    controller: std::net::SocketAddr,
    neural: Neural,
    // Behind the server, so that it ends after it.
    redis: Server,
}

impl Rspamd {
    /// Starts Redis and rspamd.
    ///
    /// # Errors
    /// One of them is not installed or does not start.
    pub fn start(neural: Neural) -> anyhow::Result<Self> {
        let redis = redis()?;
        let controller = free_address()?;
        let settings = RspamdSettings {
            path: None,
            workers: 1,
            redis: Some(redis.address),
            neural: neural == Neural::On,
            controller,
        };
        let server = rspamd_with(&settings)?;
        wait_for(controller)?;
        Ok(Rspamd { server, controller, neural, redis })
    }
}

/// The controller may listen a moment after the worker that judges.
fn wait_for(address: std::net::SocketAddr) -> anyhow::Result<()> {
    let begin = Instant::now();
    while std::net::TcpStream::connect(address).is_err() {
        if begin.elapsed() > START_MAX {
            bail!("rspamd's controller does not listen on {address}");
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

/// Redis on loopback that keeps nothing on disk.
fn redis() -> anyhow::Result<Server> {
    let (program, folder, address) =
        (program("redis-server", "redis-server")?, folder()?, free_address()?);
    let mut command = Command::new(&program);
    command
        .args(["--bind", "127.0.0.1", "--port", &address.port().to_string()])
        .args(["--save", "", "--appendonly", "no", "--dir"])
        .arg(folder.path());
    let version = version(&program, "--version");
    let (name, protocol) = ("redis-server".to_owned(), Some(Protocol::Rspamd));
    let start = Start { name, version, notes: Vec::new(), protocol, address, folder };
    Server::foreground(start, command)
}

fn post(path: &str, raw: &[u8]) -> String {
    format!("POST {path} HTTP/1.0\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", raw.len())
}

/// Body of an answer with status 200.
fn body(answer: &[u8]) -> anyhow::Result<&[u8]> {
    let end = memchr::memmem::find(answer, b"\r\n\r\n").context("rspamd answers nothing")?;
    let (head, body) = answer.split_at(end);
    let status = String::from_utf8_lossy(head.get(..15).unwrap_or(head)).into_owned();
    // 208: it knows the message already; 204: the message has too few words to be learned.
    if ![" 200", " 208", " 204"].iter().any(|taken| status.contains(taken)) {
        bail!("rspamd answers {status:?}: {}", String::from_utf8_lossy(body).trim());
    }
    Ok(body.get(4..).unwrap_or_default())
}

impl Learner for Rspamd {
    fn name(&self) -> String {
        match self.neural {
            Neural::Off => "rspamd".to_owned(),
            Neural::On => "rspamd, neural".to_owned(),
        }
    }

    fn about(&self) -> String {
        let neural = if self.neural == Neural::On { "on" } else { "off" };
        format!(
            "{}, no network, Bayes in {}, neural {neural}",
            self.server.version, self.redis.version
        )
    }

    fn judge(&mut self, raw: &[u8]) -> anyhow::Result<Opinion> {
        let answer = exchange(self.server.address, &post("/checkv2", raw), raw)?;
        opinion(body(&answer)?)
    }

    fn teach(&mut self, raw: &[u8], spam: bool) -> anyhow::Result<()> {
        let path = if spam { "/learnspam" } else { "/learnham" };
        let answer = exchange(self.controller, &post(path, raw), raw)?;
        body(&answer).map(|_| ())
    }
}

fn opinion(body: &[u8]) -> anyhow::Result<Opinion> {
    #[derive(Deserialize)]
    struct Answer {
        action: String,
        score: f64,
    }
    let said: Answer = serde_json::from_slice(body).context("rspamd's answer")?;
    let spam = matches!(said.action.as_str(), "add header" | "rewrite subject" | "reject");
    Ok(Opinion { spam, suspect: spam || said.action == "greylist", score: said.score })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_it_says() {
        let of = |text: &str| opinion(text.as_bytes()).map(|o| (o.spam, o.suspect, o.score)).ok();
        let said = of(r#"{"action":"add header","score":7.5,"symbols":{}}"#);
        assert_eq!(said, Some((true, true, 7.5)));
        assert_eq!(of(r#"{"action":"greylist","score":4.5}"#), Some((false, true, 4.5)));
        assert_eq!(of("{}"), None);
        assert_eq!(body(b"HTTP/1.0 200 OK\r\n\r\n{}").unwrap(), b"{}");
        assert!(body(b"HTTP/1.1 204 too few tokens\r\n\r\n{}").is_ok());
        assert!(body(b"HTTP/1.0 403 no\r\n\r\n").is_err());
    }
}
