//! Data loss prevention: finds payment cards, account and identity numbers, keys, words of a
//! dictionary and passages of known documents in texts.
//!
//! ```text
//! texts ─▶ Inspector ─┬─ numbers: layout ─▶ check digits ─▶ context words ─┐
//!                     ├─ secrets: prefix ─▶ form and checksum ─────────────┼─▶ Inspected
//!                     └─ words ─┬─ dictionaries: weights, proximity ───────┤   (masked)
//!                               └─ documents: winnowed shingles ───────────┘
//! ```
//!
//! Plain text in, findings out: no I/O, no clock, nothing of mail. What is found leaves this crate
//! masked; [`Inspected::redact`] masks the same values in other texts, such as a subject that is
//! logged. Every number of a finding is one of distinct values: the same card in the text and in
//! the HTML of a message counts once.

pub mod check;
pub mod detector;
pub mod detectors;
pub mod dictionary;
pub mod documents;
pub mod inspect;
mod layout;
mod mask;
mod numbers;
mod redact;
mod secrets;
mod words;

pub use detector::{Detector, Family};
pub use dictionary::{Dictionary, DictionaryError};
pub use documents::{Documents, DocumentsBuilder};
pub use inspect::{Evidence, Finding, Inspected, Inspector, Limits, Text};
