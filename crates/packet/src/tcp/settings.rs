//! Settings of the stream engine, as `stream.*` in suricata.yaml.

use std::net::IpAddr;

use crate::host::{HostPolicies, Os};

/// What to do when the engine cannot do its work (memory is short, a session was picked up in its
/// middle).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ExceptionPolicy {
    /// Go on as well as can be.
    #[default]
    Ignore,
    /// Drop this packet.
    DropPacket,
    /// Drop this packet and what follows in its flow.
    DropFlow,
    /// Reject, and drop what follows.
    Reject,
    /// Reject to both sides, and drop what follows.
    RejectBoth,
    /// Pass this packet uninspected.
    PassPacket,
    /// Pass the flow uninspected.
    PassFlow,
    /// Pass the flow and tell the kernel to do so.
    Bypass,
}

impl ExceptionPolicy {
    /// The policy of a name in suricata.yaml; `auto` depends on what is asked and is not one.
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "ignore" => Self::Ignore,
            "drop-packet" => Self::DropPacket,
            "drop-flow" => Self::DropFlow,
            "reject" => Self::Reject,
            "rejectboth" => Self::RejectBoth,
            "pass-packet" => Self::PassPacket,
            "pass-flow" => Self::PassFlow,
            "bypass" => Self::Bypass,
            _ => return None,
        })
    }
}

/// `stream.reassembly.urgent.policy`: what becomes of a byte that the urgent pointer marks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UrgentPolicy {
    /// It is data like any other.
    Inline,
    /// The packet is dropped (inline only).
    Drop,
    /// It is out of band: not in the stream, and sequence numbers close up.
    OutOfBand,
    /// It is missing in the stream.
    Gap,
}

/// A policy that was set; `auto` is none.
pub type Choice = Option<ExceptionPolicy>;

/// Bytes of a chunk that raw inspection waits for.
pub(crate) const CHUNK_BYTES: u16 = 2_560;
/// By so many per cent, all in all, random sizes differ.
pub(crate) const RANDOM_PERCENT: u16 = 10;

/// Policies and modes as they were set.
#[derive(Debug, Clone, Default)]
pub struct Chosen {
    /// `exception-policy`.
    pub(crate) master: Option<Choice>,
    pub(crate) midstream: Option<Choice>,
    pub(crate) session_memory: Option<Choice>,
    pub(crate) reassembly_memory: Option<Choice>,
    pub(crate) parser_error: Option<Choice>,
    pub(crate) inline: Option<bool>,
    /// Sizes of chunks by direction.
    pub(crate) chunk_bytes: [Option<u16>; 2],
    /// `stream.reassembly.randomize-chunk-size`.
    pub(crate) random_chunks: Option<bool>,
    /// `stream.reassembly.randomize-chunk-range`, in per cent.
    pub(crate) random_percent: Option<u16>,
}

/// Settings; `default()` are the stock ones of Suricata 8 without random chunk sizes.
#[derive(Debug, Clone)]
pub struct Settings {
    /// `stream.inline`: data is inspected before it is acknowledged, overlaps are normalised.
    pub inline: bool,
    /// The engine may drop (IPS mode); `inline` may be set without it.
    pub ips: bool,
    /// `stream.drop-invalid`: inline, invalid packets are dropped.
    pub drop_invalid: bool,
    /// `stream.midstream`: sessions whose beginning was not seen are picked up.
    pub midstream: bool,
    /// `stream.midstream-policy`.
    pub midstream_policy: ExceptionPolicy,
    /// `stream.async-oneside`: only one side of sessions is seen.
    pub async_oneside: bool,
    /// `stream.checksum-validation` (off with `-k none`).
    pub validate_checksums: bool,
    /// `stream.bypass`: flows are passed when both directions reached their depth.
    pub bypass: bool,
    /// `stream.liberal-timestamps`.
    pub liberal_timestamps: bool,
    /// `stream.max-syn-queued`.
    pub syn_queued_max: u8,
    /// `stream.max-synack-queued`.
    pub synack_queued_max: u8,
    /// `stream.memcap`: bytes of all sessions; 0: no limit.
    pub session_bytes_max: u64,
    /// `stream.memcap-policy`.
    pub session_memory_policy: ExceptionPolicy,
    /// `stream.reassembly.memcap`: bytes of all segments; 0: no limit.
    pub reassembly_bytes_max: u64,
    /// `stream.reassembly.memcap-policy`.
    pub reassembly_memory_policy: ExceptionPolicy,
    /// `app-layer.error-policy`: what becomes of a flow whose protocol cannot be parsed.
    pub parser_error_policy: ExceptionPolicy,
    /// `stream.reassembly.depth`: bytes of each direction; 0: no limit.
    pub depth: u32,
    /// `stream.reassembly.toserver-chunk-size`, `toclient-chunk-size`. Where Suricata chooses a
    /// size at random around it, the least of these, as with its option `--no-random`.
    pub chunk_bytes: [u16; 2],
    /// `stream.reassembly.raw`.
    pub raw: bool,
    /// `stream.reassembly.check-overlap-different-data` (always so inline).
    pub check_overlaps: bool,
    /// `stream.reassembly.max-regions`: pieces of a stream far apart; 0: no limit.
    pub regions_max: u16,
    /// `stream.reassembly.urgent.policy`.
    pub urgent: UrgentPolicy,
    /// `stream.reassembly.urgent.oob-limit-policy`.
    pub urgent_limit: UrgentPolicy,
    /// Policies as they were set, until [`Settings::resolve`] says what they mean.
    pub chosen: Chosen,
    /// `host-os-policy`.
    pub hosts: HostPolicies,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            inline: false,
            ips: false,
            drop_invalid: true,
            midstream: false,
            midstream_policy: ExceptionPolicy::Ignore,
            async_oneside: false,
            validate_checksums: true,
            bypass: false,
            liberal_timestamps: true,
            syn_queued_max: 10,
            synack_queued_max: 5,
            session_bytes_max: 64 << 20,
            session_memory_policy: ExceptionPolicy::Ignore,
            reassembly_bytes_max: 256 << 20,
            reassembly_memory_policy: ExceptionPolicy::Ignore,
            parser_error_policy: ExceptionPolicy::Ignore,
            depth: 1 << 20,
            chunk_bytes: [CHUNK_BYTES; 2],
            raw: true,
            check_overlaps: false,
            regions_max: 8,
            urgent: UrgentPolicy::OutOfBand,
            urgent_limit: UrgentPolicy::Drop,
            chosen: Chosen::default(),
            hosts: HostPolicies::default(),
        }
    }
}

impl Settings {
    /// The system at an address, for segments; BSD where nothing is said.
    pub(crate) fn os_of(&self, address: IpAddr) -> Os {
        match self.hosts.get(address) {
            None | Some(Os::BsdRight) => Os::Bsd,
            Some(Os::OldSolaris) => Os::Solaris,
            Some(os) => os,
        }
    }
}
