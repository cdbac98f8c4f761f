//! What a site has learned, on disk: corrections by administrators and users, signatures of known
//! mail, and samples of good mail that nobody corrected.
//!
//! Files of the data folder: [`corrections`] is a journal, [`signatures`] a memory-mapped table,
//! [`good_mail`] a small file that is replaced.
//! What they mean to a scan is said by `engine`.

pub mod corrections;
pub mod good_mail;
pub mod signatures;

pub use corrections::{Corrections, CorrectionsError};
