//! Which tables of the user database are shared, and the triggers that note their changes.

/// A shared table.
#[derive(Debug)]
pub(super) struct Table {
    /// Its name, on the wire, too.
    pub(super) name: &'static str,
    /// Columns of its primary key.
    pub(super) key: &'static [&'static str],
    /// Other columns that are shared; the rest is each node's own.
    pub(super) columns: &'static [&'static str],
    /// Belongs to a user, by `login`, and cannot be without them.
    pub(super) is_of_user: bool,
}

const fn table(
    name: &'static str,
    key: &'static [&'static str],
    columns: &'static [&'static str],
    is_of_user: bool,
) -> Table {
    Table { name, key, columns, is_of_user }
}

/// All of them; a user stands before what belongs to one.
pub(super) const TABLES: [Table; 11] = [
    table(
        "user",
        &["login"],
        &["role", "hash", "folders", "addresses", "must_change", "created_ms", "scram"],
        false,
    ),
    table("totp", &["login"], &["secret", "enabled", "last_step"], true),
    table("recovery", &["login", "hash"], &[], true),
    table("app_password", &["login", "name"], &["hash", "scram", "created_ms"], true),
    table("token", &["name"], &["hash", "scopes", "who", "created_ms", "expires_ms"], false),
    table("sender", &["entry"], &["allow", "who", "at_ms"], false),
    table("own_sender", &["address", "entry"], &["allow"], false),
    table("wish", &["address"], &["strictness", "spam_points"], false),
    table("saved_search", &["login", "name"], &["query", "shared"], false),
    table("secret", &["name"], &["value"], false),
    table("used_link", &["hash"], &["until_ms"], false),
];

impl Table {
    /// The shared table of this name.
    pub(super) fn named(name: &str) -> Option<&'static Self> {
        TABLES.iter().find(|table| table.name == name)
    }

    /// SQL that gives the key of a row, as `shared_row.key` has it. The triggers spell it the same.
    pub(super) fn key_sql(&self) -> String {
        let part = |column: &&str| match *column {
            "login" => "lower(login)".to_owned(),
            "hash" => "hex(hash)".to_owned(),
            other => other.to_owned(),
        };
        self.key.iter().map(part).collect::<Vec<_>>().join(" || char(10) || ")
    }

    /// SQL that finds the row of a key, whose parts are [`Table::key_parts`].
    pub(super) fn find_sql(&self) -> String {
        let equal = |(n, column): (usize, &&str)| match *column {
            "login" => format!("login = ?{} COLLATE NOCASE", n + 1),
            "hash" => format!("hash = unhex(?{})", n + 1),
            other => format!("{other} = ?{}", n + 1),
        };
        self.key.iter().enumerate().map(equal).collect::<Vec<_>>().join(" AND ")
    }

    /// The parts of a key; none if it is no key of this table.
    pub(super) fn key_parts<'k>(&self, key: &'k str) -> Option<Vec<&'k str>> {
        let parts: Vec<&str> = key.splitn(self.key.len(), '\n').collect();
        (parts.len() == self.key.len()).then_some(parts)
    }

    /// Key and other columns.
    pub(super) fn all_columns(&self) -> impl Iterator<Item = &'static str> {
        self.key.iter().chain(self.columns).copied()
    }
}

/// Notes what changes in a table: its name, the key of the new row and of the old one, and what an
/// update must name to count. A version is the time of the change in Unix milliseconds, and later
/// than the row's last.
macro_rules! noted {
    ($table:literal, $new:literal, $old:literal, $of:literal, $unless:literal) => {
        concat!(
            noted!(@on $table, "added", "INSERT", $new, ""),
            noted!(@on $table, "changed", $of, $new, ""),
            noted!(@on $table, "removed", "DELETE", $old, $unless),
        )
    };
    (@on $table:literal, $suffix:literal, $event:literal, $key:literal, $unless:literal) => {
        concat!(
            "CREATE TRIGGER ", $table, "_", $suffix, " AFTER ", $event, " ON ", $table,
            " WHEN (SELECT noting FROM sharing) = 1", $unless, " BEGIN\n",
            "INSERT INTO shared_row (place, key, version, node, change) VALUES ('", $table, "', ",
            $key, ", CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER),\n",
            "  (SELECT node FROM sharing), (SELECT coalesce(max(change), 0) + 1 FROM shared_row))\n",
            "ON CONFLICT DO UPDATE SET version = max(excluded.version, version + 1),\n",
            "  node = excluded.node, change = excluded.change, body = NULL;\nEND;\n"
        )
    };
}

/// The ninth version of the schema.
pub(in crate::users) const MIGRATION: &str = concat!(
    "
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
",
    noted!(
        "user",
        "lower(NEW.login)",
        "lower(OLD.login)",
        "UPDATE OF role, hash, folders, addresses, must_change, scram",
        ""
    ),
    noted!(
        "totp",
        "lower(NEW.login)",
        "lower(OLD.login)",
        "UPDATE OF secret, enabled, last_step",
        ""
    ),
    noted!(
        "recovery",
        "lower(NEW.login) || char(10) || hex(NEW.hash)",
        "lower(OLD.login) || char(10) || hex(OLD.hash)",
        "UPDATE",
        ""
    ),
    noted!(
        "app_password",
        "lower(NEW.login) || char(10) || NEW.name",
        "lower(OLD.login) || char(10) || OLD.name",
        "UPDATE OF hash, scram",
        ""
    ),
    noted!("token", "NEW.name", "OLD.name", "UPDATE OF hash, scopes, who, expires_ms", ""),
    noted!("sender", "NEW.entry", "OLD.entry", "UPDATE", ""),
    noted!(
        "own_sender",
        "NEW.address || char(10) || NEW.entry",
        "OLD.address || char(10) || OLD.entry",
        "UPDATE",
        ""
    ),
    noted!("wish", "NEW.address", "OLD.address", "UPDATE", ""),
    noted!(
        "saved_search",
        "lower(NEW.login) || char(10) || NEW.name",
        "lower(OLD.login) || char(10) || OLD.name",
        "UPDATE",
        ""
    ),
    noted!("secret", "NEW.name", "OLD.name", "UPDATE", ""),
    // Uses that have expired go by themselves, everywhere.
    noted!(
        "used_link",
        "hex(NEW.hash)",
        "hex(OLD.hash)",
        "UPDATE",
        " AND OLD.until_ms > CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)"
    ),
);
