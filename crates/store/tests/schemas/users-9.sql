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
CREATE TABLE sharing (
    one      INTEGER PRIMARY KEY CHECK (one = 1),
    epoch    TEXT NOT NULL,
    node     INTEGER NOT NULL,
    noting   INTEGER NOT NULL
);
INSERT INTO sharing VALUES (1, '', 0, 0);
CREATE TABLE shared_cursor (node INTEGER PRIMARY KEY, number INTEGER NOT NULL);
CREATE TABLE shared_row (
    place   TEXT NOT NULL,
    key     TEXT NOT NULL,
    version INTEGER NOT NULL,
    node    INTEGER NOT NULL,
    change  INTEGER,
    body    BLOB,
    PRIMARY KEY (place, key)
) WITHOUT ROWID;
CREATE INDEX shared_row_change ON shared_row (change) WHERE change IS NOT NULL;
CREATE TRIGGER user_added AFTER INSERT ON user WHEN (SELECT noting FROM sharing) = 1 BEGIN
INSERT INTO shared_row (place, key, version, node, change) VALUES ('user', lower(NEW.login), CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER),
  (SELECT node FROM sharing), (SELECT coalesce(max(change), 0) + 1 FROM shared_row))
ON CONFLICT DO UPDATE SET version = max(excluded.version, version + 1),
  node = excluded.node, change = excluded.change, body = NULL;
END;
CREATE TRIGGER user_changed AFTER UPDATE OF role, hash, folders, addresses, must_change, scram ON user WHEN (SELECT noting FROM sharing) = 1 BEGIN
INSERT INTO shared_row (place, key, version, node, change) VALUES ('user', lower(NEW.login), CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER),
  (SELECT node FROM sharing), (SELECT coalesce(max(change), 0) + 1 FROM shared_row))
ON CONFLICT DO UPDATE SET version = max(excluded.version, version + 1),
  node = excluded.node, change = excluded.change, body = NULL;
END;
CREATE TRIGGER user_removed AFTER DELETE ON user WHEN (SELECT noting FROM sharing) = 1 BEGIN
INSERT INTO shared_row (place, key, version, node, change) VALUES ('user', lower(OLD.login), CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER),
  (SELECT node FROM sharing), (SELECT coalesce(max(change), 0) + 1 FROM shared_row))
ON CONFLICT DO UPDATE SET version = max(excluded.version, version + 1),
  node = excluded.node, change = excluded.change, body = NULL;
END;
CREATE TRIGGER totp_added AFTER INSERT ON totp WHEN (SELECT noting FROM sharing) = 1 BEGIN
INSERT INTO shared_row (place, key, version, node, change) VALUES ('totp', lower(NEW.login), CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER),
  (SELECT node FROM sharing), (SELECT coalesce(max(change), 0) + 1 FROM shared_row))
ON CONFLICT DO UPDATE SET version = max(excluded.version, version + 1),
  node = excluded.node, change = excluded.change, body = NULL;
END;
CREATE TRIGGER totp_changed AFTER UPDATE OF secret, enabled, last_step ON totp WHEN (SELECT noting FROM sharing) = 1 BEGIN
INSERT INTO shared_row (place, key, version, node, change) VALUES ('totp', lower(NEW.login), CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER),
  (SELECT node FROM sharing), (SELECT coalesce(max(change), 0) + 1 FROM shared_row))
ON CONFLICT DO UPDATE SET version = max(excluded.version, version + 1),
  node = excluded.node, change = excluded.change, body = NULL;
END;
CREATE TRIGGER totp_removed AFTER DELETE ON totp WHEN (SELECT noting FROM sharing) = 1 BEGIN
INSERT INTO shared_row (place, key, version, node, change) VALUES ('totp', lower(OLD.login), CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER),
  (SELECT node FROM sharing), (SELECT coalesce(max(change), 0) + 1 FROM shared_row))
ON CONFLICT DO UPDATE SET version = max(excluded.version, version + 1),
  node = excluded.node, change = excluded.change, body = NULL;
END;
CREATE TRIGGER recovery_added AFTER INSERT ON recovery WHEN (SELECT noting FROM sharing) = 1 BEGIN
INSERT INTO shared_row (place, key, version, node, change) VALUES ('recovery', lower(NEW.login) || char(10) || hex(NEW.hash), CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER),
  (SELECT node FROM sharing), (SELECT coalesce(max(change), 0) + 1 FROM shared_row))
ON CONFLICT DO UPDATE SET version = max(excluded.version, version + 1),
  node = excluded.node, change = excluded.change, body = NULL;
