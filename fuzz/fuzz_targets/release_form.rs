//! The form by which people ask for release: whatever bytes come, it is read within its bounds.

#![no_main]

use gauntlet_proxy::releases::{FORM_BYTES_MAX, read_form};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let fields = read_form(data);
    assert!(fields.len() <= 16);
    let bytes: usize = fields.iter().map(|(name, value)| name.len() + value.len()).sum();
    // A byte that is no UTF-8 becomes three.
    assert!(bytes <= 3 * FORM_BYTES_MAX);
});
