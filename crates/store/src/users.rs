//! User accounts of the console: login, role, sessions, tokens and personal settings.
//!
//! Passwords are stored as Argon2id hashes, sessions and tokens as BLAKE3 hashes, so that a copy of
//! the file does not reveal them. Every change is written in one transaction with its audit log
//! entry.

mod account;
mod app_passwords;
pub mod attempts;
mod audit;
mod change;
mod handle;
mod links;
pub mod lost;
mod password;
mod personal;
mod schema;
mod scram;
mod searches;
mod senders;
mod session;
pub mod sharing;
mod tokens;
mod totp;

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rusqlite::{Connection, Row, Transaction, TransactionBehavior, params};

use crate::content::BodyKeys;
use crate::database;
use crate::error::StoreError;
use audit::audit;
use password::hash_password;
pub(crate) use schema::MIGRATIONS;

pub use account::{Role, UnknownRole, User};
pub use app_passwords::{APP_PASSWORDS_MAX, AppPassword};
pub use attempts::{AttemptLimits, Attempts, StoredAttempt};
pub use audit::FAILURES_KEPT_MAX;
pub use handle::{Remote, Users};
pub use links::{Link, LinkKind, LinkStatus};
pub use password::{PASSWORD_BYTES_MAX, PASSWORD_CHARS_MIN};
pub use scram::{SCRAM_ITERATIONS, SCRAM_SALT_BYTES, ScramKeys};
pub use searches::{SEARCHES_MAX, SavedSearch};
pub use senders::ListedSender;
pub use session::{Proof, Session, StartedSession};
pub use tokens::{
    Scope, TOKEN_DAYS_MAX, TOKEN_PREFIX, Token, UnknownScope, token_end, token_login,
};
pub use totp::{RECOVERY_CODES, SecondFactor, totp_code};

/// Longest login, in bytes.
const LOGIN_BYTES_MAX: usize = 254;
/// Longest address: 64 bytes, the sign, 255 bytes (RFC 5321 section 4.5.3.1).
const ADDRESS_BYTES_MAX: usize = 320;

/// The users of a node, in the one process that has the file. Every method may be called from any
/// thread and blocks. List a new method in [`handle`], so that [`Users`] has it.
#[derive(Debug)]
pub struct UserDatabase {
    path: PathBuf,
    database: Mutex<Connection>,
    /// What is shared with other nodes is sealed with these.
    sharing_keys: Mutex<Option<BodyKeys>>,
}

impl UserDatabase {
    /// Opens or creates `users.db` in this folder, readable by its owner only.
    ///
    /// # Errors
    /// If the folder cannot be used, or the database is damaged or newer than this program.
    pub fn open(folder: &Path) -> Result<Self, StoreError> {
        std::fs::create_dir_all(folder).map_err(StoreError::io(folder, "create"))?;
        let path = folder.join("users.db");
        let database = database::open_write(&path, MIGRATIONS)?;
        restrict(&path)?;
        let sharing_keys = Mutex::default();
        Ok(UserDatabase { path, database: Mutex::new(database), sharing_keys })
    }

    /// Refuses a folder that [`UserDatabase::open`] would refuse. Changes nothing. Whether the
    /// database is lost is asked by [`lost::check_not_lost`].
    ///
    /// # Errors
    /// As [`UserDatabase::open`].
    pub fn check(folder: &Path) -> Result<(), StoreError> {
        database::check(&folder.join("users.db"), MIGRATIONS, |c| all(c).map(drop))
    }

    /// On a node without users: creates the administrator `admin` with a one-time password and
    /// returns the password, which is not stored. None if there are users.
    ///
    /// # Errors
    /// If it could not be made durable.
    pub fn create_first_administrator(&self, now_ms: i64) -> Result<Option<String>, StoreError> {
        if !self.list()?.is_empty() {
            return Ok(None);
        }
        let password = self.one_time_password()?;
        let admin = User {
            login: "admin".to_owned(),
            role: Role::Administrator,
            folders: Vec::new(),
            addresses: Vec::new(),
            must_change: true,
            created_ms: now_ms,
        };
        self.add(&admin, &password, "gauntlet", now_ms)?;
        self.change(|batch| sharing::leave_unshared(batch, &admin.login))?;
        Ok(Some(password))
    }

    /// Adds a user.
    ///
    /// # Errors
    /// If the login is taken or invalid, the password or an address invalid, or the change could
    /// not be made durable.
    pub fn add(
        &self,
        user: &User,
        password: &str,
        who: &str,
        now_ms: i64,
    ) -> Result<(), StoreError> {
        check_login(&user.login)?;
        check_addresses(&user.addresses)?;
        let hash = hash_password(password)?;
        let scram = scram::keys_of(password)?;
        let folders = serde_json::to_string(&user.folders).unwrap_or_default();
        let addresses = serde_json::to_string(&user.addresses).unwrap_or_default();
        let added = self.change(|batch| {
            let added = batch.execute(
                "INSERT OR IGNORE INTO user (login, role, hash, folders, addresses, must_change, \
                 created_ms, scram) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
                params![
                    user.login,
                    user.role.name(),
                    hash,
                    folders,
                    addresses,
                    user.must_change,
                    now_ms,
                    scram
                ],
            )?;
            if added == 1 {
                searches::forget_private(batch, &user.login)?;
                audit(batch, now_ms, who, "add user", &user.login, user.role.name())?;
            }
            Ok(added == 1)
        })?;
        let cause = || format!("there is a user {:?} already; choose another login", user.login);
        if added { Ok(()) } else { Err(StoreError::Invalid { what: "login", cause: cause() }) }
    }

