//! Orders to another node of the array about its queue.

use std::time::Duration;

use gauntlet_array::orders::Order;
use gauntlet_console::{NodeError, QueueOrder, QueueOrdered};

use super::member::Membership;

/// How long a page waits for the answer of another node.
const ANSWER_MAX: Duration = Duration::from_secs(4);

/// Orders another node to do something with messages of its queue; waits some seconds for the
/// answer.
pub(crate) fn give(
    array: &Membership,
    node: &str,
    order: QueueOrder,
    ids: &[&str],
    who: &str,
) -> Result<QueueOrdered, NodeError> {
    let ids = ids.iter().map(|id| (*id).to_owned()).collect();
    let order = match order {
        QueueOrder::Retry => Order::Retry { ids },
        QueueOrder::Hold => Order::Hold { ids },
        QueueOrder::Delete => Order::Discard { ids },
    };
    let wanted = [(node.to_owned(), order)];
    let rows =
        array.give(&wanted, who, ANSWER_MAX).map_err(|e| NodeError::new(format!("{e:#}")))?;
    let row = rows.into_iter().next().ok_or_else(|| NodeError::new("the order is not kept"))?;
    Ok(QueueOrdered {
        node: row.node,
        order: row.id,
        is_done: row.done_ms.is_some(),
        is_good: row.is_good == Some(true),
        outcome: row.outcome.unwrap_or_default(),
    })
}
