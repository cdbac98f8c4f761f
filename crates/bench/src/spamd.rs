//! A private `spamd` beside the engine, for the CPU time of the same messages in the same run.
//!
//! It listens on a free loopback port with one child, local tests alone, without Bayes and without
//! users' preferences, and is ended with the value. CPU time is what the system counts for the
//! process and all its children (Linux: `/proc`), in steps of 10 ms, so that a pass should take
//! seconds.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, bail};
use serde::Serialize;

use crate::compare::peers::{self, SpamdRules};
use crate::compare::server::Server;
use crate::process::ResourceUsage;

/// Longest wait for one message.
const WAIT_MAX: Duration = Duration::from_secs(120);
/// Messages that it checks before anything is counted: the first ones make it compile its rules.
const WARM_MESSAGES: usize = 20;

/// A spamd that was started for the measurement, and ends with the value.
#[derive(Debug)]
pub struct Spamd {
    server: Server,
}

/// What a message cost spamd, beside us.
#[derive(Debug, Clone, Serialize)]
pub struct SpamdReport {
    /// What it says that it is.
    pub version: String,
    /// Messages that it checked, those that warmed it not counted.
    pub messages: usize,
    /// CPU time of it and its children for each message, in microseconds.
    pub cpu_us_per_message: f64,
    /// How many times more than the engine beside it.
    pub times_the_engine: f64,
}

impl Spamd {
    /// Starts it and waits until it answers. Fails if there is no `spamd` on the path, or if it
    /// does not listen in two minutes.
    pub fn start(rules: &SpamdRules) -> anyhow::Result<Self> {
        Ok(Spamd { server: peers::spamd(1, rules)? })
    }

    /// Checks messages that are not counted.
    pub fn warm(&self, messages: &[Vec<u8>]) -> anyhow::Result<()> {
        messages.iter().take(WARM_MESSAGES).try_for_each(|message| self.check(message))
    }

    /// Checks every second message from `first` on; how many, and the CPU seconds that took.
    pub fn check_half(&self, messages: &[Vec<u8>], first: usize) -> anyhow::Result<(usize, f64)> {
        let before = self.cpu_seconds()?;
        let mut count = 0;
        for message in messages.iter().skip(first).step_by(2) {
            self.check(message)?;
            count += 1;
        }
        Ok((count, self.cpu_seconds()? - before))
    }

    fn check(&self, message: &[u8]) -> anyhow::Result<()> {
        let head = format!("CHECK SPAMC/1.5\r\nContent-length: {}\r\n\r\n", message.len());
        let answer = self.exchange(head.as_bytes(), message)?;
        if !answer.starts_with(b"SPAMD/") || !answer.windows(5).any(|w| w == b"Spam:") {
            bail!("spamd answers {:?}", String::from_utf8_lossy(&answer));
        }
        Ok(())
    }

    fn exchange(&self, head: &[u8], body: &[u8]) -> anyhow::Result<Vec<u8>> {
        let mut stream = TcpStream::connect(self.server.address)?;
        stream.set_read_timeout(Some(WAIT_MAX))?;
        stream.write_all(head)?;
        stream.write_all(body)?;
        stream.shutdown(std::net::Shutdown::Write)?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        if answer.is_empty() {
            bail!("spamd closed the connection");
        }
        Ok(answer)
    }

    /// Its version, as `spamd --version` says in its first line.
    pub fn version(&self) -> &str {
        &self.server.version
    }

    fn cpu_seconds(&self) -> anyhow::Result<f64> {
        let used =
            ResourceUsage::of(self.server.process).context("spamd ended, or there is no /proc")?;
        Ok(used.cpu_seconds)
    }
}
