//! The integration tests in one binary: linking dozens of them took a fresh checkout minutes.

mod ambiguous;
mod everything;
mod fuzz_smoke;
mod linear;
mod mutate;
mod never_panics;
