//! Held mail of other nodes of the array: decided here, done by the node that holds it.

use gauntlet_store::quarantine::{Deletion, Held};
use gauntlet_store::users::Role;
use maud::{Markup, html};

use crate::app::App;
use crate::format;
use crate::layout;
use crate::node::{HeldDecision, HeldOrder, NodeError};
use crate::request::RequestContext;
use crate::text::t;

/// Orders shown on the page of an item.
const SHOWN_MAX: usize = 20;

/// What became of a wish to delete a message.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Deleted {
    /// It is this node's.
    Here(Deletion),
    /// Another node holds it, and has this order.
    Elsewhere(HeldOrder),
}

/// Whether another node holds it.
pub(crate) fn is_elsewhere(app: &App, held: &Held) -> bool {
    !held.node.is_empty() && held.node != app.state.node.name()
}

/// Under which name the audit log of this node has an item: its id if it is held here.
pub(super) fn audited(app: &App, held: &Held) -> String {
    match is_elsewhere(app, held) {
        true => held.reference(),
        false => held.item.id.clone(),
    }
}

/// Has other nodes decide about messages that they hold. What was ordered is in the audit log here;
/// what was done, in that of the node.
pub(crate) fn decide(
    app: &App,
    (who, now_ms): (&str, i64),
    items: &[&Held],
    decision: &HeldDecision<'_>,
) -> Result<Vec<HeldOrder>, NodeError> {
    let named: Vec<(String, String)> =
        items.iter().map(|held| (held.node.clone(), held.item.id.clone())).collect();
    let orders = app.state.node.decide_elsewhere(&named, decision).inspect_err(|error| {
        tracing::error!(%error, "another node could not be told what to do with held mail");
    })?;
    for order in &orders {
        let reference = format!("{}@{}", order.item, order.node);
        let (action, number) = (format!("order {}", order.action), order.order.to_string());
        if let Err(error) = app.state.quarantine.note(now_ms, who, &action, &reference, &number) {
            tracing::error!(%error, reference, "an order could not be noted in the audit log");
        }
    }
    Ok(orders)
}

/// The one order that was given for one item; also one that came too late.
pub(crate) fn decide_one(
    app: &App,
    by: (&str, i64),
    held: &Held,
    decision: &HeldDecision<'_>,
) -> Result<HeldOrder, NodeError> {
    let order = decide(app, by, &[held], decision)?.pop();
    let order = order.ok_or_else(|| NodeError::new("no order was given"))?;
    match order.done_ms.is_some() && !order.is_good && order.was.is_none() {
        true => Err(NodeError::new(format!("{}: {}", order.node, order.outcome))),
        false => Ok(order),
    }
}

/// Orders of other nodes' held mail that are about this item; none for a user, whom they may tell
/// of other recipients.
pub(crate) fn orders_of(app: &App, request: &RequestContext, held: &Held) -> Vec<HeldOrder> {
    if held.node.is_empty() || request.role() == Role::User {
        return Vec::new();
    }
    let mut orders = app.state.node.held_orders();
    orders.retain(|order| order.node == held.node && order.item == held.item.id);
    orders.truncate(SHOWN_MAX);
    orders
}

/// Orders with what came of them.
pub(crate) fn table(orders: &[HeldOrder]) -> Markup {
    html! {
        table.cards {
            thead { tr {
                th scope="col" { (t("Given")) } th scope="col" { (t("Action")) }
                th scope="col" { (t("By")) } th scope="col" { (t("Outcome")) }
            } }
            tbody { @for order in orders { tr {
                td data-label=(t("Given")) { (format::time(order.made_ms)) }
                td data-label=(t("Action")) { (t(&format::spaced(&order.action))) }
                td data-label=(t("By")) { (format::plain(&order.who)) }
                td data-label=(t("Outcome")) { (outcome(order)) }
            } } }
        }
    }
}

fn outcome(order: &HeldOrder) -> Markup {
    match (order.done_ms, order.is_good) {
        (None, _) => html! {
            (layout::state("ordered")) ": "
            (t("{} does it as soon as it takes the order").with(format::plain(&order.node)))
        },
        (Some(at), true) => html! { (format::plain(&order.outcome)) ", " (format::time(at)) },
        (Some(at), false) => html! {
            strong.poor { (format::plain(&order.outcome)) } ", " (format::time(at))
        },
    }
}
