//! What the tests of detectors share.

use crate::detectors;

/// Whether a detector takes this value.
pub(super) fn passes(name: &str, value: &str) -> bool {
    (detectors::by_name(name).expect("a detector").check)(value.as_bytes())
}

/// Of the ten last digits the detector takes the one that is given, and no other.
pub(super) fn one_of(name: &str, value: &str) {
    let first = &value[..value.len() - 1];
    let passing: Vec<String> =
        (0..10).map(|last| format!("{first}{last}")).filter(|value| passes(name, value)).collect();
    assert_eq!(passing, [value], "{name}");
}
