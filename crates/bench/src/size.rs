//! Sizing: from measured capacity and a site's own traffic to nodes, disk, database and links.
//!
//! Units: messages/s, bytes, days; a busy window is the share of a day's mail that comes within so
//! many hours. The rules are those of MailMarshal's performance study of 2006, whose worked
//! examples are this module's tests:
//!
//! - the load of the busy window, not of the day, has to be carried;
//! - a node is planned below what it sustains, so that a backlog after an outage drains;
//! - when as many nodes as there are spares have failed, the rest carries the load at what it
//!   sustains;
//! - disk grows with messages a day times bytes times days of retention, plus headroom.

pub mod array;
pub mod scaling;

use serde::{Deserialize, Serialize};

/// Bits on a link for each byte of mail: eight, and a quarter for protocols (the study's rule).
const LINK_BITS_PER_BYTE: f64 = 10.0;

/// What a site's mail is like.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Traffic {
    /// People with a mailbox at the site.
    pub users: f64,
    /// Messages a user and day, both directions, spam included.
    pub messages_per_user: f64,
    /// Share of a day's messages in the busy window, 0 to 1.
    pub busy_share: f64,
    /// Hours of the busy window.
    pub busy_hours: f64,
    /// Bytes of a message on average.
    pub message_bytes: f64,
    /// Messages out for each message in, for links.
    pub out_per_in: f64,
}

impl Default for Traffic {
    fn default() -> Self {
        Traffic {
            users: 1_000.0,
            messages_per_user: 20.0,
            busy_share: 0.8,
            busy_hours: 10.0,
            message_bytes: 30_000.0,
            out_per_in: 0.5,
        }
    }
}

impl Traffic {
    /// Messages/s of the busy window.
    pub fn busy_rate(&self) -> f64 {
        self.users * self.rate_per_user()
    }

    fn rate_per_user(&self) -> f64 {
        self.messages_per_user * self.busy_share / (self.busy_hours * 3_600.0)
    }
}

/// What one node does, and how it is planned.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Capacity {
    /// Messages/s that a node was measured to sustain on mail like the site's.
    pub sustained: f64,
    /// Share of it that a node is planned for, above 0, at most 1.
    pub planned_share: f64,
    /// Nodes that may fail with the rest still carrying the busy window.
    pub spares: u32,
}

impl Capacity {
    /// The study's planning: 20 messages/s of 32 sustained, one spare.
    pub fn planned(sustained: f64) -> Self {
        Capacity { sustained, planned_share: 20.0 / 32.0, spares: 1 }
    }
}

/// What is kept, for how long.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Retention {
    /// Bytes of text logs on the node for each message.
    pub node_log_bytes: f64,
    /// Days of text logs.
    pub node_log_days: f64,
    /// Messages a user and day that are quarantined as spam.
    pub quarantined: f64,
    /// Bytes of each, its own log included.
    pub quarantined_bytes: f64,
    /// Messages a user and day that rules hold.
    pub held: f64,
    /// Bytes of a held message, in the mean.
    pub held_bytes: f64,
    /// Days that both are kept.
    pub quarantine_days: f64,
    /// Bytes of a message in the message log.
    pub database_bytes: f64,
    /// Days of the message log.
    pub database_days: f64,
    /// Added to all disk: 0.5 is half as much again.
    pub headroom: f64,
}

impl Retention {
    /// This program with its default settings: no text log of messages, the message log as measured
    /// (`bench-runs/2026-11-21-log.md`), half of the mail quarantined as spam of the study's 4,500
    /// bytes, held mail as in the study.
    pub fn ours() -> Self {
        Retention {
            node_log_bytes: 0.0,
            node_log_days: 0.0,
            quarantined_bytes: 4_500.0,
            database_bytes: 1_460.0,
            ..Self::mailmarshal()
        }
    }

    /// MailMarshal SMTP 6.0 as its study sized it.
    pub fn mailmarshal() -> Self {
        Retention {
            node_log_bytes: 1_315.0 + 7_710.0 + 1_845.0,
            node_log_days: 5.0,
            quarantined: 10.0,
            quarantined_bytes: 4_500.0 + 4_000.0,
            held: 5.0 * 0.5,
            held_bytes: 30_000.0,
            quarantine_days: 7.0,
            database_bytes: 600.0,
            database_days: 100.0,
            headroom: 0.5,
        }
    }
}

/// What the site needs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Messages/s of the busy window.
    pub busy_rate: f64,
    /// Nodes that carry it at what they sustain, without a spare.
    pub nodes_min: u32,
    /// Nodes to run, spares included.
    pub nodes: u32,
    /// Messages/s of each while all run.
    pub node_rate: f64,
    /// Messages/s of each when the spares have failed.
    pub node_rate_after_failure: f64,
    /// Seconds in which an hour's outage of the whole array is worked off under the busy load;
    /// none if it never is.
    pub drain_seconds_after_hour: Option<f64>,
    /// Bytes of text logs, quarantine and held mail on the nodes together.
    pub node_bytes: f64,
    /// The same for one user.
    pub node_bytes_per_user: f64,
    /// Bytes of the message log.
    pub database_bytes: f64,
    /// Files of the nodes and the message log together, in bytes.
    pub disk_bytes: f64,
    /// The same with headroom, in bytes.
    pub disk_bytes_with_headroom: f64,
    /// Bits/s that the busy window needs of a link, the busier direction.
    pub link_bits_per_second: f64,
}

