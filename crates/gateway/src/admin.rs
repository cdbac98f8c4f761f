//! What an administrator steers and what keeps the process safe: policy, groups, sandbox, the
//! secrets process.

pub mod channel_signing;
pub mod groups;
pub mod key_access;
pub mod policy_source;
pub mod postgres;
pub mod quarantine;
pub mod sandbox;
pub mod secrets_process;
