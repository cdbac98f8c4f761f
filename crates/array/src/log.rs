//! The shared message log: what all nodes shipped, read by managers.

mod candidates;
mod counts;
mod day;
mod search;
mod volume;

use futures_util::future::try_join;
use gauntlet_store::StoreError;
use gauntlet_store::log::{
    Bucket, Counts, Feedback, LoggedMessage, MessageLog, Page, Query, TopKind,
};
use gauntlet_store::quarantine::AuditLine;
use tokio::runtime::Handle;

use crate::database::{Database, Session};
use crate::error::ArrayError;
use crate::nodes::NodeRow;
use crate::readers::Readers;

use counts::KeptCounts;
use volume::KeptSums;

pub use counts::DayCounts;
pub(crate) use search::{days, node_names};

/// The log of all nodes. Its methods block, and may be called from any thread that is not one of
/// the runtime's own; every search ends within some seconds, with what it found until then.
#[derive(Debug)]
pub struct SharedLog {
    readers: Readers,
    sums: KeptSums,
    counts: KeptCounts,
}

impl SharedLog {
    /// The log in this database. `runtime` carries its connections.
    pub fn new(database: Database, runtime: Handle) -> Self {
        SharedLog {
            readers: Readers::new(database, runtime),
            sums: KeptSums::default(),
            counts: KeptCounts::default(),
        }
    }

    /// Asks this replica first, which may be some seconds behind, and the database itself when the
    /// replica cannot be reached.
    #[must_use]
    pub fn with_replica(mut self, replica: Database) -> Self {
        self.readers.prefer(replica);
        self
    }

    /// All nodes, by name.
    ///
    /// # Errors
    /// If the database cannot be asked.
    pub fn nodes(&self) -> Result<Vec<NodeRow>, StoreError> {
        self.readers.ask(|session| async {
            let found = crate::nodes::list(&session).await;
            (session, found)
        })
    }
}

impl SharedLog {
    /// What was done on other nodes than this, newest first, each line with the name of its node.
    ///
    /// # Errors
    /// If the database cannot be asked.
    pub fn activity(&self, own: &str, max: u32) -> Result<Vec<(String, AuditLine)>, StoreError> {
        self.readers.ask(|session| async move {
            let found = crate::activity::of_others(&session, own, i64::from(max)).await;
            (session, found)
        })
    }
}

impl SharedLog {
    async fn counts_of(
        &self,
        session: &Session,
        range: (i64, i64),
        span_minutes: u32,
    ) -> Result<Counts, ArrayError> {
        // In one exchange with the server, as far as one does not wait for its own answer.
        let (buckets, (top_rules, top_senders)) = try_join(
            self.sums.volume(session, range, span_minutes),
            self.counts.most_frequent(session, range),
        )
        .await?;
        Ok(Counts { buckets, top_rules, top_senders })
    }
}

impl MessageLog for SharedLog {
    fn search(&self, query: &Query) -> Result<Page, StoreError> {
        self.readers.ask(|session| async {
            let found = search::search(&session, query).await;
            (session, found)
        })
    }

    fn get(&self, reference: &str) -> Result<Option<LoggedMessage>, StoreError> {
        self.readers.ask(|session| async {
            let found = search::get(&session, reference).await;
            (session, found)
        })
    }

    fn volume(
        &self,
        since_ms: i64,
        until_ms: i64,
        span_minutes: u32,
    ) -> Result<Vec<Bucket>, StoreError> {
        self.readers.ask(|session| async move {
            let range = (since_ms, until_ms);
            let found = self.sums.volume(&session, range, span_minutes).await;
            (session, found)
        })
    }

    fn counts(
        &self,
        since_ms: i64,
        until_ms: i64,
        span_minutes: u32,
    ) -> Result<Counts, StoreError> {
        self.readers.ask(|session| async move {
            let range = (since_ms, until_ms);
            let found = self.counts_of(&session, range, span_minutes).await;
            (session, found)
        })
    }

    fn tops(
        &self,
        kind: TopKind,
        since_ms: i64,
        until_ms: i64,
    ) -> Result<std::collections::BTreeMap<String, u64>, StoreError> {
        self.readers.ask(|session| async move {
            let found = self.counts.tops(&session, kind, (since_ms, until_ms)).await;
            (session, found)
        })
    }

    fn top_recipients(
        &self,
        since_ms: i64,
        until_ms: i64,
    ) -> Result<std::collections::BTreeMap<String, u64>, StoreError> {
        self.tops(TopKind::Recipient, since_ms, until_ms)
    }

    fn feedback(&self, since_ms: i64, until_ms: i64) -> Result<Vec<Feedback>, StoreError> {
        self.readers.ask(|session| async move {
            let found = self.counts.feedback(&session, (since_ms, until_ms)).await;
            (session, found)
        })
    }

    fn oldest_ms(&self) -> Result<Option<i64>, StoreError> {
        self.readers.ask(|session| async {
            let found = search::oldest_ms(&session).await;
            (session, found)
        })
    }
}
