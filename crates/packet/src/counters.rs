//! Counters of decoding and defragmentation, with the names of Suricata's statistics.

use crate::event;

macro_rules! counters {
    ($($name:ident = $text:literal,)*) => {
        /// A counter.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[allow(missing_docs, reason = "their texts say it")]
        pub enum Counter {
            $($name,)*
        }

        const NAMES: &[&str] = &[$($text,)*];
    };
}

counters! {
    Pkts = "decoder.pkts",
    Bytes = "decoder.bytes",
    Invalid = "decoder.invalid",
    Ipv4 = "decoder.ipv4",
    Ipv6 = "decoder.ipv6",
    Ethernet = "decoder.ethernet",
    Arp = "decoder.arp",
    UnknownEthertype = "decoder.unknown_ethertype",
    Chdlc = "decoder.chdlc",
    Raw = "decoder.raw",
    Null = "decoder.null",
    Sll = "decoder.sll",
    Sll2 = "decoder.sll2",
    Tcp = "decoder.tcp",
    TcpSyn = "tcp.syn",
    TcpSynack = "tcp.synack",
    TcpRst = "tcp.rst",
    TcpUrg = "tcp.urg",
    Udp = "decoder.udp",
    Sctp = "decoder.sctp",
    Esp = "decoder.esp",
    Icmpv4 = "decoder.icmpv4",
    Icmpv6 = "decoder.icmpv6",
    Ppp = "decoder.ppp",
    Pppoe = "decoder.pppoe",
    Geneve = "decoder.geneve",
    Gre = "decoder.gre",
    Vlan = "decoder.vlan",
    VlanQinq = "decoder.vlan_qinq",
    VlanQinqinq = "decoder.vlan_qinqinq",
    Vxlan = "decoder.vxlan",
    Vntag = "decoder.vntag",
    Ieee8021ah = "decoder.ieee8021ah",
    Teredo = "decoder.teredo",
    Ipv4InIpv4 = "decoder.ipv4_in_ipv4",
    Ipv6InIpv4 = "decoder.ipv6_in_ipv4",
    Ipv4InIpv6 = "decoder.ipv4_in_ipv6",
    Ipv6InIpv6 = "decoder.ipv6_in_ipv6",
    Mpls = "decoder.mpls",
    Erspan = "decoder.erspan",
    Nsh = "decoder.nsh",
    DefragIpv4Fragments = "defrag.ipv4.fragments",
    DefragIpv4Reassembled = "defrag.ipv4.reassembled",
    DefragIpv6Fragments = "defrag.ipv6.fragments",
    DefragIpv6Reassembled = "defrag.ipv6.reassembled",
    DefragMaxTrackersReached = "defrag.max_trackers_reached",
    DefragMaxFragsReached = "defrag.max_frags_reached",
    DefragTrackerSoftReuse = "defrag.tracker_soft_reuse",
    DefragTrackerTimeout = "defrag.wrk.tracker_timeout",
    TooLong = "decoder.too_long",
}

const COUNTERS: usize = NAMES.len();
const EVENTS: usize = event::DECODE_LAST as usize + 1;

/// All counters of a decoder.
#[derive(Debug, Clone)]
pub struct Counters {
    values: [u64; COUNTERS],
    events: [u64; EVENTS],
}

impl Default for Counters {
    fn default() -> Self {
        Self { values: [0; COUNTERS], events: [0; EVENTS] }
    }
}

impl Counters {
    pub(crate) fn add(&mut self, counter: Counter) {
        self.add_many(counter, 1);
    }

    pub(crate) fn add_many(&mut self, counter: Counter, count: u64) {
        if let Some(value) = self.values.get_mut(counter as usize) {
            *value = value.saturating_add(count);
        }
    }

    pub(crate) fn event(&mut self, number: u16) {
        if let Some(value) = self.events.get_mut(usize::from(number)) {
            *value = value.saturating_add(1);
        }
    }

    /// One counter.
    pub fn get(&self, counter: Counter) -> u64 {
        self.values.get(counter as usize).copied().unwrap_or_default()
    }

    /// All that are not 0, by the names of Suricata's statistics; events as
    /// `decoder.event.ipv4.trunc_pkt`.
    pub fn iter(&self) -> impl Iterator<Item = (String, u64)> {
        let values = NAMES.iter().zip(self.values).map(|(name, value)| ((*name).to_owned(), value));
        let events = event::NAMES.iter().zip(self.events).map(|(name, value)| {
            let short = name.strip_prefix("decoder.").unwrap_or(name);
            (format!("decoder.event.{short}"), value)
        });
        values.chain(events).filter(|(_, value)| *value > 0)
    }
}