END;
CREATE TRIGGER recovery_changed AFTER UPDATE ON recovery WHEN (SELECT noting FROM sharing) = 1 BEGIN
INSERT INTO shared_row (place, key, version, node, change) VALUES ('recovery', lower(NEW.login) || char(10) || hex(NEW.hash), CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER),
  (SELECT node FROM sharing), (SELECT coalesce(max(change), 0) + 1 FROM shared_row))
ON CONFLICT DO UPDATE SET version = max(excluded.version, version + 1),
  node = excluded.node, change = excluded.change, body = NULL;
END;
CREATE TRIGGER recovery_removed AFTER DELETE ON recovery WHEN (SELECT noting FROM sharing) = 1 BEGIN
INSERT INTO shared_row (place, key, version, node, change) VALUES ('recovery', lower(OLD.login) || char(10) || hex(OLD.hash), CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER),
  (SELECT node FROM sharing), (SELECT coalesce(max(change), 0) + 1 FROM shared_row))
ON CONFLICT DO UPDATE SET version = max(excluded.version, version + 1),
  node = excluded.node, change = excluded.change, body = NULL;
END;
CREATE TRIGGER app_password_added AFTER INSERT ON app_password WHEN (SELECT noting FROM sharing) = 1 BEGIN
INSERT INTO shared_row (place, key, version, node, change) VALUES ('app_password', lower(NEW.login) || char(10) || NEW.name, CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER),
  (SELECT node FROM sharing), (SELECT coalesce(max(change), 0) + 1 FROM shared_row))
ON CONFLICT DO UPDATE SET version = max(excluded.version, version + 1),
  node = excluded.node, change = excluded.change, body = NULL;
END;
CREATE TRIGGER app_password_changed AFTER UPDATE OF hash, scram ON app_password WHEN (SELECT noting FROM sharing) = 1 BEGIN
INSERT INTO shared_row (place, key, version, node, change) VALUES ('app_password', lower(NEW.login) || char(10) || NEW.name, CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER),
  (SELECT node FROM sharing), (SELECT coalesce(max(change), 0) + 1 FROM shared_row))
ON CONFLICT DO UPDATE SET version = max(excluded.version, version + 1),
  node = excluded.node, change = excluded.change, body = NULL;
END;
CREATE TRIGGER app_password_removed AFTER DELETE ON app_password WHEN (SELECT noting FROM sharing) = 1 BEGIN
INSERT INTO shared_row (place, key, version, node, change) VALUES ('app_password', lower(OLD.login) || char(10) || OLD.name, CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER),
  (SELECT node FROM sharing), (SELECT coalesce(max(change), 0) + 1 FROM shared_row))
ON CONFLICT DO UPDATE SET version = max(excluded.version, version + 1),
  node = excluded.node, change = excluded.change, body = NULL;
END;
CREATE TRIGGER token_added AFTER INSERT ON token WHEN (SELECT noting FROM sharing) = 1 BEGIN
INSERT INTO shared_row (place, key, version, node, change) VALUES ('token', NEW.name, CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER),
  (SELECT node FROM sharing), (SELECT coalesce(max(change), 0) + 1 FROM shared_row))
ON CONFLICT DO UPDATE SET version = max(excluded.version, version + 1),
  node = excluded.node, change = excluded.change, body = NULL;
END;
CREATE TRIGGER token_changed AFTER UPDATE OF hash, scopes, who, expires_ms ON token WHEN (SELECT noting FROM sharing) = 1 BEGIN
INSERT INTO shared_row (place, key, version, node, change) VALUES ('token', NEW.name, CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER),
  (SELECT node FROM sharing), (SELECT coalesce(max(change), 0) + 1 FROM shared_row))
ON CONFLICT DO UPDATE SET version = max(excluded.version, version + 1),
  node = excluded.node, change = excluded.change, body = NULL;
END;
CREATE TRIGGER token_removed AFTER DELETE ON token WHEN (SELECT noting FROM sharing) = 1 BEGIN
INSERT INTO shared_row (place, key, version, node, change) VALUES ('token', OLD.name, CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER),
  (SELECT node FROM sharing), (SELECT coalesce(max(change), 0) + 1 FROM shared_row))
ON CONFLICT DO UPDATE SET version = max(excluded.version, version + 1),
  node = excluded.node, change = excluded.change, body = NULL;
END;
CREATE TRIGGER sender_added AFTER INSERT ON sender WHEN (SELECT noting FROM sharing) = 1 BEGIN
INSERT INTO shared_row (place, key, version, node, change) VALUES ('sender', NEW.entry, CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER),
  (SELECT node FROM sharing), (SELECT coalesce(max(change), 0) + 1 FROM shared_row))
