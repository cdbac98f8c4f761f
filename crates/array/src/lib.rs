//! Many nodes that share policy, message log and quarantine, by a PostgreSQL database and an
//! S3-compatible object store.
//!
//! A node keeps working from its own disk; nothing here is on the way of a message. What it logs it
//! logs locally first; a thread of its own ships what is new ([`shipping`]) and follows what the
//! array says ([`member`]). A manager reads what all nodes shipped ([`log`]). Nodes never talk
//! to each other.

pub mod activity;
pub mod address;
pub mod authority;
pub mod bodies;
pub mod database;
pub mod duties;
pub mod editions;
pub mod error;
pub mod export;
pub mod health;
pub mod held;
pub mod held_batch;
mod held_orders;
pub mod held_recovery;
mod held_rows;
mod held_settled;
pub mod held_shipping;
pub mod held_sweep;
mod http;
pub mod joining;
pub mod log;
pub mod member;
mod member_following;
pub mod nodes;
pub mod objects;
pub mod objects_address;
pub mod orders;
pub mod pack;
pub mod readers;
pub mod schema;
pub mod shipping;
pub mod state;
mod tls;
pub mod transfers;
pub mod value;

pub use address::DatabaseAddress;
pub use database::{Database, DatabaseOptions, Session};
pub use duties::{Duties, Duty};
pub use error::ArrayError;
pub use held::SharedQuarantine;
pub use held_shipping::{HeldShipped, HeldShipper};
pub use log::SharedLog;
pub use member::{HeldParts, LocalNode, Member, MemberOptions, MemberState};
pub use nodes::{Identity, NodeRow, NodeState};
pub use objects::{Objects, ObjectsOptions};
pub use objects_address::ObjectsAddress;
pub use readers::Readers;
pub use state::{Exchange, SharedParts};
pub use tls::DatabaseTls;
