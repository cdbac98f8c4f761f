-- users.db as version 8 of its schema left it: one administrator (password: correct horse battery), one
-- user, a session, and what else that version could hold.
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
ALTER TABLE user ADD COLUMN scram TEXT NOT NULL DEFAULT '';
CREATE TABLE sender (
    entry TEXT PRIMARY KEY,
    allow INTEGER NOT NULL,
    who   TEXT NOT NULL,
    at_ms INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE token (
    name       TEXT PRIMARY KEY,
    hash       BLOB NOT NULL UNIQUE,
    scopes     TEXT NOT NULL,
    who        TEXT NOT NULL,
    created_ms INTEGER NOT NULL,
    expires_ms INTEGER NOT NULL,
    used_ms    INTEGER
) WITHOUT ROWID;
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
CREATE TABLE saved_search (
    login  TEXT NOT NULL,
    name   TEXT NOT NULL,
    query  TEXT NOT NULL,
    shared INTEGER NOT NULL,
    PRIMARY KEY (login, name)
) WITHOUT ROWID;
INSERT INTO user (login, role, hash, folders, addresses, must_change, created_ms) VALUES
  ('ada', 'administrator', '$argon2id$v=19$m=19456,t=2,p=1$DIb/PdSCMAzEGlmX8OeljQ$sUpxXvILvIFYq3Bp962SFXgN1JXyT7Y1vLzVqVDu+J8', '[]', '[]', 0, 1000),
  ('Bob@example.org', 'user', '', '[]', '["bob@example.org"]', 1, 2000);

INSERT INTO audit (at_ms, who, action, item, detail) VALUES (1000, 'gauntlet', 'add user', 'ada', 'administrator');
INSERT INTO sender VALUES ('shop.example', 0, 'ada', 4000);
INSERT INTO token VALUES ('ci', x'01', 'queue:read policy:write', 'ada', 5000, 9000000000000, NULL);
INSERT INTO own_sender VALUES ('bob@example.org', 'news.example', 1);
INSERT INTO wish VALUES ('bob@example.org', 'strict', 4.5);
INSERT INTO digest VALUES ('bob@example.org', 7, 6000);
INSERT INTO saved_search VALUES ('ada', 'spam', 'class=spam', 1);
CREATE TABLE app_password (
    login      TEXT NOT NULL COLLATE NOCASE REFERENCES user (login) ON DELETE CASCADE,
    name       TEXT NOT NULL,
    hash       BLOB NOT NULL,
    scram      TEXT NOT NULL,
    created_ms INTEGER NOT NULL,
    used_ms    INTEGER,
    PRIMARY KEY (login, name)
) WITHOUT ROWID;
INSERT INTO app_password VALUES ('ada', 'phone', x'00', '', 8, NULL);
ALTER TABLE session ADD COLUMN begun_ms INTEGER NOT NULL DEFAULT 0;
ALTER TABLE session ADD COLUMN proof TEXT NOT NULL DEFAULT 'link';
ALTER TABLE session ADD COLUMN address TEXT NOT NULL DEFAULT '';
CREATE TABLE attempt (
    what     BLOB PRIMARY KEY,
    failures INTEGER NOT NULL,
    at_ms    INTEGER NOT NULL
) WITHOUT ROWID;
INSERT INTO session VALUES (x'00', 'ada', 'token', 3000, 3000, 'password', '');
INSERT INTO attempt VALUES (x'6c00000000000000000000000000000000', 3, 3000);
PRAGMA user_version = 8;
