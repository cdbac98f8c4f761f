//! The queue of a node as the other nodes of its array see it, and what they order about it.

use gauntlet_array::nodes::{REPLY_BYTES_MAX, WAITING_MAX, Waiting};
use gauntlet_console::QueuedMail;
use gauntlet_gateway::text::excerpt;
use gauntlet_gateway::{Node, control, ids};

/// Messages of the queue that are looked at for those that wait for a reason.
const LOOKED_AT: usize = 200;

/// What a node tells the array of its queue: what waits after a failed attempt or is held back.
pub(super) fn waiting(node: &Node) -> Vec<Waiting> {
    if node.queue.count() == 0 {
        return Vec::new();
    }
    let listed = control::list(node, LOOKED_AT).into_iter();
    let stuck = listed.filter(|mail| !mail.active && (mail.attempts > 0 || mail.due_ms.is_none()));
    let told = stuck.take(WAITING_MAX).map(|mail| Waiting {
        id: mail.id,
        from: mail.from,
        recipients: mail.to.len() as u64,
        to: mail.to.into_iter().next().unwrap_or_default(),
        due_ms: mail.due_ms,
        attempts: mail.attempts,
        size: mail.size,
        reply: excerpt(&mail.reply, REPLY_BYTES_MAX),
        leaving_to: mail.leaving_to,
    });
    told.collect()
}

/// What a node told, as pages show it.
pub(super) fn view(waiting: Waiting) -> QueuedMail {
    QueuedMail {
        id: waiting.id,
        due_ms: waiting.due_ms,
        active: false,
        from: waiting.from,
        to: Some(waiting.to).filter(|to| !to.is_empty()).into_iter().collect(),
        more: waiting.recipients.saturating_sub(1),
        size: waiting.size,
        attempts: waiting.attempts,
        reply: waiting.reply,
        leaving_to: waiting.leaving_to,
    }
}

/// Carries out `Order::Retry`.
pub(super) fn retry(node: &Node, ids: &[String]) -> Result<String, String> {
    let ids = here(node, ids)?;
    Ok(format!("{} messages are tried now", node.queue.retry(&ids)))
}

/// Carries out `Order::Hold`.
pub(super) fn hold(node: &Node, ids: &[String]) -> Result<String, String> {
    let ids = here(node, ids)?;
    Ok(format!("{} messages are held", node.queue.hold(&ids)))
}

/// Carries out `Order::Discard`. One that is carried out a second time finds nothing to do.
pub(super) fn discard(node: &Node, ids: &[String], who: &str) -> Result<String, String> {
    let mut deleted = 0;
    for id in parsed(ids)? {
        match node.queue.delete(id, who) {
            Ok(()) => deleted += 1,
            Err(_) if node.queue.show(id).is_none() => {}
            Err(error) => return Err(format!("{deleted} messages are deleted; {error}")),
        }
    }
    Ok(format!("{deleted} messages are deleted"))
}

/// The numbers of messages that are not on their way to another node.
fn here(node: &Node, texts: &[String]) -> Result<Vec<u64>, String> {
    let ids = parsed(texts)?;
    node.queue.check_here(&ids).map_err(|error| error.to_string())?;
    Ok(ids)
}

fn parsed(texts: &[String]) -> Result<Vec<u64>, String> {
    let parse = |id: &String| ids::parse(id).ok_or_else(|| format!("{id:?} is no message id"));
    texts.iter().map(parse).collect()
}
