//! What is looked at, and how much of it.

use gauntlet_verdict::Class;

/// What is looked at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Kinds {
    /// Messages of SMTP, POP3 and IMAP.
    pub mail: bool,
    /// Files of HTTP, FTP, SMB and others.
    pub files: bool,
    /// URLs of HTTP, names of TLS and DNS.
    pub urls: bool,
    /// Words on pages.
    pub words: bool,
}

/// Limits, and what is dropped.
#[derive(Debug, Clone)]
pub struct Settings {
    /// What is looked at.
    pub kinds: Kinds,
    /// Bytes of one message that are kept.
    pub message_bytes_max: u64,
    /// Bytes of all messages that are kept at a time, by all threads.
    pub messages_held_bytes_max: u64,
    /// Bytes of one file that are kept; those of HTTP responses follow the web path's settings.
    pub file_bytes_max: u64,
    /// Bytes of all files that one thread keeps at a time.
    pub files_held_bytes_max: u64,
    /// Files and responses that one thread follows at a time.
    pub files_max: usize,
    /// Inline: flows with an item of this class or a more severe one are dropped.
    pub drop_on: Option<Class>,
}

impl Settings {
    /// Whether an item of this class is dropped.
    pub(crate) fn drops(&self, class: Class) -> bool {
        self.drop_on.is_some_and(|least| class.severity() >= least.severity())
    }
}
