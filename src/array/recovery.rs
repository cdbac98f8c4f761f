//! A node whose disk went back in time (a backup that was restored, a snapshot of a machine) takes
//! from its array what it does not know any more of its own held mail.
//!
//! The array has the list and the bodies. What it has as held and the node does not know comes
//! back; what the node still has as held although it was released or deleted is noted as that, so
//! that nobody releases it a second time. What a node knows better than the array is left alone.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use anyhow::Context;
use gauntlet_array::{MemberState, SharedQuarantine};
use gauntlet_gateway::Node;
use gauntlet_gateway::clock::now_ms;
use gauntlet_store::StoreError;
use gauntlet_store::quarantine::{Begin, HeldMail, Quarantine, ReleaseOrder, ReleaseRight, State};

/// Between two looks whether the array is there and has all of this node's changes.
const LOOK_PAUSE: Duration = Duration::from_secs(2);
/// Who noted it, in the activity log.
const WHO: &str = "array";

/// What was mended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Mended {
    brought_back: u64,
    released: u64,
    deleted: u64,
    /// Bodies that could not be read.
    failed: u64,
}

/// Compares once after a start, on a thread of its own, when the array is there.
pub(super) fn watch(
    node: &Arc<Node>,
    held: Arc<SharedQuarantine>,
    array: Arc<Mutex<MemberState>>,
) -> anyhow::Result<()> {
    let node = Arc::downgrade(node);
    std::thread::Builder::new()
        .name("held-recovery".to_owned())
        .spawn(move || {
            while !is_done(&node, &held, &array) {
                std::thread::sleep(LOOK_PAUSE);
            }
        })
        .context("cannot start the thread that compares held mail")?;
    Ok(())
}

/// Compares, if that can be done now.
fn is_done(node: &Weak<Node>, held: &SharedQuarantine, array: &Mutex<MemberState>) -> bool {
    let Some(node) = node.upgrade() else { return true };
    if !array.lock().unwrap_or_else(PoisonError::into_inner).is_connected {
        return false;
    }
    let own = &node.quarantine;
    // What is not shipped yet differs, and is no sign of anything.
    if !own.backlog().is_ok_and(|backlog| backlog.changes == 0) {
        return false;
    }
    let name = node.config().node.host_name();
    match differs(own, held, &name).and_then(|differs| match differs {
        true => mend(own, held, &name).map(Some),
        false => Ok(None),
    }) {
        Ok(None) => {}
        Ok(Some(Mended { brought_back, released, deleted, failed })) => {
            if brought_back + released + deleted + failed > 0 {
                tracing::warn!(
                    brought_back,
                    released,
                    deleted,
                    failed,
                    "held mail was older than the array knows it: was a backup restored?"
                );
            }
        }
        Err(error) => {
            tracing::warn!(%error, "held mail could not be compared with the array's");
            return false;
        }
    }
    true
}

/// Whether node and array hold another number of messages.
fn differs(own: &Quarantine, held: &SharedQuarantine, name: &str) -> Result<bool, StoreError> {
    let here: u64 = own.folders()?.iter().map(|folder| folder.items).sum();
    Ok(held.held_by(name)? != here)
}

fn mend(own: &Quarantine, held: &SharedQuarantine, name: &str) -> Result<Mended, StoreError> {
    let (mut mended, mut seq) = (Mended::default(), i64::MIN);
    loop {
        let known = held.items_of(name, seq)?;
        let Some(last) = known.last() else { return Ok(mended) };
        seq = last.seq;
        for there in &known {
            let here = own.get(&there.item)?.map(|held| held.state);
            match (there.state.as_str(), here) {
                ("held", None) => match bring_back(own, held, &format!("{}@{name}", there.item)) {
                    Ok(()) => mended.brought_back += 1,
                    Err(error) => {
                        tracing::error!(item = there.item, %error, "a held message is lost here");
                        mended.failed += 1;
                    }
                },
                ("released", Some(State::Held)) => {
                    note_released(own, &there.item)?;
                    mended.released += 1;
                }
                ("deleted", Some(State::Held)) => {
                    own.delete(&there.item, WHO, now_ms())?;
                    mended.deleted += 1;
                }
                _ => {}
            }
        }
    }
}

/// Holds a message here as the array does.
fn bring_back(own: &Quarantine, held: &SharedQuarantine, place: &str) -> Result<(), StoreError> {
    let gone = || StoreError::Invalid {
        what: "a held message of the array",
        cause: format!("{place} is not there any more"),
    };
    let known = held.get(place)?.ok_or_else(gone)?;
    let body = held.body(place)?.ok_or_else(gone)?;
    own.put(&known.item, &body).map(drop)
}

/// It was released before: nothing is sent.
fn note_released(own: &Quarantine, item: &str) -> Result<(), StoreError> {
    let (who, right) = (WHO.to_owned(), ReleaseRight::Admin);
    let order = ReleaseOrder { who, right, ..ReleaseOrder::default() };
    if let Begin::Started(release) = own.begin_release(item, &order, now_ms())? {
        own.finish_release(&release.token, now_ms())?;
    }
    Ok(())
}
