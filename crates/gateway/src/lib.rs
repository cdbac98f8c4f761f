//! A node: receiver, scan pool, dispose, sender; [`node`] wires all.
//!
//! ```text
//! receiver ─▶ intake: scan_pool (judge) ─▶ answer ─▶ spool ─▶ 250
//!                                                      └─▶ queue ─▶ sender | maildir | hold ─▶ log
//! ```

pub mod acme;
pub mod admission;
pub mod arc;
mod canonical;
pub mod clock;
pub mod config;
pub mod control;
pub mod corrections;
pub mod dsn;
pub mod exchangers;
pub mod facts;
pub mod gate;
pub mod groups;
pub mod hold;
pub mod ids;
pub mod intake;
pub mod judge;
pub mod key_record;
pub mod limits;
pub mod logins;
pub mod maildir;
pub mod memory;
pub mod metrics;
pub mod mta_sts;
pub mod network;
pub mod node;
pub mod policy_source;
pub mod postgres;
pub mod privileges;
pub mod probes;
pub mod queue;
pub mod random;
pub mod rates;
pub mod receiver;
pub mod recipients;
pub mod reports;
pub mod resolver;
pub mod route;
pub mod sandbox;
pub mod scan_pool;
pub mod secrets;
pub mod sender;
pub mod services;
pub mod signing;
pub mod text_log;
pub mod tls;
pub mod trace_fields;
pub mod transit;
pub mod web;
pub mod wire;

pub use gauntlet_smtp::text;
pub use judge::Judge;
pub use node::{Doors, Node, Release};
