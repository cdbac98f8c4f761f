//! Any bytes as answers of malware engines, rules and lists of hashes: no panic, and an end.
//!
//! `cargo +nightly fuzz run engines`

#![no_main]

use gauntlet_content::engines::hash_list::HashList;
use gauntlet_content::engines::yara::Yara;
use gauntlet_content::engines::{clamd, icap};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let _any_answer_will_do = clamd::answer(&String::from_utf8_lossy(input));
    let _any_answer_will_do = icap::read_answer(&mut &*input);
    let path = std::env::temp_dir().join(format!("gauntlet-fuzz-{}", std::process::id()));
    std::fs::write(&path, input).expect("a temporary file");
    if let Ok((list, _)) = HashList::load(&path) {
        list.find(&"0".repeat(64)).expect("the list can be read");
    }
    Yara::load(&[path]).expect("mistakes in rules are reported, not errors");
});
