//! Where a node keeps what must survive it: spool, message log, quarantine, users.

pub mod record;

pub use record::{Delivery, LogRecord, Outcome};
