//! What can go wrong between a node and its array.

use std::fmt::Write as _;

use tokio_postgres::error::SqlState;

/// Why something could not be done with the array's database.
#[derive(Debug, thiserror::Error)]
pub enum ArrayError {
    /// The address of the database is not one.
    #[error("array.database: {0}")]
    Address(String),
    /// What should be a token is none, or cannot be used any more.
    #[error("the token cannot be used: {0}")]
    Token(String),
    /// The server cannot be reached, or the connection ended.
    #[error("the array's database at {server} cannot be reached: {cause}")]
    Unreachable {
        /// `host:port/database`, without user and password.
        server: String,
        /// What the system or the server said.
        cause: String,
    },
    /// The server refused the login.
    #[error(
        "the array's database at {server} refuses the login: {cause}; look at user and password in array.database, and at the server's pg_hba.conf"
    )]
    Login {
        /// `host:port/database`.
        server: String,
        /// What the server said.
        cause: String,
    },
    /// The tables were made by a newer program that this one does not understand.
    #[error(
        "the array's database has schema {found}, which needs a program that knows schema {needed}; this one knows {known}: upgrade this node"
    )]
    Newer {
        /// The schema of the database.
        found: i32,
        /// The oldest schema that a program must know to use it.
        needed: i32,
        /// The newest schema that this program knows.
        known: i32,
    },
    /// There are no tables yet.
    #[error("the array's database has no tables of Gauntlet: run `gauntlet array init` once")]
    NotMade,
    /// The tables are older than this program needs.
    #[error(
        "the array's database has schema {found}, this program needs {known}: run `gauntlet array init`, which upgrades it; older nodes go on working"
    )]
    Older {
        /// The schema of the database.
        found: i32,
        /// The schema that this program needs.
        known: i32,
    },
    /// Another node has this name.
    #[error(
        "another node of the array is called {name} (it was last seen {seen}): give this one another node.name, or remove the other with `gauntlet array leave {name}`"
    )]
    NameTaken {
        /// The name.
        name: String,
        /// When the other one was last seen (UTC).
        seen: String,
    },
    /// The node was removed from the array.
    #[error(
        "this node ({name}) was removed from the array: it goes on alone; `gauntlet array rejoin` takes it back"
    )]
    Removed {
        /// Name of the node.
        name: String,
    },
    /// Another process takes part as this node.
    #[error(
        "another process takes part in the array as this node ({name}), and began later: is its data folder a copy of this one? This one goes on alone. Stop one of them, let a copy begin with an empty data folder, and restart this one"
    )]
    Superseded {
        /// Name of the node.
        name: String,
    },
    /// A statement failed.
    #[error("{doing}: {cause}")]
    Statement {
        /// What was to be done.
        doing: &'static str,
        /// What the server said.
        cause: String,
    },
    /// A statement took longer than its limit.
    #[error("{doing}: no answer of the array's database in {seconds} s (array.query_seconds_max)")]
    Slow {
        /// What was to be done.
        doing: &'static str,
        /// The limit.
        seconds: u64,
    },
    /// The address of the object store is not one.
    #[error("array.objects: {0}")]
    ObjectsAddress(String),
    /// The object store cannot be reached, or did not do what it was asked.
    #[error("the array's object store at {server}: {cause}")]
    Objects {
        /// `host:port/bucket/prefix`, without key and secret.
        server: String,
        /// What was to be done, and what the system or the server said.
        cause: String,
    },
    /// The object store refused the credentials.
    #[error(
        "the array's object store at {server} refuses: {cause}; look at key and secret in array.objects, and at what the key may do in this bucket"
    )]
    ObjectsLogin {
        /// `host:port/bucket/prefix`, without key and secret.
        server: String,
        /// What was to be done, and what the server said.
        cause: String,
    },
    /// The bucket does not exist.
    #[error(
        "the array's object store at {server} has no such bucket: {cause}; make it first, or name another in array.objects"
    )]
    NoBucket {
        /// `host:port/bucket/prefix`, without key and secret.
        server: String,
        /// What the server said.
        cause: String,
    },
    /// Something in the database or the object store is damaged.
    #[error("{what} is damaged: {cause}")]
    Damaged {
        /// What it is.
        what: String,
        /// Why it is.
        cause: String,
    },
    /// A file of an export cannot be made.
    #[error("a Parquet file cannot be made: {cause}")]
    Export {
        /// What the writer of files said.
        cause: String,
    },
    /// The store of this node cannot be read or written.
    #[error(transparent)]
    Store(#[from] gauntlet_store::StoreError),
}

impl ArrayError {
    /// It is of the object store alone: the database may be well.
    pub fn is_of_objects(&self) -> bool {
        matches!(
            self,
            ArrayError::Objects { .. }
                | ArrayError::ObjectsLogin { .. }
                | ArrayError::NoBucket { .. }
                | ArrayError::ObjectsAddress(_)
        )
    }

    /// The error of a statement.
    pub(crate) fn statement(
        doing: &'static str,
    ) -> impl FnOnce(tokio_postgres::Error) -> ArrayError {
        move |error| {
            let mut cause = message_of(&error);
            if is_of_a_pooler(&error) {
                cause.push_str(
                    "; if a pooler stands before the database, it must keep sessions (PgBouncer: \
                     pool_mode = session); otherwise the tables were removed",
                );
            }
            ArrayError::Statement { doing, cause }
        }
    }
}

/// Whether the connection is probably not the one that was prepared for this program: a pooler that
/// gives each transaction another one loses the search path and what was prepared.
fn is_of_a_pooler(error: &tokio_postgres::Error) -> bool {
    [
        SqlState::UNDEFINED_TABLE,
        SqlState::INVALID_SQL_STATEMENT_NAME,
        SqlState::DUPLICATE_PSTATEMENT,
    ]
    .iter()
    .any(|code| error.code() == Some(code))
}

/// An error of the driver with its causes, in one line.
pub(crate) fn message_of(error: &tokio_postgres::Error) -> String {
    if let Some(said) = error.as_db_error() {
        let mut text = format!("{} ({})", said.message(), said.code().code());
        if let Some(detail) = said.detail() {
            let _always_works = write!(text, ": {detail}");
        }
        return text.replace('\n', " ");
    }
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        let _always_works = write!(text, ": {cause}");
        source = cause.source();
    }
    text.replace('\n', " ")
}
