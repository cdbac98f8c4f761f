//! Settings of unpacking: what the files of a message may cost.

use std::time::Duration;

use gauntlet_content::Limits;
use serde::{Deserialize, Serialize};

/// Whether attachments are opened, and within which limits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ContentSettings {
    /// Open archives and documents; without it their insides are not seen.
    pub enabled: bool,
    /// Processes that unpack; 0 takes two more than the process may use CPUs.
    pub workers: usize,
    /// Containers inside each other.
    pub depth_max: u32,
    /// Objects of one message.
    pub objects_max: u32,
    /// Bytes unpacked of one message.
    pub bytes_max: u64,
    /// Bytes of one object.
    pub object_bytes_max: u64,
    /// Bytes of one message's objects in memory at a time.
    pub memory_bytes_max: u64,
    /// Memory that the kernel gives a worker, above what the program needs.
    pub worker_memory_bytes_max: u64,
    /// How many times its compressed size an object may have before it is a bomb.
    pub ratio_max: u64,
    /// Objects up to this size are no bombs.
    pub ratio_bytes_min: u64,
    /// Seconds of CPU time for the files of one message.
    pub cpu_seconds_max: u64,
    /// Seconds for the files of one message by the clock, however busy the machine is.
    pub seconds_max: u64,
    /// Bytes of text that are read of one object.
    pub text_bytes_max: usize,
    /// URLs that are read of one message's objects.
    pub urls_max: usize,
    /// Instructions of programs that unpack themselves which are emulated, of one message.
    pub instructions_max: u64,
    /// Passwords tried on one encrypted file: words of the message, then [`Self::passwords`].
    pub passwords_max: usize,
    /// Passwords that are tried on every encrypted file.
    pub passwords: Vec<String>,
    /// Bytes of one message's objects that wait in memory for malware engines; objects above are
    /// not looked at, and the message is unscannable.
    pub engine_bytes_max: u64,
    /// Messages that engines look at at a time.
    pub engine_messages_max: usize,
    /// Answers of engines that are remembered by content; 0 asks each time. Read at start.
    pub engine_cache_entries_max: usize,
    /// For how many seconds. Read at start.
    pub engine_cache_seconds: u64,
}

impl Default for ContentSettings {
    fn default() -> Self {
        let limits = Limits::default();
        let worker = gauntlet_content::process::supervisor::Settings::default();
        ContentSettings {
            enabled: true,
            workers: 0,
            depth_max: limits.depth_max,
            objects_max: limits.objects_max,
            bytes_max: limits.bytes_max,
            object_bytes_max: limits.object_bytes_max,
            memory_bytes_max: limits.memory_bytes_max,
            worker_memory_bytes_max: worker.memory_bytes_max,
            ratio_max: limits.ratio_max,
            ratio_bytes_min: limits.ratio_bytes_min,
            cpu_seconds_max: limits.cpu_time_max.as_secs(),
            seconds_max: limits.time_max.as_secs(),
            text_bytes_max: limits.text_bytes_max,
            urls_max: limits.urls_max,
            instructions_max: limits.instructions_max,
            passwords_max: limits.passwords_max,
            passwords: vec!["infected".to_owned()],
            engine_bytes_max: 128 << 20,
            engine_messages_max: 16,
            engine_cache_entries_max: 65_536,
            engine_cache_seconds: 3_600,
        }
    }
}

impl ContentSettings {
    /// The limits of one message.
    pub fn limits(&self) -> Limits {
        Limits {
            depth_max: self.depth_max,
            objects_max: self.objects_max,
            bytes_max: self.bytes_max,
            object_bytes_max: self.object_bytes_max,
            memory_bytes_max: self.memory_bytes_max,
            ratio_max: self.ratio_max,
            ratio_bytes_min: self.ratio_bytes_min,
            cpu_time_max: Duration::from_secs(self.cpu_seconds_max.max(1)),
            time_max: Duration::from_secs(self.seconds_max.max(1)),
            text_bytes_max: self.text_bytes_max,
            all_text_bytes_max: self.text_bytes_max.saturating_mul(4),
            urls_max: self.urls_max,
            instructions_max: self.instructions_max,
            passwords_max: self.passwords_max,
            ..Limits::default()
        }
    }

    /// How many workers run at most.
    pub fn workers(&self) -> usize {
        match self.workers {
            0 => std::thread::available_parallelism().map_or(1, usize::from) + 2,
            n => n,
        }
    }
}
