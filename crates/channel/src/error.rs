//! Why a channel cannot be read, published or taken over.

use std::io;
use std::path::{Path, PathBuf};

/// What went wrong, and what helps.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The system's.
    #[error("{path}: {cause}")]
    Io {
        /// File or folder.
        path: PathBuf,
        /// Error of the operating system.
        cause: io::Error,
    },
    /// Metadata that cannot be read.
    #[error("{what}: {why}")]
    Malformed {
        /// Which file.
        what: String,
        /// What is wrong with it.
        why: String,
    },
    /// Larger than it may be, before anything of it was parsed.
    #[error("{what} is larger than {bytes_max} bytes, as many as it may have")]
    TooLarge {
        /// Which file.
        what: String,
        /// Its limit.
        bytes_max: u64,
    },
    /// Fewer valid signatures than the role needs.
    #[error(
        "{what} has {valid} of {threshold} signatures that count: it was not made with the keys of \
         this channel; if they were replaced, subscribe again with the channel's new root"
    )]
    Signatures {
        /// Which file.
        what: String,
        /// Distinct keys of the role that signed.
        valid: usize,
        /// How many are needed.
        threshold: u32,
    },
    /// Expired metadata: a mirror that stands still, or a clock that is wrong.
    #[error(
        "{what} expired at {expires}, and this machine's clock says {now}: the mirror is stale, the \
         publisher has stopped (`gauntlet channel publish --refresh`), or the clock is wrong"
    )]
    Expired {
        /// Which file.
        what: String,
        /// When it expired.
        expires: String,
        /// The time it was compared with.
        now: String,
    },
    /// An older version than the one that is trusted.
    #[error("{what} has version {found}, older than {known}, which was seen before: rolled back")]
    RolledBack {
        /// Which file.
        what: String,
        /// The version that came.
        found: u64,
        /// The version that is known.
        known: u64,
    },
    /// Another version, length or hash than what signed metadata say.
    #[error("{what} is not what was signed: {why}")]
    NotAsSigned {
        /// Which file.
        what: String,
        /// What differs.
        why: String,
    },
    /// A bundle for another program.
    #[error(
        "version {version} of the channel needs gauntlet {requires} or later, and this is {ours}: \
         upgrade the program"
    )]
    NewerProgram {
        /// The channel's version.
        version: u64,
        /// The program it needs.
        requires: String,
        /// This program.
        ours: String,
    },
    /// A name that no file of a bundle may have.
    #[error("{name:?} is no name for a file of a bundle: {why}")]
    BadName {
        /// The name.
        name: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A signing key that cannot be used.
    #[error("{path}: {why}")]
    Key {
        /// The key's file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// The mirror did not give a file.
    #[error("{what}: {why}")]
    Fetch {
        /// Which file.
        what: String,
        /// What happened.
        why: String,
    },
    /// Anything that an administrator can correct.
    #[error("{0}")]
    Refused(String),
}

impl Error {
    /// For `map_err` of what touches a file.
    pub fn io(path: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        move |cause| Error::Io { path: path.to_owned(), cause }
    }

    /// Metadata that cannot be read.
    pub fn malformed(what: &str, why: impl std::fmt::Display) -> Self {
        Error::Malformed { what: what.to_owned(), why: why.to_string() }
    }

    /// Signed metadata say otherwise.
    pub fn not_as_signed(what: &str, why: impl std::fmt::Display) -> Self {
        Error::NotAsSigned { what: what.to_owned(), why: why.to_string() }
    }
}
