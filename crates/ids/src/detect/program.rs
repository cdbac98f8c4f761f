//! Rules made ready for detection.

use std::collections::BTreeMap;
use std::net::IpAddr;

use gauntlet_packet::Direction;
use gauntlet_protocols::{Buffer, Kind, Protocol};

pub(crate) use super::compiled::{
    Compiled, Engine, FILES_BIT, FIRST_BIT, Look, Needs, PacketBuffer,
};
use super::groups::{Groups, Parts};
use crate::inspect::prefilter::Matcher;
use crate::rule::address::AddressSet;
use crate::rule::matches::{Match, Threshold, Track};
use crate::rule::port::PortSet;
use crate::rule::{BufferKey, Rule, RuleKind, RuleSet};

/// The stream event of two segments that say different things of the same bytes.
const OVERLAP_EVENT: &str = "reassembly_overlap_different_data";

/// Settings of detection.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Alerts of one packet that are kept (`packet-alert-max`).
    pub packet_alert_max: usize,
    /// Drops are carried out (inline, or simulated).
    pub inline: bool,
    /// Alerts of packet and stream rules name the transaction if there is only one it can be
    /// (`detect.guess-applayer-tx`).
    pub guess_transaction: bool,
    /// So many alerts of one transaction are given its name in this way
    /// (`detect.stream-tx-log-limit`).
    pub guess_max: u32,
}

/// The most that `packet-alert-max` may be.
const PACKET_ALERT_MAX: usize = 255;

impl Default for Settings {
    fn default() -> Self {
        Self { packet_alert_max: 15, inline: false, guess_transaction: false, guess_max: 4 }
    }
}

impl Settings {
    /// Sets what suricata.yaml calls so. Whether key and value were understood.
    pub fn set(&mut self, key: &str, value: &str) -> bool {
        let value = value.trim();
        match key {
            "packet-alert-max" => put(
                &mut self.packet_alert_max,
                value.parse().ok().filter(|max| (1..=PACKET_ALERT_MAX).contains(max)),
            ),
            "detect.guess-applayer-tx" => {
                put(&mut self.guess_transaction, Some(matches!(value, "yes" | "true" | "on" | "1")))
            }
            "detect.stream-tx-log-limit" => put(&mut self.guess_max, value.parse().ok()),
            _ => false,
        }
    }
}

fn put<T>(place: &mut T, value: Option<T>) -> bool {
    value.map(|value| *place = value).is_some()
}

/// `suppress` of threshold.config.
#[derive(Debug, Clone)]
pub struct Suppress {
    /// Whose address decides.
    pub track: Track,
    /// Addresses; all if none are named.
    pub addresses: Option<AddressSet>,
}

impl Suppress {
    pub(crate) fn covers(&self, source: Option<IpAddr>, destination: Option<IpAddr>) -> bool {
        let Some(addresses) = &self.addresses else { return true };
        let has = |address: Option<IpAddr>| address.is_some_and(|a| addresses.contains(a));
        match self.track {
            Track::Source => has(source),
            Track::Destination => has(destination),
            Track::Either => has(source) || has(destination),
            _ => true,
        }
    }
}

/// Limits of a rule, its own and those of threshold.config.
#[derive(Debug, Clone, Default)]
pub struct Limits {
    /// No alerts for these addresses.
    pub suppress: Vec<Suppress>,
    /// Counted in this order.
    pub thresholds: Vec<Threshold>,
}

/// Buffers with data of files.
const FILE_DATA: [&str; 3] = ["file.data", "http.request_body", "http.response_body"];

/// Rules made ready for detection; shared by all threads.
pub struct Program {
    /// The rules, in the order of their evaluation.
    pub rules: RuleSet,
    /// Settings.
    pub settings: Settings,
    /// How often rules were read anew before it; what is kept by numbers of rules holds for one.
    pub generation: u64,
    pub(crate) compiled: Vec<Compiled>,
    pub(crate) limits: BTreeMap<u32, Limits>,
    pub(crate) no_limits: Limits,
    pub(crate) prefilter: Prefilter,
    pub(crate) frames: Vec<FrameRule>,
}

/// Which rules a packet or a transaction can match.
#[derive(Default)]
pub(crate) struct Prefilter {
    /// Rules of addresses alone.
    pub(crate) ip_only: Vec<u32>,
    /// Rules of packets and streams.
    pub(crate) groups: Groups,
    /// Rules of packets without a fast pattern that ask for an event.
    pub(crate) events: Vec<u32>,
    /// Fast patterns in buffers of packets.
    pub(crate) packet_buffers: Vec<(PacketBuffer, BufferKey, Matcher)>,
    /// Ports of servers for which there are rules on streams, to the server and to the client.
    pub(crate) stream_ports: [PortSet; 2],
    /// Of transactions.
    pub(crate) transactions: Vec<TransactionFilter>,
}

