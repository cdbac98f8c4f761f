//! From an accepted message to its deliveries: queue, routes, signing, next hops, Maildir,
//! quarantine.

pub mod arc;
pub mod disarming;
pub mod dsn;
pub mod exchangers;
pub mod hold;
pub mod maildir;
pub mod mta_sts;
pub mod notification;
pub mod queue;
pub mod queued_message;
pub mod route;
pub mod sender;
pub mod settings;
pub mod signing;
pub mod tls_outcomes;
