//! What a pipeline tells while packets pass: alerts, transactions, files, flows, anomalies, drops.

use gauntlet_packet::flow::{EndReason, FlowCore, Passage};
use gauntlet_packet::{Direction, Link, Packet, Time};
use gauntlet_protocols::mail::Mail;
use gauntlet_protocols::{Conversation, File, Protocol, State};

use super::Event;
use crate::detect::{FlowState, Verdict};

/// What an observer wants to be told beside alerts. What is not wanted costs nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Wishes {
    /// [`Observer::transaction`].
    pub transactions: bool,
    /// [`Observer::file`].
    pub files: bool,
    /// [`Observer::flow`].
    pub flows: bool,
    /// [`Observer::anomaly`].
    pub anomalies: bool,
    /// [`Observer::dropped`].
    pub drops: bool,
    /// [`Observer::request`].
    pub requests: bool,
    /// [`Observer::mail`]; [`gauntlet_protocols::Settings::mail`] says how much is kept.
    pub mail: bool,
    /// [`Observer::drops_flow`].
    pub decides: bool,
    /// Files are kept whatever rules say.
    pub all_files: bool,
    /// Reassembly depth of streams with files that are kept, in bytes; 0 is no limit.
    pub file_depth: Option<u32>,
}

impl Wishes {
    /// All there is.
    pub fn all() -> Self {
        Self {
            transactions: true,
            files: true,
            flows: true,
            anomalies: true,
            drops: true,
            ..Self::default()
        }
    }

    /// What either of two wants.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let depth = |one: u32, other: u32| if one == 0 || other == 0 { 0 } else { one.max(other) };
        Self {
            transactions: self.transactions || other.transactions,
            files: self.files || other.files,
            flows: self.flows || other.flows,
            anomalies: self.anomalies || other.anomalies,
            drops: self.drops || other.drops,
            requests: self.requests || other.requests,
            mail: self.mail || other.mail,
            decides: self.decides || other.decides,
            all_files: self.all_files || other.all_files,
            file_depth: match (self.file_depth, other.file_depth) {
                (Some(one), Some(other)) => Some(depth(one, other)),
                (one, other) => one.or(other),
            },
        }
    }
}

/// Is told what happens, in the order of packets. [`Observer::wishes`] is asked once, by whoever
/// makes the pipeline ([`super::Settings::wishes`]).
pub trait Observer {
    /// What is to be told beside alerts.
    fn wishes(&self) -> Wishes {
        Wishes::default()
    }

    /// A packet on which rules alerted, that a rule drops, or that an earlier alert tagged.
    fn packet(&mut self, event: &Event<'_>) {
        let _ = event;
    }

    /// A transaction is complete, or its flow ends. Told once of each.
    fn transaction(&mut self, event: &TransactionEvent<'_>) {
        let _ = event;
    }

    /// The request of a transaction is whole (of TLS the client's hello); its answer may not have
    /// begun. Told once of each.
    fn request(&mut self, event: &TransactionEvent<'_>) {
        let _ = event;
    }

    /// A whole message of mail, or what there is of one.
    fn mail(&mut self, event: &MailEvent<'_>) {
        let _ = event;
    }

    /// Whether the flow that was told of last is to be dropped from the packet at hand on (inline
    /// only). Asked behind what is told of each packet.
    fn drops_flow(&mut self) -> bool {
        false
    }

    /// A part of a file, and its end.
    fn file(&mut self, part: &FilePart<'_>) {
        let _ = part;
    }

    /// A flow has ended.
    fn flow(&mut self, end: &FlowEnd<'_>) {
        let _ = end;
    }

    /// Something that should not be.
    fn anomaly(&mut self, anomaly: &Anomaly<'_>) {
        let _ = anomaly;
    }

    /// The gate decided about a flow, or refused a packet.
    fn decided(&mut self, decision: &GateDecision<'_>) {
        let _ = decision;
    }

    /// A captured packet is dropped (inline only). Told behind [`Observer::packet`].
    fn dropped(&mut self, drop: &Dropped<'_>) {
        let _ = drop;
    }
}

/// A function that is told of packets with alerts, and of nothing else.
pub struct OnPacket<F>(F);

impl<F> std::fmt::Debug for OnPacket<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OnPacket")
    }
}

/// Makes an observer of a function.
pub fn on_packet<F: FnMut(&Event<'_>)>(function: F) -> OnPacket<F> {
    OnPacket(function)
}

impl<F: FnMut(&Event<'_>)> Observer for OnPacket<F> {
    fn packet(&mut self, event: &Event<'_>) {
        (self.0)(event);
    }
}

/// What an alert's record says of its flow.
#[derive(Debug, Clone, Copy, Default)]
pub struct FlowFields<'a> {
    /// A number for the flow.
    pub id: Option<u64>,
    /// Its protocol; `failed` if that will not be known.
    pub protocol: Option<&'a str>,
    /// Whether the packet goes to the server.
    pub to_server: Option<bool>,
    /// The packet is dropped.
    pub is_dropped: bool,
}