/// Candidates by one buffer of a transaction in one direction.
pub(crate) struct TransactionFilter {
    pub(crate) protocol: Option<Protocol>,
    pub(crate) direction: Direction,
    pub(crate) progress: u8,
    pub(crate) what: Candidates,
    /// No other filter of this direction and protocol with the same progress comes behind it.
    pub(crate) is_last_of_progress: bool,
}

/// Who is a candidate.
pub(crate) enum Candidates {
    /// Rules whose fast pattern is in this buffer.
    Buffer { buffer: Buffer, key: BufferKey, kind: Kind, matcher: Box<Matcher> },
    /// These rules, always.
    Always(Vec<u32>),
}

impl Program {
    pub(crate) fn limits(&self, rule: u32) -> &Limits {
        self.limits.get(&rule).unwrap_or(&self.no_limits)
    }

    /// Whether files are to be stored when this rule matches.
    pub(crate) fn stores(&self, rule: u32) -> bool {
        self.compiled.get(rule as usize).is_some_and(|made| made.stores.is_some())
    }

    /// Rules with what was made of them.
    pub(crate) fn parts(&self) -> Parts<'_> {
        Parts { rules: &self.rules.rules, compiled: &self.compiled }
    }

    /// Turns on what is computed only if a rule asks for it.
    pub fn wants(&self, settings: &mut gauntlet_protocols::Settings) {
        settings.frames |= !self.frames.is_empty();
        settings.hashes.md5 |= self.asks_for("filemd5");
        settings.hashes.sha1 |= self.asks_for("filesha1");
        settings.hashes.sha256 |= self.asks_for("filesha256");
        settings.frame_names.extend(self.frames.iter().map(|user| user.frame.1.clone()));
        let file_data = FILE_DATA.map(Buffer::of_keyword);
        for used in &self.rules.buffers {
            if file_data.contains(&Buffer::of_keyword(used.name)) {
                settings.hashes.data = true;
            } else if used.name == "file.magic" {
                settings.hashes.magic = true;
            } else if used.name.starts_with("ja3") {
                settings.tls.want_ja3();
            } else if used.name.starts_with("ja4") {
                settings.tls.want_ja4();
            } else if used.name.starts_with("ssh") && used.name.contains("hassh") {
                settings.ssh.want_hassh();
            }
        }
    }

    /// Whether a rule compares with this keyword.
    fn asks_for(&self, keyword: &str) -> bool {
        let is_it = |check: &Match| matches!(check, Match::Protocol(c) if c.keyword == keyword);
        let mut lists = self.rules.rules.iter().flat_map(|rule| &rule.buffers);
        lists.any(|list| list.matches.iter().any(is_it))
    }

    /// Whether a rule asks for segments that overlap with other data, for which bytes are kept.
    pub fn asks_overlaps(&self) -> bool {
        let is_it = |name: &str| name.ends_with(OVERLAP_EVENT);
        let asks = |check: &Match| matches!(check, Match::EngineEvent(name) if is_it(name));
        self.rules.rules.iter().any(|rule| rule.packet.iter().any(asks))
    }

    /// Whether any rule looks at raw streams.
    pub fn looks_at_streams(&self) -> bool {
        self.prefilter.groups.has_streams
    }

    /// Whether any rule looks at raw streams that go this way and have this port on the side that
    /// rules are grouped by: where the packet goes to, or, to the client, where it comes from.
    pub fn looks_at_streams_of(&self, direction: Direction, port: u16) -> bool {
        let ports = self.prefilter.stream_ports.get(direction.index());
        ports.is_some_and(|ports| ports.contains(port))
    }

    /// Rules that are never tried, with the reason.
    pub fn unsupported(&self) -> impl Iterator<Item = (&Rule, &str)> {
        let pairs = self.rules.rules.iter().zip(&self.compiled);
        pairs.filter_map(|(rule, made)| Some((rule, made.unsupported.as_deref()?)))
    }
}

/// Whether the rule is tried on every first packet of a direction alone.
pub(crate) fn is_ip_only(rule: &Rule) -> bool {
    rule.kind == RuleKind::IpOnly
}

/// A rule that looks at frames.
#[derive(Debug, Clone)]
pub(crate) struct FrameRule {
    pub(crate) number: u32,
    /// Place in [`crate::rule::Rule::buffers`].
    pub(crate) list: usize,
    /// Protocol, and the frame's name behind the dot.
    pub(crate) frame: (String, String),
}
