//! Where a node keeps what must survive it: spool, message log, quarantine, users.
//!
//! Everything here blocks and may be called from any thread; nothing here knows the network. Each
//! store owns one folder or file, carries a schema version, migrates forward when it is opened and
//! refuses a newer one (see [`database`]).

pub mod backup;
pub mod content;
pub mod corrections;
pub mod database;
pub mod error;
pub mod files;
pub mod history;
mod inbox;
pub mod log;
pub mod policies;
pub mod quarantine;
pub mod recipients;
pub mod record;
pub mod replay;
pub mod signatures;
pub mod spool;
pub mod users;

pub use content::{BodyKeys, Content, ContentHash};
pub use corrections::{Corrections, CorrectionsError};
pub use error::StoreError;
pub use history::{GreylistRules, Greylisted, History, Known};
pub use log::{Appended, Log, LogOptions, Page, Query, Summary};
pub use policies::Policies;
pub use quarantine::{FolderLimit, Quarantine, QuarantineItem};
pub use record::{Delivery, Event, LogRecord, Outcome, Stage};
pub use spool::{Spool, SpoolError, SpoolOptions};
pub use users::{Role, User, UserDatabase, Users};
