//! The tables.

/// Version N of the schema is what the first N make.
pub(crate) const MIGRATIONS: &[&str] = &["
    CREATE TABLE request (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        at_ms INTEGER NOT NULL,
        reference TEXT NOT NULL,
        client TEXT NOT NULL,
        user TEXT NOT NULL,
        url TEXT NOT NULL,
        rule TEXT NOT NULL,
        reason TEXT NOT NULL,
        mail TEXT NOT NULL,
        times INTEGER NOT NULL DEFAULT 1,
        state TEXT NOT NULL DEFAULT 'open',
        decided_ms INTEGER,
        decided_by TEXT NOT NULL DEFAULT '',
        note TEXT NOT NULL DEFAULT '',
        exception INTEGER
    );
    CREATE INDEX request_state ON request (state, number);
    CREATE TABLE exception (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        at_ms INTEGER NOT NULL,
        target TEXT NOT NULL,
        client TEXT NOT NULL,
        user TEXT NOT NULL,
        until_ms INTEGER,
        by TEXT NOT NULL,
        note TEXT NOT NULL,
        request INTEGER,
        revoked_ms INTEGER,
        revoked_by TEXT NOT NULL DEFAULT ''
    );
"];
