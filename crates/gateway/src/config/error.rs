//! What is wrong with a configuration.

use super::masking::mask;
use super::origin::Origin;

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
    /// A value that reads but cannot work, or does not go together with another.
    #[error("{}{key}: {message}", prefix(.set_by))]
    Invalid {
        /// File and line, or variable, that set the value.
        set_by: Origin,
        /// Dotted name of the setting.
        key: String,
        /// What is wrong and what to do.
        message: String,
    },
}

/// What stands before the name of a setting: nothing for a default.
fn prefix(set_by: &Origin) -> String {
    match set_by {
        Origin::Default => String::new(),
        _ => format!("{set_by}: "),
    }
}

impl ConfigError {
    /// A value of this setting that cannot work; [`super::Loaded`] finds out who set it.
    pub(super) fn invalid(key: impl Into<String>, message: impl Into<String>) -> Self {
        let (key, message) = (key.into(), message.into());
        ConfigError::Invalid { set_by: Origin::Default, key, message }
    }

    /// Errors quote values: without the secrets in them.
    pub(super) fn masked(mut self) -> Self {
        match &mut self {
            ConfigError::Read { .. } => {}
            ConfigError::File { message, .. }
            | ConfigError::Environment { message, .. }
            | ConfigError::Invalid { message, .. } => *message = mask(message),
        }
        self
    }
}
