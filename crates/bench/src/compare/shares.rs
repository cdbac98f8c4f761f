//! Where the CPU time of a node of ours went: by the names of its threads, and, for the threads
//! that both receive and pass on, by how long they worked for which ([`/metrics`]).
//!
//! [`/metrics`]: Server::metrics

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde::Serialize;

use super::server::Server;
use crate::load::trial::Estimate;
use crate::process::{ResourceUsage, ThreadTime, threads_cpu_seconds};

/// Longest wait for a node's figures.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// Bytes of an answer that are read.
const ANSWER_BYTES_MAX: u64 = 1 << 20;
/// What a node counts of the threads for sockets, in nanoseconds.
const RECEIVING: &str = "gauntlet_receiving_nanoseconds_total ";
const JUDGING: &str = "gauntlet_judging_nanoseconds_total ";
const PASSING_ON: &str = "gauntlet_passing_on_nanoseconds_total ";

/// What a thread of a node does, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Job {
    Sockets,
    Scanning,
    Storing,
    Logging,
    Other,
}

impl Job {
    fn of(name: &str) -> Self {
        match name {
            "mail" => Job::Sockets,
            "spool" | "spool-large" | "quarantine" | "maildir" => Job::Storing,
            "log-writer" | "log-dictionary" | "receiver" | "engine" | "sender" => Job::Logging,
            name if name.starts_with("scan-") => Job::Scanning,
            _ => Job::Other,
        }
    }
}

/// CPU microseconds of a message, by what they were spent on.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Shares {
    /// Sessions or the service's protocol, with what is done for a message before and after its
    /// scan.
    pub receiving: f64,
    /// The engine, the policy, the record of the verdict: on scan threads or where the message was
    /// received.
    pub scanning: f64,
    /// The threads of spool, quarantine and Maildir.
    pub storing: f64,
    /// The threads of message log and text logs.
    pub logging: f64,
    /// Connections to the next hop.
    pub passing_on: f64,
    /// All else: further threads and processes, and what the threads for sockets did for no
    /// connection.
    pub other: f64,
}

/// The same over some rounds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct SharesEstimate {
    /// CPU microseconds of a message, as [`Shares::receiving`].
    pub receiving: Estimate,
    /// CPU microseconds of a message, as [`Shares::scanning`].
    pub scanning: Estimate,
    /// CPU microseconds of a message, as [`Shares::storing`].
    pub storing: Estimate,
    /// CPU microseconds of a message, as [`Shares::logging`].
    pub logging: Estimate,
    /// CPU microseconds of a message, as [`Shares::passing_on`].
    pub passing_on: Estimate,
    /// CPU microseconds of a message, as [`Shares::other`].
    pub other: Estimate,
}

impl SharesEstimate {
    /// Of rounds; none of none.
    pub(super) fn of(rounds: &[Shares]) -> Option<Self> {
        let of =
            |value: fn(&Shares) -> f64| Estimate::of(&rounds.iter().map(value).collect::<Vec<_>>());
        Some(SharesEstimate {
            receiving: of(|s| s.receiving)?,
            scanning: of(|s| s.scanning)?,
            storing: of(|s| s.storing)?,
            logging: of(|s| s.logging)?,
            passing_on: of(|s| s.passing_on)?,
            other: of(|s| s.other)?,
        })
    }
}

/// What a node had used at one moment.
#[derive(Debug, Clone)]
pub(super) struct Look {
    threads: BTreeMap<String, ThreadTime>,
    cpu_seconds: f64,
    /// None from a build that does not count it.
    worked: Option<Worked>,
}

/// Nanoseconds that the threads for sockets worked.
#[derive(Debug, Clone, Copy)]
struct Worked {
    /// What was judged on these threads included.
    receiving: f64,
    judging: f64,
    passing_on: f64,
}

