//! What the node stands on: clock, resolver, names, certificates, disk, queue.

use axum::http::StatusCode;
use axum::response::Response;
use maud::html;

use super::{manage, overview};
use crate::fault::Fault;
use crate::server::App;
use crate::visit::{self, Visit};
use crate::{format, shell};

/// `GET /health`.
pub(crate) fn show(app: &App, visit: &Visit) -> Result<Response, Fault> {
    let node = &app.state.node;
    let found = node.health();
    let count = |health| found.iter().filter(|f| f.health == health).count();
    let (bad, odd) = (count("bad"), count("odd"));
    let body = html! {
        h1 { "Health" }
        (manage::tabs("/health"))
        @if bad > 0 {
            p.notice.poor role="alert" { (bad) @if bad == 1 { " thing is" } @else { " things are" }
                " wrong." }
        } @else if odd > 0 {
            p.notice.poor role="status" { "Nothing is wrong; " (odd) " to look at." }
        } @else {
            p.notice.good role="status" { "Everything is in order." }
        }
        section.card.flush { table.cards {
            thead { tr { th scope="col" { "What" } th scope="col" { "Is" } th scope="col" { "Found" } } }
            tbody { @for line in &found { tr {
                td data-label="What" { (line.check) }
                td data-label="Is" { span class={ "state state-health-" (line.health) } { (line.health) } }
                td data-label="Found" { (format::plain(&line.text)) }
            } } }
        } }
        section.card { h2 { "Disks" } (overview::disks(&node.disks())) }
    };
    Ok(visit::page(StatusCode::OK, &shell::page(visit, "/health", "Health", &body)))
}
