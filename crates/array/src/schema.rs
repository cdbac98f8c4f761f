//! The tables of the array, in a schema of PostgreSQL called `gauntlet`.
//!
//! Changes only add: a program that knows an older schema goes on working beside a newer one, so
//! nodes are upgraded one after the other. Where that cannot be, `needs` says the oldest schema
//! that a program must know. Whoever comes first makes or upgrades the tables, under a lock.

use tokio_postgres::error::SqlState;

use crate::database::{Database, Session};
use crate::error::ArrayError;
use crate::{activity, state};

/// Version N is made by the first N of these. Never edit one that was released: add another.
const MIGRATIONS: &[&str] =
    &[TABLES_1, TABLES_2, TABLES_DUTIES, TABLES_JOINING, state::TABLES, activity::TABLES, TABLES_7];

/// The newest schema that this program knows.
pub const KNOWN: i32 = MIGRATIONS.len() as i32;

/// Programs that know this schema read packs by columns ([`crate::pack::Layout`]).
pub const COLUMNS_SINCE: i32 = 7;

/// The oldest schema that a program must know to use the tables of [`KNOWN`].
const NEEDS: i32 = 1;

/// Key of the advisory lock for changes of tables: "gauntlet" as a number.
pub(crate) const TABLES_LOCK: i64 = 0x6761_756e_746c_6574;

/// Nodes, log, counts, editions of the policy, orders, messages that move.
///
/// `log_pack`: see [`crate::pack`]. Times are Unix milliseconds or days since 1970, as everywhere
/// in the program, except where only people read them.
const TABLES_1: &str = "
CREATE TABLE node (
    id       smallint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name     text NOT NULL UNIQUE,
    identity text NOT NULL UNIQUE,
    grouped  text NOT NULL DEFAULT '',
    state    text NOT NULL DEFAULT 'active',
    joined   timestamptz NOT NULL DEFAULT now(),
    seen     timestamptz NOT NULL DEFAULT now(),
    status   text NOT NULL DEFAULT '{}'
);
CREATE SEQUENCE log_pack_number;
CREATE TABLE log_pack (
    day      integer NOT NULL,
    node     smallint NOT NULL,
    number   bigint NOT NULL DEFAULT nextval('log_pack_number'),
    first    bigint NOT NULL,
    last     bigint NOT NULL,
    messages smallint NOT NULL,
    terms    integer[] NOT NULL,
    body     bytea NOT NULL,
    PRIMARY KEY (day, node, number)
) PARTITION BY RANGE (day);
ALTER TABLE log_pack ALTER COLUMN body SET STORAGE EXTERNAL;
CREATE FUNCTION pack_terms(packed bytea) RETURNS integer[] LANGUAGE sql IMMUTABLE STRICT AS
    'SELECT array_agg((get_byte(packed, 4 * i) << 24) | (get_byte(packed, 4 * i + 1) << 16)
        | (get_byte(packed, 4 * i + 2) << 8) | get_byte(packed, 4 * i + 3) ORDER BY i)
     FROM generate_series(0, length(packed) / 4 - 1) i';
