//! Fields of requests that several operations have, or that are many.

use gauntlet_store::record::Outcome;
use gauntlet_verdict::Final;

use super::operation::Kind::{Choice, Choices, Day, Integer, Lines, Number, Text, Texts};
use super::operation::{Field, optional, required};

pub(super) const CLASSES: &[&str] =
    &["ham", "bulk", "suspect", "spam", "phishing", "malware", "unscannable"];
const fn after() -> Field {
    optional("after", Integer(i64::MIN, i64::MAX), "`next` of the page before")
}

pub(super) const fn limit() -> Field {
    optional("limit", Integer(0, 500), "results of a page; 0 takes the default, 50")
}

pub(super) const MESSAGES: &[Field] = &[
    optional("sender", Text, "sender, of envelope or From: a whole address, or `@domain`"),
    optional("recipient", Text, "recipient: a whole address, or `@domain`"),
    optional("domain", Text, "domain of sender or recipient"),
    optional("subject", Text, "words of the subject; `pay*` takes beginnings"),
    optional("message_id", Text, "Message-ID field"),
    optional("id", Text, "id on this node: the reference code of replies"),
    optional("class", Choices(CLASSES), "any of these classes"),
    optional("action", Choice(&Final::NAMES), "disposition of a recipient"),
    optional("outcome", Choice(&Outcome::NAMES), "what became of a delivery"),
    optional("rule", Text, "a rule that hit"),
    optional("policy_rule", Text, "a rule of the policy that matched"),
    optional("client", Text, "address of the client"),
    optional("event", Text, "what happened later, e.g. `released`"),
    optional("since", Day, "received on or after this day (UTC)"),
    optional("until", Day, "received on or before this day (UTC)"),
    optional("score_min", Number, "rule points, at least"),
    after(),
    limit(),
];

pub(super) const WEB: &[Field] = &[
    optional("client", Text, "address of the client as it is logged"),
    optional("user", Text, "login"),
    optional("host", Text, "host; `.example.org` is the domain with all below"),
    optional("text", Text, "part of the URL"),
    optional(
        "outcome",
        Choice(&["passed", "tunnel", "blocked", "failed", "aborted"]),
        "how it ended",
    ),
    optional("rule", Text, "a rule that matched, or what refused the request"),
    optional("category", Text, "category of the URL by its list"),
    optional("reference", Text, "code on a page of ours"),
    optional("since", Day, "on or after this day (UTC)"),
    optional("until", Day, "on or before this day (UTC)"),
    after(),
    limit(),
];

pub(super) const ALERTS: &[Field] = &[
    optional("text", Text, "part of the message"),
    optional("kind", Choice(&["rule", "mail", "file", "url", "content"]), "what it is about"),
    optional("action", Choice(&["allowed", "blocked"]), "what became of the packet or flow"),
    optional("rule", Text, "number of a rule: `2019401` or `1:2019401`"),
    optional("category", Text, "class of the rule, or of the item"),
    optional("address", Text, "address of one of the ends"),
    optional("protocol", Text, "application protocol or transport"),
    optional("since", Day, "on or after this day (UTC)"),
    optional("until", Day, "on or before this day (UTC)"),
    after(),
    limit(),
];

pub(super) const RELEASE: &[Field] = &[
    required("target", Text, "a host, `.domain` with all below, or the beginning of a URL"),
    optional("for", Choice(&["everybody", "client", "user"]), "everybody, if not given"),
    optional("client", Text, "address of the client; that of the request if not given"),
    optional("user", Text, "login; that of the request if not given"),
    optional("hours", Integer(1, 8_760), "for how long; for good if not given"),
    optional("note", Text, "why"),
];

pub(super) const HELD: &[Field] = &[
    optional("folder", Text, "folder"),
    optional(
        "text",
        Text,
        "part of subject, From, envelope sender (not in an array) or recipients",
    ),
    optional("class", Choices(CLASSES), "any of these classes"),
    optional(
        "state",
        Choice(&["held", "releasing", "released", "deleted", "any"]),
        "held, if not given",
    ),
    optional("recipient", Text, "address of a recipient"),
    optional("message", Text, "id of the message in the log"),
    optional("since", Day, "received on or after this day (UTC)"),
    optional("until", Day, "received on or before this day (UTC)"),
    after(),
    limit(),
];

pub(super) const CHANNEL_VERSION: Field =
    required("version", Integer(1, i64::MAX), "number of the version");
pub(super) const REASON: Field = optional("reason", Text, "why, for the record");
pub(super) const DAYS: &[Field] =
    &[optional("days", Integer(1, 100), "the last so many days; 30 if not given")];
pub(super) const REPORT: &[Field] = &[
    optional("days", Integer(1, 100), "whole days (UTC); 7 if not given"),
    optional("until", Day, "the last of them; today if not given"),
];
pub(super) const RIGHTS: &[Field] = &[
    required("role", Choice(ROLES), "what they may do"),
    optional("folders", Texts, "folders a reviewer may decide in; none is all"),
    optional("addresses", Texts, "addresses whose held mail a user may see"),
];
pub(super) const ROLES: &[&str] = &["administrator", "reviewer", "user"];
pub(super) const SCOPES: &[&str] = &[
    "status:read",
    "messages:read",
    "quarantine:read",
    "quarantine:write",
    "policy:read",
    "policy:write",
    "senders:read",
    "senders:write",
    "users:read",
    "users:write",
    "submission:write",
    "queue:read",
    "queue:write",
];
pub(super) const OWN_ADDRESS: Field =
    optional("address", Text, "one of your addresses; the first if not given");
pub(super) const POLICY_TEXT: Field = required("text", Lines, "the policy: TOML");
pub(super) const LEARN: Field = optional("learn", Choice(&["yes"]), "train the classifier, too");
pub(super) const QUEUE_NODE: Field =
    optional("node", Text, "the node of the array whose queue it is; this one if not given");
pub(super) const QUEUE_IDS: &[Field] = &[required("id", Texts, "ids of messages"), QUEUE_NODE];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_that_is_kept_has_the_fields_of_the_list() {
        let listed = MESSAGES.iter().map(|field| field.name).filter(|name| *name != "after");
        assert_eq!(listed.collect::<Vec<_>>(), crate::pages::query_fields::KEPT_FIELDS.as_ref());
    }
}
