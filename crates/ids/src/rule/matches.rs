//! What a rule checks: one [`Match`] a keyword.

mod numbers;
mod packet;
mod state;

use std::sync::Arc;

pub use numbers::{
    Asn1, Base64Decode, ByteExtract, ByteJump, ByteMath, ByteOperator, ByteTest, Encoding, Endian,
    Entropy, FloatCompare, MathOperator,
};
pub use packet::{
    BitsMode, ChecksumOf, Dsize, Flow, GeoIp, NetworkProtocol, PacketCheck, PacketNumber,
    ReputationSide, ReputationTest, StreamSide,
};
pub use state::{
    AppProtocolCheck, BitCommand, ConfigAction, ElementIndex, FileScope, FlowBits, FlowInt,
    HostBits, IntCommand, IntValue, ProtocolCheck, ProtocolOf, ProtocolValue, Tag, TagUnit,
    Threshold, ThresholdKind, Track, VariableCheck,
};

use super::header::Direction;
use super::number::Compare;
use crate::bytes::pattern::Pattern;

/// One check, or one act after a match.
#[derive(Debug, Clone)]
pub enum Match {
    /// `content` with its modifiers.
    Content(Content),
    /// `pcre`.
    Pcre(Box<Pattern>),
    /// `isdataat`.
    IsDataAt(IsDataAt),
    /// `byte_test`.
    ByteTest(ByteTest),
    /// `byte_jump`.
    ByteJump(ByteJump),
    /// `byte_extract`.
    ByteExtract(ByteExtract),
    /// `byte_math`.
    ByteMath(ByteMath),
    /// `bsize`: size of the buffer.
    BufferSize(Compare),
    /// `urilen`; `raw` says of which form of the URI, for rules in which it decides the buffer.
    UriLength(Compare),
    /// `absent`: the buffer does not exist; with `or_else` it may also exist and match the rest.
    Absent {
        /// `absent: or_else`.
        or_else: bool,
    },
    /// `dataset`.
    Dataset(Dataset),
    /// `datarep`.
    DataReputation(DataReputation),
    /// `entropy`: of the buffer, in bits, see [`Entropy`].
    Entropy(Entropy),
    /// `base64_decode`.
    Base64Decode(Base64Decode),
    /// `asn1`.
    Asn1(Asn1),

    /// A number in the packet.
    Number(PacketNumber, Compare),
    /// A fact about the packet.
    Packet(PacketCheck),
    /// `flowbits` test or act.
    FlowBits(FlowBits),
    /// `flowint` test or act.
    FlowInt(FlowInt),
    /// `xbits`, `hostbits` test or act.
    HostBits(HostBits),
    /// `flowvar`, `pktvar`: the variable holds these bytes.
    Variable(VariableCheck),
    /// `app-layer-protocol`.
    AppProtocol(AppProtocolCheck),
    /// `app-layer-event` by its name in Suricata, of a protocol (`http`), without the prefix.
    AppEvent {
        /// Protocol of the event; `None`: `applayer_...` events of detection itself.
        protocol: Option<&'static str>,
        /// The event.
        event: String,
    },
    /// `decode-event`, `stream-event`, `engine-event`: the name after the keyword's prefix, such
    /// as `ipv4.trunc_pkt` and `stream.3whs_ack_in_wrong_dir`.
    EngineEvent(String),
    /// A keyword of an application protocol that compares something other than bytes in a buffer
    /// (`dns.opcode`, `mqtt.type`, `ssl_version`, `filesize` ...).
    Protocol(ProtocolCheck),

    /// `filestore`.
    FileStore {
        /// Which side's files; `None` is the one that matched.
        direction: Option<Direction>,
        /// Files of both sides.
        both: bool,
        /// What is kept.
        scope: FileScope,
    },
    /// `bypass`: the flow is not inspected any more.
    Bypass,
    /// `config`.
    Config(ConfigAction),
    /// `tls.store`: certificates are written.
    TlsStore,
    /// `replace`: not carried out, packets stay as they are.
    Replace,
    /// `setmark`-like keywords of NFQUEUE: `nfq_set_mark:VALUE/MASK`.
    Mark {
        /// Bits to set.
        value: u32,
        /// Which bits.
        mask: u32,
    },
}

