//! Addresses of settings.

use std::net::{SocketAddr, ToSocketAddrs};

/// The first address that the text names; none if it is no address with a port.
pub(super) fn socket_address(text: &str) -> Option<SocketAddr> {
    text.to_socket_addrs().ok()?.next()
}
