//! Formats of the files in a data folder, and their versions as they lie on the disk.
//!
//! Each crate lists its own ([`FORMATS`] are this one's). A file says its version itself: a
//! database by its schema, the others by a number behind their first bytes. All that have no such
//! mark share one, in a file of the folder ([`folder`]).
//!
//! Everything here reads, and changes nothing: not even SQLite is asked, which would make files
//! beside a database.

pub mod folder;
mod survey;

pub use self::survey::{Found, Places, refuse_newer, survey};
pub use crate::at_rest::schema_version;

/// How a file says its version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// `PRAGMA user_version` of a database of SQLite.
    Schema,
    /// A number of four bytes, little-endian, behind these.
    Number([u8; 8]),
}

/// What becomes of a file of an earlier version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Earlier {
    /// It is brought forward when it is opened for writing.
    Migrated,
    /// It is read as it is; what is new is written into files of this version.
    Read,
    /// No version of it can be read but this one.
    Refused,
}

/// A kind of file in a data folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Format {
    /// What the files hold, for people.
    pub name: &'static str,
    /// Their folder in the data folder.
    pub folder: &'static str,
    /// Names of files, whole or from a dot on.
    pub files: &'static [&'static str],
    /// Where the version stands.
    pub mark: Mark,
    /// Oldest version that this program reads.
    pub oldest: u32,
    /// Version that this program writes, the newest that it reads.
    pub known: u32,
    /// What becomes of files of a version before.
    pub earlier: Earlier,
}

impl Format {
    /// Whether a file of the format's folder is of the format, by its name.
    fn has(&self, name: &str) -> bool {
        self.files.iter().any(|file| match file.starts_with('.') {
            true => name.ends_with(file),
            false => name == *file,
        })
    }
}

/// A database whose schema these migrations make.
const fn database(
    name: &'static str,
    folder: &'static str,
    files: &'static [&'static str],
    migrations: &[&str],
) -> Format {
    let known = migrations.len() as u32;
    Format { name, folder, files, mark: Mark::Schema, oldest: 1, known, earlier: Earlier::Migrated }
}

/// Formats of the stores of this crate.
pub const FORMATS: &[Format] = &[
    database("message log", "log", &[".db"], crate::log::MIGRATIONS),
    database("held mail", "quarantine", &["quarantine.db"], crate::quarantine::MIGRATIONS),
    Format {
        name: "packs of held mail",
        folder: "quarantine/packs",
        files: &[".pack"],
        mark: Mark::Number(*crate::packs::FILE_MAGIC),
        oldest: crate::packs::VERSION,
        known: crate::packs::VERSION,
        earlier: Earlier::Read,
    },
    database("users", "console", &["users.db"], crate::users::MIGRATIONS),
    database("versions of the policy", "policies", &["policies.db"], crate::policies::MIGRATIONS),
    database("memory of senders", "history", &["history.db"], &crate::history::MIGRATIONS),
    database("releases of the web", "web", &["releases.db"], crate::web_releases::MIGRATIONS),
    database("web log", "web", &[".db"], crate::web_log::MIGRATIONS),
    database("alerts", "alerts", &[".db"], crate::alert_log::MIGRATIONS),
    Format {
        name: "spool",
        folder: survey::SPOOL,
        files: &[".seg", ".sta"],
        mark: Mark::Number(*crate::spool::FILE_MAGIC),
        oldest: 1,
        known: crate::spool::VERSION,
        earlier: Earlier::Read,
    },
];
