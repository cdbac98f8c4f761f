//! The array against a real PostgreSQL server.

mod faults;
mod logs;
mod postgres;
mod shared_log;
