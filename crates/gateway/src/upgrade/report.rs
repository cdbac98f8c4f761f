//! What is said of a data folder.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;

use crate::config::faults::Fault;

/// The whole of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The data folder.
    pub data: String,
    /// Version of this program.
    pub program: String,
    /// What it comes to.
    pub outlook: Outlook,
    /// The mark of the folder; none before a version that writes it was started there.
    pub last_run_by: Option<Mark>,
    /// One line for each format that there are files of.
    pub formats: Vec<FormatLine>,
    /// What the first start costs.
    pub migration: MigrationLine,
    /// Whether a node runs there.
    pub node: NodeLine,
    /// The backup that was made last, or the one that was named.
    pub backup: Option<BackupLine>,
    /// The configuration file.
    pub settings: Option<SettingsLine>,
    /// Why this program would not start.
    pub refusals: Vec<String>,
    /// What should be done before.
    pub attention: Vec<String>,
    /// What is good to know.
    pub notes: Vec<String>,
}

/// What it comes to; the worst counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outlook {
    /// Nothing is in the way.
    Fine,
    /// It would start, but something should be done before.
    Attention,
    /// It would not start.
    Refused,
}

/// The mark of the data folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Mark {
    /// Format of the files without a version of their own.
    pub format: u32,
    /// Version of the program that started there last.
    pub version: String,
}

/// What is done with the files of a format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// They are of this version.
    Nothing,
    /// Some are older and are read as they are.
    Read,
    /// Some are older and are brought forward.
    Migrate,
    /// Some cannot be read.
    Refuse,
}

/// The files of a format.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FormatLine {
    /// What they hold.
    pub name: String,
    /// How many there are.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Number of files of each version.
    pub versions: BTreeMap<u32, u64>,
    /// Oldest version that this program reads.
    pub oldest: u32,
    /// Version that this program writes.
    pub known: u32,
    /// What is done with them.
    pub action: Action,
}

/// What the first start costs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct MigrationLine {
    /// Bytes of databases that are brought forward.
    pub bytes: u64,
    /// How long that takes, estimated for a slow disk.
    pub seconds_estimated: u64,
    /// Bytes that must be free.
    pub free_bytes_needed: u64,
    /// Bytes that are free.
    pub free_bytes: Option<u64>,
}

/// The node of the folder.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct NodeLine {
    /// It runs.
    pub is_running: bool,
}

/// A backup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BackupLine {
    /// Its folder.
    pub folder: String,
    /// Unix time in milliseconds at which it was begun.
    pub begun_ms: i64,
    /// Seconds since then.
    pub age_seconds: i64,
    /// It can be verified file by file.
    pub has_hashes: bool,
}

/// The configuration file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SettingsLine {
    /// Its path.
    pub file: String,
    /// Settings that this program does not know, or not in this way.
    pub faults: Vec<Fault>,
}

impl Report {
    pub(super) fn new(data: &Path) -> Self {
        Report {
            data: data.display().to_string(),
            program: env!("CARGO_PKG_VERSION").to_owned(),
            outlook: Outlook::Fine,
            last_run_by: None,
            formats: Vec::new(),
            migration: MigrationLine::default(),
            node: NodeLine::default(),
            backup: None,
            settings: None,
            refusals: Vec::new(),
            attention: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// It would not start, for this.
    pub(super) fn refuse(&mut self, why: String) {
        self.outlook = Outlook::Refused;
        self.refusals.push(why);
    }

    /// Something should be done before.
    pub(super) fn attend(&mut self, why: String) {
        self.outlook = self.outlook.max(Outlook::Attention);
        self.attention.push(why);
    }

    pub(super) fn note(&mut self, what: String) {
        self.notes.push(what);
    }
}
