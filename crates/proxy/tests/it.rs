//! Everything that drives a proxy, in one binary.

mod client_hello;
mod common;
mod forwarding;
mod hello_bytes;
mod http2;
mod icap;
mod icap_bytes;
mod icap_cases;
mod icap_client;
mod icap_squid;
mod judging;
mod limits;
mod nginx;
mod pac;
mod request_bytes;
mod requests;
mod routed;
mod smuggling;
mod tls_browser;
mod tls_interception;
mod tls_origins;
mod tls_parts;
mod tls_tunnels;
mod transparent;
mod tunnels;
