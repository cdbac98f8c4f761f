//! The end of a WireGuard tunnel: a UDP socket towards peers, and a TUN device towards the machine.
//!
//! What peers send is shown decrypted, before it goes out at the device; what the machine sends
//! into the device is shown before it is encrypted.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use gauntlet_packet::{Frame, Link};
use gauntlet_tunnel::{Config, Out, Tunnel};

use crate::answer::{Answer, Port, Received, Reply, ReplyTo};
use crate::bridge::now;
use crate::error::Error;
use crate::frame;
use crate::statistics::Statistics;
use crate::sys::{self, Ready, tun};

/// Datagrams, and packets, of one turn.
const BATCH: usize = 64;
/// Longest datagram and packet.
const LEN_MAX: usize = 65_535;
/// Bytes that wait in the UDP socket, unless settings say otherwise.
const BUFFER_BYTES: u32 = 16 << 20;
/// How long a turn waits at most: timers of the tunnel are looked at between turns.
const WAIT_MAX: Duration = Duration::from_millis(100);

/// Makes the device and the socket.
pub(crate) fn open(
    device: &str,
    config: &Config,
    buffer_bytes: Option<u32>,
) -> Result<[OwnedFd; 2], Error> {
    let denied = || Error::system("a TUN device", "CAP_NET_ADMIN");
    let made = tun::open(device).map_err(|error| match error.raw_os_error() {
        Some(libc::EBUSY) => Error::DeviceTaken(device.to_owned()),
        _ => denied()(error),
    })?;
    let index = sys::interface_index(device).map_err(denied())?;
    tun::configure(device, index, &config.addresses, config.mtu).map_err(denied())?;
    let port = config.port;
    let bound = UdpSocket::bind((Ipv6Addr::UNSPECIFIED, port)).or_else(|error| {
        // A machine without IPv6.
        match error.raw_os_error() {
            Some(libc::EAFNOSUPPORT) => UdpSocket::bind(("0.0.0.0", port)),
            _ => Err(error),
        }
    });
    let system = |error| Error::System(format!("UDP port {port} (ListenPort)"), error);
    let socket = bound.map_err(system)?;
    let bytes = buffer_bytes.unwrap_or(BUFFER_BYTES).to_ne_bytes();
    for name in [libc::SO_RCVBUFFORCE, libc::SO_SNDBUFFORCE] {
        // Without the right to it, the system's limit holds.
        let _ = sys::set_option(socket.as_fd(), libc::SOL_SOCKET, name, &bytes);
    }
    Ok([made, socket.into()])
}

/// The one thread's port.
pub(crate) struct TunnelPort {
    device: OwnedFd,
    socket: UdpSocket,
    /// The socket is one of IPv6, which takes IPv4's addresses as mapped ones.
    is_v6: bool,
    index: Option<u32>,
    tunnel: Tunnel,
    buffer: Vec<u8>,
    statistics: Statistics,
}

impl TunnelPort {
    pub(crate) fn new(name: &str, sockets: [OwnedFd; 2], config: &Config) -> io::Result<Self> {
        let [device, socket] = sockets;
        let socket = UdpSocket::from(socket);
        socket.set_nonblocking(true)?;
        Ok(Self {
            device,
            is_v6: socket.local_addr()?.is_ipv6(),
            socket,
            index: sys::interface_index(name).ok(),
            tunnel: Tunnel::new(config),
            buffer: vec![0; LEN_MAX],
            statistics: Statistics::default(),
        })
    }

    /// What peers have sent.
    fn datagrams(&mut self, handle: &mut dyn FnMut(&Received) -> Answer) -> io::Result<usize> {
        let mut out = Vec::new();
        for count in 0..BATCH {
            let (len, from) = match self.socket.recv_from(&mut self.buffer) {
                Ok(received) => received,
                Err(error) if is_nothing(&error) => return Ok(count),
                Err(error) => return Err(error),
            };
            let from = SocketAddr::new(from.ip().to_canonical(), from.port());
            let datagram = self.buffer.get(..len).unwrap_or_default();
            self.tunnel.receive(from, datagram, &mut out);
            for out in out.drain(..) {
                match out {
                    Out::Datagram(to, bytes) => self.send(to, &bytes),
                    Out::Packet(packet) => self.packet(packet, Way::In, handle),
                }
            }
        }
        Ok(BATCH)
    }

