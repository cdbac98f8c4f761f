//! Mail of the node's own: digests.

use gauntlet_store::LogRecord;

use super::Node;
use crate::ids;
use crate::outbound::queue::accept::AcceptError;
use crate::outbound::queued_message::{QueuedMessage, own_record};
use gauntlet_smtp::text::truncate;

/// Longest subject in the log, in bytes.
const SUBJECT_BYTES_MAX: usize = 200;

impl Node {
    /// Spools a message of our own for one address, unjudged; a failed delivery is not reported.
    /// Blocks until it is durable. Result: its id.
    ///
    /// # Errors
    /// Why it was not accepted.
    pub fn send_own(&self, to: &str, raw: Vec<u8>) -> Result<String, AcceptError> {
        let now = self.clock.unix_ms();
        let id = self.ids.next(now);
        let name = ids::to_text(id);
        let message = gauntlet_mail::Message::parse(&raw);
        let field = |name| message.header(name).map(|h| h.decoded().into_owned());
        let record = LogRecord {
            size: raw.len() as u64,
            from: field("From").unwrap_or_default(),
            subject: truncate(&message.subject(), SUBJECT_BYTES_MAX).to_owned(),
            message_id: field("Message-ID")
                .unwrap_or_default()
                .trim_matches(['<', '>', ' '])
                .to_owned(),
            ..own_record(&name, now, &self.config().node.host_name(), to)
        };
        drop(message);
        let message = QueuedMessage::straight(record, &[to.to_owned()]);
        self.queue.accept_blocking(id, message, raw.into())?;
        Ok(name)
    }
}
