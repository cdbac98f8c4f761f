//! Any bytes as a pack of the array's log. Shared with the fuzz target
//! `fuzz/fuzz_targets/array_pack.rs`.

use gauntlet_array::pack::Unpacked;

/// Unfolds the bytes, and reads every message that they claim to hold.
pub(crate) fn read(bytes: &[u8]) {
    let Ok(mut unpacked) = Unpacked::new(bytes) else { return };
    for place in unpacked.find(&[], &[]) {
        assert!(unpacked.cursor(place).is_some());
        let _read_or_refused = unpacked.message(place);
    }
}
