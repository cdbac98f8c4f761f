//! A pattern, a zero byte, a text: our engines, the prefilter and PCRE2 on the pattern as written
//! say the same.
//!
//! `cargo +nightly fuzz run rules_matcher`

#![no_main]

use gauntlet_rules::Pattern;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some(end) = memchr::memchr(0, input) else { return };
    let Ok(written) = std::str::from_utf8(&input[..end]) else { return };
    let text = &input[end + 1..];
    let Ok(ours) = Pattern::new(written) else { return };
    if let Err(difference) = ours.self_check(text) {
        panic!("{written:?}: {difference}");
    }
    // Constructs that mean something else in Perl than in PCRE2, or case folding of Latin-1.
    let differs = ["(?i", "(?^", "(?x", "\\h", "\\v", "%{", "$", "{,", "[:", "\\c", "\\N", "(*"];
    if !written.is_ascii() || differs.iter().any(|d| written.contains(d)) {
        return;
    }
    let Ok(theirs) = pcre2::bytes::Regex::new(written) else { return };
    if let (Ok(ours), Ok(theirs)) = (ours.matches(text), theirs.is_match(text)) {
        assert_eq!(ours, theirs, "{written:?}");
    }
});
