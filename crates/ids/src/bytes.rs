//! What rules do to bytes before and while they are compared: decoding, transforms, patterns.

pub mod base64;
pub mod pattern;
pub mod transform;
