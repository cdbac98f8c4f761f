//! Connections that are open and ask for nothing: what each costs the proxy, and how soon others
//! are answered beside them.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::histogram::latency_histogram;
use crate::http::ask::Ask;
use crate::load::Latency;
use crate::process::ResourceUsage;

/// New connections that are made beside the held ones.
const NEW: usize = 200;
/// Connections that fail before no more are tried.
const FAILED_MAX: usize = 20;
/// Bytes of an answer's head and body that are read.
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// What was held, and at what cost.
#[derive(Debug, Clone, Serialize)]
pub struct Held {
    /// Connections that were asked for.
    pub wanted: usize,
    /// Connections over which one request was answered, and that were open at the end.
    pub open: usize,
    /// Errors of those that are not, the first of them.
    pub first_error: Option<String>,
    /// Memory of the proxy before, in bytes, its children's included.
    pub memory_before: Option<u64>,
    /// Memory of the proxy with them.
    pub memory_held: Option<u64>,
    /// Bytes of memory for each.
    pub bytes_per_connection: Option<f64>,
    /// From connecting to the last byte of the answer, of new connections meanwhile.
    pub new_answer: Latency,
    /// Why the figures are not the proxy's.
    pub invalid: Vec<String>,
}

/// Opens so many connections, asks once over each, and holds them.
///
/// # Errors
/// If latencies cannot be counted.
pub fn measure(
    address: SocketAddr,
    process: Option<u32>,
    asks: &Arc<[Ask]>,
    wanted: usize,
    timeout: Duration,
) -> anyhow::Result<Held> {
    let used = || process.and_then(ResourceUsage::of).map(|used| used.memory_bytes);
    let ask = |number: usize| -> std::io::Result<TcpStream> {
        let mut request = Vec::new();
        if let Some(ask) = asks.get(number % asks.len().max(1)) {
            ask.write(number as u64, &mut request);
        }
        let mut stream = TcpStream::connect_timeout(&address, timeout)?;
        stream.set_read_timeout(Some(timeout))?;
        stream.write_all(&request)?;
        read_answer(&mut stream)?;
        Ok(stream)
    };
    // What the first requests of all make is not theirs.
    for number in 0..NEW {
        let _ = ask(number);
    }
    let memory_before = used();
    let (mut held, mut first_error, mut failed) = (Vec::new(), None::<std::io::Error>, 0);
    while held.len() < wanted && failed < FAILED_MAX {
        match ask(held.len()) {
            Ok(stream) => {
                held.push(stream);
                failed = 0;
            }
            Err(error) => {
                failed += 1;
                first_error.get_or_insert(error);
            }
        }
    }
    let memory_held = used();
    let (mut latency, mut failed) = (latency_histogram()?, 0);
    for number in 0..NEW {
        let begun = Instant::now();
        match ask(number) {
            Ok(_) => {
                let nanos = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
                latency.saturating_record(nanos);
            }
            // Each may take as long as the timeout.
            Err(_) => failed += 1,
        }
        if failed >= FAILED_MAX {
            break;
        }
    }
    let open = held.iter().filter(|stream| is_open(stream)).count();
    let each = |before: u64, with: u64| with.saturating_sub(before) as f64 / open.max(1) as f64;
    Ok(Held {
        wanted,
        open,
        invalid: invalid(wanted, open, first_error.as_ref()),
        first_error: first_error.map(|error| error.to_string()),
        memory_before,
        memory_held,
        bytes_per_connection: memory_before.zip(memory_held).map(|(b, h)| each(b, h)),
        new_answer: Latency::of(&latency),
    })
}

/// Why these are not as many as the proxy could have held.
fn invalid(wanted: usize, open: usize, first_error: Option<&std::io::Error>) -> Vec<String> {
    // Files and ports are what a client runs out of.
    let is_own = |error: &&std::io::Error| {
        let own = [libc::EMFILE, libc::ENFILE, libc::EADDRNOTAVAIL, libc::ENOBUFS];
        error.raw_os_error().is_some_and(|code| own.contains(&code))
    };
    let why = first_error.filter(|_| open < wanted).filter(is_own);
    let why = why.map(|error| format!("the client was the limit at {open} connections: {error}"));
    why.into_iter().collect()
}

/// Reads a head and as many bytes as it says.
fn read_answer(stream: &mut TcpStream) -> std::io::Result<()> {
    let (mut answer, mut buffer) = (Vec::new(), [0; 16 * 1024]);
    loop {
        if let Some(head) = crate::http::head_of(&answer)? {
            let length = head.1.unwrap_or(0);
            if (answer.len() - head.0) as u64 >= length {
                return Ok(());
            }
        }
        if answer.len() > ANSWER_BYTES_MAX {
            return Err(std::io::Error::other("an answer without an end"));
        }
        match stream.read(&mut buffer)? {
            0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            count => answer.extend_from_slice(buffer.get(..count).unwrap_or_default()),
        }
    }
}

/// The proxy has not closed it.
fn is_open(stream: &TcpStream) -> bool {
    if stream.set_nonblocking(true).is_err() {
        return false;
    }
    let mut byte = [0];
    match stream.peek(&mut byte) {
        Ok(count) => count > 0,
        Err(error) => error.kind() == std::io::ErrorKind::WouldBlock,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_runs_out_of_files_says_so() {
        let own = std::io::Error::from_raw_os_error(libc::EMFILE);
        let of_proxy = std::io::Error::from_raw_os_error(libc::ECONNREFUSED);
        assert!(invalid(10, 7, Some(&own))[0].contains("the client was the limit at 7"));
        assert!(invalid(10, 7, Some(&of_proxy)).is_empty());
        assert!(invalid(10, 10, Some(&own)).is_empty());
    }
}
