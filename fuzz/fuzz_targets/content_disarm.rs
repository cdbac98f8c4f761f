//! Any bytes as documents and pages to be disarmed: no panic, and what is called harmless stays so
//! when it is disarmed again.
//!
//! `cargo +nightly fuzz run content_disarm`

#![no_main]

use gauntlet_content::Limits;
use gauntlet_content::disarm::{Disarmed, disarm};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let limits = Limits::default();
    for (magic, is_page) in
        [(&b"PK\x03\x04"[..], false), (b"%PDF-1.7\n", false), (b"{\\rtf1", false), (b"", true)]
    {
        let bytes = [magic, input].concat();
        if let Disarmed::Changed(harmless) = disarm(&bytes, is_page, &limits) {
            let again = disarm(&harmless.bytes, is_page, &limits);
            assert!(!matches!(again, Disarmed::Refused(_)), "{again:?}");
        }
    }
});
