//! Held mail as pages of a node in an array show it: that of all nodes, its own as it is now.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use gauntlet_array::SharedQuarantine;
use gauntlet_array::orders::{Order, OrderRow};
use gauntlet_console::{HeldDecision, HeldOrder, NodeError};
use gauntlet_gateway::Node;
use gauntlet_store::StoreError;
use gauntlet_store::quarantine::{
    FolderSummary, Held, HeldMail, HeldPage, HeldQuery, Quarantine, ReleaseRight, split_reference,
};

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
        let Some(held) = self.array.held.as_ref().filter(|_| self.array.state().is_connected)
        else {
            return Ok(None);
        };
        match question(held) {
            Err(StoreError::Remote { message, retry: true }) => {
                tracing::warn!(error = message, "the array's held mail cannot be asked for");
                Ok(None)
            }
            answer => answer.map(Some),
        }
    }

    /// An item of this node's own, as the array would name it.
    fn named(&self, mut held: Held) -> Held {
        held.node.clone_from(&self.name);
        held
    }

    /// Brings a page of the array up to what this node knows better: the states of its own items,
    /// and on the first page those that are not shipped yet.
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
            let own = self.own.search(&newest)?.items;
            let own = own.into_iter().filter(|held| !known.contains(&held.item.id));
            page.items.extend(own.map(|held| self.named(held)));
            page.items.sort_by_key(|held| std::cmp::Reverse(held.item.received_ms));
        }
        Ok(page)
    }

    /// Whether the reference may mean an item of this node; its id.
    fn own_id<'a>(&self, reference: &'a str) -> Option<&'a str> {
        let (id, node) = split_reference(reference);
        node.is_none_or(|node| node == self.name).then_some(id)
    }
}

impl HeldMail for EitherHeld {
    fn search(&self, query: &HeldQuery) -> Result<HeldPage, StoreError> {
        match self.ask(|held| held.search(query))? {
            Some(page) => self.with_own(page, query),
            // A cursor of the array says nothing here.
            None if query.after.is_some() => Ok(HeldPage::default()),
            None => {
                let mut page = Quarantine::search(&self.own, query)?;
                page.items = page.items.into_iter().map(|held| self.named(held)).collect();
                page.next = None;
                Ok(page)
            }
        }
    }

    fn get(&self, reference: &str) -> Result<Option<Held>, StoreError> {
        if let Some(id) = self.own_id(reference)
            && let Some(own) = self.own.get(id)?
        {
            return Ok(Some(self.named(own)));
        }
        Ok(self.ask(|held| held.get(reference))?.flatten())
    }

    fn body(&self, reference: &str) -> Result<Option<Vec<u8>>, StoreError> {
        if let Some(id) = self.own_id(reference)
            && self.own.get(id)?.is_some()
        {
            return self.own.body(id);
        }
        Ok(self.ask(|held| held.body(reference))?.flatten())
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

fn held_order((item, row): (String, OrderRow)) -> HeldOrder {
    HeldOrder {
        order: row.id,
        node: row.node,
        item,
        action: row.kind,
        who: row.who,
        made_ms: row.made_ms,
        done_ms: row.done_ms,
        is_good: row.is_good == Some(true),
        outcome: row.outcome.unwrap_or_default(),
    }
}
