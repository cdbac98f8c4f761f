//! Suricata's rule language: what a rule is, and how it is read.
//!
//! [`reader::Reader`] turns text into [`Rule`]s and [`Problem`]s. A rule that is not understood is
//! left out and named; nothing is ignored in silence. Types have no knowledge of packets or
//! protocols: they name buffers (by their names), protocols and keywords as Suricata does.

pub mod address;
pub mod buffers;
pub mod header;
mod interval;
pub mod matches;
mod network;
pub mod number;
pub mod order;
pub mod port;
pub mod protocol;
pub mod reader;
pub mod thresholds;
pub mod validity;

use std::sync::Arc;

use header::{Direction, Header, Hook};
use matches::{Dsize, Flow, Match, Tag, Threshold};

/// What happens when a rule matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Action {
    /// Logged.
    Alert,
    /// Logged, and the packet is dropped inline.
    Drop,
    /// As drop, and an error message is sent to the side named.
    Reject(RejectTo),
    /// Later rules do not see the packet.
    Pass,
    /// Changes settings of the flow or transaction (`config` keyword).
    Config,
}

/// Who gets the reset or ICMP error of a reject.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RejectTo {
    /// The sender of the packet.
    Source,
    /// Its receiver.
    Destination,
    /// Both.
    Both,
}

/// What an action applies to (`drop:packet`, `pass:flow`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Scope {
    /// The default of the rule's kind.
    #[default]
    Automatic,
    /// The packet alone.
    Packet,
    /// The rest of the flow.
    Flow,
}

/// Where a rule was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The file.
    pub file: Arc<str>,
    /// The line on which it begins, from 1.
    pub line: u32,
}

/// When a rule is evaluated; the names are those of Suricata's engine analysis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RuleKind {
    /// Addresses alone, none negated: once a flow and direction, by the table of addresses.
    IpOnly,
    /// Addresses alone, some negated: once a flow and direction.
    LikeIpOnly,
    /// `app-layer-protocol` alone: when a protocol is detected.
    ProtocolDetectionOnly,
    /// `decode-event` alone: on packets with events, valid or not.
    DecodeEventOnly,
    /// Every packet.
    Packet,
    /// Packets and the stream.
    PacketStream,
    /// The stream.
    Stream,
    /// Application protocol named, no transaction: on packets of such a flow.
    AppLayer,
    /// Transactions.
    Transaction,
}

/// Which sides' data a rule sees (`flow:to_server`); both if it does not say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Towards {
    /// Packets and data to the server.
    pub server: bool,
    /// Packets and data to the client.
    pub client: bool,
}

/// Who is the target of the attack (`target` keyword, for EVE).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// `src_ip`.
    Source,
    /// `dest_ip`.
    Destination,
}

/// A class of `classification.config`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Class {
    /// Its short name.
    pub name: String,
    /// What EVE calls it (`category`).
    pub description: String,
    /// Priority of rules that do not set their own.
    pub priority: u8,
}

/// The matches on one buffer, in the order of the rule.
#[derive(Debug, Clone)]
pub struct BufferMatches {
    /// Which buffer, after its transforms: an index in [`RuleSet::buffers`].
    pub key: BufferKey,
    /// Restricted to one direction (`to_client` within the keyword's value).
    pub only: Option<Direction>,
    /// What must match.
    pub matches: Vec<Match>,
    /// Several values are inspected one by one (`dns.answers.rrname`).
    pub is_multi: bool,
}

/// A number for a buffer with its transforms, see [`RuleSet::buffers`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BufferKey(pub u16);

/// The pattern by which a rule is prefiltered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FastPattern {
    /// The buffer; `None` is the payload (packet or stream).
    pub key: Option<BufferKey>,
    /// The bytes, a part of the content if `fast_pattern:offset,length` says so.
    pub bytes: Vec<u8>,
    /// In any case of letters.
    pub nocase: bool,
    /// Not to be searched: the content is matched again after the prefilter, or it is `only`.
    pub only: bool,
    /// The content is negated: the rule is a candidate where the pattern is *not* found.
    pub negated: bool,
    /// The content's depth and offset, which the prefilter respects.
    pub offset: u32,
    /// Bytes from the start of the buffer in which it must lie; 0 is no limit.
    pub depth: u32,
    /// It must end at the end of the buffer.
    pub ends_with: bool,
}

/// One step of the inspection of transactions, as Suricata's inspect engines are.
#[derive(Debug, Clone)]
pub struct Engine {
    /// Transactions of this protocol.
    pub protocol: &'static str,
    /// Data of this side.
    pub direction: Direction,
    /// Least progress of the transaction's side, in Suricata's numbers.
    pub progress: u8,
    /// Index in [`Rule::buffers`]; `None`: reaching the progress is enough.
    pub list: Option<usize>,
    /// It is the engine of the fast pattern.
    pub is_prefilter: bool,
}

