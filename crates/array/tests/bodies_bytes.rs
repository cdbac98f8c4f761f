//! Arbitrary bytes as the record of a body: opened or refused, without a panic.

use gauntlet_array::bodies;

/// Feeds the input as a record, once as it is and once with the check that it should have, so that
/// what is behind the check is reached, too.
pub(crate) fn ask(input: &[u8]) {
    let _opened_or_refused = bodies::open(input, "fuzz", None);
    let rest = input.get(16..).unwrap_or_default();
    let mut record = blake3::hash(rest).as_bytes()[..16].to_vec();
    record.extend_from_slice(rest);
    if let Ok(message) = bodies::open(&record, "fuzz", None) {
        let hash = blake3::hash(&message);
        assert!(rest[1..33] == *hash.as_bytes(), "what is opened has the hash that it should");
    }
}
