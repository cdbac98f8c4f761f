//! Any bytes through every filter; for the walk of the smoke test and the fuzz target.

use gauntlet_engine::{Scratch, Snapshot, scan};
use gauntlet_mail::{DefectKind, Envelope, Facts, Message};

/// # Panics
/// If a filter fails, or two scans of the same bytes differ in more than their costs.
pub(crate) fn ask(raw: &[u8], snapshot: &Snapshot, scratch: &mut Scratch) {
    let message = Message::parse(raw);
    let (envelope, facts) = (Envelope::default(), Facts::default());
    let mut first = scan(&message, &envelope, &facts, snapshot, scratch);
    let failed = first.defects.iter().find(|d| d.kind == DefectKind::FilterFailed);
    assert!(failed.is_none(), "{failed:?}");
    assert!(first.score.is_finite());
    let again = Message::parse(raw);
    let mut second = scan(&again, &envelope, &facts, snapshot, &mut Scratch::default());
    first.costs.clear();
    second.costs.clear();
    assert_eq!(first, second, "a scan does not depend on what was scanned before");
}
