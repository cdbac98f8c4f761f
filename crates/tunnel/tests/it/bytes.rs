//! Whatever the bytes: nothing panics, and nothing comes out that was not authentic.

use std::net::SocketAddr;

use gauntlet_tunnel::{Config, Out, Tunnel};

/// A file with keys that were made for tests (`wg genkey`).
pub(crate) const FILE: &str = "[Interface]\nPrivateKey = MGoNwQ6nUhXHr4xxtknDuNwU85vaFh6Wv/oY4URHQ24=\nAddress = 10.9.0.1/24\n\
    [Peer]\nPublicKey = kP67/PZTFA/o4INhWkhIWqf0GxBITlXTNe9rbJpQIX0=\nAllowedIPs = 0.0.0.0/0, ::/0\nEndpoint = 192.0.2.2:51820\n";

/// Reads the bytes as a file, and hands them to a tunnel.
pub(crate) fn feed(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    if let Err(error) = Config::read(&text, &|_| None) {
        assert!(error.line >= 1 && !error.message.is_empty());
    }
    let Ok(config) = Config::read(FILE, &|_| None) else { return };
    let mut tunnel = Tunnel::new(&config);
    let from = SocketAddr::from(([192, 0, 2, 7], 9));
    let mut out = Vec::new();
    for datagram in input.chunks(148) {
        tunnel.receive(from, datagram, &mut out);
    }
    tunnel.receive(from, input, &mut out);
    assert!(!out.iter().any(|out| matches!(out, Out::Packet(_))), "nobody has the key");
    tunnel.send(input, &mut out);
    tunnel.tick(&mut out);
}
