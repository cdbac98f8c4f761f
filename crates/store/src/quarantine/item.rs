//! A held message and its state.

use gauntlet_mail::Envelope;
use gauntlet_verdict::{Class, ReleasedBy};
use serde::{Deserialize, Serialize};

use crate::record::Event;
use crate::reference;

/// A message to be held, for some or all of its recipients.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct QuarantineItem {
    /// Id of the item; a known one is not changed.
    pub id: String,
    /// Id of the message in the log.
    pub message: String,
    /// Name of the folder, e.g. `suspect`.
    pub folder: String,
    /// Recipients it is held for; a release goes to them.
    pub recipients: Vec<String>,
    /// The complete envelope, all recipients included.
    pub envelope: Envelope,
    /// Unix time in milliseconds at which the message was received.
    pub received_ms: i64,
    /// Class of the verdict.
    pub class: Class,
    /// Score of the rules.
    pub score: f64,
    /// The Subject, encoded words (RFC 2047) decoded.
    pub subject: String,
    /// The From field, decoded.
    pub from: String,
    /// Who may release it according to the rules that hold it; none leaves it to the folder.
    /// [`super::Quarantine::released_by`] decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub release: Option<ReleasedBy>,
}

impl QuarantineItem {
    /// What the message's record in the log gets when somebody (`who`) deleted the item.
    pub fn deleted(&self, who: &str, at_ms: i64) -> Event {
        Event {
            id: self.message.clone(),
            received_ms: self.received_ms,
            at_ms,
            kind: "deleted".to_owned(),
            recipient: self.recipients.join(", "),
            detail: format!("by {who}"),
        }
    }
}

/// State of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It waits for a person's decision.
    Held,
    /// Being handed to the spool.
    Releasing,
    /// Handed to the spool.
    Released,
    /// Deleted by a user.
    Deleted,
}

impl State {
    /// Name in the database, in JSON and on pages.
    pub fn name(self) -> &'static str {
        match self {
            State::Held => "held",
            State::Releasing => "releasing",
            State::Released => "released",
            State::Deleted => "deleted",
        }
    }

    /// The state of this name; an unknown one permits nothing.
    pub fn parse(name: &str) -> Self {
        let all = [State::Held, State::Releasing, State::Released];
        all.into_iter().find(|s| s.name() == name).unwrap_or(State::Deleted)
    }
}

/// An item as the quarantine stores it, with its state.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Held {
    /// Number that orders items: by time of arrival in a node's own, by time of reception in an
    /// array. That of a page's last item is where the next page continues.
    pub seq: i64,
    /// The item as it was put.
    pub item: QuarantineItem,
    /// Held, or what became of it.
    pub state: State,
    /// Unix time in milliseconds of the last change of state.
    pub changed_ms: i64,
    /// Size of the message in bytes.
    pub size: u64,
    /// The node that has it, in the quarantine of an array; empty in a node's own.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub node: String,
}

impl Held {
    /// What names the item wherever it is held ([`reference`]).
    pub fn reference(&self) -> String {
        reference::join(&self.item.id, &self.node)
    }
}