    /// What the machine sends into the device.
    fn packets(&mut self, handle: &mut dyn FnMut(&Received) -> Answer) -> io::Result<usize> {
        for count in 0..BATCH {
            let read = rustix::io::read(&self.device, &mut *self.buffer);
            let len = match read.map_err(io::Error::from) {
                Ok(len) => len,
                // The device is down: nothing can come.
                Err(error) if is_nothing(&error) || error.raw_os_error() == Some(libc::EIO) => {
                    return Ok(count);
                }
                Err(error) => return Err(error),
            };
            let packet = self.buffer.get(..len).unwrap_or_default().to_vec();
            self.packet(packet, Way::Out, handle);
        }
        Ok(BATCH)
    }

    fn packet(&mut self, packet: Vec<u8>, way: Way, handle: &mut dyn FnMut(&Received) -> Answer) {
        let (incoming, outgoing) = match way {
            Way::In => (self.index, None),
            Way::Out => (None, self.index),
        };
        let original_len = u32::try_from(packet.len()).unwrap_or(u32::MAX);
        let bytes = packet.as_slice().into();
        let frame = Frame { number: 0, time: now(), link: Link::Raw, bytes, original_len };
        self.statistics.frames += 1;
        self.statistics.bytes += u64::from(original_len);
        let answer = handle(&Received { frame, checksums_trusted: false, incoming, outgoing });
        for Reply { to, bytes } in answer.replies {
            self.statistics.replies += 1;
            match (to, way) {
                (ReplyTo::Source, Way::In) | (ReplyTo::Destination, Way::Out) => {
                    self.encrypt(&bytes);
                }
                _ => self.write(&bytes),
            }
        }
        if answer.is_dropped {
            return;
        }
        let mut packet = packet;
        if let Some(change) = &answer.change {
            frame::change(&mut packet, change, false);
        }
        self.statistics.sent += 1;
        match way {
            Way::In => self.write(&packet),
            Way::Out => self.encrypt(&packet),
        }
    }

    /// Sends a packet to the peer that has its destination.
    fn encrypt(&mut self, packet: &[u8]) {
        let mut out = Vec::new();
        let before = self.tunnel.counters.unroutable;
        self.tunnel.send(packet, &mut out);
        self.statistics.send_failures += self.tunnel.counters.unroutable - before;
        self.send_all(out);
    }

    fn send_all(&mut self, out: Vec<Out>) {
        for out in out {
            if let Out::Datagram(to, bytes) = out {
                self.send(to, &bytes);
            }
        }
    }

    fn send(&mut self, to: SocketAddr, bytes: &[u8]) {
        let to = match to.ip() {
            IpAddr::V4(address) if self.is_v6 => {
                SocketAddr::new(address.to_ipv6_mapped().into(), to.port())
            }
            _ => to,
        };
        // As with any datagram: whoever waits for it asks again.
        let sent = self.socket.send_to(bytes, to);
        self.statistics.send_failures += u64::from(sent.is_err());
    }

    /// Hands a packet to the machine.
    fn write(&mut self, packet: &[u8]) {
        let written = rustix::io::write(&self.device, packet);
        self.statistics.send_failures += u64::from(written.is_err());
    }

    fn tick(&mut self) {
        let mut out = Vec::new();
        self.tunnel.tick(&mut out);
        self.send_all(out);
    }
}

/// Which way a packet goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// From a peer.
    In,
    /// To a peer.
    Out,
}

/// Nothing is there, or an earlier datagram reached nobody.
fn is_nothing(error: &io::Error) -> bool {
    let kinds = [ErrorKind::WouldBlock, ErrorKind::Interrupted, ErrorKind::ConnectionRefused];
    kinds.contains(&error.kind())
}

impl Port for TunnelPort {
    fn turn(
        &mut self,
        wait: Duration,
        handle: &mut dyn FnMut(&Received) -> Answer,
    ) -> io::Result<usize> {
        self.tick();
        let count = self.datagrams(handle)? + self.packets(handle)?;
        if count > 0 || wait.is_zero() {
            return Ok(count);
        }
        sys::poll(&[self.socket.as_fd(), self.device.as_fd()], Ready::Read, wait.min(WAIT_MAX))?;
        Ok(self.datagrams(handle)? + self.packets(handle)?)
    }

    fn statistics(&mut self) -> Statistics {
        let counters = self.tunnel.counters;
        self.statistics.handshakes = counters.handshakes;
        self.statistics.refused = counters.refused + counters.foreign;
        self.statistics
    }
}
