//! Intrusion detection: Suricata's rule language, read, checked and matched on packets, streams
//! and transactions.

pub mod bytes;
pub mod config;
pub mod detect;
pub mod eve;
pub mod inspect;
pub mod lists;
pub mod pipeline;
pub mod replay;
pub mod rule;
