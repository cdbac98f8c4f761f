//! The tables of a day.

/// Version N of the schema is what the first N make.
pub(crate) const MIGRATIONS: &[&str] = &[
    "
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
",
    "
    ALTER TABLE request ADD COLUMN action TEXT;
    ALTER TABLE request ADD COLUMN listed TEXT;
    ALTER TABLE request ADD COLUMN bytes_declared INTEGER;
",
    "
    ALTER TABLE request ADD COLUMN server_address TEXT;
",
];

/// Columns that came later, with the version that has them.
const LATER: [(&str, u32); 4] =
    [("action", 2), ("listed", 2), ("bytes_declared", 2), ("server_address", 3)];

/// The later columns in a day of this version: what it does not have is empty.
pub(super) fn later_columns(version: u32) -> String {
    let column = |(name, since): (&str, u32)| match version < since {
        true => format!("NULL AS {name}"),
        false => name.to_owned(),
    };
    LATER.map(column).join(", ")
}
