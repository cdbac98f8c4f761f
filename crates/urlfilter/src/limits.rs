//! How much is read of a list. Whatever goes over a limit is a problem that is named, never a
//! silent loss.

/// Bytes of a line; the rest of a longer one is read past, and the line is a problem.
pub const LINE_BYTES_MAX: usize = 8 * 1024;
/// Problems of a file that are kept with line and text; the others are counted.
pub const PROBLEMS_SHOWN_MAX: usize = 10;
/// Different kinds of problems that are counted apart; further ones are counted as `other`.
pub const PROBLEM_KINDS_MAX: usize = 64;
/// Bytes of a line that a problem quotes.
pub const QUOTED_BYTES_MAX: usize = 80;
/// Hosts of one line of a hosts file, and categories of one line of CSV.
pub const NAMES_A_LINE_MAX: usize = 256;
/// Bytes of the name of a category.
pub const CATEGORY_BYTES_MAX: usize = 128;
/// Bytes of a host (RFC 1035 section 2.3.4 has 255, with the lengths of its labels).
pub const HOST_BYTES_MAX: usize = 253;
/// Regular expressions of one compiled list: all of them are tried on every URL.
pub const REGEXES_MAX: usize = 4096;
/// Bytes that one regular expression may compile to.
pub const REGEX_BYTES_MAX: usize = 1 << 20;
/// Bytes that all regular expressions of a list may compile to.
pub const REGEX_SET_BYTES_MAX: usize = 256 << 20;
/// Depth of folders below the one that was named.
pub const FOLDER_DEPTH_MAX: usize = 8;
/// Files of all folders that were named: a compiled list counts them in 16 bits.
pub const SOURCES_MAX: usize = 60_000;
/// Categories of a compiled list: counted in 16 bits.
pub const CATEGORIES_MAX: usize = 60_000;
/// Entries of a compiled list: a place of its table is counted in 32 bits.
pub const ENTRIES_MAX: u64 = 100_000_000;
/// Entries with one key, which differ in kind, category or options.
pub const ENTRIES_A_KEY_MAX: usize = 64;
