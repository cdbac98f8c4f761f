//! The tables of the user database.

/// Version N is made by the first N of these. Never edit one that was released: add another.
pub(crate) const MIGRATIONS: &[&str] = &[
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
    // Older sessions do not record how they were authenticated: one of a digest's link would be
    // taken for one of a password.
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
    super::sharing::MIGRATION,
];
