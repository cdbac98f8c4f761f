//! What a site has learned, on disk: corrections by administrators and users, signatures of known
//! mail, and samples of good mail that nobody corrected.
//!
//! Files of the data folder: [`corrections`] is a journal, [`signatures`] a memory-mapped table,
//! [`good_mail`] a small file that is replaced, [`probes`] what mail to probe accounts named.
//! [`url_entries`] are made of the last. What they mean to a scan is said by `engine`.

#[cfg(test)]
mod array_double;
pub mod corrections;
pub mod formats;
pub mod good_mail;
pub mod probes;
pub mod signatures;
pub mod url_entries;

pub use corrections::{Corrections, CorrectionsError};
