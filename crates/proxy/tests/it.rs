//! Everything that drives a proxy, in one binary.

mod client_hello;
mod common;
mod forwarding;
mod hello_bytes;
mod http2;
mod judging;
mod limits;
mod nginx;
mod pac;
mod request_bytes;
mod requests;
mod routed;
mod smuggling;
mod transparent;
mod tunnels;
