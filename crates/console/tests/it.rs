//! The integration tests in one binary: linking dozens of them took a fresh checkout minutes.

mod accounts;
mod api;
mod attacks;
mod browser;
mod common;
mod digest;
mod guessing;
mod http;
mod oidc;
mod policies;
mod security;
mod sign_in;
mod texts;
mod token_scopes;
