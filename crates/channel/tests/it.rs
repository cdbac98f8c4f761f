//! Tests of the crate as others use it.

mod attacks;
mod channel_bytes;
mod fuzz_smoke;
mod peers;
mod publishing;
mod pulling;
mod site;