impl Look {
    /// At a node of ours; none at a peer.
    pub(super) fn at(server: &Server) -> Option<Self> {
        let metrics = ask(server.metrics?).unwrap_or_default();
        let value = |name: &str| {
            metrics.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<f64>().ok())
        };
        let worked = || {
            let (receiving, judging) = (value(RECEIVING)?, value(JUDGING)?);
            Some(Worked { receiving, judging, passing_on: value(PASSING_ON)? })
        };
        Some(Look {
            threads: threads_cpu_seconds(server.process),
            cpu_seconds: ResourceUsage::of(server.process)?.cpu_seconds,
            worked: worked(),
        })
    }

    /// What so many messages took between two looks.
    pub(super) fn until(&self, after: &Look, messages: f64) -> Shares {
        let us = |seconds: f64| seconds * 1e6 / messages.max(1.0);
        let mut shares = Shares::default();
        let mut sockets = 0.0;
        for (number, thread) in &after.threads {
            let before = self.threads.get(number).map_or(0.0, |before| before.seconds);
            let spent = us(thread.seconds - before);
            match Job::of(&thread.name) {
                Job::Sockets => sockets += spent,
                Job::Scanning => shares.scanning += spent,
                Job::Storing => shares.storing += spent,
                Job::Logging => shares.logging += spent,
                Job::Other => {}
            }
        }
        let (receiving, passing_on) = match self.worked.zip(after.worked) {
            Some((a, b)) => {
                let all = b.receiving - a.receiving + b.passing_on - a.passing_on;
                // A thread that was preempted worked for longer than it had a CPU: parts count, not
                // times.
                let part = if all > 0.0 { (sockets / us(all / 1e9)).min(1.0) } else { 0.0 };
                let of = |ns: f64| us(ns / 1e9) * part;
                let judging = of(b.judging - a.judging);
                shares.scanning += judging;
                (of(b.receiving - a.receiving) - judging, of(b.passing_on - a.passing_on))
            }
            None => (sockets, 0.0),
        };
        (shares.receiving, shares.passing_on) = (receiving, passing_on);
        let known = receiving + passing_on + shares.scanning + shares.storing + shares.logging;
        shares.other = (us(after.cpu_seconds - self.cpu_seconds) - known).max(0.0);
        shares
    }
}

/// Reads `/metrics` of a node, at most [`ANSWER_BYTES_MAX`] bytes.
fn ask(address: SocketAddr) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, ANSWER_MAX)?;
    stream.set_read_timeout(Some(ANSWER_MAX))?;
    let request = format!("GET /metrics HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(threads: &[(&str, f64)], cpu_seconds: f64, worked: Option<[f64; 3]>) -> Look {
        let thread = |(name, seconds): &(&str, f64)| {
            let time = ThreadTime { name: (*name).to_owned(), seconds: *seconds };
            ((*name).to_owned(), time)
        };
        let worked = worked.map(|[receiving, judging, passing_on]| Worked {
            receiving,
            judging,
            passing_on,
        });
        Look { threads: threads.iter().map(thread).collect(), cpu_seconds, worked }
    }

    #[test]
    fn threads_by_name_and_sockets_by_what_they_worked_for() {
        let before = look(&[("mail", 1.0), ("scan-0", 1.0)], 5.0, Some([1e9, 0.0, 0.0]));
        let threads = [("mail", 3.0), ("scan-0", 4.0), ("spool", 0.5), ("log-writer", 0.25)];
        // 3 s of polls in 2 s of CPU time: preempted, or another clock.
        let after = look(&threads, 12.0, Some([3e9, 0.3e9, 1e9]));
        let shares = before.until(&after, 1_000_000.0);
        let rounded = |v: f64| (v * 1e3).round() / 1e3;
        assert_eq!(rounded(shares.receiving), 1.133);
        assert_eq!(rounded(shares.passing_on), 0.667);
        assert_eq!(rounded(shares.scanning), 3.2);
        assert_eq!((shares.storing, shares.logging), (0.5, 0.25));
        assert_eq!(rounded(shares.other), 7.0 - 5.75);
        // An older build does not tell: all is receiving.
        let old = Look { worked: None, ..before }.until(&after, 1_000_000.0);
        assert_eq!((old.receiving, old.passing_on), (2.0, 0.0));
    }
}
