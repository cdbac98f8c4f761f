//! The integration tests in one binary: linking dozens of them took a fresh checkout minutes.

mod conformance;
mod everything;
mod smoke;
