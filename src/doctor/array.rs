//! The array's database, its replica and its object store.

use gauntlet_array::health::{SERVER_MIN, examine};
use gauntlet_array::nodes::{self, NodeRow, NodeState};
use gauntlet_array::{ArrayError, Objects, Session, schema};
use gauntlet_gateway::clock::now_ms;
use gauntlet_gateway::config::Config;
use gauntlet_store::random;

use super::{Findings, Status};
use crate::array_access as access;

/// A difference of clocks that matters, in milliseconds.
const CLOCK_MS: i64 = 5_000;
/// A node silent for longer is probably gone, in milliseconds.
const SILENT_MS: i64 = 60_000;
/// A replica further behind shows pages that people take for wrong, in milliseconds.
const REPLICA_MS: i64 = 60_000;
/// A log that waits for longer should have been shipped, in milliseconds.
const BEHIND_MS: i64 = 300_000;

/// The servers of the array answer, and the node takes part.
pub(super) async fn array(config: &Config, found: &mut Findings) {
    if !config.array.is_on() {
        return;
    }
    if let Err(error) = database(config, found).await {
        let text = format!("{error:#}; mail goes on, and log lines wait on this node");
        found.add(Status::Error, "array", text);
    }
    if let Err(error) = replica(config, found).await {
        let text = format!("array.replica: {error:#}; searches ask the database itself");
        found.add(Status::Warning, "array", text);
    }
    match access::objects(config) {
        Ok(None) => {}
        Ok(Some(objects)) => match try_objects(&objects).await {
            Ok(()) => {
                let text = format!("{}: objects are written, read and removed", objects.server());
                found.add(Status::Ok, "array", text);
            }
            Err(error) => {
                found.add(Status::Error, "array", format!("{error}; held mail waits on this node"));
            }
        },
        Err(error) => found.add(Status::Error, "array", format!("{error:#}")),
    }
}

async fn database(config: &Config, found: &mut Findings) -> anyhow::Result<()> {
    let Some(database) = access::database(config)? else { return Ok(()) };
    let session = match schema::session_to_read(&database).await {
        Err(ArrayError::NotMade) => {
            let text = format!("{}: no tables yet; the first node makes them", database.server());
            found.add(Status::Warning, "array", text);
            return Ok(());
        }
        opened => opened?,
    };
    let (server, health) = (database.server(), examine(&session).await?);
    let version = version(health.version);
    if health.version < SERVER_MIN {
        let text = format!("{server} is PostgreSQL {version}: 15 or later is needed");
        found.add(Status::Error, "array", text);
    } else {
        found.add(Status::Ok, "array", format!("{server} answers (PostgreSQL {version})"));
    }
    let ahead = now_ms() - health.clock_ms;
    if ahead.abs() > CLOCK_MS {
        let text = format!(
            "this machine's clock is {:+.0} s from that of {server}: set one by NTP, or messages \
             of several nodes are listed out of order",
            ahead as f64 / 1_000.0
        );
        found.add(Status::Warning, "array", text);
    }
    nodes_of(config, &session, found).await
}

async fn nodes_of(config: &Config, session: &Session, found: &mut Findings) -> anyhow::Result<()> {
    let all = nodes::list(session).await?;
    let own_name = config.node.host_name();
    if let Ok(identity) = access::known_identity(config)
        && let Some(seen) =
            nodes::twin(session, &own_name, identity.as_deref().unwrap_or_default()).await?
    {
        let text = format!(
            "another node has the name {own_name}, and was seen {seen} UTC: this one takes no part; \
             give it another node.name, or remove the other with `gauntlet array leave`"
        );
        found.add(Status::Error, "array", text);
        return Ok(());
    }
    match all.iter().find(|node| node.name == own_name) {
        Some(own) => own_node(own, found),
        None => {
            let text = format!("{own_name} has not taken part yet; it does when it is started");
            found.add(Status::Warning, "array", text);
        }
    }
    let is_silent = |node: &&NodeRow| {
        node.state == NodeState::Active && node.name != own_name && node.silent_ms > SILENT_MS
    };
    for node in all.iter().filter(is_silent) {
        let text = format!(
            "{} was last seen {} minutes ago: look after it, or remove it with `gauntlet array \
             leave`; its waiting mail can be taken over with `gauntlet queue adopt`",
            node.name,
            node.silent_ms / 60_000
        );
        found.add(Status::Warning, "array", text);
    }
    Ok(())
}

fn own_node(own: &NodeRow, found: &mut Findings) {
    let status = &own.status;
    let late = status.behind_since_ms.filter(|since| now_ms() - since > BEHIND_MS);
    if let Some(since) = late {
        let text = format!(
            "{} changes of this node's log wait for the database, the oldest for {} minutes",
            status.behind,
            (now_ms() - since) / 60_000
        );
        found.add(Status::Warning, "array", text);
    }
    if !status.policy_error.is_empty() {
        let text = format!("a published policy is not in force here: {}", status.policy_error);
        found.add(Status::Warning, "array", text);
    }
}

async fn replica(config: &Config, found: &mut Findings) -> anyhow::Result<()> {
    let Some(replica) = access::replica(config)? else { return Ok(()) };
    let session = schema::session_to_read(&replica).await?;
    let (server, health) = (replica.server(), examine(&session).await?);
    match health.behind_ms {
        Some(behind) if behind > REPLICA_MS => {
            let text = format!(
                "the replica {server} has nothing newer than {} s: look at its \
                 pg_stat_wal_receiver, unless nothing happens",
                behind / 1_000
            );
            found.add(Status::Warning, "array", text);
        }
        _ => found.add(Status::Ok, "array", format!("the replica {server} answers")),
    }
    Ok(())
}

/// Writes an object, reads and removes it.
async fn try_objects(objects: &Objects) -> Result<(), ArrayError> {
    let number: [u8; 8] = random::array().unwrap_or_default();
    let name = format!("doctor-{:016x}", u64::from_le_bytes(number));
    objects.put(&name, b"gauntlet doctor".to_vec().into()).await?;
    let read = objects.get(&name, 9, 6).await;
    objects.delete(&name).await?;
    read.map(drop)
}

/// 15.18 of 150018.
fn version(number: i32) -> String {
    format!("{}.{}", number / 10_000, number % 10_000)
}
