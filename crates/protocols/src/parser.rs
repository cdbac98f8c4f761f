//! What a parser of one protocol offers to a conversation.

use gauntlet_packet::Direction;

use crate::buffer::{Buffer, Bytes, Number, NumberSpec, Spec};
use crate::frames::FrameNote;
use crate::protocol::{Carrier, Protocol};
use crate::record::Fields;
use crate::settings::Settings;
use crate::transaction::State;

/// One protocol's part in the tables of this crate. Every protocol module has one
/// `pub(crate) static MODULE: Module`, listed in `registry.rs`.
pub(crate) struct Module {
    /// Which.
    pub protocol: Protocol,
    /// Names of its transactions' events as in rules without the prefix, by number.
    pub events: &'static [&'static str],
    /// Names of the states of a transaction to the server and to the client, by progress. The last
    /// is "complete".
    pub states: [&'static [&'static str]; 2],
    /// Buffers of which this module answers [`Parser::buffer`] (others' buffers are answered too,
    /// where their engines name this protocol: HTTP/2 has those of HTTP/1).
    pub buffers: &'static [Spec],
    /// The same for numbers.
    pub numbers: &'static [NumberSpec],
    /// How it is recognised by bytes.
    pub patterns: &'static [Pattern],
    /// How it is recognised by functions on ports.
    pub probes: &'static [Probe],
    /// Whether its parser copes with gaps; without, a gap ends parsing.
    pub accepts_gaps: bool,
    /// Who speaks first (`None`: either).
    pub first: Option<Direction>,
    /// Makes a parser, or nothing where the protocol is only detected.
    pub make: fn(&Settings, &Flow) -> Option<Box<dyn Parser>>,
}

/// What a parser knows of the flow from the beginning.
#[derive(Debug, Clone, Copy)]
pub struct Flow {
    /// What carries it.
    pub carrier: Carrier,
    /// Ports of client and server.
    pub ports: (u16, u16),
    /// The connection's beginning was not seen.
    pub midstream: bool,
    /// The stream is inspected before it is acknowledged (`stream.inline`).
    pub inline: bool,
}

/// Bytes at the beginning of a direction by which a protocol is recognised.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pattern {
    /// By what.
    pub carrier: Carrier,
    /// Who sends it.
    pub direction: Direction,
    /// The bytes.
    pub bytes: &'static [u8],
    /// Whether letters' case counts.
    pub case: bool,
    /// Not before this place.
    pub offset: u16,
    /// Its end is not behind this place.
    pub depth: u16,
    /// A function that has the last word, and the fewest and most bytes it needs.
    pub confirm: Option<(ProbeFn, u16, u16)>,
}

/// Says what it takes the first bytes of a direction for.
pub(crate) type ProbeFn = fn(&Question<'_>) -> Guess;

/// What a probing function is asked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Question<'a> {
    /// The flow.
    pub flow: &'a Flow,
    /// Who sent them.
    pub direction: Direction,
    /// All bytes so far in this direction.
    pub bytes: &'a [u8],
    /// What the other direction was recognised as.
    pub other: Option<Protocol>,
    /// How many bytes the other direction has had.
    pub other_bytes: u64,
}

/// What a probing function says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Guess {
    /// It is this protocol.
    Yes,
    /// It is this protocol, but who sent it is the server (or the other way round): the flow's
    /// direction is to be turned.
    Reversed,
    /// It is not.
    No,
    /// More bytes are needed.
    Unsure,
}

/// A function that recognises a protocol on some ports.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Probe {
    /// By what.
    pub carrier: Carrier,
    /// Ports, as in `detection-ports.dp`; 0 is any port.
    pub ports: &'static [u16],
    /// For the client's bytes to these ports (and the server's from them) `ToServer`; for flows
    /// whose client has such a port `ToClient`.
    pub direction: Direction,
    /// The fewest bytes that it can say something about.
    pub min: u16,
    /// So many bytes are enough to give up; 0 is no limit.
    pub max: u16,
    /// For bytes in the direction named.
    pub to_port: Option<ProbeFn>,
    /// For the bytes that come back.
    pub from_port: Option<ProbeFn>,
}

