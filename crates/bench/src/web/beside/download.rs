//! One large download through each proxy, beside the same without one.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use serde::Serialize;

use super::WebPeer;
use crate::compare::server::Server;
use crate::http::ask::Ask;
use crate::http::client::{self, Plan};
use crate::load::trial::{Estimate, ROUNDS_MAX};
use std::net::SocketAddr;

/// Longest download.
const DOWNLOAD_MAX: Duration = Duration::from_secs(600);

/// Downloads through our proxy and a peer, and without any.
#[derive(Debug, Clone, Serialize)]
pub struct Downloads {
    /// Who is compared with.
    pub peer: WebPeer,
    /// Bytes of the download.
    pub bytes: u64,
    /// 10^6 bytes a second without a proxy.
    pub direct: Estimate,
    /// Ours first, the peer last.
    pub entries: Vec<Download>,
}

/// What a proxy came to.
#[derive(Debug, Clone, Serialize)]
pub struct Download {
    /// Name of the proxy.
    pub name: String,
    /// 10^6 bytes a second.
    pub megabytes_per_second: Estimate,
    /// The same over that without a proxy, by round.
    pub of_direct: Option<Estimate>,
}

/// Downloads in turn: without a proxy by `direct`, and through each server by `asked`.
///
/// # Errors
/// A download fails.
pub(super) fn run(
    (peer, bytes, rounds): (WebPeer, u64, u32),
    (origin, direct): (SocketAddr, Arc<[Ask]>),
    servers: &[Server],
    asked: &Arc<[Ask]>,
) -> anyhow::Result<Downloads> {
    let mut without = Vec::new();
    let mut through = vec![Vec::new(); servers.len()];
    // The first of each is not counted: files are read from disk, memory is taken.
    for round in 0..=rounds.clamp(1, ROUNDS_MAX) {
        let rate = once(origin, &direct).context("without a proxy")?;
        if round > 0 {
            without.push(rate);
        }
        for (server, rates) in servers.iter().zip(&mut through) {
            let rate = once(server.address, asked).with_context(|| server.name.clone())?;
            if round > 0 {
                rates.push(rate);
            }
        }
    }
    let entry = |(server, rates): (&Server, Vec<f64>)| {
        let pairs: Vec<_> = rates.iter().copied().zip(without.iter().copied()).collect();
        Ok(Download {
            name: server.name.clone(),
            megabytes_per_second: Estimate::of(&rates).context("no download was counted")?,
            of_direct: Estimate::ratio(&pairs),
        })
    };
    let entries = servers.iter().zip(through).map(entry).collect::<anyhow::Result<_>>()?;
    let direct = Estimate::of(&without).context("no download was counted")?;
    Ok(Downloads { peer, bytes, direct, entries })
}

/// 10^6 bytes a second of one download.
fn once(address: SocketAddr, asks: &Arc<[Ask]>) -> anyhow::Result<f64> {
    let plan = Plan {
        target: address,
        asks: Arc::clone(asks),
        connections: 1,
        rate: None,
        keep_alive: false,
        warm_up: Duration::ZERO,
        time: DOWNLOAD_MAX,
        timeout: DOWNLOAD_MAX,
        threads: 1,
        requests: 1,
        tls: None,
    };
    let begun = Instant::now();
    let counts = client::run(&plan)?;
    if counts.answered == 0 {
        let why = counts.errors.keys().next().cloned();
        bail!("no download: {}", why.unwrap_or_else(|| "not in time".to_owned()));
    }
    Ok(counts.body_bytes as f64 / 1e6 / begun.elapsed().as_secs_f64())
}
