//! Settings of flows: `flow`, `flow-timeouts`, `vlan` in suricata.yaml.

use crate::tcp::{self, Choice, ExceptionPolicy, choice};
use crate::units::{bytes, truth};

use super::state::FlowState;

/// How long a flow without packets is kept, in seconds, by its state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// One direction was seen.
    pub new: u32,
    /// Both directions were seen.
    pub established: u32,
    /// TCP: the session is over.
    pub closed: u32,
    /// Passed by.
    pub bypassed: u32,
}

impl Timeouts {
    const fn new(new: u32, established: u32, closed: u32, bypassed: u32) -> Self {
        Self { new, established, closed, bypassed }
    }

    /// The shortest of them; only sessions of TCP close.
    pub(crate) fn shortest(&self, is_tcp: bool) -> u32 {
        let open = self.new.min(self.established).min(self.bypassed);
        if is_tcp { open.min(self.closed) } else { open }
    }

    pub(crate) fn of(&self, state: FlowState) -> u32 {
        match state {
            FlowState::New => self.new,
            FlowState::Established => self.established,
            FlowState::Closed => self.closed,
            FlowState::Bypassed => self.bypassed,
        }
    }
}

/// Time-outs of a protocol, usual ones and those while memory is short.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProtocolTimeouts {
    /// As a rule.
    pub usual: Timeouts,
    /// In emergency mode.
    pub emergency: Timeouts,
}

/// Settings of flows; `default()` are the stock ones of Suricata 8.
#[derive(Debug, Clone)]
pub struct Settings {
    /// `flow.memcap`: bytes of all flows (their sessions count elsewhere).
    pub bytes_max: u64,
    /// `flow.memcap-policy`.
    pub memory_policy: ExceptionPolicy,
    /// `flow.emergency-recovery`: per cent of memory that must be free to end emergency mode.
    pub emergency_recovery: u8,
    /// From so many flows on, two of them are looked at with every packet, whether their time is
    /// over. Below, a flow times out by its own next packet alone, as Suricata's do in a capture
    /// file, whose packets may come from several clocks, unless memory of streams fills
    /// ([`super::FlowTable::sweep_early`]). 0 for live traffic.
    pub sweep_flows_min: usize,
    /// `vlan.use-for-tracking`.
    pub vlan: bool,
    /// `decoder.recursion-level.use-for-tracking`: packets in tunnels of other depth are of other
    /// flows.
    pub depth: bool,
    /// `flow-timeouts.tcp`.
    pub tcp: ProtocolTimeouts,
    /// `flow-timeouts.udp`.
    pub udp: ProtocolTimeouts,
    /// `flow-timeouts.icmp`.
    pub icmp: ProtocolTimeouts,
    /// `flow-timeouts.default`.
    pub other: ProtocolTimeouts,
    /// `flow.memcap-policy` as it was set, until [`Settings::resolve`] says what it means.
    pub chosen_policy: Option<Choice>,
}

impl Default for Settings {
    fn default() -> Self {
        let usual = ProtocolTimeouts {
            usual: Timeouts::new(30, 300, 0, 100),
            emergency: Timeouts::new(10, 100, 0, 50),
        };
        Self {
            bytes_max: 128 << 20,
            memory_policy: ExceptionPolicy::Ignore,
            emergency_recovery: 30,
            sweep_flows_min: 10_000,
            vlan: true,
            depth: true,
            tcp: ProtocolTimeouts {
                usual: Timeouts::new(60, 600, 60, 100),
                emergency: Timeouts::new(5, 100, 10, 50),
            },
            udp: usual,
            icmp: usual,
            other: usual,
            chosen_policy: None,
        }
    }
}

impl Settings {
    /// Of one of several tables, which share the memory.
    #[must_use]
    pub fn share(mut self, tables: u64) -> Self {
        self.bytes_max = self.bytes_max.div_ceil(tables.max(1));
        self
    }

    /// What holds where the file has no section `flow` and `flow-timeouts`.
    pub fn built_in() -> Self {
        Self {
            bytes_max: 32 << 20,
            tcp: ProtocolTimeouts {
                usual: Timeouts::new(30, 300, 10, 100),
                emergency: Timeouts::new(10, 100, 5, 50),
            },
            ..Self::default()
        }
    }

    /// Sets what suricata.yaml calls so (`flow.memcap`, `flow-timeouts.tcp.new` ...). Whether key
    /// and value were understood. After the last, call [`Settings::resolve`].
    pub fn set(&mut self, key: &str, value: &str) -> bool {
        let value = value.trim();
        if let Some(rest) = key.strip_prefix("flow-timeouts.") {
            return self.set_timeout(rest, value);
        }
        match key {
            "flow.memcap" => put(&mut self.bytes_max, bytes(value)),
            "flow.memcap-policy" => put(&mut self.chosen_policy, choice(value).map(Some)),
            "flow.emergency-recovery" => put(
                &mut self.emergency_recovery,
                value.parse().ok().filter(|percent| (1..=100).contains(percent)),
            ),
            "vlan.use-for-tracking" => put(&mut self.vlan, truth(value)),
            "decoder.recursion-level.use-for-tracking" => put(&mut self.depth, truth(value)),
            _ => false,
        }
    }

    fn set_timeout(&mut self, key: &str, value: &str) -> bool {
        let Some((protocol, state)) = key.split_once('.') else {
            return false;
        };
        let timeouts = match protocol {
            "tcp" => &mut self.tcp,
            "udp" => &mut self.udp,
            "icmp" => &mut self.icmp,
            "default" => &mut self.other,
            _ => return false,
        };
        let (timeouts, state) = match state.strip_prefix("emergency-") {
            Some(state) => (&mut timeouts.emergency, state),
            None => (&mut timeouts.usual, state),
        };
        let place = match state {
            "new" => &mut timeouts.new,
            "established" => &mut timeouts.established,
            "closed" => &mut timeouts.closed,
            "bypassed" => &mut timeouts.bypassed,
            _ => return false,
        };
        put(place, value.parse().ok())
    }

    /// Says what `auto` means for the memory policy, by the streams' settings, which were
    /// resolved before. It has no flow to drop, so it drops the packet.
    pub fn resolve(&mut self, streams: &tcp::Settings) {
        let policy = streams.memory_policy(self.chosen_policy);
        self.memory_policy = match policy {
            ExceptionPolicy::DropFlow => ExceptionPolicy::DropPacket,
            ExceptionPolicy::PassFlow => ExceptionPolicy::PassPacket,
            ExceptionPolicy::Bypass => ExceptionPolicy::Ignore,
            other => other,
        };
    }

    pub(crate) fn timeouts(&self, protocol: u8) -> &ProtocolTimeouts {
        match protocol {
            6 => &self.tcp,
            17 => &self.udp,
            1 => &self.icmp,
            _ => &self.other,
        }
    }
}

fn put<T>(place: &mut T, value: Option<T>) -> bool {
    value.map(|value| *place = value).is_some()
}
