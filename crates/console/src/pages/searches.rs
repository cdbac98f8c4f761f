//! Searches that are kept by a name.

use axum::response::Response;
use gauntlet_store::users::SavedSearch;
use maud::{Markup, html};

use crate::app::App;
use crate::error::RequestError;
use crate::request::RequestContext;
use crate::response;
use crate::text::{t, translatable};
use crate::{format, layout};

/// The kept searches as links, and a field to keep the one that is shown.
pub(super) fn bar(app: &App, request: &RequestContext) -> Result<Markup, RequestError> {
    let all = app.state.users.searches(request.login())?;
    let now = layout::kept(request);
    Ok(html! {
        @if !all.is_empty() {
            nav.tabs aria-label=(t("Saved searches")) {
                @for search in &all {
                    a href={ "/messages?" (search.query) }
                        aria-current=[(search.query == now).then_some("true")] {
                        (format::plain(&search.name))
                        @if search.login != request.login() { span.count { (format::plain(&search.login)) } }
                    }
                }
            }
        }
        @if !now.is_empty() { (form(request, &all, &now)) }
    })
}

fn form(request: &RequestContext, all: &[SavedSearch], now: &str) -> Markup {
    let own = all.iter().find(|s| s.query == now && s.login == request.login());
    html! {
        details.places {
            summary { (t("Save this search")) }
            form method="post" action="/messages/searches" {
                (layout::token(request))
                input type="hidden" name="query" value=(now);
                (layout::input("name", t("Name"), own.map_or("", |s| s.name.as_str()), "text", t("Spam of our bank")))
                label.check { input type="checkbox" name="shared" value="yes"
                    checked[own.is_some_and(|s| s.shared)]; span { (t("Shared with other users")) } }
                div.actions {
                    button.main type="submit" name="do" value="save" { (t("Keep")) }
                    @if own.is_some() { button.danger type="submit" name="do" value="remove" { (t("Forget")) } }
                }
            }
        }
    }
}

/// `POST /messages/searches`: `do`: save or remove.
pub(crate) fn change(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    let (users, name, query) = (&app.state.users, request.field("name"), request.field("query"));
    match request.field("do") {
        "save" => {
            let search = SavedSearch {
                login: request.login().to_owned(),
                name: name.to_owned(),
                query: clean(query),
                shared: request.field("shared") == "yes",
            };
            users.save_search(&search, request.now_ms)?;
            Ok(response::redirect(&format!("/messages?{}", search.query)))
        }
        "remove" => {
            if !users.remove_search(request.login(), name)? {
                return Err(RequestError::NotFound(translatable(
                    "There is no saved search of this name.",
                )));
            }
            Ok(response::redirect("/messages"))
        }
        _ => Err(RequestError::Bad(translatable("do: save or remove").to_owned())),
    }
}

/// A query of pairs and nothing else: it becomes part of an address.
pub(crate) fn clean(query: &str) -> String {
    let fits = |c: &char| c.is_ascii_alphanumeric() || "-._~%=&+".contains(*c);
    query.chars().filter(fits).collect()
}
