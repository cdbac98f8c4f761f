//! The end of a tunnel.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use boringtun::noise::errors::WireGuardError;
use boringtun::noise::handshake::parse_handshake_anon;
use boringtun::noise::rate_limiter::RateLimiter;
use boringtun::noise::{Packet, Tunn, TunnResult};
use boringtun::x25519::{PublicKey, StaticSecret};

use crate::config::Config;
use crate::peers::{Peer, Routes};

/// Messages of handshakes in a second, above which senders have to prove their address by a cookie
/// (section 5.3 of the paper). Each is looked at twice.
const HANDSHAKES_PER_SECOND_MAX: u64 = 2 * 100;
/// How often timers are looked at.
const TICK_EVERY: Duration = Duration::from_millis(250);
/// How often the limit of handshakes begins anew.
const RATE_EVERY: Duration = Duration::from_secs(1);
/// Longest datagram that is taken.
const DATAGRAM_LEN_MAX: usize = 65_535;
/// Room that a datagram needs beside its packet, and what a handshake needs at least.
const ROOM: usize = 32 + 148;
/// Datagrams that wait for a session, of one peer, at most (as many as `boringtun` keeps).
const WAITING_MAX: usize = 256;

/// What comes out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Out {
    /// A datagram for a peer.
    Datagram(SocketAddr, Vec<u8>),
    /// A packet of a peer.
    Packet(Vec<u8>),
}

/// What was counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Handshakes that were completed or answered.
    pub handshakes: u64,
    /// Datagrams that are not authentic, or were seen before.
    pub refused: u64,
    /// Packets of a peer from an address that is not among its own.
    pub foreign: u64,
    /// Packets that belong to no peer, or to one that was never heard of.
    pub unroutable: u64,
}

/// This end of a tunnel.
pub struct Tunnel {
    private: StaticSecret,
    public: PublicKey,
    limiter: Arc<RateLimiter>,
    peers: Vec<Peer>,
    by_key: HashMap<[u8; 32], usize>,
    routes: Routes,
    buffer: Vec<u8>,
    ticked: Option<Instant>,
    limited: Instant,
    /// What was counted.
    pub counters: Counters,
}

impl std::fmt::Debug for Tunnel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tunnel").field("counters", &self.counters).finish_non_exhaustive()
    }
}

/// The index of a peer is in the upper 24 bits of what datagrams name their receiver by.
const INDEX_SHIFT: u32 = 8;

impl Tunnel {
    /// An end without sessions.
    pub fn new(config: &Config) -> Self {
        let private = config.private.clone();
        let public = PublicKey::from(&private);
        let limiter = Arc::new(RateLimiter::new(&public, HANDSHAKES_PER_SECOND_MAX));
        let mut by_key = HashMap::new();
        let mut peers = Vec::with_capacity(config.peers.len());
        for (index, peer) in (0u32..).zip(&config.peers) {
            by_key.insert(*peer.public.as_bytes(), peers.len());
            let (shared, keepalive) = (peer.shared, peer.keepalive);
            let limiter = Some(Arc::clone(&limiter));
            let tunn = Tunn::new(private.clone(), peer.public, shared, keepalive, index, limiter);
            peers.push(Peer { public: peer.public, tunn, endpoint: peer.endpoint });
        }
        let networks = config.peers.iter().enumerate();
        let networks =
            networks.flat_map(|(place, peer)| peer.allowed.iter().map(move |it| (*it, place)));
        Self {
            private,
            public,
            limiter,
            peers,
            by_key,
            routes: Routes::new(networks),
            buffer: vec![0; DATAGRAM_LEN_MAX + ROOM],
            ticked: None,
            limited: Instant::now(),
            counters: Counters::default(),
        }
    }

    /// Takes a datagram. What comes of it goes to `out`.
    pub fn receive(&mut self, from: SocketAddr, datagram: &[u8], out: &mut Vec<Out>) {
        if datagram.len() > DATAGRAM_LEN_MAX {
            self.counters.refused += 1;
            return;
        }
        let Some(place) = self.sender(from, datagram, out) else { return };
        let Self { peers, buffer, counters, routes, .. } = self;
        let Some(peer) = peers.get_mut(place) else { return };
        match peer.tunn.decapsulate(Some(from.ip()), datagram, buffer) {
            TunnResult::Done => peer.endpoint = Some(from),
            TunnResult::Err(error) => {
                // A session that is over: the peer begins another one.
                let is_old = matches!(error, WireGuardError::NoCurrentSession);
                counters.refused += u64::from(!is_old);
                return;
            }
            TunnResult::WriteToNetwork(answer) => {
                // A cookie goes to someone who has proved nothing yet.
                let is_cookie = answer.first() == Some(&COOKIE);
                out.push(Out::Datagram(from, answer.to_vec()));
                if is_cookie {
                    return;
                }
                counters.handshakes += 1;
                peer.endpoint = Some(from);
            }
            TunnResult::WriteToTunnelV4(packet, source) => {
                peer.endpoint = Some(from);
                take(packet, source.into(), (place, routes), counters, out);
            }
            TunnResult::WriteToTunnelV6(packet, source) => {
                peer.endpoint = Some(from);
                take(packet, source.into(), (place, routes), counters, out);
            }
        }
        // Packets that waited for a session.
        for _ in 0..WAITING_MAX {
            match peer.tunn.decapsulate(None, &[], buffer) {
                TunnResult::WriteToNetwork(datagram) => {
                    out.push(Out::Datagram(from, datagram.to_vec()));
                }
                _ => break,
            }
        }
    }

