//! The only way into the queue: a message is durable in the spool first, then on its way.

use std::sync::Arc;

use bytes::Bytes;
use gauntlet_store::SpoolError;

use super::Queue;
use super::schedule::Schedule;
use crate::outbound::queued_message::QueuedMessage;
use crate::outbound::sender::Settled;

/// Why a message was not accepted. Nothing is kept of it.
#[derive(Debug, thiserror::Error)]
pub enum AcceptError {
    /// It could not be made durable.
    #[error(transparent)]
    Spool(#[from] SpoolError),
    /// What is kept beside the body could not be encoded.
    #[error("its envelope cannot be encoded: {0}")]
    Envelope(#[from] serde_json::Error),
    /// The spool's thread has ended, as the node does.
    #[error("the spool has ended")]
    Ended,
}

impl Queue {
    /// Accepts a message. Once it is durable, `note` may add to what is known of it and it is on
    /// its way; then, or with the reason why not, `done` is called, on the thread that commits.
    pub fn accept(
        self: &Arc<Self>,
        id: u64,
        message: QueuedMessage,
        body: Bytes,
        note: impl FnOnce(&mut QueuedMessage) + Send + 'static,
        done: impl FnOnce(Result<(), AcceptError>) + Send + 'static,
    ) {
        self.accept_tried(id, message, body, Vec::new(), note, done);
    }

    /// The same of a message whose first attempt was cut-through: what that came to, for those who
    /// have not got it. It counts as an attempt of the queue does. A next hop that did not answer
    /// after the final dot may have the message all the same; one that is asked again at once gets
    /// a second copy where a pause would have let it say so.
    pub fn accept_tried(
        self: &Arc<Self>,
        id: u64,
        mut message: QueuedMessage,
        body: Bytes,
        tried: Vec<Settled>,
        note: impl FnOnce(&mut QueuedMessage) + Send + 'static,
        done: impl FnOnce(Result<(), AcceptError>) + Send + 'static,
    ) {
        if self.parts.null {
            return done(Ok(()));
        }
        let meta = match serde_json::to_vec(&message) {
            Ok(meta) => meta,
            Err(error) => return done(Err(error.into())),
        };
        let due = self.due_after(id, &tried);
        let (queue, spooled) = (self.clone(), body.clone());
        // From here on the message may be durable even if the client is gone, so that the queue
        // gets it from the commit thread.
        let hand_over = move |result: Result<(), SpoolError>| {
            if result.is_ok() {
                note(&mut message);
                match tried.is_empty() {
                    true => queue.submit(id, message, body),
                    false => queue.settle_tried(id, message, body, tried),
                }
            }
            done(result.map_err(AcceptError::Spool));
        };
        self.parts.spool.put(id, due, meta, spooled, Box::new(hand_over));
    }

    /// When something is to be done with a message that was tried so: in the spool with the message
    /// itself, so that a node that is killed now does not try it at once when it starts.
    fn due_after(&self, id: u64, tried: &[Settled]) -> i64 {
        let now = self.now_ms();
        match tried.iter().any(|target| target.outcome.is_none()) {
            true => Schedule::of(&self.settings().sender).next_attempt(id, 1, now),
            false => now,
        }
    }

    /// Concludes the attempt that was made before the message was in the spool.
    fn settle_tried(
        self: &Arc<Self>,
        id: u64,
        message: QueuedMessage,
        body: Bytes,
        tried: Vec<Settled>,
    ) {
        let active = self.begin_attempt(id, message, body, (self.settings(), None, 0));
        self.settle(active, tried);
    }

    /// The same, waiting for the end. Blocks: not for a task of the runtime.
    ///
    /// # Errors
    /// Why it was not accepted.
    pub fn accept_blocking(
        self: &Arc<Self>,
        id: u64,
        message: QueuedMessage,
        body: Bytes,
    ) -> Result<(), AcceptError> {
        let (sender, durable) = std::sync::mpsc::channel();
        let done = move |result| {
            let _the_caller_waits = sender.send(result);
        };
        self.accept(id, message, body, |_| {}, done);
        durable.recv().unwrap_or(Err(AcceptError::Ended))
    }
}
