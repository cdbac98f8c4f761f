//! Errors of the spool.

use std::io;

/// An error of the spool.
#[derive(Debug, thiserror::Error)]
pub enum SpoolError {
    /// An operation of the medium failed.
    #[error("spool file {path}: cannot {what}: {source}")]
    Io {
        /// Path of the file or folder.
        path: String,
        /// What was attempted, as a verb for the text of the error.
        what: &'static str,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The file was written by a newer version of this program.
    #[error(
        "spool file {path}: its format is version {found}, newer than {known}, the newest that this \
         program knows; run the version that wrote it until the queue is empty",
        known = super::VERSION
    )]
    Newer {
        /// Name of the file.
        path: String,
        /// Format version of the file.
        found: u32,
    },
    /// The file is not a spool file, although its name is that of one.
    #[error(
        "{path} has the name of a spool file but is not one: move it out of the spool's folder"
    )]
    NoSpoolFile {
        /// Name of the file.
        path: String,
    },
    /// A record is damaged.
    #[error(
        "spool file of segment {segment}, offset {offset}: the record is damaged and is kept; restore the \
         spool's folder from a backup while the node is stopped, or have the message sent again"
    )]
    Damaged {
        /// Number of the segment.
        segment: u64,
        /// Offset of the record in bytes.
        offset: u64,
    },
    /// There is no such message, or it is done.
    #[error("message {0:x} is not in the spool")]
    Unknown(u64),
    /// Another message has this id.
    #[error("the spool has another message {0:x} already")]
    Taken(u64),
    /// There is no space: retry later.
    #[error("the spool is full: {free} bytes are free, {used} are used")]
    Full {
        /// Free bytes of the medium.
        free: u64,
        /// Bytes of all segments.
        used: u64,
    },
    /// The batch of the message could not be written.
    #[error("the spool cannot write: {0}")]
    NotWritten(String),
    /// The spool is closed.
    #[error("the spool is closed")]
    Closed,
}