/// What came of parsing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// All bytes were taken.
    Done,
    /// So many were taken; the rest is handed in again once at least `needed` bytes are there.
    Incomplete {
        /// Bytes taken.
        consumed: usize,
        /// How many bytes there must be from there on.
        needed: usize,
    },
    /// The protocol cannot be parsed any more in this flow.
    Failed,
}

/// Bytes for a parser.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Input<'a> {
    /// Who sent them.
    pub direction: Direction,
    /// The bytes: of a stream all that were not taken yet, of datagrams one datagram.
    pub bytes: &'a [u8],
    /// The direction ends behind them.
    pub end: bool,
}

/// A parser with the transactions of one flow.
pub(crate) trait Parser: Send {
    /// Takes bytes.
    fn parse(&mut self, input: Input<'_>, wishes: &mut Wishes) -> Outcome;

    /// So many bytes of this direction are missing. Only called where [`Module::accepts_gaps`].
    fn gap(&mut self, direction: Direction, len: u64, wishes: &mut Wishes) -> Outcome {
        let _ = (direction, len, wishes);
        Outcome::Failed
    }

    /// How many transactions there are, in the order of their ids.
    fn count(&self) -> usize;

    /// The state of the transaction at this place.
    fn state(&self, place: usize) -> Option<&State>;

    /// The same, to be changed.
    fn state_mut(&mut self, place: usize) -> Option<&mut State>;

    /// Drops the transaction at this place.
    fn remove(&mut self, place: usize);

    /// The `i`th buffer of this name (0 of single ones).
    fn buffer(&self, place: usize, at: At, i: usize) -> Option<Bytes<'_>>;

    /// The `i`th number of this name.
    fn number(&self, place: usize, number: Number, direction: Direction, i: usize) -> Option<i64> {
        let _ = (place, number, direction, i);
        None
    }

    /// Whether the transaction carries a message of DNS in this direction (RFC 8484).
    fn carries_dns(&self, place: usize, direction: Direction) -> bool {
        let _ = (place, direction);
        false
    }

    /// All that was handed out of bodies by [`Self::buffer`] for this direction counts as looked
    /// at (bodies move on).
    fn inspected(&mut self, place: usize, direction: Direction) {
        let _ = (place, direction);
    }

    /// The flow was announced by another one.
    fn announced(&mut self, expectation: &Expectation) {
        let _ = expectation;
    }

    /// It goes on where another parser stopped (HTTP/2 after an upgrade of HTTP/1).
    fn replaces(&mut self, before: &dyn Parser) {
        let _ = before;
    }

    /// The request that led to an upgrade, for the parser that follows.
    fn upgrade(&self) -> Option<Upgrade> {
        None
    }

    /// The transaction's EVE record, without the head that all records have.
    fn record(&self, place: usize, fields: &mut Fields) {
        let _ = (place, fields);
    }
}

/// A request of HTTP/1 that asked for another protocol.
#[derive(Debug, Clone, Default)]
pub(crate) struct Upgrade {
    /// Its method.
    pub method: Vec<u8>,
    /// Its URI.
    pub uri: Vec<u8>,
    /// Its header fields.
    pub headers: Vec<(Vec<u8>, Vec<u8>)>,
}

/// Which buffer in which direction, and whether the direction ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct At {
    /// Which.
    pub buffer: Buffer,
    /// In which direction.
    pub direction: Direction,
    /// No more data will come in this direction: bodies are looked at although they are short.
    pub end: bool,
}

