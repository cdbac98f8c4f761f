//! Selective acknowledgements of packets.

use super::job::Job;
use super::sequence::{geq, gt, leq, lt};
use super::session::Session;

/// Takes the selective acknowledgements of a packet.
pub(crate) fn take_sack(session: &mut Session, job: &Job<'_>) {
    let records = &job.tcp.sack;
    if records.is_empty() {
        return;
    }
    let side = session.side_mut(job.direction.reverse());
    for (index, &(left, right)) in records.iter().enumerate() {
        let duplicate = lt(left, job.ack()) || index == 1;
        if duplicate || leq(right, side.acknowledged) || gt(right, side.window_end) {
            continue;
        }
        if geq(left, right) || gt(left, side.acknowledged.wrapping_add(side.window)) {
            continue;
        }
        side.sacked.insert(left, right);
    }
    let acknowledged = side.acknowledged;
    side.sacked.prune(acknowledged);
}
