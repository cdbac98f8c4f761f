//! The audit log: sign-ins, accounts, decisions about held mail.

use axum::http::StatusCode;
use axum::response::Response;
use gauntlet_store::quarantine::AuditLine;
use maud::{Markup, html};
use serde::Serialize;

use crate::app::App;
use crate::error::RequestError;
use crate::request::RequestContext;
use crate::response;
use crate::text::t;
use crate::{format, layout};

/// Lines of the audit log on the page.
const LINES_MAX: usize = 200;

/// A line of an activity log.
#[derive(Debug, Serialize)]
pub(crate) struct Line {
    /// Name of the node; empty where there is one alone.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) node: String,
    #[serde(flatten)]
    pub(crate) line: AuditLine,
}

/// Lines of one node, which goes without saying.
pub(crate) fn unnamed(lines: Vec<AuditLine>) -> Vec<Line> {
    lines.into_iter().map(|line| Line { node: String::new(), line }).collect()
}

/// The newest actions of users; in an array those of all nodes.
pub(crate) fn newest(app: &App) -> Result<Vec<Line>, RequestError> {
    let node = &app.state.node;
    let mut own = app.state.quarantine.audit_log("", LINES_MAX)?;
    own.extend(app.state.users.audit_log(LINES_MAX)?);
    let others = node.activity_elsewhere(LINES_MAX as u32);
    // Of a node that is alone, or without its array, no name is shown.
    let name = if others.is_empty() { String::new() } else { node.name() };
    let own = own.into_iter().map(|line| Line { node: name.clone(), line });
    let others = others.into_iter().map(|(node, line)| Line { node, line });
    let mut lines: Vec<Line> = own.chain(others).collect();
    lines.sort_by_key(|l| std::cmp::Reverse(l.line.at_ms));
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
pub(crate) fn table(lines: &[Line], with_item: bool) -> Markup {
    let with_node = lines.iter().any(|line| !line.node.is_empty());
    html! {
        table.cards {
            thead { tr {
                th scope="col" { (t("When")) }
                @if with_node { th scope="col" { (t("Node")) } }
                th scope="col" { (t("Who")) } th scope="col" { (t("What")) }
                @if with_item { th scope="col" { (t("Item")) } }
                th scope="col" { (t("More")) }
            } }
            tbody {
                @for Line { node, line } in lines {
                    tr {
                        td data-label=(t("When")) { (format::time(line.at_ms)) }
                        @if with_node { td data-label=(t("Node")) { (format::plain(node)) } }
                        td data-label=(t("Who")) { (format::plain(&line.who)) }
                        td data-label=(t("What")) { (line.action) }
                        @if with_item { td data-label=(t("Item")) { code { (line.item) } } }
                        td data-label=(t("More")) { (format::plain(&line.detail)) }
                    }
                }
                @if lines.is_empty() { tr { td colspan="6" { (t("Nothing yet.")) } } }
            }
        }
    }
}
