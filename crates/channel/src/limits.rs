//! Limits of everything that comes from a channel.

/// Bytes of a root's metadata.
pub const ROOT_BYTES_MAX: u64 = 512 << 10;
/// Bytes of a timestamp's metadata.
pub const TIMESTAMP_BYTES_MAX: u64 = 16 << 10;
/// Bytes of a snapshot's metadata.
pub const SNAPSHOT_BYTES_MAX: u64 = 64 << 10;
/// Bytes of the metadata that lists the files of a version.
pub const TARGETS_BYTES_MAX: u64 = 8 << 20;
/// Versions of the root that one pull follows.
pub const ROOTS_PER_PULL_MAX: u64 = 256;
/// Keys of a root, and signatures of a file of metadata.
pub const KEYS_MAX: usize = 64;
/// Files of a version.
pub const FILES_MAX: usize = 4_096;
/// Bytes of a file's name, folders included.
pub const NAME_BYTES_MAX: usize = 200;
/// Folders above a file.
pub const DEPTH_MAX: usize = 4;
/// Deltas that lead to one file.
pub const DELTAS_PER_FILE_MAX: usize = 32;
/// Bytes of a file that a delta is made from or to: an unpacker holds as much in memory. Larger
/// ones are sent whole; tables of signatures grow by small files instead.
pub const DELTA_FILE_BYTES_MAX: u64 = 128 << 20;
/// Window of the packed form of a whole file, as a power of two: 8 MB.
pub const WHOLE_WINDOW_LOG_MAX: u32 = 23;
/// Bytes of all files of a version, unless a subscription says otherwise: 4 GB.
pub const VERSION_BYTES_MAX: u64 = 4 << 30;
