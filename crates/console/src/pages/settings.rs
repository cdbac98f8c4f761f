//! The effective configuration, and where each value comes from.

use axum::http::StatusCode;
use axum::response::Response;
use maud::html;

use super::manage;
use crate::fault::Fault;
use crate::server::App;
use crate::visit::{self, Visit};
use crate::{format, shell};

/// `GET /settings`.
pub(crate) fn show(app: &App, visit: &Visit) -> Result<Response, Fault> {
    let all = app.state.node.settings();
    let changed = all.iter().filter(|s| s.origin != "default").count();
    let word = visit.field("name").to_lowercase();
    let only = visit.field("only") == "changed";
    let fits = |s: &&crate::node::SettingLine| {
        s.key.to_lowercase().contains(&word) && (!only || s.origin != "default")
    };
    let body = html! {
        h1 { "Settings" }
        (manage::tabs("/settings"))
        p.lead { (all.len()) " settings are in effect; " (changed) " of them differ in origin from the \
            defaults. They are changed in the file or the environment, and read again at SIGHUP. \
            Secrets are not shown." }
        form.filter.card method="get" action="/settings" role="search" {
            div.fields { (shell::input("name", "Part of the name", visit.field("name"), "search", "console.")) }
            label.check { input type="checkbox" name="only" value="changed" checked[only];
                span { "Only what is not the default" } }
            div.actions { button.main type="submit" { "Show" } }
        }
        section.card.flush { table.cards {
            thead { tr { th scope="col" { "Setting" } th scope="col" { "Value" } th scope="col" { "From" } } }
            tbody {
                @for setting in all.iter().filter(fits) { tr {
                    td data-label="Setting" { code { (setting.key) } }
                    td data-label="Value" { code { (format::plain(&setting.value)) } }
                    td data-label="From" {
                        @if setting.origin == "default" { span.more { "default" } }
                        @else { b { (format::plain(&setting.origin)) } } }
                } }
                @if !all.iter().any(|s| fits(&s)) { tr { td.empty colspan="3" { "No setting fits." } } }
            }
        } }
    };
    Ok(visit::page(StatusCode::OK, &shell::page(visit, "/health", "Settings", &body)))
}
