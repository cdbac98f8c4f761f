//! Mail of the node's own: digests.

use std::sync::Arc;

use gauntlet_mail::{Direction, Envelope};
use gauntlet_store::LogRecord;

use super::Node;
use crate::clock::now_ms;
use crate::ids;
use crate::judge::cut;
use crate::transit::Transit;

/// Longest subject in the log, in bytes.
const SUBJECT_BYTES_MAX: usize = 200;

impl Node {
    /// Spools a message of our own for one address, unjudged; nobody is told if it cannot be delivered.
    /// Blocks until it is durable. Result: its id.
    ///
    /// # Errors
    /// A sentence for the log.
    pub fn send_own(&self, to: &str, raw: Vec<u8>) -> Result<String, String> {
        let now = now_ms();
        let id = self.ids.next(now);
        let name = ids::to_text(id);
        let message = gauntlet_mail::Message::parse(&raw);
        let field = |name| message.header(name).map(|h| h.decoded().into_owned());
        let record = LogRecord {
            id: name.clone(),
            received_ms: now,
            envelope: Envelope {
                direction: Direction::Outbound,
                helo: self.config().node.host_name(),
                rcpt_to: vec![to.to_owned()],
                received_at: now / 1_000,
                ..Envelope::default()
            },
            size: raw.len() as u64,
            from: field("From").unwrap_or_default(),
            subject: cut(&message.subject(), SUBJECT_BYTES_MAX),
            message_id: field("Message-ID")
                .unwrap_or_default()
                .trim_matches(['<', '>', ' '])
                .to_owned(),
            ..LogRecord::default()
        };
        drop(message);
        let transit = Transit::straight(record, &[to.to_owned()]);
        let meta = serde_json::to_vec(&transit).map_err(|e| e.to_string())?;
        let (sender, durable) = std::sync::mpsc::channel();
        let done = move |result| {
            let _the_caller_waits = sender.send(result);
        };
        let body = Arc::new(raw);
        self.spool.put(id, now, meta, body.clone(), Box::new(done));
        match durable.recv() {
            Ok(Ok(())) => {
                self.queue.submit(id, transit, body);
                Ok(name)
            }
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err("the spool has ended".to_owned()),
        }
    }
}
