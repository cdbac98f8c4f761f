//! Who did what: sign-ins, people, decisions about held mail.

use axum::http::StatusCode;
use axum::response::Response;
use gauntlet_store::quarantine::AuditLine;
use maud::{Markup, html};

use crate::fault::Fault;
use crate::server::App;
use crate::visit::{self, Visit};
use crate::{format, shell};

/// Lines shown.
const LINES_MAX: usize = 200;

/// The newest things that people did.
pub(crate) fn newest(app: &App) -> Result<Vec<AuditLine>, Fault> {
    let mut lines = app.state.quarantine.audit_log("", LINES_MAX)?;
    lines.extend(app.state.users.audit_log(LINES_MAX)?);
    lines.sort_by_key(|l| std::cmp::Reverse(l.at_ms));
    lines.truncate(LINES_MAX);
    Ok(lines)
}

/// `GET /activity`.
pub(crate) fn show(app: &App, visit: &Visit) -> Result<Response, Fault> {
    let lines = newest(app)?;
    let body = html! {
        h1 { "Activity" }
        (super::manage::tabs("/activity"))
        p.lead { "The newest " (LINES_MAX) " things that people did here." }
        section.card.flush { (table(&lines, true)) }
    };
    Ok(visit::page(StatusCode::OK, &shell::page(visit, "/health", "Activity", &body)))
}

/// Lines of an audit log; with the item's id where they are of many.
pub(crate) fn table(lines: &[AuditLine], with_item: bool) -> Markup {
    html! {
        table.cards {
            thead { tr {
                th scope="col" { "When" } th scope="col" { "Who" } th scope="col" { "What" }
                @if with_item { th scope="col" { "Which" } }
                th scope="col" { "More" }
            } }
            tbody {
                @for line in lines {
                    tr {
                        td data-label="When" { (format::time(line.at_ms)) }
                        td data-label="Who" { (format::plain(&line.who)) }
                        td data-label="What" { (line.action) }
                        @if with_item { td data-label="Which" { code { (line.item) } } }
                        td data-label="More" { (format::plain(&line.detail)) }
                    }
                }
                @if lines.is_empty() { tr { td colspan="5" { "Nothing yet." } } }
            }
        }
    }
}
