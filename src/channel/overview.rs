//! The channels of a node as its console shows them, and what is decided there.

use gauntlet_channel::generations::Generations;
use gauntlet_channel::subscription::read_state;
use gauntlet_console::{
    ChangedVerdict, ChannelOrder, ChannelState, ChannelTrial, NodeError, RejectedVersion,
};
use gauntlet_gateway::config::{ChannelSettings, Config, mask};

use super::advance::folder;
use super::orders;
use super::trial::{Report, read_report};

/// Why something is done in the console, where nobody wrote it.
const NO_REASON: &str = "in the console";

/// How the channels of a configuration are.
pub(crate) fn states(config: &Config) -> Vec<ChannelState> {
    config.channel.iter().map(|settings| state(config, settings)).collect()
}

fn state(config: &Config, settings: &ChannelSettings) -> ChannelState {
    let folder = folder(config, &settings.name);
    let (state, generations) = (read_state(&folder), Generations::read(&folder));
    let version = generations.current();
    let trial = read_report(&folder).map(|report| {
        let is_open = Some(report.version) > version
            && !state.rejected.contains_key(&report.version)
            && state.pinned.is_none_or(|pinned| pinned == report.version);
        trial(report, is_open)
    });
    let watched = state.watched.as_ref();
    let until_s = watched.map(|w| w.since_s.saturating_add(settings.watch_seconds.cast_signed()));
    let rejected = |(version, reason): (&u64, &String)| RejectedVersion {
        version: *version,
        reason: reason.clone(),
    };
    ChannelState {
        name: settings.name.clone(),
        url: mask(&settings.url),
        version,
        versions: generations.versions(),
        pinned: state.pinned,
        rejected: state.rejected.iter().map(rejected).collect(),
        asked_ms: state.asked_s.saturating_mul(1_000),
        next_ms: state.next_s.saturating_mul(1_000),
        failures: state.failures,
        error: state.error.clone(),
        watched_until_ms: until_s.map(|s| s.saturating_mul(1_000)),
        trial,
    }
}

fn trial(report: Report, is_open: bool) -> ChannelTrial {
    let Report { version, until_s, held, comparison } = report;
    let messages = comparison.messages.max(1) as f64;
    let pages = &comparison.pages;
    let (pages, pages_blocked, pages_passing) =
        (pages.compared, pages.blocked_anew, pages.passes_anew);
    let changes = comparison.changes.into_iter().map(|changed| ChangedVerdict {
        id: changed.id,
        from: changed.from,
        subject: changed.subject,
        was: changed.was,
        is: changed.is,
        good_sign: changed.good_sign,
        rules: changed.rules,
    });
    ChannelTrial {
        version,
        is_open,
        until_ms: until_s.saturating_mul(1_000),
        held,
        messages: comparison.messages,
        worse: comparison.worse,
        good_sign_worse: comparison.good_sign_worse,
        milder: comparison.milder,
        failures: comparison.failures,
        us: comparison.micros.map(|us| us / messages),
        transitions: comparison.transitions.into_iter().collect(),
        changes: changes.collect(),
        pages,
        pages_blocked,
        pages_passing,
    }
}

/// Does what somebody decided. Result: what was done.
///
/// # Errors
/// There is no such channel or version, or the node holds it open at this moment.
pub(crate) fn order(
    config: &Config,
    channel: &str,
    order: ChannelOrder<'_>,
) -> Result<String, NodeError> {
    if !config.channel.iter().any(|settings| settings.name == channel) {
        return Err(NodeError::new(format!("this node follows no channel {channel:?}")));
    }
    let or = |reason: &str| if reason.is_empty() { NO_REASON } else { reason }.to_owned();
    let done = match order {
        ChannelOrder::Promote(version) => orders::promote(config, channel, version),
        ChannelOrder::Reject(version, reason) => {
            orders::reject(config, channel, version, &or(reason))
        }
        ChannelOrder::RollBack(version, reason) => {
            orders::roll_back(config, channel, version, &or(reason))
        }
        ChannelOrder::Pin(version) => orders::pin(config, channel, Some(version)),
        ChannelOrder::Unpin => orders::unpin(config, channel),
    };
    done.map_err(|error| NodeError::new(format!("{error:#}")))
}
