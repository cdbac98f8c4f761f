//! A private `spamd` beside the engine, for the CPU time of the same messages in the same run.
//!
//! It listens on a free loopback port with one child, local tests alone, without Bayes and without users'
//! preferences, and is ended with the value. CPU time is what the system counts for the process and all
//! its children (Linux: `/proc`), in steps of 10 ms, so that a pass should take seconds.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use serde::Serialize;

use crate::process::{Used, family};

/// Longest wait for spamd to read its rules, and for one message.
const WAIT_MAX: Duration = Duration::from_secs(120);
/// Messages that it checks before anything is counted: the first ones make it compile its rules.
const WARM_MESSAGES: usize = 20;

/// Which rules spamd reads.
#[derive(Debug, Clone, Default)]
pub struct SpamdRules {
    /// Its `--configpath`; none is its own.
    pub rules: Option<PathBuf>,
    /// Its `--siteconfigpath`; none is its own.
    pub site: Option<PathBuf>,
}

/// A running spamd.
#[derive(Debug)]
pub struct Spamd {
    child: Child,
    port: u16,
    _folder: tempfile::TempDir,
}

/// What spamd cost.
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
    /// Starts it and waits until it answers. Fails if there is no `spamd` on the path, or if it does
    /// not answer in two minutes.
    pub fn start(rules: &SpamdRules) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir().context("cannot make a folder for spamd")?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no free port")?;
        let port = listener.local_addr()?.port();
        drop(listener);
        let mut command = Command::new("spamd");
        command
            .args(["-L", "-x", "-m", "1", "--min-children=1", "--max-conn-per-child=1000000"])
            .args(["-i", "127.0.0.1", "-p", &port.to_string(), "--cf=use_bayes 0"])
            .arg(format!("--syslog={}", folder.path().join("log").display()))
            .arg(format!("--pidfile={}", folder.path().join("pid").display()))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        if let Some(rules) = &rules.rules {
            command.arg(format!("--configpath={}", rules.display()));
        }
        if let Some(site) = &rules.site {
            command.arg(format!("--siteconfigpath={}", site.display()));
        }
        let child = command.spawn().context("cannot start spamd (Debian: package spamassassin)")?;
        let mut spamd = Spamd { child, port, _folder: folder };
        let start = Instant::now();
        while spamd.exchange(b"PING SPAMC/1.5\r\n\r\n", &[]).is_err() {
            if let Some(status) = spamd.child.try_wait()? {
                bail!("spamd ended before it answered: {status}");
            }
            if start.elapsed() > WAIT_MAX {
                bail!("spamd does not answer on port {port}");
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok(spamd)
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
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port))?;
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
    pub fn version() -> String {
        let output = Command::new("spamd").arg("--version").output();
        let text = output.map(|o| String::from_utf8_lossy(&o.stdout).into_owned());
        text.unwrap_or_default().lines().next().unwrap_or("spamd").trim().to_owned()
    }

    fn cpu_seconds(&self) -> anyhow::Result<f64> {
        let used = Used::of(self.child.id()).context("spamd ended, or there is no /proc")?;
        Ok(used.cpu_seconds)
    }
}

impl Drop for Spamd {
    fn drop(&mut self) {
        let family = family(self.child.id());
        for process in family.iter().rev() {
            if let Ok(process) = libc::pid_t::try_from(*process) {
                // SAFETY: kill only sends a signal; the numbers are of processes that this value
                // started, whose parent was alive and had not been waited for a moment ago.
                unsafe { libc::kill(process, libc::SIGKILL) };
            }
        }
        // It is dead or cannot be killed; there is nobody to tell.
        let _ = self.child.wait();
    }
}
