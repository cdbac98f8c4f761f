//! Everything about phrases, in one binary.

mod debian;
mod list_bytes;
mod lists;
mod model;
mod scanning;
