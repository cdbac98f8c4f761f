//! Everything about phrases, in one binary.

mod browsers;
mod debian;
mod list_bytes;
mod lists;
mod model;
mod scanning;
