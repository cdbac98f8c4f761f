//! The file of a tunnel, in the format of wg(8) and wg-quick(8).

use std::net::{IpAddr, SocketAddr};

use boringtun::x25519::{PublicKey, StaticSecret};
use gauntlet_mail::Network;

/// Longest file, in bytes.
pub const FILE_BYTES_MAX: usize = 1 << 20;
/// Most peers.
pub const PEERS_MAX: usize = 256;
/// Most networks of all peers.
pub const NETWORKS_MAX: usize = 4_096;
/// Length of keys, in bytes.
const KEY_LEN: usize = 32;
/// Port that is listened at unless the file says otherwise (that of the documentation of wg).
const PORT: u16 = 51_820;
/// Longest packet that goes into the tunnel, unless the file says otherwise (wg-quick's, for paths
/// of 1,500 bytes).
const MTU: u16 = 1_420;
/// Least MTU of IPv6 (RFC 8200 section 5).
const MTU_MIN: u16 = 1_280;
/// What is around a packet: IPv6, UDP, and WireGuard's header and tag.
const OVERHEAD: u16 = 80;

/// What wg-quick does and nothing here does.
const FOREIGN: [&str; 9] =
    ["dns", "table", "preup", "postup", "predown", "postdown", "saveconfig", "fwmark", "name"];

/// Why a file cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct ConfigError {
    /// The line, from 1; of what is missing the last one.
    pub line: usize,
    /// What is wrong, and what to write. Never a key.
    pub message: String,
}

/// A tunnel and its peers.
#[derive(Clone)]
pub struct Config {
    pub(crate) private: StaticSecret,
    /// UDP port.
    pub port: u16,
    /// Addresses of the device, with the length of their networks' prefix.
    pub addresses: Vec<(IpAddr, u8)>,
    /// Longest packet, in bytes.
    pub mtu: u16,
    /// The peers.
    pub peers: Vec<PeerConfig>,
}

/// A peer.
#[derive(Clone, PartialEq, Eq)]
pub struct PeerConfig {
    pub(crate) public: PublicKey,
    pub(crate) shared: Option<[u8; KEY_LEN]>,
    /// Networks whose packets are this peer's.
    pub allowed: Vec<Network>,
    /// Where it is at first; else where it comes from.
    pub endpoint: Option<SocketAddr>,
    /// Seconds between packets that keep the way open.
    pub keepalive: Option<u16>,
}

impl PartialEq for Config {
    fn eq(&self, other: &Self) -> bool {
        let of = |it: &Self| (it.public_key(), it.port, it.addresses.clone(), it.mtu);
        of(self) == of(other) && self.peers == other.peers
    }
}

impl Eq for Config {}

/// Without keys.
impl std::fmt::Debug for Config {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { port, addresses, mtu, peers, .. } = self;
        let mut shown = f.debug_struct("Config");
        shown.field("port", port).field("addresses", addresses).field("mtu", mtu);
        shown.field("peers", peers).finish_non_exhaustive()
    }
}

/// Without keys.
impl std::fmt::Debug for PeerConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { allowed, endpoint, keepalive, .. } = self;
        let mut shown = f.debug_struct("PeerConfig");
        shown.field("allowed", allowed).field("endpoint", endpoint);
        shown.field("keepalive", keepalive).finish_non_exhaustive()
    }
}

/// What of a file was read so far.
#[derive(Default)]
struct Draft {
    private: Option<StaticSecret>,
    port: Option<u16>,
    addresses: Vec<(IpAddr, u8)>,
    mtu: Option<u16>,
    peers: Vec<PeerDraft>,
    networks: usize,
}

#[derive(Default)]
struct PeerDraft {
    line: usize,
    public: Option<PublicKey>,
    shared: Option<[u8; KEY_LEN]>,
    allowed: Vec<Network>,
    endpoint: Option<SocketAddr>,
    keepalive: Option<u16>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Section {
    None,
    Interface,
    Peer,
}

impl Config {
    /// Reads a file. Names of hosts in `Endpoint` are handed to `resolve`.
    ///
    /// # Errors
    /// What is wrong, and in which line.
    pub fn read(
        text: &str,
        resolve: &dyn Fn(&str) -> Option<SocketAddr>,
    ) -> Result<Self, ConfigError> {
        let error = |line, message: String| ConfigError { line, message };
        if text.len() > FILE_BYTES_MAX {
            return Err(error(1, format!("the file has more than {FILE_BYTES_MAX} bytes")));
        }
        let (mut draft, mut section) = (Draft::default(), Section::None);
        let mut last = 1;
        for (number, line) in (1..).zip(text.lines()) {
            last = number;
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            if let Some(name) = line.strip_prefix('[') {
                section = match name.to_ascii_lowercase().as_str() {
                    "interface]" => Section::Interface,
                    "peer]" if draft.peers.len() >= PEERS_MAX => {
                        return Err(error(number, format!("more than {PEERS_MAX} peers")));
                    }
                    "peer]" => {
                        draft.peers.push(PeerDraft { line: number, ..PeerDraft::default() });
                        Section::Peer
                    }
                    _ => return Err(error(number, "write [Interface] or [Peer]".to_owned())),
                };
                continue;
            }
            let Some((key, value)) = line.split_once('=') else {
                return Err(error(number, "write KEY = VALUE".to_owned()));
            };
            let key = key.trim().to_ascii_lowercase();
            draft.set(section, &key, value.trim(), resolve).map_err(|text| error(number, text))?;
        }
        draft.finish(last)
    }

