//! The effective configuration, and where each value comes from.

use axum::http::StatusCode;
use axum::response::Response;
use maud::html;

use super::tabs;
use crate::app::App;
use crate::error::RequestError;
use crate::request::RequestContext;
use crate::response;
use crate::text::t;
use crate::{format, layout};

/// `GET /settings`.
pub(crate) fn show(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    let all = app.state.node.settings();
    let changed = all.iter().filter(|s| s.origin != "default").count();
    let word = request.field("name").to_lowercase();
    let only = request.field("only") == "changed";
    let fits = |s: &&crate::node::EffectiveSetting| {
        s.key.to_lowercase().contains(&word) && (!only || s.origin != "default")
    };
    let body = html! {
        h1 { (t("Settings")) }
        (tabs::tabs("/settings"))
        p.lead { (t("{} settings are in effect; {} of them differ in origin from the defaults. They are changed in the file or the environment, and read again at SIGHUP. Secrets are not shown.").with(all.len()).with(changed)) }
        form.filter.card method="get" action="/settings" role="search" {
            div.fields { (layout::input("name", t("Part of the name"), request.field("name"), "search", "console.")) }
            label.check { input type="checkbox" name="only" value="changed" checked[only];
                span { (t("Only what is not the default")) } }
            div.actions { button.main type="submit" { (t("Show")) } }
        }
        section.card.flush { table.cards {
            thead { tr { th scope="col" { (t("Setting")) } th scope="col" { (t("Value")) } th scope="col" { (t("From")) } } }
            tbody {
                @for setting in all.iter().filter(fits) { tr {
                    td data-label=(t("Setting")) { code { (setting.key) } }
                    td data-label=(t("Value")) { code { (format::plain(&setting.value)) } }
                    td data-label=(t("From")) {
                        @if setting.origin == "default" { span.more { (t("default")) } }
                        @else { b { (format::plain(&setting.origin)) } } }
                } }
                @if !all.iter().any(|s| fits(&s)) { tr { td.empty colspan="3" { (t("No setting fits.")) } } }
            }
        } }
    };
    Ok(response::page(StatusCode::OK, layout::page(request, "/health", t("Settings"), &body)))
}
