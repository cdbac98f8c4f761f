//! The integration tests in one binary: linking dozens of them took a fresh checkout minutes.

mod blocked_urls;
mod everything;
mod fuzz_smoke;
mod languages;
mod limits;
#[path = "../../mail/tests/mutate.rs"]
mod mutate;
mod test_string_disguises;
