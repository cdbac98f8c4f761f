//! Maps for short keys: foldhash, seeded anew by every process. Std's own hash withstands an attacker who
//! sees what becomes of his keys, which nobody does here, and costs several times as much.

/// A map by short keys.
pub type HashMap<K, V> = std::collections::HashMap<K, V, foldhash::fast::RandomState>;
/// A set of short keys.
pub type HashSet<K> = std::collections::HashSet<K, foldhash::fast::RandomState>;
