//! The tables of one day of the log.

/// Version N is made by the first N of these. Never edit one that was released: add another.
pub(crate) const MIGRATIONS: &[&str] = &[DAY_1, DAY_2, DAY_3, DAY_4, DAY_5];

/// `seq` is received_ms * 4096 plus a tie-break, so that the row id orders and selects by time and
/// no second index is needed. `posting` finds messages by exact values (see `terms.rs`); it stores
/// no text, and needs no deletes because a day is deleted as a whole file.
const DAY_1: &str = "
CREATE TABLE message (
    seq        INTEGER PRIMARY KEY,
    id         TEXT NOT NULL,
    class      TEXT NOT NULL,
    score      REAL NOT NULL,
    size       INTEGER NOT NULL,
    sender     TEXT NOT NULL,
    subject    TEXT NOT NULL,
    message_id TEXT NOT NULL,
    latency_ms INTEGER NOT NULL,
    rest       BLOB NOT NULL
);
CREATE UNIQUE INDEX message_id_once ON message (id);
CREATE TABLE recipient (
    seq       INTEGER NOT NULL,
    recipient TEXT NOT NULL,
    place     INTEGER NOT NULL,
    action    TEXT NOT NULL,
    rest      TEXT NOT NULL,
    PRIMARY KEY (seq, recipient)
) WITHOUT ROWID;
CREATE TABLE delivery (
    seq      INTEGER NOT NULL,
    address  TEXT NOT NULL,
    outcome  TEXT NOT NULL,
    at_ms    INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    next_hop TEXT NOT NULL,
    reply    TEXT NOT NULL,
    PRIMARY KEY (seq, address)
) WITHOUT ROWID;
CREATE TABLE event (
    seq       INTEGER NOT NULL,
    at_ms     INTEGER NOT NULL,
    kind      TEXT NOT NULL,
    recipient TEXT NOT NULL,
    detail    TEXT NOT NULL,
    PRIMARY KEY (seq, at_ms, kind, recipient)
) WITHOUT ROWID;
CREATE VIRTUAL TABLE posting USING fts5 (
    term, content = '', detail = none, columnsize = 0, tokenize = 'ascii'
);
CREATE TABLE tally (
    minute   INTEGER NOT NULL,
    class    TEXT NOT NULL,
    action   TEXT NOT NULL,
    messages INTEGER NOT NULL,
    bytes    INTEGER NOT NULL,
    PRIMARY KEY (minute, class, action)
) WITHOUT ROWID;
CREATE TABLE tally_top (
    kind     TEXT NOT NULL,
    name     TEXT NOT NULL,
    messages INTEGER NOT NULL,
    PRIMARY KEY (kind, name)
) WITHOUT ROWID;
";

/// Compression dictionaries of the day (see `dictionary.rs`), by number. And the term index
/// collects more parts before it merges them: while the day lasts each word is written twice and
/// not four times, and when it is over all parts become one.
const DAY_2: &str = "
CREATE TABLE dictionary (
    number INTEGER PRIMARY KEY,
    words  BLOB NOT NULL
);
INSERT INTO posting (posting, rank) VALUES ('automerge', 16);
INSERT INTO posting (posting, rank) VALUES ('crisismerge', 64);
";

/// The log's own index (see `index.rs`). Files with messages keep `posting`, others lose it when
/// they are written.
const DAY_3: &str = "
CREATE TABLE term_part (
    part   INTEGER PRIMARY KEY,
    level  INTEGER NOT NULL,
    first  INTEGER NOT NULL,
    last   INTEGER NOT NULL,
    leaves BLOB NOT NULL,
    keys   BLOB NOT NULL
);
CREATE TABLE term_leaf (
    place   INTEGER PRIMARY KEY,
    entries BLOB NOT NULL
);
";

/// Records are packed many at a time (see `pack.rs`), `rest` is the position; the addresses that a
/// message was logged with are in its own row (see `addresses.rs`). Counts of a batch are collected
/// in a row of their own (see `tops.rs`).
const DAY_4: &str = "
ALTER TABLE message ADD COLUMN people BLOB NOT NULL DEFAULT x'';
CREATE TABLE pack (
    number  INTEGER PRIMARY KEY,
    records BLOB NOT NULL
);
CREATE TABLE tally_part (
    number INTEGER PRIMARY KEY,
    names  BLOB NOT NULL
);
";

/// What an array's database has not got yet (see `feed.rs`): a row for each change of a message, in
/// order. `feed` has one row while changes of this day are collected.
const DAY_5: &str = "
CREATE TABLE unshipped (
    change INTEGER PRIMARY KEY AUTOINCREMENT,
    seq    INTEGER NOT NULL
);
CREATE TABLE feed (began INTEGER PRIMARY KEY);
";
