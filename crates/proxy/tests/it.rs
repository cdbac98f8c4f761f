//! Everything that drives a proxy, in one binary.

mod common;
mod forwarding;
mod http2;
mod judging;
mod limits;
mod nginx;
mod smuggling;
mod tunnels;
