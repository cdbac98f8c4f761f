//! Mutated samples through every filter: none fails. The target for `cargo fuzz` is
//! `fuzz/fuzz_targets/scan.rs`.

use std::cell::RefCell;
use std::path::Path;

use gauntlet_engine::{Scratch, Snapshot};

/// Pieces that have a meaning to some filter.
const TOKENS: [&[u8]; 20] = [
    b"\n",
    b"\n\n",
    b"Content-Type: text/html\n",
    b"Content-Disposition: attachment; filename=",
    b"a.pdf.exe",
    b"PK\x03\x04",
    b"MZ",
    b"http://xn--",
    b"http://paypal.com@",
    b"<a href=\"https://",
    b"\">https://bank.example</a>",
    b"From: \"PayPal\" <x@",
    b"Reply-To: ",
    b"Received: from ",
    b"viagra",
    b"\xe2\x80\x8b",
    b"\xd0\xb0",
    b"=?utf-8?b?",
    b"List-Id: <",
    b"style=\"display:none\"",
];

#[test]
fn mutated_samples_are_judged() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples");
    let seeds = crate::mutate::seeds(&folder);
    let snapshot = Snapshot::default_rules();
    let scratch = RefCell::new(Scratch::default());
    crate::mutate::walk("scan", seeds, &TOKENS, |raw| {
        crate::everything::ask(raw, &snapshot, &mut scratch.borrow_mut());
    });
}
