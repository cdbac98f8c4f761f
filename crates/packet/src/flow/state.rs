//! States of a flow.

/// State of a flow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum FlowState {
    /// One direction was seen; TCP: before the handshake's end.
    #[default]
    New,
    /// Both directions were seen; TCP: the session is established.
    Established,
    /// TCP: the session is over.
    Closed,
    /// Passed by.
    Bypassed,
}

impl FlowState {
    /// As EVE names it.
    pub fn name(self) -> &'static str {
        match self {
            FlowState::New => "new",
            FlowState::Established => "established",
            FlowState::Closed => "closed",
            FlowState::Bypassed => "bypassed",
        }
    }
}
