//! The array against a real PostgreSQL server.

mod faults;
mod fuzz_smoke;
mod logs;
mod pack_bytes;
mod postgres;
mod shared_log;