/// What a link carries.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Link {
    /// Messages/s in, with the link full in that direction.
    pub rate_in: f64,
    /// Messages/s out at that rate.
    pub rate_out: f64,
    /// Users whose busy window that carries.
    pub users: f64,
}

/// Figures that cannot be sized with.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{name} is {value}: it must be {must}")]
pub struct SizeError {
    /// Name of the figure.
    pub name: &'static str,
    /// Its value, in the unit of its name.
    pub value: f64,
    /// What it must be.
    pub must: &'static str,
}

fn ensure(
    name: &'static str,
    value: f64,
    holds: bool,
    must: &'static str,
) -> Result<(), SizeError> {
    if holds && value.is_finite() { Ok(()) } else { Err(SizeError { name, value, must }) }
}

fn check(traffic: &Traffic) -> Result<(), SizeError> {
    let t = traffic;
    for (name, value) in [
        ("users", t.users),
        ("messages a user and day", t.messages_per_user),
        ("busy hours", t.busy_hours),
        ("bytes of a message", t.message_bytes),
        ("share in the busy window", t.busy_share),
    ] {
        ensure(name, value, value > 0.0, "above 0")?;
    }
    ensure("busy hours", t.busy_hours, t.busy_hours <= 24.0, "at most 24")?;
    ensure("share in the busy window", t.busy_share, t.busy_share <= 1.0, "at most 1")?;
    ensure("messages out for each in", t.out_per_in, t.out_per_in >= 0.0, "0 or more")
}

fn check_retention(retention: &Retention) -> Result<(), SizeError> {
    let r = retention;
    for (name, value) in [
        ("bytes of text logs", r.node_log_bytes),
        ("days of text logs", r.node_log_days),
        ("quarantined messages", r.quarantined),
        ("bytes of a quarantined message", r.quarantined_bytes),
        ("held messages", r.held),
        ("bytes of a held message", r.held_bytes),
        ("days of quarantine", r.quarantine_days),
        ("bytes in the message log", r.database_bytes),
        ("days of the message log", r.database_days),
        ("headroom", r.headroom),
    ] {
        ensure(name, value, value >= 0.0, "0 or more")?;
    }
    Ok(())
}

/// Sizes a site.
///
/// # Errors
/// [`SizeError`] names the figure that makes no sense.
pub fn plan(
    traffic: &Traffic,
    capacity: &Capacity,
    retention: &Retention,
) -> Result<Plan, SizeError> {
    check(traffic)?;
    check_retention(retention)?;
    let Capacity { sustained, planned_share, spares } = *capacity;
    ensure("messages/s sustained", sustained, sustained > 0.0, "above 0")?;
    let share_holds = planned_share > 0.0 && planned_share <= 1.0;
    ensure("planned share", planned_share, share_holds, "above 0 and at most 1")?;
    let rate = traffic.busy_rate();
    let nodes_min = nodes_for(rate, sustained)?;
    let planned = nodes_for(rate, sustained * planned_share)?;
    let nodes = planned.max(nodes_min.saturating_add(spares));
    let left = nodes.saturating_sub(spares).max(1);
    let spare_rate = f64::from(nodes) * sustained - rate;
    let daily = traffic.messages_per_user;
    let r = retention;
    let node_bytes_per_user = daily * r.node_log_bytes * r.node_log_days
        + (r.quarantined * r.quarantined_bytes + r.held * r.held_bytes) * r.quarantine_days;
    let node_bytes = node_bytes_per_user * traffic.users;
    let database_bytes = daily * r.database_bytes * r.database_days * traffic.users;
    let busier = 1.0_f64.max(traffic.out_per_in) / (1.0 + traffic.out_per_in);
    Ok(Plan {
        busy_rate: rate,
        nodes_min,
        nodes,
        node_rate: rate / f64::from(nodes),
        node_rate_after_failure: rate / f64::from(left),
        drain_seconds_after_hour: (spare_rate > 0.0).then(|| 3_600.0 * rate / spare_rate),
        node_bytes,
        node_bytes_per_user,
        database_bytes,
        disk_bytes: node_bytes + database_bytes,
        disk_bytes_with_headroom: (node_bytes + database_bytes) * (1.0 + r.headroom),
        link_bits_per_second: rate * busier * traffic.message_bytes * LINK_BITS_PER_BYTE,
    })
}