ON CONFLICT DO UPDATE SET version = max(excluded.version, version + 1),
  node = excluded.node, change = excluded.change, body = NULL;
END;
CREATE TRIGGER sender_changed AFTER UPDATE ON sender WHEN (SELECT noting FROM sharing) = 1 BEGIN
INSERT INTO shared_row (place, key, version, node, change) VALUES ('sender', NEW.entry, CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER),
  (SELECT node FROM sharing), (SELECT coalesce(max(change), 0) + 1 FROM shared_row))
ON CONFLICT DO UPDATE SET version = max(excluded.version, version + 1),
  node = excluded.node, change = excluded.change, body = NULL;
END;
CREATE TRIGGER sender_removed AFTER DELETE ON sender WHEN (SELECT noting FROM sharing) = 1 BEGIN
INSERT INTO shared_row (place, key, version, node, change) VALUES ('sender', OLD.entry, CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER),
  (SELECT node FROM sharing), (SELECT coalesce(max(change), 0) + 1 FROM shared_row))
ON CONFLICT DO UPDATE SET version = max(excluded.version, version + 1),
  node = excluded.node, change = excluded.change, body = NULL;
END;
CREATE TRIGGER own_sender_added AFTER INSERT ON own_sender WHEN (SELECT noting FROM sharing) = 1 BEGIN
INSERT INTO shared_row (place, key, version, node, change) VALUES ('own_sender', NEW.address || char(10) || NEW.entry, CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER),
  (SELECT node FROM sharing), (SELECT coalesce(max(change), 0) + 1 FROM shared_row))
ON CONFLICT DO UPDATE SET version = max(excluded.version, version + 1),
  node = excluded.node, change = excluded.change, body = NULL;
END;
CREATE TRIGGER own_sender_changed AFTER UPDATE ON own_sender WHEN (SELECT noting FROM sharing) = 1 BEGIN
INSERT INTO shared_row (place, key, version, node, change) VALUES ('own_sender', NEW.address || char(10) || NEW.entry, CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER),
  (SELECT node FROM sharing), (SELECT coalesce(max(change), 0) + 1 FROM shared_row))
ON CONFLICT DO UPDATE SET version = max(excluded.version, version + 1),
  node = excluded.node, change = excluded.change, body = NULL;
END;
CREATE TRIGGER own_sender_removed AFTER DELETE ON own_sender WHEN (SELECT noting FROM sharing) = 1 BEGIN
INSERT INTO shared_row (place, key, version, node, change) VALUES ('own_sender', OLD.address || char(10) || OLD.entry, CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER),
  (SELECT node FROM sharing), (SELECT coalesce(max(change), 0) + 1 FROM shared_row))
ON CONFLICT DO UPDATE SET version = max(excluded.version, version + 1),
  node = excluded.node, change = excluded.change, body = NULL;
END;
CREATE TRIGGER wish_added AFTER INSERT ON wish WHEN (SELECT noting FROM sharing) = 1 BEGIN
INSERT INTO shared_row (place, key, version, node, change) VALUES ('wish', NEW.address, CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER),
  (SELECT node FROM sharing), (SELECT coalesce(max(change), 0) + 1 FROM shared_row))
ON CONFLICT DO UPDATE SET version = max(excluded.version, version + 1),
  node = excluded.node, change = excluded.change, body = NULL;
END;
CREATE TRIGGER wish_changed AFTER UPDATE ON wish WHEN (SELECT noting FROM sharing) = 1 BEGIN
INSERT INTO shared_row (place, key, version, node, change) VALUES ('wish', NEW.address, CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER),
  (SELECT node FROM sharing), (SELECT coalesce(max(change), 0) + 1 FROM shared_row))
ON CONFLICT DO UPDATE SET version = max(excluded.version, version + 1),
  node = excluded.node, change = excluded.change, body = NULL;
END;
CREATE TRIGGER wish_removed AFTER DELETE ON wish WHEN (SELECT noting FROM sharing) = 1 BEGIN
INSERT INTO shared_row (place, key, version, node, change) VALUES ('wish', OLD.address, CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER),
  (SELECT node FROM sharing), (SELECT coalesce(max(change), 0) + 1 FROM shared_row))
ON CONFLICT DO UPDATE SET version = max(excluded.version, version + 1),
  node = excluded.node, change = excluded.change, body = NULL;
END;
CREATE TRIGGER saved_search_added AFTER INSERT ON saved_search WHEN (SELECT noting FROM sharing) = 1 BEGIN
INSERT INTO shared_row (place, key, version, node, change) VALUES ('saved_search', lower(NEW.login) || char(10) || NEW.name, CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER),
  (SELECT node FROM sharing), (SELECT coalesce(max(change), 0) + 1 FROM shared_row))
