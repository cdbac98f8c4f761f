//! Taking a node out of service, and back: `gauntlet drain`.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::Node;

impl Node {
    /// Takes no new mail, also after a restart, once load balancers had notice
    /// (`receiver.drain_notice_seconds`); what is queued is delivered. False if it drains already.
    ///
    /// # Errors
    /// If the order cannot be written down.
    pub fn drain(self: &Arc<Self>) -> io::Result<bool> {
        let since_ms = self.clock.unix_ms();
        if !self.draining.begin(since_ms)? {
            return Ok(false);
        }
        let notice_seconds = self.config().receiver.drain_notice_seconds;
        let (sessions, queued) = (self.sessions(), self.queue.count());
        tracing::info!(sessions, queued, notice_seconds, "draining: new sessions get 421 then");
        if notice_seconds == 0 {
            self.draining.refuse(since_ms);
            return Ok(true);
        }
        let node = self.clone();
        self.runtime.spawn(async move {
            tokio::time::sleep(Duration::from_secs(notice_seconds)).await;
            node.draining.refuse(since_ms);
        });
        Ok(true)
    }

    /// Takes mail again. False if it did not drain.
    ///
    /// # Errors
    /// If the order cannot be taken back.
    pub fn undo_drain(&self) -> io::Result<bool> {
        let undone = self.draining.undo()?;
        if undone {
            tracing::info!("the drain is undone: mail is taken again");
        }
        Ok(undone)
    }

    /// Since when it drains, Unix milliseconds; none if it takes mail.
    pub fn draining_since_ms(&self) -> Option<i64> {
        self.draining.since_ms()
    }

    /// Why a node that drains takes no mail, for whoever asks for its health.
    pub(super) fn drain_problem(&self) -> Option<String> {
        let why = "draining: new sessions get 421 until `gauntlet drain --undo`";
        self.draining.since_ms().map(|_| why.to_owned())
    }
}
