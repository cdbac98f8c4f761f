//! A walk of nasty requests: every case of `smuggling/`, cut and changed everywhere.

use std::fs;
use std::path::Path;

use crate::request_bytes::feed;

#[test]
fn no_bytes_are_read_as_two_requests() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/smuggling");
    let (mut cases, mut accepted) = (0, 0);
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|e| e != "http") {
            continue;
        }
        cases += 1;
        let bytes = fs::read(&path).unwrap();
        accepted += feed(&bytes);
        for at in 0..bytes.len() {
            feed(&bytes[..at]);
            // A byte becomes one that ends something for somebody.
            for byte in b"\0\r\n :,/@[\x80" {
                let mut changed = bytes.clone();
                changed[at] = *byte;
                feed(&changed);
            }
        }
    }
    assert!(cases > 15 && accepted > 15, "{accepted} requests in {cases} cases");
}

#[test]
fn other_protocols_are_no_requests() {
    for bytes in [
        &b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..],
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0",
        b"\x16\x03\x01\x00\x05hello",
        b"\0",
        b"",
    ] {
        assert_eq!(feed(bytes), 0, "{}", bytes.escape_ascii());
    }
}
