//! What the node stands on: clock, resolver, names, certificates, disk, queue.

use axum::http::StatusCode;
use axum::response::Response;
use maud::html;

use super::{overview, tabs};
use crate::app::App;
use crate::error::RequestError;
use crate::request::RequestContext;
use crate::response;
use crate::text::{plural, t};
use crate::{format, layout};

/// `GET /health`.
pub(crate) fn show(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    let node = &app.state.node;
    let found = node.health();
    let count = |health| found.iter().filter(|f| f.health == health).count();
    let (bad, warnings) = (count("bad"), count("odd"));
    let body = html! {
        h1 { (t("Health")) }
        (tabs::tabs("/health"))
        @if bad > 0 {
            p.notice.poor role="alert" {
                (plural(bad as u64, "{} thing is wrong.", "{} things are wrong.")) }
        } @else if warnings > 0 {
            p.notice.poor role="status" { (t("Nothing is wrong; {} to look at.").with(warnings)) }
        } @else {
            p.notice.good role="status" { (t("Everything is in order.")) }
        }
        section.card.flush { table.cards {
            thead { tr { th scope="col" { (t("What")) } th scope="col" { (t("Is")) } th scope="col" { (t("Found")) } } }
            tbody { @for line in &found { tr {
                td data-label=(t("What")) { (line.check) }
                td data-label=(t("Is")) { span class={ "state state-health-" (line.health) } { (t(line.health)) } }
                td data-label=(t("Found")) { (format::plain(&line.text)) }
            } } }
        } }
        section.card { h2 { (t("Disks")) } (overview::disks(&node.disks())) }
    };
    Ok(response::page(StatusCode::OK, layout::page(request, "/health", t("Health"), &body)))
}
