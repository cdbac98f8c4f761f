//! Settings that the nodes of an array share: an edition of some sections of the configuration.
//!
//! What a node's own file or its environment sets wins: an edition takes the place of defaults. So
//! whoever runs a machine keeps the last word on it, and a setting moves to the array by being
//! taken out of the files.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use super::error::ConfigError;
use super::origin::Origin;
use super::settings::Config;

/// Sections that may be shared: those that a reload applies whole, and that name no listeners, no
/// folders of the machine and no secrets.
const SECTIONS: [&str; 14] = [
    "digest",
    "dmarc_reports",
    "dns_list",
    "domains",
    "facts",
    "folder",
    "greylist",
    "limits",
    "lists",
    "next_hop",
    "rates",
    "report",
    "thresholds",
    "tls_reports",
];

/// An edition of shared settings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedSettings {
    /// Its number in the array.
    pub number: i64,
    /// TOML, as a configuration file has it.
    pub text: String,
}

impl SharedSettings {
    /// Checks what can be checked without a node: names and types.
    ///
    /// # Errors
    /// What is wrong.
    pub fn check(&self) -> Result<(), ConfigError> {
        self.table().map(drop)
    }

    fn table(&self) -> Result<Table, ConfigError> {
        let wrong = |message: String| ConfigError::Invalid {
            key: "settings".to_owned(),
            set_by: Origin::Array(self.number),
            message,
        };
        Config::of_toml(&self.text).map_err(|error| wrong(error.to_string().trim().to_owned()))?;
        let table: Table = self
            .text
            .parse()
            .map_err(|error: toml::de::Error| wrong(error.to_string().trim().to_owned()))?;
        match table.keys().find(|name| !SECTIONS.contains(&name.as_str())) {
            Some(name) => Err(wrong(format!(
                "[{name}] is a node's own and cannot be shared; what can: {}",
                SECTIONS.join(", ")
            ))),
            None => Ok(table),
        }
    }

    /// Puts the edition below what the file says.
    pub(super) fn put_below(
        &self,
        file: &mut Table,
        origins: &mut BTreeMap<String, Origin>,
    ) -> Result<(), ConfigError> {
        let origin = Origin::Array(self.number);
        for (section, shared) in self.table()? {
            match (file.get_mut(&section), shared) {
                (None, shared) => {
                    if let Value::Table(keys) = &shared {
                        for key in keys.keys() {
                            origins.insert(format!("{section}.{key}"), origin.clone());
                        }
                    } else {
                        origins.insert(section.clone(), origin.clone());
                    }
                    file.insert(section, shared);
                }
                (Some(Value::Table(own)), Value::Table(shared)) => {
                    for (key, value) in shared {
                        if !own.contains_key(&key) {
                            origins.insert(format!("{section}.{key}"), origin.clone());
                            own.insert(key, value);
                        }
                    }
                }
                // A list of tables is one setting.
                (Some(_), _) => {}
            }
        }
        Ok(())
    }
}
