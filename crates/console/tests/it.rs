//! The integration tests in one binary: linking dozens of them took a fresh checkout minutes.

mod api;
mod attacks;
mod browser;
mod common;
mod digest;
mod http;
mod oidc;
mod security;
mod sign_in;
mod texts;