/// A flow as it is with the packet at hand.
#[derive(Clone, Copy)]
#[expect(missing_debug_implementations, reason = "parsers of protocols")]
pub struct FlowView<'a> {
    /// Ends, times and counts.
    pub core: &'a FlowCore,
    /// Which way the packet goes.
    pub direction: Direction,
    /// Bits and variables of rules.
    pub state: &'a FlowState,
    /// The application layer, once there is one.
    pub conversation: Option<&'a Conversation>,
    /// The protocol before a change (STARTTLS, CONNECT).
    pub original: Option<Protocol>,
}

/// The packet with which something was noticed.
#[derive(Clone, Copy)]
#[expect(missing_debug_implementations, reason = "parsers of protocols")]
pub struct Moment<'a> {
    /// The packet.
    pub packet: &'a Packet,
    /// What the captured frame begins with.
    pub link: Option<Link>,
    /// Its flow.
    pub flow: Option<FlowView<'a>>,
}

/// A transaction that ended.
#[derive(Clone, Copy)]
#[expect(missing_debug_implementations, reason = "parsers of protocols")]
pub struct TransactionEvent<'a> {
    /// The packet that completed it, and the flow.
    pub moment: Moment<'a>,
    /// The application layer: [`Conversation::record`] and others take `place`.
    pub conversation: &'a Conversation,
    /// Its protocol.
    pub protocol: Protocol,
    /// Its place among the transactions of the conversation.
    pub place: usize,
    /// Its number in the flow, events and files.
    pub state: &'a State,
    /// To the server and to the client: the direction is complete.
    pub complete: [bool; 2],
}

/// A part of a file.
#[derive(Clone, Copy)]
#[expect(missing_debug_implementations, reason = "parsers of protocols")]
pub struct FilePart<'a> {
    /// The packet with which it is told, and the flow.
    pub moment: Moment<'a>,
    /// The application layer.
    pub conversation: &'a Conversation,
    /// Its protocol.
    pub protocol: Protocol,
    /// The place of its transaction.
    pub place: usize,
    /// Its transaction.
    pub state: &'a State,
    /// Which way it goes.
    pub direction: Direction,
    /// Its place among the files of this direction of the transaction.
    pub index: usize,
    /// Name, size, state and hashes.
    pub file: &'a File,
    /// Where `data` begins in the file; not where the last part ended if bytes are missing.
    pub offset: u64,
    /// What is new.
    pub data: &'a [u8],
    /// Nothing follows: the file's state says why.
    pub is_end: bool,
}

/// A message of mail.
#[derive(Clone, Copy)]
#[expect(missing_debug_implementations, reason = "parsers of protocols")]
pub struct MailEvent<'a> {
    /// Its flow.
    pub core: &'a FlowCore,
    /// The packet that completed it; none if the flow ended before.
    pub packet: Option<&'a Packet>,
    /// Time of that packet, or of the end.
    pub time: Time,
    /// The message.
    pub mail: &'a Mail,
}

/// A flow that has ended.
#[derive(Clone, Copy)]
#[expect(missing_debug_implementations, reason = "parsers of protocols")]
pub struct FlowEnd<'a> {
    /// Ends, times, counts, state, and how many alerts there were.
    pub core: &'a FlowCore,
    /// Why it ended.
    pub reason: EndReason,
    /// Transactions that there were.
    pub transactions: u64,
    /// Time of the last packet of the capture.
    pub now: Time,
    /// Bits and variables of rules, and what they decided for the flow.
    pub state: &'a FlowState,
    /// The application layer, if there was one.
    pub conversation: Option<&'a Conversation>,
    /// The protocol before a change (STARTTLS, CONNECT).
    pub original: Option<Protocol>,
}

/// Who noticed an anomaly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnomalyLayer {
    /// Decoding, with the event's name.
    Decode,
    /// The stream engine.
    Stream,
    /// Detection of the application protocol.
    ProtocolDetection,
    /// A parser, in a transaction.
    Transaction {
        /// The transaction's number.
        id: u64,
    },
}

/// Something that should not be.
#[derive(Clone, Copy)]
#[expect(missing_debug_implementations, reason = "parsers of protocols")]
pub struct Anomaly<'a> {
    /// The packet with which it was noticed.
    pub moment: Moment<'a>,
    /// By whom.
    pub layer: AnomalyLayer,
    /// The event's name, as rules have it, of transactions without the protocol's.
    pub event: &'a str,
}

/// A packet that is dropped.
#[derive(Clone, Copy)]
#[expect(missing_debug_implementations, reason = "parsers of protocols")]
pub struct Dropped<'a> {
    /// The packet.
    pub moment: Moment<'a>,
    /// Why, as EVE names it.
    pub reason: &'static str,
    /// The whole flow is dropped.
    pub flow_drops: bool,
    /// What rules said of the packet, if they were asked.
    pub verdict: Option<&'a Verdict>,
}

/// What the gate decided with a packet.
#[derive(Clone, Copy)]
#[expect(missing_debug_implementations, reason = "parsers of protocols")]
pub struct GateDecision<'a> {
    /// The packet; its flow is not told.
    pub moment: Moment<'a>,
    /// The rule that decided, by its name; none if it was no rule.
    pub rule: Option<&'a str>,
    /// The same by its number.
    pub number: Option<u16>,
    /// What was decided.
    pub passage: Passage,
    /// Why, if the packet is refused, as records have it.
    pub reason: &'static str,
    /// It is carried out; else it is only noted.
    pub is_inline: bool,
    /// A record is to be written.
    pub is_recorded: bool,
}
