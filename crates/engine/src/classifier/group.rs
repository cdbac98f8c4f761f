//! Groups of features, and the dimensions of the model's table.

/// Bits of the table of weights: one million.
pub const TABLE_BITS: u32 = 20;
/// Length of whatever has one entry for each group.
pub const GROUPS: usize = Group::ALL.len();
/// A group's share of the log odds stays within ± this: words cannot outvote everything else.
pub const GROUP_BOUND: f32 = 5.0;
/// Most features of a message.
pub const FEATURES_MAX: usize = 10_000;

/// What a feature was made of. Each group adds a bounded share to the log odds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// Who it says it is from.
    Sender,
    /// Words of the Subject.
    Subject,
    /// Which fields there are, and how they are written.
    Form,
    /// Words of the text.
    Text,
    /// Structure of the HTML.
    Page,
    /// Hosts and shapes of links.
    Links,
    /// Types of parts and attachments.
    Files,
}

impl Group {
    /// Every group, in the order they are read.
    pub const ALL: [Group; 7] = [
        Group::Sender,
        Group::Subject,
        Group::Form,
        Group::Text,
        Group::Page,
        Group::Links,
        Group::Files,
    ];

    /// Its position in [`Group::ALL`], and in everything that has one entry a group.
    pub fn index(self) -> usize {
        self as usize
    }

    /// Whether its features are words of the message's language.
    pub fn has_words(self) -> bool {
        matches!(self, Group::Sender | Group::Subject | Group::Text | Group::Page)
    }

    /// What a group's share counts, for how well it holds on mail of sources that were not learned
    /// from: which fields and parts a message has, and the words of its subject, are learned by
    /// heart most easily, who it says that it is from and how its page is built least
    /// (`docs/decisions/226-good-words-are-bounded.md`).
    pub fn transfer(self) -> f32 {
        match self {
            Group::Sender | Group::Page => 1.2,
            Group::Text | Group::Links => 1.0,
            Group::Subject | Group::Form | Group::Files => 0.8,
        }
    }

    /// The name in a sentence.
    pub fn name(self) -> &'static str {
        match self {
            Group::Sender => "sender",
            Group::Subject => "subject",
            Group::Form => "header form",
            Group::Text => "text",
            Group::Page => "page structure",
            Group::Links => "links",
            Group::Files => "parts",
        }
    }
}
