//! Any bytes through every filter: none fails, and a scan does not depend on the one before.
//!
//! `cargo +nightly fuzz run scan fuzz/corpus/scan samples`

#![no_main]

#[path = "../../crates/engine/tests/everything.rs"]
mod everything;

use std::cell::RefCell;
use std::sync::LazyLock;

use gauntlet_engine::{Scratch, Snapshot};
use libfuzzer_sys::fuzz_target;

static SNAPSHOT: LazyLock<Snapshot> = LazyLock::new(Snapshot::default_rules);

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

fuzz_target!(|raw: &[u8]| {
    SCRATCH.with_borrow_mut(|scratch| everything::ask(raw, &SNAPSHOT, scratch));
});
