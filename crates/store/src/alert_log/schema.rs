//! The tables of a day.

/// Version N of the schema is what the first N make.
pub(crate) const MIGRATIONS: &[&str] = &["
    CREATE TABLE alert (
        row INTEGER PRIMARY KEY,
        at_ms INTEGER NOT NULL,
        kind TEXT NOT NULL,
        action TEXT NOT NULL,
        severity INTEGER NOT NULL,
        rule TEXT NOT NULL,
        title TEXT NOT NULL,
        category TEXT NOT NULL,
        source TEXT NOT NULL,
        source_port INTEGER NOT NULL,
        destination TEXT NOT NULL,
        destination_port INTEGER NOT NULL,
        protocol TEXT NOT NULL,
        flow INTEGER NOT NULL,
        record TEXT NOT NULL
    );
    CREATE INDEX alert_rule ON alert (rule);
    CREATE INDEX alert_source ON alert (source);
    CREATE INDEX alert_destination ON alert (destination);
    CREATE INDEX alert_flow ON alert (flow);
"];
