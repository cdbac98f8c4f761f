//! What may be wrong with a TCP stream: the names rules use in `stream-event`.

macro_rules! events {
    ($($event:ident = $name:literal,)*) => {
        /// An event of the stream engine, attached to the packet that caused it.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        #[allow(missing_docs, reason = "the names say it; `NAMES` has them as rules write them")]
        pub enum Event {
            $($event,)*
        }

        impl Event {
            /// All events, in the order of their numbers.
            pub const ALL: &[Event] = &[$(Event::$event,)*];

            /// The name, with its prefix: `stream.pkt_invalid_timestamp`.
            pub fn name(self) -> &'static str {
                match self {
                    $(Event::$event => $name,)*
                }
            }
        }
    };
}

events! {
    ThreeWayAckInWrongDir = "stream.3whs_ack_in_wrong_dir",
    ThreeWayAsyncWrongSeq = "stream.3whs_async_wrong_seq",
    ThreeWayRightSeqWrongAckEvasion = "stream.3whs_right_seq_wrong_ack_evasion",
    ThreeWaySynackInWrongDirection = "stream.3whs_synack_in_wrong_direction",
    ThreeWaySynackResendWithDiffAck = "stream.3whs_synack_resend_with_diff_ack",
    ThreeWaySynackResendWithDiffSeq = "stream.3whs_synack_resend_with_diff_seq",
    ThreeWaySynackToserverOnSynRecv = "stream.3whs_synack_toserver_on_syn_recv",
    ThreeWaySynackWithWrongAck = "stream.3whs_synack_with_wrong_ack",
    ThreeWaySynackFlood = "stream.3whs_synack_flood",
    ThreeWaySynackTfoDataIgnored = "stream.3whs_synack_tfo_data_ignored",
    ThreeWaySynResendDiffSeqOnSynRecv = "stream.3whs_syn_resend_diff_seq_on_syn_recv",
    ThreeWaySynToclientOnSynRecv = "stream.3whs_syn_toclient_on_syn_recv",
    ThreeWaySynFlood = "stream.3whs_syn_flood",
    ThreeWayWrongSeqWrongAck = "stream.3whs_wrong_seq_wrong_ack",
    ThreeWayAckDataInject = "stream.3whs_ack_data_inject",
    FourWaySynackWithWrongAck = "stream.4whs_synack_with_wrong_ack",
    FourWaySynackWithWrongSyn = "stream.4whs_synack_with_wrong_syn",
    FourWayWrongSeq = "stream.4whs_wrong_seq",
    FourWayInvalidAck = "stream.4whs_invalid_ack",
    ClosewaitAckOutOfWindow = "stream.closewait_ack_out_of_window",
    ClosewaitFinOutOfWindow = "stream.closewait_fin_out_of_window",
    ClosewaitPktBeforeLastAck = "stream.closewait_pkt_before_last_ack",
    ClosewaitInvalidAck = "stream.closewait_invalid_ack",
    ClosingAckWrongSeq = "stream.closing_ack_wrong_seq",
    ClosingInvalidAck = "stream.closing_invalid_ack",
    EstPacketOutOfWindow = "stream.est_packet_out_of_window",
    EstPktBeforeLastAck = "stream.est_pkt_before_last_ack",
    EstSynackResend = "stream.est_synack_resend",
    EstSynackResendWithDiffAck = "stream.est_synack_resend_with_diff_ack",
    EstSynackResendWithDiffSeq = "stream.est_synack_resend_with_diff_seq",
    EstSynackToserver = "stream.est_synack_toserver",
    EstSynResend = "stream.est_syn_resend",
    EstSynResendDiffSeq = "stream.est_syn_resend_diff_seq",
    EstSynToclient = "stream.est_syn_toclient",
    EstInvalidAck = "stream.est_invalid_ack",
    EstAckZwpData = "stream.est_ack_zwp_data",
    FinInvalidAck = "stream.fin_invalid_ack",
    Fin1AckWrongSeq = "stream.fin1_ack_wrong_seq",
    Fin1FinWrongSeq = "stream.fin1_fin_wrong_seq",
    Fin1InvalidAck = "stream.fin1_invalid_ack",
    Fin2AckWrongSeq = "stream.fin2_ack_wrong_seq",
    Fin2FinWrongSeq = "stream.fin2_fin_wrong_seq",
    Fin2InvalidAck = "stream.fin2_invalid_ack",
    FinButNoSession = "stream.fin_but_no_session",
    FinOutOfWindow = "stream.fin_out_of_window",
    FinSyn = "stream.fin_syn",
    LastackAckWrongSeq = "stream.lastack_ack_wrong_seq",
    LastackInvalidAck = "stream.lastack_invalid_ack",
    RstButNoSession = "stream.rst_but_no_session",
    TimewaitAckWrongSeq = "stream.timewait_ack_wrong_seq",
    TimewaitInvalidAck = "stream.timewait_invalid_ack",
    ShutdownSynResend = "stream.shutdown_syn_resend",
    PktInvalidTimestamp = "stream.pkt_invalid_timestamp",
    PktInvalidAck = "stream.pkt_invalid_ack",
    PktBrokenAck = "stream.pkt_broken_ack",
    RstInvalidAck = "stream.rst_invalid_ack",
    RstWithData = "stream.rst_with_data",
    PktRetransmission = "stream.pkt_retransmission",
    PktSpuriousRetransmission = "stream.pkt_spurious_retransmission",
    PktBadWindowUpdate = "stream.pkt_bad_window_update",
    SuspectedRstInject = "stream.suspected_rst_inject",
    WrongThread = "stream.wrong_thread",
    ReassemblySegmentBeforeBaseSeq = "stream.reassembly_segment_before_base_seq",
    ReassemblyNoSegment = "stream.reassembly_no_segment",
    ReassemblySeqGap = "stream.reassembly_seq_gap",
    ReassemblyOverlapDifferentData = "stream.reassembly_overlap_different_data",
    ReassemblyDepthReached = "stream.reassembly_depth_reached",
    ReassemblyInsertMemcap = "stream.reassembly_insert_memcap",
    ReassemblyInsertLimit = "stream.reassembly_insert_limit",
    ReassemblyInsertInvalid = "stream.reassembly_insert_invalid",
    ReassemblyUrgentOobLimitReached = "stream.reassembly_urgent_oob_limit_reached",
}

/// The number of the first, in [`crate::event::NAMES`].
const STREAM_FIRST: u16 = 129;

/// Names of all events, by their numbers (`Event as usize`).
pub fn names() -> impl Iterator<Item = &'static str> {
    Event::ALL.iter().map(|event| event.name())
}

impl Event {
    /// The event of a name, with or without the prefix `stream.`.
    pub fn from_name(name: &str) -> Option<Event> {
        let name = name.strip_prefix("stream.").unwrap_or(name);
        Event::ALL.iter().copied().find(|event| event.name().strip_prefix("stream.") == Some(name))
    }

    /// Its number in [`crate::event::NAMES`].
    pub fn number(self) -> u16 {
        STREAM_FIRST + self as u16
    }
}
