//! People who may use the console: who they are, what they may see, and their sessions.
//!
//! Passwords are kept as Argon2id hashes; sessions and tokens as BLAKE3 hashes, so that who reads
//! the file cannot use them. Every change is written together with its line of the audit log.

mod app_passwords;
pub mod attempts;
mod attempts_kept;
mod change;
mod handle;
mod links;
pub mod lost;
mod personal;
mod scram;
mod searches;
mod senders;
mod session;
mod tokens;
mod totp;

pub use app_passwords::{APP_PASSWORDS_MAX, AppPassword};
pub use attempts::{AttemptLimits, Attempts};
pub use attempts_kept::KeptAttempt;
pub use scram::{SCRAM_ITERATIONS, SCRAM_SALT_BYTES, ScramKeys};

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use argon2::Argon2;
use argon2::password_hash::{PasswordHash, PasswordHasher, PasswordVerifier, SaltString};
use rusqlite::{Connection, OptionalExtension, Row, Transaction, params};
use serde::{Deserialize, Serialize};

use crate::database;
use crate::error::StoreError;
use crate::quarantine::AuditLine;

pub use handle::{Remote, Users};
pub use links::{Link, LinkKind, Shown};
pub use searches::{SEARCHES_MAX, SavedSearch};
pub use senders::ListedSender;
pub use session::{Proof, Session, Started};
pub use tokens::{Scope, TOKEN_DAYS_MAX, TOKEN_MARK, Token, token_end, token_login};
pub use totp::{RECOVERY_CODES, SecondFactor, code_shown};

/// Shortest password taken, in characters.
pub const PASSWORD_CHARS_MIN: usize = 10;
/// Longest password taken, in bytes.
pub const PASSWORD_BYTES_MAX: usize = 256;
/// Characters of a one-time password, five random bits each.
const ONE_TIME_CHARS: usize = 20;
/// Bytes of a password's salt.
const SALT_BYTES: usize = 16;
/// Longest login, in bytes.
const LOGIN_BYTES_MAX: usize = 254;
/// Most lines of the audit log returned at once.
const LINES_MAX: usize = 500;

/// What the audit log says of those who did not come in.
const FAILED: &str = "sign-in failed";
/// Such lines that are kept: a net of hosts that guesses must not fill the disk with them.
pub const FAILURES_KEPT_MAX: i64 = 10_000;
/// They are counted each time the audit log has so many lines more.
const FAILURES_PRUNED_EVERY: i64 = 1_000;

