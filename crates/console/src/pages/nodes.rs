//! The nodes of the array: how each is, and how far its log is behind.

use axum::http::StatusCode;
use axum::response::Response;
use maud::{Markup, html};

use super::tabs;
use crate::app::App;
use crate::error::RequestError;
use crate::node::{ArrayNode, ArrayView};
use crate::request::RequestContext;
use crate::response;
use crate::text::{t, translatable};
use crate::{format, layout};

/// A clock that is off by more is shown, in milliseconds.
const CLOCK_OFF_MS: i64 = 5_000;

/// `GET /nodes`.
pub(crate) fn show(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    let array = app.state.node.array();
    let body = html! {
        h1 { (t("Nodes")) }
        (tabs::tabs("/nodes"))
        @match &array {
            None => p.lead { (t("This node is alone: array.database of the configuration is not set.")) },
            Some(array) => (whole(array)),
        }
    };
    Ok(response::page(StatusCode::OK, layout::page(request, "/health", t("Nodes"), &body)))
}

fn whole(array: &ArrayView) -> Markup {
    html! {
        @if !array.connected {
            p.notice.poor role="alert" {
                (t("The array's database cannot be reached. Mail goes on; what nodes log waits on their disks."))
                " " code { (format::plain(&array.error)) }
            }
        }
        p.lead {
            (t("Database {}").with(html! { code { (format::plain(&array.server)) } })) ", "
            @if array.connected { (t("reached since {}").with(format::time(array.since_ms))) }
            @else if array.since_ms > 0 { (t("away since {}").with(format::time(array.since_ms))) }
        }
        section.card.flush { table.cards {
            thead { tr {
                th scope="col" { (t("Node")) } th scope="col" { (t("State")) }
                th scope="col" { (t("Queue")) } th scope="col" { (t("Sessions")) }
                th scope="col" { (t("Log")) } th scope="col" { (t("Policy")) }
                th scope="col" { (t("Version")) } th scope="col" { (t("Seen")) }
            } }
            tbody {
                @for node in &array.nodes { (row(node)) }
                @if array.nodes.is_empty() {
                    tr { td.empty colspan="8" { (t("No node is known.")) } }
                }
            }
        } }
    }
}

/// Since when a node goes by something, if that is known.
fn since(at_ms: i64) -> Markup {
    html! { @if at_ms > 0 { (t(", since {}").with(format::time(at_ms))) } }
}

/// How old the users and lists of a node are.
fn lists(as_of_ms: i64) -> Markup {
    html! {
        div.more {
            @if as_of_ms > 0 { (t("users and lists as of {}").with(format::time(as_of_ms))) }
            @else { (t("no users and lists of other nodes since its start")) }
        }
    }
}

fn row(node: &ArrayNode) -> Markup {
    let states = [
        ("active", translatable("active")),
        ("draining", translatable("takes no new mail")),
        ("silent", translatable("silent")),
        ("removed", translatable("removed")),
    ];
    let state = states.iter().find(|(name, _)| *name == node.state);
    html! {
        tr {
            td data-label=(t("Node")) {
                b { (format::plain(&node.name)) }
                @if !node.group.is_empty() { " " span.more { (format::plain(&node.group)) } }
            }
            td data-label=(t("State")) {
                @match state {
                    Some(("silent", words)) => strong.poor { (t(words)) },
                    Some((_, words)) => (t(words)),
                    None => (format::plain(&node.state)),
                }
            }
            td data-label=(t("Queue")) { (format::count(node.queued)) }
            td data-label=(t("Sessions")) { (format::count(node.sessions)) }
            td data-label=(t("Log")) {
                @match (node.behind, node.behind_since_ms) {
                    (0, _) => (t("complete")),
                    (behind, Some(since)) => {
                        (t("{} changes wait, since {}").with(format::count(behind)).with(format::time(since)))
                    },
                    (behind, None) => (t("{} changes wait").with(format::count(behind))),
                }
            }
            td data-label=(t("Policy")) {
                @if node.policy > 0 { (node.policy) (since(node.policy_since_ms)) }
                @else { (t("its own")) }
                @if !node.policy_error.is_empty() {
                    ", " span.poor title=(format::plain(&node.policy_error)) { (t("a newer one is refused")) }
                }
                @if node.settings > 0 {
                    div.more {
                        (t("settings {}").with(node.settings)) (since(node.settings_since_ms))
                    }
                }
                @if !node.settings_error.is_empty() {
                    div.poor title=(format::plain(&node.settings_error)) { (t("newer settings are refused")) }
                }
                @if let Some(lists_ms) = node.lists_ms { (lists(lists_ms)) }
            }
            td data-label=(t("Version")) { (format::plain(&node.program)) }
            td data-label=(t("Seen")) {
                (format::time(node.seen_ms))
                @if node.clock_ahead_ms.abs() > CLOCK_OFF_MS {
                    ", " span.poor { (t("its clock is off by {} s").with(node.clock_ahead_ms / 1_000)) }
                }
            }
        }
    }
}
