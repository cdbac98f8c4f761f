//! Maps for short keys: foldhash, with a random seed for each process. The standard library's
//! SipHash resists an attacker who chooses keys by observed collisions, which is not possible here,
//! and costs several times as much.

/// A map by short keys.
pub type HashMap<K, V> = std::collections::HashMap<K, V, foldhash::fast::RandomState>;
/// A set of short keys.
pub type HashSet<K> = std::collections::HashSet<K, foldhash::fast::RandomState>;
