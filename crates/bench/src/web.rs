//! Load for an HTTP proxy: ours, which is started privately, or another; or for an origin itself.
//!
//! It is the client of [`crate::http`] with requests for a proxy: objects of several sizes, asked
//! for again and again or once, through tunnels, for hosts that the proxy has to block. Before
//! anything counts, the client asks the same of the built-in origin without a proxy: that is its
//! ceiling, and a figure above 80 % of it is the client's.

pub mod beside;
pub mod held;
pub(crate) mod own;
pub mod page;
pub mod slow;
pub mod tls;
pub mod workload;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use serde::Serialize;

use crate::compare::server::Server;
use crate::http::{self, Target};
use crate::machine::Manifest;
use crate::null::NullServer;
use beside::peers::{self, Origin};
use held::Held;
use slow::{SlowClients, SlowCounts};
use tls::{Authority, Tls};
use tokio_rustls::rustls::ClientConfig;
use workload::{Form, Workload};

/// Bytes of an object at most.
pub const OBJECT_BYTES_MAX: u64 = 1 << 40;
/// Hosts of the composed list that are asked for.
const BLOCKED_HOSTS: u64 = 500;

/// What is measured: source system C's experiments, through a proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Experiment {
    /// Requests/s.
    Rate,
    /// More and more connections until half of the requests fail.
    Concurrency,
    /// Latency against the number of connections.
    Latency,
    /// One large download.
    Download,
    /// The time from an overload until requests are answered as before.
    Recovery,
    /// Connections that are held open: memory of each, and answers beside them.
    Held,
}

impl Experiment {
    /// Numbers of connections that are tried if none are named.
    fn ladder(self) -> &'static [usize] {
        match self {
            Experiment::Rate | Experiment::Download | Experiment::Held => &[],
            Experiment::Concurrency => &[1, 10, 100, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000],
            Experiment::Latency => &[1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000],
            Experiment::Recovery => &[1, 5_000],
        }
    }
}

/// Whom requests are sent to.
#[derive(Debug, Clone, Copy)]
pub enum Subject {
    /// This program's proxy, started privately with so many threads for sockets.
    Own {
        /// Its threads.
        workers: usize,
    },
    /// A proxy that runs.
    Proxy {
        /// Where it listens.
        address: SocketAddr,
        /// Its process.
        process: Option<u32>,
    },
    /// The origin itself.
    Origin {
        /// Its process, if the origin is not the built-in one.
        process: Option<u32>,
    },
}

/// What is measured, and how.
#[derive(Debug, Clone)]
pub struct Options {
    /// Path of this program.
    pub program: PathBuf,
    /// Version of this program.
    pub version: String,
    /// Whom requests are sent to.
    pub subject: Subject,
    /// The server behind it; none is the built-in one.
    pub origin: Option<SocketAddr>,
    /// Bytes of objects.
    pub sizes: Vec<u64>,
    /// Share of requests for objects that were asked for before.
    pub hot_share: f64,
    /// Share of requests for hosts that have to be blocked.
    pub blocked_share: f64,
    /// These hosts, if the proxy is not our own.
    pub blocked: Vec<String>,
    /// Domains of our own proxy's list.
    pub entries: u64,
    /// Each request goes through a tunnel of its own.
    pub is_tunnelled: bool,
    /// Connections are used again.
    pub keep_alive: bool,
    /// Slow clients beside the measured ones.
    pub slow: usize,
    /// What is measured.
    pub experiment: Experiment,
    /// Connections at once.
    pub connections: usize,
    /// Requests/s of an open loop.
    pub rate: Option<f64>,
    /// Threads of the client.
    pub threads: usize,
    /// Time of a run.
    pub time: Duration,
    /// Longest wait for an answer.
    pub timeout: Duration,
    /// Runs.
    pub rounds: u32,
    /// Numbers of connections; empty for those of the experiment.
    pub ladder: Vec<usize>,
    /// Longest wait for recovery.
    pub recovery_max: Duration,
    /// Bytes of the download.
    pub download_bytes: u64,
    /// Requests within TLS, and what our own proxy does with it.
    pub tls: Option<Tls>,
}

/// Figures of objects of one size.
#[derive(Debug, Clone, Serialize)]
pub struct Sized {
    /// Bytes of each object.
    pub bytes: u64,
    /// What was measured.
    pub http: http::Report,
}

/// What came of it.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// What was measured.
    pub experiment: Experiment,
    /// The proxy or the origin.
    pub subject: String,
    /// How it was set up, if it was started for this.
    pub notes: Vec<String>,
    /// The requests, in a few words.
    pub workload: String,
    /// By size of the objects.
    pub sizes: Vec<Sized>,
    /// What became of the slow clients.
    pub slow: Option<SlowCounts>,
    /// Connections that were held.
    pub held: Option<Held>,
    /// All figures are the server's.
    pub valid: bool,
    /// The machine and the program that the figures are of.
    pub manifest: Manifest,
}