const MIGRATIONS: &[&str] = &[
    "
CREATE TABLE user (
    login       TEXT PRIMARY KEY COLLATE NOCASE,
    role        TEXT NOT NULL,
    hash        TEXT NOT NULL,
    folders     TEXT NOT NULL,
    addresses   TEXT NOT NULL,
    must_change INTEGER NOT NULL,
    created_ms  INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE session (
    token   BLOB PRIMARY KEY,
    login   TEXT NOT NULL REFERENCES user (login) ON DELETE CASCADE,
    csrf    TEXT NOT NULL,
    seen_ms INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX session_login ON session (login);
CREATE TABLE audit (
    seq    INTEGER PRIMARY KEY AUTOINCREMENT,
    at_ms  INTEGER NOT NULL,
    who    TEXT NOT NULL,
    action TEXT NOT NULL,
    item   TEXT NOT NULL,
    detail TEXT NOT NULL
);
",
    "ALTER TABLE user ADD COLUMN scram TEXT NOT NULL DEFAULT '';",
    "
CREATE TABLE sender (
    entry TEXT PRIMARY KEY,
    allow INTEGER NOT NULL,
    who   TEXT NOT NULL,
    at_ms INTEGER NOT NULL
) WITHOUT ROWID;
",
    "
CREATE TABLE token (
    name       TEXT PRIMARY KEY,
    hash       BLOB NOT NULL UNIQUE,
    scopes     TEXT NOT NULL,
    who        TEXT NOT NULL,
    created_ms INTEGER NOT NULL,
    expires_ms INTEGER NOT NULL,
    used_ms    INTEGER
) WITHOUT ROWID;
",
    "
CREATE TABLE secret (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE used_link (hash BLOB PRIMARY KEY, until_ms INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE own_sender (
    address TEXT NOT NULL,
    entry   TEXT NOT NULL,
    allow   INTEGER NOT NULL,
    PRIMARY KEY (address, entry)
) WITHOUT ROWID;
CREATE TABLE wish (
    address     TEXT PRIMARY KEY,
    strictness  TEXT NOT NULL,
    spam_points REAL
) WITHOUT ROWID;
CREATE TABLE totp (
    login     TEXT PRIMARY KEY COLLATE NOCASE REFERENCES user (login) ON DELETE CASCADE,
    secret    BLOB NOT NULL,
    enabled   INTEGER NOT NULL,
    last_step INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE recovery (
    login TEXT NOT NULL REFERENCES user (login) ON DELETE CASCADE,
    hash  BLOB NOT NULL,
    PRIMARY KEY (login, hash)
) WITHOUT ROWID;
CREATE TABLE digest (
    address TEXT PRIMARY KEY,
    upto    INTEGER NOT NULL,
    at_ms   INTEGER NOT NULL
) WITHOUT ROWID;
",
    "
CREATE TABLE saved_search (
    login  TEXT NOT NULL,
    name   TEXT NOT NULL,
    query  TEXT NOT NULL,
    shared INTEGER NOT NULL,
    PRIMARY KEY (login, name)
) WITHOUT ROWID;
",
    "
CREATE TABLE app_password (
    login      TEXT NOT NULL COLLATE NOCASE REFERENCES user (login) ON DELETE CASCADE,
    name       TEXT NOT NULL,
    hash       BLOB NOT NULL,
    scram      TEXT NOT NULL,
    created_ms INTEGER NOT NULL,
    used_ms    INTEGER,
    PRIMARY KEY (login, name)
) WITHOUT ROWID;
",
    // Sessions of before do not say what they began with: a digest's link among them would be taken for a
    // password.
    "
DELETE FROM session;
ALTER TABLE session ADD COLUMN begun_ms INTEGER NOT NULL DEFAULT 0;
ALTER TABLE session ADD COLUMN proof TEXT NOT NULL DEFAULT 'link';
ALTER TABLE session ADD COLUMN address TEXT NOT NULL DEFAULT '';
CREATE TABLE attempt (
    what     BLOB PRIMARY KEY,
    failures INTEGER NOT NULL,
    at_ms    INTEGER NOT NULL
) WITHOUT ROWID;
",
];

/// What a person may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Everything.
    Administrator,
    /// See all messages; release and delete in the folders given (none given: in all).
    Reviewer,
    /// See, release and delete what is held for their own addresses, and nothing else.
    User,
}

impl Role {
    /// Every role.
    pub const ALL: [Role; 3] = [Role::Administrator, Role::Reviewer, Role::User];

    /// Name on the command line and pages.
    pub fn name(self) -> &'static str {
        match self {
            Role::Administrator => "administrator",
            Role::Reviewer => "reviewer",
            Role::User => "user",
        }
    }
}

impl std::str::FromStr for Role {
    type Err = String;
    fn from_str(name: &str) -> Result<Self, String> {
        let found = Role::ALL.into_iter().find(|r| r.name() == name);
        found
            .ok_or_else(|| format!("no role {name:?}; the roles are administrator, reviewer, user"))
    }
}

/// A person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    /// What they sign in with; letter case does not count.
    pub login: String,
    /// What they may do.
    pub role: Role,
    /// Folders of the quarantine a reviewer may decide in; empty is all.
    pub folders: Vec<String>,
    /// Mail addresses whose held mail a user may see.
    pub addresses: Vec<String>,
    /// The password is for one time: it must be changed before anything else.
    pub must_change: bool,
    /// Unix time in milliseconds.
    pub created_ms: i64,
}

/// The people of a node, as the one process sees them that has the file. Every method may be called from any
/// thread and blocks. A new one is listed in [`handle`], so that [`Users`] has it.
#[derive(Debug)]
pub struct UserDatabase {
    path: PathBuf,
    database: Mutex<Connection>,
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
        Ok(UserDatabase { path, database: Mutex::new(database) })
    }

    /// On a node that knows nobody: makes the administrator `admin` with a one-time password and
    /// returns the password, which is kept nowhere. None if there is anybody.
    ///
    /// # Errors
    /// If it could not be made durable.
    pub fn first_start(&self, now_ms: i64) -> Result<Option<String>, StoreError> {
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
        Ok(Some(password))
    }

    /// A password of 100 random bits.
    ///
    /// # Errors
    /// If the system has no randomness to give.
    pub fn one_time_password(&self) -> Result<String, StoreError> {
        random_text(ONE_TIME_CHARS)
    }

    /// Adds a person.
    ///
    /// # Errors
    /// If the login is taken or unfit, the password unfit, or the change could not be made durable.
    pub fn add(
        &self,
        user: &User,
        password: &str,
        who: &str,
        now_ms: i64,
    ) -> Result<(), StoreError> {
        check_login(&user.login)?;
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
                audit(batch, now_ms, who, "add user", &user.login, user.role.name())?;
            }
            Ok(added == 1)
        })?;
        let cause = || format!("there is a user {:?} already; choose another login", user.login);
        if added { Ok(()) } else { Err(StoreError::Invalid { what: "login", cause: cause() }) }
    }

    /// Removes a person, ends their sessions and revokes the tokens that they made. False if there is no such person.
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

    /// Sets a password, ends all sessions of the person, and revokes the passwords of their mail programs:
    /// who sets another may have lost the one before. False if there is no such person.
    ///
    /// # Errors
    /// If the password is unfit, or the change could not be made durable.
    pub fn set_password(
        &self,
        login: &str,
        password: &str,
        must_change: bool,
        who: &str,
        now_ms: i64,
    ) -> Result<bool, StoreError> {
        let hash = hash_password(password)?;
        let scram = scram::keys_of(password)?;
        self.change(|batch| {
            let set = batch.execute(
                "UPDATE user SET hash = ?2, must_change = ?3, scram = ?4 WHERE login = ?1",
                params![login, hash, must_change, scram],
            )?;
            session::end_all(batch, login)?;
            app_passwords::revoke_all(batch, login)?;
            if set == 1 {
                audit(batch, now_ms, who, "set password", login, "")?;
            }
            Ok(set == 1)
        })
    }

    /// Everybody, by login.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn list(&self) -> Result<Vec<User>, StoreError> {
        self.read(|c| {
            let sql = format!("SELECT {COLUMNS} FROM user ORDER BY login");
            c.prepare_cached(&sql)?.query_map([], user)?.collect()
        })
    }

    /// The person, if the password is theirs. Takes as long for a login that nobody has. Costs tens
    /// of milliseconds and 19 MB, on purpose: the caller limits how often it is asked.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn verify(&self, login: &str, password: &str) -> Result<Option<User>, StoreError> {
        let found = self.read(|c| {
            let sql = format!("SELECT {COLUMNS}, hash FROM user WHERE login = ?1");
            let mut find = c.prepare_cached(&sql)?;
            let row = |row: &Row<'_>| Ok((user(row)?, row.get::<_, String>(COLUMNS_COUNT)?));
            find.query_row([login], row).optional()
        })?;
        let hash = found.as_ref().map(|(_, hash)| hash.as_str()).filter(|h| !h.is_empty());
        let hash = hash.unwrap_or(NOBODY);
        let fits = password.len() <= PASSWORD_BYTES_MAX
            && PasswordHash::new(hash).is_ok_and(|hash| {
                Argon2::default().verify_password(password.as_bytes(), &hash).is_ok()
            });
        Ok(found.map(|(user, _)| user).filter(|_| fits))
    }

    /// Notes a sign-in, its failure, or the like. Of failures, which anybody can cause, the newest
    /// [`FAILURES_KEPT_MAX`] are kept.
    ///
    /// # Errors
    /// If it could not be made durable.
    pub fn note(
        &self,
        at_ms: i64,
        who: &str,
        action: &str,
        detail: &str,
    ) -> Result<(), StoreError> {
        self.change(|batch| {
            audit(batch, at_ms, who, action, "", detail)?;
            // Now and then: it reads the whole table.
            if action.starts_with(FAILED) && batch.last_insert_rowid() % FAILURES_PRUNED_EVERY == 0
            {
                batch.execute(
                    "DELETE FROM audit WHERE substr(action, 1, length(?1)) = ?1 AND seq NOT IN \
                     (SELECT seq FROM audit WHERE substr(action, 1, length(?1)) = ?1 \
                      ORDER BY seq DESC LIMIT ?2)",
                    params![FAILED, FAILURES_KEPT_MAX],
                )?;
            }
            Ok(())
        })
    }

    /// The newest lines of the audit log; of failed sign-ins, which anybody can cause, a quarter at most, so
    /// that they do not push out what people did.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn audit_log(&self, limit: usize) -> Result<Vec<AuditLine>, StoreError> {
        let limit = limit.min(LINES_MAX);
        self.read(|c| {
            let mut find = c.prepare_cached(
                "SELECT at_ms, who, action, item, detail FROM audit WHERE seq IN \
                 (SELECT seq FROM audit WHERE substr(action, 1, length(?1)) <> ?1 \
                  ORDER BY seq DESC LIMIT ?2) OR seq IN \
                 (SELECT seq FROM audit WHERE substr(action, 1, length(?1)) = ?1 \
                  ORDER BY seq DESC LIMIT ?3) ORDER BY seq DESC LIMIT ?2",
            )?;
            let (all, failed) = (limit as i64, limit.div_ceil(4) as i64);
            find.query_map(params![FAILED, all, failed], audit_line)?.collect()
        })
    }

    /// As many of the newest lines as are wanted.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn whole_audit_log(&self, limit: u64) -> Result<Vec<AuditLine>, StoreError> {
        self.read(|c| {
            let mut find = c.prepare_cached(
                "SELECT at_ms, who, action, item, detail FROM audit ORDER BY seq DESC LIMIT ?1",
            )?;
            let limit = i64::try_from(limit).unwrap_or(i64::MAX);
            find.query_map([limit], audit_line)?.collect()
        })
    }

    fn change<T>(
        &self,
        change: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let mut database = self.database.lock().unwrap_or_else(PoisonError::into_inner);
        let run = || {
            let batch = database.transaction()?;
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

/// A hash of no password, so that a login that nobody has takes as long as any.
const NOBODY: &str = "$argon2id$v=19$m=19456,t=2,p=1$bm9ib2R5LXNhbHQ$\
                      AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

const COLUMNS: &str = "user.login, role, folders, addresses, must_change, created_ms";
const COLUMNS_COUNT: usize = 6;

fn user(row: &Row<'_>) -> rusqlite::Result<User> {
    let list = |column| -> rusqlite::Result<Vec<String>> {
        Ok(serde_json::from_str(row.get_ref(column)?.as_str()?).unwrap_or_default())
    };
    Ok(User {
        login: row.get(0)?,
        // A role that is unknown may do the least.
        role: row.get_ref(1)?.as_str()?.parse().unwrap_or(Role::User),
        folders: list(2)?,
        addresses: list(3)?,
        must_change: row.get(4)?,
        created_ms: row.get(5)?,
    })
}

fn audit_line(row: &Row<'_>) -> rusqlite::Result<AuditLine> {
    Ok(AuditLine {
        at_ms: row.get(0)?,
        who: row.get(1)?,
        action: row.get(2)?,
        item: row.get(3)?,
        detail: row.get(4)?,
    })
}

fn audit(
    batch: &Transaction<'_>,
    at_ms: i64,
    who: &str,
    action: &str,
    item: &str,
    detail: &str,
) -> rusqlite::Result<()> {
    let mut insert = batch.prepare_cached(
        "INSERT INTO audit (at_ms, who, action, item, detail) VALUES (?1, ?2, ?3, ?4, ?5)",
    )?;
    insert.execute(params![at_ms, who, action, item, detail])?;
    Ok(())
}

fn check_login(login: &str) -> Result<(), StoreError> {
    let fit = !login.is_empty()
        && login.len() <= LOGIN_BYTES_MAX
        && login.bytes().all(|b| b.is_ascii_graphic());
    let cause = format!("{login:?} is not 1 to {LOGIN_BYTES_MAX} visible ASCII characters");
    if fit { Ok(()) } else { Err(StoreError::Invalid { what: "login", cause }) }
}

fn hash_password(password: &str) -> Result<String, StoreError> {
    let invalid = |cause| StoreError::Invalid { what: "password", cause };
    if password.chars().count() < PASSWORD_CHARS_MIN || password.len() > PASSWORD_BYTES_MAX {
        let cause = format!("{PASSWORD_CHARS_MIN} characters to {PASSWORD_BYTES_MAX} bytes");
        return Err(invalid(format!("a password has {cause}")));
    }
    let salt = SaltString::encode_b64(&random_bytes(SALT_BYTES)?);
    let salt = salt.map_err(|e| invalid(e.to_string()))?;
    let hash = Argon2::default().hash_password(password.as_bytes(), &salt);
    Ok(hash.map_err(|e| invalid(e.to_string()))?.to_string())
}

/// Random characters that are not mistaken for each other, five bits each.
fn random_text(characters: usize) -> Result<String, StoreError> {
    const LETTERS: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";
    let bytes = random_bytes(characters)?;
    Ok(bytes.iter().map(|b| char::from(LETTERS[usize::from(b & 31)])).collect())
}

/// Bytes from the system's source of randomness.
fn random_bytes(count: usize) -> Result<Vec<u8>, StoreError> {
    let mut bytes = vec![0; count];
    let filled = getrandom::fill(&mut bytes);
    let error = |e: getrandom::Error| std::io::Error::other(e.to_string());
    filled.map_err(error).map_err(StoreError::io(Path::new("getrandom"), "read"))?;
    Ok(bytes)
}

/// Keeps other people of the machine from reading the file.
fn restrict(path: &Path) -> Result<(), StoreError> {
    use std::os::unix::fs::PermissionsExt;
    let owner_only = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(path, owner_only).map_err(StoreError::io(path, "restrict"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn person(login: &str, role: Role) -> User {
        User {
            login: login.to_owned(),
            role,
            folders: vec!["suspect".to_owned()],
            addresses: Vec::new(),
            must_change: false,
            created_ms: 7,
        }
    }

    #[test]
    fn first_start_makes_an_administrator_once() {
        let folder = tempfile::tempdir().unwrap();
        let users = UserDatabase::open(folder.path()).unwrap();
        let password = users.first_start(1).unwrap().unwrap();
        assert_eq!(users.first_start(2).unwrap(), None);
        let admin = users.verify("Admin", &password).unwrap().unwrap();
        assert!(admin.must_change && admin.role == Role::Administrator);
        assert_eq!(users.verify("admin", "wrong").unwrap(), None);
        assert_eq!(users.verify("nobody", &password).unwrap(), None);
        assert!(users.set_password("admin", "short", false, "admin", 3).is_err());
        assert!(users.set_password("admin", "long enough now", false, "admin", 3).unwrap());
        assert!(!users.verify("admin", "long enough now").unwrap().unwrap().must_change);
        assert_eq!(users.verify("admin", &password).unwrap(), None);
        assert_eq!(users.audit_log(9).unwrap().len(), 2);
    }

    #[test]
    fn people_come_and_go() {
        let folder = tempfile::tempdir().unwrap();
        let users = UserDatabase::open(folder.path()).unwrap();
        let ada = person("ada", Role::Administrator);
        users.add(&ada, "a long password", "gauntlet", 7).unwrap();
        users.add(&person("eve", Role::Reviewer), "a long password", "ada", 7).unwrap();
        assert!(users.add(&person("EVE", Role::User), "a long password", "ada", 7).is_err());
        assert!(users.add(&person("a b", Role::User), "a long password", "ada", 7).is_err());
        assert_eq!(users.list().unwrap()[0], ada);
        assert!(users.remove("ada", "ada", 8).is_err());
        assert!(users.remove("eve", "ada", 8).unwrap());
        assert!(!users.remove("eve", "ada", 9).unwrap());
    }

    #[test]
    fn sessions_last_while_used_and_end_with_the_password() {
        let folder = tempfile::tempdir().unwrap();
        let users = UserDatabase::open(folder.path()).unwrap();
        users.add(&person("ada", Role::Reviewer), "a long password", "x", 1).unwrap();
        let started = users.start_session("ada", 1000).unwrap();
        let again = users.start_session("ada", 1000).unwrap();
        assert_ne!(started.token, again.token);
        let idle = 100_000;
        let age = 250_000;
        let session_of = |token: &str, now| users.session(token, now, idle, age).unwrap();
        let session = session_of(&started.token, 90_000).unwrap();
        assert_eq!((session.user.login.as_str(), &session.csrf), ("ada", &started.csrf));
        assert!(session_of(&started.token, 180_000).is_some());
        assert!(session_of(&again.token, 180_000).is_none());
        assert!(session_of("no such token", 1).is_none());
        // What a page asks for by itself is no use.
        let left = users.start_session("ada", 1000).unwrap();
        assert!(users.session_unused(&left.token, 90_000, idle, age).unwrap().is_some());
        assert!(users.session_unused(&left.token, 180_000, idle, age).unwrap().is_none());
        // However busy it is, it ends some time after it began.
        assert!(session_of(&started.token, 1000 + age).is_some());
        assert!(session_of(&started.token, 1000 + age + 1).is_none());
        assert!(session_of(&started.token, 2000).is_none(), "for good");
        let ended = users.start_session("ada", 1000).unwrap();
        users.end_session(&ended.token).unwrap();
        assert!(session_of(&ended.token, 1001).is_none());
        let last = users.start_session("ada", 1000).unwrap();
        users.set_password("ada", "another password", false, "ada", 2000).unwrap();
        assert!(session_of(&last.token, 2000).is_none());
    }

    #[test]
    fn sessions_end_with_what_proved_them_and_with_what_they_allowed() {
        let folder = tempfile::tempdir().unwrap();
        let users = UserDatabase::open(folder.path()).unwrap();
        users.add(&person("ada", Role::Administrator), "a long password", "x", 1).unwrap();
        users.add(&person("eve", Role::Administrator), "a long password", "x", 1).unwrap();
        let now = 1_795_235_000_000;
        let begun = |login: &str| users.start_session(login, now).unwrap().token;
        let lives = |token: &str| users.session(token, now, i64::MAX, i64::MAX).unwrap().is_some();
        let (other, stays) = (begun("ada"), begun("eve"));
        let secret = users.begin_totp("ada").unwrap();
        assert!(lives(&other), "nothing has changed yet");
        let code = code_shown(&secret, now).unwrap();
        users.enable_totp("ada", &code, now).unwrap().unwrap();
        assert!(!lives(&other), "a second factor");
        let other = begun("ada");
        users.remove_totp("ada", "eve", now).unwrap();
        assert!(!lives(&other), "no second factor");
        let other = begun("ada");
        let folders = ["suspect".to_owned()];
        users.change_rights("ada", Role::Administrator, &folders, &[], "eve", now).unwrap();
        assert!(lives(&other), "nothing was changed");
        users.change_rights("ada", Role::Reviewer, &folders, &[], "eve", now).unwrap();
        assert!(!lives(&other), "a role");
        assert!(lives(&stays), "nobody else's");
    }

    #[test]
    fn a_session_by_a_link_is_for_the_mail_of_one_address() {
        let folder = tempfile::tempdir().unwrap();
        let users = UserDatabase::open(folder.path()).unwrap();
        let ada = User {
            addresses: vec!["ada@example.org".to_owned(), "sales@example.org".to_owned()],
            created_ms: 1,
            ..person("ada", Role::Administrator)
        };
        users.add(&ada, "a long password", "x", 1).unwrap();
        let by = |proof| {
            let started = users.start_session_by("ada", proof, "Ada@example.org", 5).unwrap();
            users.session(&started.token, 6, 9, 9).unwrap().unwrap()
        };
        let session = by(Proof::Link);
        assert_eq!((session.proof, session.user.role), (Proof::Link, Role::User));
        assert_eq!(session.user.addresses, ["ada@example.org"]);
        assert!(session.user.folders.is_empty());
        let session = by(Proof::FreshSingleSignOn);
        assert_eq!((session.proof, &session.user), (Proof::FreshSingleSignOn, &ada));
    }

    #[test]
    fn a_flood_of_guesses_does_not_fill_the_audit_log() {
        let folder = tempfile::tempdir().unwrap();
        let users = UserDatabase::open(folder.path()).unwrap();
        users.add(&person("ada", Role::Administrator), "a long password", "x", 1).unwrap();
        users
            .change(|batch| {
                for n in 0..30_000 {
                    let action = if n % 2 == 0 { FAILED } else { "sign-in failed: code" };
                    audit(batch, n, "invented", action, "", "192.0.2.1")?;
                }
                audit(batch, 1, "ada", "sign-in", "", "")
            })
            .unwrap();
        for n in 0..2 * FAILURES_PRUNED_EVERY {
            users.note(n, "invented", FAILED, "192.0.2.1").unwrap();
        }
        let all = users.whole_audit_log(u64::MAX).unwrap();
        let failed = all.iter().filter(|line| line.action.starts_with(FAILED)).count() as i64;
        assert!((FAILURES_KEPT_MAX..=FAILURES_KEPT_MAX + FAILURES_PRUNED_EVERY).contains(&failed));
        let others: Vec<&str> =
            all.iter().map(|l| l.action.as_str()).filter(|a| !a.starts_with(FAILED)).collect();
        assert_eq!(others, ["sign-in", "add user"], "nothing else goes");
        // Nor out of sight.
        let shown: Vec<String> =
            users.audit_log(200).unwrap().into_iter().map(|l| l.action).collect();
        assert_eq!(
            (shown.len(), &shown[49..]),
            (52, &[FAILED, "sign-in", "add user"].map(String::from)[..])
        );
    }

    #[test]
    fn tokens_go_with_the_administrator_who_made_them() {
        let folder = tempfile::tempdir().unwrap();
        let users = UserDatabase::open(folder.path()).unwrap();
        for login in ["ada", "bob", "eve"] {
            users.add(&person(login, Role::Administrator), "a long password", "x", 1).unwrap();
        }
        let token = |name: &str, who: &str| {
            users.add_token(name, &[Scope::QueueRead], 1, who, 1).unwrap();
        };
        token("of-bob", "Bob");
        token("of-eve", "eve");
        token("of-the-token", "token of-eve");
        token("of-ada", "ada");
        token("of-the-machine", "command line");
        let left = || -> Vec<String> {
            users.tokens().unwrap().into_iter().map(|token| token.name).collect()
        };
        users.change_rights("bob", Role::Administrator, &[], &[], "ada", 2).unwrap();
        assert_eq!(left().len(), 5, "still an administrator");
        users.change_rights("bob", Role::Reviewer, &[], &[], "ada", 2).unwrap();
        assert_eq!(left(), ["of-ada", "of-eve", "of-the-machine", "of-the-token"]);
        users.remove("eve", "ada", 3).unwrap();
        assert_eq!(left(), ["of-ada", "of-the-machine"]);
    }

    #[test]
    fn of_two_administrators_who_go_at_once_one_stays() {
        for _ in 0..20 {
            let folder = tempfile::tempdir().unwrap();
            let users = UserDatabase::open(folder.path()).unwrap();
            for login in ["ada", "eve"] {
                let user = person(login, Role::Administrator);
                users.add(&user, "a long password", "x", 1).unwrap();
            }
            let start = std::sync::Barrier::new(2);
            std::thread::scope(|scope| {
                let (users, start) = (&users, &start);
                scope.spawn(move || {
                    start.wait();
                    let _one_of_them_fails = users.remove("ada", "eve", 2);
                });
                scope.spawn(move || {
                    start.wait();
                    let _one_of_them_fails =
                        users.change_rights("eve", Role::User, &[], &[], "ada", 2);
                });
            });
            let all = users.list().unwrap();
            assert!(all.iter().any(|u| u.role == Role::Administrator), "{all:?}");
        }
    }
}
