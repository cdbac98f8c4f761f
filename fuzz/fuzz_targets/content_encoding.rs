//! Any bytes as a file in text: no panic, and an end within the limits.
//!
//! `cargo +nightly fuzz run content_encoding`

#![no_main]

use gauntlet_content::{DefectKind, Limits, NoHost, Password, Root, unpack};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let passwords = [Password { word: "word".to_owned(), source: "body".to_owned() }];
    for magic in [
        &b"begin 644 a\n"[..],
        b"=ybegin line=128 size=9 name=a\n",
        b"\x78\x9f\x3e\x22",
        b"(This file must be converted with BinHex 4.0)\n:",
        b"From a\n",
        b"\x30\x80\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x07\x02\xa0\x80\x30\x80",
    ] {
        let bytes = [magic, input].concat();
        let root = Root { name: "a", declared_type: "", bytes: &bytes };
        let tree = unpack(&[root], &Limits::default(), &passwords, &mut NoHost);
        let failed = tree.unread().any(|(_, defect)| defect.kind == DefectKind::DecoderFailed);
        assert!(!failed, "a decoder panicked");
    }
});
