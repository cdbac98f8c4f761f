//! A user database that is gone is no first start.
//!
//! At its first start a node makes an administrator and prints the password. Where mail was logged or held
//! before, it is a node whose people, tokens and wishes are lost: whoever reads its output, or could
//! empty the file, must not become its administrator by that.

use std::path::Path;

use crate::content::Content;
use crate::database;
use crate::error::StoreError;

/// Refuses a data folder whose user database is gone or empty, but which has had mail.
///
/// # Errors
/// That it is lost, with what to do; or a file that cannot be read.
pub fn refuse_lost(data: &Path) -> Result<(), StoreError> {
    let path = data.join("console/users.db");
    if !database::is_blank(&path)? {
        return Ok(());
    }
    let logs = std::fs::read_dir(data.join("log")).into_iter().flatten().flatten();
    let has_log = logs.map(|entry| entry.file_name()).any(|name| {
        let name = name.to_string_lossy();
        name.ends_with(".db") || name.contains(".db.damaged")
    });
    if !has_log && !Content::has_any(&data.join("quarantine/bodies"))? {
        return Ok(());
    }
    Err(StoreError::Lost {
        path,
        cause: "the user database is empty or gone, but this node has had mail: this is no first start, \
                and no new administrator is made"
            .to_owned(),
        mend: "put it back from a backup (`gauntlet backup` makes one); or begin a new one, without the \
               people, tokens, second factors and wishes of the old, by `gauntlet user new-database`"
            .to_owned(),
    })
}

/// There is no user database in this data folder, or an empty one.
///
/// # Errors
/// If it cannot be read.
pub fn is_missing(data: &Path) -> Result<bool, StoreError> {
    database::is_blank(&data.join("console/users.db"))
}