/// What a parser wants from those around it; gathered over one call.
#[derive(Debug, Clone, Default)]
pub struct Wishes {
    /// Said to the parser: a change of protocol is under way already, another one will not do.
    pub changing: bool,
    /// Said to the parser: frames are wanted.
    pub frames_wanted: bool,
    /// What there is to say of frames in the bytes at hand (see [`Wishes::open_frame`]).
    pub frames: Vec<FrameNote>,
    /// What is known must be looked at now: the raw stream of these directions (to the server, to
    /// the client) is inspected without waiting for more.
    pub inspect_raw: [bool; 2],
    /// Bytes before the application layer's place that raw inspection shall see again, by
    /// direction.
    pub raw_depth: [Option<u32>; 2],
    /// No more payload inspection of the flow (encrypted).
    pub no_payload_inspection: bool,
    /// No more reassembly for the flow (encrypted, `bypass`).
    pub no_reassembly: bool,
    /// Nothing more is parsed in this flow, though nothing is wrong.
    pub no_parsing: bool,
    /// Reassembly depth in bytes from now on, 0 is no limit.
    pub depth: Option<u64>,
    /// The flow goes on with another protocol; `None` within: whatever is detected.
    pub change: Option<Change>,
    /// Data connections that are to come.
    pub expected: Vec<Expectation>,
    /// Ports that were agreed on for connections, before it is known what for: port of whom is
    /// connected to, and who connects (`ToServer`: the client).
    pub agreed: Vec<(u16, Direction)>,
}

impl Wishes {
    /// A frame begins at this place of the bytes at hand.
    pub(crate) fn open_frame(
        &mut self,
        name: &'static str,
        at: usize,
        len: Option<u64>,
        transaction: Option<u64>,
    ) {
        if self.frames_wanted {
            self.frames.push(FrameNote::Open { name, at, len, transaction });
        }
    }

    /// The open frame of this name ends at this place of the bytes at hand.
    pub(crate) fn close_frame(&mut self, name: &'static str, at: usize, transaction: Option<u64>) {
        if self.frames_wanted {
            self.frames.push(FrameNote::Close { name, at, transaction });
        }
    }

    /// The raw stream of this direction is to be inspected without waiting for more.
    pub(crate) fn inspect(&mut self, direction: Direction) {
        match direction {
            Direction::ToServer => self.inspect_raw[0] = true,
            Direction::ToClient => self.inspect_raw[1] = true,
        }
    }

    /// Adds those of another call.
    pub(crate) fn merge(&mut self, other: Wishes) {
        for (mine, theirs) in self.inspect_raw.iter_mut().zip(other.inspect_raw) {
            *mine |= theirs;
        }
        for (mine, theirs) in self.raw_depth.iter_mut().zip(other.raw_depth) {
            *mine = theirs.or(*mine);
        }
        self.no_payload_inspection |= other.no_payload_inspection;
        self.no_reassembly |= other.no_reassembly;
        self.no_parsing |= other.no_parsing;
        self.depth = other.depth.or(self.depth);
        self.change = other.change.or(self.change);
        self.expected.extend(other.expected);
        self.agreed.extend(other.agreed);
    }
}

/// A change of protocol (CONNECT, STARTTLS, Upgrade).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change {
    /// What is expected; `None`: anything.
    pub expect: Option<Protocol>,
    /// It is this protocol without detection.
    pub forced: bool,
    /// The port to detect with instead of the flow's (CONNECT), if any.
    pub port: Option<u16>,
}

/// A connection that another one announced (FTP's data).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expectation {
    /// The address that the announcement names, as 4 or 16 bytes; empty: that of the flow.
    pub address: Vec<u8>,
    /// Port of whom is connected to.
    pub port: u16,
    /// Its protocol.
    pub protocol: Protocol,
    /// Who connects: `ToServer` if the client of the announcing flow does.
    pub direction: Direction,
    /// What the announcement said of it, for the parser of the data (name of the file ...).
    pub about: Vec<u8>,
    /// How the data goes: to the one that is connected to, or from it.
    pub upload: bool,
}
