//! The audit log: sign-ins, accounts, decisions about held mail.

use axum::http::StatusCode;
use axum::response::Response;
use gauntlet_store::quarantine::AuditLine;
use maud::{Markup, html};

use crate::app::App;
use crate::error::RequestError;
use crate::request::RequestContext;
use crate::response;
use crate::text::t;
use crate::{format, layout};

/// Lines of the audit log on the page.
const LINES_MAX: usize = 200;

/// The newest actions of users.
pub(crate) fn newest(app: &App) -> Result<Vec<AuditLine>, RequestError> {
    let mut lines = app.state.quarantine.audit_log("", LINES_MAX)?;
    lines.extend(app.state.users.audit_log(LINES_MAX)?);
    lines.sort_by_key(|l| std::cmp::Reverse(l.at_ms));
    lines.truncate(LINES_MAX);
    Ok(lines)
}

/// `GET /activity`.
pub(crate) fn show(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    let lines = newest(app)?;
    let body = html! {
        h1 { (t("Activity")) }
        (super::tabs::tabs("/activity"))
        p.lead { (t("The newest {} actions of users.").with(LINES_MAX)) }
        section.card.flush { (table(&lines, true)) }
    };
    Ok(response::page(StatusCode::OK, layout::page(request, "/health", t("Activity"), &body)))
}

/// Lines of an audit log; with the item's id where they are of many.
pub(crate) fn table(lines: &[AuditLine], with_item: bool) -> Markup {
    html! {
        table.cards {
            thead { tr {
                th scope="col" { (t("When")) } th scope="col" { (t("Who")) } th scope="col" { (t("What")) }
                @if with_item { th scope="col" { (t("Item")) } }
                th scope="col" { (t("More")) }
            } }
            tbody {
                @for line in lines {
                    tr {
                        td data-label=(t("When")) { (format::time(line.at_ms)) }
                        td data-label=(t("Who")) { (format::plain(&line.who)) }
                        td data-label=(t("What")) { (line.action) }
                        @if with_item { td data-label=(t("Item")) { code { (line.item) } } }
                        td data-label=(t("More")) { (format::plain(&line.detail)) }
                    }
                }
                @if lines.is_empty() { tr { td colspan="5" { (t("Nothing yet.")) } } }
            }
        }
    }
}
