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
];

/// Columns that came with version 2.
const COLUMNS_2: [&str; 3] = ["action", "listed", "bytes_declared"];

/// The columns of version 2 in a day of this version: of an older one they are empty.
pub(super) fn later_columns(version: u32) -> String {
    let column = |name: &str| match version {
        0 | 1 => format!("NULL AS {name}"),
        _ => name.to_owned(),
    };
    COLUMNS_2.map(column).join(", ")
}
