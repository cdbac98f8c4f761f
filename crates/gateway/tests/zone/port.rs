//! Ports for servers that a test starts itself.

use std::hash::BuildHasher as _;
use std::net::TcpStream;

/// Below the ports that the system gives to outgoing connections and to whoever asks for any:
/// between choosing a port and the server's listening there, nobody gets it by chance.
const PORTS: std::ops::Range<u64> = 10_000..32_000;

/// A port where nobody answers at any of these addresses. It is asked for, not listened at: a
/// process that another thread is starting would hold the listener for a moment, and the server
/// would find it taken.
pub(crate) fn free_port(hosts: &[&str]) -> u16 {
    let random = std::hash::RandomState::new();
    for attempt in 0..1000_u32 {
        let port = PORTS.start + random.hash_one(attempt) % (PORTS.end - PORTS.start);
        let port = u16::try_from(port).expect("they all are");
        if hosts.iter().all(|host| TcpStream::connect((*host, port)).is_err()) {
            return port;
        }
    }
    panic!("no port is free on all of {hosts:?}");
}
