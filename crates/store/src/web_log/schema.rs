//! The tables of a day.

/// Version N of the schema is what the first N make.
pub(super) const MIGRATIONS: &[&str] = &["
    CREATE TABLE request (
        row INTEGER PRIMARY KEY,
        at_ms INTEGER NOT NULL,
        took_ms INTEGER NOT NULL,
        reference TEXT NOT NULL,
        client TEXT NOT NULL,
        user TEXT NOT NULL,
        method TEXT NOT NULL,
        host TEXT NOT NULL,
        url TEXT NOT NULL,
        status INTEGER NOT NULL,
        outcome TEXT NOT NULL,
        rule TEXT NOT NULL,
        category TEXT NOT NULL,
        evidence TEXT NOT NULL,
        content_type TEXT NOT NULL,
        bytes_in INTEGER NOT NULL,
        bytes_out INTEGER NOT NULL
    );
    CREATE INDEX request_host ON request (host);
    CREATE INDEX request_client ON request (client);
    CREATE INDEX request_rule ON request (rule) WHERE rule <> '';
    CREATE INDEX request_reference ON request (reference) WHERE reference <> '';
"];