    /// Removes a user with their private searches, ends their sessions and revokes the tokens that
    /// they created. False if there is no such user.
    ///
    /// # Errors
    /// If it is the last administrator, or the change could not be made durable.
    pub fn remove(&self, login: &str, who: &str, now_ms: i64) -> Result<bool, StoreError> {
        let removed = self.change(|batch| {
            if change::is_last_administrator(batch, login)? {
                return Ok(None);
            }
            let removed = batch.execute("DELETE FROM user WHERE login = ?1", [login])? == 1;
            if removed {
                searches::forget_private(batch, login)?;
                audit(batch, now_ms, who, "remove user", login, "")?;
                tokens::revoke_made_by(batch, login, who, now_ms)?;
            }
            Ok(Some(removed))
        })?;
        removed.ok_or_else(|| StoreError::Invalid {
            what: "login",
            cause: "the last administrator cannot be removed; add another first".to_owned(),
        })
    }

    /// All users, by login.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn list(&self) -> Result<Vec<User>, StoreError> {
        self.read(all)
    }

    fn change<T>(
        &self,
        change: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let mut database = self.database.lock().unwrap_or_else(PoisonError::into_inner);
        let run = || {
            // A change reads before it writes. A transaction that begins by reading gets "database
            // is locked" at once, without waiting, if another process has written in between.
            let batch = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let value = change(&batch)?;
            batch.commit()?;
            Ok(value)
        };
        run().map_err(StoreError::db(&self.path))
    }

    fn read<T>(
        &self,
        read: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let database = self.database.lock().unwrap_or_else(PoisonError::into_inner);
        read(&database).map_err(StoreError::db(&self.path))
    }
}

const COLUMNS: &str = "user.login, role, folders, addresses, must_change, created_ms";
const COLUMNS_COUNT: usize = 6;

fn all(connection: &Connection) -> rusqlite::Result<Vec<User>> {
    let sql = format!("SELECT {COLUMNS} FROM user ORDER BY login");
    connection.prepare_cached(&sql)?.query_map([], user)?.collect()
}

fn user(row: &Row<'_>) -> rusqlite::Result<User> {
    let list = |column| -> rusqlite::Result<Vec<String>> {
        Ok(serde_json::from_str(row.get_ref(column)?.as_str()?).unwrap_or_default())
    };
    Ok(User {
        login: row.get(0)?,
        // An unknown role gets the fewest permissions.
        role: row.get_ref(1)?.as_str()?.parse().unwrap_or(Role::User),
        folders: list(2)?,
        addresses: list(3)?,
        must_change: row.get(4)?,
        created_ms: row.get(5)?,
    })
}

fn check_login(login: &str) -> Result<(), StoreError> {
    let fit = !login.is_empty()
        && login.len() <= LOGIN_BYTES_MAX
        && login.bytes().all(|b| b.is_ascii_graphic());
    let cause = format!("{login:?} is not 1 to {LOGIN_BYTES_MAX} visible ASCII characters");
    if fit { Ok(()) } else { Err(StoreError::Invalid { what: "login", cause }) }
}

/// Refuses what can never be the address of a recipient (RFC 5321 section 4.1.2, RFC 6531): a user
/// of such an address would see no mail, and nobody would be told why.
fn check_addresses(addresses: &[String]) -> Result<(), StoreError> {
    let fits = |address: &String| {
        let odd = |c: char| c.is_control() || c.is_whitespace() || "<>,;".contains(c);
        let parts = address.rsplit_once('@');
        address.len() <= ADDRESS_BYTES_MAX
            && !address.contains(odd)
            && parts.is_some_and(|(local, domain)| !local.is_empty() && !domain.is_empty())
    };
    match addresses.iter().find(|address| !fits(address)) {
        None => Ok(()),
        Some(wrong) => {
            let shown: String = wrong.chars().take(80).collect();
            let cause = format!("{shown:?} is no address such as ann@example.org");
            Err(StoreError::Invalid { what: "addresses", cause })
        }
    }
}

/// Prevents other users of the machine from reading the file.
fn restrict(path: &Path) -> Result<(), StoreError> {
    use std::os::unix::fs::PermissionsExt;
    let owner_only = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(path, owner_only).map_err(StoreError::io(path, "restrict"))
}

#[cfg(test)]
mod tests;
