//! What an array of nodes asks of its database and its object store.
//!
//! Each node sends what it logged to a PostgreSQL database, and the bodies that it holds to an
//! object store, in batches; both come on top of what is on its own disk.

use serde::{Deserialize, Serialize};

use super::{Plan, Retention, Traffic};

const DAY_SECONDS: f64 = 86_400.0;

/// Bytes for each message, as measured (`bench-runs/2026-11-30-array-cost.md`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ArrayCosts {
    /// Bytes between node and database, both ways.
    pub wire_bytes: f64,
    /// The same for a held message, on top.
    pub held_wire_bytes: f64,
    /// Bytes of the database's write-ahead log, which replicas and archives get.
    pub wal_bytes: f64,
    /// The same for a held message, on top.
    pub held_wal_bytes: f64,
    /// Bytes on the database's disk, indexes included.
    pub table_bytes: f64,
    /// The same for a held message, on top.
    pub held_table_bytes: f64,
    /// Seconds between two shipments of a node (`array.ship_seconds`).
    pub ship_seconds: f64,
}

impl ArrayCosts {
    /// Real mail of 30 KB on average, four nodes, facts of the network, encrypted connections.
    pub fn measured() -> Self {
        ArrayCosts {
            wire_bytes: 415.0,
            held_wire_bytes: 463.0,
            wal_bytes: 637.0,
            held_wal_bytes: 1_155.0,
            table_bytes: 676.0,
            held_table_bytes: 727.0,
            ship_seconds: 10.0,
        }
    }
}

/// What the array needs beside its nodes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ArrayPlan {
    /// Bytes/s between nodes and database in the busy window, both ways.
    pub database_bytes_per_second: f64,
    /// Bytes/s of write-ahead log in the busy window.
    pub wal_bytes_per_second: f64,
    /// Bytes of write-ahead log a day: what an archive of it grows by.
    pub wal_bytes_per_day: f64,
    /// Bytes on the database's disk.
    pub database_bytes: f64,
    /// Requests/s that store objects, in the busy window.
    pub puts_per_second: f64,
    /// The same for a month of 30 days, which is what is paid for.
    pub puts_per_month: f64,
    /// Bytes/s to the object store in the busy window.
    pub object_bytes_per_second: f64,
    /// Bytes in the object store.
    pub object_bytes: f64,
}

/// Sizes database and object store for a site that was sized without them.
pub fn array_plan(
    traffic: &Traffic,
    retention: &Retention,
    plan: &Plan,
    costs: &ArrayCosts,
) -> ArrayPlan {
    let (rate, daily) = (plan.busy_rate, traffic.messages_per_user * traffic.users);
    let held_share = (retention.quarantined + retention.held) / traffic.messages_per_user;
    let held_a_day =
        retention.quarantined * retention.quarantined_bytes + retention.held * retention.held_bytes;
    // An object has what a node held since the last one.
    let shipments = |held_rate: f64| held_rate.min(f64::from(plan.nodes) / costs.ship_seconds);
    let held_daily = daily * held_share;
    let busy_held = rate * held_share;
    let quiet_seconds = DAY_SECONDS - traffic.busy_hours * 3_600.0;
    let quiet_held = held_daily * (1.0 - traffic.busy_share) / quiet_seconds.max(1.0);
    let puts_a_day = shipments(busy_held) * traffic.busy_hours * 3_600.0
        + shipments(quiet_held) * quiet_seconds.max(0.0);
    let wire = costs.wire_bytes + held_share * costs.held_wire_bytes;
    let wal = costs.wal_bytes + held_share * costs.held_wal_bytes;
    let day_to_busy = traffic.busy_share / (traffic.busy_hours * 3_600.0);
    ArrayPlan {
        database_bytes_per_second: rate * wire,
        wal_bytes_per_second: rate * wal,
        wal_bytes_per_day: daily * wal,
        database_bytes: daily * costs.table_bytes * retention.database_days
            + held_daily * costs.held_table_bytes * retention.quarantine_days,
        puts_per_second: shipments(busy_held),
        puts_per_month: puts_a_day * 30.0,
        object_bytes_per_second: held_a_day * traffic.users * day_to_busy,
        object_bytes: held_a_day * traffic.users * retention.quarantine_days,
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Capacity, plan};
    use super::*;

    #[test]
    fn database_and_store_of_100_000_users() {
        let traffic = Traffic { users: 100_000.0, ..Traffic::default() };
        let retention = Retention::ours();
        let sized = plan(&traffic, &Capacity::planned(32.0), &retention).unwrap();
        let costs = ArrayCosts::measured();
        let array = array_plan(&traffic, &retention, &sized, &costs);
        // 12.5 of 20 messages are held in the study.
        let wire = costs.wire_bytes + costs.held_wire_bytes * 12.5 / 20.0;
        assert!((array.database_bytes_per_second - sized.busy_rate * wire).abs() < 1.0);
        let wal = 2e6 * costs.wal_bytes + 1.25e6 * costs.held_wal_bytes;
        assert!((array.wal_bytes_per_day - wal).abs() < 1.0, "{array:?}");
        // Held mail for a week.
        let tables = 2e8 * costs.table_bytes + 7.0 * 1.25e6 * costs.held_table_bytes;
        assert!((array.database_bytes - tables).abs() < 1.0, "{array:?}");
        // Three nodes, an object each in ten seconds, day and night.
        assert!((array.puts_per_second - 0.3).abs() < 1e-9, "{array:?}");
        assert!((array.puts_per_month - 0.3 * 86_400.0 * 30.0).abs() < 1.0, "{array:?}");
        assert!((array.object_bytes - 100_000.0 * 120_000.0 * 7.0).abs() < 1.0, "{array:?}");
    }

    #[test]
    fn little_held_mail_makes_few_requests() {
        let traffic =
            Traffic { users: 10.0, busy_hours: 24.0, busy_share: 1.0, ..Traffic::default() };
        let retention = Retention::ours();
        let sized = plan(&traffic, &Capacity::planned(32.0), &retention).unwrap();
        let array = array_plan(&traffic, &retention, &sized, &ArrayCosts::measured());
        assert!((array.puts_per_month - 10.0 * 12.5 * 30.0).abs() < 1.0, "{array:?}");
    }
}
