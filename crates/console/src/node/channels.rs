//! The channels that a node follows, as the console sees them.

use gauntlet_verdict::Class;
use serde::Serialize;

/// How a channel is.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct ChannelState {
    /// Its name.
    pub name: String,
    /// Where it is, without passwords.
    pub url: String,
    /// The version that judges; none before the first.
    pub version: Option<u64>,
    /// Versions on disk, in order.
    pub versions: Vec<u64>,
    /// The version that the node stays at, if so.
    pub pinned: Option<u64>,
    /// Versions that are never taken, with the reason.
    pub rejected: Vec<RejectedVersion>,
    /// Unix time in milliseconds of the last look for a new version; 0 before the first.
    pub asked_ms: i64,
    /// The same of the next.
    pub next_ms: i64,
    /// Failures in a row.
    pub failures: u32,
    /// The last of them; empty if the last look went well.
    pub error: String,
    /// Until when corrections are watched since a version judges, in Unix milliseconds.
    pub watched_until_ms: Option<i64>,
    /// The version that is tried, or was tried last.
    pub trial: Option<ChannelTrial>,
}

/// A version that is never taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RejectedVersion {
    /// Its number.
    pub version: u64,
    /// Why.
    pub reason: String,
}

/// A version beside the one in force, on the same mail.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct ChannelTrial {
    /// Its number.
    pub version: u64,
    /// It is under way, or waits for a person.
    pub is_open: bool,
    /// When its time is up, in Unix milliseconds.
    pub until_ms: i64,
    /// Why a person has to decide, if so.
    pub held: Option<String>,
    /// Messages that both judged.
    pub messages: u64,
    /// Good mail that would be suspect or worse.
    pub worse: u64,
    /// Of these, with a sign that they are good: a known author, a list of long standing, a reply.
    pub good_sign_worse: u64,
    /// Spam that would be good.
    pub milder: u64,
    /// Messages on which a filter failed that did not fail before.
    pub failures: u64,
    /// Microseconds for a message by the version in force, and by the one that is tried.
    pub us: [f64; 2],
    /// Messages by the change of their class, as `ham -> spam`.
    pub transitions: Vec<(String, u64)>,
    /// Messages whose class changed, the harmful ones first.
    pub changes: Vec<ChangedVerdict>,
    /// Pages of the web that both scored, where phrases are others.
    pub pages: u64,
    /// Of these, that pass and would be blocked.
    pub pages_blocked: u64,
    /// That are blocked and would pass.
    pub pages_passing: u64,
}

/// A message whose class changes with a version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ChangedVerdict {
    /// Id in the message log.
    pub id: String,
    /// The From field.
    pub from: String,
    /// The Subject field.
    pub subject: String,
    /// Class by the version in force.
    pub was: Class,
    /// Class by the one that is tried.
    pub is: Class,
    /// It has a sign of good mail.
    pub good_sign: bool,
    /// Rules that only the new version hit.
    pub rules: Vec<String>,
}

/// What can be done with a version of a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChannelOrder<'a> {
    /// Let it judge without waiting for the end of its trial.
    Promote(u64),
    /// Never let it judge.
    Reject(u64, &'a str),
    /// Go back to an earlier version (none: the one before), and never take those after it again.
    RollBack(Option<u64>, &'a str),
    /// Stay at it.
    Pin(u64),
    /// Take new versions again.
    Unpin,
}