    /// Which peer a datagram comes from, as it says itself; a handshake has proved it by its MAC.
    fn sender(&mut self, from: SocketAddr, datagram: &[u8], out: &mut Vec<Out>) -> Option<usize> {
        let of_index = |index: u32| (index >> INDEX_SHIFT) as usize;
        let verified = self.limiter.verify_packet(Some(from.ip()), datagram, &mut self.buffer);
        let place = match verified {
            Ok(Packet::HandshakeInit(init)) => {
                let half = parse_handshake_anon(&self.private, &self.public, &init).ok();
                half.and_then(|half| self.by_key.get(&half.peer_static_public).copied())
            }
            Ok(Packet::HandshakeResponse(it)) => Some(of_index(it.receiver_idx)),
            Ok(Packet::PacketCookieReply(it)) => Some(of_index(it.receiver_idx)),
            Ok(Packet::PacketData(it)) => Some(of_index(it.receiver_idx)),
            Err(TunnResult::WriteToNetwork(cookie)) => {
                out.push(Out::Datagram(from, cookie.to_vec()));
                return None;
            }
            Err(_) => None,
        };
        let place = place.filter(|place| *place < self.peers.len());
        self.counters.refused += u64::from(place.is_none());
        place
    }

    /// Sends a packet to the peer that has its destination.
    pub fn send(&mut self, packet: &[u8], out: &mut Vec<Out>) {
        let destination = Tunn::dst_address(packet);
        let place = destination.and_then(|address| self.routes.peer(address));
        let peer = place.and_then(|place| self.peers.get_mut(place));
        let Some((peer, endpoint)) = peer.and_then(|peer| {
            let endpoint = peer.endpoint?;
            Some((peer, endpoint))
        }) else {
            self.counters.unroutable += 1;
            return;
        };
        if packet.len() > DATAGRAM_LEN_MAX {
            self.counters.unroutable += 1;
            return;
        }
        if let TunnResult::WriteToNetwork(datagram) =
            peer.tunn.encapsulate(packet, &mut self.buffer)
        {
            out.push(Out::Datagram(endpoint, datagram.to_vec()));
        }
    }

    /// Looks whether handshakes or keep-alives are due. To be called often; it looks at its clock.
    pub fn tick(&mut self, out: &mut Vec<Out>) {
        let now = Instant::now();
        if now.duration_since(self.limited) >= RATE_EVERY {
            self.limited = now;
            self.limiter.reset_count();
        }
        let is_first = self.ticked.is_none();
        if self.ticked.is_some_and(|at| now.duration_since(at) < TICK_EVERY) {
            return;
        }
        self.ticked = Some(now);
        for peer in &mut self.peers {
            let due = match is_first && peer.endpoint.is_some() {
                // A peer that is known where it is need not wait until it notices that the process
                // before this one is gone.
                true => peer.tunn.format_handshake_initiation(&mut self.buffer, false),
                false => peer.tunn.update_timers(&mut self.buffer),
            };
            if let (TunnResult::WriteToNetwork(datagram), Some(endpoint)) = (due, peer.endpoint) {
                out.push(Out::Datagram(endpoint, datagram.to_vec()));
            }
        }
    }

    /// Peers with whom there was a handshake within so long.
    pub fn connected(&self, within: Duration) -> usize {
        let since = |peer: &&Peer| peer.tunn.stats().0.is_some_and(|since| since < within);
        self.peers.iter().filter(since).count()
    }

    /// Whether a peer has this public key, in base64.
    pub fn has_peer(&self, key: &str) -> bool {
        let decoded = base64_simd::STANDARD.decode_to_vec(key).unwrap_or_default();
        self.peers.iter().any(|peer| peer.public.as_bytes() == decoded.as_slice())
    }
}

/// Type of a message with a cookie.
const COOKIE: u8 = 3;

/// A packet that a peer sent: it has to come from one of its addresses.
fn take(
    packet: &[u8],
    source: IpAddr,
    (place, routes): (usize, &Routes),
    counters: &mut Counters,
    out: &mut Vec<Out>,
) {
    if routes.peer(source) == Some(place) {
        out.push(Out::Packet(packet.to_vec()));
    } else {
        counters.foreign += 1;
    }
}
