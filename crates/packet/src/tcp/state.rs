//! States of a session.

/// State of a session, as both sides' packets lead to it; in Suricata's order, which rules see.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum State {
    /// Nothing was seen.
    #[default]
    None,
    /// A SYN.
    SynSent,
    /// A SYN/ACK, or data with TCP fast open.
    SynRecv,
    /// The handshake is complete.
    Established,
    /// One side sent FIN.
    FinWait1,
    /// Its FIN was acknowledged.
    FinWait2,
    /// Both FINs were acknowledged; packets may come late.
    TimeWait,
    /// The FIN of the side that closed last awaits its acknowledgement.
    LastAck,
    /// One side closed, the other has not yet.
    CloseWait,
    /// Both sides closed at once.
    Closing,
    /// It is over.
    Closed,
}

impl State {
    /// The name in EVE and in the `tcp.state` of flow records.
    pub fn name(self) -> &'static str {
        match self {
            State::None => "none",
            State::SynSent => "syn_sent",
            State::SynRecv => "syn_recv",
            State::Established => "established",
            State::FinWait1 => "fin_wait1",
            State::FinWait2 => "fin_wait2",
            State::TimeWait => "time_wait",
            State::LastAck => "last_ack",
            State::CloseWait => "close_wait",
            State::Closing => "closing",
            State::Closed => "closed",
        }
    }
}
