//! Filters that are taught while they judge: other filters, each with its own learning, started
//! privately on loopback in a temporary folder and ended with the value.

mod bogofilter;
mod rspamd;
mod spamassassin;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::Context;
use serde::Serialize;

pub use bogofilter::Bogofilter;
pub use rspamd::{Neural, Rspamd};
pub use spamassassin::{BAYES_MIN, SpamAssassin};

/// Longest wait for an answer.
const ANSWER_MAX: Duration = Duration::from_secs(120);
/// Longest answer that is read.
const ANSWER_BYTES_MAX: u64 = 4 << 20;

/// What a filter says of a message.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Opinion {
    /// It calls it spam.
    pub spam: bool,
    /// It calls it perhaps spam, or worse.
    pub suspect: bool,
    /// How much it looks like spam, in the filter's own unit: only the order counts.
    pub score: f64,
}

/// A filter that judges messages and may be told what they are.
pub trait Learner {
    /// Its name in tables.
    fn name(&self) -> String;
    /// What it says that it is, and how it was set up.
    fn about(&self) -> String;
    /// Judges a message.
    ///
    /// # Errors
    /// If it does not answer.
    fn judge(&mut self, raw: &[u8]) -> anyhow::Result<Opinion>;
    /// Tells it what the message is.
    ///
    /// # Errors
    /// If it does not take it.
    fn teach(&mut self, raw: &[u8], spam: bool) -> anyhow::Result<()>;
}

/// Sends a request over a connection of its own; the answer up to its end.
fn exchange(address: SocketAddr, head: &str, body: &[u8]) -> anyhow::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(address).with_context(|| format!("no {address}"))?;
    stream.set_read_timeout(Some(ANSWER_MAX))?;
    stream.write_all(head.as_bytes())?;
    stream.write_all(body)?;
    let mut answer = Vec::new();
    stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer)?;
    Ok(answer)
}
