//! Notifications of the policy, queued like other mail.

use std::sync::Arc;

use gauntlet_store::LogRecord;

use super::Queue;
use super::accept::AcceptError;
use crate::ids;
use crate::outbound::notification::{Notification, compose};

impl Queue {
    /// The id of a message of our own that is yet to be queued.
    pub(crate) fn own_id(&self) -> u64 {
        self.parts.ids.next(self.now_ms())
    }

    /// Queues a notification under this id; on stable storage when it returns.
    ///
    /// # Errors
    /// Why it was not accepted.
    pub(crate) async fn notify(
        self: &Arc<Self>,
        id: u64,
        notification: &Notification,
        original: &LogRecord,
    ) -> Result<(), AcceptError> {
        let name = ids::to_text(id);
        let (message, raw) =
            compose(notification, original, (&self.parts.host, &name), self.now_ms());
        let (sender, durable) = tokio::sync::oneshot::channel();
        let done = move |result| {
            let _the_session_may_have_gone = sender.send(result);
        };
        self.accept(id, message, raw.into(), |_| {}, done);
        durable.await.unwrap_or(Err(AcceptError::Ended))
    }
}
