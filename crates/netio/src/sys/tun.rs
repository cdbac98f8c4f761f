//! A TUN device (`Documentation/networking/tuntap.rst`): packets of IP that the machine sends into
//! it, and others that come out of it.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use super::check;

/// Length of `struct ifreq` and of the name that it begins with.
const REQUEST_LEN: usize = 40;
const NAME_LEN: usize = 16;
/// `TUNSETIFF`; `IFF_TUN`, `IFF_NO_PI`.
const SET_DEVICE: libc::c_ulong = 0x4004_54ca;
const TUN: u16 = 0x0001;
const NO_INFORMATION: u16 = 0x1000;
/// `SIOCGIFFLAGS` and others of `linux/sockios.h`.
const GET_FLAGS: libc::c_ulong = 0x8913;
const SET_FLAGS: libc::c_ulong = 0x8914;
const SET_ADDRESS: libc::c_ulong = 0x8916;
const SET_MASK: libc::c_ulong = 0x891c;
const SET_MTU: libc::c_ulong = 0x8922;
/// `IFF_UP`.
const UP: u16 = 1;

type Request = [u8; REQUEST_LEN];

/// A request about an interface, with this behind its name.
fn request(name: &str, value: &[u8]) -> io::Result<Request> {
    let mut bytes = [0; REQUEST_LEN];
    // The name ends in NUL.
    if name.is_empty() || name.len() >= NAME_LEN || value.len() > REQUEST_LEN - NAME_LEN {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    bytes[..name.len()].copy_from_slice(name.as_bytes());
    bytes[NAME_LEN..NAME_LEN + value.len()].copy_from_slice(value);
    Ok(bytes)
}

fn control(
    descriptor: BorrowedFd<'_>,
    number: libc::c_ulong,
    request: &mut Request,
) -> io::Result<()> {
    let place = request.as_mut_ptr();
    // SAFETY: all requests of this module take a `struct ifreq` or a shorter structure, and the
    // bytes are as long as that and live through the call.
    check(unsafe { libc::ioctl(descriptor.as_raw_fd(), number as _, place) })?;
    Ok(())
}

/// Makes a device of this name, which is there as long as the descriptor is open somewhere.
pub(crate) fn open(name: &str) -> io::Result<OwnedFd> {
    let flags =
        rustix::fs::OFlags::RDWR | rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::CLOEXEC;
    let device = rustix::fs::open("/dev/net/tun", flags, rustix::fs::Mode::empty())?;
    let mut wanted = request(name, &(TUN | NO_INFORMATION).to_ne_bytes())?;
    control(device.as_fd(), SET_DEVICE, &mut wanted)?;
    Ok(device)
}

/// Gives a device its addresses and MTU, and takes it up.
pub(crate) fn configure(
    name: &str,
    index: u32,
    addresses: &[(IpAddr, u8)],
    mtu: u16,
) -> io::Result<()> {
    let v4 = super::socket(libc::AF_INET, libc::SOCK_DGRAM, 0)?;
    control(v4.as_fd(), SET_MTU, &mut request(name, &u32::from(mtu).to_ne_bytes())?)?;
    let mut count = 0;
    for (address, bits) in addresses {
        match address {
            IpAddr::V4(address) => {
                // A second address has a name of its own.
                let alias = if count == 0 { name.to_owned() } else { format!("{name}:{count}") };
                count += 1;
                let of = |octets: [u8; 4]| request(&alias, &socket_address(octets));
                control(v4.as_fd(), SET_ADDRESS, &mut of(address.octets())?)?;
                let mask = u32::MAX.checked_shl(32 - u32::from(*bits)).unwrap_or(0);
                control(v4.as_fd(), SET_MASK, &mut of(mask.to_be_bytes())?)?;
            }
            IpAddr::V6(address) => {
                // `struct in6_ifreq`.
                let v6 = super::socket(libc::AF_INET6, libc::SOCK_DGRAM, 0)?;
                let mut wanted: Request = [0; REQUEST_LEN];
                wanted[..16].copy_from_slice(&address.octets());
                wanted[16..20].copy_from_slice(&u32::from(*bits).to_ne_bytes());
                wanted[20..24].copy_from_slice(&index.to_ne_bytes());
                control(v6.as_fd(), SET_ADDRESS, &mut wanted)?;
            }
        }
    }
    let mut flags = request(name, &[])?;
    control(v4.as_fd(), GET_FLAGS, &mut flags)?;
    let set = u16::from_ne_bytes([flags[NAME_LEN], flags[NAME_LEN + 1]]) | UP;
    control(v4.as_fd(), SET_FLAGS, &mut request(name, &set.to_ne_bytes())?)
}

/// `struct sockaddr_in` without a port.
fn socket_address(octets: [u8; 4]) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
    bytes[4..8].copy_from_slice(&octets);
    bytes
}
