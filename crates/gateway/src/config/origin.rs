//! Who set a setting.

use std::fmt;
use std::path::PathBuf;

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// The value that the program comes with.
    Default,
    /// The file, at this line.
    File {
        /// Path of the configuration file.
        path: PathBuf,
        /// Line of the file, from 1.
        line: usize,
    },
    /// The environment variable of this name.
    Environment(String),
    /// The edition of this number of the array's settings.
    Array(i64),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => f.write_str("default"),
            Origin::File { path, line } => write!(f, "{}:{line}", path.display()),
            Origin::Environment(name) => write!(f, "${name}"),
            Origin::Array(number) => write!(f, "settings {number} of the array"),
        }
    }
}
