-- quarantine.db as version 3 of its schema left it: one held, one released, one deleted message.
CREATE TABLE item (
    seq         INTEGER PRIMARY KEY AUTOINCREMENT,
    id          TEXT NOT NULL UNIQUE,
    message     TEXT NOT NULL,
    folder      TEXT NOT NULL,
    state       TEXT NOT NULL,
    received_ms INTEGER NOT NULL,
    changed_ms  INTEGER NOT NULL,
    class       TEXT NOT NULL,
    score       REAL NOT NULL,
    size        INTEGER NOT NULL,
    sender      TEXT NOT NULL,
    subject     TEXT NOT NULL,
    recipients  TEXT NOT NULL,
    rest        TEXT NOT NULL,
    content     TEXT,
    token       TEXT UNIQUE,
    release     TEXT,
    released_by TEXT
);
CREATE INDEX item_folder ON item (folder, state, received_ms);
CREATE INDEX item_received ON item (received_ms);
CREATE INDEX item_message ON item (message);
CREATE INDEX item_content ON item (content) WHERE content IS NOT NULL;
CREATE TABLE item_recipient (
    recipient TEXT NOT NULL,
    seq       INTEGER NOT NULL REFERENCES item (seq) ON DELETE CASCADE,
    PRIMARY KEY (recipient, seq)
) WITHOUT ROWID;
CREATE INDEX item_recipient_seq ON item_recipient (seq);
CREATE TABLE garbage (content TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE audit (
    seq    INTEGER PRIMARY KEY AUTOINCREMENT,
    at_ms  INTEGER NOT NULL,
    who    TEXT NOT NULL,
    action TEXT NOT NULL,
    item   TEXT NOT NULL,
    detail TEXT NOT NULL
);
CREATE INDEX audit_item ON audit (item);
CREATE TABLE folder_total (
    folder TEXT PRIMARY KEY,
    items  INTEGER NOT NULL,
    bytes  INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TRIGGER item_put AFTER INSERT ON item WHEN new.state = 'held' BEGIN
    INSERT OR IGNORE INTO folder_total VALUES (new.folder, 0, 0);
    UPDATE folder_total SET items = items + 1, bytes = bytes + new.size WHERE folder = new.folder;
END;
CREATE TRIGGER item_held_no_more AFTER UPDATE OF state ON item WHEN old.state = 'held' AND new.state <> 'held' BEGIN
    UPDATE folder_total SET items = items - 1, bytes = bytes - old.size WHERE folder = old.folder;
END;
CREATE TRIGGER item_held_again AFTER UPDATE OF state ON item WHEN old.state <> 'held' AND new.state = 'held' BEGIN
    UPDATE folder_total SET items = items + 1, bytes = bytes + new.size WHERE folder = new.folder;
END;
CREATE TRIGGER item_forgotten AFTER DELETE ON item WHEN old.state = 'held' BEGIN
    UPDATE folder_total SET items = items - 1, bytes = bytes - old.size WHERE folder = old.folder;
END;
INSERT INTO item VALUES
  (1, 'q1', 'm1', 'suspect', 'held', 1000, 1000, 'suspect', 4.5, 6, 'Eve <eve@example.net>', 'Win', '["bob@example.org"]',
   '{"direction":"inbound","client_ip":"192.0.2.1","client_name":null,"helo":"mail.example.net","mail_from":"eve@example.net","rcpt_to":["bob@example.org"],"auth_user":null,"tls":null,"received_at":1}', NULL, NULL, NULL, NULL),
  (2, 'q2', 'm2', 'suspect', 'released', 2000, 2500, 'spam', 7.0, 6, 'Eve <eve@example.net>', 'Again', '["bob@example.org"]',
   '{"direction":"inbound","client_ip":"192.0.2.1","client_name":null,"helo":"mail.example.net","mail_from":"eve@example.net","rcpt_to":["bob@example.org"],"auth_user":null,"tls":null,"received_at":1}', NULL, 't2', NULL, 'admin'),
  (3, 'q3', 'm3', 'explicit', 'deleted', 3000, 3500, 'spam', 17.0, 6, 'Eve <eve@example.net>', 'More', '["ann@example.org"]',
   '{"direction":"inbound","client_ip":"192.0.2.1","client_name":null,"helo":"mail.example.net","mail_from":"eve@example.net","rcpt_to":["bob@example.org"],"auth_user":null,"tls":null,"received_at":1}', NULL, NULL, NULL, NULL);
INSERT INTO item_recipient VALUES ('bob@example.org', 1), ('bob@example.org', 2), ('ann@example.org', 3);
INSERT INTO audit (at_ms, who, action, item, detail) VALUES (2500, 'ada', 'release', 'q2', 'bob@example.org');
CREATE TABLE pack (
    number     INTEGER PRIMARY KEY,
    name       TEXT NOT NULL,
    bytes      INTEGER NOT NULL,
    live       INTEGER NOT NULL,
    live_bytes INTEGER NOT NULL,
    state      TEXT NOT NULL DEFAULT 'open'
);
CREATE TABLE body (
    content TEXT PRIMARY KEY,
    pack    INTEGER NOT NULL,
    offset  INTEGER NOT NULL,
    bytes   INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX body_pack ON body (pack);
ALTER TABLE item ADD COLUMN pack INTEGER;
ALTER TABLE item ADD COLUMN entry_offset INTEGER;
ALTER TABLE item ADD COLUMN entry_bytes INTEGER;
ALTER TABLE item ADD COLUMN noted TEXT NOT NULL DEFAULT 'held';
CREATE INDEX item_pack ON item (pack, entry_offset) WHERE pack IS NOT NULL;
CREATE INDEX item_unnoted ON item (seq) WHERE state <> noted;
CREATE TABLE gone (
    pack INTEGER NOT NULL,
    id   TEXT NOT NULL,
    PRIMARY KEY (pack, id)
) WITHOUT ROWID;
PRAGMA user_version = 4;
