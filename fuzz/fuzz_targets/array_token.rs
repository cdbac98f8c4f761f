//! Tokens by which nodes join an array, as people paste them. Run with `cargo +nightly fuzz run
//! array_token`.

#![no_main]

use gauntlet_array::joining::Token;

libfuzzer_sys::fuzz_target!(|text: &str| {
    if let Ok(token) = Token::parse(text) {
        // What is read can be written, and is the same then.
        assert_eq!(Token::parse(&token.to_text()).ok(), Some(token));
    }
});