/// Nodes of `each` messages/s that carry `rate`.
fn nodes_for(rate: f64, each: f64) -> Result<u32, SizeError> {
    /// More than anybody runs; a plan beyond it is a slip of a unit.
    const NODES_MAX: f64 = 1e6;
    let nodes = (rate / each).ceil().max(1.0);
    ensure("number of nodes", nodes, nodes <= NODES_MAX, "below a million; check the units")?;
    Ok(nodes as u32)
}

/// What a link of so many bits/s in each direction carries. Its busier direction is full.
///
/// # Errors
/// [`SizeError`] names the figure that makes no sense.
pub fn link(bits_per_second: f64, traffic: &Traffic) -> Result<Link, SizeError> {
    check(traffic)?;
    ensure("bits/s of the link", bits_per_second, bits_per_second > 0.0, "above 0")?;
    let full = bits_per_second / LINK_BITS_PER_BYTE / traffic.message_bytes;
    let rate_in = full / traffic.out_per_in.max(1.0);
    let rate_out = rate_in * traffic.out_per_in;
    Ok(Link { rate_in, rate_out, users: (rate_in + rate_out) / traffic.rate_per_user() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(value: f64, expected: f64, share: f64) -> bool {
        (value - expected).abs() <= expected.abs() * share
    }

    fn hundred_thousand() -> Traffic {
        Traffic { users: 100_000.0, ..Traffic::default() }
    }

    #[test]
    fn mailmarshal_100_000_users_are_two_nodes_and_a_spare() {
        let capacity = Capacity::planned(32.0);
        let plan = plan(&hundred_thousand(), &capacity, &Retention::mailmarshal()).unwrap();
        assert_eq!(plan.busy_rate.ceil(), 45.0, "{plan:?}");
        assert_eq!((plan.nodes_min, plan.nodes), (2, 3), "two carry it, a third is the spare");
        assert!(plan.node_rate < 20.0, "a third keeps all under 20");
        assert!(plan.node_rate_after_failure < 32.0, "and covers a failure");
    }

    #[test]
    fn mailmarshal_disk() {
        let capacity = Capacity::planned(32.0);
        let retention = Retention::mailmarshal();
        let plan = plan(&hundred_thousand(), &capacity, &retention).unwrap();
        assert_eq!(plan.node_bytes_per_user, 2_207_000.0);
        assert_eq!(plan.database_bytes / 100_000.0, 1_200_000.0);
        assert_eq!((plan.disk_bytes / 1e9).floor(), 340.0);
        assert_eq!(plan.disk_bytes_with_headroom, plan.disk_bytes * 1.5);
    }

    #[test]
    fn mailmarshal_22_500_users_on_an_e1() {
        let link = link(2e6, &Traffic::default()).unwrap();
        assert!(close(link.rate_in, 6.6, 0.02), "{link:?}");
        assert!(close(link.rate_in + link.rate_out, 10.0, 1e-9));
        assert!(close(link.users, 22_500.0, 1e-9), "{link:?}");
        let traffic = Traffic { users: 22_500.0, ..Traffic::default() };
        let needs = plan(&traffic, &Capacity::planned(32.0), &Retention::ours()).unwrap();
        assert!(close(needs.link_bits_per_second, 2e6, 1e-9), "the way back: {needs:?}");
    }

    #[test]
    fn a_spare_stands_beside_the_smallest_site() {
        let traffic = Traffic { users: 10.0, ..Traffic::default() };
        let mut capacity = Capacity::planned(32.0);
        assert_eq!(plan(&traffic, &capacity, &Retention::ours()).unwrap().nodes, 2);
        capacity.spares = 0;
        assert_eq!(plan(&traffic, &capacity, &Retention::ours()).unwrap().nodes, 1);
    }

    #[test]
    fn a_backlog_that_never_drains_is_said() {
        let traffic = Traffic { users: 72_000.0, ..Traffic::default() };
        let capacity = Capacity { sustained: 32.0, planned_share: 1.0, spares: 0 };
        let full = plan(&traffic, &capacity, &Retention::ours()).unwrap();
        assert_eq!((full.nodes, full.drain_seconds_after_hour), (1, None), "exactly full");
        let spared = Capacity::planned(32.0);
        let plan = plan(&traffic, &spared, &Retention::ours()).unwrap();
        assert!(close(plan.drain_seconds_after_hour.unwrap(), 3_600.0, 1e-9));
    }

    #[test]
    fn senseless_figures_are_named() {
        let capacity = Capacity::planned(0.0);
        let error = plan(&Traffic::default(), &capacity, &Retention::ours()).unwrap_err();
        assert_eq!(error.to_string(), "messages/s sustained is 0: it must be above 0");
        let traffic = Traffic { busy_share: 80.0, ..Traffic::default() };
        let error = link(2e6, &traffic).unwrap_err();
        assert_eq!(error.name, "share in the busy window");
        let traffic = Traffic { users: f64::NAN, ..Traffic::default() };
        assert!(link(2e6, &traffic).is_err());
        let traffic = Traffic { users: 1e300, ..Traffic::default() };
        assert!(plan(&traffic, &Capacity::planned(1.0), &Retention::ours()).is_err());
    }
}
