//! What is wrong with a configuration.

use super::masking::mask;

/// Settings that cannot be used.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read the configuration {path}: {cause}")]
    Read {
        /// Path of the configuration file.
        path: String,
        /// The operating system's reason.
        cause: String,
    },
    /// Not TOML, an unknown key, or a value of the wrong type.
    #[error("{path}:{line}: {message}")]
    File {
        /// Path of the configuration file.
        path: String,
        /// Line of the file, from 1.
        line: usize,
        /// What is wrong, with the nearest valid key.
        message: String,
    },
    /// A variable that names no setting or has a wrong value.
    #[error("environment variable {name}: {message}")]
    Environment {
        /// Name of the environment variable.
        name: String,
        /// What is wrong with its value.
        message: String,
    },
    /// Values that read but cannot work.
    #[error("{place}{key}: {message}")]
    Meaning {
        /// File and line, or variable, that set it, with `: `; empty for a default.
        place: String,
        /// Dotted name of the setting.
        key: String,
        /// What is wrong and what to do.
        message: String,
    },
}

impl ConfigError {
    /// Errors quote values: without the secrets in them.
    pub(super) fn masked(mut self) -> Self {
        match &mut self {
            ConfigError::Read { .. } => {}
            ConfigError::File { message, .. }
            | ConfigError::Environment { message, .. }
            | ConfigError::Meaning { message, .. } => *message = mask(message),
        }
        self
    }
}
