//! From a connection to an accepted message: admission, SMTP sessions, scan services, intake.

pub mod admission;
pub mod challenge_listener;
pub mod deferrals;
pub mod draining;
pub mod intake;
pub mod logins;
pub mod originals;
pub mod policy_actions;
pub mod rate_limiter;
pub mod rates;
pub mod receiver;
pub mod recipients;
pub mod services;
pub mod settings;
mod trap;
