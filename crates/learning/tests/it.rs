//! The integration tests in one binary.

mod fuzz_smoke;
mod probes_bytes;
