//! The integration tests in one binary: linking dozens of them took a fresh checkout minutes.

mod bad_rules;
mod deferral;
mod everything;
mod fuzz_smoke;
mod known_text;
mod mail;
mod matcher_smoke;
#[path = "../../mail/tests/mutate.rs"]
mod mutate;
mod order;
mod stock_rules;
