//! Any bytes as what mail to probes named, and as domains of good mail; what was read becomes
//! entries. Shared with the fuzz target `fuzz/fuzz_targets/probes.rs`.

use gauntlet_learning::probes::{GoodDomains, RULES_MAX, URLS_MAX, parse};
use gauntlet_learning::url_entries::{EntryRules, entries};

/// The first byte says what the others are.
pub(crate) fn feed(input: &[u8]) {
    let Some((choice, input)) = input.split_first() else { return };
    if choice % 2 == 1 {
        if let Some(domains) = GoodDomains::parse(input) {
            assert!(domains.len() * 10 <= input.len());
        }
        return;
    }
    let read: Vec<_> = input.split(|byte| *byte == b'\n').filter_map(parse).collect();
    assert!(read.iter().all(|s| s.urls.len() <= URLS_MAX && s.rules.len() <= RULES_MAX));
    let rules = EntryRules { messages_min: 1, networks_min: 1, senders_min: 1, entries_max: 100 };
    let made = entries(&read, &rules, |domain| domain.len() % 2 == 0);
    for line in made.phishing.iter().chain(&made.spam) {
        assert!(line.bytes().all(|b| b.is_ascii_graphic() && b != b'#' && b != b','), "{line:?}");
    }
}
