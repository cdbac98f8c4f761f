//! Limits of unpacking: what one request may cost, whatever its bytes say.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Limits of one request. Reaching one leaves a [`crate::DefectKind`] on the object where it was
/// reached; what was read until then is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Containers inside each other; a file attached to a message has depth 0.
    pub depth_max: u32,
    /// Objects in all, the files that were given among them.
    pub objects_max: u32,
    /// Bytes that are unpacked in all.
    pub bytes_max: u64,
    /// Bytes of one object; the rest of a larger one is not read.
    pub object_bytes_max: u64,
    /// Bytes that objects may have in memory at the same time: an object and the containers around
    /// it. Those that were given do not count.
    pub memory_bytes_max: u64,
    /// An object that has more than [`Limits::ratio_bytes_min`] and more than this many times the
    /// bytes that it was compressed to is taken for a decompression bomb.
    pub ratio_max: u64,
    /// Objects up to this size are no bombs, whatever their ratio.
    pub ratio_bytes_min: u64,
    /// CPU time for the whole request: what a file may cost, however busy the machine is.
    pub cpu_time_max: Duration,
    /// Time for the whole request by the clock on the wall: for how long somebody waits.
    pub time_max: Duration,
    /// Bytes of text kept of one object.
    pub text_bytes_max: usize,
    /// Bytes of text kept in all.
    pub all_text_bytes_max: usize,
    /// URLs kept in all.
    pub urls_max: usize,
    /// Bytes of one object's name; a longer one is cut.
    pub name_bytes_max: usize,
    /// Properties kept of one object.
    pub properties_max: usize,
    /// Instructions of programs that unpack themselves which are emulated in one request: 50
    /// million take about a second.
    pub instructions_max: u64,
    /// Passwords that are tried on one object.
    pub passwords_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        const MIB: u64 = 1024 * 1024;
        Limits {
            depth_max: 64,
            objects_max: 2_000,
            bytes_max: 256 * MIB,
            object_bytes_max: 64 * MIB,
            memory_bytes_max: 96 * MIB,
            ratio_max: 100,
            ratio_bytes_min: 8 * MIB,
            cpu_time_max: Duration::from_secs(10),
            time_max: Duration::from_secs(60),
            text_bytes_max: 256 * 1024,
            all_text_bytes_max: 1024 * 1024,
            urls_max: 1_000,
            name_bytes_max: 1_024,
            properties_max: 64,
            instructions_max: 50_000_000,
            passwords_max: 50,
        }
    }
}
