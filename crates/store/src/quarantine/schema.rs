//! The tables of the quarantine.

use crate::packs::index::pack_tables;

/// Version N is made by the first N of these. Never edit one that was released: add another.
pub(crate) const MIGRATIONS: &[&str] = &["
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
    release     TEXT
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
",
    // Totals of each folder, updated by triggers: counting a million rows for each page of the
    // console would be the most expensive part of the page. No upsert: its conflict clause would be
    // that of the statement which fired the trigger.
    "
CREATE TABLE folder_total (
    folder TEXT PRIMARY KEY,
    items  INTEGER NOT NULL,
    bytes  INTEGER NOT NULL
) WITHOUT ROWID;
INSERT INTO folder_total SELECT folder, count(*), sum(size) FROM item WHERE state = 'held' GROUP BY folder;
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
",
    // Who may release it by the rule that held it: 'user', 'admin', or NULL for the folder's
    // setting.
    "ALTER TABLE item ADD COLUMN released_by TEXT;",
    // Bodies are in packs; those of `bodies/` are moved there. An item's own record is in a pack,
    // too: (pack, entry_offset, entry_bytes); pack is NULL once it has no body. `noted` is the
    // state that the packs know of. `gone` has the items without a body whose record is still in a
    // pack: a list that is made again from the packs must not bring them back.
    concat!(
        pack_tables!(),
        "ALTER TABLE item ADD COLUMN pack INTEGER;
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
"
    ),
    // What an array has not got yet; `feed` has a row while this node belongs to one. Triggers, not
    // code: what a command beside the node changes must be noted, too.
    "
CREATE TABLE feed (began INTEGER NOT NULL);
CREATE TABLE unshipped_item (
    change INTEGER PRIMARY KEY AUTOINCREMENT,
    id     TEXT NOT NULL
);
CREATE TRIGGER feed_put AFTER INSERT ON item WHEN EXISTS (SELECT 1 FROM feed) BEGIN
    INSERT INTO unshipped_item (id) VALUES (new.id);
END;
CREATE TRIGGER feed_change AFTER UPDATE OF state, content ON item WHEN EXISTS (SELECT 1 FROM feed) BEGIN
    INSERT INTO unshipped_item (id) VALUES (new.id);
END;
CREATE TRIGGER feed_forgotten AFTER DELETE ON item WHEN EXISTS (SELECT 1 FROM feed) BEGIN
    INSERT INTO unshipped_item (id) VALUES (old.id);
END;
",
];
