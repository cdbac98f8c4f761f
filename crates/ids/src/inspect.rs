//! Evaluation of a rule's matches on the bytes of one buffer.

mod content;
mod grams;
mod numbers;
pub mod prefilter;
mod tiny;

pub use crate::bytes::pattern::Capture;
pub use crate::bytes::{base64, pattern, transform};
pub use content::Inspector;

use crate::rule::matches::{DataReputation, Dataset};

/// What the inspection asks of the rest.
pub trait Context {
    /// `dataset`: tests or changes; whether it matches.
    fn dataset(&mut self, check: &Dataset, value: &[u8]) -> bool;

    /// `datarep`: whether the value's reputation is as wanted.
    fn reputation(&mut self, check: &DataReputation, value: &[u8]) -> bool;

    /// A capture of `pcre` for a variable of the flow or packet, kept if the whole rule matches
    /// (the caller collects these and drops them if not).
    fn capture(&mut self, capture: Capture, value: &[u8]);

    /// Byte order of the DCERPC message (`dce`): whether it is little endian; `None` fails the
    /// match.
    fn dce_little_endian(&self) -> Option<bool>;
}

/// A buffer, or the part of it that is there.
#[derive(Debug, Clone, Copy)]
pub struct Buffer<'a> {
    /// The bytes.
    pub bytes: &'a [u8],
    /// Where they begin in the whole (streams and bodies that are inspected in pieces).
    pub offset: u64,
    /// The beginning of the whole is in it.
    pub is_start: bool,
    /// The end of the whole is in it.
    pub is_end: bool,
}

impl<'a> Buffer<'a> {
    /// The whole of something.
    pub fn whole(bytes: &'a [u8]) -> Self {
        Self { bytes, offset: 0, is_start: true, is_end: true }
    }
}
