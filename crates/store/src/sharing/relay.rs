//! What the table of an array does between nodes, in memory: for tests of parts that are shared.
//! Tests of other crates include this file by its path.

use super::{Cursors, Incoming, SharedPart};

/// Sends what waits in this part of a node; with `is_cut` the node dies before it knows that its
/// first batch was taken.
pub(crate) fn send(part: &dyn SharedPart, node: i16, log: &mut Vec<Incoming>, is_cut: bool) {
    while let Some(out) = part.collect().unwrap() {
        let number = log.len() as i64 + 1;
        log.push(Incoming { node, number, body: out.body });
        if is_cut {
            return;
        }
        part.sent(out.mark).unwrap();
    }
}

/// What others sent after these cursors; `back` steps back for duplicates.
pub(crate) fn news(cursors: &Cursors, node: i16, log: &[Incoming], back: i64) -> Vec<Incoming> {
    let is_new = |batch: &&Incoming| {
        let cursor = cursors.get(&batch.node).copied().unwrap_or(0);
        batch.node != node && batch.number > cursor - back
    };
    log.iter().filter(is_new).cloned().collect()
}