CREATE INDEX log_pack_last ON log_pack (last DESC, number DESC);
CREATE INDEX log_pack_terms ON log_pack USING gin (terms);
CREATE TABLE log_count (
    minute   integer NOT NULL,
    node     smallint NOT NULL,
    class    text NOT NULL,
    action   text NOT NULL,
    messages bigint NOT NULL,
    bytes    bigint NOT NULL,
    PRIMARY KEY (minute, node, class, action)
);
CREATE TABLE log_day (
    day    integer NOT NULL,
    node   smallint NOT NULL,
    counts bytea NOT NULL,
    PRIMARY KEY (day, node)
);
CREATE TABLE edition (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind   text NOT NULL,
    scope  text NOT NULL,
    body   text NOT NULL,
    who    text NOT NULL,
    note   text NOT NULL,
    made   timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX edition_of ON edition (kind, scope, number);
CREATE TABLE node_order (
    id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    node      smallint NOT NULL REFERENCES node (id),
    kind      text NOT NULL,
    arguments text NOT NULL,
    who       text NOT NULL,
    made      timestamptz NOT NULL DEFAULT now(),
    done      timestamptz,
    is_good   boolean,
    outcome   text
);
CREATE INDEX node_order_open ON node_order (node, id) WHERE done IS NULL;
CREATE TABLE transfer (
    token   text PRIMARY KEY,
    source  smallint NOT NULL REFERENCES node (id),
    target  smallint NOT NULL REFERENCES node (id),
    message bigint NOT NULL,
    body    bytea NOT NULL,
    answer  text,
    made    timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX transfer_target ON transfer (target, made) WHERE answer IS NULL;
CREATE INDEX transfer_source ON transfer (source, made) WHERE answer IS NOT NULL;
";

/// Held mail: its index, and the objects that have the bodies.
///
/// `held.seq` orders items by the second of their reception, and by arrival within it: the second
/// in the upper bits, a running number in the lower 20. So it says where a page ends, and stays
/// below 2^53, which JSON's readers need. An object is `writing` until its rows are there, in the
/// same transaction `whole`, and `dropped` when nothing names it: then it is removed, and last its
/// row.
const TABLES_2: &str = "
CREATE TABLE held_object (
    id    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    node  smallint NOT NULL,
    name  text NOT NULL,
    bytes bigint NOT NULL DEFAULT 0,
    state text NOT NULL DEFAULT 'writing',
    made  timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX held_object_unfinished ON held_object (state, id) WHERE state <> 'whole';
CREATE SEQUENCE held_number;
CREATE TABLE held (
    seq        bigint NOT NULL UNIQUE,
    object     bigint,
    place      bigint,
    received   bigint NOT NULL,
    changed    bigint NOT NULL,
    size       bigint NOT NULL,
    score      double precision NOT NULL,
    bytes      integer,
    node       smallint NOT NULL,
    item       text NOT NULL,
    message    text NOT NULL,
    folder     text NOT NULL,
    state      text NOT NULL,
    class      text NOT NULL,
    sender     text NOT NULL,
    subject    text NOT NULL,
    recipients text[] NOT NULL,
    rest       bytea NOT NULL,
    PRIMARY KEY (item, node)
);
CREATE INDEX held_folder ON held (folder, seq) INCLUDE (size, received) WHERE state = 'held';
CREATE INDEX held_message ON held (message);
CREATE INDEX held_recipients ON held USING gin (recipients);
CREATE INDEX held_by_object ON held (object) WHERE object IS NOT NULL;
";

/// What one node does for all, and which held messages were in a digest of whom
/// ([`crate::duties`]).
const TABLES_DUTIES: &str = "
CREATE TABLE duty (
    name  text PRIMARY KEY,
    due   bigint NOT NULL,
    node  smallint NOT NULL,
    taken timestamptz NOT NULL DEFAULT now(),
    done  timestamptz
);
CREATE TABLE digested (
    address text NOT NULL,
    node    smallint NOT NULL,
    item    text NOT NULL,
    PRIMARY KEY (address, node, item)
);
";

/// Certificates of nodes, and invitations ([`crate::joining`]). The role of a token may call the
/// two functions, which run as their owner, and sees no table. `secret` is the hash of the token's.
const TABLES_JOINING: &str = "
CREATE TABLE certificate (
    serial  text PRIMARY KEY,
    name    text NOT NULL,
    made    timestamptz NOT NULL DEFAULT now(),
    until   timestamptz NOT NULL,
    revoked timestamptz
);
CREATE TABLE invitation (
    secret  text PRIMARY KEY,
    name    text NOT NULL,
    until   timestamptz NOT NULL,
    request bytea,
    answer  text
);
CREATE FUNCTION join_ask(asked text, public_key bytea) RETURNS text LANGUAGE sql
    SECURITY DEFINER SET search_path = gauntlet, pg_temp AS
    'UPDATE invitation SET request = public_key
     WHERE secret = encode(sha256(convert_to(asked, ''UTF8'')), ''hex'') AND until > now()
     AND (request IS NULL OR request = public_key) RETURNING name';
CREATE FUNCTION join_answer(asked text) RETURNS text LANGUAGE sql
    SECURITY DEFINER SET search_path = gauntlet, pg_temp AS
    'SELECT answer FROM invitation
     WHERE secret = encode(sha256(convert_to(asked, ''UTF8'')), ''hex'') AND until > now()';
REVOKE ALL ON FUNCTION join_ask(text, bytea), join_answer(text) FROM PUBLIC;
";

/// Terms of packs in three bytes and not four. They come ascending, so that of the first byte it is
/// enough to know how many there are with each of its 256 values: these numbers first, a byte each.
/// A value that more than 255 terms begin with is for `pack_terms`.
const TABLES_7: &str = "
CREATE FUNCTION pack_terms_by_byte(packed bytea) RETURNS integer[] LANGUAGE sql IMMUTABLE STRICT AS
    'WITH first AS (SELECT b - 128 AS byte, (row_number() OVER (ORDER BY b))::integer - 1 AS i
                    FROM generate_series(0, 255) AS b, generate_series(1, get_byte(packed, b)))
     SELECT coalesce(array_agg((byte << 24) | (get_byte(packed, 256 + 3 * i) << 16)
        | (get_byte(packed, 257 + 3 * i) << 8) | get_byte(packed, 258 + 3 * i) ORDER BY i), ''{}'')
     FROM first';
";

/// Connects, and makes sure that this program may use the tables.
///
/// # Errors
/// As [`Database::connect`] and [`check`].
pub async fn session(database: &Database) -> Result<Session, ArrayError> {
    let session = database.connect().await?;
    check(&session).await?;
    Ok(session)
}

/// Connects for somebody who only reads: any server will do, and the tables are not touched.
///
/// # Errors
/// As [`Database::connect`]; if there are no tables, or they are too old or too new.
pub async fn session_to_read(database: &Database) -> Result<Session, ArrayError> {
    let session = database.connect().await?;
    match found(&session).await? {
        (0, _) => Err(ArrayError::NotMade),
        (found, needed) if needed > KNOWN => Err(ArrayError::Newer { found, needed, known: KNOWN }),
        (found, _) if found < KNOWN => Err(ArrayError::Older { found, known: KNOWN }),
        _ => Ok(session),
    }
}

/// Makes the tables or upgrades them if that is needed. Returns the schema that is there then.
///
/// # Errors
/// If they are too new for this program, or the login may not make them.
pub async fn check(session: &Session) -> Result<i32, ArrayError> {
    let (found, needed) = found(session).await?;
    if needed > KNOWN {
        return Err(ArrayError::Newer { found, needed, known: KNOWN });
    }
    if found >= KNOWN {
        return Ok(found);
    }
    match make(session, KNOWN).await {
        Ok(()) => Ok(KNOWN),
        Err(ArrayError::Statement { .. }) if found > 0 => {
            Err(ArrayError::Older { found, known: KNOWN })
        }
        Err(error) => Err(error),
    }
}

/// The schema of the tables and the one that they need; 0 if there are none.
async fn found(session: &Session) -> Result<(i32, i32), ArrayError> {
    let sql = "SELECT found, needs FROM gauntlet.version";
    let asked = session.client().query_typed_one(sql, &[]);
    match tokio::time::timeout(std::time::Duration::from_secs(30), asked).await {
        Ok(Ok(row)) => Ok((row.get(0), row.get(1))),
        Ok(Err(error))
            if [SqlState::UNDEFINED_TABLE, SqlState::INVALID_SCHEMA_NAME]
                .iter()
                .any(|code| error.code() == Some(code)) =>
        {
            Ok((0, 0))
        }
        Ok(Err(error)) => Err(ArrayError::statement("reading the schema of the array")(error)),
        Err(_) => Err(ArrayError::Slow { doing: "reading the schema of the array", seconds: 30 }),
    }
}

/// Makes or upgrades the tables to this schema, at most [`KNOWN`]; an older one is for tests, which
/// upgrade what they put into it.
///
/// # Errors
/// If the login may not make them.
#[doc(hidden)]
pub async fn make(session: &Session, wanted: i32) -> Result<(), ArrayError> {
    const DOING: &str = "making the tables of the array";
    let client = session.client();
    let begin = format!(
        "BEGIN; SELECT pg_advisory_xact_lock({TABLES_LOCK}); CREATE SCHEMA IF NOT EXISTS gauntlet; \
         CREATE TABLE IF NOT EXISTS gauntlet.version (found integer NOT NULL, needs integer NOT NULL);"
    );
    let steps = async {
        client.batch_execute(&begin).await?;
        let row = client.query_opt("SELECT found FROM gauntlet.version", &[]).await?;
        let found: i32 = row.map_or(0, |row| row.get(0));
        let [found, end] = [found, wanted].map(|number| usize::try_from(number).unwrap_or(0));
        for step in MIGRATIONS.get(found..end).unwrap_or_default() {
            client.batch_execute(step).await?;
        }
        let last = format!(
            "DELETE FROM gauntlet.version WHERE found <= {wanted}; INSERT INTO gauntlet.version \
             SELECT {wanted}, {NEEDS} WHERE NOT EXISTS (SELECT 1 FROM gauntlet.version); COMMIT"
        );
        client.batch_execute(&last).await
    };
    let done = session.within(DOING, steps).await;
    session.undo_if(done).await
}
