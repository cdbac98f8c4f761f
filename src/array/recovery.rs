//! A node and its array, of which one went back in time (a backup that was restored, a snapshot of
//! a machine, a replica that lagged), tell each other what they do not know of held mail any more.
//!
//! The array has the list and the bodies. What it has as held and the node does not know comes
//! back; what the node still has as held although it was released or deleted is noted as that, so
//! that nobody releases it a second time; what the array does not know, or knows as it was before,
//! is sent again. Of two states the one that changed last counts. They compare when a connection
//! begins, and their numbers of held messages or their last changes differ.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context;
use gauntlet_array::held_recovery::KnownItem;
use gauntlet_array::{MemberState, SharedQuarantine};
use gauntlet_gateway::Node;
use gauntlet_gateway::clock::now_ms;
use gauntlet_store::StoreError;
use gauntlet_store::quarantine::{
    Begin, HeldMail, HeldQuery, Quarantine, ReleaseOrder, ReleaseRight, State,
};

/// Between two looks whether the array is there and has all of this node's changes.
const LOOK_PAUSE: Duration = Duration::from_millis(500);
/// Who noted it, in the activity log.
const WHO: &str = "array";

/// What was mended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Mended {
    brought_back: u64,
    released: u64,
    deleted: u64,
    sent_again: u64,
    /// Bodies that could not be read.
    failed: u64,
}

/// Compares at each connection, on a thread of its own, until the node ends. `knows_held` becomes
/// true when it was done for the first time: orders about held mail wait for that.
pub(super) fn watch(
    node: &Arc<Node>,
    held: Arc<SharedQuarantine>,
    array: Arc<Mutex<MemberState>>,
    knows_held: Arc<AtomicBool>,
) -> anyhow::Result<()> {
    let node = Arc::downgrade(node);
    std::thread::Builder::new()
        .name("held-recovery".to_owned())
        .spawn(move || {
            let mut compared_ms = None;
            while let Some(node) = node.upgrade() {
                look(&node, &held, &array, (&knows_held, &mut compared_ms));
                drop(node);
                std::thread::sleep(LOOK_PAUSE);
            }
        })
        .context("cannot start the thread that compares held mail")?;
    Ok(())
}

/// Compares, if that was not done with this connection and can be done now. `compared_ms` is since
/// when the connection was there with which it was done.
fn look(
    node: &Node,
    held: &SharedQuarantine,
    array: &Mutex<MemberState>,
    (knows_held, compared_ms): (&AtomicBool, &mut Option<i64>),
) {
    let since_ms = {
        let state = array.lock().unwrap_or_else(PoisonError::into_inner);
        state.is_connected.then_some(state.since_ms)
    };
    if since_ms.is_none() || since_ms == *compared_ms {
        return;
    }
    let (own, began_ms) = (&node.quarantine, now_ms());
    let Ok(backlog) = own.backlog() else { return };
    // What is not shipped yet differs, and is no sign of anything. On a busy node something always
    // waits; what the array knows better is taken the first time all the same.
    let waits = backlog.changes > 0;
    if waits && knows_held.load(Ordering::Acquire) {
        return;
    }
    let name = node.config().node.host_name();
    let mended = match waits {
        true => take(own, held, &name).map(|(mended, _)| mended),
        false => differs(own, held, &name).and_then(|differs| match differs {
            true => mend(own, held, &name, began_ms),
            false => Ok(Mended::default()),
        }),
    };
    match mended {
        Ok(Mended { brought_back, released, deleted, sent_again, failed }) => {
            if !waits {
                *compared_ms = since_ms;
            }
            knows_held.store(true, Ordering::Release);
            if brought_back + released + deleted + failed > 0 {
                tracing::warn!(
                    brought_back,
                    released,
                    deleted,
                    failed,
                    "held mail was older than the array knows it: was a backup restored?"
                );
            }
            if sent_again > 0 {
                tracing::warn!(sent_again, "the array did not know held mail: was it set back?");
            }
        }
        Err(error) => tracing::warn!(%error, "held mail could not be compared with the array's"),
    }
}

/// Whether node and array hold another number of messages, or one of them knows a later change.
fn differs(own: &Quarantine, held: &SharedQuarantine, name: &str) -> Result<bool, StoreError> {
    let here: u64 = own.folders()?.iter().map(|folder| folder.items).sum();
    Ok(held.held_by(name)? != (here, own.last_change_ms()?))
}

/// Both directions. What changed here after `began_ms` may not be shipped yet.
fn mend(
    own: &Quarantine,
    held: &SharedQuarantine,
    name: &str,
    began_ms: i64,
) -> Result<Mended, StoreError> {
    let (mut mended, known) = take(own, held, name)?;
    mended.sent_again += send_again(own, &known, began_ms)?;
    Ok(mended)
}

/// Goes through what the array knows of this node's items; their ids.
fn take(
    own: &Quarantine,
    held: &SharedQuarantine,
    name: &str,
) -> Result<(Mended, BTreeSet<String>), StoreError> {
    let (mut mended, mut seq, mut known) = (Mended::default(), i64::MIN, BTreeSet::new());
    loop {
        let items = held.items_of(name, seq)?;
        let Some(last) = items.last() else { break };
        seq = last.seq;
        for there in items {
            mend_one(own, held, name, &there, &mut mended)?;
            known.insert(there.item);
        }
    }
    Ok((mended, known))
}

fn mend_one(
    own: &Quarantine,
    held: &SharedQuarantine,
    name: &str,
    there: &KnownItem,
    mended: &mut Mended,
) -> Result<(), StoreError> {
    let here = own.get(&there.item)?.map(|held| (held.state, held.changed_ms));
    if let Some((state, changed_ms)) = here
        && state.name() != there.state
        && changed_ms > there.changed_ms
    {
        own.ship_again(std::slice::from_ref(&there.item))?;
        mended.sent_again += 1;
        return Ok(());
    }
    match (there.state.as_str(), here.map(|(state, _)| state)) {
        // Retention has removed it, and the array does not know that yet.
        ("held", None) if own.waits_for_array(&there.item)? => {}
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
    Ok(())
}

/// Has what is held here and not among the items that the array knows wait for it again.
fn send_again(
    own: &Quarantine,
    known: &BTreeSet<String>,
    began_ms: i64,
) -> Result<u64, StoreError> {
    let (mut sent, mut after) = (0, None);
    loop {
        let query =
            HeldQuery { state: Some(State::Held), after, limit: 500, ..HeldQuery::default() };
        let page = own.search(&query)?;
        let before = page.items.into_iter().filter(|held| held.changed_ms < began_ms);
        let ids = before.map(|held| held.item.id);
        let unknown: Vec<String> = ids.filter(|id| !known.contains(id)).collect();
        own.ship_again(&unknown)?;
        sent += unknown.len() as u64;
        after = page.next;
        if after.is_none() {
            return Ok(sent);
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
