//! What can be seen of a database server from here.

use crate::database::Session;
use crate::error::ArrayError;

/// The oldest server that the tables are tested with, as `server_version_num`.
pub const SERVER_MIN: i32 = 150_000;

/// How a database server is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerHealth {
    /// `server_version_num`, e.g. 150018.
    pub version: i32,
    /// Its clock in Unix milliseconds.
    pub clock_ms: i64,
    /// Of a replica: milliseconds since the last transaction that it has; none for a primary, or
    /// when it has none yet.
    pub behind_ms: Option<i64>,
}

/// Asks the server how it is.
///
/// # Errors
/// If the statement fails.
pub async fn examine(session: &Session) -> Result<ServerHealth, ArrayError> {
    let sql = "SELECT current_setting('server_version_num')::integer, \
               (extract(epoch FROM clock_timestamp()) * 1000)::bigint, \
               (extract(epoch FROM clock_timestamp() - pg_last_xact_replay_timestamp()) \
                * 1000)::bigint";
    let doing = "asking the array's database how it is";
    let row = session.row(doing, sql, &[]).await?.ok_or(ArrayError::NotMade)?;
    Ok(ServerHealth { version: row.get(0), clock_ms: row.get(1), behind_ms: row.get(2) })
}
