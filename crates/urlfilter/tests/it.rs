//! Tests of URL lists, in one binary.

mod bad_lines;
mod common;
mod corpus;
mod damage;
mod formats;
mod fuzz_smoke;
mod list_bytes;
mod look_up;
mod reference;
