//! Held mail as pages of a node in an array show it: that of all nodes, its own as it is now.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use gauntlet_array::SharedQuarantine;
use gauntlet_array::orders::{Order, OrderRow};
use gauntlet_console::{HeldDecision, HeldOrder, NodeError};
use gauntlet_gateway::Node;
use gauntlet_store::quarantine::{
    FolderSummary, Held, HeldMail, HeldPage, HeldQuery, Quarantine, ReleaseRight, State,
};
use gauntlet_store::{StoreError, reference};

use super::member::Membership;

/// How long a page waits for the answers of other nodes.
const ANSWERS_MAX: Duration = Duration::from_secs(4);

/// What pages show: the held mail of the array if it has an object store, else the node's own.
pub(crate) fn held(node: &Node, array: Option<&Arc<Membership>>) -> Arc<dyn HeldMail> {
    let own = node.quarantine.clone();
    match array.filter(|array| array.held.is_some()) {
        Some(array) => {
            let name = node.config().node.host_name();
            Arc::new(EitherHeld { array: array.clone(), own, name })
        }
        None => own,
    }
}

/// The array's held mail while its database is there; this node's own always.
struct EitherHeld {
    array: Arc<Membership>,
    own: Arc<Quarantine>,
    /// Name of this node.
    name: String,
}

impl EitherHeld {
    /// Asks the array; none if it cannot be asked.
    fn ask<T>(
        &self,
        question: impl FnOnce(&SharedQuarantine) -> Result<T, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        match &self.array.held {
            Some(held) => self.array.answer("held mail", || question(held)),
            None => Ok(None),
        }
    }

    /// An item of this node's own, as the array would name it.
    fn named(&self, mut held: Held) -> Held {
        held.node.clone_from(&self.name);
        held
    }

    /// Brings a page of the array up to what this node knows better: the states of its own items,
    /// and on the first page those that are not shipped yet. The array's order is by
    /// seconds, so what is newer than this page's last may be on a later one.
    fn with_own(&self, mut page: HeldPage, query: &HeldQuery) -> Result<HeldPage, StoreError> {
        let mut known = BTreeSet::new();
        for held in page.items.iter_mut().filter(|held| held.node == self.name) {
            if let Some(own) = self.own.get(&held.item.id)? {
                (held.state, held.changed_ms) = (own.state, own.changed_ms);
            }
            known.insert(held.item.id.clone());
        }
        page.items.retain(|held| query.state.is_none_or(|state| held.state == state));
        if query.after.is_none() {
            // Of a page that is followed by another one, what is older may be on that.
            let oldest = page.items.last().filter(|_| page.next.is_some());
            let since_ms = oldest.map(|held| held.item.received_ms);
            let newest = HeldQuery { since_ms: query.since_ms.max(since_ms), ..query.clone() };
            let mut own = self.own.search(&newest)?.items;
            own.retain(|held| !known.contains(&held.item.id));
            let ids: Vec<String> = own.iter().map(|held| held.item.id.clone()).collect();
            if page.next.is_some() && !ids.is_empty() {
                let later = self.ask(|array| array.known_among(&self.name, &ids))?;
                let later = later.unwrap_or_default();
                own.retain(|held| !later.contains(&held.item.id));
            }
            page.items.extend(own.into_iter().map(|held| self.named(held)));
            page.items.sort_by_key(|held| std::cmp::Reverse(held.item.received_ms));
        }
        Ok(page)
    }

    /// A page of this node's own items, while the array cannot be asked. Its cursors are below 0,
    /// those of the array above.
    fn own_page(&self, query: &HeldQuery) -> Result<HeldPage, StoreError> {
        let turned = |cursor: i64| -1 - cursor;
        let query = HeldQuery { after: query.after.map(turned), ..query.clone() };
        let HeldPage { items, next } = Quarantine::search(&self.own, &query)?;
        let items = items.into_iter().map(|held| self.named(held)).collect();
        Ok(HeldPage { items, next: next.map(turned) })
    }

    /// Whether the reference may mean an item of this node; its id.
    fn own_id<'a>(&self, reference: &'a str) -> Option<&'a str> {
        let (id, node) = reference::split(reference);
        node.is_none_or(|node| node == self.name).then_some(id)
    }
}

/// What only the array knows is asked for while it is away.
fn away() -> StoreError {
    StoreError::Remote {
        message: "the database of the array does not answer, and this node holds no such mail"
            .to_owned(),
        retry: true,
    }
}

impl HeldMail for EitherHeld {
    fn search(&self, query: &HeldQuery) -> Result<HeldPage, StoreError> {
        if query.after.is_some_and(|after| after < 0) {
            return self.own_page(query);
        }
        match self.ask(|held| held.search(query))? {
            Some(page) => self.with_own(page, query),
            // A cursor of the array says nothing here.
            None if query.after.is_some() => Err(away()),
            None => self.own_page(query),
        }
    }

    fn get(&self, reference: &str) -> Result<Option<Held>, StoreError> {
        if let Some(id) = self.own_id(reference)
            && let Some(own) = self.own.get(id)?
        {
            return Ok(Some(self.named(own)));
        }
        self.ask(|held| held.get(reference))?.ok_or_else(away)
    }