    /// The public key that peers know this end by, in base64.
    pub fn public_key(&self) -> String {
        base64_simd::STANDARD.encode_to_string(PublicKey::from(&self.private).as_bytes())
    }
}

impl Draft {
    fn set(
        &mut self,
        section: Section,
        key: &str,
        value: &str,
        resolve: &dyn Fn(&str) -> Option<SocketAddr>,
    ) -> Result<(), String> {
        match section {
            Section::None => Err("comes before [Interface] and [Peer]".to_owned()),
            Section::Interface => self.set_interface(key, value),
            Section::Peer => {
                let count = &mut self.networks;
                let Some(peer) = self.peers.last_mut() else { return Ok(()) };
                peer.set(key, value, resolve, count)
            }
        }
    }

    fn set_interface(&mut self, key: &str, value: &str) -> Result<(), String> {
        match key {
            "privatekey" => self.private = Some(StaticSecret::from(key_of(value)?)),
            "listenport" => self.port = Some(port(value)?),
            "mtu" => {
                let mtu = value.parse().ok();
                let mtu = mtu.filter(|mtu| (MTU_MIN..=u16::MAX - OVERHEAD).contains(mtu));
                let most = u16::MAX - OVERHEAD;
                self.mtu = Some(mtu.ok_or(format!("MTU is {MTU_MIN} to {most}"))?);
            }
            "address" => {
                for text in list(value) {
                    self.addresses.push(address(text)?);
                }
            }
            foreign if FOREIGN.contains(&foreign) => {
                return Err(format!(
                    "{foreign} is wg-quick's: no commands are run and no routes are made here; \
                     remove the line, and add routes by `ip route add NETWORK dev DEVICE`"
                ));
            }
            other => return Err(format!("[Interface] has no {other:?}")),
        }
        Ok(())
    }

    fn finish(self, last: usize) -> Result<Config, ConfigError> {
        let missing = |line, what: &str| ConfigError { line, message: what.to_owned() };
        let Some(private) = self.private else {
            return Err(missing(last, "[Interface] has no PrivateKey; `wg genkey` makes one"));
        };
        let own = PublicKey::from(&private);
        let mut peers: Vec<PeerConfig> = Vec::with_capacity(self.peers.len());
        for peer in self.peers {
            let Some(public) = peer.public else {
                return Err(missing(peer.line, "the peer has no PublicKey"));
            };
            if public == own {
                return Err(missing(peer.line, "the peer's PublicKey is that of this end"));
            }
            if peers.iter().any(|earlier| earlier.public == public) {
                return Err(missing(peer.line, "another peer has this PublicKey"));
            }
            let PeerDraft { shared, allowed, endpoint, keepalive, .. } = peer;
            peers.push(PeerConfig { public, shared, allowed, endpoint, keepalive });
        }
        if peers.is_empty() {
            return Err(missing(last, "there is no [Peer]"));
        }
        Ok(Config {
            private,
            port: self.port.unwrap_or(PORT),
            addresses: self.addresses,
            mtu: self.mtu.unwrap_or(MTU),
            peers,
        })
    }
}

impl PeerDraft {
    fn set(
        &mut self,
        key: &str,
        value: &str,
        resolve: &dyn Fn(&str) -> Option<SocketAddr>,
        count: &mut usize,
    ) -> Result<(), String> {
        match key {
            "publickey" => self.public = Some(PublicKey::from(key_of(value)?)),
            "presharedkey" => self.shared = Some(key_of(value)?),
            "allowedips" => {
                for text in list(value) {
                    *count += 1;
                    if *count > NETWORKS_MAX {
                        return Err(format!("more than {NETWORKS_MAX} networks in AllowedIPs"));
                    }
                    self.allowed.push(text.parse()?);
                }
            }
            "endpoint" => {
                let found = value.parse().ok().or_else(|| resolve(value));
                let wrong =
                    || format!("{value:?} is no address with a port; write e.g. 192.0.2.1:51820");
                self.endpoint = Some(found.ok_or_else(wrong)?);
            }
            "persistentkeepalive" => {
                let seconds = if value == "off" { Some(0) } else { value.parse::<u16>().ok() };
                let seconds = seconds.ok_or("PersistentKeepalive is off or 1 to 65535 seconds")?;
                self.keepalive = Some(seconds).filter(|seconds| *seconds > 0);
            }
            other => return Err(format!("[Peer] has no {other:?}")),
        }
        Ok(())
    }
}

/// Parts of a list with commas.
fn list(value: &str) -> impl Iterator<Item = &str> {
    value.split(',').map(str::trim).filter(|part| !part.is_empty())
}

/// A key; errors do not say which.
fn key_of(value: &str) -> Result<[u8; KEY_LEN], String> {
    let decoded = base64_simd::STANDARD.decode_to_vec(value).ok();
    let key = decoded.and_then(|bytes| <[u8; KEY_LEN]>::try_from(bytes).ok());
    key.ok_or_else(|| "the key is not 32 bytes in base64 (`wg genkey`)".to_owned())
}

fn port(value: &str) -> Result<u16, String> {
    let port = value.parse().ok().filter(|port| *port > 0);
    port.ok_or_else(|| "ListenPort is 1 to 65535".to_owned())
}

/// `10.0.0.1/24`, or an address alone.
fn address(text: &str) -> Result<(IpAddr, u8), String> {
    let wrong = || format!("{text:?} is no address; write e.g. 10.0.0.1/24");
    let (address, bits) = text.split_once('/').unwrap_or((text, ""));
    let address: IpAddr = address.parse().map_err(|_| wrong())?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    let bits = match bits {
        "" => most,
        bits => bits.parse().ok().filter(|bits| *bits <= most).ok_or_else(wrong)?,
    };
    Ok((address, bits))
}
