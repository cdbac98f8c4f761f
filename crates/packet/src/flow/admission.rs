//! What a policy decided about a flow with its first packet; kept with the flow.

/// Whether the packets of a flow pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Passage {
    /// They are inspected.
    Inspected,
    /// They pass, and nothing looks at them.
    Free,
    /// They are dropped.
    Dropped,
    /// They are dropped, and the sender is told.
    Rejected,
}

impl Passage {
    /// Whether they pass, inspected or not.
    pub fn is_open(self) -> bool {
        matches!(self, Passage::Inspected | Passage::Free)
    }
}

/// Why the policy was asked about a flow as it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Basis {
    /// By its first packet.
    First,
    /// Its first packet was taken for an answer: the connection was under way.
    Answer,
    /// It was announced by another flow (FTP's data), whose decision it has.
    Announced,
}

/// What was decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Admission {
    /// Which version of the policy decided.
    pub generation: u32,
    /// Which of its rules.
    pub rule: u16,
    /// What becomes of the packets.
    pub passage: Passage,
    /// What looks at them, a bit each; what bits mean is for upper layers to say.
    pub functions: u8,
    /// How it came to that.
    pub basis: Basis,
}
