//! Connections to the array's database.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures_util::TryStreamExt;
use tokio::sync::mpsc;
use tokio_postgres::config::TargetSessionAttrs;
use tokio_postgres::{AsyncMessage, Client, Connection, NoTls, Row};

use crate::address::{DatabaseAddress, TlsMode};
use crate::error::{ArrayError, message_of};
use crate::tls::{DatabaseTls, MakeTls};
use crate::value::{Value, all_typed};

/// Notifications that may wait for their reader; more are dropped, since each says only "look".
const NOTIFICATIONS_MAX: usize = 64;

/// Limits of connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DatabaseOptions {
    /// Until a connection is open, encrypted and signed in.
    pub connect_max: Duration,
    /// For one statement, by the server's clock (`statement_timeout`) and by ours.
    pub query_max: Duration,
}

impl Default for DatabaseOptions {
    fn default() -> Self {
        DatabaseOptions { connect_max: Duration::from_secs(10), query_max: Duration::from_secs(30) }
    }
}

/// How to get to the database.
#[derive(Debug, Clone)]
pub struct Database {
    address: DatabaseAddress,
    tls: DatabaseTls,
    options: DatabaseOptions,
    servers: TargetSessionAttrs,
}

/// What the server told between answers: the names of channels, with what was said on them.
pub type Notifications = mpsc::Receiver<(String, String)>;

/// An open connection.
#[derive(Debug)]
pub struct Session {
    client: Client,
    server: Arc<str>,
    query_max: Duration,
    notifications: Option<Notifications>,
}

impl Database {
    /// A database at this address.
    pub fn new(address: DatabaseAddress, tls: DatabaseTls, options: DatabaseOptions) -> Self {
        // Of several servers the one that takes writes: a failed-over replica is found so.
        Database { address, tls, options, servers: TargetSessionAttrs::ReadWrite }
    }

    /// The same for reading: a server that takes no writes will do.
    pub fn to_read(address: DatabaseAddress, tls: DatabaseTls, options: DatabaseOptions) -> Self {
        Database { servers: TargetSessionAttrs::Any, ..Self::new(address, tls, options) }
    }

    /// `host:port/database`.
    pub fn server(&self) -> String {
        self.address.server()
    }

    /// Connects, without a look at the tables; [`crate::schema::session`] looks.
    ///
    /// # Errors
    /// If the server cannot be reached in time, or refuses the login.
    pub async fn connect(&self) -> Result<Session, ArrayError> {
        let server = self.server();
        let connecting = self.open();
        match tokio::time::timeout(self.options.connect_max, connecting).await {
            Ok(done) => done,
            Err(_) => {
                let cause = format!("no connection in {} s", self.options.connect_max.as_secs());
                Err(ArrayError::Unreachable { server, cause })
            }
        }
    }

    async fn open(&self) -> Result<Session, ArrayError> {
        let mut config = self.address.config.clone();
        config.application_name("gauntlet").connect_timeout(self.options.connect_max);
        config.target_session_attrs(self.servers);
        let roots = || {
            ArrayError::Address(
                "sslmode=verify-full needs trusted roots (sender.roots); or say sslmode=require"
                    .to_owned(),
            )
        };
        let failed = |error: tokio_postgres::Error| self.refused(&error);
        let (client, notifications) = match self.address.tls {
            TlsMode::Disable => {
                let (client, connection) = config.connect(NoTls).await.map_err(failed)?;
                (client, run(connection))
            }
            TlsMode::Require => {
                let tls = MakeTls(self.tls.any.clone());
                let (client, connection) = config.connect(tls).await.map_err(failed)?;
                (client, run(connection))
            }
            TlsMode::VerifyFull => {
                let tls = MakeTls(self.tls.verified.clone().ok_or_else(roots)?);
                let (client, connection) = config.connect(tls).await.map_err(failed)?;
                (client, run(connection))
            }
        };
        // Not as options of the connection, which PgBouncer refuses. Comparing the terms of packs
        // costs a thousand times what the planner takes for an operator's cost: it would read whole
        // days instead of asking the index (1.2 s for a page at 9 million messages, not 0.1 s). By
        // the same costs it would start workers for a look into the index (10 ms for 17 days, not
        // 1), and not for sums over months alone, where they help. And a plan that is made once for
        // all days and terms, as it would after five questions of a kind, goes through the packs of
        // each day (3.1 s for a message by its id at 100 million, not 0.01).
        let limits = format!(
            "SET search_path = gauntlet, public; SET statement_timeout = {}; SET timezone = 'UTC'; \
             SET cpu_operator_cost = 2.5; SET jit = off; SET parallel_setup_cost = 1000000; \
             SET plan_cache_mode = force_custom_plan",
            self.options.query_max.as_millis()
        );
        client.batch_execute(&limits).await.map_err(failed)?;
        Ok(Session {
            client,
            server: self.server().into(),
            query_max: self.options.query_max,
            notifications: Some(notifications),
        })
    }

