//! Settings of an array: many nodes with one policy, message log and quarantine.

use std::path::PathBuf;

use gauntlet_store::sharing::SharedKind;
use serde::{Deserialize, Serialize};

use super::error::ConfigError;

/// Longest name of a group.
const NAME_BYTES_MAX: usize = 64;

/// The array that the node belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ArraySettings {
    /// Where its database is: `postgres://user:password@host:5432/database`. Empty is a node alone.
    pub database: String,
    /// A replica of the database, which takes no writes: pages and searches of the log ask it
    /// first. Empty asks the database itself.
    pub replica: String,
    /// Where bodies of held mail go: `s3://key:secret@host:port/bucket/prefix`, or
    /// `file:///folder`. Empty keeps held mail on its node alone.
    pub objects: String,
    /// Certificate by which the node signs in to the database (PEM), relative to `node.data`; empty
    /// for a password in its address.
    pub certificate: PathBuf,
    /// Its key (PEM), relative to `node.data`.
    pub key: PathBuf,
    /// Roots by which the database's certificate is verified (PEM), relative to `node.data`; empty
    /// for those of `sender.roots`.
    pub ca: PathBuf,
    /// File of the keys that seal what nodes share of their users, the same on every node; relative
    /// to `node.data`. Empty: users are not shared.
    pub users_key: PathBuf,
    /// Name of the group whose policy the node takes before that of all; empty for none.
    pub group: String,
    /// Seconds between two shipments of what was logged.
    pub ship_seconds: u64,
    /// Seconds between two reports of how the node is.
    pub status_seconds: u64,
    /// Seconds between two looks for policies and orders that no notification told of.
    pub poll_seconds: u64,
    /// Seconds between two shipments of the counts of a day.
    pub counts_seconds: u64,
    /// Days of the array's log; a node with a console drops older ones.
    pub log_days: u32,
    /// State that the node shares with the others.
    pub share: Vec<SharedKind>,
    /// Seconds between two exchanges of it; histories of senders go out with every sixth.
    pub share_seconds: u64,
    /// Days that senders' histories and greylists are kept in the database for nodes that are away
    /// or join; a node with a console drops older ones.
    pub shared_days: u32,
    /// Seconds until a connection is open, encrypted and signed in.
    pub connect_seconds_max: u64,
    /// Seconds for one statement.
    pub query_seconds_max: u64,
}

impl Default for ArraySettings {
    fn default() -> Self {
        ArraySettings {
            database: String::new(),
            replica: String::new(),
            objects: String::new(),
            certificate: PathBuf::new(),
            key: PathBuf::new(),
            ca: PathBuf::new(),
            users_key: PathBuf::new(),
            group: String::new(),
            ship_seconds: 10,
            status_seconds: 10,
            poll_seconds: 30,
            counts_seconds: 600,
            log_days: 100,
            share: SharedKind::ALL.to_vec(),
            share_seconds: 5,
            shared_days: 7,
            connect_seconds_max: 10,
            query_seconds_max: 30,
        }
    }
}

impl ArraySettings {
    /// Whether the node belongs to an array.
    pub fn is_on(&self) -> bool {
        !self.database.is_empty()
    }

    /// Whether the node shares this.
    pub fn shares(&self, kind: SharedKind) -> bool {
        let has_key = kind != SharedKind::Users || !self.users_key.as_os_str().is_empty();
        self.is_on() && has_key && self.share.contains(&kind)
    }

    /// The folder that stands for an object store, if one does.
    pub fn objects_folder(&self) -> Option<&std::path::Path> {
        self.objects.strip_prefix("file://").map(std::path::Path::new)
    }

    /// Checks the settings.
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let ranges = [
            ("array.ship_seconds", self.ship_seconds, 3_600),
            ("array.status_seconds", self.status_seconds, 3_600),
            ("array.poll_seconds", self.poll_seconds, 3_600),
            ("array.counts_seconds", self.counts_seconds, 86_400),
            ("array.log_days", u64::from(self.log_days), 36_500),
            ("array.share_seconds", self.share_seconds, 3_600),
            ("array.shared_days", u64::from(self.shared_days), 366),
            ("array.connect_seconds_max", self.connect_seconds_max, 3_600),
            ("array.query_seconds_max", self.query_seconds_max, 3_600),
        ];
        for (key, value, most) in ranges {
            if !(1..=most).contains(&value) {
                let message = format!("{value} is not between 1 and {most}");
                return Err(ConfigError::invalid(key, message));
            }
        }
        let is_postgres = ["postgres://", "postgresql://"];
        if self.is_on() && !is_postgres.iter().any(|scheme| self.database.starts_with(scheme)) {
            let message = "it does not begin with postgres://".to_owned();
            return Err(ConfigError::invalid("array.database", message));
        }
        let is_replica = is_postgres.iter().any(|scheme| self.replica.starts_with(scheme));
        let is_allowed = is_replica && self.is_on();
        if !self.replica.is_empty() && !is_allowed {
            let message = "postgres://…, beside array.database".to_owned();
            return Err(ConfigError::invalid("array.replica", message));
        }
        let is_store = self.objects.is_empty()
            || ["s3://", "file:///"].iter().any(|scheme| self.objects.starts_with(scheme));
        if !is_store || (!self.objects.is_empty() && !self.is_on()) {
            let message = "s3://… or file:///…, beside array.database".to_owned();
            return Err(ConfigError::invalid("array.objects", message));
        }
        if self.certificate.as_os_str().is_empty() != self.key.as_os_str().is_empty() {
            let message = "it belongs beside array.key: set both, or none".to_owned();
            return Err(ConfigError::invalid("array.certificate", message));
        }
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if self.group.len() > NAME_BYTES_MAX || !self.group.chars().all(is_name) {
            let message = "letters, digits, - _ . only, at most 64".to_owned();
            return Err(ConfigError::invalid("array.group", message));
        }
        Ok(())
    }
}