/// What a packet must have for a rule to be tried, a quick test before all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Needs {
    /// It is not made up.
    pub real_packet: bool,
    /// It has a payload, or stream data is inspected with it.
    pub payload: bool,
    /// It has neither.
    pub no_payload: bool,
    /// It belongs to a flow.
    pub flow: bool,
    /// It has events.
    pub event: bool,
    /// One of SYN, RST, FIN is set.
    pub tcp_begin_or_end: bool,
    /// One of URG, ECE, CWR is set.
    pub tcp_unusual: bool,
}

/// A rule, checked and ready.
#[derive(Debug, Clone)]
pub struct Rule {
    /// Where it was written.
    pub place: Place,
    /// As it was written.
    pub text: String,
    /// What happens.
    pub action: Action,
    /// To what.
    pub scope: Scope,
    /// Group of ids.
    pub gid: u32,
    /// Id.
    pub sid: u32,
    /// Revision.
    pub rev: u32,
    /// Text for people.
    pub message: String,
    /// Class.
    pub class: Option<Arc<Class>>,
    /// 1 is the most urgent.
    pub priority: i32,
    /// Kind and value of references.
    pub references: Vec<(String, String)>,
    /// Keys and values of `metadata`.
    pub metadata: Vec<(String, String)>,
    /// Who is attacked.
    pub target: Option<Target>,
    /// Protocols, addresses, ports.
    pub header: Header,
    /// Evaluated at one moment alone.
    pub hook: Option<Hook>,
    /// Application protocols, any of which the flow must have; empty is any.
    pub app_protocols: Vec<&'static str>,
    /// It needs a flow whose application protocol is known, even if `app_protocols` is empty.
    pub is_app_layer: bool,
    /// Whose data.
    pub towards: Towards,
    /// State of the flow.
    pub flow: Flow,
    /// Transactional rule on both sides (`=>`).
    pub is_bidirectional: bool,
    /// When it is evaluated.
    pub kind: RuleKind,
    /// What a packet must have for it to be tried.
    pub needs: Needs,
    /// Payload matches need a packet.
    pub needs_packet: bool,
    /// Payload matches need the reassembled stream.
    pub needs_stream: bool,
    /// Payload sizes that can match, of all `dsize` and contents.
    pub dsize: Option<Dsize>,
    /// Checks on packet and flow, in the order of the rule.
    pub packet: Vec<Match>,
    /// Checks on the payload.
    pub payload: Vec<Match>,
    /// Checks on the bytes that `base64_decode` made.
    pub base64: Vec<Match>,
    /// Checks on buffers of packets, transactions, files, frames.
    pub buffers: Vec<BufferMatches>,
    /// Inspection of transactions, in order.
    pub engines: Vec<Engine>,
    /// What is done after a match, in order (`flowbits:set`, `filestore` ...).
    pub post: Vec<Match>,
    /// Packets that follow are logged too.
    pub tag: Option<Tag>,
    /// `threshold` and `detection_filter` of the rule itself.
    pub threshold: Option<Threshold>,
    /// By what it is prefiltered.
    pub fast_pattern: Option<FastPattern>,
    /// A keyword with `prefilter` decides instead of a pattern: index in [`Rule::packet`].
    pub prefilter: Option<usize>,
    /// It makes no alert (`noalert`, `flowbits:noalert`).
    pub no_alert: bool,
}

/// What was wrong with a line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}:{}: {reason}", .place.file, .place.line)]
pub struct Problem {
    /// Where.
    pub place: Place,
    /// Id, if it could be read.
    pub sid: Option<u32>,
    /// The keyword that was not understood, if it was one.
    pub keyword: Option<String>,
    /// Why.
    pub reason: String,
    /// The rule was left out on purpose (`requires`, disabled protocol): no error.
    pub is_skip: bool,
}

/// All rules, in the order in which they are evaluated.
#[derive(Debug, Default)]
pub struct RuleSet {
    /// The rules.
    pub rules: Vec<Rule>,
    /// Buffers with transforms, by [`BufferKey`].
    pub buffers: Vec<BufferUse>,
    /// What was left out and why.
    pub problems: Vec<Problem>,
    /// Sets of data that rules name, each once.
    pub datasets: Vec<Arc<matches::DatasetDeclaration>>,
    /// How many rules were read, with those that were left out.
    pub read_count: usize,
    /// Names of flowbits by their number.
    pub flowbits: Vec<String>,
    /// Names of host bits, IP pair bits (xbits) by their number.
    pub xbits: Vec<String>,
    /// Names of flow variables (`flowvar`, pcre captures, `flowint`) by their number.
    pub variables: Vec<String>,
}

/// A buffer and what is done to it before it is inspected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BufferUse {
    /// Its name in Suricata, such as `http_uri` or `file_data`.
    pub name: &'static str,
    /// Transforms in order.
    pub transforms: Vec<crate::bytes::transform::Transform>,
    /// `frame:NAME`: which frame; the name is `frame`.
    pub frame: Option<String>,
}
