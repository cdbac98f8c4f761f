//! The integration tests in one binary: linking dozens of them took a fresh checkout minutes.

mod api;
mod browser;
mod common;
mod digest;
mod http;
mod oidc;
mod security;
mod texts;
