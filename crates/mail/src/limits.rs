//! The bounds of a parse. Reaching one never fails a message: the rest is left out and a defect
//! says so.

use serde::{Deserialize, Serialize};

/// Upper bounds for one message. Every field is a setting `[limits]` of the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Nesting of MIME parts (the root has depth 0).
    pub depth_max: u16,
    /// MIME parts in one message, root included.
    pub parts_max: u16,
    /// Header fields of one part.
    pub headers_max: u32,
    /// Bytes of one part's header block.
    pub header_bytes_max: u32,
    /// Parameters of one MIME field.
    pub parameters_max: u16,
    /// Decoded bytes of all parts together.
    pub decoded_bytes_max: u64,
    /// Bytes of text (decoded to UTF-8, or rendered from HTML) kept of one part.
    pub text_bytes_max: u32,
    /// URLs kept of one message.
    pub urls_max: u32,
    /// Received fields that are read, from the newest on.
    pub relays_max: u16,
    /// Authors read in the From fields.
    pub authors_max: u16,
    /// Defects kept, but one of each kind is kept whatever this says.
    pub defects_max: u16,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            depth_max: 32,
            parts_max: 1_000,
            headers_max: 2_000,
            header_bytes_max: 256 * 1024,
            parameters_max: 256,
            decoded_bytes_max: 256 * 1024 * 1024,
            text_bytes_max: 1024 * 1024,
            urls_max: 2_000,
            relays_max: 64,
            authors_max: 16,
            defects_max: 64,
        }
    }
}