    fn get_all(&self, references: &[&str]) -> Result<Vec<Option<Held>>, StoreError> {
        let mut found = Vec::new();
        for reference in references {
            let own = self.own_id(reference).map_or(Ok(None), |id| self.own.get(id))?;
            found.push(own.map(|held| self.named(held)));
        }
        let all = references.iter().zip(&found);
        let missing: Vec<&str> =
            all.filter(|(_, own)| own.is_none()).map(|(reference, _)| *reference).collect();
        if !missing.is_empty() {
            let others = self.ask(|held| held.get_all(&missing))?.ok_or_else(away)?;
            let places = found.iter_mut().filter(|place| place.is_none());
            places.zip(others).for_each(|(place, other)| *place = other);
        }
        Ok(found)
    }

    fn body(&self, reference: &str) -> Result<Option<Vec<u8>>, StoreError> {
        if let Some(id) = self.own_id(reference)
            && self.own.get(id)?.is_some()
        {
            return self.own.body(id);
        }
        self.ask(|held| held.body(reference))?.ok_or_else(away)
    }

    fn folders(&self) -> Result<Vec<FolderSummary>, StoreError> {
        match self.ask(|held| held.folders())? {
            Some(folders) => Ok(folders),
            None => self.own.folders(),
        }
    }

    fn recipients_with_held(&self, after: &str, limit: usize) -> Result<Vec<String>, StoreError> {
        match self.ask(|held| held.recipients_with_held(after, limit))? {
            Some(recipients) => Ok(recipients),
            None => self.own.recipients_with_held(after, limit),
        }
    }
}

/// Orders other nodes to decide about their held mail; waits some seconds for the answers.
pub(crate) fn decide(
    array: &Membership,
    items: &[(String, String)],
    decision: &HeldDecision<'_>,
) -> Result<Vec<HeldOrder>, NodeError> {
    let none = || NodeError::new("array.objects is not set: held mail stays on its node");
    let held = array.held.as_ref().ok_or_else(none)?;
    let mut wanted = Vec::new();
    for (node, item) in items {
        let item = item.clone();
        match decision {
            HeldDecision::Release(order) => {
                let addresses = match &order.right {
                    ReleaseRight::Admin => None,
                    ReleaseRight::Recipient(addresses) => Some(addresses.clone()),
                };
                let (to, learn) = (order.to.clone(), order.learn);
                wanted.push((node.clone(), Order::Release { item, to, learn, addresses }));
            }
            HeldDecision::Delete { learn, .. } => {
                if *learn {
                    // Nodes carry orders out in their order.
                    wanted.push((node.clone(), Order::Learn { item: item.clone(), spam: true }));
                }
                wanted.push((node.clone(), Order::Delete { item }));
            }
        }
    }
    let who = match decision {
        HeldDecision::Release(order) => order.who.as_str(),
        HeldDecision::Delete { who, .. } => who,
    };
    let rows = held.give(&wanted, who, ANSWERS_MAX).map_err(NodeError::new)?;
    let about = wanted.iter().filter_map(|(_, order)| order.item().map(str::to_owned));
    let orders = about.zip(rows).map(held_order);
    Ok(orders.filter(|order| order.action != "learn").collect())
}

/// The last orders about held mail, newest first; none while the database is away.
pub(crate) fn orders(array: &Membership) -> Vec<HeldOrder> {
    let held = array.held.as_ref().filter(|_| array.state().is_connected);
    match held.map(|held| held.orders()) {
        Some(Ok(orders)) => orders.into_iter().map(held_order).collect(),
        Some(Err(error)) => {
            tracing::warn!(%error, "orders about held mail cannot be read");
            Vec::new()
        }
        None => Vec::new(),
    }
}

/// What an order found that came too late, by the words in which nodes answer it
/// (`src/array/running.rs`).
fn decided_before(outcome: &str) -> Option<State> {
    let word = outcome.strip_prefix("it was ").and_then(|rest| rest.strip_suffix(" before"));
    let word = word.or_else(|| outcome.strip_prefix("it is ")?.strip_suffix(" already"))?;
    [State::Releasing, State::Released, State::Deleted].into_iter().find(|s| s.name() == word)
}

fn held_order((item, row): (String, OrderRow)) -> HeldOrder {
    let outcome = row.outcome.unwrap_or_default();
    HeldOrder {
        order: row.id,
        node: row.node,
        item,
        action: row.kind,
        who: row.who,
        made_ms: row.made_ms,
        done_ms: row.done_ms,
        is_good: row.is_good == Some(true),
        was: decided_before(&outcome),
        outcome,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_that_came_too_late_is_told_from_one_that_was_done() {
        assert_eq!(decided_before("it was released before"), Some(State::Released));
        assert_eq!(decided_before("it is deleted already"), Some(State::Deleted));
        for done in ["released to bob@example.net", "deleted", "", "it is lost already"] {
            assert_eq!(decided_before(done), None, "{done}");
        }
    }
}