ON CONFLICT DO UPDATE SET version = max(excluded.version, version + 1),
  node = excluded.node, change = excluded.change, body = NULL;
END;
CREATE TRIGGER saved_search_changed AFTER UPDATE ON saved_search WHEN (SELECT noting FROM sharing) = 1 BEGIN
INSERT INTO shared_row (place, key, version, node, change) VALUES ('saved_search', lower(NEW.login) || char(10) || NEW.name, CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER),
  (SELECT node FROM sharing), (SELECT coalesce(max(change), 0) + 1 FROM shared_row))
ON CONFLICT DO UPDATE SET version = max(excluded.version, version + 1),
  node = excluded.node, change = excluded.change, body = NULL;
END;
CREATE TRIGGER saved_search_removed AFTER DELETE ON saved_search WHEN (SELECT noting FROM sharing) = 1 BEGIN
INSERT INTO shared_row (place, key, version, node, change) VALUES ('saved_search', lower(OLD.login) || char(10) || OLD.name, CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER),
  (SELECT node FROM sharing), (SELECT coalesce(max(change), 0) + 1 FROM shared_row))
ON CONFLICT DO UPDATE SET version = max(excluded.version, version + 1),
  node = excluded.node, change = excluded.change, body = NULL;
END;
CREATE TRIGGER secret_added AFTER INSERT ON secret WHEN (SELECT noting FROM sharing) = 1 BEGIN
INSERT INTO shared_row (place, key, version, node, change) VALUES ('secret', NEW.name, CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER),
  (SELECT node FROM sharing), (SELECT coalesce(max(change), 0) + 1 FROM shared_row))
ON CONFLICT DO UPDATE SET version = max(excluded.version, version + 1),
  node = excluded.node, change = excluded.change, body = NULL;
END;
CREATE TRIGGER secret_changed AFTER UPDATE ON secret WHEN (SELECT noting FROM sharing) = 1 BEGIN
INSERT INTO shared_row (place, key, version, node, change) VALUES ('secret', NEW.name, CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER),
  (SELECT node FROM sharing), (SELECT coalesce(max(change), 0) + 1 FROM shared_row))
ON CONFLICT DO UPDATE SET version = max(excluded.version, version + 1),
  node = excluded.node, change = excluded.change, body = NULL;
END;
CREATE TRIGGER secret_removed AFTER DELETE ON secret WHEN (SELECT noting FROM sharing) = 1 BEGIN
INSERT INTO shared_row (place, key, version, node, change) VALUES ('secret', OLD.name, CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER),
  (SELECT node FROM sharing), (SELECT coalesce(max(change), 0) + 1 FROM shared_row))
ON CONFLICT DO UPDATE SET version = max(excluded.version, version + 1),
  node = excluded.node, change = excluded.change, body = NULL;
END;
CREATE TRIGGER used_link_added AFTER INSERT ON used_link WHEN (SELECT noting FROM sharing) = 1 BEGIN
INSERT INTO shared_row (place, key, version, node, change) VALUES ('used_link', hex(NEW.hash), CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER),
  (SELECT node FROM sharing), (SELECT coalesce(max(change), 0) + 1 FROM shared_row))
ON CONFLICT DO UPDATE SET version = max(excluded.version, version + 1),
  node = excluded.node, change = excluded.change, body = NULL;
END;
CREATE TRIGGER used_link_changed AFTER UPDATE ON used_link WHEN (SELECT noting FROM sharing) = 1 BEGIN
INSERT INTO shared_row (place, key, version, node, change) VALUES ('used_link', hex(NEW.hash), CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER),
  (SELECT node FROM sharing), (SELECT coalesce(max(change), 0) + 1 FROM shared_row))
ON CONFLICT DO UPDATE SET version = max(excluded.version, version + 1),
  node = excluded.node, change = excluded.change, body = NULL;
END;
CREATE TRIGGER used_link_removed AFTER DELETE ON used_link WHEN (SELECT noting FROM sharing) = 1 AND OLD.until_ms > CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) BEGIN
INSERT INTO shared_row (place, key, version, node, change) VALUES ('used_link', hex(OLD.hash), CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER),
  (SELECT node FROM sharing), (SELECT coalesce(max(change), 0) + 1 FROM shared_row))
ON CONFLICT DO UPDATE SET version = max(excluded.version, version + 1),
  node = excluded.node, change = excluded.change, body = NULL;
END;
PRAGMA user_version = 9;
