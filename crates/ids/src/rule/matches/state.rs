//! State of flows and hosts, protocols, limits of alerts.

use std::sync::Arc;

use crate::rule::header::Direction;
use crate::rule::number::Compare;

/// What is done with a bit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BitCommand {
    /// Sets.
    Set,
    /// Clears.
    Unset,
    /// Changes.
    Toggle,
    /// Must be set.
    IsSet,
    /// Must not be.
    IsNotSet,
}

/// `flowbits`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlowBits {
    /// Test or act.
    pub command: BitCommand,
    /// Numbers of bits, see [`super::RuleSet::flowbits`]; several: any of them.
    pub bits: Vec<u32>,
}

/// What `flowint` does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IntCommand {
    /// `=`
    Set,
    /// `+`
    Add,
    /// `-`
    Subtract,
    /// `<`
    Less,
    /// `<=`
    AtMost,
    /// `==`
    Equal,
    /// `!=`
    NotEqual,
    /// `>=`
    AtLeast,
    /// `>`
    More,
    /// It has a value.
    IsSet,
    /// It has none.
    IsNotSet,
}

/// Right side of `flowint`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IntValue {
    /// None (`isset`).
    None,
    /// A number.
    Number(u32),
    /// Another variable.
    Variable(u32),
}

/// `flowint`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlowInt {
    /// Test or act.
    pub command: IntCommand,
    /// Number of the variable, see [`super::RuleSet::variables`].
    pub variable: u32,
    /// Right side.
    pub value: IntValue,
}

/// Which addresses a bit belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Track {
    /// Source.
    Source,
    /// Destination.
    Destination,
    /// The pair of addresses (xbits `ip_pair`; thresholds `by_both`).
    Pair,
    /// Source or destination, whichever (hostbits `both`).
    Either,
    /// The transaction (xbits `tx`).
    Transaction,
    /// The rule (thresholds).
    Rule,
    /// The flow (thresholds).
    Flow,
}

/// `xbits` and `hostbits`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostBits {
    /// Test or act.
    pub command: BitCommand,
    /// Number of the bit, see [`super::RuleSet::xbits`].
    pub bit: u32,
    /// Whose.
    pub track: Track,
    /// Lives for, in seconds.
    pub expire_seconds: u32,
    /// Written as `hostbits`.
    pub is_hostbits: bool,
}

/// `flowvar`, `pktvar`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VariableCheck {
    /// Of the packet; else of the flow.
    pub of_packet: bool,
    /// Number of the variable, see [`super::RuleSet::variables`].
    pub variable: u32,
    /// It contains these bytes.
    pub bytes: Vec<u8>,
}

/// Whose protocol `app-layer-protocol` means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ProtocolOf {
    /// That of the packet's direction.
    #[default]
    Direction,
    /// `final`: of the flow, once decided.
    Final,
    /// `either`.
    Either,
    /// `to_server`.
    ToServer,
    /// `to_client`.
    ToClient,
    /// `original`: before a change (STARTTLS).
    Original,
}

/// `app-layer-protocol`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppProtocolCheck {
    /// Its name; `failed` and `unknown` too.
    pub protocol: String,
    /// It must not be this.
    pub negated: bool,
    /// Whose.
    pub of: ProtocolOf,
}

/// A keyword of an application protocol that does not look into a buffer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProtocolCheck {
    /// The keyword under its main name, such as `dns.opcode`.
    pub keyword: &'static str,
    /// What it wants.
    pub value: ProtocolValue,
}

/// What a keyword of a protocol wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProtocolValue {
    /// A number.
    Number(Compare),
    /// A number in a list: which element, then what it is.
    Element(ElementIndex, Compare),
    /// It is there.
    Present,
    /// Words, already checked, in order (`nfs_procedure`, `ssl_state:client_hello` ...).
    Words(Vec<String>),
    /// Hashes of files: the list (bytes of hashes, sorted), and whether it must not be in it.
    Hashes {
        /// The file that was read.
        file: String,
        /// Sorted.
        hashes: Arc<Vec<Vec<u8>>>,
        /// It must not be in it.
        negated: bool,
    },
}

/// Which elements of a list are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ElementIndex {
    /// Any must match.
    Any,
    /// All must; an empty list does too.
    All,
    /// All must, there is at least one.
    AllOne,
    /// The one with this number; negative from the end.
    At(i32),
    /// At least, or exactly ... so many match (`nb>3`).
    Count(Compare),
}

/// What `filestore` keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FileScope {
    /// The file that matched.
    #[default]
    File,
    /// All files of the transaction.
    Transaction,
    /// All files of the flow.
    Flow,
}

/// `config:logging disable, type tx, scope tx`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfigAction {
    /// Transactions are not logged.
    NoTransactionLog,
    /// The flow's transactions are not logged.
    NoFlowLog,
    /// `tracking disable`.
    NoFlowTracking,
}

/// `tag`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tag {
    /// `session` or `host`.
    pub of_host: Option<Direction>,
    /// How long.
    pub count: u32,
    /// In what.
    pub unit: TagUnit,
}

/// Units of `tag`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum TagUnit {
    Packets,
    Bytes,
    Seconds,
}

/// Kinds of limits on alerts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThresholdKind {
    /// `limit`: the first COUNT in SECONDS.
    Limit,
    /// `threshold`: every COUNT-th.
    Threshold,
    /// `both`: one at the COUNT-th.
    Both,
    /// `backoff`: at COUNT, COUNT*MULTIPLIER, ...
    Backoff,
    /// `detection_filter`: from the COUNT-th on.
    DetectionFilter,
    /// `rate_filter`.
    Rate,
    /// `suppress`.
    Suppress,
}

/// `threshold`, `detection_filter`, or a line of threshold.config.
#[derive(Debug, Clone, PartialEq)]
pub struct Threshold {
    /// Which.
    pub kind: ThresholdKind,
    /// Counted by.
    pub track: Track,
    /// How many.
    pub count: u32,
    /// In what time.
    pub seconds: u32,
    /// Of backoff.
    pub multiplier: u32,
    /// Of rate_filter: what replaces the rule's action.
    pub new_action: Option<crate::rule::Action>,
    /// Of rate_filter: how long.
    pub timeout_seconds: u32,
}
