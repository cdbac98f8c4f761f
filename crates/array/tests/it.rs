//! The array against a real PostgreSQL server and a real S3 server.

mod bodies_bytes;
mod bodies_walk;
mod duckdb;
mod export;
mod faults;
mod fuzz_smoke;
mod held;
mod held_costs;
mod held_faults;
mod held_mail;
mod held_simulation;
mod logs;
mod member_simulation;
mod pack_bytes;
#[path = "../../gateway/tests/zone/port.rs"]
mod port;
mod postgres;
mod relay;
mod s3;
mod s3_server;
mod shared_days;
mod shared_log;
mod shared_pages;
mod shared_reports;
mod shared_state;
