//! Whether the node takes mail: it serves, drains or stops.
//!
//! ```text
//! serving ─▶ notice: not ready, but sessions go on ─▶ draining: 421 ─▶ undone: serving
//! ```
//!
//! A node that drains (`gauntlet drain`) answers new sessions with 421, ends open ones after their
//! transaction and goes on delivering its queue. Before that, load balancers get notice: for a
//! while only their health checks fail, so that none of their clients meets a 421. A drain is an
//! order of a person, so a file in the
//! data folder remembers it over a restart (`docs/decisions/300-drained-until-undone.md`); a stop
//! is not remembered.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use gauntlet_store::files;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

/// File in the data folder that is there while the node drains.
pub const FILE: &str = "draining.json";

/// What sessions see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// It takes mail.
    Serving,
    /// It still takes mail, and tells load balancers that it soon will not.
    Notice,
    /// It takes none until the drain is undone.
    Draining,
    /// The process ends.
    Stopping,
}

impl Phase {
    /// Sessions end between two transactions.
    pub fn ends_sessions(self) -> bool {
        matches!(self, Phase::Draining | Phase::Stopping)
    }

    /// Text of the 421 that ends a session. The code is 4.3.2, "system not accepting network
    /// messages" (RFC 3463 section 3.4).
    pub fn text(self) -> &'static str {
        match self {
            Phase::Serving => "",
            Phase::Notice | Phase::Draining => {
                "no new mail is taken here for now, try another server or later"
            }
            Phase::Stopping => "shutting down",
        }
    }
}

/// What the file holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
struct Order {
    /// When the drain was ordered, Unix milliseconds; 0 if that is not known any more.
    since_ms: i64,
}

/// The phase of a node, and the file that remembers a drain.
#[derive(Debug)]
pub struct Draining {
    path: PathBuf,
    phase: watch::Sender<Phase>,
    /// The order in force; locked while it is changed.
    order: Mutex<Option<Order>>,
}

impl Draining {
    /// Reads whether the node of this data folder drains. A file that cannot be understood counts
    /// as an order: mail that is not taken waits at its sender, mail on a machine that is about to
    /// be switched off waits here.
    pub fn open(data: &Path) -> Self {
        let path = data.join(FILE);
        let order = path.exists().then(|| files::read_cache(&path));
        let phase = if order.is_some() { Phase::Draining } else { Phase::Serving };
        Draining { path, phase: watch::channel(phase).0, order: Mutex::new(order) }
    }

    /// Notes the order, also for a restart, and gives notice; [`Draining::refuse`] follows. False
    /// if it was given already.
    ///
    /// # Errors
    /// If it cannot be written down; nothing is changed then.
    pub fn begin(&self, now_ms: i64) -> io::Result<bool> {
        let mut order = self.order.lock().unwrap_or_else(PoisonError::into_inner);
        if order.is_some() {
            return Ok(false);
        }
        let new = Order { since_ms: now_ms };
        files::write_durably(&self.path, &serde_json::to_vec(&new)?)?;
        *order = Some(new);
        self.advance(Phase::Notice);
        Ok(true)
    }

    /// The notice of the order that was given then is over: takes no mail from now on.
    pub fn refuse(&self, since_ms: i64) {
        let order = self.order.lock().unwrap_or_else(PoisonError::into_inner);
        if order.is_some_and(|order| order.since_ms == since_ms) {
            self.advance(Phase::Draining);
        }
    }

    /// Takes mail again. False if it did not drain.
    ///
    /// # Errors
    /// If the file cannot be removed; nothing is changed then.
    pub fn undo(&self) -> io::Result<bool> {
        let mut order = self.order.lock().unwrap_or_else(PoisonError::into_inner);
        if order.is_none() {
            return Ok(false);
        }
        match std::fs::remove_file(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        if let Some(folder) = self.path.parent() {
            files::sync_folder(folder)?;
        }
        *order = None;
        self.advance(Phase::Serving);
        Ok(true)
    }

    /// The process ends: that is final.
    pub fn stop(&self) {
        self.phase.send_replace(Phase::Stopping);
    }

    /// Since when it drains, Unix milliseconds; none if it does not.
    pub fn since_ms(&self) -> Option<i64> {
        self.order.lock().unwrap_or_else(PoisonError::into_inner).map(|order| order.since_ms)
    }

    /// The phase, for a session.
    pub fn subscribe(&self) -> watch::Receiver<Phase> {
        self.phase.subscribe()
    }

    fn advance(&self, to: Phase) {
        self.phase.send_if_modified(|phase| {
            let may = *phase != Phase::Stopping;
            if may {
                *phase = to;
            }
            may
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_outlives_the_process_and_is_undone_once() {
        let folder = tempfile::tempdir().unwrap();
        let open = || Draining::open(folder.path());
        assert_eq!(open().since_ms(), None);
        assert!(open().begin(7).unwrap());
        assert!(!open().begin(9).unwrap(), "it drains already");
        assert_eq!(open().since_ms(), Some(7), "since the first order");
        assert_eq!(*open().subscribe().borrow(), Phase::Draining);
        let draining = open();
        draining.undo().unwrap();
        draining.begin(8).unwrap();
        assert_eq!(*draining.subscribe().borrow(), Phase::Notice);
        draining.refuse(7);
        assert_eq!(*draining.subscribe().borrow(), Phase::Notice, "of an order that was undone");
        draining.refuse(8);
        assert_eq!(*draining.subscribe().borrow(), Phase::Draining);
        assert!(open().undo().unwrap());
        assert!(!open().undo().unwrap());
        assert_eq!(*open().subscribe().borrow(), Phase::Serving);
    }

    #[test]
    fn a_file_that_says_nothing_is_an_order() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(FILE), "{").unwrap();
        assert_eq!(Draining::open(folder.path()).since_ms(), Some(0));
    }

    #[test]
    fn a_node_that_stops_does_not_serve_again() {
        let folder = tempfile::tempdir().unwrap();
        let draining = Draining::open(folder.path());
        draining.begin(1).unwrap();
        draining.stop();
        draining.undo().unwrap();
        assert_eq!(*draining.subscribe().borrow(), Phase::Stopping);
    }
}
