//! The array against a real PostgreSQL server and a real S3 server.

mod bodies_bytes;
mod bodies_walk;
mod faults;
mod fuzz_smoke;
mod held;
mod held_costs;
mod held_faults;
mod held_mail;
mod held_simulation;
mod logs;
mod pack_bytes;
mod postgres;
mod s3;
mod shared_log;
mod shared_state;
