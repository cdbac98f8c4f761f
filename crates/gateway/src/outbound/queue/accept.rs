//! The only way into the queue: a message is durable in the spool first, then on its way.

use std::sync::Arc;

use bytes::Bytes;
use gauntlet_store::SpoolError;

use super::Queue;
use crate::outbound::queued_message::QueuedMessage;

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
        mut message: QueuedMessage,
        body: Bytes,
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
        let (queue, spooled) = (self.clone(), body.clone());
        // From here on the message may be durable even if the client is gone, so that the queue
        // gets it from the commit thread.
        let hand_over = move |result: Result<(), SpoolError>| {
            if result.is_ok() {
                note(&mut message);
                queue.submit(id, message, body);
            }
            done(result.map_err(AcceptError::Spool));
        };
        self.parts.spool.put(id, self.now_ms(), meta, spooled, Box::new(hand_over));
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
