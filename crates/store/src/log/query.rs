//! Queries and results of a search.

use gauntlet_verdict::Class;
use serde::{Deserialize, Serialize};

use crate::record::{Event, LogRecord, Outcome};
use crate::reference;

/// Which messages to find. Every field that is set must match; text is case-insensitive.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Query {
    /// Address of the sender, in the envelope or the From field; or `@domain`. See
    /// [`check_address`].
    pub sender: String,
    /// Address of a recipient, or `@domain`.
    pub recipient: String,
    /// Domain of the sender or of a recipient.
    pub domain: String,
    /// Words of the subject, all of them, in any order; `pay*` takes those that begin so. A text
    /// without a letter or digit, as `*` alone, finds nothing.
    pub subject: String,
    /// Message-ID, with or without angle brackets.
    pub message_id: String,
    /// Id of the message: the reference code of replies.
    pub id: String,
    /// Any of these classes; empty is all.
    pub classes: Vec<Class>,
    /// Name of a final disposition of a recipient, e.g. `quarantine`.
    pub action: String,
    /// A rule of the engine that matched.
    pub rule: String,
    /// A rule of the policy that matched.
    pub policy_rule: String,
    /// IP address of the SMTP client.
    pub client: String,
    /// A delivery status that occurred, e.g. `queued`, `failed`: the name of an [`Outcome`].
    pub outcome: String,
    /// A kind of event that occurred, e.g. `released`.
    pub event: String,
    /// Received at or after this Unix time in milliseconds.
    pub since_ms: Option<i64>,
    /// Received before this Unix time in milliseconds.
    pub until_ms: Option<i64>,
    /// Least score that is found; none for any.
    pub score_min: Option<f64>,
    /// Continue after this message of the previous page.
    pub after: Option<Cursor>,
    /// Messages of a page, at most 500; 0 is 50.
    pub limit: usize,
}

/// Refuses a sender or recipient that a search cannot find: the index has whole addresses and
/// domains. An address alone has no domain: that of the postmaster (RFC 5321, section 4.5.1).
///
/// # Errors
/// What is understood.
pub fn check_address(text: &str) -> Result<(), String> {
    let text = text.trim();
    let has_domain = text.rsplit_once('@').is_some_and(|(_, domain)| !domain.is_empty());
    if has_domain || ["", "<>"].contains(&text) || text.eq_ignore_ascii_case("postmaster") {
        return Ok(());
    }
    Err(format!(
        "{text:?} has no domain, and names alone are not searched; write a whole address \
         (name@example.com), @example.com for all of a domain, or <> for no sender"
    ))
}

/// Which recipients of a message a query is about.
#[derive(Debug, Clone, Default)]
pub(super) struct Wanted {
    recipient: String,
    action: String,
    outcome: String,
}

impl Wanted {
    pub(super) fn of(query: &Query) -> Self {
        let of = |text: &str| text.trim().to_ascii_lowercase();
        let [recipient, action, outcome] = [&query.recipient, &query.action, &query.outcome];
        Wanted { recipient: of(recipient), action: of(action), outcome: of(outcome) }
    }

    /// How many recipients are to be read for `most` that are shown.
    pub(super) fn read(&self, most: usize) -> usize {
        let is_for_all =
            self.recipient.is_empty() && self.action.is_empty() && self.outcome.is_empty();
        if is_for_all { most } else { usize::MAX }
    }

    /// Puts those first that are asked for, and keeps `most`.
    pub(super) fn keep(&self, recipients: &mut Vec<RecipientSummary>, most: usize) {
        recipients.sort_by_key(|recipient| !self.is(recipient));
        recipients.truncate(most);
    }

    fn is(&self, found: &RecipientSummary) -> bool {
        let address = found.recipient.to_ascii_lowercase();
        let is_address = match self.recipient.strip_prefix('@') {
            Some(domain) => address.rsplit_once('@').is_some_and(|(_, own)| own == domain),
            None => self.recipient.is_empty() || address == self.recipient,
        };
        is_address
            && (self.action.is_empty() || self.action == found.action)
            && (self.outcome.is_empty()
                || found.outcome.is_some_and(|outcome| outcome.name() == self.outcome))
    }
}

/// Position in the log, between two messages. Ordered by time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Cursor(pub i64);

/// Disposition and delivery for one recipient.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecipientSummary {
    /// Address of the recipient.
    pub recipient: String,
    /// Name of the final disposition.
    pub action: String,
    /// Status of its delivery, if there is one.
    pub outcome: Option<Outcome>,
}

/// One message of a result list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Position in the log; that of a page's last message is where the next page continues.
    pub cursor: Cursor,
    /// Id of the message.
    pub id: String,
    /// Unix time in milliseconds at which it was received.
    pub received_ms: i64,
    /// Class of the verdict.
    pub class: Class,
    /// Score of the rules.
    pub score: f64,
    /// Size of the message in bytes.
    pub size: u64,
    /// The From field, else the envelope sender.
    pub from: String,
    /// The Subject, encoded words (RFC 2047) decoded.
    pub subject: String,
    /// Three recipients: those first that the query asks for, by address, action or outcome.
    pub recipients: Vec<RecipientSummary>,
    /// Number of all recipients.
    pub recipients_count: u64,
    /// The node that has it, in the log of an array; empty in a node's own.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub node: String,
}

impl Summary {
    /// What names the message wherever it is logged ([`reference`]).
    pub fn reference(&self) -> String {
        reference::join(&self.id, &self.node)
    }
}

/// A page of a search, newest message first.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Page {
    /// At most [`Query::limit`] messages, newest first.
    pub messages: Vec<Summary>,
    /// Where the next page continues; none on the last.
    pub next: Option<Cursor>,
}

/// A message of the log, with all that is kept.
#[derive(Debug, Clone, PartialEq)]
pub struct LoggedMessage {
    /// Position in the log.
    pub cursor: Cursor,
    /// The logged record, with the newest delivery states.
    pub record: LogRecord,
    /// Events after it was logged, in order of time.
    pub events: Vec<Event>,
    /// The node that has it, in the log of an array; empty in a node's own.
    pub node: String,
}

impl LoggedMessage {
    /// What names the message wherever it is logged ([`reference`]).
    pub fn reference(&self) -> String {
        reference::join(&self.record.id, &self.node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_without_a_domain_is_refused_with_what_is_understood() {
        for good in
            ["", "<>", "ann@example.com", " @example.com ", "Postmaster", "\"a@b\"@c.example"]
        {
            assert_eq!(check_address(good), Ok(()), "{good}");
        }
        for bad in ["x@", "ann", "@", "*"] {
            let why = check_address(bad).unwrap_err();
            assert!(why.contains(bad) && why.contains("@example.com"), "{why}");
        }
    }
}
