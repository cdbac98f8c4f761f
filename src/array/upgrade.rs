//! The order to upgrade: a node drains, finishes its queue, and stops; the service manager starts
//! the program that is installed by then, which takes mail again and answers the order.
//!
//! How far it is stands in a file, since the process that begins is not the one that ends.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use gauntlet_array::orders::Outcome;
use gauntlet_gateway::Node;
use gauntlet_gateway::clock::now_ms;
use gauntlet_gateway::config::Config;
use gauntlet_store::files;
use serde::{Deserialize, Serialize};

use crate::array_access as access;

/// Exit status of a node that stops to be upgraded: a failure (EX_TEMPFAIL of sysexits.h), so that
/// service managers start it again that do so on failures alone.
pub(crate) const EXIT_STATUS: u8 = 75;

/// How far an upgrade is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Progress {
    /// Number of the order.
    order: i64,
    /// Version of the program that began.
    program: String,
    /// When that program was started, in Unix milliseconds: another start is another process.
    started_ms: i64,
    /// When it began, in Unix milliseconds.
    begun_ms: i64,
    /// It was drained before: then it stays so.
    was_drained: bool,
    /// It is to stop, or has.
    is_stopping: bool,
}

fn file(config: &Config) -> PathBuf {
    access::folder(config).join("upgrade.json")
}

fn read(path: &Path) -> Option<Progress> {
    serde_json::from_slice(&std::fs::read(path).ok()?).ok()
}

fn write(path: &Path, progress: &Progress) -> anyhow::Result<()> {
    let bytes = serde_json::to_vec(progress)?;
    files::write_durably(path, &bytes).with_context(|| path.display().to_string())
}

/// Whether the process stops because an order wants it.
pub(crate) fn is_stopping(config: &Config) -> bool {
    config.array.is_on() && read(&file(config)).is_some_and(|progress| progress.is_stopping)
}

/// A node that was stopped to be upgraded takes mail again, whether or not the array's database,
/// which is to hear of it, is there.
///
/// # Errors
/// If its drain cannot be undone.
pub(crate) fn resume(node: &Node) -> anyhow::Result<()> {
    let before = read(&file(&node.config()));
    if before.is_some_and(|it| it.started_ms != node.started_ms() && !it.was_drained) {
        node.undo_drain().context("the drain before the upgrade")?;
    }
    Ok(())
}

/// Goes on with the upgrade; none until it is done.
///
/// # Errors
/// If the node cannot drain, or its file cannot be written.
pub(crate) fn step(node: &Arc<Node>, order: i64, seconds: u64) -> anyhow::Result<Option<Outcome>> {
    let (config, now) = (node.config(), now_ms());
    let path = file(&config);
    let Some(before) = read(&path).filter(|progress| progress.order == order) else {
        let progress = Progress {
            order,
            program: env!("CARGO_PKG_VERSION").to_owned(),
            started_ms: node.started_ms(),
            begun_ms: now,
            was_drained: node.draining_since_ms().is_some(),
            is_stopping: false,
        };
        write(&path, &progress)?;
        node.drain().context("it cannot drain")?;
        tracing::info!(order, "an upgrade is ordered: the node drains, and stops then");
        return Ok(None);
    };
    if before.started_ms != node.started_ms() {
        return end(node, &path, &before).map(Some);
    }
    let waited_s = (now - before.begun_ms).max(0).cast_unsigned() / 1_000;
    let is_noticed = waited_s >= config.receiver.drain_notice_seconds;
    let (sessions, queued) = (node.sessions(), node.queue.count());
    let is_over = sessions == 0 && queued <= node.queue.held();
    if !before.is_stopping && is_noticed && (is_over || waited_s >= seconds) {
        write(&path, &Progress { is_stopping: true, ..before })?;
        tracing::info!(order, sessions, queued, "the node stops to be upgraded");
        let own = rustix::process::getpid();
        rustix::process::kill_process(own, rustix::process::Signal::TERM).context("stopping")?;
    }
    Ok(None)
}

/// The node is back.
fn end(node: &Arc<Node>, path: &Path, before: &Progress) -> anyhow::Result<Outcome> {
    if !before.was_drained {
        node.undo_drain().context("it cannot take mail again")?;
    }
    std::fs::remove_file(path).with_context(|| path.display().to_string())?;
    let (old, new) = (&before.program, env!("CARGO_PKG_VERSION"));
    let what = match old == new {
        true => format!("it was started again, with the same version {new}"),
        false => format!("it was started again, with version {new} instead of {old}"),
    };
    let text = match before.was_drained {
        true => format!("{what}; it was drained before, and is"),
        false => format!("{what}, and takes mail"),
    };
    Ok(Outcome { is_good: true, text })
}
