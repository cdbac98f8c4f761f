//! The exchange of one session: what changed here goes out, what others sent comes in.

use std::sync::Arc;
use std::time::Duration;

use gauntlet_store::Clock;
use gauntlet_store::sharing::{Cursors, Incoming, SharedKind, SharedPart, SharingError};

use super::rows::{self, READ_MAX, Rows, StoredBatch};
use super::{KindState, SharedStates, pack, unpack};
use crate::database::Session;
use crate::error::ArrayError;

/// Of so many steps, histories of senders go out with one: busy senders change all the time, and
/// a minute changes no verdict.
const SENDERS_EVERY: u64 = 6;

/// The parts of a node, and how often they are exchanged.
#[derive(Clone)]
pub struct SharedParts {
    /// One of each kind that is shared.
    pub parts: Vec<Arc<dyn SharedPart>>,
    /// Between two steps.
    pub every: Duration,
    /// Days that fading state is kept in the database.
    pub days: u32,
}

impl std::fmt::Debug for SharedParts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SharedParts").field("every", &self.every).finish_non_exhaustive()
    }
}

/// Exchanges the parts of a node by one session.
pub struct Exchange {
    rows: Rows,
    parts: Vec<(Arc<dyn SharedPart>, Cursors)>,
    steps: u64,
    clock: Clock,
}

impl std::fmt::Debug for Exchange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Exchange").field("rows", &self.rows).finish_non_exhaustive()
    }
}

impl Exchange {
    /// Begins with these parts; one that cannot is left out, and `states` say why. `node` is the
    /// number by which the array knows this node.
    ///
    /// # Errors
    /// If the database cannot be used.
    pub async fn begin(
        session: &Session,
        node: i16,
        (parts, clock): (&SharedParts, Clock),
        states: &mut SharedStates,
    ) -> Result<Self, ArrayError> {
        let rows = Rows::prepare(session, node).await?;
        let epoch = format!("{}/{node}", rows::epoch(session).await?);
        let mut begun = Vec::new();
        for part in &parts.parts {
            let (own, epoch) = (part.clone(), epoch.clone());
            let state = states.entry(part.kind().name()).or_default();
            if let Some(cursors) =
                kept(state, part.kind(), blocking(move || own.begin(&epoch)).await)
            {
                begun.push((part.clone(), cursors));
            }
        }
        Ok(Exchange { rows, parts: begun, steps: 0, clock })
    }

    /// Sends what changed here, and takes what others sent. True if more is waiting.
    ///
    /// # Errors
    /// If the database cannot be used: then all waits. A part that fails stops no other.
    pub async fn step(
        &mut self,
        session: &Session,
        states: &mut SharedStates,
    ) -> Result<bool, ArrayError> {
        let is_senders_turn = self.steps.is_multiple_of(SENDERS_EVERY);
        self.steps += 1;
        let more_goes = self.send(session, states, is_senders_turn).await?;
        let more_comes = self.take(session, states).await?;
        if more_goes {
            // The turn goes on.
            self.steps = 0;
        }
        Ok(more_goes || more_comes)
    }

    /// Sends what changed here, all kinds with one statement. True if more is waiting.
    ///
    /// # Errors
    /// If the database cannot be used, or this node was removed.
    pub async fn send(
        &self,
        session: &Session,
        states: &mut SharedStates,
        with_senders: bool,
    ) -> Result<bool, ArrayError> {
        let (mut kinds, mut bodies, mut marks) = (Vec::new(), Vec::new(), Vec::new());
        let mut is_full = false;
        for (part, _) in &self.parts {
            let kind = part.kind();
            if kind == SharedKind::Senders && !with_senders {
                continue;
            }
            let (own, state) = (part.clone(), states.entry(kind.name()).or_default());
            let collected = kept(state, kind, blocking(move || own.collect()).await);
            state.is_behind = false;
            if let Some(Some(out)) = collected {
                state.is_behind = out.is_full;
                is_full |= out.is_full;
                kinds.push(kind.number());
                bodies.push(pack(&out.body)?);
                marks.push((part.clone(), out.mark));
            }
        }
        if kinds.is_empty() {
            return Ok(false);
        }
        if !self.rows.send(session, &kinds, &bodies).await? {
            return Err(ArrayError::Removed { name: "this node".to_owned() });
        }
        for ((part, mark), body) in marks.into_iter().zip(&bodies) {
            let (kind, own) = (part.kind(), part.clone());
            let state = states.entry(kind.name()).or_default();
            state.sent = (state.sent.0 + 1, state.sent.1 + body.len() as u64);
            let _sent_again_otherwise = kept(state, kind, blocking(move || own.sent(mark)).await);
        }
        Ok(is_full)
    }

    /// Takes what others sent. True if more is waiting.
    async fn take(
        &mut self,
        session: &Session,
        states: &mut SharedStates,
    ) -> Result<bool, ArrayError> {
        let cursors: Vec<_> = self.parts.iter().map(|(part, all)| (part.kind(), all)).collect();
        // Before it is read: what others send meanwhile is not in it.
        let now_ms = self.clock.unix_ms();
        let read = self.rows.read(session, &cursors).await?;
        let is_full = is_full(&read);
        for (part, cursors) in &mut self.parts {
            let kind = part.kind();
            let of_kind = read.iter().filter(|row| row.kind == kind.number());
            let state = states.entry(kind.name()).or_default();
            let bytes: u64 = of_kind.clone().map(|row| row.body.len() as u64).sum();
            let batches: Vec<Incoming> = of_kind.map(incoming).collect();
            let last: Vec<(i16, i64)> = batches.iter().map(|b| (b.node, b.number)).collect();
            if !batches.is_empty() {
                let own = part.clone();
                if kept(state, kind, blocking(move || own.take(&batches)).await).is_none() {
                    continue;
                }
                state.taken = (state.taken.0 + last.len() as u64, state.taken.1 + bytes);
                cursors.extend(last);
            }
            if !is_full {
                state.current_ms = now_ms;
            }
        }
        Ok(is_full)
    }
}

fn incoming(row: &StoredBatch) -> Incoming {
    // What cannot be unpacked is a batch that its part does not understand: it is passed over.
    let body = unpack(&row.body).unwrap_or_default();
    Incoming { node: row.node, number: row.number, body }
}

/// Whether a node's rows of a kind filled what was read of them.
fn is_full(read: &[StoredBatch]) -> bool {
    read.chunk_by(|a, b| (a.kind, a.node) == (b.kind, b.node)).any(|rows| rows.len() >= READ_MAX)
}

/// Runs a part's own work where it may block.
async fn blocking<T: Send + 'static>(
    run: impl FnOnce() -> Result<T, SharingError> + Send + 'static,
) -> Result<T, String> {
    match tokio::task::spawn_blocking(run).await {
        Ok(done) => done.map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    }
}

/// What a part gave; none if it failed, and then its state says why.
fn kept<T>(state: &mut KindState, kind: SharedKind, done: Result<T, String>) -> Option<T> {
    match done {
        Ok(given) => {
            state.error.clear();
            Some(given)
        }
        Err(error) => {
            if state.error != error {
                let hint = "mail is not affected; the node goes on with its own";
                tracing::warn!(kind = kind.name(), error, hint, "state cannot be shared");
            }
            state.error = error;
            None
        }
    }
}
