//! Settings of decoding and defragmentation; the defaults are those of Suricata's stock file.

use std::net::IpAddr;

use crate::host::{HostPolicies, Network};
use crate::units::{bytes, truth};

/// Ports of tunnels over UDP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TunnelPorts {
    /// The tunnel is not decoded.
    Off,
    /// It may be on any port.
    Any,
    /// On these.
    Ports(Vec<u16>),
}

/// How many ports of one kind of tunnel count; Suricata, too, takes four.
const TUNNEL_PORTS_MAX: usize = 4;

impl TunnelPorts {
    fn parse(text: &str) -> Option<Self> {
        let text = text.trim().trim_matches(['[', ']']);
        if text == "any" {
            return Some(TunnelPorts::Any);
        }
        let ports: Result<Vec<u16>, _> = text.split(',').map(|port| port.trim().parse()).collect();
        let mut ports = ports.ok()?;
        ports.truncate(TUNNEL_PORTS_MAX);
        Some(TunnelPorts::Ports(ports))
    }

    pub(crate) fn has(&self, port: u16) -> bool {
        match self {
            TunnelPorts::Off => false,
            TunnelPorts::Any => true,
            TunnelPorts::Ports(ports) => ports.contains(&port),
        }
    }
}

/// Whether checksums are looked at (`-k`, `pcap-file.checksum-checks`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Checksums {
    /// Those of captured packets count as right. Packets in tunnels and reassembled ones are
    /// checked nevertheless.
    None,
    /// If more than a tenth of the first 1,000 packets are TCP with a wrong one, the capturing
    /// machine seems to leave them to its network card, and they count as right from there on.
    #[default]
    Auto,
    /// All are checked.
    All,
}

/// Settings of defragmentation (`defrag`).
#[derive(Debug, Clone)]
pub struct DefragSettings {
    /// Bytes that waiting fragments may hold, before the oldest datagrams are given up.
    pub memory_bytes_max: usize,
    /// Datagrams that may wait for fragments.
    pub trackers_max: usize,
    /// Fragments that may wait.
    pub fragments_max: usize,
    /// Seconds after its last fragment when a datagram is given up.
    pub timeout_seconds: u32,
    /// Other times by the network of the destination (`defrag.host-config`).
    pub host_timeouts: Vec<HostTimeout>,
}

/// A time-out of packets to some networks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostTimeout {
    /// What the configuration calls them.
    pub name: String,
    /// Seconds after the last fragment.
    pub seconds: u32,
    /// The networks.
    pub networks: Vec<Network>,
}

impl DefragSettings {
    /// How long fragments to a host wait: the longest prefix decides.
    pub(crate) fn timeout_of(&self, host: IpAddr) -> u32 {
        let known = self.host_timeouts.iter().flat_map(|timeout| {
            timeout.networks.iter().map(move |network| (network, timeout.seconds))
        });
        known
            .filter(|(network, _)| network.contains(host))
            .max_by_key(|(network, _)| network.prefix())
            .map_or(self.timeout_seconds, |(_, seconds)| seconds)
    }

    /// Sets `defrag.host-config.NAME.timeout` or `.address.N`, of which there may be several.
    fn set_host(&mut self, key: &str, value: &str) -> bool {
        if let Some(name) = key.strip_suffix(".timeout") {
            let Some(seconds) = seconds(value) else { return false };
            return self.host(name).map(|host| host.seconds = seconds).is_some();
        }
        let Some((name, _)) = key.rsplit_once(".address") else { return false };
        let networks = value.trim_matches(['[', ']']).split(',').map(Network::parse);
        let Some(networks) = networks.collect::<Option<Vec<_>>>() else { return false };
        self.host(name).map(|host| host.networks.extend(networks)).is_some()
    }

    /// The time-out of that name, which is made if there is none.
    fn host(&mut self, name: &str) -> Option<&mut HostTimeout> {
        let known = self.host_timeouts.iter().position(|timeout| timeout.name == name);
        let at = known.unwrap_or(self.host_timeouts.len());
        if known.is_none() {
            let seconds = self.timeout_seconds;
            let networks = Vec::new();
            self.host_timeouts.push(HostTimeout { name: name.to_owned(), seconds, networks });
        }
        self.host_timeouts.get_mut(at)
    }
}

/// A time-out, as Suricata allows it: a second to a day.
fn seconds(value: &str) -> Option<u32> {
    value.parse().ok().filter(|seconds| (1..=86_400).contains(seconds))
}

impl Default for DefragSettings {
    fn default() -> Self {
        Self {
            memory_bytes_max: 32 << 20,
            trackers_max: 65_535,
            fragments_max: 65_535,
            timeout_seconds: 60,
            host_timeouts: Vec::new(),
        }
    }
}

