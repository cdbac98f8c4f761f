//! Which sockets are opened, and the ports that they make.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;

use gauntlet_packet::Link;
use gauntlet_tunnel::Config;

use crate::answer::Port;
use crate::bridge::BridgePort;
use crate::capture::CapturePort;
use crate::error::Error;
use crate::queue::{self, QueuePort};
use crate::settings::{Cluster, Settings};
use crate::sys;
use crate::tunnel::{self, TunnelPort};

/// Where packets come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Inputs {
    /// An interface that is listened to.
    Capture {
        /// Its name.
        interface: String,
    },
    /// Two interfaces, one side of a bridge each.
    Bridge {
        /// Their names.
        sides: [String; 2],
    },
    /// Queues of the firewall.
    Queues {
        /// Number of the first.
        first: u16,
        /// Number of the last.
        last: u16,
    },
    /// The end of a WireGuard tunnel.
    Tunnel {
        /// Name of the TUN device.
        device: String,
        /// Keys and peers.
        config: Arc<Config>,
    },
}

/// What is to be opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Where packets come from.
    pub inputs: Inputs,
    /// Threads among which an interface's frames are shared out; a queue has one each.
    pub threads: usize,
    /// Settings.
    pub settings: Settings,
}

/// `SO_TIMESTAMPNS`, `PACKET_IGNORE_OUTGOING`.
const TIMESTAMP: i32 = libc::SO_TIMESTAMPNS;
const IGNORE_OUTGOING: i32 = 23;
/// Bytes that wait in a socket of a bridge, unless settings say otherwise.
const BUFFER_BYTES: u32 = 64 << 20;
/// `PACKET_FANOUT_FLAG_DEFRAG`.
const DEFRAG: u32 = 0x8000;

/// `ARPHRD_`: Ethernet, PPP, loopback, none (a tunnel).
const ETHERNET: u16 = 1;
const PPP: u16 = 512;
const LOOPBACK: u16 = 772;
const NONE: u16 = 0xfffe;

impl Plan {
    /// How many ports there are, each for a thread.
    pub fn ports_len(&self) -> usize {
        match self.inputs {
            Inputs::Queues { first, last } => usize::from(last.saturating_sub(first)) + 1,
            Inputs::Capture { .. } | Inputs::Bridge { .. } => self.threads,
            // Sessions belong to one thread.
            Inputs::Tunnel { .. } => 1,
        }
    }

    /// The queues.
    pub fn queues(&self) -> Vec<u16> {
        match self.inputs {
            Inputs::Queues { first, last } => (first..=last).collect(),
            _ => Vec::new(),
        }
    }

    /// Packets are of use to nobody without keys and sessions.
    pub fn is_tunnel(&self) -> bool {
        matches!(self.inputs, Inputs::Tunnel { .. })
    }

    /// Frames that pass are sent on, and others are not.
    pub fn is_inline(&self) -> bool {
        !matches!(self.inputs, Inputs::Capture { .. })
    }

    /// Opens all sockets. From then on, frames wait in them.
    ///
    /// # Errors
    ///
    /// If an interface or queue cannot be had, with what to do.
    pub fn open(&self) -> Result<Vec<OwnedFd>, Error> {
        let mut sockets = Vec::new();
        for number in 0..self.ports_len() {
            match &self.inputs {
                Inputs::Capture { interface } => sockets.push(self.packet_socket(interface, 0)?),
                Inputs::Bridge { sides } => {
                    for (side, interface) in (0u16..).zip(sides) {
                        sockets.push(self.packet_socket(interface, side)?);
                    }
                }
                Inputs::Tunnel { device, config } => {
                    sockets.extend(tunnel::open(device, config, self.settings.buffer_bytes)?);
                }
                Inputs::Queues { first, .. } => {
                    let number = u16::try_from(number).unwrap_or(u16::MAX);
                    sockets.push(queue::open(first.saturating_add(number), &self.settings)?);
                    for family in [libc::AF_INET, libc::AF_INET6] {
                        let raw = sys::socket(family, libc::SOCK_RAW, libc::IPPROTO_RAW);
                        sockets.push(raw.map_err(Error::system("a raw socket", "CAP_NET_RAW"))?);
                    }
                }
            }
        }
        Ok(sockets)
    }

    /// A packet socket bound to an interface, in a group with those of other threads.
    fn packet_socket(&self, interface: &str, side: u16) -> Result<OwnedFd, Error> {
        let denied = || Error::system("a packet socket", "CAP_NET_RAW");
        let index = sys::interface_index(interface)
            .map_err(|_| Error::NoInterface(interface.to_owned()))?;
        let socket = sys::socket(libc::AF_PACKET, libc::SOCK_RAW, 0).map_err(denied())?;
        let packet = |name, value: u32| {
            let value = value.to_ne_bytes();
            sys::set_option(socket.as_fd(), libc::SOL_PACKET, name, &value).map_err(denied())
        };
        if self.is_inline() {
            packet(IGNORE_OUTGOING, 1)?;
            packet(libc::PACKET_VNET_HDR, 1)?;
            packet(libc::PACKET_AUXDATA, 1)?;
            let bytes = self.settings.buffer_bytes.unwrap_or(BUFFER_BYTES);
            for (forced, usual, value) in [
                (libc::SO_RCVBUFFORCE, libc::SO_RCVBUF, bytes),
                (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF, bytes),
                (TIMESTAMP, TIMESTAMP, 1),
            ] {
                let value = value.to_ne_bytes();
                let set = |name| sys::set_option(socket.as_fd(), libc::SOL_SOCKET, name, &value);
                // Without CAP_NET_ADMIN, the system's limit holds.
                set(forced).or_else(|_| set(usual)).map_err(denied())?;
            }
        }
        sys::bind_interface(socket.as_fd(), index).map_err(denied())?;
        if self.settings.promiscuous {
            let denied = Error::system("promiscuous mode", "CAP_NET_ADMIN");
            join_promiscuous(socket.as_fd(), index).map_err(denied)?;
        }
        if self.threads > 1 {
            packet(libc::PACKET_FANOUT, self.fanout(side))?;
        }
        Ok(socket)
    }

