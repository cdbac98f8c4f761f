//! What nodes answered to orders about held mail, where the index does not know it yet: a node
//! ships what became of an item some seconds after it did it.

use gauntlet_store::quarantine::{Held, State};

use crate::orders::OrderRow;

/// Orders looked through for those about held mail, which may be newer than the rows of its index.
pub(crate) const LOOKED_AT: u32 = 1_000;

/// Brings items up to what nodes answered to orders about them.
pub(crate) fn settle(items: &mut [Held], orders: &[(String, OrderRow)]) {
    for held in items.iter_mut().filter(|held| held.state == State::Held) {
        let is_its = |(item, row): &&(String, OrderRow)| {
            *item == held.item.id && row.node == held.node && row.is_good == Some(true)
        };
        let end = orders.iter().filter(is_its).find_map(|(_, row)| match row.kind.as_str() {
            "release" => Some((State::Released, row.done_ms?)),
            "delete" => Some((State::Deleted, row.done_ms?)),
            _ => None,
        });
        // It may have been held again since: a release that reached nobody.
        if let Some((state, at_ms)) = end.filter(|(_, at_ms)| *at_ms >= held.changed_ms) {
            (held.state, held.changed_ms) = (state, at_ms);
        }
    }
}