fn check(options: &Options) -> anyhow::Result<()> {
    let is_share = |share: f64| (0.0..=1.0).contains(&share);
    if !is_share(options.hot_share) || !is_share(options.blocked_share) {
        bail!("a share is a number from 0 to 1");
    }
    let mut sizes = options.sizes.iter().chain([&options.download_bytes]);
    if options.sizes.is_empty() || sizes.any(|n| *n == 0 || *n > OBJECT_BYTES_MAX) {
        bail!("objects of 1 to {OBJECT_BYTES_MAX} bytes");
    }
    let is_own = matches!(options.subject, Subject::Own { .. });
    if options.blocked_share > 0.0 && !is_own && options.blocked.is_empty() {
        bail!("which hosts does this proxy block? (--blocked-hosts FILE)");
    }
    if options.tls.is_some() && matches!(options.subject, Subject::Proxy { .. }) {
        bail!("which authority is to be trusted is known of this program's own proxy alone");
    }
    if options.tls.is_some() && (options.origin.is_some() || options.blocked_share > 0.0) {
        bail!("with TLS, the origin is an nginx of its own, and nothing is blocked");
    }
    if options.tls.is_some() && options.experiment == Experiment::Held {
        bail!("connections are held without TLS");
    }
    if options.is_tunnelled && matches!(options.subject, Subject::Origin { .. }) {
        bail!("an origin has no tunnels");
    }
    Ok(())
}

/// What was started for a measurement, and ends with it.
struct Started {
    target: Target,
    form: Form,
    notes: Vec<String>,
    /// How the client speaks TLS.
    tls: Option<Arc<ClientConfig>>,
    _server: Option<Server>,
    _folder: Option<tempfile::TempDir>,
}

/// The origin's address, and the nginx that it is with TLS.
type Behind<'a> = (SocketAddr, Option<&'a Origin>);

fn start(
    options: &Options,
    (origin, nginx): Behind<'_>,
    built_in: &NullServer,
) -> anyhow::Result<Started> {
    let of_origin = nginx.map(|nginx| nginx.files.certificate.as_path());
    let target =
        |name: &str, address, process| Target::named(name, address, process, Arc::default());
    Ok(match options.subject {
        Subject::Own { workers } => {
            let folder = tempfile::tempdir()?;
            let domains =
                own::write_domains(folder.path(), "domains.txt", options.entries, str::to_owned)?;
            let ladder = options.ladder.iter().chain(options.experiment.ladder());
            let authority = match options.tls {
                Some(Tls::Intercepted) => {
                    Some(Authority::make(&options.program, folder.path().join("ca"))?)
                }
                Some(Tls::Inside) | None => None,
            };
            let proxy = own::Proxy {
                program: &options.program,
                version: &options.version,
                name: "gauntlet proxy",
                domains: Some(&domains),
                connections: ladder.chain([&options.connections]).copied().max().unwrap_or(0),
                workers,
                authority: authority.as_ref().zip(of_origin),
            };
            let server = proxy.start()?;
            let certificate = authority.as_ref().map(Authority::certificate);
            let trusted = certificate.as_deref().or(of_origin);
            Started {
                target: target(&server.name, server.address, Some(server.process)),
                form: Form::Proxy,
                notes: server.notes.clone(),
                tls: trusted.map(|file| tls::client(&[file])).transpose()?,
                _server: Some(server),
                _folder: Some(folder),
            }
        }
        Subject::Proxy { address, process } => Started {
            target: target(&format!("proxy {address}"), address, process),
            form: Form::Proxy,
            notes: Vec::new(),
            tls: None,
            _server: None,
            _folder: None,
        },
        Subject::Origin { process } => Started {
            target: target(
                &format!("origin {origin}"),
                origin,
                process.or(match nginx {
                    Some(nginx) => Some(nginx.server.process),
                    None => options.origin.is_none().then(|| built_in.process()),
                }),
            ),
            form: Form::Origin,
            notes: Vec::new(),
            tls: of_origin.map(|file| tls::client(&[file])).transpose()?,
            _server: None,
            _folder: None,
        },
    })
}