    fn fanout(&self, side: u16) -> u32 {
        let kind = match self.settings.cluster {
            Cluster::Flow => libc::PACKET_FANOUT_HASH,
            Cluster::RoundRobin => libc::PACKET_FANOUT_LB,
            Cluster::Cpu => libc::PACKET_FANOUT_CPU,
            Cluster::Random => libc::PACKET_FANOUT_RND,
            Cluster::Queue => libc::PACKET_FANOUT_QM,
        };
        // A bridge sends on what came: fragments, and not what they are put together to.
        let defrag = self.settings.defrag && !self.is_inline() && kind == 0;
        let flags = if defrag { DEFRAG } else { 0 };
        u32::from(self.settings.cluster_id.wrapping_add(side)) | (kind | flags) << 16
    }

    /// Ports of sockets that [`Plan::open`] made, in this process or an earlier one.
    /// `passes_leftover`: packets that the earlier one took from a queue and said nothing about
    /// pass; else they are dropped.
    ///
    /// # Errors
    ///
    /// If these are other sockets, or the interface is of a kind that is not decoded.
    pub fn ports(
        &self,
        sockets: Vec<OwnedFd>,
        passes_leftover: bool,
    ) -> Result<Vec<Box<dyn Port>>, Error> {
        let mut sockets = sockets.into_iter();
        let mut next = || sockets.next().ok_or(Error::Sockets);
        let mut ports: Vec<Box<dyn Port>> = Vec::new();
        for number in 0..self.ports_len() {
            match &self.inputs {
                Inputs::Capture { interface } => {
                    let socket = next()?;
                    let kind = kind(socket.as_fd(), interface)?;
                    let link = link(kind, interface)?;
                    let port = CapturePort::new(socket, link, kind == LOOPBACK, &self.settings)
                        .map_err(|error| Error::System("a ring for packets".to_owned(), error))?;
                    ports.push(Box::new(port));
                }
                Inputs::Bridge { sides: [one, other] } => {
                    let sockets = [next()?, next()?];
                    let [first, second] = &sockets;
                    let links = [
                        link(kind(first.as_fd(), one)?, one)?,
                        link(kind(second.as_fd(), other)?, other)?,
                    ];
                    if links[0] != links[1] || one == other {
                        return Err(Error::Sides(one.clone(), other.clone()));
                    }
                    ports.push(Box::new(BridgePort::new(sockets, links[0])));
                }
                Inputs::Tunnel { device, config } => {
                    let port = TunnelPort::new(device, [next()?, next()?], config);
                    let port = port.map_err(|e| Error::System("a tunnel".to_owned(), e))?;
                    ports.push(Box::new(port));
                }
                Inputs::Queues { first, .. } => {
                    let number = u16::try_from(number).unwrap_or(u16::MAX);
                    let (queue, raw) = (next()?, [next()?, next()?]);
                    let number = first.saturating_add(number);
                    let settings = &self.settings;
                    let port = QueuePort::new(number, queue, raw, settings, passes_leftover);
                    ports.push(Box::new(port));
                }
            }
        }
        Ok(ports)
    }
}

/// The hardware type of the interface to which a socket is bound.
fn kind(socket: BorrowedFd<'_>, interface: &str) -> Result<u16, Error> {
    match sys::bound_interface(socket) {
        Ok((Some(_), kind)) => Ok(kind),
        Ok((None, _)) => Err(Error::NoInterface(interface.to_owned())),
        Err(error) => Err(Error::System("a packet socket".to_owned(), error)),
    }
}

fn link(kind: u16, interface: &str) -> Result<Link, Error> {
    match kind {
        ETHERNET | LOOPBACK => Ok(Link::Ethernet),
        NONE | PPP => Ok(Link::Raw),
        _ => Err(Error::Kind(interface.to_owned(), kind)),
    }
}

/// `struct packet_mreq` with `PACKET_MR_PROMISC`; it ends with the socket.
fn join_promiscuous(socket: BorrowedFd<'_>, index: u32) -> std::io::Result<()> {
    let mut request = [0; 16];
    request[..4].copy_from_slice(&index.to_ne_bytes());
    request[4..6].copy_from_slice(&(libc::PACKET_MR_PROMISC as u16).to_ne_bytes());
    sys::set_option(socket, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &request)
}

/// Takes sockets that the process that started this one left open for it.
///
/// # Errors
///
/// If one of them is none.
pub fn adopt(numbers: &[RawFd]) -> Result<Vec<OwnedFd>, Error> {
    let mut sockets = Vec::new();
    for (place, number) in numbers.iter().enumerate() {
        if *number <= 2 || numbers.get(..place).is_some_and(|earlier| earlier.contains(number)) {
            return Err(Error::Sockets);
        }
        sockets.push(sys::adopt(*number).map_err(|_| Error::Sockets)?);
    }
    Ok(sockets)
}

/// Lets programs that are started from now on inherit these sockets; their numbers.
///
/// # Errors
///
/// If the system refuses.
pub fn inheritable(sockets: &[OwnedFd]) -> std::io::Result<Vec<RawFd>> {
    for socket in sockets {
        rustix::io::fcntl_setfd(socket, rustix::io::FdFlags::empty())?;
    }
    Ok(sockets.iter().map(AsRawFd::as_raw_fd).collect())
}
