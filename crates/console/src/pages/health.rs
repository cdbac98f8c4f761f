//! Checks of what the node depends on: clock, resolver, names, certificates, disk, queue.

use axum::http::StatusCode;
use axum::response::Response;
use maud::html;

use super::{overview, tabs};
use crate::app::App;
use crate::error::RequestError;
use crate::request::RequestContext;
use crate::response;
use crate::text::{plural, t, translatable};
use crate::{format, layout};

/// `GET /health`.
pub(crate) fn show(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    let node = &app.state.node;
    let checks = node.health();
    let count = |status| checks.iter().filter(|check| check.status == status).count();
    let (errors, warnings) = (count("error"), count("warning"));
    let body = html! {
        h1 { (t("Health")) }
        (tabs::tabs("/health"))
        @if errors > 0 {
            p.notice.poor role="alert" {
                (plural(errors as u64, "{} check failed.", "{} checks failed.")) }
        } @else if warnings > 0 {
            p.notice.poor role="status" {
                (plural(warnings as u64, "No errors, {} warning.", "No errors, {} warnings.")) }
        } @else {
            p.notice.good role="status" { (t("All checks passed.")) }
        }
        section.card.flush { table.cards {
            thead { tr {
                th scope="col" { (t("Check")) } th scope="col" { (t("Status")) }
                th scope="col" { (t("Detail")) }
            } }
            tbody { @for check in &checks { tr {
                td data-label=(t("Check")) { (check.check) }
                td data-label=(t("Status")) {
                    span class={ "state state-health-" (check.status) } { (t(status(check.status))) } }
                td data-label=(t("Detail")) { (format::plain(&check.text)) }
            } } }
        } }
        section.card { h2 { (t("Disks")) } (overview::disks(&node.disks())) }
    };
    Ok(response::page(StatusCode::OK, layout::page(request, "/health", t("Health"), &body)))
}

/// What pages call a check's result; the API has it as `gauntlet doctor` prints it.
fn status(status: &str) -> &'static str {
    match status {
        "ok" => translatable("OK"),
        "warning" => translatable("warning"),
        _ => translatable("error"),
    }
}
