//! Channels: signed, versioned streams of rules, models and lists.
//!
//! ```text
//! publisher                      a folder of static files            a node
//! publish ─▶ Repository ─▶ root, targets, snapshot, timestamp ─▶ pull ─▶ staged generation
//!                          files and deltas by their hash               │ tested by the caller
//!                                                                       ▼
//!                                                         `current` names it (one rename)
//! ```
//!
//! * [`metadata`] and [`trust`]: the roles of The Update Framework
//!   (<https://theupdateframework.github.io/specification/v1.0.33/>) and the workflow of
//!   its client;
//! * [`bundle`]: what a version holds, and the names that files may have;
//! * [`delta`]: a file as the difference to one that the node has;
//! * [`repository`]: the publisher's side; [`mirror`]: a copy that others can serve;
//! * [`generations`] and [`subscription`]: the node's side on disk; [`pull`] brings a new version.
//!
//! Nothing here opens a socket: a [`pull::Mirror`] is handed in. Everything from outside is bounded
//! by [`limits`] before it is parsed.

pub mod bundle;
pub mod canary;
pub mod canonical;
pub mod delta;
pub mod error;
mod folder;
pub mod generations;
pub mod hex;
pub mod instant;
pub mod keys;
pub mod limits;
pub mod metadata;
pub mod mirror;
pub mod pull;
pub mod repository;
pub mod subscription;
pub mod trust;

pub use error::Error;
