//! What this machine is, as far as defaults depend on it.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};

use gauntlet_gateway::config::NodeSettings;
use gauntlet_gateway::privileges::{self, Account};

/// User of the node where a package or an administrator made it.
const USER: &str = "gauntlet";
/// Units of systemd that start the node.
const UNITS: [&str; 3] = [
    "/etc/systemd/system/gauntlet.service",
    "/lib/systemd/system/gauntlet.service",
    "/usr/lib/systemd/system/gauntlet.service",
];
/// Addresses of root servers of the DNS: the way to them is the way to the internet. A datagram's
/// socket that is connected sends nothing.
const INTERNET: [&str; 2] = ["198.41.0.4:53", "[2001:503:ba3e::2:30]:53"];

/// Facts of the machine.
#[derive(Debug, Clone, Default)]
pub(super) struct Host {
    /// Its name, if that is a full one.
    pub(super) name: Option<String>,
    /// Addresses that it reaches the internet from, one a family.
    pub(super) addresses: Vec<IpAddr>,
    /// Root asks.
    pub(super) is_root: bool,
    /// The user that a node becomes by default, if there is one.
    pub(super) user: Option<String>,
    /// Program that changes the settings of Postfix.
    pub(super) postconf: Option<PathBuf>,
    /// Systemd starts the node.
    pub(super) has_unit: bool,
    /// The current folder.
    pub(super) here: PathBuf,
}

impl Host {
    /// Looks at this machine. Sends nothing.
    pub(super) fn look() -> Self {
        let is_root = privileges::is_root();
        let name = NodeSettings::default().host_name();
        let user = (is_root && Account::find(USER).is_ok()).then(|| USER.to_owned());
        Host {
            name: Some(name.to_ascii_lowercase()).filter(|name| name.contains('.')),
            addresses: INTERNET.iter().filter_map(|there| own_address(there)).collect(),
            is_root,
            user,
            postconf: program("postconf"),
            has_unit: UNITS.iter().any(|unit| Path::new(unit).exists()),
            here: std::env::current_dir().unwrap_or_default(),
        }
    }

    /// It reaches the internet by IPv6.
    pub(super) fn has_ipv6(&self) -> bool {
        self.addresses.iter().any(IpAddr::is_ipv6)
    }
}

/// The address that this machine would send from.
fn own_address(there: &str) -> Option<IpAddr> {
    let there: SocketAddr = there.parse().ok()?;
    let any = if there.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let socket = UdpSocket::bind(any).ok()?;
    socket.connect(there).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

/// A program of the machine; administrators' ones are often not in the path of others.
fn program(name: &str) -> Option<PathBuf> {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&paths).chain(["/usr/sbin".into(), "/sbin".into()]);
    folders.map(|folder: PathBuf| folder.join(name)).find(|path| path.is_file())
}
