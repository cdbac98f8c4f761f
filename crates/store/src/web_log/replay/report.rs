//! What a replay found.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use serde::Serialize;

use super::super::query::{WebCursor, WebRow};
use super::Decided;

/// Kinds of changes that are told apart; further ones are only counted.
const CHANGES_MAX: usize = 500;
/// Hosts and clients of all changes together that are counted by name.
const NAMES_MAX: usize = 100_000;
/// Hosts and clients of one change in a report.
const TOP: usize = 10;
/// Requests of one change that are shown.
const EXAMPLES_MAX: usize = 10;

/// Result of a replay over the web log.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct WebReplayReport {
    /// Requests of the log in that time.
    pub requests: u64,
    /// If not all were replayed: when the oldest replayed one came, in Unix milliseconds.
    pub reached_ms: Option<i64>,
    /// Requests that ended before the policy was asked, by a setting or an error.
    pub not_asked: u64,
    /// Requests with the same end by the same rule.
    pub same: u64,
    /// Requests with the same end by another rule.
    pub same_by_other_rule: u64,
    /// Requests with another end, or other changes.
    pub different: u64,
    /// Requests whose end is unknown, by the rule that needs what was not kept and the field that
    /// it asks for.
    pub unknown: BTreeMap<String, BTreeMap<String, u64>>,
    /// Rules that ask for what no log has, and the field: they were tried only where they stand
    /// unchanged, or where the rest of their conditions decides.
    pub not_replayable: BTreeMap<String, String>,
    /// The changes, those with most requests first.
    pub changes: Vec<WebChanged>,
    /// Requests of changes beyond those listed.
    pub changes_left_out: u64,
    /// There were more hosts and clients than are counted by name.
    pub names_left_out: bool,
    #[serde(skip)]
    groups: BTreeMap<(Decided, Decided), Group>,
    #[serde(skip)]
    names: usize,
}

/// One kind of change.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct WebChanged {
    /// What was done: `allow`, `block`, `warn` or `redirect`.
    pub was: String,
    /// The rule that decided; empty if none did.
    pub was_rule: String,
    /// What would be done; `allow with other changes` if only what is changed differs.
    pub would_be: String,
    /// The rule that decides now; empty if none does.
    pub rule: String,
    /// Requests.
    pub requests: u64,
    /// Hosts, by requests.
    pub hosts: Vec<WebName>,
    /// Clients, by requests; none if they are not kept.
    pub clients: Vec<WebName>,
    /// The newest.
    pub examples: Vec<WebExample>,
}

/// A host or a client, and how many requests of a change it had.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WebName {
    /// As it is logged.
    pub name: String,
    /// Its requests.
    pub requests: u64,
}

/// A request that would have ended otherwise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WebExample {
    /// Position in the log.
    pub cursor: WebCursor,
    /// Code on the page that the client got; empty if it got none.
    pub reference: String,
    /// When it came, in milliseconds since 1970.
    pub at_ms: i64,
    /// The client, as it is logged.
    pub client: String,
    /// Who logged in.
    pub user: String,
    /// As in `GET`.
    pub method: String,
    /// The URL, as it is logged.
    pub url: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Group {
    requests: u64,
    hosts: BTreeMap<String, u64>,
    clients: BTreeMap<String, u64>,
    examples: Vec<WebExample>,
}

impl WebReplayReport {
    /// Requests whose end is unknown.
    pub fn unknown_requests(&self) -> u64 {
        self.unknown.values().flat_map(BTreeMap::values).sum()
    }

    pub(super) fn add_unknown(&mut self, rule: String, field: &str) {
        *self.unknown.entry(rule).or_default().entry(field.to_owned()).or_default() += 1;
    }

    /// Counts a request that ends so now.
    pub(super) fn add(&mut self, row: &WebRow, was: Decided, mut now: Decided, changes: bool) {
        if was.action == now.action {
            if !changes {
                match was.rule == now.rule {
                    true => self.same += 1,
                    false => self.same_by_other_rule += 1,
                }
                return;
            }
            now.action.push_str(" with other changes");
        }
        self.different += 1;
        let is_full = self.groups.len() >= CHANGES_MAX;
        let group = match self.groups.entry((was, now)) {
            Entry::Vacant(_) if is_full => {
                self.changes_left_out += 1;
                return;
            }
            entry => entry.or_default(),
        };
        let record = &row.record;
        group.requests += 1;
        for (names, name) in
            [(&mut group.hosts, &record.host), (&mut group.clients, &record.client)]
        {
            match names.get_mut(name) {
                Some(count) => *count += 1,
                None if name.is_empty() => {}
                None if self.names >= NAMES_MAX => self.names_left_out = true,
                None => {
                    self.names += 1;
                    names.insert(name.clone(), 1);
                }
            }
        }
        if group.examples.len() < EXAMPLES_MAX {
            group.examples.push(WebExample {
                cursor: row.cursor,
                reference: record.reference.clone(),
                at_ms: record.at_ms,
                client: record.client.clone(),
                user: record.user.clone(),
                method: record.method.clone(),
                url: record.url.clone(),
            });
        }
    }

    /// Sorts what was counted.
    pub(super) fn finish(&mut self) {
        for ((was, now), group) in std::mem::take(&mut self.groups) {
            self.changes.push(WebChanged {
                was: was.action,
                was_rule: was.rule,
                would_be: now.action,
                rule: now.rule,
                requests: group.requests,
                hosts: most(group.hosts),
                clients: most(group.clients),
                examples: group.examples,
            });
        }
        self.names = 0;
        self.changes.sort_by_key(|change| std::cmp::Reverse(change.requests));
    }
}

/// Those with most requests; of equal ones, by name.
fn most(names: BTreeMap<String, u64>) -> Vec<WebName> {
    let name = |(name, requests)| WebName { name, requests };
    let mut all: Vec<WebName> = names.into_iter().map(name).collect();
    all.sort_by_key(|name| std::cmp::Reverse(name.requests));
    all.truncate(TOP);
    all
}
