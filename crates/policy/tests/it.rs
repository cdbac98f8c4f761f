//! The integration tests in one binary: linking dozens of them took a fresh checkout minutes.

mod everything;
mod fuzz_smoke;
#[path = "../../mail/tests/mutate.rs"]
mod mutate;
mod packets;
