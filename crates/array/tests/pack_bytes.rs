//! Any bytes as a pack of the array's log. Shared with the fuzz target
//! `fuzz/fuzz_targets/array_pack.rs`.

use gauntlet_array::pack::{Decoder, Unpacked, start_bytes};

/// Unfolds the bytes, as a whole pack and as the start of one, and reads every message that they
/// claim to hold.
pub(crate) fn read(bytes: &[u8]) {
    let _known_or_not = start_bytes(bytes);
    if let Ok(Some(unpacked)) = Unpacked::of_start(bytes, Decoder::default()) {
        assert!(unpacked.find(&[], &[]).iter().all(|place| unpacked.cursor(*place).is_some()));
    }
    let Ok(mut unpacked) = Unpacked::new(bytes) else { return };
    for place in unpacked.find(&[], &[]) {
        assert!(unpacked.cursor(place).is_some());
        let _read_or_refused = unpacked.message(place);
    }
}
