//! Persistent state of a node: spool, message log, quarantine, users.
//!
//! All functions block and may be called from any thread; none uses the network. Each store owns
//! one folder or file, has a schema version, is migrated when it is opened and refuses a newer one
//! (see [`database`]).

pub mod alert_log;
mod at_rest;
pub mod backup;
pub mod clock;
pub mod content;
pub mod database;
mod day_log;
pub mod error;
pub mod files;
pub mod formats;
pub mod history;
mod inbox;
pub mod log;
pub mod packs;
pub mod policies;
pub mod quarantine;
pub mod random;
pub mod recipients;
pub mod record;
pub mod reference;
pub mod replay;
pub mod sharing;
pub mod spool;
pub mod users;
pub mod web_log;
pub mod web_releases;

pub use alert_log::AlertLog;
pub use clock::Clock;
pub use content::{BodyKeys, Content, ContentHash};
pub use error::StoreError;
pub use history::{GreylistDecision, GreylistRules, History, SenderHistory};
pub use log::{Appended, Log, LogOptions, Page, Query, Summary};
pub use packs::Packs;
pub use policies::Policies;
pub use quarantine::{FolderLimit, Quarantine, QuarantineItem};
pub use record::{Delivery, Event, LogRecord, Outcome, Stage};
pub use spool::{Spool, SpoolError, SpoolOptions};
pub use users::{Role, User, UserDatabase, Users};
pub use web_log::WebLog;
pub use web_releases::WebReleases;
