//! The pages, one a file. A page is a function of the request that may wait for the stores.

pub(crate) mod account;
pub(crate) mod activity;
pub(crate) mod export;
pub(crate) mod files;
pub(crate) mod held;
pub(crate) mod link;
pub(crate) mod message;
pub(crate) mod messages;
pub(crate) mod metrics;
pub(crate) mod overview;
pub(crate) mod own;
pub(crate) mod policy;
pub(crate) mod quarantine;
pub(crate) mod queue;
pub(crate) mod replay;
pub(crate) mod second_factor;
pub(crate) mod senders;
pub(crate) mod sign_in;
mod verdict;
pub(crate) mod versions;