    fn refused(&self, error: &tokio_postgres::Error) -> ArrayError {
        let (server, mut cause) = (self.server(), message_of(error));
        if cause.contains("does not support TLS") {
            cause
                .push_str("; ?sslmode=disable is for loopback and networks that nobody else is on");
        }
        // Class 28: invalid authorization specification.
        match error.code().is_some_and(|code| code.code().starts_with("28")) {
            true => ArrayError::Login { server, cause },
            false => ArrayError::Unreachable { server, cause },
        }
    }
}

/// Runs a connection until its client is dropped or the server ends it.
fn run<S, T>(mut connection: Connection<S, T>) -> Notifications
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
    T: tokio_postgres::tls::TlsStream + Unpin + Send + 'static,
{
    let (sender, receiver) = mpsc::channel(NOTIFICATIONS_MAX);
    tokio::spawn(async move {
        loop {
            let next = std::future::poll_fn(|context| connection.poll_message(context)).await;
            match next {
                Some(Ok(AsyncMessage::Notification(said))) => {
                    let said = (said.channel().to_owned(), said.payload().to_owned());
                    let _full_or_unread = sender.try_send(said);
                }
                Some(Ok(AsyncMessage::Notice(notice))) => {
                    tracing::debug!(notice = notice.message(), "the array's database says");
                }
                Some(Ok(_)) => {}
                // Whoever waits for an answer gets the error.
                Some(Err(_)) | None => return,
            }
        }
    });
    receiver
}

impl Session {
    /// The driver's client.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The same, to begin transactions with.
    pub fn client_mut(&mut self) -> &mut Client {
        &mut self.client
    }

    /// Whether the connection has ended.
    pub fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    /// What the server tells by itself; once.
    pub fn take_notifications(&mut self) -> Option<Notifications> {
        self.notifications.take()
    }

    /// The rows of a query, in one exchange with the server.
    ///
    /// # Errors
    /// As [`Session::within`].
    pub async fn rows(
        &self,
        doing: &'static str,
        sql: &str,
        values: &[Value<'_>],
    ) -> Result<Vec<Row>, ArrayError> {
        self.within(doing, self.client.query_typed(sql, &all_typed(values))).await
    }

    /// Hands each row on while the server sends the next ones.
    ///
    /// # Errors
    /// As [`Session::within`], or the first of `take`.
    pub async fn each_row(
        &self,
        doing: &'static str,
        sql: &str,
        values: &[Value<'_>],
        mut take: impl FnMut(&Row) -> Result<(), ArrayError>,
    ) -> Result<(), ArrayError> {
        let values = all_typed(values);
        let asking = async {
            let rows = self.client.query_typed_raw(sql, values).await?;
            let mut rows = std::pin::pin!(rows);
            let mut taken = Ok(());
            while let Some(row) = rows.try_next().await? {
                taken = taken.and_then(|()| take(&row));
            }
            Ok(taken)
        };
        self.within(doing, asking).await?
    }

    /// The first row of a query, if it has one.
    ///
    /// # Errors
    /// As [`Session::within`].
    pub async fn row(
        &self,
        doing: &'static str,
        sql: &str,
        values: &[Value<'_>],
    ) -> Result<Option<Row>, ArrayError> {
        self.within(doing, self.client.query_typed_opt(sql, &all_typed(values))).await
    }

    /// Runs a statement. Returns how many rows it concerned.
    ///
    /// # Errors
    /// As [`Session::within`].
    pub async fn execute(
        &self,
        doing: &'static str,
        sql: &str,
        values: &[Value<'_>],
    ) -> Result<u64, ArrayError> {
        self.within(doing, self.client.execute_typed(sql, &all_typed(values))).await
    }

    /// Runs several statements without values, as one transaction of its own.
    ///
    /// # Errors
    /// As [`Session::within`]; then none of them is done.
    pub async fn batch(&self, doing: &'static str, sql: &str) -> Result<(), ArrayError> {
        let whole = format!("BEGIN; {sql}; COMMIT");
        let done = self.within(doing, self.client.batch_execute(&whole)).await;
        self.undo_if(done).await
    }

    /// Ends a failed transaction.
    pub(crate) async fn undo_if<T>(&self, done: Result<T, ArrayError>) -> Result<T, ArrayError> {
        if done.is_err() && !self.is_closed() {
            let undo = self.client.batch_execute("ROLLBACK");
            let _ends_with_the_connection_otherwise = self.within("undoing", undo).await;
        }
        done
    }

    /// Waits for an answer, at most as long as a statement may take.
    ///
    /// # Errors
    /// That of the statement, or that it took too long.
    pub async fn within<T>(
        &self,
        doing: &'static str,
        asking: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T, ArrayError> {
        // The server's own limit comes first; this one is for a server that went away silently.
        let most = self.query_max + Duration::from_secs(5);
        match tokio::time::timeout(most, asking).await {
            Ok(answer) => answer.map_err(|error| match error.code() {
                Some(&tokio_postgres::error::SqlState::QUERY_CANCELED) => {
                    ArrayError::Slow { doing, seconds: self.query_max.as_secs() }
                }
                Some(_) => ArrayError::statement(doing)(error),
                None => ArrayError::Unreachable {
                    server: self.server.to_string(),
                    cause: format!("{doing}: {}", message_of(&error)),
                },
            }),
            Err(_) => Err(ArrayError::Slow { doing, seconds: self.query_max.as_secs() }),
        }
    }
}
