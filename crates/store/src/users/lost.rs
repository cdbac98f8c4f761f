//! Protection against a lost user database.
//!
//! At its first start a node creates an administrator and prints the password. Where mail was
//! logged or held before, the database was lost, with its users, tokens and settings: an attacker
//! who reads the output, or could empty the file, must not become administrator by that.

use std::path::Path;

use crate::database;
use crate::error::StoreError;

/// Refuses a data folder whose user database is missing or empty, but which has mail.
///
/// # Errors
/// That it is lost, with what to do; or a file that cannot be read.
pub fn check_not_lost(data: &Path) -> Result<(), StoreError> {
    let path = data.join("console/users.db");
    if !database::is_blank(&path)? {
        return Ok(());
    }
    let logs = std::fs::read_dir(data.join("log")).into_iter().flatten().flatten();
    let has_log = logs.map(|entry| entry.file_name()).any(|name| {
        let name = name.to_string_lossy();
        name.ends_with(".db") || name.contains(".db.damaged")
    });
    if !has_log && !crate::quarantine::has_any_body(&data.join("quarantine"))? {
        return Ok(());
    }
    Err(StoreError::Lost {
        path,
        cause: "the user database is empty or missing, but this node has had mail: this is no first start, \
                and no new administrator is created"
            .to_owned(),
        hint: "restore it from a backup (`gauntlet backup`); or create a new one, without the users, tokens, \
               second factors and personal settings of the old, by `gauntlet user new-database`"
            .to_owned(),
    })
}

/// Whether there is no user database in this data folder, or an empty one.
///
/// # Errors
/// If it cannot be read.
pub fn is_missing(data: &Path) -> Result<bool, StoreError> {
    database::is_blank(&data.join("console/users.db"))
}
