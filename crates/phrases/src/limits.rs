//! Limits of reading lists. Reaching one is a problem of the list, told with its place.

/// Bytes of one file.
pub const FILE_BYTES_MAX: usize = 16 << 20;
/// Files in all, included ones among them.
pub const FILES_MAX: usize = 1_000;
/// Files inside each other by `.Include`.
pub const INCLUDE_DEPTH_MAX: usize = 16;
/// Lines in all.
pub const LINES_MAX: u64 = 2_000_000;
/// Bytes of one line; a longer one is not read.
pub const LINE_BYTES_MAX: usize = 16 << 10;
/// Phrases and combinations in all.
pub const PHRASES_MAX: usize = 200_000;
/// Bytes of one phrase. DansGuardian and e2guardian cut at 127.
pub const PHRASE_BYTES_MAX: usize = 256;
/// Bytes of all phrases: the automaton takes about 40 times as much while it is built.
pub const ALL_PHRASES_BYTES_MAX: usize = 8 << 20;
/// Phrases of one combination.
pub const PARTS_MAX: usize = 32;
/// Bytes of a category's name.
pub const CATEGORY_BYTES_MAX: usize = 128;
/// Categories in all.
pub const CATEGORIES_MAX: usize = 10_000;
/// A weight, either sign.
pub const WEIGHT_MAX: i32 = 1_000_000;
/// Problems that are kept with their place; beyond, they are counted.
pub const PROBLEMS_KEPT_MAX: usize = 1_000;