/// All settings of this crate's decoder.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Layers of one packet, tunnels included (`decoder.max-layers`).
    pub layers_max: u8,
    /// Ports of Teredo, source or destination.
    pub teredo: TunnelPorts,
    /// Destination ports of VXLAN.
    pub vxlan: TunnelPorts,
    /// Ports of Geneve, source or destination.
    pub geneve: TunnelPorts,
    /// Whether checksums are looked at.
    pub checksums: Checksums,
    /// Defragmentation.
    pub defrag: DefragSettings,
    /// Operating systems by destination, which decide about overlapping fragments.
    pub hosts: HostPolicies,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            layers_max: 16,
            teredo: TunnelPorts::Ports(vec![3544]),
            vxlan: TunnelPorts::Ports(vec![4789]),
            geneve: TunnelPorts::Ports(vec![6081]),
            checksums: Checksums::default(),
            defrag: DefragSettings::default(),
            hosts: HostPolicies::default(),
        }
    }
}

impl Settings {
    /// What holds where a configuration lacks the sections `decoder`, `defrag` and
    /// `host-os-policy`: Suricata's built-in values.
    pub fn built_in() -> Self {
        let defrag = DefragSettings { memory_bytes_max: 16 << 20, ..DefragSettings::default() };
        Self { teredo: TunnelPorts::Any, defrag, hosts: HostPolicies::none(), ..Self::default() }
    }

    /// Of one of several decoders, which share the memory.
    #[must_use]
    pub fn share(mut self, decoders: usize) -> Self {
        let defrag = &mut self.defrag;
        for most in
            [&mut defrag.memory_bytes_max, &mut defrag.trackers_max, &mut defrag.fragments_max]
        {
            *most = most.div_ceil(decoders.max(1));
        }
        self
    }

    /// Sets what `suricata.yaml` calls so (`defrag.timeout`, `host-os-policy.linux.0`, ...);
    /// variables among ports are resolved by the caller. Whether key and value were understood.
    pub fn set(&mut self, key: &str, value: &str) -> bool {
        let value = value.trim();
        if let Some(rest) = key.strip_prefix("host-os-policy.") {
            return self.hosts.set(rest, value);
        }
        if let Some(rest) = key.strip_prefix("defrag.host-config.") {
            return self.defrag.set_host(rest, value);
        }
        match key {
            "decoder.max-layers" => put(&mut self.layers_max, value.parse().ok()),
            "decoder.teredo.enabled" => enable(&mut self.teredo, value, TunnelPorts::Any),
            "decoder.teredo.ports" => ports(&mut self.teredo, value),
            "decoder.vxlan.enabled" => {
                enable(&mut self.vxlan, value, TunnelPorts::Ports(vec![4789]))
            }
            "decoder.vxlan.ports" => ports(&mut self.vxlan, value),
            "decoder.geneve.enabled" => {
                enable(&mut self.geneve, value, TunnelPorts::Ports(vec![6081]))
            }
            "decoder.geneve.ports" => ports(&mut self.geneve, value),
            "pcap-file.checksum-checks" => put(
                &mut self.checksums,
                match value {
                    "auto" => Some(Checksums::Auto),
                    other => truth(other).map(|yes| match yes {
                        true => Checksums::All,
                        false => Checksums::None,
                    }),
                },
            ),
            "defrag.memcap" => put(
                &mut self.defrag.memory_bytes_max,
                bytes(value).and_then(|bytes| usize::try_from(bytes).ok()),
            ),
            "defrag.trackers" => put(&mut self.defrag.trackers_max, count(value)),
            "defrag.max-frags" => put(&mut self.defrag.fragments_max, count(value)),
            "defrag.timeout" => put(&mut self.defrag.timeout_seconds, seconds(value)),
            _ => false,
        }
    }
}

fn put<T>(place: &mut T, value: Option<T>) -> bool {
    value.map(|value| *place = value).is_some()
}

fn enable(place: &mut TunnelPorts, value: &str, otherwise: TunnelPorts) -> bool {
    match truth(value) {
        Some(false) => *place = TunnelPorts::Off,
        Some(true) if *place == TunnelPorts::Off => *place = otherwise,
        Some(true) => {}
        None => return false,
    }
    true
}

fn ports(place: &mut TunnelPorts, value: &str) -> bool {
    match TunnelPorts::parse(value) {
        // Ports do not switch on what is off.
        Some(_) if *place == TunnelPorts::Off => true,
        parsed => put(place, parsed),
    }
}

fn count(value: &str) -> Option<usize> {
    value.parse().ok().filter(|count| *count > 0)
}
