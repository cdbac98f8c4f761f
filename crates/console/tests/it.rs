//! The integration tests in one binary: linking dozens of them took a fresh checkout minutes.

mod accounts;
mod alerts;
mod api;
mod attacks;
mod browser;
mod channels;
mod common;
mod digest;
mod elsewhere;
mod fuzz_smoke;
mod guessing;
mod http;
mod id_token_bytes;
#[path = "../../mail/tests/mutate.rs"]
mod mutate;
mod nodes;
mod oidc;
mod policies;
mod preview_bytes;
mod releases;
mod security;
mod sign_in;
mod texts;
mod token_scopes;
mod web;
