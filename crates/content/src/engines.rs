//! Malware engines: programs and lists that know files by name.
//!
//! Each engine answers for one file at a time ([`Engine`]). [`EngineSet`] queries all of them at
//! once for the objects of a tree, each content once, remembers what they said ([`Cache`]), leaves
//! an engine alone for a while that fails again and again ([`Breaker`]), and writes into the tree
//! what they found, what they could not do, and what that means.
//!
//! Everything here blocks: call it on a thread that may wait.

mod breaker;
mod cache;
pub mod clamd;
pub mod command;
pub mod connection;
pub mod hash_list;
pub mod icap;
mod names;
mod set;
pub mod yara;

use std::time::Instant;

use gauntlet_sniff::FileKind;

pub use breaker::Breaker;
pub use cache::Cache;
pub use names::NamePatterns;
pub use set::{Contents, EngineOptions, EngineSet, EngineState, EngineStatistics, Member};

/// A file that an engine looks at.
#[derive(Debug, Clone, Copy)]
pub struct EngineItem<'a> {
    /// Path in the tree, such as `invoice.zip/run.exe`.
    pub path: &'a str,
    /// What the bytes are.
    pub kind: FileKind,
    /// All bytes of the file, as unpacked.
    pub bytes: &'a [u8],
    /// SHA-256, 64 hexadecimal digits.
    pub sha256: &'a str,
    /// MD5, 32 hexadecimal digits.
    pub md5: &'a str,
}

/// What an engine says of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The engine has read it and found nothing.
    Clean,
    /// Names, at least one.
    Found(Vec<String>),
    /// Larger than the engine takes.
    TooLarge,
    /// It tried, and answered with an error.
    Unreadable(String),
}

/// Why an engine gave no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// No connection, or it ended early.
    #[error("not reachable: {0}")]
    Unreachable(String),
    /// It took longer than its time.
    #[error("no answer in time")]
    OutOfTime,
    /// It answered with an error, or with what its protocol does not know.
    #[error("{0}")]
    Failed(String),
}

impl From<std::io::Error> for EngineError {
    fn from(error: std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::TimedOut | std::io::ErrorKind::WouldBlock => EngineError::OutOfTime,
            std::io::ErrorKind::InvalidData => EngineError::Failed(error.to_string()),
            _ => EngineError::Unreachable(error.to_string()),
        }
    }
}

/// What scans one file at a time: a daemon, a command, rules or a list of hashes.
pub trait Engine: std::fmt::Debug + Send + Sync {
    /// Program and signatures: an answer under another version is not reused.
    ///
    /// # Errors
    /// If it does not answer before `until`.
    fn version(&self, until: Instant) -> Result<String, EngineError>;

    /// Looks at a file.
    ///
    /// # Errors
    /// [`EngineError`]: there is no answer, which is not the same as a clean file.
    /// [`EngineError::Failed`] concerns this file; the others concern the engine.
    fn scan(&self, item: &EngineItem<'_>, until: Instant) -> Result<Answer, EngineError>;

    /// Whether an answer is worth remembering: not where giving it again is as fast.
    fn is_expensive(&self) -> bool {
        true
    }
}