/// A number that the rule writes, or a variable of `byte_extract`/`byte_math`: an index of the
/// inspector's table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Amount {
    /// Written in the rule.
    Fixed(i64),
    /// Extracted from the buffer.
    Variable(u8),
}

/// `content` with its modifiers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Content {
    /// The bytes, in lower case if `nocase`.
    pub bytes: Vec<u8>,
    /// Letters in any case.
    pub nocase: bool,
    /// It must not be there.
    pub negated: bool,
    /// Where the search begins, from the start of the buffer.
    pub offset: Option<Amount>,
    /// Where it ends, from the start (after the offset was added, as Suricata does).
    pub depth: Option<Amount>,
    /// Where the search begins, from the end of the last match.
    pub distance: Option<Amount>,
    /// Bytes from the end of the last match.
    pub within: Option<Amount>,
    /// It must end at the end of the buffer.
    pub ends_with: bool,
    /// It must begin at the start.
    pub starts_with: bool,
    /// A match that follows is relative to this one.
    pub has_next: bool,
    /// If what follows does not match, the next place of this one is tried (backtracking).
    pub can_retry: bool,
    /// `fast_pattern` is set.
    pub fast_pattern: Option<FastPatternChoice>,
    /// `rawbytes`.
    pub raw_bytes: bool,
    /// `replace` of the same length; not carried out.
    pub replace: Option<Vec<u8>>,
}

impl Content {
    /// Without conditions on its place, of itself or of what follows.
    pub fn is_single(&self) -> bool {
        let is_placed = self.offset.is_some() || self.depth.is_some();
        !is_placed && !self.is_relative() && !self.has_next
    }

    /// Its place depends on the match before.
    pub fn is_relative(&self) -> bool {
        self.distance.is_some() || self.within.is_some()
    }
}

/// What `fast_pattern` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FastPatternChoice {
    /// `fast_pattern:only`.
    pub only: bool,
    /// `fast_pattern:OFFSET,LENGTH`.
    pub chop: Option<(u16, u16)>,
}

/// `isdataat`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IsDataAt {
    /// The place.
    pub at: Amount,
    /// From the end of the last match.
    pub relative: bool,
    /// There must be none.
    pub negated: bool,
}

/// Types of datasets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DatasetType {
    /// Any bytes.
    Text,
    /// 16 bytes.
    Md5,
    /// 32 bytes.
    Sha256,
    /// IPv4 addresses.
    Ipv4,
    /// Addresses of both versions.
    Ip,
}

/// A dataset as a rule declares it. The one with the same name and type is one for all rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatasetDeclaration {
    /// Its name.
    pub name: String,
    /// What it holds; `None`: as another rule or the configuration declared it.
    pub kind: Option<DatasetType>,
    /// Read at the start, resolved to a path beside the rules' file or below the data directory.
    pub load: Option<std::path::PathBuf>,
    /// Written at the end.
    pub save: Option<std::path::PathBuf>,
    /// Bytes of memory.
    pub memory_max: Option<u64>,
    /// Size of the table.
    pub hash_size: Option<u32>,
    /// Format of the file; `csv` (one value a line), `json`, `ndjson`.
    pub format: DatasetFormat,
    /// `context_key`: what EVE calls the data of a JSON set.
    pub context_key: Option<String>,
    /// `value_key` of a JSON set.
    pub value_key: Option<String>,
    /// `array_key` of a JSON set.
    pub array_key: Option<String>,
    /// `remove_key`.
    pub remove_key: bool,
}

/// Formats of dataset files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DatasetFormat {
    /// A value a line.
    #[default]
    Csv,
    /// One JSON document.
    Json,
    /// A JSON object a line.
    NdJson,
}

/// What `dataset` does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DatasetCommand {
    /// It must be in it.
    IsSet,
    /// It must not be.
    IsNotSet,
    /// Put into it; matches if it was not there.
    Set,
    /// Taken out; matches if it was there.
    Unset,
}

/// `dataset`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dataset {
    /// Test or act.
    pub command: DatasetCommand,
    /// Which.
    pub set: Arc<DatasetDeclaration>,
}

/// `datarep`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataReputation {
    /// Which.
    pub set: Arc<DatasetDeclaration>,
    /// Its value is ... the one here; values that are not in the set never match.
    pub compare: Compare,
}
