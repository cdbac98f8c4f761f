//! What a site has learned, on disk: corrections by administrators and users, and signatures of
//! known mail.
//!
//! Files of `DATA/learning/`: [`corrections`] is a journal, [`signatures`] a memory-mapped table.
//! What they mean to a scan is said by `engine`.

pub mod corrections;
pub mod signatures;

pub use corrections::{Corrections, CorrectionsError};