/// Measures. `progress` hears of each run when it ends.
///
/// # Errors
/// Settings that make no sense, a server that does not start or answers nothing at all.
pub fn run(options: &Options, progress: &mut dyn FnMut(&str)) -> anyhow::Result<Report> {
    check(options)?;
    let built_in = NullServer::http()?;
    let large = [options.download_bytes];
    let is_download = options.experiment == Experiment::Download;
    let sizes = options.sizes.iter().chain(large.iter().filter(|_| is_download));
    let sizes: Vec<u64> = sizes.copied().collect();
    let nginx = options.tls.map(|_| peers::origin(&sizes)).transpose()?;
    let origin = nginx.as_ref().map(|nginx| nginx.secure).or(options.origin);
    let origin = origin.unwrap_or(built_in.address);
    let started = start(options, (origin, nginx.as_ref()), &built_in)?;
    let is_own = matches!(options.subject, Subject::Own { .. });
    let blocked = match is_own {
        true => workload::blocked_hosts(options.entries, BLOCKED_HOSTS),
        false => options.blocked.clone(),
    };
    let workload = Workload {
        origin,
        hot_share: options.hot_share,
        blocked_share: options.blocked_share,
        blocked,
        is_tunnelled: options.is_tunnelled,
        keep_alive: options.keep_alive,
        is_secure: options.tls.is_some(),
    };
    let slow = (options.slow > 0).then(|| {
        let mut request = Vec::new();
        let asks = workload.one(*options.sizes.first().unwrap_or(&1), started.form);
        asks.iter().for_each(|ask| ask.write(0, &mut request));
        SlowClients::start(started.target.address, options.slow, request)
    });
    let (mut sizes, mut held) = (Vec::new(), None);
    for &bytes in &options.sizes {
        if options.experiment == Experiment::Held {
            held = Some(hold(options, &workload, bytes, &started)?);
            break;
        }
        let http = http_options(options, &workload, bytes, &started);
        let http = http::run(&http, &options.version, progress)?;
        sizes.push(Sized { bytes, http });
        if options.experiment == Experiment::Download {
            break;
        }
    }
    let slow = slow.map(SlowClients::stop).transpose()?;
    Ok(Report {
        experiment: options.experiment,
        subject: started.target.url.clone(),
        notes: started.notes.clone(),
        workload: described(options),
        valid: sizes.iter().all(|size| size.http.valid)
            && held.as_ref().is_none_or(|held| held.invalid.is_empty()),
        sizes,
        slow,
        held,
        manifest: Manifest::here(&options.version),
    })
}

/// Connections that are held; the first size alone, since it makes no difference.
fn hold(
    options: &Options,
    workload: &Workload,
    bytes: u64,
    started: &Started,
) -> anyhow::Result<Held> {
    let Target { address, process, .. } = started.target;
    let asks = workload.asks(bytes, started.form);
    held::measure(address, process, &asks, options.connections, options.timeout)
}

fn http_options(
    options: &Options,
    workload: &Workload,
    bytes: u64,
    started: &Started,
) -> http::Options {
    let target = |asks| Target { asks, ..started.target.clone() };
    let ladder = match options.ladder.is_empty() {
        true => options.experiment.ladder().to_vec(),
        false => options.ladder.clone(),
    };
    let is_rate = options.experiment == Experiment::Rate;
    let is_download = options.experiment == Experiment::Download;
    let download = is_download.then(|| {
        let asks = workload.one(options.download_bytes, started.form);
        let name = format!("{} bytes from {}", options.download_bytes, started.target.url);
        Target { url: name, ..target(asks) }
    });
    http::Options {
        targets: vec![target(workload.asks(bytes, started.form))],
        connections: options.connections,
        rate: options.rate,
        threads: options.threads,
        keep_alive: options.keep_alive,
        time: options.time,
        timeout: options.timeout,
        rounds: options.rounds,
        ladder: if is_rate || is_download { Vec::new() } else { ladder },
        recovery_max: options.recovery_max,
        download,
        // What does nothing speaks no TLS: there, the CPU of the client says whether it was the
        // limit.
        calibrate: options.tls.is_none(),
        calibration_asks: workload.asks(bytes, Form::Origin),
        tls: started.tls.clone(),
    }
}

fn described(options: &Options) -> String {
    let percent = |share: f64| format!("{:.0} %", share * 100.0);
    let mut text =
        format!("{} of requests for 100 objects, the others once", percent(options.hot_share));
    if options.blocked_share > 0.0 {
        text.push_str(&format!(", {} for blocked hosts", percent(options.blocked_share)));
    }
    text.push_str(match (options.tls, options.is_tunnelled, options.keep_alive) {
        (Some(Tls::Inside), _, true) => ", within TLS that passes unread, sessions kept",
        (Some(Tls::Inside), _, false) => ", each within a new session of TLS that passes unread",
        (Some(Tls::Intercepted), _, true) => ", within TLS that is decrypted, sessions kept",
        (Some(Tls::Intercepted), _, false) => {
            ", each within a new session of TLS that is decrypted"
        }
        (None, true, _) => ", each through a tunnel of its own",
        (None, false, true) => ", connections kept",
        (None, false, false) => ", each over a new connection",
    });
    if let Some(rate) = options.rate {
        text.push_str(&format!(", {rate} a second by the clock (open loop)"));
    }
    text
}

#[cfg(test)]
mod tests;
